//! The list of orphans: the superblock names the newest, and each orphan names the next older one
//! in its deletion time.

use super::Place;
use crate::Ext4;
use crate::inode::Inode;
use crate::tx::Tx;
use base::Ino;
use fscore::{FsError, FsResult};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Names the list in error messages.
const BY: &str = "list of orphans";

impl Ext4 {
    /// Puts an inode on the list.
    pub(super) fn list_add(&self, tx: &mut Tx<'_>, inode: &Inode) -> FsResult<()> {
        {
            let mut list = self.orphans.list.lock();
            let next = list.last().map_or(0, |ino| ino.0);
            let mut core = inode.core();
            core.disk.set_deletion_time(next);
            core.orphan = Some(Place::List);
            list.push(inode.ino);
        }
        self.put_inode(tx, inode)?;
        self.put_newest(tx)
    }

    /// Takes an inode off the list.
    pub(super) fn list_del(&self, tx: &mut Tx<'_>, inode: &Inode) -> FsResult<()> {
        let newer = {
            let mut list = self.orphans.list.lock();
            let at = list.iter().position(|&ino| ino == inode.ino);
            let at = at.expect("orphan-O3: an orphan is on the list");
            let older = at.checked_sub(1).map_or(Ino(0), |i| list[i]);
            let newer = list.get(at + 1).map(|&newer| {
                let newer = self.inodes.get(newer);
                newer.expect("ext4-inode-N3: orphans stay in memory")
            });
            if let Some(newer) = &newer {
                newer.core().disk.set_deletion_time(older.0);
            }
            list.remove(at);
            let mut core = inode.core();
            core.orphan = None;
            core.disk.set_deletion_time(0);
            newer
        };
        match newer {
            Some(newer) => self.put_inode(tx, &newer)?,
            None => self.put_newest(tx)?,
        }
        self.put_inode(tx, inode)
    }

    /// Writes which orphan is the newest: now, not when the list was changed (orphan-O3).
    fn put_newest(&self, tx: &mut Tx<'_>) -> FsResult<()> {
        self.update_superblock(tx, |sb| {
            let newest = self.orphans.list.lock().last().copied();
            sb.set_last_orphan(newest.unwrap_or(Ino(0)));
        })
    }

    /// The chain on the device, newest first, all of it in the cache of inodes.
    pub(super) fn read_chain(&self) -> FsResult<Vec<Arc<Inode>>> {
        let mut chain: Vec<Arc<Inode>> = Vec::new();
        let mut seen = BTreeSet::new();
        let mut next = self.sb.lock().last_orphan();
        while next.0 != 0 {
            if !seen.insert(next) {
                return Err(FsError::corrupt(format!(
                    "{BY}: inode {next} is on it twice"
                )));
            }
            let inode = self.load_orphan(next, Place::List, BY)?;
            next = Ino(inode.core().disk.deletion_time());
            chain.push(inode);
        }
        Ok(chain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MountOptions;
    use crate::mkfs::{self, DeviceContent, MkfsOptions};
    use block::Queue;
    use blockdev::Ram;
    use fscore::{Creds, FileKind, FileSystem};
    use rt::{Policy, Sim, SimConfig};

    /// The chain as the journal has it, newest first.
    fn chain(fs: &Ext4) -> Vec<Ino> {
        let mut chain = Vec::new();
        let mut next = fs.sb.lock().last_orphan();
        while next.0 != 0 {
            chain.push(next);
            let inode = fs.read_inode(next).expect("an orphan");
            next = Ino(inode.deletion_time());
        }
        chain
    }

    /// orphan-O3: tasks make and end orphans at the same time, in as many orders as there are
    /// seeds.
    #[test]
    fn the_chain_is_the_list_when_all_handles_have_finished() {
        const BYTES: u64 = 16 << 20;
        const STALLS: Policy = Policy::Stalls {
            one_in: 16,
            below: 1_000_000,
        };
        for seed in 0..300 {
            let mut config = SimConfig::seeded(seed);
            config.policy = STALLS;
            let outcome = Sim::new(config).run(|| {
                let device = Arc::new(Ram::new(BYTES));
                let time = rt::WallTime { secs: 1, nanos: 0 };
                let options = MkfsOptions::new(BYTES, [3; 16], [5; 16], time);
                let plan = mkfs::plan(&options).expect("a volume");
                plan.write(&Queue::new(device.clone()), DeviceContent::Zeros)
                    .expect("written");
                let fs = Ext4::mount(Queue::new(device), MountOptions::default()).expect("mounts");
                let (root, creds) = (fs.root(), Creds::default());
                let make = |name: &[u8]| {
                    let made = fs.create(root, name, FileKind::File, 0o644, 0, creds);
                    let ino = made.expect("room").ino;
                    fs.open(ino).expect("pins");
                    ino
                };
                let [a, b, c, d] = [b"a", b"b", b"c", b"d"].map(|name| make(name));
                for name in [b"a", b"b"] {
                    fs.unlink(root, name).expect("there");
                }
                let of_others = [c, d].map(|ino| {
                    let fs = fs.clone();
                    rt::spawn("adds", move || {
                        let inode = fs.inode(ino).expect("there");
                        let done = fs.transact(4, |tx| fs.list_add(tx, &inode));
                        done.expect("no failure");
                    })
                });
                let ends = {
                    let fs = fs.clone();
                    rt::spawn("ends", move || {
                        let inode = fs.inode(b).expect("there");
                        let done = fs.transact(4, |tx| fs.list_del(tx, &inode));
                        done.expect("no failure");
                    })
                };
                of_others
                    .into_iter()
                    .chain([ends])
                    .for_each(|task| task.join().expect("no panic"));
                let mut list = fs.orphans.list.lock().clone();
                list.reverse();
                assert_eq!(list.len(), 3, "{a} and the two");
                assert_eq!(chain(&fs), list, "orphan-O3, seed {seed}");
                for ino in [c, d] {
                    let inode = fs.inode(ino).expect("there");
                    let done = fs.transact(4, |tx| fs.list_del(tx, &inode));
                    done.expect("no failure");
                }
                assert_eq!(chain(&fs), [a], "orphan-O3, seed {seed}");
                fs.unmount().expect("unmounts");
            });
            let failure = outcome.first_failure;
            assert!(failure.is_none(), "orphan-O3, seed {seed}: {failure:?}");
        }
    }
}
