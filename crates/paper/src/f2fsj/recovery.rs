//! The job of section 5.4: makes or removes files, makes the changes durable, cuts the power, and
//! times the mount.
//!
//! No timer and no count makes a checkpoint due, and nothing is applied, so with a journal or with
//! fsyncs all of it is left to the recovery. On stock F2FS without fsyncs the sync itself is a
//! checkpoint: that mount rolls back to it and has nothing to redo. The drive has recovered its own
//! map before the mount begins.

use super::loss::{BOOT, simulated};
use super::measure::Host;
use super::objects::recovered;
use crate::PaperError;
use base::{Nanos, SECTOR_BYTES};
use crash::cuts::switched_off;
use report::metrics::round;
use rig::{Clock, Config, Media, Modelled, MountOptions, Stack};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use vfs::{OpenFlags, Vfs, WritebackPolicy};
use work::workload::bench::{MetaOp, MetaSpec};

/// What is done with the files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// Makes empty files.
    Create,
    /// Removes empty files that are at home.
    Delete,
}

impl Act {
    /// The act in words.
    pub fn name(self) -> &'static str {
        match self {
            Act::Create => "created",
            Act::Delete => "removed",
        }
    }

    fn op(self) -> MetaOp {
        match self {
            Act::Create => MetaOp::Create,
            Act::Delete => MetaOp::Unlink,
        }
    }
}

/// The job: what to do with how many files.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RecoveryJob {
    /// The stack that it runs on.
    pub stack: Config,
    /// Each file is fsynced; otherwise one `sync` commits all of them, or writes a checkpoint.
    pub fsynced: bool,
    /// Whether files are made or removed.
    pub act: Act,
    /// Number of files.
    pub files: u32,
    /// The host that it runs on.
    pub host: Host,
}

/// What the mount after the cut took.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Recovering {
    /// Duration of the whole mount, milliseconds.
    pub mount_ms: f64,
    /// Duration of a mount of the same volume after a clean unmount, milliseconds.
    pub clean_ms: f64,
    /// Share of the changes that are there afterwards.
    pub recovered: f64,
    /// KiB that the mount read.
    pub kib_read: u64,
    /// KiB that the mount wrote.
    pub kib_written: u64,
    /// Number of epochs or transactions that were redone.
    pub epochs: u64,
    /// Number of records redone, node blocks rolled forward, or log blocks brought home.
    pub records: u64,
    /// Duration of each step, milliseconds.
    pub steps_ms: BTreeMap<String, f64>,
}

/// Number of files in a directory, as in the paper's file sets.
const WIDTH: u32 = 100;
/// Bytes of the caches, ample as the paper's host has 64 GB.
const CACHE: usize = 1 << 30;

fn dir(n: u32) -> String {
    format!("/d{}", n / WIDTH)
}

fn path(n: u32) -> String {
    format!("{}/e{n}", dir(n))
}

fn create(vfs: &Arc<Vfs>, n: u32, fsync: bool) -> Result<(), PaperError> {
    let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::EXCL;
    let file = vfs.open(path(n), flags, 0o644)?;
    if fsync {
        file.fsync()?;
    }
    Ok(file.close()?)
}

impl RecoveryJob {
    /// Makes the changes, cuts the power, and mounts.
    ///
    /// # Errors
    /// A run fails, or a remainder cannot be recovered or is the state of no prefix of the changes.
    pub fn run(&self) -> Result<Recovering, PaperError> {
        let media = self.cut(self.volume()?)?;
        let (mut found, rest) = self.recover(media)?;
        let model = self.stack.attach(rest)?;
        found.clean_ms = self.simulated(|| {
            let stack = self.mount(Arc::new(Modelled::new(model, Clock::Runtime)))?;
            let took = stack.mount_took;
            stack.unmount()?;
            Ok(ms(took))
        })?;
        Ok(found)
    }

    fn simulated<T>(&self, body: impl FnOnce() -> Result<T, PaperError>) -> Result<T, PaperError> {
        simulated(self.host.sim(self.stack.seed), body)
    }

    fn options(&self) -> MountOptions {
        let options = self.stack.mount_options().cache(CACHE);
        options.all_behind_the_checkpoint()
    }

    fn mount(&self, device: Arc<Modelled<rig::AnyModel>>) -> Result<Stack, PaperError> {
        let options = (self.options(), WritebackPolicy::off());
        Ok(Stack::mount_with(device, options, |device| device)?)
    }

    /// The volume before the changes, unmounted.
    pub(super) fn volume(&self) -> Result<Media, PaperError> {
        let model = self.stack.format()?;
        self.simulated(|| {
            let stack = self.mount(Arc::new(Modelled::new(model, Clock::Runtime)))?;
            for first in (0..self.files).step_by(WIDTH as usize) {
                stack.vfs.mkdir(dir(first), 0o755)?;
            }
            if self.act == Act::Delete {
                (0..self.files).try_for_each(|n| create(&stack.vfs, n, false))?;
            }
            let model = stack.unmount()?;
            Ok(switched_off(model, rt::now()))
        })
    }

    /// Makes the changes and cuts the power; returns what that leaves.
    pub(super) fn cut(&self, volume: Media) -> Result<Media, PaperError> {
        let model = self.stack.attach(volume)?;
        self.simulated(|| {
            let stack = self.mount(Arc::new(Modelled::new(model, Clock::Runtime)))?;
            for n in 0..self.files {
                match self.act {
                    Act::Create => create(&stack.vfs, n, self.fsynced)?,
                    Act::Delete => stack.vfs.unlink(path(n))?,
                }
            }
            if !self.fsynced {
                stack.vfs.sync()?;
            }
            let media = stack.device.power_off(self.stack.seed);
            rt::power_cut();
            media.ok_or_else(|| PaperError::Check("the power is off".into()))
        })
    }

    pub(super) fn recover(&self, media: Media) -> Result<(Recovering, Media), PaperError> {
        let model = self.stack.attach(media)?;
        let spec = MetaSpec {
            op: self.act.op(),
            count: self.files,
            size: 0,
            width: WIDTH,
            ..MetaSpec::default()
        };
        self.simulated(|| {
            rt::sleep(BOOT);
            let stack = self.mount(Arc::new(Modelled::new(model, Clock::Runtime)))?;
            let mut found = Recovering::of(&stack);
            let there = recovered(&stack.vfs, &spec)?;
            found.recovered = round(there.ops as f64 / f64::from(self.files));
            stack.fs.check();
            let model = stack.unmount()?;
            Ok((found, switched_off(model, rt::now())))
        })
    }
}

impl Recovering {
    fn of(stack: &Stack) -> Recovering {
        let stats = stack.queue.stats();
        let kib = |sectors: u64| sectors * SECTOR_BYTES as u64 / 1024;
        let mut found = Recovering {
            mount_ms: ms(stack.mount_took),
            kib_read: kib(stats.sectors_read),
            kib_written: kib(stats.sectors_written.values().sum()),
            ..Recovering::default()
        };
        if let Some(report) = stack.fs.journal_recovery() {
            (found.epochs, found.records) = (report.transactions, report.blocks_replayed);
            let steps = report.spans.each().into_iter();
            found.steps_ms = steps.map(|(s, span)| (s.to_string(), ms(span))).collect();
        }
        let Some(fs) = stack.fs.f2fs() else {
            return found;
        };
        if let Some(chain) = fs.recovery() {
            found.records = chain.nodes_read;
        }
        if let Some(journal) = fs.journal_recovery() {
            (found.epochs, found.records) = (journal.epochs, journal.records);
            let steps = [
                ("scan", journal.scan),
                ("redo", journal.redo),
                ("checkpoint", journal.publish),
            ];
            found.steps_ms = steps.map(|(s, span)| (s.to_string(), ms(span))).into();
        }
        found
    }
}

fn ms(span: Nanos) -> f64 {
    round(span.0 as f64 / 1e6)
}
