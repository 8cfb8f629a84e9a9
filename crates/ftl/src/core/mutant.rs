//! Switches a deliberate mistake on: like `rt::mutant`, but the active mutant belongs to one
//! device, because this crate knows nothing of tasks or simulations.

use super::Ftl;
use base::Mutant;

/// True if this build can run mutants.
pub const MUTANTS: bool = cfg!(feature = "mutants");

/// The active mutant of a device, and how often each guard was reached.
#[cfg(feature = "mutants")]
#[derive(Debug)]
pub(crate) struct Switch {
    pub active: Option<Mutant>,
    reached: Vec<std::sync::atomic::AtomicU64>,
}

#[cfg(feature = "mutants")]
impl Default for Switch {
    fn default() -> Switch {
        Switch {
            active: None,
            reached: Mutant::ALL.iter().map(|_| 0.into()).collect(),
        }
    }
}

#[cfg(feature = "mutants")]
impl Clone for Switch {
    fn clone(&self) -> Switch {
        let reached = Mutant::ALL.iter().map(|m| self.reached(*m).into());
        Switch {
            active: self.active,
            reached: reached.collect(),
        }
    }
}

/// This build has no mutants, so this is empty.
#[cfg(not(feature = "mutants"))]
#[derive(Clone, Debug, Default)]
pub(crate) struct Switch;

impl Switch {
    /// True if this device runs mutant `m`; also counts that the guard of `m` was reached.
    #[cfg(feature = "mutants")]
    pub fn on(&self, m: Mutant) -> bool {
        self.reached[m as usize].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.active == Some(m)
    }
    #[cfg(feature = "mutants")]
    fn reached(&self, m: Mutant) -> u64 {
        self.reached[m as usize].load(std::sync::atomic::Ordering::Relaxed)
    }
    /// False: this build has no mutants.
    #[cfg(not(feature = "mutants"))]
    #[inline(always)]
    pub const fn on(&self, _: Mutant) -> bool {
        false
    }
}

impl Ftl {
    /// Lets this device make the mistake of `mutant` from now on; `None`: no mistake.
    #[cfg(feature = "mutants")]
    pub fn set_mutant(&mut self, mutant: Option<Mutant>) {
        self.switch.active = mutant;
    }
    /// How often the guard of a mutant was reached since the FTL was made, its recovery included.
    #[cfg(feature = "mutants")]
    pub fn mutant_reached(&self, mutant: Mutant) -> u64 {
        self.switch.reached(mutant)
    }
    /// True if this device runs mutant `m` (see [`Mutant`]); also counts that its guard was
    /// reached. Ask only where leaving the guard out would make a difference.
    #[cfg(feature = "mutants")]
    pub fn mutant(&self, m: Mutant) -> bool {
        self.switch.on(m)
    }
    /// False: this build has no mutants.
    #[cfg(not(feature = "mutants"))]
    #[inline(always)]
    pub const fn mutant(&self, m: Mutant) -> bool {
        self.switch.on(m)
    }
}

#[cfg(all(test, not(feature = "mutants")))]
mod tests {
    use super::*;

    /// Compiles only if the answer is a constant, and passes only if it is false.
    #[test]
    fn no_guard_can_be_switched_off() {
        const SWITCHED: bool = Switch.on(Mutant::CollectByTag);
        const { assert!(!SWITCHED && !MUTANTS && size_of::<Switch>() == 0) }
    }
}
