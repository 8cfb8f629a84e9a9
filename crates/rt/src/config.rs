//! Configuration of a simulation, and the one line that reproduces it.

use base::{Mutant, Nanos, Time};
use std::fmt;
use std::str::FromStr;

/// Wall-clock time: seconds and nanoseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct WallTime {
    /// Seconds.
    pub secs: i64,
    /// Nanoseconds below one second.
    pub nanos: u32,
}

/// Which ready task runs next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Policy {
    /// Tasks run in the order in which they became ready.
    Fifo,
    /// A random ready task runs; besides, a task yields before a lock, an atomic, a channel or
    /// semaphore operation with probability 1/`yield_one_in` (0: never).
    Random {
        /// One yield in so many operations.
        yield_one_in: u64,
    },
    /// As `Fifo`, but at these scheduling points (`u64::MAX`: none) the running task is put off.
    /// See [`crate::each_schedule`].
    Delays([u64; DELAYS]),
    /// By random priorities, which change at `depth` - 1 of the first `points` scheduling points.
    Pct {
        /// Depth of the bug that is looked for: how many orderings have to be right.
        depth: u64,
        /// Scheduling points of a run, about.
        points: u64,
    },
    /// As `Fifo`, but at one scheduling point in `one_in` (0: at none) the running task stops for a
    /// random time, as a thread does that the processor is taken from. What another task does in
    /// one go can then fall into a gap of it, though the two are seldom ready at one time.
    Stalls {
        /// One stall in so many points.
        one_in: u64,
        /// A stall is shorter than this, ns.
        below: u64,
    },
}

/// Most delays of a schedule.
pub const DELAYS: usize = 4;

/// What a panic in a task does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnPanic {
    /// Ends the simulation with its report; no other task runs again.
    End,
    /// `join` returns it, as in std, and the simulation goes on; the outcome reports it all the
    /// same.
    Join,
}

/// Configuration of a simulation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SimConfig {
    /// Seed of all random streams and of the schedule.
    pub seed: u64,
    /// Virtual CPU cores that [`crate::charge`] shares out; at least 1.
    pub cores: usize,
    /// The time that [`crate::charge`] takes, percent of the time it is given: 50 and 200 show how
    /// far a result depends on CPU costs.
    pub cpu_percent: u32,
    /// The schedule.
    pub policy: Policy,
    /// Usable bytes of each task's stack.
    pub stack: usize,
    /// Most steps: switches plus lock, atomic and channel operations.
    pub step_limit: u64,
    /// Latest virtual time.
    pub time_limit: Time,
    /// Most switches without progress of virtual time (lock operations: 64 times as many).
    pub no_progress_limit: u64,
    /// Switches that tasks may still take after a power cut, or after the main task has returned.
    pub run_out: u64,
    /// What a panic does.
    pub on_panic: OnPanic,
    /// What [`crate::wall`] answers at virtual time 0.
    pub epoch: WallTime,
    /// Skips a switch that would come back to the same task. This is not observable; it is off only
    /// to test that.
    pub fast_path: bool,
    /// Real time without any step after which the watchdog prints the running task.
    pub watchdog: Nanos,
    /// Do not print panics of tasks; the outcome has them.
    pub quiet: bool,
    /// The guard that is left out; without effect unless the feature `mutants` is on.
    pub mutant: Option<Mutant>,
}

/// 2024-01-01T00:00:00Z: a time that ext4, F2FS and their checkers find plausible.
const EPOCH: WallTime = WallTime {
    secs: 1_704_067_200,
    nanos: 0,
};
const YEAR: u64 = 365 * 24 * 3600 * 1_000_000_000;

impl Default for SimConfig {
    fn default() -> SimConfig {
        SimConfig {
            seed: 0,
            cores: 1,
            cpu_percent: 100,
            policy: Policy::Fifo,
            stack: 1 << 20,
            step_limit: u64::MAX,
            time_limit: Time(YEAR),
            no_progress_limit: 2_000_000,
            run_out: 200_000,
            on_panic: OnPanic::End,
            epoch: EPOCH,
            fast_path: true,
            watchdog: Nanos::from_secs(10),
            quiet: false,
            mutant: None,
        }
    }
}

impl SimConfig {
    /// The default with another seed.
    pub fn seeded(seed: u64) -> SimConfig {
        SimConfig {
            seed,
            ..SimConfig::default()
        }
    }
    /// A random schedule with another seed, yielding before one operation in four.
    pub fn random(seed: u64) -> SimConfig {
        SimConfig {
            policy: Policy::Random { yield_one_in: 4 },
            ..SimConfig::seeded(seed)
        }
    }
}

/// The replay line: whatever differs from the default and changes the result.
impl fmt::Display for SimConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let d = SimConfig::default();
        write!(f, "seed={} cores={}", self.seed, self.cores)?;
        match self.policy {
            Policy::Fifo => write!(f, " policy=fifo")?,
            Policy::Random { yield_one_in } => write!(f, " policy=random:{yield_one_in}")?,
            Policy::Delays(at) => {
                let at = at.iter().filter(|p| **p != u64::MAX);
                let at: Vec<_> = at.map(u64::to_string).collect();
                write!(f, " policy=delays:{}", at.join(","))?;
            }
            Policy::Pct { depth, points } => write!(f, " policy=pct:{depth},{points}")?,
            Policy::Stalls { one_in, below } => write!(f, " policy=stalls:{one_in},{below}")?,
        }
        let differs = [
            ("stack", self.stack as u64, d.stack as u64),
            ("step-limit", self.step_limit, d.step_limit),
            ("time-limit", self.time_limit.0, d.time_limit.0),
            ("no-progress", self.no_progress_limit, d.no_progress_limit),
            ("run-out", self.run_out, d.run_out),
            ("epoch", self.epoch.secs as u64, d.epoch.secs as u64),
        ];
        for (key, value, _) in differs
            .iter()
            .filter(|(_, value, default)| value != default)
        {
            write!(f, " {key}={value}")?;
        }
        if self.cpu_percent != d.cpu_percent {
            write!(f, " cpu-percent={}", self.cpu_percent)?;
        }
        if self.on_panic == OnPanic::Join {
            write!(f, " on-panic=join")?;
        }
        if let Some(mutant) = self.mutant {
            write!(f, " mutant={mutant}")?;
        }
        Ok(())
    }
}

/// A replay line that cannot be read, with the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadReplay(String);

impl fmt::Display for BadReplay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl std::error::Error for BadReplay {}

/// Reads a replay line back.
impl FromStr for SimConfig {
    type Err = BadReplay;
    fn from_str(line: &str) -> Result<SimConfig, BadReplay> {
        let mut c = SimConfig::default();
        for word in line.split_whitespace() {
            let bad = || {
                BadReplay(format!(
                    "replay line: cannot read `{word}`; expected key=value as printed by a simulation"
                ))
            };
            let (key, value) = word.split_once('=').ok_or_else(bad)?;
            let number = || value.parse::<u64>().map_err(|_| bad());
            match key {
                "seed" => c.seed = number()?,
                "cores" => {
                    c.cores = usize::try_from(number()?)
                        .ok()
                        .filter(|n| (1..=65_536).contains(n))
                        .ok_or_else(bad)?
                }
                "stack" => {
                    c.stack = usize::try_from(number()?)
                        .ok()
                        .filter(|n| *n <= 1 << 30)
                        .ok_or_else(bad)?
                }
                "cpu-percent" => {
                    c.cpu_percent = u32::try_from(number()?).map_err(|_| bad())?;
                }
                "step-limit" => c.step_limit = number()?,
                "time-limit" => c.time_limit = Time(number()?),
                "no-progress" => c.no_progress_limit = number()?,
                "run-out" => c.run_out = number()?,
                "mutant" => c.mutant = Some(value.parse().map_err(|_| bad())?),
                "epoch" => c.epoch.secs = number()? as i64,
                "on-panic" if value == "join" => c.on_panic = OnPanic::Join,
                "policy" => {
                    c.policy = match value.split_once(':') {
                        None if value == "fifo" => Policy::Fifo,
                        Some(("random", n)) => Policy::Random {
                            yield_one_in: n.parse().map_err(|_| bad())?,
                        },
                        Some(("delays", at)) => Policy::Delays(numbers(at).ok_or_else(bad)?),
                        Some(("pct", of)) => {
                            let [depth, points] = numbers(of).ok_or_else(bad)?;
                            Policy::Pct { depth, points }
                        }
                        Some(("stalls", of)) => {
                            let [one_in, below] = numbers(of).ok_or_else(bad)?;
                            Policy::Stalls { one_in, below }
                        }
                        _ => return Err(bad()),
                    }
                }
                _ => return Err(bad()),
            }
        }
        Ok(c)
    }
}

/// At most `N` numbers with commas between them; `u64::MAX` stands for those that are missing.
fn numbers<const N: usize>(text: &str) -> Option<[u64; N]> {
    let mut found = [u64::MAX; N];
    for (i, word) in text.split(',').filter(|w| !w.is_empty()).enumerate() {
        *found.get_mut(i)? = word.parse().ok()?;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_line_reads_back() {
        let c = SimConfig {
            cores: 3,
            cpu_percent: 400,
            run_out: 7,
            stack: 65_536,
            on_panic: OnPanic::Join,
            mutant: Some(Mutant::SkipFlush),
            ..SimConfig::random(99)
        };
        assert_eq!(c.to_string().parse::<SimConfig>(), Ok(c));
        let delays = |at: &[u64]| {
            let mut all = [u64::MAX; DELAYS];
            all[..at.len()].copy_from_slice(at);
            Policy::Delays(all)
        };
        let pct = Policy::Pct {
            depth: 3,
            points: 100,
        };
        let stalls = Policy::Stalls {
            one_in: 50,
            below: 1000,
        };
        let four = delays(&[1, 2, 3, 4]);
        for policy in [delays(&[]), delays(&[7]), four, pct, stalls] {
            let c = SimConfig {
                policy,
                ..SimConfig::default()
            };
            assert_eq!(c.to_string().parse::<SimConfig>(), Ok(c));
        }
        assert_eq!(
            SimConfig::default().to_string().parse::<SimConfig>(),
            Ok(SimConfig::default())
        );
    }

    #[test]
    fn a_wrong_replay_line_says_which_word() {
        for line in [
            "seed=x",
            "cores=0",
            "policy=lifo",
            "policy=delays:1,2,3,4,5",
            "what=1",
            "seed",
        ] {
            let e = line.parse::<SimConfig>().unwrap_err().to_string();
            assert!(e.contains(&format!("`{line}`")), "{e}");
        }
    }
}
