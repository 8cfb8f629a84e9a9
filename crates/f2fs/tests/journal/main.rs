//! The journal of F2FSJ, on devices whose cuts leave the worst.

mod apply;
mod commit;
mod common;
#[path = "../common/mod.rs"]
mod images;
mod space;
mod volume;
mod world;
