//! The remark of `plan` on jobs that take long and are not [cut](super::cut): a run of `compare`, a
//! case of `crash` whose recoveries or chips are cut, and a job of `paper` are one simulation each,
//! of which no part can be made without those before it. Whoever plans the time of a cluster's
//! tasks has to know them.

use super::status::span;
use super::task::Task;

/// Seconds on one core above which a job is named.
const LONG: f64 = 300.0;
/// Jobs that are named one by one.
const NAMED_MAX: usize = 3;

/// The long jobs of a plan.
#[derive(Default)]
pub struct Long {
    count: u64,
    /// The longest, in seconds.
    most: f64,
    /// The first of them, each with what it takes.
    named: Vec<String>,
}

impl Long {
    /// Looks at a job that takes so many seconds, roughly.
    pub fn look(&mut self, task: &Task, seconds: f64) {
        if seconds <= LONG {
            return;
        }
        self.count += 1;
        self.most = self.most.max(seconds);
        if self.named.len() < NAMED_MAX {
            self.named
                .push(format!("{} (about {})", task.name(), span(seconds)));
        }
    }

    /// What to say of them, if there are any.
    pub fn remark(&self) -> Option<String> {
        let (count, most) = (self.count, span(self.most));
        let more = match self.count - self.named.len() as u64 {
            0 => String::new(),
            n => format!("; and {n} more"),
        };
        let jobs = match count {
            0 => return None,
            1 => "1 job takes",
            _ => &format!("{count} jobs take"),
        };
        Some(format!(
            "{jobs} more than {} on one core, up to about {most}; each is one simulation and is not cut further: {}{more}",
            span(LONG),
            self.named.join("; "),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    fn looked(seconds: &[f64]) -> Option<String> {
        let mut long = Long::default();
        for (seconds, number) in seconds.iter().zip(1..) {
            let text = RawValue::from_string(format!("\"job {number}\"")).expect("JSON");
            long.look(&Task::Paper(text), *seconds);
        }
        long.remark()
    }

    #[test]
    fn only_jobs_above_five_minutes_are_named() {
        assert_eq!(looked(&[1.0, 299.0, 300.0]), None);
        assert_eq!(
            looked(&[1.0, 301.0]).expect("a remark"),
            "1 job takes more than 5.0 min on one core, up to about 5.0 min; each is one simulation and is not cut further: \"job 2\" (about 5.0 min)"
        );
    }

    #[test]
    fn of_many_long_jobs_the_first_are_named() {
        let remark = looked(&[600.0; 5]).expect("a remark");
        assert!(remark.starts_with("5 jobs take"), "{remark}");
        assert!(
            remark.ends_with("\"job 3\" (about 10.0 min); and 2 more"),
            "{remark}"
        );
    }
}
