//! Crash tests as a user writes them, and the parts that their processes play. The program `varve`
//! is played by a script here; the example in `examples/crash-test` runs with the real one.

mod fixtures;
mod parts;
