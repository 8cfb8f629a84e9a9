//! Estimates the energy of a run from what was counted. This is a model and not a measurement: each
//! class of operation has a constant ([`EnergyModel::TYPICAL`]), and docs/design/energy.md says
//! where each comes from. What no count shows (CPU work of the file system, DRAM, background work
//! of the card's controller) is part of the board's constant power, which is the same for every
//! scheme.

use base::{BLOCK_BYTES, SECTOR_BYTES};
use report::results::Run;
use std::collections::BTreeMap;
use std::ops::Add;

/// The counts of a run that the estimate needs.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Counts {
    /// NAND page reads.
    pub reads: u64,
    /// NAND page programs.
    pub programs: u64,
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
    /// The counts of the measured part of a run.
    pub fn of(run: &Run) -> Counts {
        let flash = run.flash.clone().unwrap_or_default();
        let commands = &run.device.commands;
        let written: u64 = run.blocks.values().sum();
        Counts {
            reads: flash.reads,
            programs: flash.programs,
            erases: flash.erases,
            bus_bytes: commands.sectors_read * SECTOR_BYTES as u64 + written * BLOCK_BYTES as u64,
            busy_s: commands.busy_us as f64 / 1e6,
            seconds: run.virtual_seconds,
        }
    }
}

impl Add for Counts {
    type Output = Counts;
    fn add(self, more: Counts) -> Counts {
        Counts {
            reads: self.reads + more.reads,
            programs: self.programs + more.programs,
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
    /// Time of a page read, a page program and a block erase, microseconds.
    pub die_us: [f64; 3],
    /// Energy of one byte on the bus, picojoules.
    pub bus_pj: f64,
    /// Power of the card's controller while a command is under way, milliwatts.
    pub controller_mw: f64,
    /// Power of the card while no command is under way, milliwatts.
    pub standby_mw: f64,
    /// Power of the board without the card, milliwatts.
    pub board_mw: f64,
}

/// Times of MLC chips as in the profile `emmc-odroid-xu4`, in the order of [`EnergyModel::die_us`].
const MLC_US: [f64; 3] = [50.0, 800.0, 3000.0];

impl EnergyModel {
    /// Typical values; docs/design/energy.md has their sources.
    pub const TYPICAL: EnergyModel = EnergyModel {
        // This is 20 mA at 3.3 V.
        die_mw: 66.0,
        die_us: MLC_US,
        // The bus has 8 lines, and every second bit toggles: C V^2 / 2 with 30 pF and 1.8 V.
        bus_pj: 194.4,
        // This is 100 mA at 1.8 V.
        controller_mw: 180.0,
        // This is 0.1 mA at 1.8 V and 0.03 mA at 3.3 V.
        standby_mw: 0.28,
        // This is 0.8 A at 5 V.
        board_mw: 4000.0,
    };
    /// The values that make the difference between two schemes largest: a card that takes much on a
    /// board that takes little.
    pub const LARGEST_DIFFERENCE: EnergyModel = EnergyModel {
        // This is 50 mA at 3.3 V.
        die_mw: 165.0,
        bus_pj: 388.8,
        // This is 200 mA at 1.8 V.
        controller_mw: 360.0,
        // This is 0.4 A at 5 V.
        board_mw: 2000.0,
        ..EnergyModel::TYPICAL
    };

    /// Estimates the energy of a run.
    pub fn of(&self, counts: &Counts) -> Energy {
        let die = |operations: u64, us: f64| operations as f64 * self.die_mw * us * 1e-9;
        let [read, program, erase] = self.die_us;
        let idle = (counts.seconds - counts.busy_s).max(0.0);
        Energy {
            parts: [
                ("nand reads", die(counts.reads, read)),
                ("nand programs", die(counts.programs, program)),
                ("nand erases", die(counts.erases, erase)),
                ("bus", counts.bus_bytes as f64 * self.bus_pj * 1e-12),
                ("controller", counts.busy_s * self.controller_mw * 1e-3),
                ("standby", idle * self.standby_mw * 1e-3),
            ]
            .into(),
            board_j: counts.seconds * self.board_mw * 1e-3,
        }
    }
}

/// The energy of a run, joules.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Energy {
    /// Energy of the storage device, by the words of [`PARTS`].
    pub parts: BTreeMap<&'static str, f64>,
    /// Energy of the board without the storage device.
    pub board_j: f64,
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
    /// Energy of the board with the storage device, joules.
    pub fn whole_j(&self) -> f64 {
        self.device_j() + self.board_j
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts() -> impl Strategy<Value = Counts> {
        let n = 0u64..1_000_000;
        (n.clone(), n.clone(), n.clone(), n, 0.0..1e3f64, 0.0..1e3f64).prop_map(
            |(reads, programs, erases, bus_bytes, busy_s, idle_s)| Counts {
                reads,
                programs,
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

    proptest! {
        #[test]
        fn energy_adds_up_and_is_never_negative(a in counts(), b in counts()) {
            for model in [EnergyModel::TYPICAL, EnergyModel::LARGEST_DIFFERENCE] {
                let (one, two, both) = (model.of(&a), model.of(&b), model.of(&(a + b)));
                prop_assert!(near(one.whole_j() + two.whole_j(), both.whole_j()));
                for part in PARTS {
                    prop_assert!(one.parts[part] >= 0.0);
                    prop_assert!(near(one.parts[part] + two.parts[part], both.parts[part]));
                }
                prop_assert_eq!(one.parts.len(), PARTS.len());
            }
        }
    }

    #[test]
    fn a_program_costs_its_power_times_its_time() {
        let counts = Counts {
            programs: 1000,
            ..Counts::default()
        };
        let energy = EnergyModel::TYPICAL.of(&counts);
        // 1000 x 66 mW x 0.8 ms.
        assert!(near(energy.device_j(), 0.0528), "{energy:?}");
        assert_eq!(energy.board_j, 0.0);
    }
}
