//! Estimates the energy that a device takes for a run from what was counted. This is a model and
//! not a measurement: each class of operation has a constant, which stands in the device's profile
//! with its source, and docs/design/energy.md says what is made of them. What no count shows (CPU
//! work of the file system, background work of the controller) is not in it.

use crate::metrics::round;
use crate::results::{Device, Flash};
use base::{BLOCK_BYTES, SECTOR_BYTES};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Add;

/// The counts of a run that the estimate needs.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Counts {
    /// NAND page reads.
    pub reads: u64,
    /// NAND page programs, but those in the SLC area.
    pub programs: u64,
    /// NAND page programs in the SLC area.
    pub slc_programs: u64,
    /// NAND block erases.
    pub erases: u64,
    /// Bytes that crossed the bus between host and card, both ways.
    pub bus_bytes: u64,
    /// Time with a command under way, seconds.
    pub busy_s: f64,
    /// Length of the run, seconds.
    pub seconds: f64,
}

impl Counts {
    /// The counts of a measured part of `seconds` that wrote `blocks` of 4 KiB. With `slc` what the
    /// host wrote was programmed in an SLC area.
    pub fn of(device: &Device, flash: &Flash, (blocks, seconds, slc): (u64, f64, bool)) -> Counts {
        let commands = &device.commands;
        let slc_programs = if slc { flash.programs_by_cause.host } else { 0 };
        Counts {
            reads: flash.reads,
            programs: flash.programs.saturating_sub(slc_programs),
            slc_programs,
            erases: flash.erases,
            bus_bytes: commands.sectors_read * SECTOR_BYTES as u64 + blocks * BLOCK_BYTES as u64,
            busy_s: commands.busy_us as f64 / 1e6,
            seconds,
        }
    }
}

impl Add for Counts {
    type Output = Counts;
    fn add(self, more: Counts) -> Counts {
        Counts {
            reads: self.reads + more.reads,
            programs: self.programs + more.programs,
            slc_programs: self.slc_programs + more.slc_programs,
            erases: self.erases + more.erases,
            bus_bytes: self.bus_bytes + more.bus_bytes,
            busy_s: self.busy_s + more.busy_s,
            seconds: self.seconds + more.seconds,
        }
    }
}

/// Power, or energy, of each class of operation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EnergyModel {
    /// Power of one die while it reads, programs or erases, milliwatts.
    pub die_mw: f64,
    /// Time of a page read, a page program, a page program in the SLC area and a block erase,
    /// microseconds.
    pub die_us: [f64; 4],
    /// Energy of one byte on the bus, picojoules.
    pub bus_pj: f64,
    /// Power of the device's controller while a command is under way, milliwatts.
    pub controller_mw: f64,
    /// Power of the device while no command is under way, milliwatts.
    pub standby_mw: f64,
}

impl EnergyModel {
    /// Estimates the energy of a run.
    pub fn of(&self, counts: &Counts) -> Energy {
        let die = |operations: u64, us: f64| operations as f64 * self.die_mw * us * 1e-9;
        let [read, program, slc_program, erase] = self.die_us;
        let idle = (counts.seconds - counts.busy_s).max(0.0);
        Energy {
            parts: [
                ("nand reads", die(counts.reads, read)),
                (
                    "nand programs",
                    die(counts.programs, program) + die(counts.slc_programs, slc_program),
                ),
                ("nand erases", die(counts.erases, erase)),
                ("bus", counts.bus_bytes as f64 * self.bus_pj * 1e-12),
                ("controller", counts.busy_s * self.controller_mw * 1e-3),
                ("standby", idle * self.standby_mw * 1e-3),
            ]
            .into(),
        }
    }
}

/// The energy that the device takes for a run, joules.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Energy {
    /// By the words of [`PARTS`].
    pub parts: BTreeMap<&'static str, f64>,
}

/// The energy of the measured part as results hold it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Joules {
    /// Of the storage device in all, joules.
    pub device: f64,
    /// Its parts, joules: what the dies take, the bus, the controller, and what is taken while no
    /// command is under way.
    pub parts: BTreeMap<String, f64>,
}

/// The energy of an operation in words, millijoules; `not known` for a device whose profile does
/// not say what it takes.
pub fn per_op(joules: Option<&Joules>, ops: u64) -> String {
    joules.map_or("not known".into(), |joules| {
        format!("{:.3}", joules.device * 1000.0 / ops.max(1) as f64)
    })
}

/// The parts of the storage device, in the order of tables.
pub const PARTS: [&str; 6] = [
    "nand programs",
    "nand erases",
    "nand reads",
    "bus",
    "controller",
    "standby",
];

impl Energy {
    /// Energy of the storage device in all, joules.
    pub fn device_j(&self) -> f64 {
        self.parts.values().sum()
    }
    /// The same for results.
    pub fn joules(&self) -> Joules {
        let part = |(name, joules): (&&str, &f64)| ((*name).to_string(), round(*joules));
        Joules {
            device: round(self.device_j()),
            parts: self.parts.iter().map(part).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts() -> impl Strategy<Value = Counts> {
        let n = 0u64..1_000_000;
        let programs = (n.clone(), n.clone());
        (n.clone(), programs, n.clone(), n, 0.0..1e3f64, 0.0..1e3f64).prop_map(
            |(reads, (programs, slc_programs), erases, bus_bytes, busy_s, idle_s)| Counts {
                reads,
                programs,
                slc_programs,
                erases,
                bus_bytes,
                busy_s,
                seconds: busy_s + idle_s,
            },
        )
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * (1.0 + a.abs())
    }

    const MODEL: EnergyModel = EnergyModel {
        die_mw: 66.0,
        die_us: [50.0, 800.0, 250.0, 3000.0],
        bus_pj: 194.4,
        controller_mw: 180.0,
        standby_mw: 0.28,
    };

    proptest! {
        #[test]
        fn energy_adds_up_and_is_never_negative(a in counts(), b in counts()) {
            let (one, two, both) = (MODEL.of(&a), MODEL.of(&b), MODEL.of(&(a + b)));
            prop_assert!(near(one.device_j() + two.device_j(), both.device_j()));
            for part in PARTS {
                prop_assert!(one.parts[part] >= 0.0);
                prop_assert!(near(one.parts[part] + two.parts[part], both.parts[part]));
            }
            prop_assert_eq!(one.parts.len(), PARTS.len());
        }
    }

    #[test]
    fn a_program_costs_its_power_times_its_time() {
        let of = |programs, slc_programs| {
            let counts = Counts {
                programs,
                slc_programs,
                ..Counts::default()
            };
            MODEL.of(&counts).device_j()
        };
        // 1000 x 66 mW x 0.8 ms, and x 0.25 ms in the SLC area.
        assert!(near(of(1000, 0), 0.0528));
        assert!(near(of(0, 1000), 0.0165));
    }

    #[test]
    fn what_the_host_wrote_was_programmed_in_the_slc_area_if_there_is_one() {
        let flash = Flash {
            programs: 100,
            programs_by_cause: blockdev::ProgramsByCause {
                host: 60,
                fold: 40,
                ..Default::default()
            },
            ..Flash::default()
        };
        let of = |slc| {
            let counts = Counts::of(&Device::default(), &flash, (5, 1.0, slc));
            (counts.programs, counts.slc_programs)
        };
        assert_eq!((of(false), of(true)), ((100, 0), (40, 60)));
        assert_eq!(per_op(None, 3), "not known");
        let joules = Joules {
            device: 0.6,
            ..Joules::default()
        };
        assert_eq!(per_op(Some(&joules), 3), "200.000");
    }
}
