//! From notes to the blocks of one fast commit.

use super::notes::{Claims, Named, Notes};
use crate::Ext4;
use crate::inode::Inode;
use crate::map::Span;
use base::{BlockNo, Bytes, Ino, Mutant, cost};
use fscore::FsResult;
use journal::{FastBug, FastStart};
use ondisk::ext4::{Extent, FastCommitTag, FastCommitWriter, INLINE_EXTENTS_MAX, INODE_BYTES_OLD};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Nodes of the tree of a file that is told by a fast commit. A replay maps the whole file anew, so
/// that a file of thousands of extents is faster by a full commit.
const NODES_MAX: usize = 8;

impl Ext4 {
    /// The blocks of a fast commit of all that handles have told since the last one; none if that
    /// is nothing. `None` if something was not told, or cannot be read. No handle is open.
    pub(crate) fn compose_fast(&self, start: FastStart) -> Option<Vec<Bytes>> {
        let notes = self.fast.take(start.tid)?;
        if notes.is_empty() {
            return Some(Vec::new());
        }
        let row = Row {
            fs: self,
            writer: FastCommitWriter::new(start.block_bytes, start.tid, start.head),
            room: start.room,
            claims: self.fast.claims(start.tid),
        };
        // An error of reading shows again in the full commit, or where the block is needed.
        let (blocks, claims) = row.compose(notes).ok().flatten()?;
        let has_room = claims.images() <= start.spare && claims.blocks() <= self.space.usable();
        if !has_room && !rt::mutant(Mutant::FastWithoutRoom) {
            return None;
        }
        self.fast.claim(start.tid, claims);
        rt::charge_each(cost::journal::COALITION_PART, blocks.len() as u64);
        Some(blocks)
    }
}

/// A row of tags in the making.
struct Row<'f> {
    fs: &'f Ext4,
    writer: FastCommitWriter,
    room: usize,
    claims: Claims,
}

impl Row<'_> {
    /// fast_record-B4, and what a replay may need (fast_record-B7). `None` if the area has no room
    /// for it, or it cannot be told.
    fn compose(mut self, mut notes: Notes) -> FsResult<Option<(Vec<Bytes>, Claims)>> {
        if !self.leave_out_dead(&mut notes)? {
            return Ok(None);
        }
        for (what, name) in notes.names {
            self.claims.name(name.parent, what != Named::Unlink);
            if what == Named::Create {
                let inode = self.fs.inode(name.ino)?;
                match self.fs.fast_mistake(FastBug::OldAttributes) {
                    true => self.fields(&inode),
                    false => self.all_of(&inode),
                }
            }
            self.writer.push(&what.tag(name));
            if self.writer.blocks() > self.room {
                return Ok(None);
            }
        }
        for (ino, ranges) in notes.inodes {
            let inode = self.fs.inode(ino)?;
            // fast_record-B2: the replay of others does not count that block.
            let has_block = inode.core().disk.xattr_block() != BlockNo(0);
            if has_block && !self.fs.fast_mistake(FastBug::AttributeBlock) {
                return Ok(None);
            }
            if !ranges.is_empty() && !self.claim_mapping(&inode)? {
                return Ok(None);
            }
            self.blocks(&inode, ranges)?;
            self.fields(&inode);
            if self.writer.blocks() > self.room {
                return Ok(None);
            }
        }
        let blocks = self.writer.finish();
        let blocks = blocks.into_iter().map(Bytes::from).collect();
        Ok(Some((blocks, self.claims)))
    }

    /// fast_record-B7: claims what a replay of this file's mapping may need. False if that is
    /// better a full commit.
    fn claim_mapping(&mut self, inode: &Arc<Inode>) -> FsResult<bool> {
        if !inode.core().has_extents() {
            return Ok(true);
        }
        let nodes = {
            let _tree = inode.tree.read();
            self.fs.tree_blocks_of(inode)?.len()
        };
        if nodes > NODES_MAX {
            return Ok(false);
        }
        let place = |block| self.fs.geo.block_place(block).map_or(0, |(group, _)| group);
        let extents = self.fs.extents_of(inode)?;
        let spans = extents.iter().map(|e| {
            let last = e.physical.plus(u64::from(e.len) - 1);
            place(e.physical)..=place(last)
        });
        let groups: BTreeSet<u32> = spans.flatten().collect();
        // A node, and bitmap and descriptor where it was and where it will be; bitmap and
        // descriptor of each group that has data.
        let images = 5 * nodes + 2 * groups.len();
        // The new tree may have its nodes cut in other places, if it does not fit the inode.
        let blocks = match extents.len() <= usize::from(INLINE_EXTENTS_MAX) {
            true => 0,
            false => nodes + 1,
        };
        self.claims.mapping(inode.ino, images as u32, blocks as u32);
        Ok(true)
    }

    /// fast_record-B5, for inodes without a name that are still open; what they are does not
    /// outlive a cut. False if one that has a name is being truncated (fast_record-B6).
    fn leave_out_dead(&self, notes: &mut Notes) -> FsResult<bool> {
        let made = notes
            .names
            .iter()
            .filter(|(what, _)| *what == Named::Create);
        let made = made.map(|(_, name)| name.ino);
        let touched: BTreeSet<Ino> = made.chain(notes.inodes.keys().copied()).collect();
        for ino in touched {
            let inode = self.fs.inode(ino)?;
            let core = inode.core();
            if core.disk.links() == 0 {
                notes.drop_inode(ino);
            } else if core.orphan.is_some() && !rt::mutant(Mutant::FastTellsOrphans) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The whole inode: what lies behind the fields may be of an older inode with its number, whose
    /// attributes neither Linux nor e2fsck takes away.
    fn all_of(&mut self, inode: &Arc<Inode>) {
        let bytes = inode.core().logged_bytes().to_vec();
        self.writer.push(&FastCommitTag::Inode(inode.ino, bytes));
    }

    /// fast_record-B3: the fields, without attributes that lie behind them.
    fn fields(&mut self, inode: &Arc<Inode>) {
        let core = inode.core();
        let bytes = core.logged_bytes();
        let extra = usize::from(core.disk.extra_bytes());
        let len = (INODE_BYTES_OLD + extra).min(bytes.len());
        let tag = FastCommitTag::Inode(inode.ino, bytes[..len].to_vec());
        self.writer.push(&tag);
    }

    /// Where the blocks of these ranges are.
    fn blocks(&mut self, inode: &Arc<Inode>, ranges: Vec<Range<u64>>) -> FsResult<()> {
        if !inode.core().has_extents() {
            return Ok(());
        }
        for Range { start, end } in ranges {
            let mut at = start;
            while at < end {
                let (logical, want) = (at as u32, (end - at).min(u32::MAX.into()) as u32);
                let span = self.fs.lookup_span(inode, logical, want)?;
                let (physical, unwritten) = match span {
                    Span::Hole { len } => {
                        let gone = FastCommitTag::DelRange(inode.ino, logical, len);
                        self.writer.push(&gone);
                        at += u64::from(len);
                        continue;
                    }
                    Span::Data { start, .. } => (start, false),
                    Span::Unwritten { start, .. } => (start, true),
                };
                let extent = Extent {
                    logical,
                    len: span.len(),
                    physical,
                    unwritten,
                };
                self.writer
                    .push(&FastCommitTag::AddRange(inode.ino, extent));
                at += u64::from(span.len());
                if self.writer.blocks() > self.room {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
