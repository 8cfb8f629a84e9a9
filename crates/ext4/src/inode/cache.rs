//! Finds inodes by number, and keeps those in use in memory.

use super::{Core, Inode, Promise};
use crate::Ext4;
use crate::fault;
use base::Ino;
use fscore::{Errno, FsError, FsResult};
use ondisk::ext4 as disk;
use ondisk::ext4::{Incompat, InodeFlags};
use rt::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The maximum of inodes that are kept in memory without being needed.
const IDLE_MAX: usize = 4096;

/// The inodes in memory, and the pins of inodes that are not in memory.
///
/// A pin keeps an inode from being freed, but not in memory, because a walk through a million files
/// pins a million inodes. So when an idle inode leaves memory its pins are parked here, and it gets
/// them back when it is read again (ext4-inode-N4).
pub(crate) struct InodeCache {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    map: BTreeMap<Ino, Arc<Inode>>,
    /// Pins of inodes that are not in `map`; never 0.
    parked: BTreeMap<Ino, u32>,
    /// The number of inodes in `map` at which the cache is next searched for idle ones.
    look_at: usize,
    /// How often inodes have left `map` (ext4-inode-N5).
    departures: u64,
}

/// The count of departures from the cache when an inode was not there.
pub(crate) struct Missing(u64);

/// Where a pinned inode was found.
pub(crate) enum Pinned {
    /// In memory: the caller must remove the pin.
    Here(Arc<Inode>),
    /// Not in memory: a parked pin was removed.
    Taken,
    /// Nowhere: it has no pin.
    No,
}

impl InodeCache {
    pub fn new() -> InodeCache {
        let inner = Inner {
            look_at: IDLE_MAX,
            ..Inner::default()
        };
        InodeCache {
            inner: Mutex::named("inode cache", inner),
        }
    }

    pub fn get(&self, ino: Ino) -> Option<Arc<Inode>> {
        self.find(ino).ok()
    }

    /// The inode, or what [`add`](Self::add) has to know of one that is read from now on.
    fn find(&self, ino: Ino) -> Result<Arc<Inode>, Missing> {
        let inner = self.inner.lock();
        let found = inner.map.get(&ino).cloned();
        found.ok_or(Missing(inner.departures))
    }

    /// Adds an inode that was read while it was missing; false if another task has added it
    /// meanwhile, or if it may have changed since it was read (ext4-inode-N5).
    fn add(&self, inode: &Arc<Inode>, missing: &Missing) -> bool {
        let mut inner = self.inner.lock();
        if inner.departures != missing.0 || inner.map.contains_key(&inode.ino) {
            return false;
        }
        if let Some(pins) = inner.parked.remove(&inode.ino) {
            inode.core().pins += pins;
        }
        inner.map.insert(inode.ino, inode.clone());
        true
    }

    /// Removes a parked pin if the inode is not in memory; else answers the inode, because its last
    /// pin may free it.
    pub fn unpin(&self, ino: Ino) -> Pinned {
        let mut inner = self.inner.lock();
        if let Some(inode) = inner.map.get(&ino) {
            return Pinned::Here(inode.clone());
        }
        let Some(pins) = inner.parked.get_mut(&ino) else {
            return Pinned::No;
        };
        *pins -= 1;
        if *pins == 0 {
            inner.parked.remove(&ino);
        }
        Pinned::Taken
    }

    /// Drops a freed inode, unless its number has a new owner already.
    pub fn remove(&self, inode: &Inode) {
        let mut inner = self.inner.lock();
        let known = inner.map.get(&inode.ino);
        if known.is_some_and(|known| std::ptr::eq(&**known, inode)) {
            inner.map.remove(&inode.ino);
            inner.departures += 1;
        }
    }

    /// Puts a new inode in the place of an older one with the same number.
    pub fn replace(&self, inode: Arc<Inode>) {
        let mut inner = self.inner.lock();
        debug_assert!(
            !inner.parked.contains_key(&inode.ino),
            "ext4-inode-N4: a pinned inode keeps its number"
        );
        inner.map.insert(inode.ino, inode);
    }

    pub fn all(&self) -> Vec<Arc<Inode>> {
        self.inner.lock().map.values().cloned().collect()
    }

    /// Inodes in memory, and inodes whose pins are parked.
    #[cfg(test)]
    pub fn counts(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        (inner.map.len(), inner.parked.len())
    }
}

impl Ext4 {
    /// The inode with this number.
    ///
    /// # Errors
    /// ESTALE if it is not in use; damage; I/O errors.
    pub(crate) fn inode(&self, ino: Ino) -> FsResult<Arc<Inode>> {
        loop {
            let missing = match self.inodes.find(ino) {
                Ok(inode) if inode.core().gone => return Err(Errno::Stale.into()),
                Ok(inode) => return Ok(inode),
                Err(missing) => missing,
            };
            let disk = self.read_inode(ino)?;
            self.check_inode(ino, &disk)?;
            // As in Linux: nothing is known of the inode's past, so the running transaction may
            // hold a change of it.
            let mut core = Core::new(disk, self.newest_tid());
            // Nor is anything known of its data: while the inode was in memory earlier, data may
            // have been written that no flush has covered (hazards-H19).
            core.data_mark = self.queue.mark();
            let inode = Arc::new(Inode::new(ino, core));
            if self.inodes.add(&inode, &missing) {
                self.prune_inodes();
                return Ok(inode);
            }
        }
    }

    /// True for inodes that belong to the file system itself, which no name leads to: the reserved
    /// ones except the root, and the orphan file.
    pub(crate) fn is_own_inode(&self, ino: Ino) -> bool {
        let reserved = ino < self.geo.first_ino() && ino != fscore::ROOT_INO_HINT;
        reserved || self.orphan_file_ino() == Some(ino)
    }

    /// Reads an inode from its table and checks its checksum.
    pub(crate) fn read_inode(&self, ino: Ino) -> FsResult<disk::Inode> {
        let (block, offset) = self.inode_home(ino)?;
        let bytes = self.read_meta(block)?;
        let at_inode = |e: ondisk::Corrupt| fault::corrupt(e.at_inode(ino).at_block(block));
        let disk =
            disk::Inode::parse(&bytes[offset..], self.geo.inode_bytes()).map_err(at_inode)?;
        if disk.is_blank() {
            return Err(Errno::Stale.into());
        }
        if let Some(seed) = self.seed {
            disk.verify_checksum(seed, ino).map_err(at_inode)?;
        }
        Ok(disk)
    }

    /// Refuses an inode that is not in use, or that this implementation cannot interpret.
    pub(crate) fn check_inode(&self, ino: Ino, disk: &disk::Inode) -> FsResult<()> {
        if disk.links() == 0 {
            return Err(Errno::Stale.into());
        }
        let bad = |what: String| Err(FsError::corrupt(format!("inode {ino}: {what}")));
        if fscore::FileKind::from_mode(disk.mode()).is_none() {
            return bad(format!("mode {:#o} has no file type", disk.mode()));
        }
        let inline = self.geo.incompat().has(Incompat::INLINE_DATA);
        let unknown = [
            (InodeFlags::ENCRYPT, false),
            (InodeFlags::VERITY, true),
            (InodeFlags::EA_INODE, true),
        ];
        let refused = |&(flag, readable): &(InodeFlags, bool)| {
            disk.flags().has(flag) && !(readable && self.options.read_only)
        };
        if disk.flags().has(InodeFlags::INLINE_DATA) && !inline {
            return bad("content in the inode, without feature inline_data".into());
        }
        if disk.flags().has(InodeFlags::CASEFOLD) && self.folding.is_none() {
            return bad("names without regard to case, without feature casefold".into());
        }
        if let Some((flag, _)) = unknown.into_iter().find(refused) {
            return Err(FsError::incompatible(format!(
                "inode {ino} has flag {flag}"
            )));
        }
        if disk.size() > crate::extent::size_max(self.block_size) {
            return bad(format!("size {} is beyond what can be mapped", disk.size()));
        }
        if disk.is_dir()
            && !disk.flags().has(InodeFlags::INLINE_DATA)
            && (disk.size() == 0 || !disk.size().is_multiple_of(self.block()))
        {
            return bad(format!("a directory of {} bytes", disk.size()));
        }
        Ok(())
    }

    /// Drops idle inodes when there are many (ext4-inode-N3, ext4-inode-N4). Call it without locks.
    pub(crate) fn prune_inodes(&self) {
        let mut inner = self.inodes.inner.lock();
        if inner.map.len() <= inner.look_at {
            return;
        }
        let Inner {
            map,
            parked,
            look_at,
            departures,
        } = &mut *inner;
        let before = map.len();
        map.retain(|&ino, inode| match self.idle_pins(ino, inode) {
            Some(pins) => {
                if pins > 0 {
                    parked.insert(ino, pins);
                }
                // The window is closed while the list is locked, so that a task that closes all
                // windows does not miss it.
                self.close_window_of(inode);
                false
            }
            None => true,
        });
        *departures += (before - map.len()) as u64;
        // Where most inodes are busy, a search of all of them pays off only when there are many
        // more.
        *look_at = IDLE_MAX.max(2 * map.len());
    }

    /// The pins of an inode of which memory knows nothing beyond what the device or the journal
    /// has; `None` if the inode has to stay in memory.
    fn idle_pins(&self, ino: Ino, inode: &Arc<Inode>) -> Option<u32> {
        let busy = Arc::strong_count(inode) > 1 || self.pages.is_dirty(ino);
        let flying = inode.flights.try_lock().is_none_or(|f| !f.is_empty());
        if busy || flying {
            return None;
        }
        let core = inode.core();
        let used = core.orphan.is_some() || core.gone || core.disk.links() == 0;
        // A failed write that no fsync has reported yet must not be forgotten; nor may it be
        // forgotten, once reported, while a task may have the file open.
        let failed = core.write_errors.unreported().is_some()
            || (core.pins > 0 && core.write_errors.count() > 0);
        let promised = core.promise != Promise::default();
        // Without a journal, an fsync of an open file has to find the directory entry of a new
        // file.
        let nameless = core.pins > 0 && core.born_in.is_some() && !self.has_log();
        (!(used || failed || promised || nameless)).then_some(core.pins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MountOptions;
    use crate::mkfs::{self, DeviceContent, MkfsOptions};
    use block::Queue;
    use blockdev::Ram;
    use fscore::{Creds, FileKind, FileSystem, SetAttr};
    use rt::{Sim, SimConfig};

    const FILES: usize = 3 * IDLE_MAX;
    const SMALL_BYTES: u64 = 16 << 20;

    fn name(n: usize) -> String {
        format!("file {n}")
    }

    fn mounted() -> Arc<Ext4> {
        const BYTES: u64 = 128 << 20;
        let device = Arc::new(Ram::new(BYTES));
        let time = rt::WallTime { secs: 1, nanos: 0 };
        let options = MkfsOptions::new(BYTES, [3; 16], [5; 16], time);
        let plan = mkfs::plan(&options).expect("a volume");
        plan.write(&Queue::new(device.clone()), DeviceContent::Zeros)
            .expect("written");
        Ext4::mount(Queue::new(device), MountOptions::default()).expect("mounts")
    }

    /// ext4-inode-N4: pins outlive the stay in memory.
    #[test]
    fn pinned_inodes_leave_and_keep_their_numbers() {
        let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
            let fs = mounted();
            let root = fs.root();
            let make = |n: usize| {
                let made = fs.create(
                    root,
                    name(n).as_bytes(),
                    FileKind::File,
                    0o644,
                    0,
                    Creds::default(),
                );
                made.expect("room").ino
            };
            let all: Vec<Ino> = (0..FILES).map(make).collect();
            for &ino in &all {
                fs.open(ino).expect("pins");
                fs.open(ino).expect("pins again");
            }
            let (here, parked) = fs.inodes.counts();
            assert!(here <= IDLE_MAX + 1 && parked >= FILES - IDLE_MAX - 1);
            // One pin of each inode is removed, whether it is in memory or not; the names are
            // removed.
            for (n, &ino) in all.iter().enumerate() {
                fs.release(ino).expect("a pin");
                fs.unlink(root, name(n).as_bytes()).expect("there");
            }
            assert_eq!(fs.inodes.counts().1, 0, "orphans are in memory");
            let next = make(FILES);
            assert!(!all.contains(&next), "the numbers are taken");
            for &ino in &all {
                assert_eq!(fs.getattr(ino).expect("pinned").nlink, 0);
                fs.release(ino).expect("the last pin");
                assert_eq!(fs.getattr(ino).expect_err("freed").errno(), Errno::Stale);
                assert_eq!(fs.release(ino).expect_err("no pin").errno(), Errno::BadF);
            }
            assert!(all.contains(&make(FILES + 1)), "free again");
            fs.check();
            fs.unmount().expect("unmounts");
        });
        assert!(
            outcome.first_failure.is_none(),
            "{:?}",
            outcome.first_failure
        );
    }

    /// While a task reads an inode, `change` runs in another one, in as many orders as there are
    /// seeds. Hands `check` the file system and the inode afterwards.
    fn beside_a_reader(change: fn(&Ext4, Ino), check: fn(&Ext4, Ino)) {
        for seed in 0..200 {
            let outcome = Sim::new(SimConfig::random(seed)).run(|| {
                let device = Arc::new(Ram::new(SMALL_BYTES));
                let time = rt::WallTime { secs: 1, nanos: 0 };
                let options = MkfsOptions::new(SMALL_BYTES, [3; 16], [5; 16], time);
                let plan = mkfs::plan(&options).expect("a volume");
                plan.write(&Queue::new(device.clone()), DeviceContent::Zeros)
                    .expect("written");
                let mount = || Ext4::mount(Queue::new(device.clone()), MountOptions::default());
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
            assert!(failure.is_none(), "ext4-inode-N5, seed {seed}: {failure:?}");
        }
    }

    /// ext4-inode-N5: the inode is in memory before and after the change, but for a task that began
    /// to read it earlier.
    #[test]
    fn an_inode_that_changed_while_it_was_read_is_read_again() {
        let change = |fs: &Ext4, ino| {
            let set = SetAttr {
                perm: Some(0o600),
                ..SetAttr::default()
            };
            fs.setattr(ino, &set).expect("there");
            fs.inodes.inner.lock().look_at = 0;
            fs.prune_inodes();
        };
        beside_a_reader(change, |fs, ino| {
            assert_eq!(fs.getattr(ino).expect("there").perm, 0o600);
        });
    }

    #[test]
    fn an_inode_that_was_freed_while_it_was_read_is_gone() {
        let change = |fs: &Ext4, _| fs.unlink(fs.root(), b"f").expect("there");
        beside_a_reader(change, |fs, ino| {
            assert_eq!(fs.getattr(ino).expect_err("freed").errno(), Errno::Stale);
        });
    }
}
