//! Tests that can share a process, which sets SQLite up once; they are one program, so that it is
//! linked once.

mod ahead;
mod common;
mod cost;
mod determinism;
mod errors;
mod files;
mod held;
mod layout;
mod modes;
mod race;
mod syncs;
mod tasks;
