//! A host that flushes after every unit, on a device that is nearly full: pads, collection and
//! checkpoints together.

use crate::common;
use base::{Rng, Time};
use common::{TIMING, fresh};
use varve_ftl::nand::{Geometry, Nand, Pairing};
use varve_ftl::{Config, Ftl};

/// 16 KiB pages of four units, as on an eMMC; one block holds 64 units.
const PAGES: Geometry = Geometry {
    channels: 1,
    dies_per_channel: 2,
    planes: 1,
    blocks_per_plane: 0,
    pages_per_block: 16,
    page_bytes: 16384,
    spare_bytes: 128,
    nop: 1,
    endurance: 10_000_000,
    pairing: Pairing::None,
};

/// 48 MiB in units of 4 KiB; `spare` blocks more than the least that the layout accepts.
fn tight(spare: u32) -> (Geometry, Config) {
    let config = Config {
        unit_bytes: 4096,
        units: 48 << 8,
        lanes: 2,
        gc_slack: 2,
        checkpoint_blocks: 64,
        slc: None,
        housekeeping: varve_ftl::Housekeeping::PLAIN,
    };
    let mut geometry = PAGES;
    while varve_ftl::Layout::new(&config, &geometry).is_err() {
        geometry.blocks_per_plane += 1;
    }
    geometry.blocks_per_plane += spare / 2;
    (geometry, config)
}

fn unit(lpn: u32, id: u32) -> base::Bytes {
    base::fill::filled((lpn ^ id) as u8, 4096)
}

/// Fills 95 %, then writes and flushes single units; answers with the programs per write.
fn flush_each(spare: u32, writes: u32) -> f64 {
    let (geometry, config) = tight(spare);
    let mut ftl = fresh(geometry, config);
    let used = (config.units * 95 / 100) as u32;
    let mut newest = vec![0; used as usize];
    let mut now = Time(0);
    for lpn in 0..used {
        ftl.advance(now);
        if let Some(end) = ftl.write(now, lpn, unit(lpn, 0)).unwrap() {
            now = end;
        }
    }
    now = ftl.flush(now).unwrap();
    let before = ftl.stats();
    let mut rng = Rng::named(u64::from(spare), "flush each");
    for id in 1..=writes {
        let lpn = rng.below(u64::from(used)) as u32;
        ftl.advance(now);
        ftl.write(now, lpn, unit(lpn, id)).unwrap();
        newest[lpn as usize] = id;
        now = ftl.flush(now).unwrap();
    }
    let after = ftl.stats();
    ftl.check();
    let media = ftl.power_off(now, 1);
    let (next, _) = Ftl::mount(Nand::new(media, TIMING), config, Time(0)).unwrap();
    for (lpn, id) in (0..).zip(&newest) {
        assert_eq!(next.content(lpn).unwrap(), unit(lpn, *id), "unit {lpn}");
    }
    (after.programs - before.programs) as f64 / f64::from(writes)
}

#[test]
fn a_flush_after_each_unit_never_runs_out_of_space() {
    // Each write fills a quarter of a page of four units; the rest is padding, which is collected.
    // Without any spare block that takes 2.9 page programs for each write, with 24 more blocks of
    // 256 KiB 1.8 (measured).
    let (none, some) = (flush_each(0, 50_000), flush_each(24, 50_000));
    assert!(
        (1.0..3.3).contains(&none) && (1.0..2.2).contains(&some),
        "{none:.2} and {some:.2} programs for each write"
    );
}
