//! Notes of what is under way, in memory that the client keeps: a server that is killed leaves them
//! to the next one on the same socket. The layout and the order of the stores are those of
//! `vhost-user.rst` of QEMU's documentation ("Inflight I/O tracking", split virtqueues), so either
//! of the two servers may be another program.
//!
//! A kill leaves of the stores of our one thread those up to some moment. Of a queue:
//!
//! - I1: a chain is noted before its request is given to the device, its number first and the mark
//!   behind it.
//! - I2: before the used index passes a chain, the chain leads the list of the last batch, and
//!   `used`, the index in the notes, is that of before. So where the used index is ahead of `used`,
//!   the list names what was answered in between.
//! - I3: the mark is cleared behind the used index, and `used` follows behind the mark. So at any
//!   moment a chain is under way if it is marked and not in the batch of I2, and only then.
//! - I4: who starts a queue clears the marks of that batch, takes the marked chains by their
//!   numbers, and goes on with the offer behind as many as are answered or marked. Each chain that
//!   was offered is thereby answered, taken again, or taken later: none is lost (I1), and none that
//!   has an answer gets another one (I2, I3).
//! - I5: starting may be killed as well: until `used` is stored the same marks are cleared once
//!   more, and new notes count only when their version is stored, which comes last.
//! - I6: the client is told of answers when a queue starts or gets its event, because a kill
//!   between an answer and its call leaves a guest that waits.
//! - I7: the notes are the client's, and hold anything: a version, feature, size, batch, place or
//!   number of chains that cannot be is refused by name. Marks that lie repeat or lose requests of
//!   that client alone.
//! - I8: where nothing is marked, nothing can be lost, whatever `used` says: the client may have
//!   reset its queue and kept the memory. QEMU's library and DPDK begin notes by their version
//!   alone and leave `used` and the list at 0 until their first answer. Such a list names chain 0
//!   over and over, so two answers or more cannot be of it, and none is taken from it. One answer
//!   cannot be told from a batch of chain 0 alone.
//!
//! A request is done at least once. It may be done twice: the device had it when the server was
//! killed, or it was done and not answered. Another request for the same place may have been done
//! and answered in between. That is permitted, because requests that are under way together have no
//! order, and file systems wait for one before they send the other. A flush whose failure died with
//! its server is done again and may succeed, because the host tells a failed write once.

use super::memory::Memory;
use super::message::{Region, Shape};
use super::virtqueue::SIZE_MAX;
use crate::socket::Close;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::collections::{BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The one version of the layout.
const VERSION: u16 = 1;
/// Bytes of a queue before its chains, and of a chain.
const HEAD: u64 = 16;
const CHAIN: u64 = 16;
/// The part of a queue begins at a multiple of this: QEMU's library and DPDK have the same.
const ALIGN: u64 = 64;

// In the head of a queue.
const FEATURES_AT: u64 = 0;
const VERSION_AT: u64 = 8;
const SIZE_AT: u64 = 10;
const BATCH_AT: u64 = 12;
const USED_AT: u64 = 14;
// In a chain.
const MARK_AT: u64 = 0;
const NEXT_AT: u64 = 6;
const NUMBER_AT: u64 = 8;

/// The memory of the notes of all queues.
#[derive(Debug)]
pub struct Inflight {
    memory: Arc<Memory>,
    queues: u16,
    size: u16,
}

impl Inflight {
    /// Makes memory for the notes of a new client; answers its shape and the file to be sent.
    ///
    /// # Errors
    /// It asks for no possible queues, or the host has no memory.
    pub fn make(asked: Shape, most: usize) -> Result<(Inflight, Shape, OwnedFd), Close> {
        let shape = Shape {
            bytes: span(asked.size) * u64::from(asked.queues),
            offset: 0,
            ..asked
        };
        checked(&shape, most)?;
        let failed = |e| Close::broken(format!("no memory for what is under way: {e}"));
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("varve-inflight", flags).map_err(failed)?;
        ftruncate(&file, shape.bytes).map_err(failed)?;
        // A client that shortened it would end the next server (SIGBUS).
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&file, seals).map_err(failed)?;
        let own = file.try_clone().map_err(|e| Close::broken(e.to_string()))?;
        Ok((Inflight::map(shape, own, most)?, shape, file))
    }

    /// The notes that a client hands back.
    ///
    /// # Errors
    /// Its shape is impossible, or it is not in its file (I7).
    pub fn map(shape: Shape, file: OwnedFd, most: usize) -> Result<Inflight, Close> {
        checked(&shape, most)?;
        let region = Region {
            guest: 0,
            len: shape.bytes,
            user: 0,
            offset: shape.offset,
        };
        let memory = Memory::map(vec![region], vec![file]).map_err(|why| match why {
            Close::Broken(why) => Close::broken(format!("memory of what is under way: {why}")),
            other => other,
        })?;
        Ok(Inflight {
            memory: Arc::new(memory),
            queues: shape.queues,
            size: shape.size,
        })
    }

    /// The part of a queue.
    ///
    /// # Errors
    /// There is none for it.
    pub fn notes(&self, queue: usize) -> Result<Notes, Close> {
        if queue >= usize::from(self.queues) {
            let queues = self.queues;
            return Err(Close::broken(format!(
                "queue {queue} with memory of what is under way in {queues} queues"
            )));
        }
        Ok(Notes {
            memory: self.memory.clone(),
            at: span(self.size) * queue as u64,
            size: self.size,
            number: 0,
        })
    }
}

/// Bytes of a queue's part.
fn span(size: u16) -> u64 {
    (HEAD + CHAIN * u64::from(size)).next_multiple_of(ALIGN)
}

fn checked(shape: &Shape, most: usize) -> Result<(), Close> {
    let Shape {
        bytes,
        queues,
        size,
        ..
    } = *shape;
    let need = span(size) * u64::from(queues);
    let sizes = 1..=SIZE_MAX;
    let possible = (1..=most).contains(&usize::from(queues)) && sizes.contains(&u32::from(size));
    if !possible || bytes < need {
        return Err(Close::broken(format!(
            "memory of what is under way of {bytes} bytes for {queues} queues of {size} entries; \
             there are {most} queues"
        )));
    }
    Ok(())
}

fn wrong(why: String) -> Close {
    Close::broken(format!("notes of what is under way: {why}"))
}

/// The notes of one queue.
#[derive(Debug)]
pub struct Notes {
    memory: Arc<Memory>,
    at: u64,
    size: u16,
    /// The number of the next chain.
    number: u64,
}

impl Notes {
    /// Makes the notes agree with the used index of a queue of so many entries, and tells the
    /// chains that are under way in the order in which they had been taken (I4).
    ///
    /// # Errors
    /// They make no sense (I7).
    pub fn recover(&mut self, entries: u16, used: u16) -> Result<VecDeque<u16>, Close> {
        let features: u64 = self.memory.number(self.at + FEATURES_AT)?;
        if features != 0 {
            return Err(wrong(format!("features {features:#x}, which are unknown")));
        }
        if entries > self.size {
            let size = self.size;
            return Err(wrong(format!("a queue of {entries} entries in {size}")));
        }
        match self.half(VERSION_AT)? {
            0 => self.begin(used)?,
            VERSION => {}
            other => return Err(wrong(format!("version {other}, which is unknown"))),
        }
        let size = self.half(SIZE_AT)?;
        if size != self.size {
            let own = self.size;
            return Err(wrong(format!("of {size} entries, told to have {own}")));
        }
        let mut marked = self.marked(entries)?;
        // I8.
        if !marked.is_empty() {
            let batch = self.batch(entries, used)?;
            for head in &batch {
                self.mark(*head, 0)?;
            }
            marked.retain(|(_, head)| !batch.contains(head));
        }
        self.set_half(USED_AT, used)?;
        self.number = marked
            .last()
            .map_or(0, |(number, _)| number.wrapping_add(1));
        Ok(marked.into_iter().map(|(_, head)| head).collect())
    }

    /// The chains that are marked, with their numbers, in the order of these.
    fn marked(&self, entries: u16) -> Result<Vec<(u64, u16)>, Close> {
        let mut marked = Vec::new();
        for head in 0..self.size {
            let mark: u8 = self.memory.number(self.chain(head) + MARK_AT)?;
            if mark == 0 {
                continue;
            }
            if head >= entries {
                return Err(wrong(format!("chain {head} of {entries}")));
            }
            let number: u64 = self.memory.number(self.chain(head) + NUMBER_AT)?;
            marked.push((number, head));
        }
        marked.sort_unstable();
        Ok(marked)
    }

    /// The chains that the last batch answered (I2, I8).
    fn batch(&self, entries: u16, used: u16) -> Result<BTreeSet<u16>, Close> {
        let (before, first) = (self.half(USED_AT)?, self.half(BATCH_AT)?);
        let answers = used.wrapping_sub(before);
        // Nothing was ever answered by who began these notes.
        let is_unused = before == 0 && first == 0;
        let mut batch = BTreeSet::new();
        let mut head = first;
        for _ in 0..answers {
            if head >= entries {
                return Err(wrong(format!("an answer to chain {head} of {entries}")));
            }
            if !batch.insert(head) {
                return match is_unused {
                    true => Ok(BTreeSet::new()),
                    false => Err(wrong(format!(
                        "a batch of {answers} answers that names chain {head} twice"
                    ))),
                };
            }
            head = self.memory.number(self.chain(head) + NEXT_AT)?;
        }
        Ok(batch)
    }

    /// Whether a server has begun them.
    ///
    /// # Errors
    /// The memory is gone.
    pub fn are_begun(&self) -> Result<bool, Close> {
        self.half(VERSION_AT).map(|version| version != 0)
    }

    /// Notes of a queue that has none yet (I5).
    fn begin(&self, used: u16) -> Result<(), Close> {
        for head in 0..self.size {
            self.mark(head, 0)?;
        }
        self.set_half(SIZE_AT, self.size)?;
        self.set_half(BATCH_AT, 0)?;
        self.set_half(USED_AT, used)?;
        self.set_half(VERSION_AT, VERSION)
    }

    /// A chain is taken (I1). It is one of the queue's.
    ///
    /// # Errors
    /// The memory is gone.
    pub fn taken(&mut self, head: u16) -> Result<(), Close> {
        let at = self.chain(head);
        self.memory.set_number(at + NUMBER_AT, self.number)?;
        self.number = self.number.wrapping_add(1);
        self.mark(head, 1)
    }

    /// The used index is about to pass a chain (I2).
    ///
    /// # Errors
    /// The memory is gone.
    pub fn answering(&self, head: u16) -> Result<(), Close> {
        let at = self.chain(head);
        self.memory.set_number(at + NEXT_AT, self.half(BATCH_AT)?)?;
        self.set_half(BATCH_AT, head)
    }

    /// The used index has passed a chain, and is that now (I3).
    ///
    /// # Errors
    /// The memory is gone.
    pub fn answered(&self, head: u16, used: u16) -> Result<(), Close> {
        self.mark(head, 0)?;
        self.set_half(USED_AT, used)
    }

    fn chain(&self, head: u16) -> u64 {
        self.at + HEAD + CHAIN * u64::from(head)
    }

    fn mark(&self, head: u16, mark: u8) -> Result<(), Close> {
        self.memory.set_number(self.chain(head) + MARK_AT, mark)
    }

    fn half(&self, at: u64) -> Result<u16, Close> {
        self.memory.number(self.at + at)
    }

    fn set_half(&self, at: u64, value: u16) -> Result<(), Close> {
        self.memory.set_number(self.at + at, value)
    }
}

#[cfg(test)]
mod tests;
