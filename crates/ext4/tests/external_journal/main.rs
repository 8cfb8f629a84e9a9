//! A volume whose journal lies on a device of its own (invariants L1 to L10 of the journal's `devices.rs`).
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

#[path = "../common/mod.rs"]
mod common;
mod cuts;
#[path = "../data_path/mod.rs"]
mod data_path;
mod limits;
mod peers;
