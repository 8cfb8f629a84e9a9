//! Counts what passed, failed and was skipped. Machines read the last line of the output.

use super::spent::Spent;
use std::fmt::Write;
use std::ops::AddAssign;
use std::time::Duration;

/// Tests of one suite, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed.
    pub failed: u64,
    /// Tests that were ignored.
    pub skipped: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl Counts {
    /// The counts of a suite that is no cargo test and passed.
    pub fn one_passed() -> Counts {
        Counts {
            passed: 1,
            ..Counts::default()
        }
    }

    /// The number of tests seen.
    pub fn total(self) -> u64 {
        self.passed + self.failed + self.skipped
    }

    /// Adds up the `test result:` lines of the standard test harness.
    pub fn parse(output: &str) -> Counts {
        let mut sum = Counts::default();
        for line in output
            .lines()
            .filter_map(|line| line.split_once("test result:"))
        {
            for part in line.1.split([';', '.']) {
                let mut words = part.split_whitespace();
                let (Some(number), Some(what)) = (words.next(), words.next()) else {
                    continue;
                };
                let Ok(number) = number.parse::<u64>() else {
                    continue;
                };
                match what {
                    "passed" => sum.passed += number,
                    "failed" => sum.failed += number,
                    "ignored" => sum.skipped += number,
                    _ => {}
                }
            }
        }
        sum
    }
}

/// The result of a whole run.
#[derive(Default)]
pub struct Tally {
    passed: u64,
    /// Tests and suites that failed.
    pub failed: u64,
    skipped: u64,
    /// Lines for the end of the output: failures, suites skipped and left out.
    notes: Vec<String>,
}

impl Tally {
    /// Counts a suite that ran, and prints its line.
    pub fn suite(
        &mut self,
        name: &str,
        outcome: Result<Counts, String>,
        spent: Spent,
        budget: Duration,
    ) {
        let mut counts = *outcome.as_ref().unwrap_or(&Counts {
            failed: 1,
            ..Counts::default()
        });
        if counts.failed > 0 {
            self.note(format!("{name}: FAILED"));
        }
        if let Err(reason) = outcome {
            println!("{reason}");
        }
        let mut over = "";
        if spent.wall > budget {
            counts.failed += 1;
            over = ", OVER BUDGET";
            let (spent, budget) = (spent.wall.as_secs(), budget.as_secs());
            self.note(format!(
                "{name}: run-R1: over budget, {spent} s of {budget} s"
            ));
        }
        println!("{}", line(name, counts, spent, budget, over));
        self.passed += counts.passed;
        self.failed += counts.failed;
        self.skipped += counts.skipped;
    }

    /// Counts a suite that could not run.
    pub fn skip(&mut self, name: &str, reason: &str) {
        println!("skip  {name}: {reason}");
        self.skipped += 1;
        self.note(format!("{name}: skipped: {reason}"));
    }

    /// Keeps a line for the end.
    pub fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// What stands at the end of the output.
    pub fn closing_lines(&self) -> String {
        let mut text = String::new();
        for note in &self.notes {
            let _ = writeln!(text, "note  {note}");
        }
        let Tally {
            passed,
            failed,
            skipped,
            ..
        } = self;
        let _ = writeln!(text, "{passed} passed, {failed} failed, {skipped} skipped");
        text
    }
}

fn line(name: &str, counts: Counts, spent: Spent, budget: Duration, over: &str) -> String {
    let word = if counts.failed > 0 { "FAIL" } else { "ok" };
    let Counts {
        passed,
        failed,
        skipped,
    } = counts;
    let (spent, cpu) = (spent.wall.as_secs_f64(), spent.cpu.as_secs_f64());
    let budget = if budget == Duration::MAX {
        0
    } else {
        budget.as_secs()
    };
    format!(
        "{word:<5} {name:<16} {passed:>4} passed {failed:>3} failed {skipped:>3} skipped \
         {spent:>7.1} s of {budget} s, {cpu:>6.1} s of processor{over}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
running 3 tests
test a ... ok
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.00s

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s
";

    #[test]
    fn harness_lines_are_added_up() {
        assert_eq!(
            Counts::parse(OUTPUT),
            Counts {
                passed: 4,
                failed: 2,
                skipped: 1
            }
        );
        assert_eq!(Counts::parse("5 passed"), Counts::default());
    }

    #[test]
    fn the_last_line_counts_tests_suites_and_budgets() {
        let mut tally = Tally::default();
        let second = Duration::from_secs(1);
        let spent = |seconds| Spent {
            wall: second * seconds,
            cpu: second,
        };
        tally.suite(
            "a",
            Ok(Counts {
                passed: 3,
                failed: 0,
                skipped: 1,
            }),
            spent(1),
            second * 2,
        );
        assert_eq!(tally.closing_lines(), "3 passed, 0 failed, 1 skipped\n");
        tally.suite("slow", Ok(Counts::one_passed()), spent(3), second * 2);
        tally.suite("dead", Err("reason".into()), spent(1), second * 2);
        tally.skip("rootless", "not running as root");
        let lines = tally.closing_lines();
        assert!(
            lines.ends_with("\n4 passed, 2 failed, 2 skipped\n"),
            "{lines}"
        );
        assert!(
            lines.contains("slow: run-R1: over budget, 3 s of 2 s"),
            "{lines}"
        );
        assert!(
            lines.contains("dead: FAILED") && lines.contains("rootless: skipped"),
            "{lines}"
        );
    }
}
