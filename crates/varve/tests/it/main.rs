//! Tests of the facade, as a caller outside of this project would write them.

mod crash_test;
mod devices;
mod disks;
mod examples;
mod files;
mod simulated;
