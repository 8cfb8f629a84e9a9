//! The operations on names (sections 2.3, 5.2, 5.3) as jobs: one process, 100 entries a directory.

use super::Plan;
use super::measure::{BenchJob, Host};
use super::scale::{CORES, DEVICE, VOLUME, size};
use super::system::System;
use crate::{Experiment, PaperError};
use work::RunConfig;

/// Bytes of a small volume ([`At::Small`]) for this many objects.
const SMALL: u64 = VOLUME / 16;
const SMALL_OBJECTS: u32 = 40_000;

/// The size and the CPU costs of a run in the report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// All objects, the table of CPU costs as it is.
    Whole,
    /// This many percent of the CPU costs of the table. Such runs are compared among each other
    /// only, so they have fewer objects, and a ring that is as much smaller.
    Cpu(u32),
    /// The table as it is and as many objects as with other CPU costs, on a small volume: with the
    /// objects of a whole report stock F2FS overruns its SLC area (`scale::VOLUME` says why others
    /// do not).
    Small,
}

impl At {
    /// Runs with half, the whole and twice the CPU costs of the table.
    pub const LEVELS: [At; 3] = [At::Cpu(50), At::Cpu(100), At::Cpu(200)];

    /// Its name in rows.
    pub fn text(self, plan: &Plan) -> String {
        match self {
            At::Whole => format!("{} objects", plan.objects()),
            At::Cpu(percent) => format!("CPU {percent} %, {} objects", plan.objects_varied()),
            At::Small => format!("small volume, {} objects", plan.objects_varied()),
        }
    }

    /// What else a row is made with, to vary its causes.
    pub const VARIED: [At; 4] = [At::Cpu(50), At::Cpu(100), At::Cpu(200), At::Small];

    /// What a value is with each of [`VARIED`](Self::VARIED), for a row outside.
    ///
    /// # Errors
    /// Those of `value`.
    pub fn experiments(
        plan: &Plan,
        value: impl Fn(At) -> Result<f64, PaperError>,
    ) -> Result<[Experiment; 2], PaperError> {
        let objects = plan.objects_varied();
        let [half, whole, twice, small] = At::VARIED.map(value);
        let whole = whole?;
        let on =
            |cause: &str| Experiment::on(&format!("{cause} ({objects} objects)")).against(whole);
        Ok([
            on("the CPU costs")
                .with("half of them", half?)
                .with("twice", twice?),
            on("the volume, and with it the drive's SLC area").with("a sixteenth", small?),
        ])
    }
}

base::words! {
    /// An operation on names in the paper.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
    pub enum Op {
        /// Makes directories.
        Mkdir => "mkdir",
        /// Removes directories.
        Rmdir => "rmdir",
        /// Makes empty files.
        CreateEmpty => "create-empty",
        /// Removes empty files.
        UnlinkEmpty => "unlink-empty",
        /// Makes files of 4 KiB.
        Create4k => "create-4KB",
        /// Removes files of 4 KiB.
        Unlink4k => "unlink-4KB",
        /// Copies files of 4 KiB: half as many, so that there are as many files in the end.
        Copy4k => "copy-4KB",
    }
}

impl Op {
    /// The operations of Figs. 2, 4, 18 and section 5.2.
    pub const FOUR: [Op; 4] = [Op::Mkdir, Op::Rmdir, Op::Create4k, Op::Unlink4k];

    /// True if it removes objects that were made before, which Filebench does within its run.
    pub fn removes(self) -> bool {
        matches!(self, Op::Rmdir | Op::UnlinkEmpty | Op::Unlink4k)
    }

    /// The workload with this many objects.
    pub fn workload(self, objects: u32) -> String {
        let (op, count) = match self {
            Op::Mkdir => ("op=mkdir", objects),
            Op::Rmdir => ("op=rmdir", objects),
            Op::CreateEmpty => ("op=create,size=0", objects),
            Op::UnlinkEmpty => ("op=unlink,size=0", objects),
            Op::Create4k => ("op=create,size=4k", objects),
            Op::Unlink4k => ("op=unlink,size=4k", objects),
            Op::Copy4k => ("op=copy,size=4k", (objects / 2).max(1)),
        };
        format!("meta:{op},count={count},width=100")
    }

    /// The job on a system, with the paper's PC. Parts that ask for equal jobs share the run.
    pub fn job(self, plan: &Plan, system: System) -> BenchJob {
        self.at(plan, system, At::Whole)
    }

    /// The job with the size and CPU costs of `at`.
    pub fn at(self, plan: &Plan, system: System, at: At) -> BenchJob {
        let objects = match at {
            At::Whole => plan.objects(),
            At::Cpu(_) | At::Small => plan.objects_varied(),
        };
        let mut size = size(objects);
        if at == At::Small {
            size.bytes = SMALL * u64::from(objects.div_ceil(SMALL_OBJECTS));
        }
        BenchJob {
            run: RunConfig {
                stack: system.stack(DEVICE, size, plan.seed),
                workload: self.workload(objects),
                seed: plan.seed,
                recording: None,
            },
            host: Host {
                cpu_percent: if let At::Cpu(percent) = at {
                    percent
                } else {
                    100
                },
                cores: CORES,
            },
        }
    }
}
