//! Which cases a campaign consists of. Their order depends on nothing but the request, so the
//! number of a job means the same in every worker and every shard.

use super::campaign::{Explored, Look, Reach};
use super::case::Case;
use super::part;
use super::subject;
use crate::CrashError;
use rig::Scheduler;
use serde::{Deserialize, Serialize};

/// One case of a campaign.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Its number in the campaign, from 0.
    pub number: usize,
    /// The workload as it was asked for; tables have one group for each.
    pub group: String,
    /// What to run.
    pub case: Case,
    /// How far to look.
    pub reach: Reach,
    /// A positive control: some of them must show damage, otherwise the explorer is blind.
    pub control: bool,
    /// Only these of its states; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<part::Part>,
}

impl Job {
    /// Whether it can be explored in parts ([why not](super::part)).
    pub fn has_parts(&self) -> bool {
        self.part.is_none() && self.reach.nested == 0 && self.case.device.starts_with("spec:")
    }
}

/// A finished job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    /// What was asked.
    pub job: Job,
    /// What was found.
    pub explored: Explored,
}

/// What a campaign is to explore: every combination of these lists.
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
    /// How far each case is explored.
    pub reach: Reach,
}

/// The schemes that journal, in the order of tables.
pub const PRESETS: [&str; 9] = [
    "jbd2",
    "flush-ahead",
    "coalition",
    "coalition-paper",
    "emmc",
    "emmc-paper",
    "adaptive",
    "fast-commit",
    "fast-commit+adaptive",
];
/// The positive control: the scheme without a journal.
pub const CONTROL: &str = "none";

/// The jobs of a campaign, made as they are asked for: a campaign may have millions.
#[derive(Clone, Debug)]
pub struct Jobs {
    source: Source,
    schedulers: Vec<Option<Scheduler>>,
}

#[derive(Clone, Debug)]
enum Source {
    Listed(Vec<Job>),
    /// The workloads of each group, and what each of them is combined with.
    Combined(Request, Vec<(String, Vec<String>)>),
}

impl Jobs {
    /// All of them, numbered.
    pub fn iter(&self) -> impl Iterator<Item = Job> + '_ {
        let each = self.schedulers.iter().flat_map(|scheduler| {
            self.source.iter().map(|mut job| {
                job.case.scheduler = scheduler.or(job.case.scheduler);
                job
            })
        });
        each.enumerate().map(|(number, job)| Job { number, ..job })
    }

    /// The same jobs under each of these I/O schedulers in turn; without one as they are.
    #[must_use]
    pub fn under(self, schedulers: &[Scheduler]) -> Jobs {
        match schedulers {
            [] => self,
            all => Jobs {
                schedulers: all.iter().map(|one| Some(*one)).collect(),
                ..self
            },
        }
    }

    fn of(source: Source) -> Jobs {
        Jobs {
            source,
            schedulers: vec![None],
        }
    }
}

impl Source {
    fn iter(&self) -> Box<dyn Iterator<Item = Job> + '_> {
        match self {
            Source::Listed(jobs) => Box::new(jobs.iter().cloned()),
            Source::Combined(request, groups) => {
                let workloads = groups.iter().flat_map(|(group, workloads)| {
                    workloads.iter().map(move |workload| (group, workload))
                });
                Box::new(workloads.flat_map(|(group, workload)| request.of(group, workload)))
            }
        }
    }
}

impl Request {
    /// The jobs, workload by workload, and for each of them all schemes one after the other.
    ///
    /// # Errors
    /// A text that is no workload.
    pub fn jobs(self) -> Result<Jobs, CrashError> {
        let expand = |group: &String| Ok((group.clone(), subject::expand(group)?));
        let groups = self.workloads.iter().map(expand);
        let groups = groups.collect::<Result<_, CrashError>>()?;
        Ok(Jobs::of(Source::Combined(self, groups)))
    }

    /// The jobs of one workload, without numbers.
    fn of(&self, group: &str, workload: &str) -> Vec<Job> {
        let mut jobs = Vec::new();
        for device in &self.devices {
            for &seed in &self.seeds {
                for scheme in &self.schemes {
                    jobs.push(Job {
                        number: 0,
                        group: group.into(),
                        case: Case {
                            scheme: scheme.clone(),
                            device: device.clone(),
                            workload: workload.into(),
                            seed,
                            scheduler: None,
                            mutant: None,
                        },
                        reach: self.reach,
                        control: scheme.as_str() == CONTROL,
                        part: None,
                    });
                }
            }
        }
        jobs
    }
}

/// One part of the fixed sample.
struct Part {
    workloads: &'static [&'static str],
    devices: &'static [&'static str],
    /// What is appended to the name of each scheme; the positive control gets nothing appended.
    data: &'static [&'static str],
    seeds: &'static [u64],
    reach: Reach,
    /// The schemes that the part is for.
    of: Of,
}

/// Schemes that a part is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// The schemes of ext4.
    Ext4,
    /// All schemes of F2FS.
    F2fs,
    /// Only those of F2FSJ, the journal of F2FS.
    F2fsj,
}

impl Of {
    /// A scheme that cannot be read fits none; setting up its job refuses it with the reason.
    fn fits(self, scheme: &str) -> bool {
        match (self, scheme.parse()) {
            (Of::F2fs, Ok(rig::Scheme::F2fs(_))) => true,
            (Of::F2fsj, Ok(rig::Scheme::F2fs(scheme))) => scheme.journal().is_some(),
            (Of::Ext4, Ok(rig::Scheme::F2fs(_))) => false,
            (of, _) => of == Of::Ext4,
        }
    }
}

/// A bound: small subsets, a few draws on modelled devices, recoveries cut to this depth.
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
    // Every sequence of one operation, and the known bugs of other file systems.
    Part {
        workloads: &["ace:1", "known:all"],
        devices: &["spec:emmc"],
        data: &[""],
        seeds: &[3],
        reach: reach(1024, 0),
        of: Of::Ext4,
    },
    // Pairs of operations, on devices that promise less, with cuts in recoveries.
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
    // Volumes without room: operations are refused, and acknowledged ones must need no more of it.
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
    // Cuts around operations of the chips.
    Part {
        workloads: &["mix:tasks=2,ops=12,stress=swarm", "known:create_delete"],
        devices: &["nand"],
        data: &[""],
        seeds: &[1, 3],
        reach: reach(1024, 0),
        of: Of::Ext4,
    },
    // F2FS, on a device that leaves blocks old or new, as it needs.
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
    // F2FSJ needs no whole blocks. Rings that are always full and rings that wrap are used, and
    // recoveries are cut, too.
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
        devices: &["spec:nvme,sector=512", "spec:emmc-any", "spec:ufs"],
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

/// The schemes of F2FS in the sample: each mode of fsync, and its journal.
pub const F2FS: [&str; 5] = [
    "checkpoint-60",
    "checkpoint-60+fsync_mode=strict",
    "checkpoint-5-bg",
    "checkpoint-60+fsync_mode=nobarrier",
    "f2fsj",
];

/// Whether a part would teach nothing: a database trusts fsync, so without barriers it is lost by
/// design.
fn is_in_vain(scheme: &str, part: &Part) -> bool {
    let databases = part.workloads.iter().all(|w| w.starts_with("sqlite"));
    databases && scheme.contains("nobarrier")
}

/// The jobs of `varve crash --quick` for these schemes.
///
/// # Errors
/// A workload of the table that is none. A scheme that does not exist is reported when its jobs are
/// set up.
pub fn quick(schemes: &[String]) -> Result<Jobs, CrashError> {
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
            jobs.extend(request.jobs()?.iter());
        }
    }
    Ok(Jobs::of(Source::Listed(jobs)))
}

/// Counts of many jobs. Addition commutes, so neither the number of workers nor their order shows.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Counts {
    /// Number of jobs.
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
    /// Jobs whose run failed by itself.
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
