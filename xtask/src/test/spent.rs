//! What a suite takes: time on the wall, and time of the processors.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Both times.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// From begin to end.
    pub wall: Duration,
    /// Of all processes that it started and waited for, and of theirs: on two processors up to
    /// twice as much, and much less for a suite that waits. Zero where the system does not tell.
    pub cpu: Duration,
}

/// Measures from its making on.
pub struct Watch {
    wall: Instant,
    cpu: Cell<Duration>,
}

impl Watch {
    /// Begins.
    pub fn begin() -> Watch {
        Watch {
            wall: Instant::now(),
            cpu: Cell::default(),
        }
    }

    /// Adds what a process has taken.
    pub fn add(&self, cpu: Duration) {
        self.cpu.set(self.cpu.get() + cpu);
    }

    /// What was spent since.
    pub fn spent(&self) -> Spent {
        Spent {
            wall: self.wall.elapsed(),
            cpu: self.cpu.get(),
        }
    }
}

/// Processor time of all children that have ended and were waited for, and of theirs.
pub fn of_children() -> Duration {
    time("/proc/self/stat", 2).unwrap_or_default()
}

/// Processor time of a child that has ended and was not waited for yet, and of those that it waited
/// for.
pub fn of_ended(child: u32) -> Duration {
    time(&format!("/proc/{child}/stat"), 4).unwrap_or_default()
}

/// The sum of the last `fields` of `utime`, `stime`, `cutime` and `cstime` of proc_pid_stat(5).
fn time(file: &str, fields: usize) -> Option<Duration> {
    let ticks = ticks(&std::fs::read_to_string(file).ok()?, fields)?;
    let second = rustix::param::clock_ticks_per_second().max(1);
    Some(Duration::from_millis(ticks.saturating_mul(1000) / second))
}

/// The second field is the program's name in brackets, which may hold anything, brackets included.
fn ticks(stat: &str, fields: usize) -> Option<u64> {
    let behind_name = stat.rsplit_once(')')?.1.split_whitespace();
    let all = behind_name.skip(11).take(4).skip(4 - fields);
    let all = all.map(|field| field.parse::<u64>().ok());
    all.collect::<Option<Vec<_>>>()
        .filter(|all| all.len() == fields)
        .map(|all| all.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found_behind_any_name() {
        let line = "7 (a b) c) S 1 7 7 0 -1 4194560 5 6 0 0 1000 200 30 4 20 0 1 0 9 0 0";
        assert_eq!(ticks(line, 4), Some(1234));
        assert_eq!(ticks(line, 2), Some(34));
        assert_eq!(ticks("7 (a", 2), None);
        assert_eq!(ticks("7 (a) S 1", 2), None);
    }
}
