//! The job of an app whose own time is a given part of the time that it spends in syncs on the
//! baseline. The paper publishes the time of a persistence path and the performance of an app, and
//! so, by arithmetic, how much of an app's time is its own; a recording has its own answer. The job
//! sets the former.
//!
//! The factor on the recorded own time is found by two runs of the baseline, without any own time
//! and with all of it: what is not spent in syncs grows in proportion between them. For
//! transactions of SQLite, of which no recording tells, the own time is so many microseconds before
//! each, and they are found alike.

use crate::PaperError;
use crate::emmc::measure::{ratio, sync_seconds};
use report::results::Run;
use serde::{Deserialize, Serialize};
use work::{RunConfig, run};

/// Own time over the time of the baseline's syncs, as it follows from the paper's Figs 12 and 13.
pub const PAPER: f64 = 0.33;
/// The same of the recordings: some three quarters of the time of the syncs, where the pauses of
/// people and network are left out.
pub const RECORDINGS: f64 = 0.73;
/// Microseconds of own time before a transaction, in the run with all of it.
const SQLITE_US: f64 = 1000.0;

/// An app on several stacks with one own time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct OwnTime {
    /// The runs, the baseline first. Their workloads lack the pace.
    pub runs: Vec<RunConfig>,
    /// Own time over the time of the baseline's syncs.
    pub share: f64,
    /// How the workloads take it.
    pub of: Of,
}

/// What has own time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Of {
    /// The calls of a recording, a factor on what was recorded.
    Recording,
    /// Transactions of SQLite, thousands of microseconds before each.
    Sqlite,
}

impl Of {
    /// What a workload says for a factor.
    fn words(self, factor: f64) -> String {
        match self {
            Of::Recording => format!("pace=busy,think={factor}"),
            Of::Sqlite => format!("cpu={:.0}", SQLITE_US * factor),
        }
    }

    /// How long a run spends in syncs and out of them. A transaction of SQLite makes several syncs,
    /// which are no operations of the workload: their time is the sum of their waits.
    fn times(self, run: &Run) -> Times {
        let waits = ["fsync-data", "fsync-commit", "fsync-home", "fsync-flush"];
        let waits = waits.map(|cause| run.waits_us.get(cause).copied().unwrap_or_default());
        let syncs = match self {
            Of::Recording => sync_seconds(run),
            Of::Sqlite => waits.iter().sum::<f64>() / 1e6,
        };
        Times {
            syncs,
            others: (run.virtual_seconds - syncs).max(0.0),
        }
    }
}

/// What came of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Owned {
    /// The factor on the recorded own time.
    pub think: f64,
    /// What has it.
    pub of: Of,
    /// The runs, in the order of the job.
    pub runs: Vec<Run>,
}

impl OwnTime {
    /// Finds the factor, and runs all with it.
    ///
    /// # Errors
    /// A run fails.
    pub fn run(&self) -> Result<Owned, PaperError> {
        let [none, all] = [self.one(0, 0.0)?, self.one(0, 1.0)?];
        let think = factor(self.share, [&none, &all].map(|run| self.of.times(run)));
        let runs = (0..self.runs.len()).map(|n| self.one(n, think));
        Ok(Owned {
            think,
            of: self.of,
            runs: runs.collect::<Result<_, _>>()?,
        })
    }

    fn one(&self, n: usize, think: f64) -> Result<Run, PaperError> {
        let mut config = self.runs[n].clone();
        config.workload = format!("{},{}", config.workload, self.of.words(think));
        Ok(run::run(&config, &mut |_, _| {})?.run)
    }
}

/// How long a run spends in syncs and out of them, seconds.
#[derive(Clone, Copy)]
struct Times {
    syncs: f64,
    others: f64,
}

/// The factor with which what is not spent in syncs is `share` of what is; `none` is a run without
/// own time, `all` one with all of it. Thousandths, as workloads take them.
fn factor(share: f64, [none, all]: [Times; 2]) -> f64 {
    let grows = all.others - none.others;
    let factor = ratio(share * none.syncs - none.others, grows);
    (factor.clamp(0.0, 1000.0) * 1000.0).round() / 1000.0
}

impl Owned {
    /// Own time over the time of the syncs that the baseline really had.
    pub fn share(&self) -> f64 {
        let times = self.of.times(&self.runs[0]);
        ratio(times.others, times.syncs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_makes_the_share() {
        let times = |syncs, others| Times { syncs, others };
        let of = |share| factor(share, [times(2.0, 0.1), times(2.0, 4.1)]);
        assert_eq!(of(0.05), 0.0);
        assert_eq!(of(0.33), 0.14);
        assert_eq!(of(1.0), 0.475);
        assert_eq!(of(0.01), 0.0, "less than what is not the app's own");
    }
}
