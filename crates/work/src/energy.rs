//! The model of what a device takes for its work, as its profile describes it.

use report::energy::{Counts, EnergyModel, Joules};
use report::results::{Device, Flash};
use rig::Profile;

/// The model of a device; `None` if its profile does not say what it takes.
pub fn model(profile: &Profile) -> Option<EnergyModel> {
    let (energy, times) = profile.energy()?;
    Some(EnergyModel {
        die_mw: energy.die_mw,
        die_us: [
            times.read_us,
            times.program_us,
            times.slc_program_us,
            times.erase_us,
        ],
        bus_pj: energy.bus_pj_per_byte,
        controller_mw: energy.controller_mw,
        standby_mw: energy.standby_mw,
    })
}

/// The energy of a measured part that wrote so many blocks of 4 KiB in so many seconds, to a device
/// with an SLC area or without; `None` if its profile does not say what it takes.
pub(crate) fn joules(
    profile: &Profile,
    device: &Device,
    flash: Option<&Flash>,
    measured: (u64, f64, bool),
) -> Option<Joules> {
    let counts = Counts::of(device, flash?, measured);
    Some(model(profile)?.of(&counts).joules())
}
