//! What a device takes for its work: the table `energy` of a profile, which not every profile has.

use super::{Kind, Profile};
use serde::Deserialize;

/// Power, or energy, of each kind of work.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnergyProfile {
    /// Power of one die while it reads, programs or erases, milliwatts.
    pub die_mw: f64,
    /// Energy of one byte between host and device, picojoules.
    pub bus_pj_per_byte: f64,
    /// Power of the controller while a command is under way, milliwatts.
    pub controller_mw: f64,
    /// Power of the device while no command is under way, milliwatts.
    pub standby_mw: f64,
}

/// Times for which a die works, microseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DieTimes {
    /// Page read.
    pub read_us: f64,
    /// Page program.
    pub program_us: f64,
    /// Page program in the SLC area; as [`DieTimes::program_us`] if there is none.
    pub slc_program_us: f64,
    /// Block erase.
    pub erase_us: f64,
}

impl EnergyProfile {
    /// Checks these values; the error names the first impossible field.
    pub(super) fn check(&self) -> Result<(), String> {
        for (name, value) in [
            ("die_mw", self.die_mw),
            ("bus_pj_per_byte", self.bus_pj_per_byte),
            ("controller_mw", self.controller_mw),
            ("standby_mw", self.standby_mw),
        ] {
            if !(0.0..=1e6).contains(&value) {
                return Err(format!("energy.{name} = {value}; it may be 0 to 1000000"));
            }
        }
        Ok(())
    }
}

impl Profile {
    /// What the device takes for its work, if the profile says so, and how long its dies work. The
    /// times are those of `nand.timing`, whatever the timing set: a set that was fitted to a paper
    /// has times, and not work.
    pub fn energy(&self) -> Option<(EnergyProfile, DieTimes)> {
        let (energy, chips, slc) = match &self.kind {
            Kind::Plain(_) => return None,
            Kind::Emmc(p) => (p.energy?, p.nand.timing, Some(p.slc)),
            Kind::Raw(p) => (p.energy?, p.die_timing(), None),
            Kind::Nvme(p) => (p.energy?, p.die_timing(), Some(p.slc)),
        };
        let slc = slc.filter(|slc| slc.on);
        let times = DieTimes {
            read_us: chips.read_us,
            program_us: chips.program_us,
            slc_program_us: slc.map_or(chips.program_us, |slc| slc.program_us),
            erase_us: chips.erase_us,
        };
        Some((energy, times))
    }
    /// Checks the table; the error names the first impossible field.
    pub(super) fn check_energy(&self) -> Result<(), String> {
        let energy = match &self.kind {
            Kind::Plain(_) => None,
            Kind::Emmc(p) => p.energy,
            Kind::Raw(p) => p.energy,
            Kind::Nvme(p) => p.energy,
        };
        energy.map_or(Ok(()), |energy| energy.check())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_says_what_its_device_takes_or_that_it_does_not_know() {
        let (energy, times) = Profile::open("emmc-odroid-xu4").unwrap().energy().unwrap();
        assert_eq!((energy.die_mw, energy.controller_mw), (66.0, 180.0));
        assert_eq!(
            (times.read_us, times.program_us, times.erase_us),
            (50.0, 800.0, 3000.0)
        );
        assert_eq!(times.slc_program_us, 800.0);
        let (_, times) = Profile::open("emmc-odroid-xu4,slc.on=true")
            .unwrap()
            .energy()
            .unwrap();
        assert_eq!(times.slc_program_us, 250.0);
        assert_eq!(Profile::open("ufs-generic").unwrap().energy(), None);
        assert_eq!(Profile::open("loop-like").unwrap().energy(), None);
    }

    #[test]
    fn a_power_that_cannot_be_is_refused_by_name() {
        let refused = Profile::open("emmc-odroid-xu4,energy.die_mw=-1.0").unwrap_err();
        assert!(
            refused.to_string().contains("energy.die_mw = -1"),
            "{refused}"
        );
    }
}
