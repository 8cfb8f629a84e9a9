//! Mount options, of every kind of file system.

use crate::Fs;
use base::{BLOCK_BYTES, Nanos};
use vfs::FsResult;

/// Mount options of a file system of some kind.
#[derive(Clone, PartialEq, Debug)]
pub enum MountOptions {
    /// ext4 and ext3.
    Ext4(ext4::MountOptions),
    /// F2FS.
    F2fs(f2fs::MountOptions),
}

impl MountOptions {
    /// Parses `key=value,...` for file systems of this kind.
    ///
    /// # Errors
    /// An option that this kind does not have, or an impossible value, by name.
    pub fn parse(kind: Fs, text: &str) -> FsResult<MountOptions> {
        Ok(match kind {
            Fs::Ext4 | Fs::Ext3 => MountOptions::Ext4(ext4::MountOptions::parse(text)?),
            Fs::F2fs => MountOptions::F2fs(f2fs::MountOptions::parse(text)?),
        })
    }

    /// The bound of the page cache, in 4 KiB pages.
    pub fn cache_pages(&self) -> u64 {
        let bytes = match self {
            MountOptions::Ext4(o) => o.cache_bytes,
            MountOptions::F2fs(o) => o.cache_bytes,
        };
        (bytes / BLOCK_BYTES) as u64
    }

    /// Refuses every change, or not.
    #[must_use]
    pub fn read_only(mut self, yes: bool) -> MountOptions {
        match &mut self {
            MountOptions::Ext4(o) => o.read_only = yes,
            MountOptions::F2fs(o) => o.read_only = yes,
        }
        self
    }

    /// Discards what is freed, or not.
    #[must_use]
    pub fn discard(mut self, yes: bool) -> MountOptions {
        match &mut self {
            MountOptions::Ext4(o) => o.discard = yes,
            MountOptions::F2fs(o) => o.discard = yes,
        }
        self
    }

    /// Intervals of the file system's own tasks; `None`: no such task. For ext4 these are commits
    /// and home writes; for F2FS checkpoints or, with a journal, its commits (`home` is ignored).
    #[must_use]
    pub fn timers(mut self, commit: Option<Nanos>, home: Option<Nanos>) -> MountOptions {
        match &mut self {
            MountOptions::Ext4(o) => {
                o.commit_interval = commit;
                o.writeback_expire = home;
            }
            MountOptions::F2fs(o) => {
                match &mut o.checkpoint.background {
                    // Without its task the mount writes at counts again.
                    task @ Some(_) => *task = commit,
                    None => o.checkpoint.triggers.interval = commit,
                }
                if let (Some(journal), Some(span)) = (&mut o.journal, commit) {
                    journal.commit = span;
                }
                o.timers = commit.is_some();
            }
        }
        self
    }

    /// Keeps all durable changes where a recovery has to find them: neither time nor a count of
    /// dirty blocks makes a checkpoint due, a journal is not applied before its ring is nearly
    /// full, and no task of the mount writes by itself.
    #[must_use]
    pub fn all_behind_the_checkpoint(self) -> MountOptions {
        let mut options = self.timers(None, None);
        if let MountOptions::F2fs(o) = &mut options {
            let triggers = &mut o.checkpoint.triggers;
            (triggers.dirty_nat_percent, triggers.dirty_nat_max) = (100, u32::MAX);
            triggers.dirty_node_segments = u32::MAX / 512;
            (triggers.prefree_percent, triggers.prefree_segments_max) = (100, u32::MAX);
            if let Some(journal) = &mut o.journal {
                journal.low_percent = 5;
            }
        }
        options
    }

    /// The bound of the caches of the file system, bytes.
    #[must_use]
    pub fn cache(mut self, bytes: usize) -> MountOptions {
        match &mut self {
            MountOptions::Ext4(o) => o.cache_bytes = bytes,
            MountOptions::F2fs(o) => o.cache_bytes = bytes,
        }
        self
    }
}
