//! What a suite takes: time on the wall, and time of the processors.

use std::time::{Duration, Instant};

/// Both times.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// From begin to end.
    pub wall: Duration,
    /// Of all processes that were started meanwhile and have ended: on two processors up to twice
    /// as much, and much less for a suite that waits. Zero where the system does not tell.
    pub cpu: Duration,
}

/// Measures from its making on.
pub struct Watch {
    wall: Instant,
    cpu: Duration,
}

impl Watch {
    /// Begins.
    pub fn begin() -> Watch {
        Watch {
            wall: Instant::now(),
            cpu: of_children().unwrap_or_default(),
        }
    }

    /// What was spent since.
    pub fn spent(&self) -> Spent {
        let cpu = of_children().unwrap_or_default();
        Spent {
            wall: self.wall.elapsed(),
            cpu: cpu.saturating_sub(self.cpu),
        }
    }
}

/// Processor time of all children that have ended and were waited for, and of theirs (`cutime` and
/// `cstime` of proc_pid_stat(5)).
fn of_children() -> Option<Duration> {
    ticks(&std::fs::read_to_string("/proc/self/stat").ok()?).map(|ticks| {
        let second = rustix::param::clock_ticks_per_second();
        Duration::from_millis(ticks.saturating_mul(1000) / second.max(1))
    })
}

/// The second field is the program's name in brackets, which may hold anything, brackets included.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(13);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_measured_when_they_end() {
        let line = "7 (a b) c) S 1 7 7 0 -1 4194560 5 6 0 0 11 12 130 14 20 0 1 0 9 0 0";
        assert_eq!(ticks(line), Some(144));
        assert_eq!(ticks("7 (a"), None);
        let watch = Watch::begin();
        let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let ended = std::process::Command::new("sh").args(["-c", busy]).status();
        assert!(ended.unwrap().success());
        let spent = watch.spent();
        assert!(spent.cpu > Duration::ZERO && spent.wall > Duration::ZERO);
    }
}
