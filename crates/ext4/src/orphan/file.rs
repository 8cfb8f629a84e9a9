//! The orphan file: blocks full of slots, each of which names an orphan or is free (0).
//!
//! A new orphan goes to the first block that has a free slot and is not being changed by another
//! task at this moment. So one task alone fills one block, and a transaction logs few of them;
//! tasks that run at the same time use different blocks. A task waits for a block only if all
//! others are full or being changed, too.

use super::Slot;
use crate::Ext4;
use crate::bitmap;
use crate::fault;
use crate::inode::{Core, Inode};
use crate::map::Span;
use crate::tx::Tx;
use base::bytes::{get_le32, put_le32};
use base::{BlockNo, Ino};
use fscore::{FsError, FsResult};
use ondisk::ext4::{InodeSeed, OrphanBlock, update_orphan_checksum, verify_orphan_checksum};
use rt::{Mutex, MutexGuard};

/// Largest orphan file, blocks: far more than e2fsprogs makes (512), so that a damaged size does
/// not stop the mount for hours.
const BLOCKS_MAX: u64 = 8192;
/// Blocks read at once.
const READ_BLOCKS: u32 = 64;
/// A slot is a le32.
const SLOT_BYTES: usize = 4;

/// The orphans that slots name.
pub(super) type Named = Vec<(Slot, Ino)>;

/// The orphan file of a mounted volume.
pub(crate) struct OrphanFile {
    /// Where the checksums of its blocks start; `None` without metadata checksums.
    seed: Option<InodeSeed>,
    blocks: Vec<FileBlock>,
}

struct FileBlock {
    /// The block on the device.
    home: BlockNo,
    slots: Mutex<Slots>,
}

/// Which slots of a block are in use (orphan-O4).
struct Slots {
    /// One bit for each slot.
    taken: Vec<u8>,
    count: u32,
}

impl Slots {
    fn new(count: u32) -> Slots {
        Slots {
            taken: vec![0; (count as usize).div_ceil(8)],
            count,
        }
    }

    fn set(&mut self, index: u32, taken: bool) {
        bitmap::fill(&mut self.taken, index, 1, taken);
    }

    fn first_free(&self) -> Option<u32> {
        let index = bitmap::next(&self.taken, 0, self.count, false);
        (index < self.count).then_some(index)
    }

    fn is_empty(&self) -> bool {
        self.taken.iter().all(|&byte| byte == 0)
    }
}

impl OrphanFile {
    /// Reads the file of a volume that has one, with what its slots name.
    ///
    /// # Errors
    /// `Corrupt`: no regular file in use, an impossible size, a hole, a block with a wrong magic
    /// number or checksum.
    pub(super) fn load(fs: &Ext4) -> FsResult<Option<(OrphanFile, Named)>> {
        let Some(ino) = fs.orphan_file_ino() else {
            return Ok(None);
        };
        let (inode, count) = fs.read_file_inode(ino)?;
        let mut file = OrphanFile {
            seed: fs.inode_seed(&inode),
            blocks: Vec::new(),
        };
        let mut named = Named::new();
        let mut at = 0;
        while at < count {
            let Span::Data { start, len } =
                fs.lookup_span(&inode, at, READ_BLOCKS.min(count - at))?
            else {
                return Err(bad(ino, format_args!("no data at its block {at}")));
            };
            let read = fs.read_data(&inode, start, len)?;
            for (n, bytes) in (0..).zip(read) {
                file.add(start.plus(n), &bytes, &mut named)?;
            }
            at += len;
        }
        Ok(Some((file, named)))
    }

    fn add(&mut self, home: BlockNo, bytes: &[u8], named: &mut Named) -> FsResult<()> {
        let parsed = OrphanBlock::parse(bytes).map_err(|e| fault::corrupt(e.at_block(home)))?;
        if let Some(seed) = self.seed {
            verify_orphan_checksum(seed, home, bytes).map_err(fault::corrupt)?;
        }
        let mut slots = Slots::new(parsed.slots() as u32);
        let block = self.blocks.len() as u32;
        for (index, ino) in parsed.orphans() {
            let index = index as u32;
            slots.set(index, true);
            named.push((Slot { block, index }, ino));
        }
        self.blocks.push(FileBlock {
            home,
            slots: Mutex::named("orphan file block", slots),
        });
        Ok(())
    }

    /// True if no slot is taken.
    pub(super) fn is_empty(&self) -> bool {
        (self.blocks.iter()).all(|block| block.slots.lock().is_empty())
    }

    /// A block with a free slot; with `wait` also one that another task is changing. Answers as
    /// well whether a block was skipped because of such a task.
    fn room(&self, wait: bool) -> (Option<(u32, u32, MutexGuard<'_, Slots>)>, bool) {
        let mut busy = false;
        for (block, candidate) in (0..).zip(&self.blocks) {
            let slots = match wait {
                true => Some(candidate.slots.lock()),
                false => candidate.slots.try_lock(),
            };
            let Some(slots) = slots else {
                busy = true;
                continue;
            };
            if let Some(index) = slots.first_free() {
                return (Some((block, index, slots)), busy);
            }
        }
        (None, busy)
    }
}

fn bad(ino: Ino, what: std::fmt::Arguments<'_>) -> FsError {
    FsError::corrupt(format!("orphan file (inode {ino}): {what}"))
}

impl Ext4 {
    /// The inode of the file, and its blocks.
    fn read_file_inode(&self, ino: Ino) -> FsResult<(Inode, u32)> {
        if ino < self.geo.first_ino() {
            return Err(bad(ino, format_args!("the inode is reserved")));
        }
        let disk = self.read_inode(ino).map_err(|e| match e {
            FsError::Posix(_) => bad(ino, format_args!("not in use")),
            other => other,
        })?;
        let inode = Inode::new(ino, Core::new(disk, self.newest_tid()));
        let (regular, size) = {
            let core = inode.core();
            (core.disk.is_regular() && core.maps_blocks(), core.size)
        };
        if !regular {
            return Err(bad(ino, format_args!("no regular file of blocks")));
        }
        let (blocks, rest) = (size / self.block(), size % self.block());
        if rest != 0 || blocks > BLOCKS_MAX {
            return Err(bad(
                ino,
                format_args!("{size} bytes; whole blocks, and at most {BLOCKS_MAX}, make sense"),
            ));
        }
        Ok((inode, blocks as u32))
    }

    /// Stores an orphan in a free slot; `None` if there is no file, no log (orphan-O7) or no free
    /// slot.
    pub(super) fn take_slot(&self, tx: &mut Tx<'_>, ino: Ino) -> FsResult<Option<Slot>> {
        let Some(file) = self.orphans.file.as_ref().filter(|_| self.has_log()) else {
            return Ok(None);
        };
        let found = match file.room(false) {
            (None, true) => file.room(true).0,
            (found, _) => found,
        };
        let Some((block, index, mut slots)) = found else {
            return Ok(None);
        };
        let slot = Slot { block, index };
        self.write_slot(tx, file, slot, Ino(0), ino)?;
        slots.set(index, true);
        Ok(Some(slot))
    }

    /// Frees the slot of `ino`.
    pub(super) fn free_slot(&self, tx: &mut Tx<'_>, slot: Slot, ino: Ino) -> FsResult<()> {
        let file = self.orphans.file.as_ref();
        let file = file.expect("orphan-O2: a slot is one of the file");
        let mut slots = file.blocks[slot.block as usize].slots.lock();
        self.write_slot(tx, file, slot, ino, Ino(0))?;
        slots.set(slot.index, false);
        Ok(())
    }

    /// Changes what a slot holds. The block is locked.
    fn write_slot(
        &self,
        tx: &mut Tx<'_>,
        file: &OrphanFile,
        slot: Slot,
        from: Ino,
        to: Ino,
    ) -> FsResult<()> {
        let home = file.blocks[slot.block as usize].home;
        let at = slot.index as usize * SLOT_BYTES;
        let old = self.read_meta(home)?;
        let found = get_le32(&old, at);
        if found != from.0 {
            return Err(FsError::corrupt(format!(
                "{slot}, at block {home}: {found}, where {from} was written (orphan-O4)"
            )));
        }
        let mut new = old.to_vec();
        put_le32(&mut new, at, to.0);
        if let Some(seed) = file.seed {
            update_orphan_checksum(seed, home, &mut new);
        }
        tx.update(home, 0, &old, &new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MountOptions;
    use crate::mkfs::{self, DeviceContent, MkfsOptions};
    use crate::orphan::Place;
    use base::BLOCK_BYTES;
    use block::{Class, Queue};
    use blockdev::{Ram, write_block};
    use fscore::{Creds, FileKind, FileSystem};
    use ondisk::ext4::{Compat, RoCompat, Superblock};
    use rt::{Sim, SimConfig};
    use std::sync::Arc;

    const BYTES: u64 = 16 << 20;

    fn mounted(ram: &Arc<Ram>) -> Arc<Ext4> {
        Ext4::mount(Queue::new(ram.clone()), MountOptions::default()).expect("mounts")
    }

    fn make(fs: &Ext4, name: &str) -> Ino {
        let (root, creds) = (fs.root(), Creds::default());
        let made = fs.create(root, name.as_bytes(), FileKind::File, 0o600, 0, creds);
        made.expect("room").ino
    }

    fn superblock(ram: &Ram) -> Superblock {
        Superblock::parse(&ram.image()[1024..]).expect("a superblock")
    }

    /// A volume with an orphan file of two blocks, made from one of its regular files.
    fn volume() -> Arc<Ram> {
        let ram = Arc::new(Ram::new(BYTES));
        let time = rt::WallTime { secs: 1, nanos: 0 };
        let plan = mkfs::plan(&MkfsOptions::new(BYTES, [3; 16], [5; 16], time));
        let queue = Queue::new(ram.clone());
        let plan = plan.expect("a volume");
        plan.write(&queue, DeviceContent::Zeros).expect("written");
        let fs = mounted(&ram);
        let ino = make(&fs, "orphans");
        fs.write(ino, 0, &[0; 2 * BLOCK_BYTES]).expect("written");
        fs.sync().expect("synced");
        let inode = fs.inode(ino).expect("there");
        let seed = fs.inode_seed(&inode).expect("checksums");
        let Span::Data { start, len: 2 } = fs.lookup_span(&inode, 0, 2).expect("mapped") else {
            panic!("two blocks in a row");
        };
        drop(inode);
        fs.unmount().expect("unmounts");
        for at in [start, start.plus(1)] {
            let mut block = vec![0; BLOCK_BYTES];
            update_orphan_checksum(seed, at, &mut block);
            write_block(&*ram, at.lba(), Class::Home, block.into()).expect("in range");
        }
        let mut sb = superblock(&ram);
        sb.set_compat(sb.compat() | Compat::ORPHAN_FILE);
        sb.set_orphan_file_ino(ino);
        let mut first = ram.image()[..BLOCK_BYTES].to_vec();
        sb.encode(&mut first[1024..2048]);
        write_block(&*ram, base::Lba(0), Class::Home, first.into()).expect("in range");
        ram
    }

    fn slot_of(fs: &Ext4, name: &str) -> Slot {
        let inode = fs.inode(make(fs, name)).expect("there");
        let added = fs.transact(3, |tx| fs.orphan_add(tx, &inode));
        added.expect("added");
        let place = inode.core().orphan;
        match place {
            Some(Place::Slot(slot)) => slot,
            place => panic!("{place:?}"),
        }
    }

    /// Takes a slot in a task of its own, while the blocks `busy` are locked for a millisecond.
    /// Answers the slot that the task had got by then, and the one that it got in the end.
    fn taken_beside(fs: &Arc<Ext4>, name: &str, busy: &[u32]) -> (Option<Slot>, Option<Slot>) {
        let file = fs.orphans.file.as_ref().expect("a file");
        let ino = make(fs, name);
        let found = Arc::new(Mutex::named("found", None));
        let locked: Vec<_> = (busy.iter())
            .map(|&n| file.blocks[n as usize].slots.lock())
            .collect();
        let taker = {
            let (fs, found) = (fs.clone(), found.clone());
            rt::spawn("taker", move || {
                let slot = fs.transact(1, |tx| fs.take_slot(tx, ino));
                *found.lock() = slot.expect("taken");
            })
        };
        rt::sleep(base::Nanos::from_millis(1));
        let meanwhile = *found.lock();
        drop(locked);
        taker.join().expect("no panic");
        let end = *found.lock();
        (meanwhile, end)
    }

    /// No task waits for a block while another one has a free slot; where all are busy, it waits
    /// for one.
    #[test]
    fn who_finds_a_block_busy_takes_the_next() {
        let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
            let fs = mounted(&volume());
            let slot = |block, index| Some(Slot { block, index });
            assert_eq!(Some(slot_of(&fs, "a")), slot(0, 0));
            let next = slot(1, 0);
            assert_eq!(taken_beside(&fs, "b", &[0]), (next, next));
            assert_eq!(taken_beside(&fs, "c", &[0, 1]), (None, slot(0, 1)));
            assert_eq!(Some(slot_of(&fs, "d")), slot(0, 2));
            fs.unmount().expect("unmounts");
        });
        let failure = outcome.first_failure;
        assert!(failure.is_none(), "{failure:?}");
    }

    /// orphan-O5: an orphan as a truncation leaves it that failed half-way.
    #[test]
    fn an_orphan_that_is_left_keeps_the_mark_over_an_unmount() {
        let ram = volume();
        let fs = mounted(&ram);
        slot_of(&fs, "a");
        fs.unmount().expect("unmounts");
        let marked = |ram: &Ram| superblock(ram).ro_compat().has(RoCompat::ORPHAN_PRESENT);
        assert!(marked(&ram));
        mounted(&ram).unmount().expect("unmounts");
        assert!(!marked(&ram));
    }
}
