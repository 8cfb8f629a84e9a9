//! Cuts of a modelled device: before, inside and after each program and erase of its chips, or at
//! moments of virtual time. Here translation layer, journal and file system recover together, as on
//! a real device.
//!
//! ```text
//! Subject --film--> Filmed { Film, Oracle } --NandBound::choose--> NandId --Film::media--> Media --power-up, mount, oracle--> Explored
//!                                                                            |--Lives::recovery--> Film --> ... (nested cuts)
//! ```
//!
//! What a cut leaves is drawn from the seed in the id: with the adversary `own` by the fault table
//! of the crate `nand`, with `spec` from all that the standard allows. Recovery is that of the
//! translation layer (map, tags, log), of the journal, and the mount.
//!
//! - N1: one run yields all its cuts, and filming changes nothing of the run (see [`film`]).
//! - N2: a state is judged as if it were the only one, on a device whose clock begins at 0.
//! - N3: equal media in one epoch of the oracle are judged once.
//! - N4: a recovery that panics, hangs or fails violates R1 of its state, and the exploration goes
//!   on with the next state.
//! - N5: an id names one state in every run of a case, whatever the bound.
//!
//! The device itself has to keep a rule, too. It is checked in one state of 16, drawn by content,
//! where the adversary is `own`:
//!
//! - D1 a block that the host has not written, discarded or remapped in the run or in a recovery
//!   that was cut reads as before the run, whatever was moved or erased meanwhile.

mod again;
mod aged;
mod bound;
mod explore;
mod film;
mod host;
mod id;
mod life;
#[cfg(test)]
mod tests;

pub use again::{NandCut, NandState, judge, state};
pub use aged::{aged_volume, small_chips};
pub use bound::{Cuts, NandBound};
pub use explore::{Census, Each, NandExplored, explore, explore_each, film};
pub use film::{Camera, Film};
pub use host::logical;
pub use id::{NandId, NandIdError, NandPath, Spot, inside};
pub use life::Filmed;
