//! What becomes of an inode that loses a name. If that was its last one and nobody can use the
//! inode any more, the same operation frees it, as there is no moment at which it is an orphan: a
//! journal then has no records of the list of orphans, and none of attributes that nobody reads
//! again. An inode that is in use goes on the list, and is freed by who unpins it last.
//!
//! What decides is fixed under the gates of the inode and of the directory, before anything
//! changes:
//!
//! - L1 what frees the inode is in the `Op` that removes the name. With a journal it is in one
//!   epoch (f2fs-journal-I4), without one in one checkpoint (ops-O2): a cut leaves the name and the
//!   whole file, or neither of them. Behind the first change nothing answers a POSIX error, so
//!   every error is final;
//! - L2 nobody can come to use it. No operation knows its number, and none can look it up while the
//!   gate of the directory is held (grace-G1); it has no pin, and while it is `leaving` it takes
//!   none, because a file handle may still name it;
//! - L3 its `wb` is held from before the first change until its content is gone. Write-back and
//!   cleaning, which know inodes without names and pins, have changed it in no later epoch then,
//!   and find it gone afterwards (f2fs-journal-I4);
//! - L4 the gate of the directory is held until its names have changed, and no longer: the epoch is
//!   picked by then, so what others do in that directory is in no earlier one, and they wait for no
//!   content to be freed;
//! - L5 at most so much content goes as one operation can free, and none that is being written, for
//!   which the caller waits before it has a gate. Where the inode has more than it says, or the
//!   blocks lie so far apart that a journal of pages has no room, the rest is freed by further
//!   operations, and the list of orphans has the inode meanwhile, which is why there must be room
//!   on it in any case.

use super::{Gates, Inode};
use crate::F2fs;
use crate::ops::Op;
use base::cost::f2fs as cost;
use fscore::{FsResult, Onlookers};
use ondisk::f2fs::Advise;

/// What the operation that removes a name does with the inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// The inode stays, or is freed later.
    Kept,
    /// The inode goes with the name.
    Freed,
}

impl F2fs {
    /// Waits for what is being written of an inode that may go with its name (L5). No lock is held.
    pub(super) fn land_before_removal(&self, inode: &Inode) {
        let may_go = {
            let core = inode.core();
            core.pins == 0 && (core.fields.links <= 1 || core.fields.is_dir())
        };
        if may_go && !inode.flights.is_empty() {
            // What failed is given up with the rest, or an fsync is told.
            let _ = self.land(inode);
        }
    }

    /// Decides what becomes of `inode`, which is about to lose its name `name`. The gates of both
    /// inode and directory are held. Where an onlooker may know the inode, this pins it.
    ///
    /// # Errors
    /// ENOSPC if the list of orphans has no room (namei-R2).
    pub(super) fn fate(
        &self,
        inode: &Inode,
        name: &[u8],
        onlookers: Onlookers<'_>,
    ) -> FsResult<Fate> {
        let last = inode.is_dir() || inode.core().fields.links <= 1;
        if last {
            self.orphans.check_room()?;
        }
        if onlookers.may_know(name) {
            self.pin(inode)?;
            onlookers.retire(inode.ino);
            return Ok(Fate::Kept);
        }
        let most = (self.op_max() / crate::map::ROOM_PER_SLOT) as u64;
        let idle = inode.flights.is_empty();
        let mut core = inode.core();
        // L2, L5.
        core.leaving = last && idle && core.pins == 0 && core.fields.blocks <= most;
        Ok(match core.leaving {
            true => Fate::Freed,
            false => Fate::Kept,
        })
    }

    /// Runs `change`, which takes a name of `inode` away, and what follows for the inode, in one
    /// `Op` (L1).
    pub(super) fn take_name_of(
        &self,
        inode: &Inode,
        fate: Fate,
        gates: &mut Gates<'_>,
        change: impl FnOnce(&Op<'_>) -> FsResult<()>,
    ) -> FsResult<()> {
        let done = self.change(|op| match fate {
            Fate::Kept => change(op).and_then(|()| self.drop_name(op, inode)),
            Fate::Freed => {
                // L3.
                let wb = inode.wb.lock();
                change(op)?;
                // L4.
                gates.keep(inode.ino);
                rt::charge(cost::EVICT);
                match self.drop_content_within(op, inode, true, &wb)? {
                    true => self.drop_name(op, inode),
                    false => self.free_emptied(op, inode),
                }
            }
        });
        inode.core().leaving = false;
        done
    }

    /// The inode has lost a name, and stays for the time being.
    fn drop_name(&self, op: &Op<'_>, inode: &Inode) -> FsResult<()> {
        let links = {
            let mut core = inode.core();
            core.touch(false);
            core.changed();
            let f = &mut core.fields;
            // More names than links is damage, but no reason to keep the name.
            f.links = match f.is_dir() {
                true => 0,
                false => f.links.saturating_sub(1),
            };
            if f.links > 0 {
                f.advise = f.advise | Advise::LOST_PINO;
            }
            f.links
        };
        if links == 0 {
            self.make_orphan(op, inode);
        }
        self.put_inode(op, inode)
    }

    /// Frees an inode that has lost a name, if that was its last one and the inode is neither open
    /// nor freed already. No lock is held.
    pub(super) fn evict_unnamed(&self, inode: &Inode) -> FsResult<()> {
        let last = {
            let core = inode.core();
            core.fields.links == 0 && core.pins == 0 && !core.gone
        };
        match last {
            true => self.evict_if_unused(inode),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::capture::hooks_tests::mounted;
    use base::{BLOCK_BYTES, Nanos};
    use fscore::{Creds, Errno, FallocateMode, FileKind, FileSystem, Grace, Taking};
    use rt::{Sim, SimConfig};
    use std::sync::Arc;

    const OPTIONS: &str = "noinline_data";

    fn file(fs: &F2fs, name: &str, blocks: u64) -> Arc<Inode> {
        let (dir, name) = (fs.root(), name.as_bytes());
        let made = fs.create(dir, name, FileKind::File, 0o644, 0, Creds::default());
        let ino = made.expect("made").ino;
        if blocks > 0 {
            let bytes = blocks * BLOCK_BYTES as u64;
            let placed = fs.fallocate(ino, FallocateMode::Allocate, 0, bytes);
            placed.expect("room");
        }
        fs.inode(ino).expect("there")
    }

    fn sim(seed: u64, body: impl FnOnce()) {
        let outcome = Sim::new(SimConfig::random(seed)).run(body);
        if let Some(failure) = outcome.first_failure {
            panic!("seed {seed}: {failure} {}", outcome.replay);
        }
    }

    fn links(fs: &F2fs, inode: &Inode) -> Result<u32, Errno> {
        fs.getattr(inode.ino)
            .map(|attr| attr.nlink)
            .map_err(|e| e.errno())
    }

    /// L2, L5: each reason to keep an inode, and none.
    #[test]
    fn what_nobody_can_use_and_one_operation_can_free_goes_with_its_name() {
        sim(1, || {
            let fs = &mounted(OPTIONS);
            let fate = |inode: &Inode, onlookers| {
                let fate = fs.fate(inode, b"name", onlookers).expect("room");
                assert_eq!(inode.core().leaving, fate == Fate::Freed);
                inode.core().leaving = false;
                fate
            };
            let of = |inode: &Inode| fate(inode, Onlookers::NONE);
            let small = file(fs, "small", 200);
            let dir = fs.mkdir(fs.root(), b"dir", 0o755, Creds::default());
            let dir = fs.inode(dir.expect("made").ino).expect("there");
            for inode in [&file(fs, "empty", 0), &small, &dir] {
                assert_eq!(of(inode), Fate::Freed);
            }
            assert_eq!(of(&file(fs, "large", 300)), Fate::Kept);
            fs.open(small.ino).expect("there");
            assert_eq!(of(&small), Fate::Kept, "it is open");
            fs.release(small.ino).expect("open");
            fs.link(small.ino, fs.root(), b"second").expect("linked");
            assert_eq!(of(&small), Fate::Kept, "it has another name");
            fs.unlink(fs.root(), b"second").expect("there");
            let written = file(fs, "written", 0);
            fs.write(written.ino, 0, &[1; BLOCK_BYTES]).expect("room");
            let sent = fs.write_pages(&written, 0..1, crate::file::Why::Flush);
            sent.expect("sent");
            assert_eq!(of(&written), Fate::Kept, "it is being written");
            fs.land_before_removal(&written);
            assert_eq!(of(&written), Fate::Freed);
            let grace = Grace::default();
            let (remover, other) = (grace.enter(), grace.enter());
            grace.looks_up(other, b"name");
            assert_eq!(fate(&small, Onlookers::beside(&grace, remover)), Fate::Kept);
            assert_eq!(small.core().pins, 1, "for the other operation");
            assert!(grace.leave(remover).is_empty());
            assert_eq!(grace.leave(other)[..], [small.ino]);
            fs.release(small.ino).expect("pinned");
        });
    }

    /// L5: what a journal of pages has no room for, or what is more than the inode says, is freed
    /// by further operations.
    #[test]
    fn what_is_more_than_the_inode_says_is_freed_all_the_same() {
        sim(1, || {
            let fs = &mounted(OPTIONS);
            let before = fs.statfs().expect("open").blocks_free;
            let inode = file(fs, "liar", 5000);
            inode.core().fields.blocks = 2;
            fs.unlink(fs.root(), b"liar").expect("there");
            assert_eq!(links(fs, &inode), Err(Errno::Stale));
            assert!(fs.orphans.all().is_empty());
            let after = fs.statfs().expect("open").blocks_free;
            assert_eq!(before, after);
            fs.check();
        });
    }

    /// L2: a file handle names an inode that is being freed with its name, in many schedules.
    #[test]
    fn a_pin_comes_in_time_or_not_at_all() {
        let (mut pinned, mut refused) = (0, 0);
        for seed in 0..60 {
            sim(seed, || {
                let fs = mounted(OPTIONS);
                let ino = file(&fs, "f", 3).ino;
                let user = fs.clone();
                let user = rt::spawn("user", move || {
                    // An unlink takes some microseconds.
                    rt::sleep(Nanos(150 * seed));
                    if let Err(e) = user.open_handle(ino) {
                        assert_eq!(e.errno(), Errno::Stale);
                        return false;
                    }
                    rt::sleep(Nanos::from_millis(1));
                    let found = user.getattr(ino);
                    found.expect("last_name-L2: it was pinned in time");
                    user.release(ino).expect("pinned");
                    true
                });
                fs.unlink(fs.root(), b"f").expect("there");
                match user.join().expect("no panic") {
                    true => pinned += 1,
                    false => refused += 1,
                }
                assert!(fs.orphans.all().is_empty());
                fs.check();
            });
        }
        assert!(pinned > 0 && refused > 0, "{pinned} {refused}");
    }

    /// L3: while another task has `wb`, nothing has changed yet, so that this task may still log to
    /// a later epoch.
    #[test]
    fn a_name_stays_until_its_inode_can_be_freed() {
        sim(1, || {
            let fs = mounted(OPTIONS);
            let inode = file(&fs, "f", 3);
            let root = fs.inode(fs.root()).expect("there");
            let remover = fs.clone();
            let wb = inode.wb.lock();
            let remover = rt::spawn("remover", move || {
                remover.unlink(remover.root(), b"f").expect("there");
            });
            rt::sleep(Nanos::from_millis(1));
            assert!(fs.dir_find(&root, b"f").expect("read").is_some(), "L3");
            drop(wb);
            remover.join().expect("no panic");
            assert!(fs.dir_find(&root, b"f").expect("read").is_none());
        });
    }

    /// L4: while content is freed others may change the directory.
    #[test]
    fn the_directory_does_not_wait_for_content_to_be_freed() {
        sim(1, || {
            let fs = mounted(OPTIONS);
            let inode = file(&fs, "f", 3);
            let remover = fs.clone();
            let tree = inode.tree.lock();
            let remover = rt::spawn("remover", move || {
                remover.unlink(remover.root(), b"f").expect("there");
            });
            rt::sleep(Nanos::from_millis(1));
            assert_eq!(links(&fs, &inode), Ok(1), "it is not freed yet");
            let maker = fs.clone();
            let maker = rt::spawn("maker", move || drop(file(&maker, "f", 0)));
            maker.join().expect("no panic");
            drop(tree);
            remover.join().expect("no panic");
            assert_eq!(links(&fs, &inode), Err(Errno::Stale));
            fs.check();
        });
    }

    /// vfs-V1: what an operation has looked up is pinned for it, and freed behind it.
    #[test]
    fn what_an_onlooker_knows_is_pinned() {
        sim(1, || {
            let fs = mounted(OPTIONS);
            let grace = Grace::default();
            for (what, name) in [(0, "a"), (1, "b"), (2, "c")] {
                let (walker, remover) = (grace.enter(), grace.enter());
                let root = fs.root();
                let ino = match what {
                    1 => {
                        fs.mkdir(root, b"b", 0o755, Creds::default())
                            .expect("made")
                            .ino
                    }
                    _ => file(&fs, name, 3).ino,
                };
                let name = name.as_bytes();
                let taking = match what {
                    0 => Taking::Unlink(root, name),
                    1 => Taking::Rmdir(root, name),
                    _ => {
                        file(&fs, "source", 1);
                        Taking::Rename((root, b"source"), (root, name), fscore::RenameMode::Replace)
                    }
                };
                grace.looks_up(walker, name);
                let others = Onlookers::beside(&grace, remover);
                let taken = fs.take_name(taking, others).expect("it looks itself");
                taken.expect("there");
                assert!(grace.leave(remover).is_empty());
                assert_eq!(fs.getattr(ino).expect("pinned").nlink, 0);
                assert_eq!(grace.leave(walker)[..], [ino]);
                fs.release(ino).expect("pinned");
                assert_eq!(fs.getattr(ino).expect_err("gone").errno(), Errno::Stale);
            }
        });
    }
}
