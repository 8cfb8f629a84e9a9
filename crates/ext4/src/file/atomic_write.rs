//! Atomic writes: all parts of a write are there after a cut of power, or none of them. SQLite
//! commits a transaction by one, so that it needs no journal file of its own.
//!
//! The content goes through the log, in one handle, with the mapping and the size that belong to
//! it. The crash argument:
//!
//! - A1 (whole): a handle belongs to one transaction, and recovery replays a transaction whole or
//!   not at all (journal-commit-K1). All images, mappings and the size join inside of
//!   one handle, so no state after a cut has a part of them.
//! - A2 (nothing before the commit): until that transaction is committed, no block that was mapped
//!   is written in place: the images leave the journal for their homes only by a checkpoint, which
//!   comes after the commit (home-M1).
//! - A3 (mixing with direct writes): from the moment an image joins, its block is in the set of
//!   `logged_data`, so no path writes it directly before a checkpoint has brought it home and the
//!   tail has passed it, or a committed transaction has revoked it (small-S2, small-S3). Replay
//!   never brings back content older than what was written directly.
//! - A4 (older pages): dirty pages of the file are written, and have landed, before the first image
//!   joins, and `wb` is held to the end of the handle. So no direct write of an affected block that
//!   began earlier is on its way, to land over its home after a checkpoint.
//! - A5 (no half): what could be refused is asked first: the size, the credits of the handle, and a
//!   promise for each block of data and of the tree. What fails all the same after the first change
//!   is an error of the device or damage, and latches the mount (tx-T2), so that no half commits.
//! - A6 (durable): the tids of the inode rise to the transaction, so an fsync waits for it;
//! - A7 (clusters): with feature `bigalloc` a page over a hole gets its block beside what is mapped
//!   in the same cluster (cluster-C2). A block there that was unmapped a moment ago may have a
//!   revoke in the running transaction; the image that joins takes the revoke back, so recovery
//!   replays the image (cluster-C5). Clusters of the holes are promised before (A5).

use crate::Ext4;
use crate::extent::INSERT_NODES_MAX;
use crate::file::journaled::Rest;
use crate::inode::Inode;
use crate::map::Span;
use crate::tx::Tx;
use base::cost::ext4 as cost;
use base::{BlockNo, Bytes, Mutant};
use fscore::{Accepted, AtomicUnit, Errno, FsError, FsResult, Home};
use ondisk::ext4::InodeFlags;
use std::collections::{BTreeMap, BTreeSet};

use super::writeback::Way;

/// Neighbouring pages whose mapping may need as many new nodes of the tree as one insertion at the
/// most. Pages that lie farther apart may each be in another leaf.
const PAGES_PER_NODES: u64 = 16;

/// Logarithm of the most pages that are told as the unit of atomic writes: 1 MiB of 4 KiB.
const UNIT_PAGES_LOG_MAX: u32 = 8;

/// The pages of an atomic write, by their number in the file.
type Pages = BTreeMap<u64, Vec<u8>>;

/// Pages of an atomic write by what has to be done for them.
#[derive(Default)]
struct Pieces {
    written: u32,
    unwritten: u32,
    insertions: u32,
}

impl Pieces {
    fn credits(&self) -> u32 {
        let nodes = self.insertions * INSERT_NODES_MAX;
        self.written + 4 * self.unwritten + 4 * nodes + 4
    }
}

/// What a handle for them has to have.
struct Need {
    credits: u32,
    promise: u64,
}

impl Ext4 {
    /// Writes `parts`, each with its offset; see the module. It is durable after an fsync. Where
    /// parts overlap, the later one counts.
    ///
    /// # Errors
    /// EFBIG: more than a transaction can hold, or beyond the largest file. EOPNOTSUPP: without a
    /// journal, or content that does not lie in blocks of its own as it is read. ENOSPC. With these
    /// nothing has changed.
    pub(crate) fn write_file_atomic(&self, inode: &Inode, parts: &[(u64, Bytes)]) -> FsResult<()> {
        let mut end = 0;
        for (offset, data) in parts {
            let to = offset.checked_add(data.len() as u64);
            let to = to.filter(|&to| to <= self.size_max_of(inode));
            end = end.max(to.ok_or(Errno::FBig)?);
        }
        if rt::mutant(Mutant::AtomicPieces) {
            for (offset, data) in parts {
                self.write_file(inode, *offset, data)?;
            }
            return Ok(());
        }
        let _gate = inode.gate.write();
        self.check_takes_atomic(inode)?;
        // A4.
        self.write_pages(inode, 0..u64::MAX, Way::AWAITED)?;
        rt::charge_run(cost::WRITE_PAGE, cost::WRITE_NEXT_PAGE, parts.len() as u64);
        self.update_times(inode)?;
        let pages = self.composed(inode, parts)?;
        let _wb = inode.wb.lock();
        self.land_flights(inode);
        let need = self.need_of(inode, &pages)?;
        if need.credits > self.journal.credits_max() {
            return Err(Errno::FBig.into());
        }
        let promised = self.after_making_room(|| {
            let got = self.promise_up_to(need.promise);
            if got == need.promise {
                return Ok(Some(got));
            }
            self.space.release(got);
            Ok(None)
        })?;
        let promised = promised.ok_or(Errno::NoSpc)?;
        self.transact_promised(need.credits, promised, |tx| {
            let logged = self.log_atomic(tx, inode, pages, end);
            // A5.
            logged.map_err(|e| match e {
                FsError::Posix(errno) => FsError::Io {
                    what: format!("half of an atomic write was refused: {errno}"),
                    power_lost: false,
                },
                other => other,
            })
        })
    }

    fn check_takes_atomic(&self, inode: &Inode) -> FsResult<()> {
        if inode.core().gone {
            return Err(Errno::Stale.into());
        }
        if !Accepted::here() {
            inode.check_not_immutable()?;
        }
        let (is_regular, flags) = {
            let core = inode.core();
            (core.disk.is_regular(), core.disk.flags())
        };
        let foreign = inode.is_inline() || flags.has(InodeFlags::ENCRYPT);
        match is_regular {
            false => Err(Errno::Inval.into()),
            true if foreign || !self.has_log() => Err(Errno::NotSup.into()),
            true => Ok(()),
        }
    }

    /// The content of each page after the write.
    fn composed(&self, inode: &Inode, parts: &[(u64, Bytes)]) -> FsResult<Pages> {
        let (block, size) = (self.block(), inode.core().size);
        let mut pages = Pages::new();
        for (offset, data) in parts {
            let mut done = 0;
            while done < data.len() {
                let pos = offset + done as u64;
                let (index, at) = (pos / block, (pos % block) as usize);
                let len = (self.block_size.bytes() - at).min(data.len() - done);
                let is_whole = len == self.block_size.bytes();
                if !is_whole && !pages.contains_key(&index) && index * block < size {
                    let old = match self.pages.get(inode.ino, index) {
                        Some(page) => page,
                        None => self.fill(inode, index, index + 1)?,
                    };
                    pages.insert(index, old.to_vec());
                }
                let page = pages.entry(index);
                let page = page.or_insert_with(|| vec![0; self.block_size.bytes()]);
                page[at..at + len].copy_from_slice(&data[done..done + len]);
                done += len;
            }
        }
        Ok(pages)
    }

    /// A page with a written block needs a credit for its image. Another one needs them for bitmap
    /// and descriptor too, a block, and its share of what the tree may grow by.
    fn need_of(&self, inode: &Inode, pages: &Pages) -> FsResult<Need> {
        let mut pieces = Pieces::default();
        // Clusters of holes, or blocks that are not written: what has to be promised for them.
        let (mut data, unit) = (BTreeSet::new(), self.cluster_len(1));
        // The page behind those that share the nodes of the last insertion.
        let mut shared = 0;
        for &index in pages.keys() {
            match self.lookup_span(inode, index as u32, 1)? {
                Span::Data { .. } => pieces.written += 1,
                span @ (Span::Hole { .. } | Span::Unwritten { .. }) => {
                    pieces.unwritten += 1;
                    if unit == 1 || matches!(span, Span::Hole { .. }) {
                        data.insert(index / unit);
                    }
                    if index >= shared {
                        pieces.insertions += 1;
                        shared = index + PAGES_PER_NODES;
                    }
                }
            }
        }
        let nodes = pieces.insertions * INSERT_NODES_MAX;
        Ok(Need {
            credits: pieces.credits(),
            promise: data.len() as u64 + u64::from(nodes),
        })
    }

    /// Single writes that no transaction is too small for, whatever of their pages is mapped.
    pub(crate) fn atomic_unit_of_volume(&self) -> AtomicUnit {
        let block = self.geo.block_bytes();
        let fits = |pages: &u32| {
            let worst = Pieces {
                written: 0,
                unwritten: *pages,
                insertions: pages.div_ceil(PAGES_PER_NODES as u32) + 1,
            };
            worst.credits() <= self.journal.credits_max()
        };
        let pages = (0..=UNIT_PAGES_LOG_MAX).map(|log| 1 << log);
        let most = pages.take_while(fits).last().unwrap_or(1);
        AtomicUnit {
            min: block,
            max: block * most,
        }
    }

    /// Maps and logs the pages, and raises the size to `end` (A1, A7).
    fn log_atomic(&self, tx: &mut Tx<'_>, inode: &Inode, pages: Pages, end: u64) -> FsResult<()> {
        for (index, content) in pages {
            let block: BlockNo = self.place_page(tx, inode, index, Rest::Unwritten)?;
            let content = Bytes::from(content);
            tx.write_data(block, content.clone())?;
            self.pages.drop_range(inode.ino, index..index + 1);
            self.pages.fill(inode.ino, index, content, Home::Known);
        }
        {
            let mut core = inode.core();
            if end > core.size {
                core.set_size(end);
            }
            // A6.
            (core.datasync_tid, core.sync_tid) = (tx.tid(), tx.tid());
        }
        self.put_inode(tx, inode)
    }
}
