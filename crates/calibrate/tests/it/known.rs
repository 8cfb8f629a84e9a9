//! Devices whose parameters are known: models in virtual time, whose fields differ from those of
//! the template that the fit begins from.

use base::Nanos;
use blockdev::Model;
use ctrl::Profile;
use varve_calibrate::{Effort, Fit, Plan, Seen, Virtual, Wanted, fit, measure};

const AREA: u64 = 64 << 20;

/// What is seen of a profile's device.
pub fn seen(device: &str, bytes: u64) -> Seen {
    let model = Profile::parse(device)
        .unwrap()
        .build(Some(bytes), None)
        .unwrap();
    let wanted = Wanted {
        area: AREA,
        depth: true,
        durable: true,
        discard: true,
    };
    let plan = Plan::of(model.caps(), wanted);
    let effort = Effort {
        area: AREA,
        repeats: 15,
        budget: Nanos::from_millis(10_000),
        seed: 7,
    };
    measure(&mut Virtual::new(model), &plan, &effort, &mut |_| true).unwrap()
}

/// Fits the built-in profile `template` to a device of it with `changes`, and checks that each of
/// the changed fields is found within a tenth. Answers with the fit.
fn finds(template: &str, changes: &[(&str, f64)], bytes: u64) -> Fit {
    let device = changes
        .iter()
        .fold(template.to_string(), |text, (field, value)| {
            format!("{text},{field}={value}")
        });
    let text = Profile::text_of(template).unwrap();
    let fit = fit(&text, &[], &seen(&device, bytes)).unwrap();
    for (field, want) in changes {
        let found = fit.fitted.iter().find(|f| f.field == *field);
        let found = found.unwrap_or_else(|| panic!("{field} was not found: {:?}", fit.assumed));
        let off = found.value / want - 1.0;
        assert!(
            off.abs() < 0.1,
            "{field}: {:.3}, it is {want} ({:+.1} %)",
            found.value,
            off * 100.0
        );
    }
    fit
}

#[test]
fn a_medium_without_chips() {
    finds(
        "loop-like",
        &[
            ("timing.buffered-file.request_us", 85.0),
            ("timing.buffered-file.per_kib_us", 1.9),
            ("timing.buffered-file.flush_us", 2300.0),
            ("timing.buffered-file.flush_per_kib_us", 4.1),
        ],
        256 << 20,
    );
}

#[test]
fn an_emmc() {
    finds(
        "emmc-odroid-xu4",
        &[
            ("card.cache_kib", 2048.0),
            ("timing.fig8.bus_us_per_kib", 6.5),
            ("timing.fig8.write_us", 190.0),
            ("timing.fig8.random_us", 640.0),
            ("timing.fig8.read_us", 55.0),
            ("nand.timing.bus_ns_per_byte", 9.0),
            ("timing.fig8.program_us_per_kib", 31.0),
            ("timing.fig8.reliable_us", 333.0),
            ("timing.fig8.reliable_us_per_kib", 9.0),
            ("timing.fig8.flush_us", 1250.0),
            ("timing.fig8.flush_idle_us", 150.0),
            ("timing.fig8.packed_us", 210.0),
            ("timing.fig8.erase_us", 420.0),
        ],
        256 << 20,
    );
}

#[test]
fn a_drive_of_nvme() {
    finds(
        "nvme-980pro",
        &[
            ("timing.datasheet.request_us", 13.0),
            ("timing.datasheet.link_us_per_kib", 0.31),
            ("timing.datasheet.read_us", 9.0),
            ("nand.timing.bus_ns_per_byte", 1.5),
            ("timing.datasheet.write_us", 7.0),
            ("timing.datasheet.accept_us", 11.0),
            ("timing.datasheet.fua_us", 900.0),
            ("timing.datasheet.flush_us", 1100.0),
            ("timing.datasheet.flush_idle_us", 31.0),
            ("timing.datasheet.deallocate_us", 44.0),
        ],
        2 << 30,
    );
}

#[test]
fn raw_flash() {
    finds(
        "raw-mlc",
        &[
            ("timing.datasheet.request_us", 44.0),
            ("timing.datasheet.bus_us_per_kib", 4.0),
        ],
        256 << 20,
    );
}

#[test]
fn flash_without_a_cache() {
    finds(
        "nandsim-2007",
        &[
            ("timing.nandsim.request_us", 24.0),
            ("timing.nandsim.bus_us_per_kib", 6.0),
            ("nand.timing.read_us", 40.0),
            ("nand.timing.program_us", 240.0),
        ],
        128 << 20,
    );
}

#[test]
fn storage_of_a_phone() {
    finds(
        "ufs-generic",
        &[
            ("timing.published.write_us", 30.0),
            ("timing.published.request_us", 33.0),
            ("timing.published.read_us", 26.0),
            ("timing.published.flush_us", 800.0),
            ("timing.published.flush_idle_us", 48.0),
            ("timing.published.fua_us", 700.0),
            ("timing.published.link_us_per_kib", 1.9),
        ],
        2 << 30,
    );
}
