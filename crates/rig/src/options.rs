//! Mount options of every kind of file system.

use base::Nanos;

/// How to mount.
#[derive(Clone, PartialEq, Debug)]
pub enum MountOptions {
    /// ext4 and ext3.
    Ext4(ext4::MountOptions),
    /// F2FS.
    F2fs(f2fs::MountOptions),
}

impl MountOptions {
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

    /// Intervals of the file system's own tasks; `None`: none. Of ext4 commits and home writes; of F2FS checkpoints (`home` does
    /// not matter), or commits of its journal.
    #[must_use]
    pub fn timers(mut self, commit: Option<Nanos>, home: Option<Nanos>) -> MountOptions {
        match &mut self {
            MountOptions::Ext4(o) => {
                o.commit_interval = commit;
                o.writeback_expire = home;
            }
            MountOptions::F2fs(o) => {
                o.checkpoint.triggers.interval = commit;
                o.checkpoint.background = o.checkpoint.background.and(commit);
                if let (Some(journal), Some(span)) = (&mut o.journal, commit) {
                    journal.commit = span;
                }
                o.timers = commit.is_some();
            }
        }
        self
    }
}
