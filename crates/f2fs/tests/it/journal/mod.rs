//! The journal of F2FSJ, on devices whose cuts leave the worst.

/// How the volumes of this suite are mounted.
pub const SCHEME: &str = "scheme=f2fsj";

use crate::common as images;

mod ahead;
mod applied;
mod apply;
mod attack;
mod chain;
mod commit;
mod common;
mod cuts;
mod ends;
mod foreign;
mod guard;
mod holes;
mod ideas;
mod large;
mod lives;
mod mount_reads;
mod race;
mod recover;
mod resume;
mod rounds;
mod space;
mod supers;
mod task;
mod volume;
mod world;
