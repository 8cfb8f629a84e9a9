//! The parameters of the generated applications, as the committed file `apps.toml` has them.

use super::AppError;
use serde::Deserialize;

/// All parameters.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Distribution of the time from a call that is no sync to the next call of its thread.
    pub think: Vec<Point>,
    /// Distribution of the time from a sync to the next call of its thread.
    pub sync: Vec<Point>,
    /// The applications.
    #[serde(rename = "app")]
    pub apps: Vec<Parameters>,
}

/// A point of a distribution function, which is linear between two points.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Share of the values that are at most `us`.
    pub of: f64,
    /// A time in microseconds.
    pub us: u32,
}

/// The parameters of one application.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Name of the application, as in the table of the eMMC paper.
    pub name: String,
    /// Its Android package, which names the folder of its files.
    pub package: String,
    /// Number of fsyncs in 5 s.
    pub fsyncs: u32,
    /// Mean number of fsyncs in a burst.
    pub burst: f64,
    /// Threads that sync, each with a database of its own.
    pub workers: u32,
    /// Mean number of 4 KiB pages of a transaction or file.
    pub pages: f64,
    /// Mean number of changes that other threads make per commit, without syncing.
    pub others: f64,
    /// Share of those changes that replace an old file by a new one; the rest write a page.
    pub made: f64,
    /// Number of files of the other threads at any time.
    pub kept: u32,
    /// Number of folders that those files are spread over.
    pub shards: u32,
    /// Shares of the actions.
    pub mix: Mix,
}

/// Shares of all fsyncs by the action that makes them. They need not sum up to 1.
#[derive(Clone, Copy, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mix {
    /// SQLite transaction with a rollback journal that is truncated (3 fsyncs: journal, folder,
    /// database).
    pub rollback: f64,
    /// SQLite transaction with a rollback journal that is removed (3 fsyncs).
    pub delete: f64,
    /// SQLite transaction with a write-ahead log (1 fsync).
    pub wal: f64,
    /// A page of a file that is there is written again (1 fsync).
    pub overwrite: f64,
    /// A cache file is made, the oldest is removed (1 fsync).
    pub cache: f64,
    /// The preferences are replaced, the old ones kept until the new ones are safe (1 fsync).
    pub prefs: f64,
}

/// The committed parameters.
///
/// # Panics
/// Never, as a test parses them.
pub fn table() -> Table {
    toml::from_str(include_str!("apps.toml")).expect("a test reads the committed table")
}

impl Parameters {
    /// Refuses parameters that would not end or have no meaning.
    ///
    /// # Errors
    /// The error names the parameter.
    pub fn check(&self) -> Result<(), AppError> {
        let Mix {
            rollback,
            delete,
            wal,
            overwrite,
            cache,
            prefs,
        } = self.mix;
        let single = [wal, overwrite, cache, prefs];
        let shares = [rollback, delete, wal, overwrite, cache, prefs];
        let wrong = if self.fsyncs == 0 || self.fsyncs > 10_000 {
            "`fsyncs` has to be 1 to 10000"
        } else if !(1.0..=1000.0).contains(&self.burst) {
            "`burst` has to be 1 to 1000"
        } else if !(1..=64).contains(&self.workers) {
            "`workers` has to be 1 to 64"
        } else if !(1.0..=64.0).contains(&self.pages) {
            "`pages` has to be 1 to 64"
        } else if !(0.0..=100.0).contains(&self.others) {
            "`others` has to be 0 to 100"
        } else if !(0.0..=1.0).contains(&self.made) {
            "`made` has to be 0 to 1"
        } else if f64::from(self.kept) < 16.0 + 4.0 * self.others || self.kept > 100_000 {
            "`kept` has to be 16 + 4 * `others` to 100000, else a file goes before it is there"
        } else if !(1..=1000).contains(&self.shards) {
            "`shards` has to be 1 to 1000"
        } else if shares.iter().any(|s| !(0.0..=1.0).contains(s)) {
            "shares of `mix` have to be 0 to 1"
        } else if single.iter().all(|s| *s == 0.0) {
            "`mix` needs an action with one fsync, else not every number of fsyncs can be made"
        } else {
            return Ok(());
        };
        Err(AppError::Parameters {
            app: self.name.clone(),
            wrong: wrong.into(),
        })
    }
}
