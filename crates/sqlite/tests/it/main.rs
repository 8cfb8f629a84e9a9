//! Tests that share a process, which sets SQLite up once: one program, linked once.

mod common;
mod determinism;
mod errors;
mod files;
mod modes;
mod syncs;
mod tasks;
