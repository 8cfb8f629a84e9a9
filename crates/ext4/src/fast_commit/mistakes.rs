//! What the replay of others does wrong, repeated on purpose for experiments on simulated devices
//! ([`FastBug`], docs/results/fast-commit.md). None of it happens in a mount of an image.

use super::{Ending, Replay, replayed};
use crate::options::MountOptions;
use base::Ino;
use block::Queue;
use fscore::FsResult;
use journal::FastBug;
use ondisk::ext4 as disk;
use ondisk::ext4::{FastCommitTag, FastCommits, Superblock};
use std::sync::Arc;

/// Which mistakes a replay makes; all false but in an experiment.
#[derive(Clone, Copy)]
pub(super) struct Mistakes {
    pub old_attributes: bool,
    pub new_directory: bool,
    pub attribute_block: bool,
    pub full_directory: bool,
    pub directory_blocks: bool,
}

impl Mistakes {
    pub fn of(options: &MountOptions) -> Mistakes {
        let makes = |bug| options.scheme.is_some_and(|s| s.recovers_with(bug));
        Mistakes {
            old_attributes: makes(FastBug::OldAttributes),
            new_directory: makes(FastBug::NewDirectory),
            attribute_block: makes(FastBug::AttributeBlock),
            full_directory: makes(FastBug::FullDirectory),
            directory_blocks: makes(FastBug::DirectoryBlocks),
        }
    }

    /// True if the replay leaves faults, so that fast_commit-U4 would refuse it.
    pub fn leave_faults(self) -> bool {
        self.new_directory || self.attribute_block || self.directory_blocks
    }
}

/// The changes up to the first fast commit with a name for which its directory has no room, and how
/// many fast commits these are. The replay of e2fsck ends there with the words "No free space in
/// the directory" and keeps what it has done.
///
/// # Errors
/// As [`replay`](super::replay).
pub(crate) fn with_room(
    queue: &Arc<Queue>,
    sb: &Superblock,
    options: &MountOptions,
    found: &FastCommits,
) -> FsResult<(Vec<FastCommitTag>, u32)> {
    for (n, end) in found.ends.iter().enumerate().rev() {
        let tags = found.tags[..*end].to_vec();
        let done = replayed(queue, sb, options, (tags.clone(), Ending::Freed))?;
        if !done.directory_grew {
            return Ok((tags, n as u32 + 1));
        }
    }
    Ok((Vec::new(), 0))
}

impl Replay<'_> {
    /// True if names of the row have made a directory larger that was there before.
    pub(super) fn directory_grew(&self) -> FsResult<bool> {
        for (&ino, old) in self.old_directories() {
            if self.fs.inode(ino)?.core().disk.size() != old.size() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn old_directories(&self) -> impl Iterator<Item = (&Ino, &disk::Inode)> {
        let alive = self.targets.iter().filter(|(_, t)| t.is_alive() && !t.new);
        alive.filter_map(|(ino, t)| Some((ino, t.old.as_ref().filter(|old| old.is_dir())?)))
    }
}
