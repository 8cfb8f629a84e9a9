//! A volume whose journal lies on a device of its own (devices-L1 to devices-L10).
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

#[path = "../common/mod.rs"]
mod common;
mod cuts;
#[path = "../data_path/mod.rs"]
mod data_path;
mod limits;
mod peers;
