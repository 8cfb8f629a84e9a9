//! Workloads: what runs on a mounted file system while the figures are taken.
//!
//! Each has a text form ([`Workload`]), because a run is described by text in reports and
//! reproduced from it. A workload makes what it needs, runs its measured part, and compares what is
//! there with what it wrote. Its operations depend on its parameters and the seed alone, so two
//! schemes are compared on the same ones. Only a model of Filebench depends on time, too: its
//! threads run until a deadline and pick files that no other is using.

mod aged;
mod aging;
pub mod background;
pub mod bench;
pub mod filebench;
pub mod files;
pub mod fio_jobs;
pub mod fsync;
pub mod replay;
mod replay_spec;
pub mod sets;
mod spec;
pub mod sqlite;
mod sqlite_spec;
mod values;

pub use aged::Aged;
pub use aging::Aging;
pub use background::{Background, Running};
pub use bench::{BenchSpec, Case, MetaOp, Program};
pub use filebench::{Filebench, FilebenchSpec};
pub use files::FilesSpec;
pub use fio_jobs::FioJobsSpec;
pub use fsync::FsyncSpec;
pub use replay::own_time;
pub use replay_spec::{AppSpec, Pace, Pacing, ReplaySpec};
pub use spec::Workload;
pub use sqlite_spec::{Batch, JournalMode, SqliteSpec, Synchronous};
pub use values::SpecError;

use base::{Nanos, Time};

/// An operation that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// What it was.
    pub kind: &'static str,
    /// When it ended.
    pub end: Time,
    /// How long it took.
    pub took: Nanos,
}

impl Told {
    /// An operation that ends at this moment.
    pub fn now(kind: &'static str, took: Nanos) -> Told {
        let end = rt::now();
        Told { kind, end, took }
    }
}

/// Is told of each operation, at its end or, by some workloads of several tasks, at the end of a
/// phase.
pub type Done<'a> = dyn FnMut(Told) + 'a;

/// Number of names in a directory without `.` and `..`.
fn names(vfs: &vfs::Vfs, dir: &str) -> Result<usize, crate::RunError> {
    let all = vfs.readdir(dir)?;
    Ok(all
        .iter()
        .filter(|entry| !matches!(&entry.name[..], b"." | b".."))
        .count())
}
