//! What the parts of the JFTL report share: the device, the modes, and the standard runs.

use super::job::Job;
use rig::{Config, Fs, Preset};
use work::RunConfig;

/// The paper's device: nandsim of 128 MiB with pages of 512 bytes (section 4).
pub const DEVICE: &str = "nandsim-2007";
/// Bytes of the volume: the paper's 128 MB. Spare blocks are behind them.
pub const BYTES: u64 = 128 << 20;

/// What a report runs, and for how long.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// True for a quick report: fewer and shorter runs.
    pub quick: bool,
    /// Seed of every random stream.
    pub seed: u64,
}

base::words! {
    /// A journaling mode of the paper, or the published variant of JFTL.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
    pub enum Mode {
        /// Metadata is logged and copied home.
        Ordered => "ordered",
        /// Metadata is logged and remapped home.
        OrderedJftl => "ordered with JFTL",
        /// Data and metadata are logged and copied home.
        Journaled => "journaled",
        /// Data and metadata are logged and remapped home.
        JournaledJftl => "journaled with JFTL",
        /// As [`Mode::JournaledJftl`], as published: the journal's address loses its mapping.
        JournaledPaper => "journaled, JFTL as published",
    }
}

impl Mode {
    /// The four modes of the paper's figures.
    pub const PAPER: [Mode; 4] = [
        Mode::Ordered,
        Mode::OrderedJftl,
        Mode::Journaled,
        Mode::JournaledJftl,
    ];
    /// The scheme as a configuration names it.
    pub fn scheme(self) -> &'static str {
        match self {
            Mode::Ordered => "jbd2",
            Mode::OrderedJftl => "jftl",
            Mode::Journaled => "jbd2+data=journal",
            Mode::JournaledJftl => "jftl+data=journal",
            Mode::JournaledPaper => "jftl-paper+data=journal",
        }
    }

    /// The mode that logs the same data and copies it home.
    pub fn copied(self) -> Mode {
        match self {
            Mode::Ordered | Mode::OrderedJftl => Mode::Ordered,
            Mode::Journaled | Mode::JournaledJftl | Mode::JournaledPaper => Mode::Journaled,
        }
    }
}

/// The name of the quotient of two modes.
pub fn over_name(a: Mode, b: Mode) -> String {
    format!("{} over {}", a.word(), b.word())
}

impl Plan {
    /// The plan of `varve paper jftl`.
    pub fn new(quick: bool, seed: u64) -> Plan {
        Plan { quick, seed }
    }

    /// The standard stack: [`DEVICE`] with [`BYTES`], the journal that `mke2fs` would choose, and
    /// inodes of 128 bytes, which `mke2fs` made until 2008 (1.41): their times have whole seconds.
    pub fn stack(&self, mode: Mode) -> Config {
        let mut stack = self.stack_of(mode.scheme(), DEVICE, BYTES);
        stack.inode_bytes = Some(128);
        stack
    }

    /// A stack of ext3 with any scheme on any device.
    ///
    /// # Panics
    /// `scheme` names no scheme. Schemes are literals of the code.
    pub fn stack_of(&self, scheme: &str, device: &str, bytes: u64) -> Config {
        let mut stack = Config::new(Preset::default(), device, self.seed);
        stack
            .set_scheme(scheme)
            .expect("figures name schemes that are");
        (stack.fs, stack.bytes) = (Fs::Ext3, bytes);
        stack
    }

    /// The configuration of a run on this stack.
    pub fn config(&self, stack: Config, workload: &str) -> RunConfig {
        RunConfig {
            stack,
            workload: workload.into(),
            seed: self.seed,
            recording: None,
        }
    }

    /// The job that runs a workload in a mode on the standard stack.
    pub fn run(&self, mode: Mode, workload: &str) -> Job {
        Job::Run(self.config(self.stack(mode), workload))
    }

    /// `full` or `quick`, by the length of the report.
    pub fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}
