//! Finds inodes by number, and keeps those in use in memory.

use super::{Core, Inode, Promise};
use crate::Ext4;
use crate::fault;
use base::Ino;
use fscore::{Errno, FsError, FsResult};
use ondisk::ext4 as disk;
use ondisk::ext4::{Incompat, InodeFlags};
use rt::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The maximum of inodes that are kept in memory without being needed.
const IDLE_MAX: usize = 4096;
/// The binary logarithm of the number of parts of the cache.
const PARTS_LOG: u32 = 6;

/// The inodes in memory, and the pins of inodes that are not in memory.
///
/// A pin keeps an inode from being freed, but not in memory, because a walk through a million files
/// pins a million inodes. So when an idle inode leaves memory its pins are parked here, and it gets
/// them back when it is read again (ext4-inode-N4).
///
/// Every operation comes here, so one lock would be waited for by all of them whenever the thread
/// that holds it loses its processor. So the cache has parts, each with a lock of its own
/// (ext4-inode-N6), and a look shares that lock with other looks.
pub(crate) struct InodeCache {
    parts: Box<[RwLock<Part>]>,
    /// Inodes in the maps of all parts.
    count: AtomicUsize,
    /// The number of inodes at which the cache is next searched for idle ones; [`SEARCHING`] while
    /// a task does so.
    look_at: AtomicUsize,
    #[cfg(test)]
    searches: AtomicUsize,
}

/// More than there can be inodes, so that no second task begins a search.
const SEARCHING: usize = usize::MAX;

/// The inodes whose numbers lead to this part.
#[derive(Default)]
struct Part {
    map: BTreeMap<Ino, Arc<Inode>>,
    /// Pins of inodes that are not in `map`; never 0.
    parked: BTreeMap<Ino, u32>,
    /// How often inodes have left `map` (ext4-inode-N5).
    departures: u64,
}

/// The count of departures from its part of the cache when an inode was not there.
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
        let part = || RwLock::named("inode cache", Part::default());
        InodeCache {
            parts: std::iter::repeat_with(part).take(1 << PARTS_LOG).collect(),
            count: AtomicUsize::new(0),
            look_at: AtomicUsize::new(IDLE_MAX),
            #[cfg(test)]
            searches: AtomicUsize::new(0),
        }
    }

    /// The part of an inode. Neighbours come into different parts, and so do inodes whose numbers
    /// are a multiple of a power of two apart, as the first ones of groups are.
    fn part(&self, ino: Ino) -> &RwLock<Part> {
        /// 2^32 divided by the golden ratio (Knuth, "The Art of Computer Programming", vol. 3,
        /// section 6.4, multiplicative hashing).
        const GOLDEN: u32 = 0x9E37_79B1;
        let mixed = ino.0.wrapping_mul(GOLDEN) >> (u32::BITS - PARTS_LOG);
        &self.parts[mixed as usize]
    }

    pub fn get(&self, ino: Ino) -> Option<Arc<Inode>> {
        self.find(ino).ok()
    }

    /// The inode, or what [`add`](Self::add) has to know of one that is read from now on.
    fn find(&self, ino: Ino) -> Result<Arc<Inode>, Missing> {
        let part = self.part(ino).read();
        let found = part.map.get(&ino).cloned();
        found.ok_or(Missing(part.departures))
    }

    /// Adds an inode that was read while it was missing; false if another task has added it
    /// meanwhile, or if it may have changed since it was read (ext4-inode-N5).
    fn add(&self, inode: &Arc<Inode>, missing: &Missing) -> bool {
        let mut part = self.part(inode.ino).write();
        if part.departures != missing.0 || part.map.contains_key(&inode.ino) {
            return false;
        }
        if let Some(pins) = part.parked.remove(&inode.ino) {
            inode.core().pins += pins;
        }
        part.map.insert(inode.ino, inode.clone());
        self.count.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Removes a parked pin if the inode is not in memory; else answers the inode, because its last
    /// pin may free it.
    pub fn unpin(&self, ino: Ino) -> Pinned {
        if let Some(inode) = self.get(ino) {
            return Pinned::Here(inode);
        }
        let mut part = self.part(ino).write();
        // It may have been read meanwhile.
        if let Some(inode) = part.map.get(&ino) {
            return Pinned::Here(inode.clone());
        }
        let Some(pins) = part.parked.get_mut(&ino) else {
            return Pinned::No;
        };
        *pins -= 1;
        if *pins == 0 {
            part.parked.remove(&ino);
        }
        Pinned::Taken
    }

    /// Drops a freed inode, unless its number has a new owner already.
    pub fn remove(&self, inode: &Inode) {
        let mut part = self.part(inode.ino).write();
        let known = part.map.get(&inode.ino);
        if known.is_some_and(|known| std::ptr::eq(&**known, inode)) {
            part.map.remove(&inode.ino);
            part.departures += 1;
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Puts a new inode in the place of an older one with the same number.
    pub fn replace(&self, inode: Arc<Inode>) {
        let mut part = self.part(inode.ino).write();
        debug_assert!(
            !part.parked.contains_key(&inode.ino),
            "ext4-inode-N4: a pinned inode keeps its number"
        );
        if part.map.insert(inode.ino, inode).is_none() {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All inodes in memory, by ascending number: each that was there when this began and stays,
    /// and of others some (ext4-inode-N6).
    pub fn all(&self) -> Vec<Arc<Inode>> {
        let mut all = Vec::with_capacity(self.count.load(Ordering::Relaxed));
        for part in &self.parts {
            all.extend(part.read().map.values().cloned());
        }
        all.sort_unstable_by_key(|inode| inode.ino);
        all
    }

    /// True if the caller has to search the cache for idle inodes; no other task does until
    /// [`searched`](Self::searched) is said.
    fn begins_search(&self) -> bool {
        let at = self.look_at.load(Ordering::Relaxed);
        let full = self.count.load(Ordering::Relaxed) > at;
        let order = (Ordering::Relaxed, Ordering::Relaxed);
        full && (self.look_at)
            .compare_exchange(at, SEARCHING, order.0, order.1)
            .is_ok()
    }

    fn searched(&self) {
        // Where most inodes are busy, a search of all of them pays off only when there are many
        // more.
        let left = self.count.load(Ordering::Relaxed);
        self.look_at
            .store(IDLE_MAX.max(2 * left), Ordering::Relaxed);
        #[cfg(test)]
        self.searches.fetch_add(1, Ordering::Relaxed);
    }

    /// Inodes in memory, and inodes whose pins are parked.
    #[cfg(test)]
    pub fn counts(&self) -> (usize, usize) {
        let parts = self.parts.iter().map(|part| {
            let part = part.read();
            (part.map.len(), part.parked.len())
        });
        let counts = parts.fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        assert_eq!(counts.0, self.count.load(Ordering::Relaxed));
        counts
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
        if !self.inodes.begins_search() {
            return;
        }
        for part in &self.inodes.parts {
            self.prune_part(&mut part.write());
        }
        self.inodes.searched();
    }

    fn prune_part(&self, part: &mut Part) {
        let Part {
            map,
            parked,
            departures,
        } = part;
        let before = map.len();
        map.retain(|&ino, inode| match self.idle_pins(ino, inode) {
            Some(pins) => {
                if pins > 0 {
                    parked.insert(ino, pins);
                }
                // The window is closed while the part is locked, so that a task that closes all
                // windows does not miss it.
                self.close_window_of(inode);
                false
            }
            None => true,
        });
        let gone = before - map.len();
        *departures += gone as u64;
        self.inodes.count.fetch_sub(gone, Ordering::Relaxed);
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
    use rt::{Policy, Sim, SimConfig};

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
            let mut config = SimConfig::random(seed);
            if seed % 2 == 1 {
                // So that a change of many steps may fall between two steps of the reader.
                config.policy = Policy::Stalls {
                    one_in: 8,
                    below: 20_000_000,
                };
            }
            let outcome = Sim::new(config).run(|| {
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
            fs.inodes.look_at.store(0, Ordering::Relaxed);
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

    /// ext4-inode-N5: who began to read an inode that was not in memory must not add it, once it
    /// has come and gone meanwhile, freed or idle.
    #[test]
    fn an_inode_that_came_and_went_while_it_was_read_is_not_added() {
        let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
            let fs = mounted();
            let made = fs.create(fs.root(), b"f", FileKind::File, 0o644, 0, Creds::default());
            let ino = made.expect("room").ino;
            fs.sync().expect("synced");
            let cache = &fs.inodes;
            let leave = || {
                cache.look_at.store(0, Ordering::Relaxed);
                fs.prune_inodes();
                cache.find(ino).err().expect("idle inodes leave")
            };
            let come = || fs.inode(ino).expect("there");
            let before = leave();
            let copy = Core::new(fs.read_inode(ino).expect("read"), fs.newest_tid());
            let copy = Arc::new(Inode::new(ino, copy));
            drop(come());
            let after = leave();
            assert!(!cache.add(&copy, &before), "it was idle: ext4-inode-N5");
            cache.remove(&come());
            assert!(!cache.add(&copy, &after), "it was freed: ext4-inode-N5");
            let now = cache.find(ino).err().expect("it has left");
            assert!(cache.add(&copy, &now), "nothing happened meanwhile");
            drop(copy);
            fs.unmount().expect("unmounts");
        });
        assert!(outcome.first_failure.is_none());
    }

    /// ext4-inode-N6: whoever waits for one part leaves the others free, and a look waits for no
    /// other look.
    #[test]
    fn parts_have_locks_of_their_own() {
        let cache = InodeCache::new();
        let (here, there) = (cache.part(Ino(12)), cache.part(Ino(13)));
        let held = here.write();
        assert!(here.try_read().is_none(), "ext4-inode-N6");
        assert!(there.try_write().is_some(), "ext4-inode-N6");
        drop(held);
        let _look = here.read();
        assert!(cache.get(Ino(12)).is_none());
    }

    #[test]
    fn inodes_spread_over_the_parts() {
        const INODES: u32 = 4 << PARTS_LOG;
        let cache = InodeCache::new();
        for distance in (0..20).map(|log| 1_u32 << log) {
            let mut shares = BTreeMap::<_, usize>::new();
            for n in 0..INODES {
                let part = std::ptr::from_ref(cache.part(Ino(n * distance + 1)));
                *shares.entry(part.addr()).or_default() += 1;
            }
            let largest = shares.values().max().copied();
            assert!(
                2 * shares.len() >= 1 << PARTS_LOG && largest <= Some(8),
                "inodes {distance} apart: {shares:?}"
            );
        }
    }

    /// Runs `change` beside `other` in as many orders as there are seeds, on a volume with a file
    /// that is open and whose pin is parked, and hands `check` the file system and the file.
    fn beside_one_another(
        change: fn(&Ext4, Ino),
        other: fn(&Ext4, Ino),
        check: fn(&Ext4, Ino, u64),
    ) {
        for seed in 0..200 {
            let outcome = Sim::new(SimConfig::random(seed)).run(|| {
                let fs = mounted();
                let (root, creds) = (fs.root(), Creds::default());
                let made = fs.create(root, b"f", FileKind::File, 0o644, 0, creds);
                let ino = made.expect("room").ino;
                fs.open(ino).expect("pins");
                fs.inodes.look_at.store(0, Ordering::Relaxed);
                fs.prune_inodes();
                assert_eq!(fs.inodes.counts().1, 1, "parked");
                let beside = {
                    let fs = fs.clone();
                    rt::spawn("beside", move || other(&fs, ino))
                };
                change(&fs, ino);
                beside.join().expect("no panic");
                check(&fs, ino, seed);
                fs.unmount().expect("unmounts");
            });
            let failure = outcome.first_failure;
            assert!(failure.is_none(), "seed {seed}: {failure:?}");
        }
    }

    /// ext4-inode-N4: between the two looks of [`InodeCache::unpin`] the inode gets its pins back.
    #[test]
    fn a_pin_is_found_while_its_inode_is_read() {
        let release = |fs: &Ext4, ino| fs.release(ino).expect("a pin");
        let read = |fs: &Ext4, ino| {
            fs.getattr(ino).expect("there");
        };
        beside_one_another(release, read, |fs, ino, seed| {
            fs.unlink(fs.root(), b"f").expect("there");
            let gone = fs.getattr(ino).expect_err("freed").errno();
            assert_eq!(gone, Errno::Stale, "ext4-inode-N4, seed {seed}");
        });
    }

    #[test]
    fn one_task_searches_at_a_time() {
        let search = |fs: &Ext4, ino| {
            // In use, so that there is something to search whoever comes first.
            let _used = fs.inode(ino).expect("there");
            fs.inodes.look_at.store(0, Ordering::Relaxed);
            fs.prune_inodes();
        };
        beside_one_another(
            search,
            |fs, _| fs.prune_inodes(),
            |fs, _, seed| {
                let searches = fs.inodes.searches.load(Ordering::Relaxed);
                assert_eq!(searches, 2, "one before, one of two: seed {seed}");
            },
        );
    }

    #[test]
    fn all_inodes_are_listed_by_number() {
        let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
            let fs = mounted();
            for n in 0..300 {
                let (root, name) = (fs.root(), name(n));
                let made = fs.create(
                    root,
                    name.as_bytes(),
                    FileKind::File,
                    0o644,
                    0,
                    Creds::default(),
                );
                made.expect("room");
            }
            let all: Vec<Ino> = fs.inodes.all().iter().map(|inode| inode.ino).collect();
            assert!(all.len() > 300 && all.is_sorted(), "{all:?}");
            fs.unmount().expect("unmounts");
        });
        assert!(outcome.first_failure.is_none());
    }
}
