//! The NAND medium: geometry, timing, program and erase rules, power loss.
//!
//! A [`Nand`] is a powered chip set; [`Media`] is the same chip set without power. [`Nand::new`]
//! switches it on, [`Nand::power_off`] off. Nothing here knows of tasks: every operation carries
//! the current time and answers with the time at which it ends. State runs ahead of that time, so
//! the undo log keeps every operation that ends after the last [`Nand::advance`] and has changed
//! anything.
//!
//! # Fault model (a cut in the middle of a program or an erase)
//!
//! Let `f` be the part of the array time that has passed at the cut. The level ([`FaultLevel`], set
//! with the [`Cells`]) is L1 unless set; each level adds to the one before (at `f >= 0.95` the row
//! of L3 replaces that of L1).
//!
//! | area | level | fault at a power cut | what must survive |
//! |---|---|---|---|
//! | page whose program starts at or after the cut | L1 | none: it stays as it was | everything |
//! | page being programmed, `f < 0.05` | L1 | stays as it was (erased, or what an earlier partial program left), or is torn (uncorrectable) | all other pages, the block's earlier pages included |
//! | page being programmed, `0.05 <= f < 0.95` | L1 | torn: data and spare area uncorrectable | all other pages, the block's earlier pages included |
//! | page being programmed, `f >= 0.95` | L1 | complete, or torn | all other pages, the block's earlier pages included |
//! | block being erased, `f < 0.05` | L1 | untouched, or mixed | all other blocks |
//! | block being erased, `f >= 0.05` | L1 | mixed: each page old, erased or uncorrectable; the block is weak | all other blocks |
//! | weak block | L1 | a program reports success but leaves an uncorrectable page, until a complete erase | all other blocks |
//! | transfer on the bus without array operation | L1 | none | everything |
//! | program or erase that reports failure (worn out) | L1 | the page is torn / the block keeps its content | the block's other pages |
//! | torn page | L2 | 35 % uncorrectable; 35 % data uncorrectable beside a spare area that reads well ([`Cell::SpareOnly`]); 25 % unstable: reads well 1 to 4 times or until the mount after the next; 5 % looks clean, for 16 to 63 reads or as long | all other pages |
//! | block being erased | L2 | one in three looks erased and is weak; else pages may also show an intact spare area, or their old content for 1 to 4 reads | all other blocks |
//! | weak block | L2 | one program in four leaves a page that reads well 0 to 7 times, or until the mount after the next | all other blocks |
//! | torn page that shares its cells ([`Pairing`]) | L3 | the earlier page of the word line: well 50 %, unstable 25 %, lost 25 %; the pages of a one-shot word line are torn together | pages of other word lines |
//! | page being programmed, `f >= 0.95` | L3 | complete, and in one of ten cases marginal: uncorrectable after 1 to 8 reads or at the mount after the next | all other pages |
//! | torn page | L3 | also data that read well beside a torn spare area | all other pages |
//! | the last one or two programs that ended before the cut | L3 | in one cut of four (brown-out) each is marginal with 50 %: uncorrectable after 24 to 63 reads | everything for that long, so that it can be copied |
//!
//! Without a cut, with [`BitErrors`]: bits flip at a rate that grows with erases, reads of the
//! block and time; what the error correction cannot correct is lost. What it corrects is reported
//! ([`Corrected`]), and the report asks for a refresh of a page near the limit. With [`Wear`]:
//! blocks fail for good by a Weibull distribution, in an erase or in a program.
//!
//! # Rules and invariants
//!
//! - N0: an operation names blocks and pages that exist, and its content fits.
//! - N1: a page is programmed at most [`Geometry::nop`] times between two erases (once on multi-bit
//!   parts); further programs only clear bits.
//! - N2: pages of a block are programmed in ascending order; skipping is allowed, going back is
//!   not, unless the part only recommends the order ([`PageOrder::Warn`]).
//! - N3: a bad block is neither programmed nor erased; the factory's marks are there before the
//!   first erase, and at most 2 % of the blocks bear one.
//! - N4: an operation of a die starts when the previous one of that die has ended; so at a cut at
//!   most one operation per die is in flight.
//! - N5: `power_off(t)` leaves exactly the effects of the operations that ended by `t`, plus the
//!   faults of the table for those in flight and, at L3, for pages that were programmed before. The
//!   effects of reads that begin at or after `t` on their blocks are undone as well.
//! - N6: pages are programmed in the order of the pairing table: ascending, and a one-shot word
//!   line whole.
//! - N7: planes of a die that work together take one block each, and program the same page of these
//!   blocks; a block is erased whole.
//!
//! There is no copyback: a copy goes through the error correction and the layer above.

mod bus;
mod cells;
mod chip;
mod cut;
mod errors;
mod geometry;
mod media;
mod pairing;
mod piece;
mod planes;
mod power;
mod state;
mod trail;

pub use bus::Bus;
pub use cells::{BitErrors, Cells, Ecc, FaultLevel, PageOrder, Wear};
pub use chip::{Nand, NandError, NandStats, Span};
pub use errors::Corrected;
pub use geometry::{BlockId, Geometry, PageAddr, SlcMode, Timing};
pub use media::{Cell, Media, Page};
pub use pairing::Pairing;
pub use trail::{Cause, Operation};
