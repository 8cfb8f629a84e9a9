//! Crash tests in Rust: the power goes at any moment; what does your code find afterwards, and is
//! it what it has promised?
//!
//! ```
//! use std::fs;
//! use std::path::Path;
//! use varve_crash_test::{ack, crash_test};
//!
//! #[crash_test(setup = old, check = whole)]
//! fn config_survives(dir: &Path) -> std::io::Result<()> {
//!     let new = dir.join("config.tmp");
//!     fs::write(&new, "new")?;
//!     fs::File::open(&new)?.sync_all()?;
//!     fs::rename(new, dir.join("config"))?;
//!     fs::File::open(dir)?.sync_all()?;
//!     ack("saved");
//!     Ok(())
//! }
//!
//! fn old(dir: &Path) -> std::io::Result<()> {
//!     fs::write(dir.join("config"), "old")
//! }
//!
//! fn whole(dir: &Path, acked: &[String]) {
//!     let found = fs::read_to_string(dir.join("config")).unwrap();
//!     assert!(found == "new" || found == "old" && acked.is_empty(), "config is {found:?}");
//! }
//! ```
//!
//! - The function is run once, on a directory where the program `varve` records its system calls;
//!   the working directory is the same one.
//! - `check` is run for each distinct tree that a cut of the power may leave: it gets a copy and
//!   the acknowledgements that had been given by [`ack`]. It rejects a tree by a panic, or by an
//!   `Err`. It may change the tree, and has to close what it opens.
//! - `setup`, if there is one, runs before: what it leaves is durable.
//! - All else in the brackets are options of `varve crash --dir` with `_` for `-`: `allow_failure`,
//!   `backtrace`, `device`, `fail`, `from`, `jobs`, `keep`, `memory`, `model`, `runs`, `size`,
//!   `states`, `subset`, `suggest` and `timeout`, as in `model = "posix"`, `states = 500`,
//!   `fail = "fsync=EIO@2"`; and `judge = "same-or-old=config"` in the place of `check`.
//!   Acknowledgements are given by [`ack`], since standard output is the harness's.
//!
//! The test fails with what may be left and which sync lacks, and keeps what was found in
//! `target/varve-crash`. It needs the program `varve`, on the path or named by `$VARVE`, and FUSE.
//!
//! The program runs this test again in processes of its own, by its name and the variable
//! `$VARVE_CRASH_TEST`. So a crash test needs the harness of Rust, or one that takes the same
//! options, as that of cargo-nextest does.

mod ack;
mod caller;
mod case;
mod checker;
mod outcome;
mod paths;

pub use ack::ack;
pub use crash_test_macros::crash_test;
pub use outcome::Outcome;

/// What the attribute makes calls of. No part of what is promised.
#[doc(hidden)]
pub mod made {
    pub use crate::case::{Case, check, run, step};
}

#[doc(hidden)]
pub use crash_test_macros::crash_test_of_varve;
