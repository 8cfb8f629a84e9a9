//! The catalogue of `cargo xtask mutants`: each guard of the journal, removed, is noticed by a cut.
