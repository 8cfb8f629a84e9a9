//! What a run logged in its measured part: the figures of its commits, read from its log.

use super::{Command, Commit, Part, Paths, Role, Session};
use crate::PaperError;
use base::BLOCK_BYTES;
use report::metrics::round;
use report::results::Run;
use rig::Class;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use work::RunConfig;
use work::run::{Measured, run_through};

/// A distribution: how often each number of bytes (or blocks) occurred.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Bytes(pub BTreeMap<u32, u64>);

impl Bytes {
    /// Adds one occurrence.
    pub fn add(&mut self, value: u32) {
        *self.0.entry(value).or_default() += 1;
    }
    /// Adds all occurrences of another distribution.
    pub fn merge(&mut self, other: &Bytes) {
        for (value, n) in &other.0 {
            *self.0.entry(*value).or_default() += n;
        }
    }
    /// Number of occurrences.
    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }
    /// Arithmetic mean; 0 if it is empty.
    pub fn mean(&self) -> f64 {
        let sum: u64 = self.0.iter().map(|(v, n)| u64::from(*v) * n).sum();
        match self.count() {
            0 => 0.0,
            n => sum as f64 / n as f64,
        }
    }
    /// Share of the values below `limit`; 0 if it is empty.
    pub fn below(&self, limit: f64) -> f64 {
        let below: u64 = self
            .0
            .iter()
            .filter(|(v, _)| f64::from(**v) < limit)
            .map(|(_, n)| n)
            .sum();
        match self.count() {
            0 => 0.0,
            n => below as f64 / n as f64,
        }
    }
    /// The value at `share` of all occurrences, by nearest rank; 0 if it is empty.
    pub fn at(&self, share: f64) -> u32 {
        let rank = (share * self.count() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = self.0.iter().find(|(_, n)| {
            seen += **n;
            seen >= rank
        });
        found.map_or(0, |(value, _)| *value)
    }
    /// Cumulative distribution as (value over `unit`, share at or below it).
    pub fn cdf(&self, unit: f64) -> Vec<(f64, f64)> {
        let all = self.count() as f64;
        let mut below = 0;
        self.0
            .iter()
            .map(|(value, n)| {
                below += n;
                (f64::from(*value) / unit, below as f64 / all)
            })
            .collect()
    }
}

/// The logged blocks of one role.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RoleSum {
    /// Number of logged blocks.
    pub blocks: u64,
    /// Number of those that were the same as before.
    pub unchanged: u64,
    /// Modified bytes of each.
    pub modified: Bytes,
}

/// What a run logged. The commits are those whose last block was written in the measured part.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Traffic {
    /// The run as `varve compare` measures it.
    pub run: Run,
    /// Number of commits.
    pub commits: u64,
    /// Number of fsync and fdatasync calls.
    pub syncs: u64,
    /// Number of fdatasync calls among them.
    pub data_syncs: u64,
    /// Log blocks that were written in the measured part and read back, by class.
    pub blocks: BTreeMap<String, u64>,
    /// Descriptors and commit blocks, per commit.
    pub control: Bytes,
    /// Metadata blocks per commit, without file data: logged images, and blocks with deltas.
    pub metadata: Bytes,
    /// Mean over the commits of control blocks over control and metadata blocks; revoke blocks
    /// count on neither side.
    pub control_ratio_mean: f64,
    /// Modified bytes of each logged metadata block.
    pub modified: Bytes,
    /// Modified bytes of each commit.
    pub modified_per_commit: Bytes,
    /// Logged metadata blocks by role.
    pub roles: BTreeMap<Role, RoleSum>,
    /// Bytes of coalition records per commit; empty without coalition.
    pub record_bytes: Bytes,
    /// Full images per commit; without coalition these are all metadata blocks.
    pub fulls: Bytes,
    /// Most bytes in use of a commit block; 0 if there is none.
    pub commit_block_bytes: u64,
    /// What the syncs waited for.
    pub paths: Paths,
}

impl Traffic {
    /// Control blocks over control and metadata blocks of all commits together.
    pub fn control_ratio(&self) -> f64 {
        let control = self.control.mean();
        control / (control + self.metadata.mean())
    }
    /// Share of the logged metadata blocks that were the same as before.
    pub fn unchanged(&self) -> f64 {
        self.modified.below(1.0)
    }
    /// Share of the logged metadata blocks with less than 1 % of their bytes modified.
    pub fn below_one_percent(&self) -> f64 {
        self.modified.below(BLOCK_BYTES as f64 / 100.0)
    }
    /// Mean number of fsync and fdatasync calls in five seconds.
    pub fn syncs_in_5_s(&self) -> f64 {
        self.syncs as f64 * 5.0 / self.run.virtual_seconds
    }
    /// File data blocks written per sync, whichever task wrote them.
    pub fn data_per_sync(&self) -> f64 {
        let data = self.run.blocks.get(Class::Data.word());
        data.copied().unwrap_or(0) as f64 / self.syncs as f64
    }
}

/// Runs the workload and reads its log.
///
/// # Errors
/// The run fails, or its log cannot be read.
pub fn traffic(config: &RunConfig) -> Result<Traffic, PaperError> {
    let session = Session::new(&config.stack)?;
    let finished = run_through(config, &session.between(), None, &mut |_, _| {})?;
    let commands = session.commands();
    let mut sums = Sums {
        measured: finished.measured,
        blocks: BTreeMap::new(),
        commits: Commits::default(),
    };
    session.read(&commands, &mut |read| sums.add(read, &commands))?;
    Ok(sums.into_traffic(finished.run, &commands))
}

/// Sums over the transactions.
struct Sums {
    measured: Measured,
    blocks: BTreeMap<Class, u64>,
    commits: Commits,
}

#[derive(Default)]
struct Commits {
    commits: u64,
    control: Bytes,
    metadata: Bytes,
    ratios: f64,
    modified: Bytes,
    modified_per_commit: Bytes,
    roles: BTreeMap<Role, RoleSum>,
    record_bytes: Bytes,
    fulls: Bytes,
    commit_block_bytes: u64,
}

impl Sums {
    fn counts(&self, command: &Command) -> bool {
        self.measured.writes.contains(&command.write)
    }

    fn add(&mut self, commit: &Commit, commands: &[Command]) {
        for (class, command) in commit.transaction.classes() {
            if self.counts(&commands[command]) {
                *self.blocks.entry(class).or_default() += 1;
            }
        }
        if self.measured.writes.contains(&commit.write) {
            self.commits.add(commit);
        }
    }

    fn into_traffic(self, run: Run, commands: &[Command]) -> Traffic {
        let syncs = &self.measured.syncs;
        let c = self.commits;
        Traffic {
            run,
            commits: c.commits,
            syncs: syncs.len() as u64,
            data_syncs: syncs.iter().filter(|s| s.data_only).count() as u64,
            blocks: self
                .blocks
                .iter()
                .map(|(class, n)| (class.word().to_string(), *n))
                .collect(),
            control_ratio_mean: round(c.ratios / c.commits.max(1) as f64),
            control: c.control,
            metadata: c.metadata,
            modified: c.modified,
            modified_per_commit: c.modified_per_commit,
            roles: c.roles,
            record_bytes: c.record_bytes,
            fulls: c.fulls,
            commit_block_bytes: c.commit_block_bytes,
            paths: Paths::of(commands, syncs),
        }
    }
}

impl Commits {
    fn add(&mut self, commit: &Commit) {
        let read = &commit.transaction;
        let metadata = || commit.changes.iter().filter(|c| !c.data);
        let control = read.count(Part::Descriptor) + read.count(Part::Commit);
        let control = control + read.count(Part::Coalition);
        let logged = metadata().count() as u64;
        self.commits += 1;
        self.control.add(control as u32);
        self.metadata.add(logged as u32);
        self.ratios += control as f64 / (control + logged) as f64;
        for (change, role) in commit.changes.iter().zip(&commit.roles) {
            let sum = self.roles.entry(*role).or_default();
            sum.blocks += 1;
            sum.unchanged += u64::from(change.modified == 0);
            sum.modified.add(change.modified);
        }
        metadata().for_each(|c| self.modified.add(c.modified));
        self.modified_per_commit
            .add(metadata().map(|c| c.modified).sum());
        self.fulls.add(metadata().filter(|c| c.full).count() as u32);
        if read.count(Part::Coalition) > 0 {
            self.record_bytes.add(read.record_bytes as u32);
        }
        let used = read.commit_bytes.unwrap_or(0) as u64;
        self.commit_block_bytes = self.commit_block_bytes.max(used);
    }
}
