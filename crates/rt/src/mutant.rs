//! Asks whether a deliberate mistake is switched on. The active mutant belongs to the simulation;
//! the real world has none.

use base::Mutant;
use std::collections::BTreeMap;

/// True in a simulation that runs mutant `m` (see [`Mutant`]); counts that its guard was reached.
/// Ask only where leaving the guard out would make a difference, so that the count proves
/// something.
#[cfg(feature = "mutants")]
pub fn mutant(m: Mutant) -> bool {
    crate::world::core().is_some_and(|core| {
        *core.reached.borrow_mut().entry(m).or_default() += 1;
        core.cfg.mutant == Some(m)
    })
}

/// False: this build has no mutants.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub const fn mutant(_: Mutant) -> bool {
    false
}

/// True if this build can run mutants.
pub const MUTANTS: bool = cfg!(feature = "mutants");

/// How often the guard of each mutant was reached.
pub type Reached = BTreeMap<Mutant, u64>;
