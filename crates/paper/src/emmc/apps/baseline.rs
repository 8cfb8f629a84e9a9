//! Counts of a generated app on a scheme, for fitting its parameters and for checking the fit.

use crate::PaperError;
use crate::emmc::plan::{FIG8, Plan};
use rig::{Class, Stack};
use work::RunConfig;
use work::life::live;
use work::recording::Recording;
use work::workload::replay::Replay;
use work::workload::{Pace, Pacing};

/// Blocks by class, and commits, of one run.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    /// Number of transactions.
    pub commits: u64,
    /// Descriptors and commit blocks.
    pub control: u64,
    /// Logged metadata blocks.
    pub metadata: u64,
    /// All blocks in the journal.
    pub journal: u64,
    /// Blocks of file content.
    pub data: u64,
    /// Metadata blocks written home.
    pub home: u64,
    /// Sum over the commits of control blocks over control and metadata blocks.
    ratios: f64,
}

impl Counts {
    /// Control blocks over control and metadata blocks of all commits together.
    pub fn control_ratio(&self) -> f64 {
        self.control as f64 / (self.control + self.metadata) as f64
    }
    /// Mean over the commits of control blocks over control and metadata blocks.
    pub fn control_ratio_mean(&self) -> f64 {
        self.ratios / self.commits as f64
    }
    /// Logged metadata blocks per commit.
    pub fn metadata_per_commit(&self) -> f64 {
        self.metadata as f64 / self.commits as f64
    }
    /// Data blocks per commit.
    pub fn data_per_commit(&self) -> f64 {
        self.data as f64 / self.commits as f64
    }
    /// Journal blocks as a share of journal and data blocks.
    pub fn journal_ratio(&self) -> f64 {
        self.journal as f64 / (self.journal + self.data) as f64
    }

    fn take(stack: &Stack) -> Counts {
        let sectors = stack.queue.stats().sectors_written;
        let blocks = |class: &Class| sectors.get(class).map_or(0, |n| n / 8);
        let in_journal = |c: &&Class| c.word().starts_with("journal") || **c == Class::Coalition;
        Counts {
            commits: stack.fs.journal_stats().transactions,
            control: blocks(&Class::JournalDescriptor) + blocks(&Class::JournalCommit),
            metadata: blocks(&Class::JournalMetadata),
            journal: Class::ALL.iter().filter(in_journal).map(blocks).sum(),
            data: blocks(&Class::Data),
            home: blocks(&Class::Home),
            ratios: 0.0,
        }
    }

    fn since(&self, earlier: &Counts) -> Counts {
        Counts {
            commits: self.commits - earlier.commits,
            control: self.control - earlier.control,
            metadata: self.metadata - earlier.metadata,
            journal: self.journal - earlier.journal,
            data: self.data - earlier.data,
            home: self.home - earlier.home,
            ratios: 0.0,
        }
    }
}

/// Runs `recording` at its own pace on the standard stack of the paper.
pub fn run(recording: &Recording, scheme: &str) -> Result<Counts, PaperError> {
    let config = RunConfig {
        stack: Plan::new(true, 1, None).stack(scheme, FIG8),
        workload: "app:gmail".into(),
        seed: 1,
        recording: None,
    };
    let pacing = Pacing {
        pace: Pace::Recorded,
        ..Pacing::default()
    };
    let model = config.stack.format()?;
    let life = live(&config, model, |stack, _| {
        let mut replay = Replay::prepare(recording, pacing, &stack.vfs)?;
        let start = Counts::take(stack);
        let (mut last, mut ratios) = (start, 0.0);
        // Calls are denser than commits, so there is mostly one commit between two looks at most.
        replay.run(&mut |_| {
            let now = Counts::take(stack);
            let step = now.since(&last);
            if step.commits > 0 && step.control > 0 {
                ratios += step.control_ratio() * step.commits as f64;
                last = now;
            }
        })?;
        let all = Counts::take(stack).since(&start);
        replay.check()?;
        Ok(Counts { ratios, ..all })
    })?;
    Ok(life.value)
}
