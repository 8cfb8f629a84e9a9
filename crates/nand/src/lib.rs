//! The NAND medium: geometry, timing, program and erase rules, power loss.
//!
//! A [`Nand`] is a powered chip set; [`Media`] is what it consists of without power. `Nand::new(media)` starts a life,
//! [`Nand::power_off`] ends it. Nothing here knows of tasks: every call carries the current time and answers with the time at
//! which the operation ends. State runs ahead of that time, so the undo log keeps every operation that ends after the last
//! [`Nand::advance`].
//!
//! # Fault model (a cut in the middle of a program or an erase)
//!
//! With `f` the part of the array time that has passed at the cut:
//!
//! | area | fault at a power cut | what must survive |
//! |---|---|---|
//! | page whose program starts at or after the cut | none: it stays as it was | everything |
//! | page being programmed, `f < 0.05` | stays as it was (erased, or what an earlier partial program left), or is torn (uncorrectable) | all other pages, the block's earlier pages included |
//! | page being programmed, `0.05 <= f < 0.95` | torn: data and spare area uncorrectable | the same |
//! | page being programmed, `f >= 0.95` | complete, or torn | the same |
//! | block being erased, `f < 0.05` | untouched, or mixed | all other blocks |
//! | block being erased, `f >= 0.05` | mixed: each page old, erased or uncorrectable; the block is weak | all other blocks |
//! | weak block | a program reports success but leaves an uncorrectable page, until a complete erase | all other blocks |
//! | transfer on the bus without array operation | none | everything |
//! | program or erase that reports failure (worn out) | the page is torn / the block keeps its content | the block's other pages |
//!
//! Not modelled: paired pages, unstable and marginal pages, disturb, retention (levels 2 and 3).
//!
//! # Rules and invariants
//!
//! - N1: a page is programmed at most [`Geometry::nop`] times between two erases (once on multi-bit parts); further programs
//!   only clear bits.
//! - N2: pages of a block are programmed in ascending order; skipping is allowed, going back is not.
//! - N3: a bad block is neither programmed nor erased.
//! - N4: an operation of a die starts when the previous one of that die has ended; so at a cut at most one operation per
//!   die is in flight.
//! - N5: `power_off(t)` leaves exactly the effects of the operations that ended by `t`, plus the faults of the table for those
//!   in flight.

mod cells;
mod chip;
mod cut;
mod errors;
mod geometry;
mod media;
mod pairing;
mod planes;
mod power;
mod trail;

pub use cells::{BitErrors, Cells, Ecc, FaultLevel, PageOrder, Wear};
pub use chip::{Nand, NandError, NandStats, Span};
pub use errors::Corrected;
pub use geometry::{BlockId, Geometry, PageAddr, SlcMode, Timing};
pub use media::{Cell, Media, Page};
pub use pairing::Pairing;
pub use trail::{Cause, Operation};
