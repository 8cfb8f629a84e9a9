//! One request in the form in which the kernel takes it: its bytes do not move until it is
//! complete.

use super::buffer::{Aligned, Block};
use super::place::{PIECES_MAX, Place};
use crate::{DevError, Op, Piece, Reply, Request};
use base::{Bytes, SECTOR_BYTES};
use rt::Mutex;
use std::io;

/// Number of bounce buffers whose memory is kept to be reused.
const KEPT_MAX: usize = 16;

/// Memory for bounce buffers.
pub(super) struct Pool(Mutex<Vec<Vec<u8>>>);

impl Pool {
    pub fn new() -> Pool {
        Pool(Mutex::named("host buffers", Vec::new()))
    }
    fn take(&self, len: usize, align: usize) -> Aligned {
        let memory = self.0.lock().pop().unwrap_or_default();
        Aligned::reuse(memory, len, align)
    }
    /// Takes the memory of a job back.
    pub fn give(&self, job: Job) {
        let Job::Write { spare: Some(b), .. } = job else {
            return;
        };
        let mut kept = self.0.lock();
        if kept.len() < KEPT_MAX {
            kept.push(b.into_memory());
        }
    }
}

/// What a request does.
pub(super) enum Job {
    /// Read into the buffers, one after the other. Each block has memory of its own, so that a
    /// cache can keep one without the others.
    Read { at: u64, into: Vec<Block> },
    /// Write the parts in their order.
    Write {
        at: u64,
        parts: Vec<Part>,
        /// Copies of pieces whose address is not aligned.
        spare: Option<Aligned>,
        dsync: bool,
    },
    /// Flush: `fdatasync`.
    Sync,
    /// Discard.
    Discard { at: u64, len: u64 },
}

/// A part of a write.
pub(super) enum Part {
    /// Bytes of the request.
    Own(Bytes),
    /// A range of the spare buffer.
    Spare(usize, usize),
}

impl Job {
    /// The job of a checked request.
    pub fn new(place: &Place, pool: &Pool, request: Request) -> Result<Job, DevError> {
        Ok(match request.op {
            Op::Read { lba, sectors } => Job::Read {
                at: place.at(lba),
                into: Block::many(sectors as usize * SECTOR_BYTES, place.align),
            },
            Op::Write { lba, pieces, fua } => {
                let (parts, spare) = parts(place, pool, pieces);
                Job::Write {
                    at: place.at(lba),
                    parts,
                    spare,
                    dsync: fua,
                }
            }
            Op::Flush => Job::Sync,
            Op::Discard { lba, sectors } => Job::Discard {
                at: place.at(lba),
                len: sectors * SECTOR_BYTES as u64,
            },
            Op::Pack { .. } | Op::Remap(_) | Op::Barrier => {
                return Err(DevError::misuse(
                    None,
                    "a host file has neither packs nor barriers nor REMAP",
                ));
            }
        })
    }

    /// Bytes to transfer.
    pub fn len(&self) -> usize {
        match self {
            Job::Read { into, .. } => into.iter().map(|b| b.len()).sum(),
            Job::Write { .. } => self.slices().iter().map(|s| s.len()).sum(),
            Job::Sync | Job::Discard { .. } => 0,
        }
    }

    /// The bytes of a write.
    pub fn slices(&self) -> Vec<&[u8]> {
        let Job::Write { parts, spare, .. } = self else {
            return Vec::new();
        };
        let slices = parts.iter().map(|part| match part {
            Part::Own(bytes) => &bytes[..],
            Part::Spare(from, to) => spare.as_deref().map_or(&[][..], |s| &s[*from..*to]),
        });
        slices.collect()
    }

    /// Carries out the job, or what is left of it after `done` bytes, in this thread.
    pub fn run(&mut self, place: &Place, done: usize) -> Result<(), DevError> {
        rt::about_to_wait();
        let result = match self {
            Job::Read { at, into } => place.read_into(*at, into, done),
            Job::Write { at, dsync, .. } => {
                let (at, dsync) = (*at, *dsync);
                let slices = rest(self.slices(), done);
                place.write(at + done as u64, &slices, dsync)
            }
            Job::Sync => place.flush(),
            Job::Discard { at, len } => place.discard(*at, *len),
        };
        result.map_err(|e| self.failed(place, &e))
    }

    /// The error for a refusal of the kernel.
    pub fn failed(&self, place: &Place, e: &io::Error) -> DevError {
        match self {
            Job::Read { at, .. } => place.failed(*at, "read of", e),
            Job::Write { at, .. } => place.failed(*at, "write to", e),
            Job::Sync => place.failed(place.start, "flush of", e),
            Job::Discard { at, .. } => place.failed(*at, "discard in", e),
        }
    }

    /// The reply, once the job is complete.
    pub fn into_reply(self, pool: &Pool) -> Reply {
        match self {
            Job::Read { into, .. } => Reply {
                data: into.into_iter().map(Block::into_bytes).collect(),
                ..Reply::default()
            },
            other => {
                pool.give(other);
                Reply::default()
            }
        }
    }
}

fn rest(slices: Vec<&[u8]>, mut done: usize) -> Vec<&[u8]> {
    let mut left = Vec::with_capacity(slices.len());
    for slice in slices {
        let skip = done.min(slice.len());
        done -= skip;
        if skip < slice.len() {
            left.push(&slice[skip..]);
        }
    }
    left
}

/// The pieces as they are, where their addresses are aligned and one call takes them; copies of the
/// others.
fn parts(place: &Place, pool: &Pool, pieces: Vec<Piece>) -> (Vec<Part>, Option<Aligned>) {
    let unit = place.caps.sector_bytes as usize;
    // Each part must be a number of whole sectors; if pieces are not, one copy of all of them is
    // made.
    let none = pieces.len() > PIECES_MAX
        || (place.align > 1 && pieces.iter().any(|p| !p.bytes.len().is_multiple_of(unit)));
    let suits = |bytes: &Bytes| !none && (bytes.as_ptr() as usize).is_multiple_of(place.align);
    let copied = pieces.iter().filter(|p| !suits(&p.bytes));
    let bytes: usize = copied.map(|p| p.bytes.len()).sum();
    if bytes == 0 {
        let own = pieces.into_iter().map(|p| Part::Own(p.bytes));
        return (own.collect(), None);
    }
    let mut spare = pool.take(bytes, place.align);
    let (mut parts, mut used) = (Vec::with_capacity(pieces.len()), 0);
    for piece in pieces {
        if suits(&piece.bytes) {
            parts.push(Part::Own(piece.bytes));
            continue;
        }
        let from = used;
        used += piece.bytes.len();
        spare[from..used].copy_from_slice(&piece.bytes);
        // Neighbouring parts become one.
        match parts.last_mut() {
            Some(Part::Spare(_, to)) if *to == from => *to = used,
            _ => parts.push(Part::Spare(from, used)),
        }
    }
    (parts, Some(spare))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Class, HostOptions};
    use base::{BLOCK_BYTES, Lba};
    use rt::Page;
    use std::path::Path;

    fn place() -> Place {
        let file = tempfile::tempfile().expect("a file");
        let mut place = Place::new(Path::new("a file"), file, &HostOptions::write()).unwrap();
        place.align = 512;
        place
    }
    fn spare_bytes(pool: &Pool, pieces: Vec<Bytes>) -> usize {
        let piece = |bytes| Piece {
            bytes,
            class: Class::Data,
        };
        let op = Op::Write {
            lba: Lba(0),
            pieces: pieces.into_iter().map(piece).collect(),
            fua: false,
        };
        let job = Job::new(&place(), pool, Request { op }).unwrap();
        let Job::Write { spare, .. } = &job else {
            panic!("a write");
        };
        let bytes = spare.as_ref().map_or(0, |s| s.len());
        pool.give(job);
        bytes
    }

    #[test]
    fn pages_go_to_direct_io_without_a_copy() {
        let pool = Pool::new();
        let page = |n| Page::copy_of(&[n; BLOCK_BYTES]).into_bytes();
        let pages: Vec<Bytes> = (0..200).map(page).collect();
        assert_eq!(spare_bytes(&pool, pages), 0);
        let odd = Bytes::from(vec![0; BLOCK_BYTES + 1]).slice(1..);
        let odd = match odd.as_ptr().addr().is_multiple_of(512) {
            true => Bytes::from(vec![0; 2 * BLOCK_BYTES]).slice(2..BLOCK_BYTES + 2),
            false => odd,
        };
        assert_eq!(spare_bytes(&pool, vec![page(1), odd, page(2)]), BLOCK_BYTES);
        assert_eq!(pool.0.lock().len(), 1, "the spare buffer is kept");
    }
}
