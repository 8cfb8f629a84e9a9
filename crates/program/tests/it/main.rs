//! Recordings of programs: what a cut may leave of them, why it is bad, and what mends it.

mod explain;
mod inclusion;
mod lint;
mod mend;
mod ops;
mod page;
mod posix;
mod programs;
mod random;
mod rules;
mod script;
mod shims;
