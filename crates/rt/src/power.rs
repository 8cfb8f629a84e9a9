//! Power loss, as the simulated tasks see it: a switch that goes off once. Time stops at the cut,
//! and no task waits for time any more. Tasks see errors from their devices and run to their end
//! (rule 4 of ARCHITECTURE.md).

use crate::core::here;
use crate::task::Wait;
use crate::world::core;
use base::Time;
use std::fmt;

/// The power is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PowerLost;

impl fmt::Display for PowerLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("power lost")
    }
}
impl std::error::Error for PowerLost {}

/// Cuts the power of this simulation. Wakes all sleepers and abortable waits; from now on they
/// return at once, and the budget [`crate::SimConfig::run_out`] of switches starts. A second cut
/// does nothing.
///
/// # Panics
/// In the real world.
pub fn power_cut() {
    core()
        .expect("rt::power_cut cuts the power of a simulation; there is none here")
        .power_cut();
}

/// True until the power is cut; always true in the real world.
#[inline]
pub fn powered() -> bool {
    core().is_none_or(|c| c.powered.get())
}

/// Waits until `at`, for a device's completion. What completes at the very time of the cut counts
/// as delivered.
///
/// # Errors
/// If the power is gone, or goes before `at`.
#[track_caller]
pub fn sleep_until_power(at: Time) -> Result<(), PowerLost> {
    let Some(core) = core() else {
        crate::sleep_until(at);
        return Ok(());
    };
    if !core.powered.get() {
        return Err(PowerLost);
    }
    core.sleep_until(at.0, Wait::Sleep(at.0), here());
    if core.powered.get() || core.now.get() >= at.0 {
        Ok(())
    } else {
        Err(PowerLost)
    }
}
