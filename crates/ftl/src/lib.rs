//! Flash translation layer: page map, garbage collection, TRIM, and a map that survives a power
//! cycle.
//!
//! An [`Ftl`] owns a powered [`nand::Nand`]. Logical units of [`Config::unit_bytes`] are appended
//! to open blocks; the map L2P says where the newest version of each lies. Every unit carries a tag
//! in the spare area (owner, birth version, program sequence), so data needs no map write to be
//! durable. What leaves no tag needs a log: TRIM, REMAP, and owners of a moved slot that its tag
//! does not name. A checkpoint of the map bounds recovery.
//!
//! # Fault model
//!
//! | area | fault | what must survive |
//! |---|---|---|
//! | row buffer (units accepted, not yet programmed) | lost at a cut | every unit flushed before |
//! | rows being programmed at the cut | torn (see `nand`) | every unit flushed before |
//! | blocks being erased at the cut | mixed, weak | every unit flushed before: erases wait for the evidence that replaces them (I2) |
//! | TRIM not flushed | may be forgotten: the old content comes back | flushed TRIMs, until the unit is written again |
//! | checkpoint being written at the cut | incomplete: the previous root counts | everything: log and blocks it needs are untouched until the new root is durable (I5) |
//! | ordered group being written at the cut | rows on some dies complete, on others not | a prefix of the group, and nothing else of it |
//! | SLC area being folded at the cut | copies in row buffers lost, rows being programmed torn | every unit flushed before: the area's blocks stay until the copies are durable (I2) |
//! | block whose program or erase fails | retired; readable data is moved | every unit |
//! | valid unit that became unreadable | reads fail until it is written again; never other content | all other units |
//!
//! # Invariants
//!
//! - I1 (function): L2P is a function, P2L is its inverse on valid slots, a block's `valid` counts
//!   its valid slots.
//! - I2 (erase gate): a block is erased only when, for every unit it ever held durably, newer
//!   evidence (a later program of the unit, a record in the log, or a checkpoint) is on flash
//!   before the erase starts.
//! - I3 (drain): a checkpoint is taken with empty row buffers, and its root is programmed after
//!   every program it describes.
//! - I4 (order): recovery takes, per unit, the candidate with the greatest (birth, program
//!   sequence); copies keep the birth.
//! - I5 (log life): a checkpoint area is erased only when the other area holds a durable root, but
//!   for formatting, which erases both.
//! - I6 (reserve): neither the streams of the host nor folding ever take the last [`RESERVE`] free
//!   blocks, so garbage collection can always finish. Each power cut may close a block of the
//!   reserve with little in it; the next collection empties such blocks first. On a device with the
//!   least possible number of spare blocks, hundreds of cuts in collection can still use the
//!   reserve up: the device is read-only then, and nothing is lost.
//! - I7: an ordinary victim has at least one slot that is not valid; only one that is moved for its
//!   wear may have none (see `wear`: it needs no more free blocks than another, and comes once in
//!   so many erases).
//! - I8: free blocks are never trusted to be erased: each is erased when it is opened.
//! - I9 (rescue): a unit whose program failed stays readable in memory, holds up erases like any
//!   buffered unit (I2), and is in another row before the next flush or checkpoint is done.
//! - group-I10, group-I11: ordered groups; see `group`.
//! - slc-I12 (area): the SLC area; see `slc`.

mod blocks;
mod config;
mod core;
pub mod counting;
mod free;
mod pages;
mod records;
mod tag;
pub mod theory;
mod types;
mod victim;
mod wear;

pub use crate::core::{Ftl, Health, MUTANTS, Used, remap};
pub use config::{Config, Housekeeping, Layout, RESERVE, SlcArea};
pub use counting::Counting;
pub use nand;
pub use types::{FtlError, FtlStats, Programs, Quiet};
pub use victim::Policy;
pub use wear::Wear;
