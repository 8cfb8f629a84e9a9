//! The catalogues of `cargo xtask mutants` for F2FS: guards that tests of its own reach
//! ([`guards`]), the guards of its journal ([`journaled`]), and the explorer ([`explored`]). They
//! are a program of their own because they are built with the feature `mutants`.

#[path = "../it/common.rs"]
mod common;
#[path = "../it/content_cuts/cuts.rs"]
mod content;
#[path = "../it/crowd.rs"]
mod crowd;
mod explored;
mod guards;
mod journaled;
#[path = "../it/packs.rs"]
mod packs;
#[path = "../it/pressure/mod.rs"]
mod pressure;
#[path = "../it/sync_cuts/cuts/mod.rs"]
mod sync_cuts;

/// The harness of the journal's tests.
#[path = "../it/journal"]
mod journal {
    use crate::common as images;
    /// How the volumes of these tests are mounted.
    pub const SCHEME: &str = "scheme=f2fsj";
    pub mod ahead;
    pub mod applied;
    pub mod common;
    pub mod cuts;
    pub mod ends;
    pub mod foreign;
    pub mod lives;
    pub mod world;
}
