//! Orphans: inodes that a crash must not leave behind half done. Without links but open, or being truncated.
//!
//! They form a list on the device: the superblock names the newest, each names the next older one in its deletion time.
//! Images with feature `orphan_file` may name theirs in a file instead; it is read and emptied at mount, then left alone.
//!
//! Invariant O1: `list` is the chain on the device, as the running transaction has it, oldest first.

use crate::Ext4;
use crate::fault;
use crate::inode::{Core, Inode};
use crate::tx::Tx;
use base::bytes::put_le32;
use base::{BlockNo, Bytes, Ino};
use fscore::{FsError, FsResult};
use ondisk::ext4::{Compat, OrphanBlock, RoCompat, update_orphan_checksum, verify_orphan_checksum};
use rt::Mutex;
use std::sync::Arc;

/// Largest orphan file, blocks: far more than e2fsprogs makes (512), so that a damaged size does not stop the mount for hours.
const ORPHAN_FILE_BLOCKS_MAX: u64 = 8192;

/// The list of orphans.
pub(crate) struct Orphans {
    list: Mutex<Vec<Ino>>,
}

impl Orphans {
    pub fn new() -> Orphans {
        Orphans {
            list: Mutex::named("orphans", Vec::new()),
        }
    }
}

impl Ext4 {
    /// Puts an inode on the list; without effect if it is there.
    pub(crate) fn orphan_add(&self, tx: &mut Tx<'_>, inode: &Inode) -> FsResult<()> {
        let mut list = self.orphans.list.lock();
        if inode.core().orphan {
            return Ok(());
        }
        let next = list.last().map_or(0, |ino| ino.0);
        {
            let mut core = inode.core();
            core.disk.set_deletion_time(next);
            core.orphan = true;
        }
        list.push(inode.ino);
        self.put_inode(tx, inode)?;
        self.update_superblock(tx, |sb| sb.set_last_orphan(inode.ino))
    }

    /// Takes an inode off the list; without effect if it is not there.
    pub(crate) fn orphan_del(&self, tx: &mut Tx<'_>, inode: &Inode) -> FsResult<()> {
        let mut list = self.orphans.list.lock();
        if !inode.core().orphan {
            return Ok(());
        }
        let at = list.iter().position(|&ino| ino == inode.ino);
        let at = at.expect("O1: an orphan is on the list");
        let older = at.checked_sub(1).map_or(Ino(0), |i| list[i]);
        match list.get(at + 1) {
            Some(&newer) => {
                let newer = self.inodes.get(newer).expect("N3: orphans stay in memory");
                newer.core().disk.set_deletion_time(older.0);
                self.put_inode(tx, &newer)?;
            }
            None => self.update_superblock(tx, |sb| sb.set_last_orphan(older))?,
        }
        list.remove(at);
        {
            let mut core = inode.core();
            core.orphan = false;
            core.disk.set_deletion_time(0);
        }
        self.put_inode(tx, inode)
    }

    /// Finishes what a crash interrupted: frees orphans without links, truncates the others. Answers how many there were.
    pub(crate) fn clean_orphans(&self) -> FsResult<u32> {
        let chain = self.read_chain()?;
        let count = chain.len() as u32;
        {
            let mut list = self.orphans.list.lock();
            list.extend(chain.iter().rev().map(|inode| inode.ino));
        }
        for inode in &chain {
            self.finish_orphan(inode)?;
        }
        Ok(count + self.clean_orphan_file()?)
    }

    fn finish_orphan(&self, inode: &Arc<Inode>) -> FsResult<()> {
        if inode.core().disk.links() == 0 {
            return self.evict_if_unused(inode);
        }
        let _gate = inode.gate.write();
        let _wb = inode.wb.lock();
        if inode.is_inline() {
            return self.finish_inline(inode);
        }
        let size = inode.core().size;
        self.finish_tail(inode, size)?;
        self.finish_truncate(inode, size)
    }

    /// The chain on the device, newest first, all of it in the cache of inodes.
    fn read_chain(&self) -> FsResult<Vec<Arc<Inode>>> {
        let mut chain: Vec<Arc<Inode>> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        let mut next = self.sb.lock().last_orphan();
        while next.0 != 0 {
            if !seen.insert(next) {
                return Err(FsError::corrupt(format!(
                    "list of orphans: inode {next} is on it twice"
                )));
            }
            let inode = self.load_orphan(next, true)?;
            next = Ino(inode.core().disk.deletion_time());
            chain.push(inode);
        }
        Ok(chain)
    }

    fn load_orphan(&self, ino: Ino, chained: bool) -> FsResult<Arc<Inode>> {
        let bad = |what: &str| FsError::corrupt(format!("list of orphans: inode {ino} {what}"));
        if ino < self.geo.first_ino() || ino.0 > self.geo.inodes_count() {
            return Err(bad("is none of a file"));
        }
        let disk = self.read_inode(ino).map_err(|e| match e {
            FsError::Posix(_) => bad("is not in use"),
            other => other,
        })?;
        if disk.links() > 0 {
            self.check_inode(ino, &disk)?;
        }
        let mut core = Core::new(disk, self.newest_tid());
        core.data_mark = self.queue.mark();
        core.orphan = chained;
        Ok(self.inodes.add(Arc::new(Inode::new(ino, core))))
    }

    /// Empties the orphan file.
    fn clean_orphan_file(&self) -> FsResult<u32> {
        let (has_file, present, ino) = {
            let sb = self.sb.lock();
            let present = sb.ro_compat().has(RoCompat::ORPHAN_PRESENT);
            (
                sb.compat().has(Compat::ORPHAN_FILE),
                present,
                sb.orphan_file_ino(),
            )
        };
        if !has_file || !present {
            return Ok(0);
        }
        let file = self.inode(ino)?;
        let blocks = file.core().disk.size() / self.block();
        let mut count = 0;
        if blocks > ORPHAN_FILE_BLOCKS_MAX {
            return Err(FsError::corrupt(format!(
                "orphan file (inode {ino}) of {blocks} blocks; at most {ORPHAN_FILE_BLOCKS_MAX} make sense"
            )));
        }
        for lblk in 0..blocks as u32 {
            if let crate::map::Span::Data { start, .. } = self.lookup_span(&file, lblk, 1)? {
                count += self.clean_orphan_block(&file, start)?;
            }
        }
        self.transact(1, |tx| {
            self.update_superblock(tx, |sb| {
                sb.set_ro_compat(sb.ro_compat().without(RoCompat::ORPHAN_PRESENT));
            })
        })?;
        Ok(count)
    }

    fn clean_orphan_block(&self, file: &Inode, block: BlockNo) -> FsResult<u32> {
        let bytes = self.read_meta(block)?;
        let seed = self.inode_seed(file);
        if let Some(seed) = seed {
            verify_orphan_checksum(seed, block, &bytes).map_err(fault::corrupt)?;
        }
        let parsed = OrphanBlock::parse(&bytes).map_err(|e| fault::corrupt(e.at_block(block)))?;
        let orphans: Vec<(usize, Ino)> = parsed.orphans().collect();
        for &(slot, ino) in &orphans {
            let inode = self.load_orphan(ino, false)?;
            self.finish_orphan(&inode)?;
            self.transact(1, |tx| {
                let old: Bytes = self.read_meta(block)?;
                let mut new = old.to_vec();
                put_le32(&mut new, slot * 4, 0);
                if let Some(seed) = seed {
                    update_orphan_checksum(seed, block, &mut new);
                }
                tx.update(block, 0, &old, &new)
            })?;
        }
        Ok(orphans.len() as u32)
    }
}
