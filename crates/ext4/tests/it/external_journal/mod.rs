//! A volume whose journal lies on a device of its own (devices-L1 to devices-L10).
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

mod cuts;
mod limits;
mod peers;
