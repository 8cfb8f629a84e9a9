//! The operations on names of sections 2.3, 5.2 and 5.3, as jobs: one process, 100 entries a
//! directory.

use super::Plan;
use super::measure::{BenchJob, Host};
use super::scale::{CORES, DEVICE, VOLUME, ring};
use super::system::{Size, System};
use work::RunConfig;

/// Where a run stands in the report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// All objects, the table of CPU costs as it is.
    Whole,
    /// So many percent of the CPU costs of the table; fewer objects with a ring as much smaller, as
    /// these runs are for comparison only.
    Cpu(u32),
}

impl At {
    /// Half, the whole and twice the CPU costs.
    pub const LEVELS: [At; 3] = [At::Cpu(50), At::Cpu(100), At::Cpu(200)];

    /// What a row of it is called.
    pub fn text(self, plan: &Plan) -> String {
        match self {
            At::Whole => format!("{} objects", plan.objects()),
            At::Cpu(percent) => format!("CPU {percent} %, {} objects", plan.objects_varied()),
        }
    }
}

/// An operation of the paper.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Op {
    /// Makes directories.
    Mkdir,
    /// Removes them.
    Rmdir,
    /// Makes empty files.
    CreateEmpty,
    /// Removes them.
    UnlinkEmpty,
    /// Makes files of 4 KiB.
    Create4k,
    /// Removes them.
    Unlink4k,
    /// Copies them: half as many, so that there are as many files in the end.
    Copy4k,
}

impl Op {
    /// All of them, as section 5.3 has them.
    pub const ALL: [Op; 7] = [
        Op::Mkdir,
        Op::Rmdir,
        Op::CreateEmpty,
        Op::UnlinkEmpty,
        Op::Create4k,
        Op::Unlink4k,
        Op::Copy4k,
    ];
    /// Those of Figs. 2, 4, 18 and section 5.2.
    pub const FOUR: [Op; 4] = [Op::Mkdir, Op::Rmdir, Op::Create4k, Op::Unlink4k];

    /// Its name in the paper.
    pub const fn name(self) -> &'static str {
        match self {
            Op::Mkdir => "mkdir",
            Op::Rmdir => "rmdir",
            Op::CreateEmpty => "create-empty",
            Op::UnlinkEmpty => "unlink-empty",
            Op::Create4k => "create-4KB",
            Op::Unlink4k => "unlink-4KB",
            Op::Copy4k => "copy-4KB",
        }
    }

    /// The workload with so many objects.
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

    /// It on a system, on the paper's PC with so many percent of the CPU costs of the table. Parts
    /// that ask for the same share the run.
    pub fn job(self, plan: &Plan, system: System, cpu_percent: u32) -> BenchJob {
        self.sized(plan, system, cpu_percent, plan.objects())
    }

    /// The same at a point of the report.
    pub fn at(self, plan: &Plan, system: System, at: At) -> BenchJob {
        match at {
            At::Whole => self.job(plan, system, 100),
            At::Cpu(percent) => self.sized(plan, system, percent, plan.objects_varied()),
        }
    }

    fn sized(self, plan: &Plan, system: System, cpu_percent: u32, objects: u32) -> BenchJob {
        let size = Size {
            bytes: VOLUME,
            ring: ring(objects),
        };
        BenchJob {
            run: RunConfig {
                stack: system.stack(DEVICE, size, plan.seed),
                workload: self.workload(objects),
                seed: plan.seed,
                recording: None,
            },
            host: Host {
                cpu_percent,
                cores: CORES,
            },
        }
    }
}
