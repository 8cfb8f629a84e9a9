//! Tests, benches and cross-checks of Varve.
fn main() {}
