//! What every crate of Varve shares: addresses and units as newtypes, checksums, byte readers,
//! maps with a fixed hasher, named random streams, and text that is safe to show. No I/O, no clock,
//! no threads.

pub mod bytes;
pub mod checksum;
pub mod collections;
pub mod cost;
pub mod cow;
pub mod fill;
mod mutant;
pub mod plain;
pub mod rng;
pub mod size;
pub mod units;
mod words;

pub use ::bytes::Bytes;
pub use collections::{Map, Set};
pub use cow::{CowVec, Fingerprint};
pub use mutant::{Hazard, Mutant};
pub use rng::Rng;
pub use units::{BLOCK_BYTES, SECTOR_BYTES, SECTORS_PER_BLOCK};
pub use units::{BlockNo, BlockSize, Ino, Lba, Nanos, Tid, Time};
pub use words::UnknownWord;
