//! What fsync remembers between calls: why it wrote checkpoints, and what decides whether the next
//! one has to (sync-Y3).

use base::Ino;
use std::collections::BTreeMap;

base::words! {
    /// Why an fsync writes a checkpoint. (Linux has two more: `fastboot` and two logs, which are no
    /// options here.)
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
    pub enum Reason {
        /// Not a regular file: entries of a directory are in no node that an fsync of it would
        /// write.
        NotRegular => "not-regular",
        /// The link count is not one: roll-forward can restore one name only.
        Links => "links",
        /// The inode does not record its name.
        Name => "name",
        /// The directory that contains its name is not in the last checkpoint.
        Parent => "parent",
        /// The volume is so full that roll-forward might not find enough space.
        Space => "space",
        /// The mount has not written a checkpoint yet: behind the place of its first node block may
        /// lie blocks of an earlier life with the same version, which would seem to follow it.
        Life => "life",
        /// A part of the file was cut off, and no node would tell roll-forward so.
        Cut => "cut",
        /// `strict`: names were moved into or out of the directory of a file whose name is not in
        /// the last checkpoint (sync-Y7).
        MovedNames => "moved-names",
        /// The directory of the file began or ceased to compare names without regard to case after
        /// the last checkpoint: roll-forward would compare by the other rules (sync-Y8).
        Folding => "folding",
    }
}

/// Directories remembered for [`Reason::MovedNames`] before old ones are looked for.
pub(super) const MOVED_MAX: usize = 1024;

/// What fsync has to remember.
#[derive(Default)]
pub(crate) struct SyncBooks {
    /// Checkpoints by reason.
    pub(super) checkpoints: BTreeMap<Reason, u64>,
    /// Directories that names were moved into or out of, with the checkpoint version at that time.
    pub(super) moved: BTreeMap<Ino, u64>,
    /// Directories whose flag `casefold` was changed, with the checkpoint version at that time.
    pub(super) refolded: BTreeMap<Ino, u64>,
    /// Version of the checkpoint that was mounted.
    pub(super) life: Option<u64>,
}

impl SyncBooks {
    /// A mount begins, with a checkpoint of this version.
    pub fn begin_life(&mut self, version: u64) {
        self.life = Some(version);
    }
}
