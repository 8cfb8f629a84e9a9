//! Looks inodes up, and caches those in memory.

use super::table::{IDLE_MAX, Known};
use super::{Change, Core, Inode};
use crate::F2fs;
use crate::ops::Op;
use base::Ino;
use fscore::{Errno, FileKind, FsError, FsResult};
use ondisk::f2fs::{
    BLOCK_BYTES, BlockAddr, Extent, Inline, InodeFields, InodeFlags, MAX_DIR_HASH_DEPTH, Nid,
    clear_inode_extent, footer, inode_size, max_file_blocks, set_inode_size,
};
use rt::atomic::Ordering;
use std::sync::Arc;

impl F2fs {
    /// The inode with this number.
    ///
    /// # Errors
    /// ESTALE if it is not in use; incompatible content; damage; I/O.
    pub(crate) fn inode(&self, ino: Ino) -> FsResult<Arc<Inode>> {
        self.load_inode(ino, false)
    }

    /// The inode, read if it is not in memory. Without links it is in use only as an orphan.
    pub(super) fn load_inode(&self, ino: Ino, orphan: bool) -> FsResult<Arc<Inode>> {
        loop {
            let missing = match self.inodes.find(ino) {
                Ok(inode) if inode.core().gone => return Err(Errno::Stale.into()),
                Ok(inode) => return Ok(inode),
                Err(missing) => missing,
            };
            let fields = match self.read_fields(ino) {
                // It was being freed when it was read.
                Err(_) if !self.inodes.is_still(ino, &missing) => continue,
                fields => fields?,
            };
            if fields.links == 0 && !orphan {
                return Err(Errno::Stale.into());
            }
            // Of its data nothing is known: an earlier life of this inode in memory may have
            // written some that no flush has covered (hazards-H19).
            let tree = self.new_tree(&fields);
            let inode = Inode::new(ino, Core::new(fields), tree, self.queue.mark());
            let inode = Arc::new(inode);
            if self.inodes.add(&inode, &missing) {
                self.prune_inodes();
                return Ok(inode);
            }
        }
    }

    fn read_fields(&self, ino: Ino) -> FsResult<InodeFields> {
        let nid = Nid(ino.0);
        if !self.is_inode_in_use(nid)? {
            return Err(Errno::Stale.into());
        }
        self.with_node(nid, |block| {
            if !footer(block).is_inode() {
                return Err(FsError::corrupt(format!(
                    "node {nid} is no inode, although the NAT says so"
                )));
            }
            let fields = InodeFields::parse(block, self.features)
                .map_err(|e| crate::fault::corrupt(e.at_inode(ino)))?;
            check_fields(ino, &fields)?;
            if fields.flags.has(InodeFlags::CASEFOLD) && self.folding.is_none() {
                return Err(FsError::corrupt(format!(
                    "inode {ino}: names without regard to case, without feature casefold"
                )));
            }
            Ok(fields)
        })?
    }

    fn is_inode_in_use(&self, nid: Nid) -> FsResult<bool> {
        let reserved = [Nid(0), self.geo.node_ino, self.geo.meta_ino];
        if reserved.contains(&nid) || nid.0 >= self.geo.max_nid {
            return Ok(false);
        }
        let entry = self.nat.get(nid)?;
        Ok(entry.addr != BlockAddr::NULL && entry.ino == nid)
    }

    /// Writes the fields to the inode's node block (f2fs-inode-N1).
    pub(crate) fn put_inode(&self, op: &Op<'_>, inode: &Inode) -> FsResult<()> {
        let (mut fields, keep_size) = {
            let mut core = inode.core();
            let mut fields = core.fields.clone();
            core.access_waits = false;
            if self.journal.is_some() {
                fields.ext = Extent::default();
                core.stale_extent = false;
            }
            let keep_size = self.journal.is_some() && is_delayed(&core);
            if !keep_size {
                core.node_size = fields.size;
            }
            (fields, keep_size)
        };
        self.edit_node(op, inode.nid(), |edit| {
            if keep_size {
                // Write-back may be raising it at this moment.
                fields.size = inode_size(edit.bytes());
            }
            edit.put_fields(&fields);
        })
    }

    /// Puts the present size into the inode block, because a caller set it, rather than a write
    /// whose pages may never be written back. With a journal `wb` is held, since before the
    /// operation had an epoch, because write-back changes the size, too (f2fs-journal-I4).
    pub(crate) fn put_size(&self, op: &Op<'_>, inode: &Inode) -> FsResult<()> {
        let size = {
            let mut core = inode.core();
            core.node_size = core.fields.size;
            core.node_size
        };
        match self.journal.is_some() {
            true => self.edit_node(op, inode.nid(), |edit| {
                edit.attrs(|block| set_inode_size(block, size));
            }),
            // Put with the other fields.
            false => Ok(()),
        }
    }

    /// Write-back has mapped the pages before `end` that `size` (which the file had before they
    /// were taken) covers: the inode block says so, in the same operation. `wb` is held.
    pub(crate) fn grow_size(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        size: u64,
        end: u64,
    ) -> FsResult<()> {
        let size = size.min(end.saturating_mul(BLOCK_BYTES as u64));
        {
            let mut core = inode.core();
            if self.journal.is_none() || !is_delayed(&core) || size <= core.node_size {
                return Ok(());
            }
            core.node_size = size;
        }
        self.edit_node(op, inode.nid(), |edit| {
            edit.attrs(|block| set_inode_size(block, size));
        })
    }

    /// Clears the largest run in the inode block: addresses are about to change, and with a journal
    /// the run is not kept up to date.
    pub(crate) fn drop_stale_extent(&self, op: &Op<'_>, inode: &Inode) -> FsResult<()> {
        if !std::mem::take(&mut inode.core().stale_extent) {
            return Ok(());
        }
        self.edit_node(op, inode.nid(), |edit| edit.attrs(clear_inode_extent))
    }

    /// Drops idle inodes when there are many (f2fs-inode-N2).
    pub(super) fn prune_inodes(&self) {
        let mut known = self.inodes.known.lock();
        if known.map.len() < known.prune_at {
            return;
        }
        let Known {
            map,
            dropped,
            departures,
            ..
        } = &mut *known;
        let before = map.len();
        map.retain(|&ino, inode| {
            let recent = inode.recent.swap(false, Ordering::Relaxed);
            if recent
                || Arc::strong_count(inode) > 1
                || self.pages.is_dirty(ino)
                || !inode.flights.is_empty()
            {
                return true;
            }
            // Roll-forward would bring back what was cut off: an fsync has to know.
            if inode.tree.try_lock().is_none_or(|tree| tree.cut_below) {
                return true;
            }
            let core = inode.core();
            // A failed write that no fsync has reported yet must not be forgotten.
            let busy = core.pins > 0
                || core.orphan
                || core.fields.links == 0
                || core.atomic
                || core.atomic_size.is_some()
                || core.access_waits
                || core.write_errors.unreported().is_some()
                || self.journal.is_some() && core.node_size != core.fields.size;
            if !busy
                && !core.needs_checkpoint
                && (core.change != Change::None || core.appended || core.updated)
            {
                dropped.insert(ino);
            }
            busy || core.needs_checkpoint
        });
        *departures += (before - map.len()) as u64;
        known.prune_at = IDLE_MAX.max(2 * known.map.len());
    }
}

/// Its size follows its pages.
fn is_delayed(core: &Core) -> bool {
    core.fields.is_regular() && !core.fields.inline.has(Inline::DATA)
}

/// Refuses an inode that contradicts itself.
fn check_fields(ino: Ino, fields: &InodeFields) -> FsResult<()> {
    let bad = |what: String| Err(FsError::corrupt(format!("inode {ino}: {what}")));
    let size = fields.size;
    let blocks_max = max_file_blocks() + u64::from(fields.addrs_per_inode());
    if FileKind::from_mode(fields.mode).is_none() {
        return bad(format!("mode {:#o} has no file type", fields.mode));
    }
    if fields.blocks == 0 {
        return bad("it counts no block, not even its own".into());
    }
    if size > blocks_max * BLOCK_BYTES as u64 {
        return bad(format!("size {size} is beyond what can be mapped"));
    }
    if fields.inline.has(Inline::DATA) && size > fields.inline_data_range().len() as u64 {
        return bad(format!(
            "{size} bytes of inline data, more than there is room for"
        ));
    }
    if fields.xattr_nid == Nid(ino.0) {
        return bad("its attribute node is itself".into());
    }
    if !fields.is_dir() {
        return Ok(());
    }
    if !fields.inline.has(Inline::DENTRY) && !size.is_multiple_of(BLOCK_BYTES as u64) {
        return bad(format!("a directory of {size} bytes"));
    }
    if fields.current_depth > MAX_DIR_HASH_DEPTH {
        return bad(format!("a directory with {} levels", fields.current_depth));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MountOptions;
    use crate::mkfs::{self, DeviceContent, Options};
    use block::Queue;
    use blockdev::Ram;
    use fscore::{Creds, FileSystem, SetAttr};
    use rt::{Sim, SimConfig};

    /// While a task reads an inode, `change` runs in another one, in as many orders as there are
    /// seeds. Hands `check` the file system and the inode afterwards.
    fn beside_a_reader(change: fn(&F2fs, Ino), check: fn(&F2fs, Ino)) {
        const BYTES: u64 = 64 << 20;
        for seed in 0..200 {
            let outcome = Sim::new(SimConfig::random(seed)).run(|| {
                let device = Arc::new(Ram::new(BYTES));
                let time = rt::WallTime { secs: 1, nanos: 0 };
                let plan = mkfs::plan(&Options::new(BYTES, [3; 16], time));
                (plan.expect("a volume"))
                    .write(&Queue::new(device.clone()), DeviceContent::Zeros)
                    .expect("written");
                let mount = || F2fs::mount(Queue::new(device.clone()), MountOptions::default());
                let fs = mount().expect("mounts");
                let (root, creds) = (fs.root(), Creds::default());
                let made = fs.create(root, b"f", FileKind::File, 0o644, 0, creds);
                let ino = made.expect("room").ino;
                fs.unmount().expect("unmounts");
                let fs = mount().expect("mounts");
                let reader = {
                    let fs = fs.clone();
                    rt::spawn("reader", move || match fs.getattr(ino) {
                        Ok(_) => {}
                        Err(e) => assert_eq!(e.errno(), Errno::Stale, "{e}"),
                    })
                };
                change(&fs, ino);
                reader.join().expect("no panic");
                check(&fs, ino);
                fs.unmount().expect("unmounts");
            });
            let failure = outcome.first_failure;
            assert!(failure.is_none(), "f2fs-inode-N4, seed {seed}: {failure:?}");
        }
    }

    /// f2fs-inode-N4: the inode is in memory before and after the change, but for a task that began
    /// to read it earlier.
    #[test]
    fn an_inode_that_changed_while_it_was_read_is_read_again() {
        let change = |fs: &F2fs, ino| {
            let set = SetAttr {
                perm: Some(0o600),
                ..SetAttr::default()
            };
            fs.setattr(ino, &set).expect("there");
            // The first time it counts as looked up recently.
            for _ in 0..2 {
                fs.inodes.known.lock().prune_at = 0;
                fs.prune_inodes();
            }
        };
        beside_a_reader(change, |fs, ino| {
            assert_eq!(fs.getattr(ino).expect("there").perm, 0o600);
        });
    }

    #[test]
    fn an_inode_that_was_freed_while_it_was_read_is_gone() {
        let change = |fs: &F2fs, _| fs.unlink(fs.root(), b"f").expect("there");
        beside_a_reader(change, |fs, ino| {
            assert_eq!(fs.getattr(ino).expect_err("freed").errno(), Errno::Stale);
        });
    }
}
