//! Memory of a WAL index: zeroed words whose address does not change. SQLite's connections read
//! and write it concurrently, so no reference into it is ever made.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::{AsFd, OwnedFd};

/// Where the words lie.
enum Memory {
    /// On the heap of the process.
    Own,
    /// In a file without a name, which other processes map too.
    Shared(OwnedFd),
    /// In such a file of another process; the mapping needs no descriptor.
    Mapped,
}

/// A region, or all regions of an index that is shared with other processes.
pub struct Region {
    start: *mut u64,
    words: usize,
    memory: Memory,
}

// SAFETY: a region is plain memory that is reached through the raw pointer only. SQLite orders
// accesses to it by its own locks and by barriers (xShmBarrier), in all its connections.
unsafe impl Send for Region {}

impl Region {
    /// A region for the connections of this process.
    pub(crate) fn new(bytes: usize) -> Region {
        let words = bytes.div_ceil(size_of::<u64>());
        let memory = vec![0u64; words].into_boxed_slice();
        Region {
            start: Box::into_raw(memory).cast(),
            words,
            memory: Memory::Own,
        }
    }

    /// Memory for the connections of several processes, which takes room as it is touched. Its
    /// size is sealed: a process that cut it would end the others, which touch memory that is gone.
    pub(crate) fn shared(bytes: usize) -> rustix::io::Result<Region> {
        let words = bytes.div_ceil(size_of::<u64>());
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = memfd_create(c"varve-wal-index", flags)?;
        ftruncate(&memory, (words * size_of::<u64>()) as u64)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&memory, seals)?;
        let start = map(&memory, words * size_of::<u64>())?;
        Ok(Region {
            start,
            words,
            memory: Memory::Shared(memory),
        })
    }

    /// A region that another process made; `None` if it is shorter than `bytes`.
    ///
    /// # Errors
    /// Those of fstat and mmap.
    pub fn of_another_process(memory: OwnedFd, bytes: usize) -> rustix::io::Result<Option<Region>> {
        let words = bytes.div_ceil(size_of::<u64>());
        let there = rustix::fs::fstat(&memory)?.st_size;
        if u64::try_from(there).unwrap_or(0) < (words * size_of::<u64>()) as u64 {
            return Ok(None);
        }
        let start = map(&memory, words * size_of::<u64>())?;
        Ok(Some(Region {
            start,
            words,
            memory: Memory::Mapped,
        }))
    }

    /// Its size, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.words * size_of::<u64>()
    }

    /// The address of its first word.
    pub fn start(&self) -> *mut u64 {
        self.start
    }

    /// The file behind a shared one; `None`: it is not shared, or descriptors have run out.
    pub(crate) fn file(&self) -> Option<OwnedFd> {
        match &self.memory {
            Memory::Own | Memory::Mapped => None,
            Memory::Shared(memory) => memory.try_clone().ok(),
        }
    }
}

fn map(memory: &impl AsFd, bytes: usize) -> rustix::io::Result<*mut u64> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses an address at which nothing lies.
    let start = unsafe {
        mmap(
            std::ptr::null_mut(),
            bytes,
            access,
            MapFlags::SHARED,
            memory,
            0,
        )
    };
    Ok(start?.cast())
}

impl Drop for Region {
    fn drop(&mut self) {
        // Regions are dropped when no connection has the index mapped (Shm::detach), so SQLite
        // holds no pointer any more.
        match self.memory {
            Memory::Own => {
                let memory = std::ptr::slice_from_raw_parts_mut(self.start, self.words);
                // SAFETY: `start` and `words` come from Box::into_raw in `new`.
                drop(unsafe { Box::from_raw(memory) });
            }
            Memory::Shared(_) | Memory::Mapped => {
                let bytes = self.words * size_of::<u64>();
                // SAFETY: mapped by `map` with this length, and unmapped nowhere else. Memory that
                // cannot be unmapped stays mapped, which harms nobody.
                let _ = unsafe { munmap(self.start.cast(), bytes) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_are_the_same_memory_and_its_size_stays() {
        let region = Region::shared(32_768).unwrap();
        // Others get the file as it is.
        let file = region.file().unwrap();
        assert!(ftruncate(&file, 0).is_err() && ftruncate(&file, 1 << 20).is_err());
        let other = Region::of_another_process(region.file().unwrap(), 32_768);
        let other = other.unwrap().unwrap();
        assert_ne!(region.start(), other.start());
        // SAFETY: both have 4096 words, and nobody else knows them.
        unsafe {
            region.start().add(4095).write_volatile(7);
            assert_eq!(other.start().add(4095).read_volatile(), 7);
        }
        drop(region);
        // SAFETY: as above; the memory lives as long as a mapping.
        assert_eq!(unsafe { other.start().add(4095).read_volatile() }, 7);
    }

    #[test]
    fn memory_that_is_too_short_is_not_mapped() {
        let region = Region::shared(4096).unwrap();
        let found = Region::of_another_process(region.file().unwrap(), 32_768).unwrap();
        assert!(found.is_none());
        assert!(Region::new(8).file().is_none());
    }
}
