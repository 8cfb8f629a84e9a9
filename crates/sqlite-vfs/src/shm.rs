//! The WAL index of one database: regions of shared memory and eight locks (sqlite-S7).

pub(crate) use crate::locks::Busy;
use crate::region::Region;
use std::fmt;
use std::os::fd::OwnedFd;

/// Locks of the WAL index (`SQLITE_SHM_NLOCK`).
const LOCKS: usize = 8;
/// Largest region that is served to the connections of this process, bytes.
const REGION_BYTES_MAX: usize = 1 << 20;
/// Most regions: each indexes 4096 frames, so this is a WAL of 2^28 frames.
const REGIONS_MAX: usize = 1 << 16;
/// Bytes of each region that other processes share: what SQLite asks for. One that is shorter than
/// another process takes it for would end it when it touches what is not there.
pub const SHARED_REGION_BYTES: usize = 32 << 10;
/// Most regions that are shared: a WAL of 2^24 frames. They lie in one file, so that a process that
/// asks for all of them takes one descriptor and one mapping.
pub const SHARED_REGIONS_MAX: usize = 1 << 12;

/// Why there is no region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoRegion {
    /// Beyond the limits above, or longer than the region that is there.
    Limit,
    /// The host gives no memory that several processes can map.
    Memory(rustix::io::Errno),
}

impl fmt::Display for NoRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoRegion::Limit => f.write_str("it would be larger than is served"),
            NoRegion::Memory(why) => write!(
                f,
                "the system gives no memory that processes share ({why}); \
                 `pragma locking_mode=exclusive` needs none"
            ),
        }
    }
}

/// What one connection holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Held {
    shared: u8,
    exclusive: u8,
}

/// The index of one database.
#[derive(Default)]
pub(crate) struct Shm {
    regions: Regions,
    /// Number of shared holders, or -1 for an exclusive one.
    locks: [i32; LOCKS],
    /// Connections that have it mapped.
    users: u32,
}

enum Regions {
    /// For the connections of this process.
    Own(Vec<Region>),
    /// For those of others, too: so many regions that are there, and the memory of all.
    Shared(usize, Option<Region>),
}

impl Default for Regions {
    fn default() -> Regions {
        Regions::Own(Vec::new())
    }
}

impl Regions {
    fn clear(&mut self) {
        match self {
            Regions::Own(regions) => regions.clear(),
            Regions::Shared(there, memory) => (*there, *memory) = (0, None),
        }
    }

    fn region(&mut self, index: usize, bytes: usize, extend: bool) -> Result<*mut u64, NoRegion> {
        match self {
            Regions::Own(regions) => own(regions, index, bytes, extend),
            Regions::Shared(there, memory) => shared(there, memory, index, bytes, extend),
        }
    }
}

fn own(
    regions: &mut Vec<Region>,
    index: usize,
    bytes: usize,
    extend: bool,
) -> Result<*mut u64, NoRegion> {
    if index >= REGIONS_MAX || bytes == 0 || bytes > REGION_BYTES_MAX {
        return Err(NoRegion::Limit);
    }
    if index >= regions.len() && !extend {
        return Ok(std::ptr::null_mut());
    }
    while regions.len() <= index {
        regions.push(Region::new(bytes));
    }
    let region = &regions[index];
    // The first to ask for it decided its size.
    match region.bytes() >= bytes {
        true => Ok(region.start()),
        false => Err(NoRegion::Limit),
    }
}

fn shared(
    there: &mut usize,
    memory: &mut Option<Region>,
    index: usize,
    bytes: usize,
    extend: bool,
) -> Result<*mut u64, NoRegion> {
    if index >= SHARED_REGIONS_MAX || bytes != SHARED_REGION_BYTES {
        return Err(NoRegion::Limit);
    }
    if index >= *there && !extend {
        return Ok(std::ptr::null_mut());
    }
    let memory = match memory {
        Some(memory) => memory,
        None => {
            let made = Region::shared(SHARED_REGIONS_MAX * SHARED_REGION_BYTES);
            memory.insert(made.map_err(NoRegion::Memory)?)
        }
    };
    *there = (*there).max(index + 1);
    let start = memory.start();
    Ok(start.wrapping_byte_add(index * SHARED_REGION_BYTES))
}

impl Shm {
    /// An index without regions; `is_shared`: with other processes, too.
    pub(crate) fn new(is_shared: bool) -> Shm {
        Shm {
            regions: match is_shared {
                true => Regions::Shared(0, None),
                false => Regions::default(),
            },
            ..Shm::default()
        }
    }

    /// One more connection maps the index.
    pub(crate) fn attach(&mut self) -> Held {
        self.users += 1;
        Held::default()
    }
    /// A connection unmaps it; the last one frees it.
    pub(crate) fn detach(&mut self, held: Held) {
        for slot in 0..LOCKS {
            let bit = 1u8 << slot;
            if held.exclusive & bit != 0 {
                self.locks[slot] = 0;
            } else if held.shared & bit != 0 {
                self.locks[slot] -= 1;
            }
        }
        self.users -= 1;
        if self.users == 0 {
            self.regions.clear();
        }
    }
    /// Address of region `index`; null if it does not exist and `extend` is false.
    pub(crate) fn region(
        &mut self,
        index: usize,
        bytes: usize,
        extend: bool,
    ) -> Result<*mut u64, NoRegion> {
        self.regions.region(index, bytes, extend)
    }
    /// The file behind all regions, for another process; `None` if there is none.
    pub(crate) fn memory(&self) -> Option<OwnedFd> {
        match &self.regions {
            Regions::Own(_) => None,
            Regions::Shared(_, memory) => memory.as_ref()?.file(),
        }
    }
    /// Takes locks `slots`, shared (one lock only) or exclusive.
    pub(crate) fn lock(
        &mut self,
        held: &mut Held,
        slots: std::ops::Range<usize>,
        exclusive: bool,
    ) -> Result<(), Busy> {
        let mask = mask(&slots);
        if exclusive {
            if self.locks[slots.clone()].iter().any(|&n| n != 0) {
                return Err(Busy);
            }
            self.locks[slots].fill(-1);
            held.exclusive |= mask;
        } else if held.shared & mask == 0 {
            if self.locks[slots.clone()].iter().any(|&n| n < 0) {
                return Err(Busy);
            }
            self.locks[slots].iter_mut().for_each(|n| *n += 1);
            held.shared |= mask;
        }
        Ok(())
    }
    /// Gives locks `slots` back; those not held are left alone.
    pub(crate) fn unlock(&mut self, held: &mut Held, slots: std::ops::Range<usize>) {
        for slot in slots {
            let bit = 1u8 << slot;
            if held.exclusive & bit != 0 {
                self.locks[slot] = 0;
            } else if held.shared & bit != 0 {
                self.locks[slot] -= 1;
            }
            held.exclusive &= !bit;
            held.shared &= !bit;
        }
    }
}

/// The slots as bits.
fn mask(slots: &std::ops::Range<usize>) -> u8 {
    slots.clone().fold(0, |mask, slot| mask | 1u8 << slot)
}

/// `first` and `count` of xShmLock as a range, if they are in bounds.
pub fn slots(first: i32, count: i32) -> Option<std::ops::Range<usize>> {
    let first = usize::try_from(first).ok()?;
    let count = usize::try_from(count).ok().filter(|n| *n > 0)?;
    let end = first.checked_add(count)?;
    (end <= LOCKS).then_some(first..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_and_exclusive_exclude_each_other() {
        let mut shm = Shm::default();
        let (mut a, mut b) = (shm.attach(), shm.attach());
        shm.lock(&mut a, 3..4, false).unwrap();
        shm.lock(&mut b, 3..4, false).unwrap();
        assert_eq!(shm.lock(&mut a, 0..8, true), Err(Busy));
        shm.lock(&mut a, 0..3, true).unwrap();
        assert_eq!(shm.lock(&mut b, 1..2, false), Err(Busy));
        shm.unlock(&mut a, 0..3);
        shm.lock(&mut b, 1..2, false).unwrap();
        shm.unlock(&mut b, 3..4);
        assert_eq!(shm.lock(&mut b, 3..4, true), Err(Busy), "a shares it still");
        shm.detach(a);
        shm.lock(&mut b, 3..4, true).unwrap();
        shm.detach(b);
        assert_eq!(shm.locks, [0; LOCKS]);
    }

    #[test]
    fn regions_keep_their_address_and_are_fresh_after_the_last_user() {
        let mut shm = Shm::default();
        let (a, b) = (shm.attach(), shm.attach());
        assert_eq!(shm.region(0, 32_768, false), Ok(std::ptr::null_mut()));
        let first = shm.region(0, 32_768, true).unwrap();
        // SAFETY: the region has 4096 words and nobody else uses it.
        unsafe { first.write(7) };
        shm.region(100, 32_768, true).unwrap();
        assert_eq!(shm.region(0, 32_768, false), Ok(first));
        shm.detach(a);
        assert_eq!(shm.region(0, 32_768, false), Ok(first));
        shm.detach(b);
        let c = shm.attach();
        let again = shm.region(0, 32_768, true).unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { again.read() }, 0);
        shm.detach(c);
        assert_eq!(shm.region(0, usize::MAX, true), Err(NoRegion::Limit));
        assert_eq!(shm.region(usize::MAX, 32_768, true), Err(NoRegion::Limit));
    }

    #[test]
    fn slot_ranges_are_checked() {
        assert_eq!(slots(0, 8), Some(0..8));
        for (first, count) in [(-1, 1), (0, 0), (0, 9), (8, 1), (1, i32::MAX)] {
            assert_eq!(slots(first, count), None);
        }
    }

    #[test]
    fn a_region_is_not_handed_out_as_longer_than_it_is() {
        let mut shm = Shm::default();
        assert!(shm.region(0, 8, true).is_ok());
        assert_eq!(shm.region(0, 32_768, false), Err(NoRegion::Limit));
        let mut shm = Shm::new(true);
        for bytes in [8, 32_760, 32_776, 65_536] {
            assert_eq!(shm.region(0, bytes, true), Err(NoRegion::Limit));
        }
        assert!(shm.memory().is_none());
    }

    #[test]
    fn shared_regions_lie_in_one_file() {
        let mut shm = Shm::new(true);
        let held = shm.attach();
        assert_eq!(shm.region(1 << 16, 32_768, true), Err(NoRegion::Limit));
        assert_eq!(
            shm.region(SHARED_REGIONS_MAX, 32_768, true),
            Err(NoRegion::Limit)
        );
        assert_eq!(shm.region(0, 32_768, false), Ok(std::ptr::null_mut()));
        let last = shm.region(SHARED_REGIONS_MAX - 1, 32_768, true).unwrap();
        let first = shm.region(0, 32_768, false).unwrap();
        assert_eq!(
            last as usize - first as usize,
            (SHARED_REGIONS_MAX - 1) * 32_768
        );
        let bytes = SHARED_REGIONS_MAX * SHARED_REGION_BYTES;
        let other = Region::of_another_process(shm.memory().unwrap(), bytes);
        let other = other.unwrap().unwrap();
        // SAFETY: both mappings have that many bytes, and nobody else knows them.
        unsafe {
            last.add(4095).write_volatile(7);
            assert_eq!(other.start().add(bytes / 8 - 1).read_volatile(), 7);
        }
        shm.detach(held);
        assert!(shm.memory().is_none());
    }
}
