//! The catalogues of `cargo xtask mutants` for whole file systems: histories with cuts
//! ([`guards`]), and the explorer ([`explored`]). They are a program of their own because they are
//! built with the feature `mutants`.

mod explored;
mod guards;
