//! The journal of F2FSJ, on devices whose cuts leave the worst.

mod applied;
mod apply;
mod attack;
mod commit;
mod common;
mod cuts;
mod foreign;
mod guard;
#[path = "../common/mod.rs"]
mod images;
mod large;
mod race;
mod recover;
mod space;
mod supers;
mod volume;
mod world;
