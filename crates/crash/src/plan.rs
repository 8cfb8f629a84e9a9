//! Which cases a campaign consists of, in a fixed order: the numbers of its jobs depend on nothing
//! but the request.

use super::campaign::{Explored, Look, Reach};
use super::case::Case;
use super::subject;
use crate::CrashError;
use serde::{Deserialize, Serialize};

/// One case of a campaign.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Its number in the campaign, from 0.
    pub number: usize,
    /// The group it belongs to in tables: the workload as it was asked for.
    pub group: String,
    /// What to run.
    pub case: Case,
    /// How far to look.
    pub reach: Reach,
    /// A positive control: some job of its group and scheme must show damage, or the explorer is
    /// blind.
    pub control: bool,
}

/// A finished job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    /// What was asked.
    pub job: Job,
    /// What was found.
    pub explored: Explored,
}

/// What to explore.
#[derive(Clone, Debug)]
pub struct Request {
    /// Schemes.
    pub schemes: Vec<String>,
    /// Devices.
    pub devices: Vec<String>,
    /// Workloads; an `ace:` text stands for many.
    pub workloads: Vec<String>,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// How far.
    pub reach: Reach,
}

/// The schemes that journal, in the order of tables.
pub const PRESETS: [&str; 6] = [
    "jbd2",
    "flush-ahead",
    "coalition",
    "coalition-paper",
    "emmc",
    "adaptive",
];
/// The positive control.
pub const CONTROL: &str = "none";

impl Request {
    /// The jobs: workload by workload, and of each all schemes side by side.
    ///
    /// # Errors
    /// A workload that is none.
    pub fn jobs(&self) -> Result<Vec<Job>, CrashError> {
        let mut jobs = Vec::new();
        for group in &self.workloads {
            for workload in subject::expand(group)? {
                for device in &self.devices {
                    for &seed in &self.seeds {
                        for scheme in &self.schemes {
                            jobs.push(Job {
                                number: jobs.len(),
                                group: group.clone(),
                                case: Case {
                                    scheme: scheme.clone(),
                                    device: device.clone(),
                                    workload: workload.clone(),
                                    seed,
                                    mutant: None,
                                },
                                reach: self.reach,
                                control: scheme.as_str() == CONTROL,
                            });
                        }
                    }
                }
            }
        }
        Ok(jobs)
    }
}

/// One part of the fixed sample.
struct Part {
    workloads: &'static [&'static str],
    devices: &'static [&'static str],
    /// What follows the name of each scheme; not that of the positive control.
    data: &'static [&'static str],
    seeds: &'static [u64],
    reach: Reach,
    /// For which schemes.
    of: Of,
}

/// Schemes that a part is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// Those of ext4.
    Ext4,
    /// All of F2FS.
    F2fs,
    /// Its journal.
    F2fsj,
}

impl Of {
    /// What cannot be read is refused later, with its reason.
    fn fits(self, scheme: &str) -> bool {
        match (self, scheme.parse()) {
            (Of::F2fs, Ok(rig::Scheme::F2fs(_))) => true,
            (Of::F2fsj, Ok(rig::Scheme::F2fs(scheme))) => scheme.journal().is_some(),
            (Of::Ext4, Ok(rig::Scheme::F2fs(_))) => false,
            (of, _) => of == Of::Ext4,
        }
    }
}

/// Small subsets, a few draws where the device is a modelled one, recoveries cut to a depth.
const fn reach(states_max: u32, nested: u32) -> Reach {
    Reach {
        mode: Look::Bounded,
        draws: 0,
        moments: 0,
        subset_max: 2,
        torn_max: 2,
        states_max,
        prune: true,
        fsck: true,
        deep_one_in: 256,
        nested,
        nested_one_in: 512,
    }
}

/// Mixes on volumes that are nearly full.
const FULL: [&str; 2] = [
    "mix:tasks=3,ops=40,stress=reuse,free=96",
    "mix:tasks=2,ops=40,stress=swarm,free=32",
];

/// The fixed sample of `varve crash --quick`: all presets and the positive control.
const QUICK: &[Part] = &[
    // Every sequence of one operation, and what other file systems lost.
    Part {
        workloads: &["ace:1", "known:all"],
        devices: &["spec:emmc"],
        data: &[""],
        seeds: &[3],
        reach: reach(1024, 0),
        of: Of::Ext4,
    },
    // Pairs of operations, devices that promise less, recoveries that are cut.
    Part {
        workloads: &["ace:2,every=60"],
        devices: &["spec:emmc-any", "spec:nvme", "spec:disk"],
        data: &[""],
        seeds: &[3],
        reach: reach(1024, 1),
        of: Of::Ext4,
    },
    Part {
        workloads: &["ace:1,every=8"],
        devices: &["spec:emmc"],
        data: &["+data=writeback", "+data=journal"],
        seeds: &[3],
        reach: reach(1024, 0),
        of: Of::Ext4,
    },
    // Several tasks, with timers and without.
    Part {
        workloads: &[
            "mix:tasks=3,ops=20,stress=swarm",
            "mix:tasks=2,ops=20,stress=names",
            "mix:tasks=2,ops=20,stress=reuse",
        ],
        devices: &["spec:emmc", "spec:emmc-plain,order=fifo"],
        data: &[""],
        seeds: &[1, 2, 3],
        reach: reach(128, 1),
        of: Of::Ext4,
    },
    // Volumes without room: operations are refused, and what was acknowledged needs no more of it.
    Part {
        workloads: &FULL,
        devices: &["spec:emmc"],
        data: &[""],
        seeds: &[1],
        reach: reach(64, 0),
        of: Of::Ext4,
    },
    // A database in each of its journal modes.
    Part {
        workloads: &[
            "sqlite:insert=3,update=1,delete=1,journal=truncate,psow=off",
            "sqlite:insert=3,update=1,delete=1,journal=persist,psow=off",
            "sqlite:insert=3,update=1,delete=1,journal=wal,psow=off",
            "sqlite:insert=3,update=1,delete=1,journal=delete,synchronous=extra,psow=off",
        ],
        devices: &["spec:emmc"],
        data: &[""],
        seeds: &[3],
        reach: reach(64, 0),
        of: Of::Ext4,
    },
    // The operations of the chips.
    Part {
        workloads: &["mix:tasks=2,ops=12,stress=swarm", "known:create_delete"],
        devices: &["nand"],
        data: &[""],
        seeds: &[1, 3],
        reach: reach(1024, 0),
        of: Of::Ext4,
    },
    // F2FS, on blocks that are old or new, as it expects them.
    Part {
        workloads: &["ace:1", "known:all"],
        devices: &["spec:nvme"],
        data: &[""],
        seeds: &[3],
        reach: reach(1024, 0),
        of: Of::F2fs,
    },
    Part {
        workloads: &["ace:2,every=120"],
        devices: &["spec:nvme", "spec:nvme,order=fifo"],
        data: &[""],
        seeds: &[3],
        reach: reach(256, 1),
        of: Of::F2fs,
    },
    Part {
        workloads: &[
            "mix:tasks=3,ops=20,stress=swarm",
            "mix:tasks=2,ops=20,stress=names",
            "mix:tasks=2,ops=20,stress=reuse",
        ],
        devices: &["spec:nvme"],
        data: &[""],
        seeds: &[1, 2, 3],
        reach: reach(128, 1),
        of: Of::F2fs,
    },
    Part {
        workloads: &[
            "sqlite:insert=3,update=1,delete=1,journal=truncate,psow=off",
            "sqlite:insert=3,update=1,delete=1,journal=persist,psow=off",
            "sqlite:insert=3,update=1,delete=1,journal=wal,psow=off",
            "sqlite:insert=3,update=1,delete=1,journal=delete,synchronous=extra,psow=off",
        ],
        devices: &["spec:nvme"],
        data: &[""],
        seeds: &[3],
        reach: reach(64, 0),
        of: Of::F2fs,
    },
    Part {
        workloads: &FULL,
        devices: &["spec:nvme"],
        data: &[""],
        seeds: &[1],
        reach: reach(64, 0),
        of: Of::F2fs,
    },
    // Its journal needs no whole blocks. Rings that are full all the time, and rings that wrap;
    // recoveries are cut too.
    Part {
        workloads: &["ace:1,every=3", "known:all"],
        devices: &["spec:nvme,sector=512"],
        data: &["+ring=16"],
        seeds: &[3],
        reach: reach(256, 1),
        of: Of::F2fsj,
    },
    Part {
        workloads: &["ace:2,every=200"],
        devices: &["spec:nvme,sector=512"],
        data: &["", "+ring=16"],
        seeds: &[3],
        reach: reach(256, 1),
        of: Of::F2fsj,
    },
    Part {
        workloads: &[
            "mix:tasks=3,ops=40,stress=swarm",
            "mix:tasks=3,ops=30,stress=names",
            "mix:tasks=2,ops=30,stress=reuse",
        ],
        devices: &["spec:nvme,sector=512", "spec:disk"],
        data: &["+ring=16", "+ring=64"],
        seeds: &[1, 2, 3],
        reach: reach(128, 1),
        of: Of::F2fsj,
    },
];

/// The schemes of F2FS in the sample: each mode of fsync, and the journal.
pub const F2FS: [&str; 5] = [
    "checkpoint-60",
    "checkpoint-60+fsync_mode=strict",
    "checkpoint-5-bg",
    "checkpoint-60+fsync_mode=nobarrier",
    "f2fsj",
];

/// A database trusts fsync; without barriers it is lost by design, and nothing is to be learned
/// from that.
fn is_in_vain(scheme: &str, part: &Part) -> bool {
    let databases = part.workloads.iter().all(|w| w.starts_with("sqlite"));
    databases && scheme.contains("nobarrier")
}

/// The jobs of `--quick`, for these schemes.
///
/// # Errors
/// A workload of the table that is none; a scheme that does not exist shows when its jobs are set
/// up.
pub fn quick(schemes: &[String]) -> Result<Vec<Job>, CrashError> {
    let mut jobs: Vec<Job> = Vec::new();
    for part in QUICK {
        for data in part.data {
            let mode = |s: &String| format!("{s}{data}");
            let wanted = schemes
                .iter()
                .filter(|s| part.of.fits(s) && !is_in_vain(s, part))
                .filter(|s| data.is_empty() || (s.as_str() != CONTROL && !s.contains("data=")))
                .filter(|s| !data.contains("ring=") || !s.contains("ring="));
            let request = Request {
                schemes: wanted.map(mode).collect(),
                devices: part.devices.iter().map(|d| (*d).into()).collect(),
                workloads: part.workloads.iter().map(|w| (*w).into()).collect(),
                seeds: part.seeds.to_vec(),
                reach: part.reach,
            };
            for job in request.jobs()? {
                let number = jobs.len();
                jobs.push(Job { number, ..job });
            }
        }
    }
    Ok(jobs)
}

/// Counts of many jobs; adding is commutative, so neither the number of workers nor their order
/// shows.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Counts {
    /// Jobs.
    pub cases: u64,
    /// See [`Explored::points`].
    pub points: u64,
    /// See [`Explored::enumerated`].
    pub enumerated: u64,
    /// See [`Explored::deduplicated`].
    pub deduplicated: u64,
    /// See [`Explored::pruned`].
    pub pruned: u64,
    /// See [`Explored::beyond`].
    pub beyond: u64,
    /// See [`Explored::judged`].
    pub judged: u64,
    /// See [`Explored::nested`].
    pub nested: u64,
    /// See [`Explored::violations`].
    pub violations: u64,
    /// Runs that failed by themselves.
    pub failures: u64,
}

impl Counts {
    /// Adds other jobs.
    pub fn merge(&mut self, other: &Counts) {
        self.cases += other.cases;
        self.points += other.points;
        self.enumerated += other.enumerated;
        self.deduplicated += other.deduplicated;
        self.pruned += other.pruned;
        self.beyond += other.beyond;
        self.judged += other.judged;
        self.nested += other.nested;
        self.violations += other.violations;
        self.failures += other.failures;
    }

    /// Adds a job.
    pub fn add(&mut self, explored: &Explored) {
        self.merge(&Counts {
            cases: 1,
            points: explored.points,
            enumerated: explored.enumerated,
            deduplicated: explored.deduplicated,
            pruned: explored.pruned,
            beyond: explored.beyond,
            judged: explored.judged,
            nested: explored.nested,
            violations: explored.violations,
            failures: u64::from(explored.failure.is_some()),
        });
    }
}
