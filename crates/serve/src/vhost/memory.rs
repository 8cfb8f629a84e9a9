//! The memory of a client, mapped. The guest changes it at any time, so it is only copied from and
//! to, or loaded and stored as whole numbers; every address is checked.
//!
//! A client that shortens the file of its memory after it shared it makes the host end this process
//! (SIGBUS), unless the file is sealed against that, as QEMU's `memory-backend-memfd` is. A guest
//! cannot do so.

use super::message::Region;
use crate::socket::Close;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use vm_memory::guest_memory::FileOffset;
use vm_memory::{AtomicAccess, Bytes, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

/// The memory of a client.
#[derive(Debug)]
pub struct Memory {
    map: GuestMemoryMmap,
    regions: Vec<Region>,
    /// Stores that are left until this server is killed.
    #[cfg(test)]
    pub(super) life: Option<std::sync::Arc<std::sync::atomic::AtomicI64>>,
    /// A guest that acts behind the store of a number there: what it stores where in its file.
    #[cfg(test)]
    pub(super) behind: Option<(u64, File, u64, u16)>,
}

impl Memory {
    /// Maps the regions, each with its file.
    ///
    /// # Errors
    /// They overlap, are not in their file, or the host maps them not.
    pub fn map(regions: Vec<Region>, files: Vec<OwnedFd>) -> Result<Memory, Close> {
        if regions.len() != files.len() {
            let (regions, files) = (regions.len(), files.len());
            return Err(Close::broken(format!(
                "{regions} memory regions with {files} descriptors"
            )));
        }
        let mapped = regions.iter().zip(files).map(|(r, file)| region(r, file));
        let mapped = mapped.collect::<Result<Vec<_>, Close>>()?;
        let map = GuestMemoryMmap::from_regions(mapped)
            .map_err(|e| Close::broken(format!("the memory regions: {e}")))?;
        Ok(Memory {
            map,
            regions,
            #[cfg(test)]
            life: None,
            #[cfg(test)]
            behind: None,
        })
    }

    /// The guest's address for one of the client's, if so many bytes lie in the region.
    pub fn guest_address(&self, user: u64, len: u64) -> Option<u64> {
        self.regions.iter().find_map(|r| {
            let from = user.checked_sub(r.user)?;
            let end = from.checked_add(len)?;
            (end <= r.len).then(|| r.guest + from)
        })
    }

    /// Fills `buf` from there.
    ///
    /// # Errors
    /// A part is in no region.
    pub fn read(&self, at: u64, buf: &mut [u8]) -> Result<(), Close> {
        let read = self.map.read_slice(buf, GuestAddress(at));
        read.map_err(|e| Close::broken(format!("reading at {at:#x} of the guest: {e}")))
    }

    /// Copies `bytes` to there.
    ///
    /// # Errors
    /// A part is in no region.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Close> {
        self.live()?;
        let written = self.map.write_slice(bytes, GuestAddress(at));
        written.map_err(|e| Close::broken(format!("writing at {at:#x} of the guest: {e}")))
    }

    /// A number of a ring that the guest stores, and all that it stored before.
    ///
    /// # Errors
    /// It is in no region, or at an odd address.
    pub fn load(&self, at: u64) -> Result<u16, Close> {
        self.number(at).map(u16::from_le)
    }

    /// Stores a number of a ring: who sees it sees all that was written before.
    ///
    /// # Errors
    /// It is in no region, or at an odd address.
    pub fn store(&self, at: u64, value: u16) -> Result<(), Close> {
        self.set_number(at, value.to_le())
    }

    /// A whole number in the host's byte order, and all that was stored before it.
    ///
    /// # Errors
    /// It is in no region, or not at a multiple of its length.
    pub fn number<T: AtomicAccess>(&self, at: u64) -> Result<T, Close> {
        let loaded = self.map.load(GuestAddress(at), Ordering::Acquire);
        loaded.map_err(|e| Close::broken(format!("reading at {at:#x} of the guest: {e}")))
    }

    /// Stores a whole number in the host's byte order, behind all that was written before.
    ///
    /// # Errors
    /// It is in no region, or not at a multiple of its length.
    pub fn set_number<T: AtomicAccess>(&self, at: u64, value: T) -> Result<(), Close> {
        self.live()?;
        let stored = (self.map).store(value, GuestAddress(at), Ordering::Release);
        #[cfg(test)]
        if let Some((place, file, to, value)) = &self.behind
            && *place == at
        {
            let bytes = value.to_le_bytes();
            std::os::unix::fs::FileExt::write_all_at(file, &bytes, *to).expect("a file");
        }
        stored.map_err(|e| Close::broken(format!("writing at {at:#x} of the guest: {e}")))
    }

    /// In unit tests the end of a server that is killed between two stores.
    #[cfg(test)]
    fn live(&self) -> Result<(), Close> {
        let left = |life: &std::sync::Arc<std::sync::atomic::AtomicI64>| {
            life.fetch_sub(1, Ordering::Relaxed) > 0
        };
        match self.life.as_ref().is_none_or(left) {
            true => Ok(()),
            false => Err(Close::broken("killed")),
        }
    }

    #[cfg(not(test))]
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "unit tests have an end"
    )]
    fn live(&self) -> Result<(), Close> {
        Ok(())
    }
}

fn region(r: &Region, file: OwnedFd) -> Result<GuestRegionMmap, Close> {
    let wrong = |why: String| Close::broken(format!("memory region at {:#x}: {why}", r.guest));
    let file = File::from(file);
    let bytes = file.metadata().map_err(|e| wrong(e.to_string()))?.len();
    let ends = r.offset.checked_add(r.len);
    let places = [r.guest, r.user].map(|at| at.checked_add(r.len));
    // The host maps no region of no bytes.
    if ends.is_none_or(|end| end > bytes) || places.contains(&None) {
        return Err(wrong(format!(
            "{} bytes from {} on in a file of {bytes}",
            r.len, r.offset
        )));
    }
    let len = usize::try_from(r.len).map_err(|e| wrong(e.to_string()))?;
    let mapped = MmapRegion::from_file(FileOffset::new(file, r.offset), len)
        .map_err(|e| wrong(e.to_string()))?;
    GuestRegionMmap::new(mapped, GuestAddress(r.guest))
        .ok_or_else(|| wrong("it ends beyond all addresses".into()))
}
