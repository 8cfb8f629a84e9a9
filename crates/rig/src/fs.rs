//! A mounted file system of any kind.

use crate::{MountOptions, RigError};
use base::Nanos;
use block::Queue;
use ext4::Ext4;
use f2fs::F2fs;
use journal::{Journal, RecoveryReport, Stats};
use std::collections::BTreeMap;
use std::sync::Arc;
use vfs::{FileSystem, FsError};

/// The figures that both journals have.
fn of_f2fsj(stats: f2fs::JournalStats) -> Stats {
    let phases = f2fs::CommitPhase::ALL.into_iter();
    let spent = |phase| stats.time.get(&phase).copied().unwrap_or_default();
    Stats {
        transactions: stats.commits(),
        blocks_logged: stats.blocks,
        record_bytes: stats.bytes,
        steps: phases.map(|phase| (phase.word(), spent(phase))).collect(),
        ..Stats::default()
    }
}

/// A mounted file system. The operations common to all kinds are in [`AnyFs::seam`].
#[derive(Clone)]
pub enum AnyFs {
    /// ext4 or ext3.
    Ext4(Arc<Ext4>),
    /// F2FS.
    F2fs(Arc<F2fs>),
}

impl AnyFs {
    /// Mounts the file system on the device, recovering it if need be.
    ///
    /// # Errors
    /// The device or the file system refuses.
    pub fn mount(queue: Arc<Queue>, options: MountOptions) -> Result<AnyFs, FsError> {
        Ok(match options {
            MountOptions::Ext4(options) => AnyFs::Ext4(Ext4::mount(queue, options)?),
            MountOptions::F2fs(options) => AnyFs::F2fs(F2fs::mount(queue, options)?),
        })
    }

    /// The operations that all kinds have.
    pub fn seam(&self) -> Arc<dyn FileSystem> {
        match self {
            AnyFs::Ext4(fs) => fs.clone(),
            AnyFs::F2fs(fs) => fs.clone(),
        }
    }

    /// The journal, if this kind has one.
    pub fn journal(&self) -> Option<&Arc<Journal>> {
        match self {
            AnyFs::Ext4(fs) => Some(fs.journal()),
            AnyFs::F2fs(_) => None,
        }
    }

    /// Statistics of the journal; zeros without one. For F2FSJ an epoch counts as a transaction.
    pub fn journal_stats(&self) -> Stats {
        match self {
            AnyFs::Ext4(fs) => fs.journal().stats(),
            AnyFs::F2fs(fs) => fs.journal_stats().map(of_f2fsj).unwrap_or_default(),
        }
    }

    /// What the recovery of the journal did at mount; `None` if there was nothing to do, or there
    /// is no journal.
    pub fn journal_recovery(&self) -> Option<&RecoveryReport> {
        match self {
            AnyFs::Ext4(fs) => fs.recovery(),
            AnyFs::F2fs(_) => None,
        }
    }

    /// What whoever mounts should know of the options on this volume: that a scheme with fast
    /// commits can make only full ones. `None`: all is as asked for.
    pub fn remark(&self) -> Option<String> {
        match self {
            AnyFs::Ext4(fs) => fs.remark(),
            AnyFs::F2fs(_) => None,
        }
    }

    /// The F2FS, if it is one.
    pub fn f2fs(&self) -> Option<&Arc<F2fs>> {
        match self {
            AnyFs::Ext4(_) => None,
            AnyFs::F2fs(fs) => Some(fs),
        }
    }

    /// Time of all fsync calls by part.
    pub fn sync_times(&self) -> BTreeMap<&'static str, Nanos> {
        match self {
            AnyFs::Ext4(fs) => fs.sync_times(),
            AnyFs::F2fs(fs) => fs.sync_times(),
        }
    }

    /// Time that operations waited in the file system, by cause: freezes of F2FS.
    pub fn waits(&self) -> BTreeMap<&'static str, Nanos> {
        match self {
            AnyFs::Ext4(_) => BTreeMap::new(),
            AnyFs::F2fs(fs) => {
                let freezes = fs.freezes().into_iter();
                freezes.map(|(cause, f)| (cause.word(), f.waited)).collect()
            }
        }
    }

    /// Writes what is home late beyond `FileSystem::sync`: committed blocks of a journal that are
    /// not written home yet, of JBD2 or of F2FSJ (an apply). Stock F2FS has none behind a sync.
    ///
    /// # Errors
    /// Of the journal, or of the file system.
    pub fn write_home(&self) -> Result<(), RigError> {
        match self {
            AnyFs::F2fs(fs) => fs.write_home_now()?,
            AnyFs::Ext4(fs) => {
                let written = fs.journal().write_back();
                written.map_err(|e| FsError::Aborted {
                    first: format!("writing committed blocks home: {e}"),
                })?;
            }
        }
        Ok(())
    }

    /// Checks the state in memory against itself.
    ///
    /// # Panics
    /// If it contradicts itself.
    pub fn check(&self) {
        match self {
            AnyFs::Ext4(fs) => fs.check(),
            AnyFs::F2fs(fs) => fs.check(),
        }
    }
}
