//! A split virtqueue (virtio 1.2, section 2.7): chains of descriptors that the guest offers, and
//! the answers to them. All of it lies in memory of the guest and may hold anything.
//!
//! - R1: a chain has at most [`CHAIN_MAX`] descriptors, so a loop in the table ends.
//! - R2: in a chain, what may be read stands before what may be written; the two are never mixed
//!   up, and a chain that breaks this is refused.
//! - R3: chains are answered in the order in which they were offered. So the used index tells how
//!   many are done, and after a reconnection work goes on at this index: what was offered and has
//!   no answer is done again. No later write was answered that this could undo. Where the client
//!   keeps notes of what is under way ([`super::inflight`]), these say it instead, because the
//!   server before this one may have answered in another order.
//! - R4: of a queue no more chains are under way than it has entries: an honest guest has a
//!   descriptor for each, and one that offers more is let go.
//! - R5: with event indices the guest is told of answers only where it wants to be, but always of
//!   the first one; and it is asked for a kick before the last look at what it offers, so no offer
//!   is left without a kick.

use super::inflight::Notes;
use super::memory::Memory;
use super::message::Rings;
use crate::socket::Close;
use base::bytes::{get_le16, get_le32, get_le64, put_le32};
use std::collections::VecDeque;

/// Most descriptors of a chain (R1), indirect ones included.
pub const CHAIN_MAX: usize = 1024;
/// Most entries of a queue.
pub const SIZE_MAX: u32 = 32768;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
/// Of the available ring: the guest wants to be told of nothing.
const NO_CALL: u16 = 1;
/// Bytes of a descriptor.
const DESC: u64 = 16;

/// A run of the guest's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// First byte.
    pub at: u64,
    /// Bytes.
    pub len: u32,
}

/// A chain of descriptors.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Chain {
    /// Its first descriptor, by which it is answered.
    pub head: u16,
    /// What the device may read.
    pub readable: Vec<Run>,
    /// What the device may write.
    pub writable: Vec<Run>,
}

/// A queue that is set up, in addresses of the guest.
#[derive(Debug)]
pub struct Ring {
    size: u16,
    desc: u64,
    avail: u64,
    used: u64,
    next_avail: u16,
    next_used: u16,
    /// Each side tells the other from which index on it wants to hear of more (R5).
    events: bool,
    /// The used index when the guest was last told, or could have been; none before the first time.
    told: Option<u16>,
    /// Where it is noted what is under way.
    notes: Option<Notes>,
    /// Chains that an earlier server had taken and not answered.
    again: VecDeque<u16>,
}

impl Ring {
    /// Goes on where the used index stands (R3), or as the notes say; with `events` by event
    /// indices (R5).
    ///
    /// # Errors
    /// It has no possible size, or does not lie in the memory, or the notes contradict it.
    pub fn new(
        size: u32,
        rings: Rings,
        memory: &Memory,
        events: bool,
        mut notes: Option<Notes>,
    ) -> Result<Ring, Close> {
        if !size.is_power_of_two() || size > SIZE_MAX {
            return Err(Close::broken(format!("a queue of {size} entries")));
        }
        let n = u64::from(size);
        let place = |user: u64, len: u64, align: u64| {
            let at = memory.guest_address(user, len);
            at.filter(|at| at.is_multiple_of(align)).ok_or_else(|| {
                Close::broken(format!("a ring at {user:#x}, which is no place for it"))
            })
        };
        let used = place(rings.used, 6 + 8 * n, 4)?;
        let desc = place(rings.desc, DESC * n, DESC)?;
        let avail = place(rings.avail, 6 + 2 * n, 2)?;
        // A server that polls has told the guest not to kick, and may be gone.
        memory.store(used, 0)?;
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        let done = memory.load(used + 2)?;
        let again = match &mut notes {
            Some(notes) => notes.recover(size as u16, done)?,
            None => VecDeque::new(),
        };
        let (under_way, open) = (again.len(), memory.load(avail + 2)?.wrapping_sub(done));
        // inflight-I4.
        if under_way > usize::from(open) {
            return Err(Close::broken(format!(
                "notes of {under_way} requests under way in a queue that offers {open}"
            )));
        }
        Ok(Ring {
            size: size as u16,
            desc,
            avail,
            used,
            next_avail: done.wrapping_add(under_way as u16),
            next_used: done,
            events,
            told: None,
            notes,
            again,
        })
    }

    /// The first entry that has no answer.
    pub fn base(&self) -> u16 {
        self.next_used
    }

    /// True while chains are left that an earlier server had taken.
    pub fn is_behind(&self) -> bool {
        !self.again.is_empty()
    }

    /// The next chain that the guest offers.
    ///
    /// # Errors
    /// The ring or the chain makes no sense (R1, R2).
    pub fn take(&mut self, memory: &Memory) -> Result<Option<Chain>, Close> {
        if let Some(head) = self.again.pop_front() {
            return self.chain(head, memory).map(Some);
        }
        let mut offered = memory.load(self.avail + 2)?;
        if offered == self.next_avail && self.events {
            // R5: the guest reads the event index after it has stored its own index.
            let event = self.used + 4 + 8 * u64::from(self.size);
            memory.store(event, self.next_avail)?;
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
            offered = memory.load(self.avail + 2)?;
        }
        if offered == self.next_avail {
            return Ok(None);
        }
        // R4.
        let open = offered.wrapping_sub(self.next_used);
        if open > self.size {
            let size = self.size;
            return Err(Close::broken(format!(
                "{open} entries in a queue of {size}"
            )));
        }
        let at = u64::from(self.next_avail % self.size);
        let mut head = [0; 2];
        memory.read(self.avail + 4 + 2 * at, &mut head)?;
        let head = get_le16(&head, 0);
        let chain = self.chain(head, memory)?;
        if let Some(notes) = &mut self.notes {
            notes.taken(head)?;
        }
        self.next_avail = self.next_avail.wrapping_add(1);
        Ok(Some(chain))
    }

    fn chain(&self, head: u16, memory: &Memory) -> Result<Chain, Close> {
        let mut chain = Chain {
            head,
            ..Chain::default()
        };
        let (mut table, mut size) = (self.desc, u32::from(self.size));
        let (mut next, mut indirect) = (head, false);
        // R1.
        for _ in 0..CHAIN_MAX {
            if u32::from(next) >= size {
                return Err(Close::broken(format!("descriptor {next} of {size}")));
            }
            let mut desc = [0; DESC as usize];
            memory.read(table + DESC * u64::from(next), &mut desc)?;
            let run = Run {
                at: get_le64(&desc, 0),
                len: get_le32(&desc, 8),
            };
            let flags = get_le16(&desc, 12);
            if flags & INDIRECT != 0 {
                let entries = run.len / DESC as u32;
                let whole = run.len.is_multiple_of(DESC as u32) && entries > 0;
                if indirect || flags & NEXT != 0 || !whole {
                    return Err(Close::broken("an indirect table that may not be"));
                }
                (table, size, next, indirect) = (run.at, entries, 0, true);
                if table.checked_add(u64::from(run.len)).is_none() {
                    return Err(Close::broken("an indirect table beyond all addresses"));
                }
                continue;
            }
            match flags & WRITE != 0 {
                true => chain.writable.push(run),
                // R2.
                false if !chain.writable.is_empty() => {
                    return Err(Close::broken("what may be read behind what may be written"));
                }
                false => chain.readable.push(run),
            }
            if flags & NEXT == 0 {
                return Ok(chain);
            }
            next = get_le16(&desc, 14);
        }
        Err(Close::broken(format!(
            "a chain of more than {CHAIN_MAX} descriptors"
        )))
    }

    /// Answers a chain, into which `len` bytes were written.
    ///
    /// # Errors
    /// The memory is gone.
    pub fn answer(&mut self, memory: &Memory, head: u16, len: u32) -> Result<(), Close> {
        let mut entry = [0; 8];
        put_le32(&mut entry, 0, u32::from(head));
        put_le32(&mut entry, 4, len);
        let at = u64::from(self.next_used % self.size);
        if let Some(notes) = &self.notes {
            notes.answering(head)?;
        }
        memory.write(self.used + 4 + 8 * at, &entry)?;
        self.next_used = self.next_used.wrapping_add(1);
        memory.store(self.used + 2, self.next_used)?;
        match &self.notes {
            Some(notes) => notes.answered(head, self.next_used),
            None => Ok(()),
        }
    }

    /// Whether the guest wants to be told of the answers since the last time that it was asked.
    ///
    /// # Errors
    /// The memory is gone.
    pub fn wants_call(&mut self, memory: &Memory) -> Result<bool, Close> {
        // The guest reads the index after it has set the flag, and we the flag after the index.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        let told = self.told.replace(self.next_used);
        if !self.events {
            return Ok(memory.load(self.avail)? & NO_CALL == 0);
        }
        let wanted = memory.load(self.avail + 4 + 2 * u64::from(self.size))?;
        Ok(told.is_none_or(|told| is_passed(wanted, told, self.next_used)))
    }
}

/// Whether the answer with index `wanted` is one of those from index `old` to before `new`.
fn is_passed(wanted: u16, old: u16, new: u16) -> bool {
    new.wrapping_sub(wanted).wrapping_sub(1) < new.wrapping_sub(old)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vhost::message::Region;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use std::fs::File;

    /// R5: the guest offers between the store of the event index and the last look, and does not
    /// kick, because it has read the index before.
    #[test]
    fn an_offer_before_the_last_look_is_taken_without_a_kick() {
        const MEMORY: u64 = 0x1000;
        let rings = Rings {
            desc: 0,
            avail: 0x400,
            used: 0x800,
        };
        let file: File = (memfd_create("test", MemfdFlags::CLOEXEC).unwrap()).into();
        ftruncate(&file, MEMORY).unwrap();
        let region = Region {
            guest: 0,
            len: MEMORY,
            user: 0,
            offset: 0,
        };
        let own = file.try_clone().unwrap().into();
        let mut memory = Memory::map(vec![region], vec![own]).unwrap();
        let mut ring = Ring::new(4, rings, &memory, true, None).unwrap();
        assert!(ring.take(&memory).unwrap().is_none());
        memory.behind = Some((0x800 + 4 + 8 * 4, file, 0x402, 1));
        assert!(ring.take(&memory).unwrap().is_some());
    }

    #[test]
    fn an_event_index_is_passed_across_the_end_of_numbers_too() {
        assert!(is_passed(5, 5, 6) && is_passed(6, 5, 8) && is_passed(7, 5, 8));
        assert!(!is_passed(8, 5, 8) && !is_passed(4, 5, 8) && !is_passed(5, 5, 5));
        assert!(is_passed(65535, 65535, 0) && is_passed(0, 65535, 1));
        assert!(!is_passed(1, 65535, 1));
    }
}
