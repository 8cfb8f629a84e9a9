//! What came of each test of xfstests, and what is expected of it.

use crate::Result;
use serde::Deserialize;

/// What came of a test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    Passed,
    /// It needs something that is missing here.
    NotRun(String),
    Failed(String),
}

/// The committed list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Fast tests that together touch most of the mount; they run in tier 1.
    pub short: Vec<String>,
    left_out: Vec<LeftOut>,
    fails: Vec<Fails>,
    not_run: Vec<NotRun>,
}

/// Groups of tests that are not run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LeftOut {
    group: String,
    reason: String,
}

/// A test that fails.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fails {
    test: String,
    /// The file system on which it fails; on both if it is missing.
    fs: Option<String>,
    /// Whether it fails depends on the machine, so it may pass.
    #[serde(default)]
    may_pass: bool,
    reason: String,
}

/// A word of the reasons that `check` gives for tests which do not run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NotRun {
    says: String,
    reason: String,
}

impl Expected {
    /// Reads the committed list.
    ///
    /// # Errors
    /// The list cannot be read, or an entry has no reason.
    pub fn read() -> Result<Expected> {
        Expected::parse(include_str!("expected.toml"))
    }

    fn parse(text: &str) -> Result<Expected> {
        let list: Expected = toml::from_str(text).map_err(|e| format!("expected.toml: {e}"))?;
        let reasons = (list.left_out.iter().map(|e| &e.reason))
            .chain(list.fails.iter().map(|e| &e.reason))
            .chain(list.not_run.iter().map(|e| &e.reason));
        match reasons.into_iter().any(|reason| reason.len() < 10) {
            true => Err("expected.toml: an entry has no reason".into()),
            false => Ok(list),
        }
    }

    /// Whether a test of these groups is run.
    pub fn runs(&self, groups: &[&str]) -> bool {
        !(self.left_out.iter()).any(|left| groups.contains(&left.group.as_str()))
    }

    /// What is wrong about the outcome of `test` on `fs`; `None` if it is as expected.
    pub fn judge(&self, test: &str, fs: &str, outcome: &Outcome) -> Option<String> {
        let here =
            |fails: &&Fails| fails.test == test && fails.fs.as_deref().is_none_or(|f| f == fs);
        let listed = self.fails.iter().find(here);
        match (outcome, listed) {
            (Outcome::Passed, Some(fails)) if !fails.may_pass => Some(format!(
                "passes, and is listed as failing: {}",
                fails.reason
            )),
            (Outcome::Passed, _) | (Outcome::Failed(_), Some(_)) => None,
            (Outcome::Failed(why), None) => Some(why.clone()),
            (Outcome::NotRun(why), _) => match self.not_run.iter().any(|n| why.contains(&n.says)) {
                true => None,
                false => Some(format!(
                    "does not run for a reason that is not listed: {why}"
                )),
            },
        }
    }
}

/// The outcome of `test` in the words of `check`.
pub fn outcome(test: &str, said: &str, ended_well: bool) -> Outcome {
    let line = said.lines().rfind(|line| {
        let rest = line.strip_prefix(test);
        rest.is_some_and(|rest| rest.starts_with(char::is_whitespace))
    });
    let Some(line) = line else {
        return Outcome::Failed(format!("check says nothing of it: {}", tail(said)));
    };
    let rest = line[test.len()..].trim();
    match rest.split_once("[not run]") {
        Some((_, why)) => Outcome::NotRun(why.trim().to_string()),
        None if ended_well => Outcome::Passed,
        None => Outcome::Failed(rest.to_string()),
    }
}

fn tail(said: &str) -> String {
    let lines: Vec<&str> = said.lines().rev().take(3).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "
        short = ['generic/001']
        [[left_out]]
        group = 'swap'
        reason = 'there is none on FUSE'
        [[fails]]
        test = 'generic/002'
        fs = 'f2fs'
        reason = 'a limit of FUSE'
        [[not_run]]
        says = 'fiemap'
        reason = 'FUSE does not know it'
    ";

    #[test]
    fn what_check_says_is_read() {
        let of = |text: &str, well| outcome("generic/007", text, well);
        assert_eq!(of("generic/007 3s ...  4s\n", true), Outcome::Passed);
        assert_eq!(
            of("generic/0071 3s\ngeneric/007  4s\n", true),
            Outcome::Passed
        );
        let why = Outcome::NotRun("xfs_io fiemap failed".into());
        assert_eq!(
            of("generic/007  [not run] xfs_io fiemap failed\n", true),
            why
        );
        assert!(matches!(
            of("generic/007 - output mismatch", false),
            Outcome::Failed(_)
        ));
        assert!(matches!(of("mount failed", false), Outcome::Failed(_)));
    }

    #[test]
    fn only_what_is_listed_is_forgiven() {
        let list = Expected::parse(LIST).expect("a list");
        let failed = Outcome::Failed("output mismatch".into());
        let not_run = |why: &str| Outcome::NotRun(why.into());
        assert_eq!(list.judge("generic/002", "f2fs", &failed), None);
        assert!(list.judge("generic/002", "ext4", &failed).is_some());
        assert!(
            list.judge("generic/002", "f2fs", &Outcome::Passed)
                .is_some()
        );
        assert_eq!(list.judge("generic/002", "ext4", &Outcome::Passed), None);
        assert_eq!(
            list.judge("generic/9", "ext4", &not_run("xfs_io fiemap failed")),
            None
        );
        assert!(
            list.judge("generic/9", "ext4", &not_run("no such user"))
                .is_some()
        );
        assert!(!list.runs(&["auto", "swap"]) && list.runs(&["auto"]));
        assert!(Expected::parse(&LIST.replace("'FUSE does not know it'", "''")).is_err());
        Expected::read().expect("the committed list");
    }
}
