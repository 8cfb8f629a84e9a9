//! What to cut: the stack, the work of its tasks, the seed; and which outside checkers are asked.

use crate::Target;
use crate::ops::{Op, Stress};
use base::{Mutant, Nanos, Time};
use blockdev::BlockDevice;
use rig::{Config, MountOptions, Mounted, RigError};
use rt::SimConfig;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use vfs::WritebackPolicy;

/// What the tasks do.
#[derive(Clone, Debug)]
pub enum Script {
    /// A list of operations for each task.
    Fixed(Vec<Vec<Op>>),
    /// Seeded mixes: each task draws its operations.
    Mixed {
        /// Number of tasks.
        tasks: usize,
        /// Operations of each task.
        ops: usize,
        /// What they stress.
        stress: Stress,
        /// KiB that are free on the volume when the tasks begin; `None`: it is as mkfs made it. An
        /// operation for which there is no room counts as not done.
        free: Option<u64>,
    },
}

impl Script {
    pub(crate) fn tasks(&self) -> usize {
        match self {
            Script::Fixed(scripts) => scripts.len(),
            Script::Mixed { tasks, .. } => *tasks,
        }
    }

    /// KiB that are free on the volume when the tasks begin.
    pub(crate) fn free(&self) -> Option<u64> {
        match self {
            Script::Fixed(_) => None,
            Script::Mixed { free, .. } => *free,
        }
    }
}

/// A run to be cut.
#[derive(Clone, Debug)]
pub struct CrashConfig {
    /// File system, scheme, device, data mode.
    pub stack: Config,
    /// The kind of device.
    pub target: Target,
    /// Seeds the workload, the schedule, the device and the cuts.
    pub seed: u64,
    /// What the tasks do.
    pub script: Script,
    /// Number of cuts.
    pub cuts: usize,
    /// Background work runs: committed metadata goes home soon, dirty pages are written back, and a
    /// timer commits.
    pub busy: bool,
    /// Freed extents are discarded.
    pub discard: bool,
    /// The guard that is left out, in the run and in recovery.
    pub mutant: Option<Mutant>,
}

impl CrashConfig {
    /// A run with this seed, which also draws whether background work and discards run.
    pub fn new(stack: Config, target: Target, seed: u64, script: Script, cuts: usize) -> Self {
        CrashConfig {
            stack,
            target,
            seed,
            script,
            cuts,
            busy: !seed.is_multiple_of(3),
            discard: false,
            mutant: None,
        }
    }

    pub(crate) fn sim(&self, seed: u64) -> SimConfig {
        SimConfig {
            mutant: self.mutant,
            quiet: self.mutant.is_some(),
            // A run takes less than a second; with timers a deadlock would last till this limit.
            time_limit: Time(600 * 1_000_000_000),
            ..SimConfig::random(seed)
        }
    }

    pub(crate) fn mount_options(&self) -> MountOptions {
        let busy = |millis| self.busy.then_some(Nanos::from_millis(millis));
        let options = self.stack.mount_options().discard(self.discard);
        options.timers(busy(15), busy(2))
    }

    /// Mounts the volume on `device` as the run has it, its I/O scheduler included.
    pub(crate) fn mount(&self, device: Arc<dyn BlockDevice>) -> Result<Mounted, RigError> {
        let scheduler = self.stack.scheduler.unwrap_or_default();
        Mounted::scheduled(device, scheduler, self.mount_options(), self.writeback())
    }

    pub(crate) fn writeback(&self) -> WritebackPolicy {
        WritebackPolicy {
            interval: self.busy.then_some(Nanos::from_micros(1500)),
            expire: Nanos::from_micros(700),
            ..WritebackPolicy::off()
        }
    }
}

impl fmt::Display for CrashConfig {
    /// Prints what tells this run from others.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {} scheme {} device {}",
            self.seed,
            self.stack.scheme_text(),
            self.stack.device
        )?;
        if let Some(scheduler) = self.stack.scheduler {
            write!(f, " scheduler {scheduler}")?;
        }
        match &self.script {
            Script::Fixed(_) => write!(f, " script")?,
            Script::Mixed {
                tasks, ops, stress, ..
            } => write!(f, " {tasks} x {ops} {stress:?}")?,
        }
        if let Some(kib) = self.script.free() {
            write!(f, " free {kib} KiB")?;
        }
        match &self.target {
            Target::Spec(caps) => write!(
                f,
                " cache={} fua={} granule={:?} no_collateral={} pack={:?} sector={} fifo={} barrier={}",
                caps.volatile_cache,
                caps.fua,
                caps.reliable_granule,
                caps.no_collateral,
                caps.packed.map(|p| p.order),
                caps.sector_bytes,
                caps.cache_fifo,
                caps.barrier
            ),
            Target::Profile(adversary) => write!(f, " {adversary:?}"),
        }
    }
}

/// Which outside checkers are asked, and the folder for the image files that they read.
#[derive(Clone, Copy, Debug)]
pub enum Opinion<'a> {
    /// No outside checker.
    Own,
    /// `e2fsck -fn` after recovery.
    Check(&'a Path),
    /// `e2fsck -fn` after recovery, and `e2fsck -fy` on the remainder in place of our recovery.
    Replay(&'a Path),
}

impl<'a> Opinion<'a> {
    pub(crate) fn folder(self) -> Option<&'a Path> {
        match self {
            Opinion::Own => None,
            Opinion::Check(folder) | Opinion::Replay(folder) => Some(folder),
        }
    }
    pub(crate) fn wants_tree(self) -> bool {
        matches!(self, Opinion::Replay(_))
    }
}
