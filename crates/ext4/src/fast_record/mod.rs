//! Writing of fast commits (`record=fast`): what handles have told of their changes becomes one row
//! of tags. The journal brings it to the medium (`journal/src/fast/mod.rs`), and recovery replays
//! it (`fast_commit.rs`).
//!
//! - B1 (told or refused): a handle that has changed something tells of all of it before it ends,
//!   or its transaction is committed in full. Nobody has to remember to refuse: what does not tell
//!   is refused ([`Tx::told`](crate::tx::Tx)).
//! - B2 (what can be told): new files; names of inodes other than directories,
//!   and fields of such inodes; blocks that are mapped by extents. Refused as in Linux are extended
//!   attributes, renames of directories, exchanges, shifted ranges, flags, and data in the journal.
//!   Refused beyond that is what Linux tells, and what its replay or that of e2fsck then loses:
//!   directories that come or go (the link count of the one above), attributes of directories,
//!   new pipes, sockets, symbolic links and device nodes (for an inode without extents its replay
//!   keeps the block area that the number's last owner had), fields of an inode with a block of
//!   attributes (which its replay does not count), files whose content lies in the inode, and links
//!   to files that were made without a name.
//! - B3 (content): the row holds the fields of an inode, and where its blocks are, as they are when
//!   it is composed. No handle is open then (fast-W1), so they are those that the last handle left.
//! - B4 (order): names stand in the order in which they came and went, and inodes behind all names,
//!   each with its blocks before its fields; an inode that was made also stands before its first
//!   name. So no replay meets a name without its inode, or frees an inode that has got another
//!   name, and what a replay of names does to link counts and times, and a replay of blocks to
//!   their count, is set right at the end.
//! - B5 (short lives): an inode that was made and lost its last name since the last fast commit is
//!   left out with all of its names: its number may be another inode's by now.
//! - B6 (orphans): list and file of orphans lie at home as the last full commit left them, because
//!   no tag speaks of them. So an orphan of an earlier transaction ends by a full commit: replayed
//!   fields would cut the chain that runs through deletion times, and a replayed inode would have a
//!   number that stands for an orphan. For the same reason no fields are told of a file whose
//!   truncation has begun and not ended: nothing at home would finish it.
//! - B7 (room): a replay frees and maps all blocks of a file whose mapping a row changes, and puts
//!   names where it finds room, which need not be where they are. What that may change beyond the
//!   transaction itself has to fit the log (fast-W10), and what that may take has to be free on the
//!   volume. Both hold for all fast commits of a transaction together, because one replay carries
//!   them all out ([`Claims`](notes::Claims)). A file whose last name
//!   goes is left out of this, though its replay may free more than any log holds: where there is
//!   no room for that, recovery puts it on the list of orphans (fast_commit-U5). That changes no
//!   more than the transaction has, which made it an orphan as well. Linux and e2fsck log no
//!   replay, so for them there is nothing that has to fit.

mod compose;
mod notes;

pub(crate) use notes::{FastNotes, Named};

use crate::Ext4;
use crate::fault;
use crate::inode::Inode;
use base::Tid;
use block::WriteMark;
use fscore::{FileKind, FsResult};
use journal::{FastBug, Order};
use ondisk::ext4::{FastCommitName, FastCommitWriter};

impl Ext4 {
    /// Makes transaction `tid` durable as far as finished handles have changed it: by a fast commit
    /// if the scheme has them and everything can be told, else by a full commit. `mark` is as for
    /// [`commit_covering`](journal::Journal::commit_covering).
    pub(crate) fn commit_for_sync(&self, tid: Tid, mark: WriteMark) -> FsResult<()> {
        if self.fast.is_on() {
            let compose = |start| self.compose_fast(start);
            let done = self.journal.fast_commit(tid, mark, compose);
            if done.map_err(fault::journal)? {
                return Ok(());
            }
        }
        let full = self.journal.commit_covering(tid, mark);
        full.map_err(fault::journal)
    }

    /// fast_record-B2: a file whose content is told by its blocks.
    pub(crate) fn can_tell(&self, inode: &Inode) -> bool {
        let plain = {
            let core = inode.core();
            core.disk.is_regular() && core.has_extents() && !core.is_inline()
        };
        plain && !self.logs_data(inode)
    }

    /// fast_record-B2: a new inode that its fields tell whole. It has to fit a block: an inode may
    /// be as large as one.
    pub(crate) fn can_tell_new(&self, inode: &Inode) -> FsResult<bool> {
        let max = FastCommitWriter::inode_bytes_max(self.block_size.bytes());
        if self.geo.inode_bytes() > max {
            return Ok(false);
        }
        Ok(match inode.kind()? {
            FileKind::File => self.can_tell(inode),
            FileKind::Dir => self.fast_mistake(FastBug::NewDirectory),
            _ => false,
        })
    }

    /// True if fast commits are written with this mistake, in an experiment.
    pub(crate) fn fast_mistake(&self, bug: FastBug) -> bool {
        let scheme = self.journal.scheme();
        scheme.is_some_and(|s| s.writes_with(bug))
    }

    /// Makes everything durable for an fsync of a directory. Linux makes a full commit for whatever
    /// is no regular file; where the scheme has another order than that of Linux, a fast commit
    /// does.
    pub(crate) fn commit_for_directory(&self) -> FsResult<()> {
        let stock = self
            .journal
            .scheme()
            .is_none_or(|s| s.order == Order::FlushEnd);
        match self.journal.running_tid().filter(|_| !stock) {
            Some(tid) => self.commit_for_sync(tid, WriteMark::NONE),
            None => self.journal.commit_all().map_err(fault::journal),
        }
    }
}

/// A name of an inode in a directory.
pub(crate) fn named(dir: &Inode, inode: &Inode, name: &[u8]) -> FastCommitName {
    FastCommitName {
        parent: dir.ino,
        ino: inode.ino,
        name: name.to_vec(),
    }
}
