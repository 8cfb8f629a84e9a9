//! The `varve` command.
fn main() {}
