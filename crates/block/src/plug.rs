//! A plug: gathers writes, so that neighbours become one command, and non-volatile ones a pack.

use crate::batch::{Batch, Kind};
use crate::command::{Command, merge, pack};
use crate::order_plug::send;
use crate::{Class, Queue};
use base::{Bytes, Lba, SECTOR_BYTES};
use blockdev::Piece;
use std::sync::Arc;

/// Writes held back until [`Plug::submit`]. No sector may be written twice in one plug: the order
/// inside it is free.
#[must_use = "a plug holds its writes back until it is submitted"]
pub struct Plug {
    queue: Arc<Queue>,
    writes: Vec<Write>,
}

/// A write to be: one or more pieces in a row.
#[derive(Clone)]
pub(crate) struct Write {
    pub lba: Lba,
    pub sectors: u64,
    pub fua: bool,
    /// Nobody waits for it: a scheduler may let others pass.
    pub background: bool,
    pub pieces: Vec<Piece>,
}

impl Write {
    pub fn new(lba: Lba, class: Class, bytes: Bytes, fua: bool) -> Write {
        let sectors = (bytes.len() / SECTOR_BYTES) as u64;
        Write {
            lba,
            sectors,
            fua,
            background: false,
            pieces: vec![Piece { class, bytes }],
        }
    }

    /// True if a sector belongs to both.
    pub fn overlaps(&self, other: &Write) -> bool {
        self.lba < other.lba.plus(other.sectors) && other.lba < self.lba.plus(self.sectors)
    }

    /// Keeps the first `sectors` sectors; answers the rest.
    pub fn split_off(&mut self, sectors: u64) -> Write {
        let mut room = sectors as usize * SECTOR_BYTES;
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        for mut piece in std::mem::take(&mut self.pieces) {
            let rest = piece.bytes.split_off(room.min(piece.bytes.len()));
            room -= piece.bytes.len();
            let class = piece.class;
            head.extend((!piece.bytes.is_empty()).then_some(piece));
            tail.extend((!rest.is_empty()).then_some(Piece { class, bytes: rest }));
        }
        let rest = Write {
            lba: self.lba.plus(sectors),
            sectors: self.sectors - sectors,
            fua: self.fua,
            background: self.background,
            pieces: tail,
        };
        self.sectors = sectors;
        self.pieces = head;
        rest
    }
}

impl Plug {
    pub(crate) fn new(queue: Arc<Queue>) -> Plug {
        Plug {
            queue,
            writes: Vec::new(),
        }
    }

    /// Adds a write that is volatile at completion. `bytes` is a non-zero multiple of 512.
    pub fn write(&mut self, lba: Lba, class: Class, bytes: Bytes) {
        self.writes.push(Write::new(lba, class, bytes, false));
    }

    /// Adds a write that is non-volatile at completion. Without FUA in the device one flush follows
    /// the whole batch.
    pub fn write_fua(&mut self, lba: Lba, class: Class, bytes: Bytes) {
        self.writes.push(Write::new(lba, class, bytes, true));
    }

    /// Makes all writes that it holds non-volatile at completion.
    pub fn non_volatile(mut self) -> Plug {
        self.writes.iter_mut().for_each(|w| w.fua = true);
        self
    }

    /// Says of all writes that it holds that nobody waits for them: a scheduler may let others
    /// pass. (Linux: write-back without `REQ_SYNC`.)
    pub fn background(mut self) -> Plug {
        self.writes.iter_mut().for_each(|w| w.background = true);
        self
    }

    /// Number of writes held.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// True if it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Sorts by address, merges neighbours of equal flags up to the largest transfer, and sends all
    /// of it. Non-volatile writes that do not touch go as packs where the device has them: it
    /// programs their pages side by side.
    pub fn submit(self) -> Batch {
        send_all(&self.queue, self.writes)
    }

    /// Sends nothing yet: the first waiter for the batch does, unless an ordered plug takes the
    /// writes along before. All of them have to be non-volatile ones; otherwise they are sent now.
    pub fn hold(self) -> Batch {
        if self.writes.iter().any(|w| !w.fua) {
            return self.submit();
        }
        let mut batch = Batch::new(self.queue);
        batch.hold(self.writes);
        batch
    }
}

/// Sends the writes as [`Plug::submit`] says.
pub(crate) fn send_all(queue: &Arc<Queue>, writes: Vec<Write>) -> Batch {
    let caps = queue.caps();
    let (merged, joined) = merge(writes, caps);
    queue.count_merges(joined);
    let packs = caps.packed.is_some() && queue.kind_of(true) == Kind::Durable;
    let (urgent, cached): (Vec<Write>, Vec<Write>) =
        merged.into_iter().partition(|w| packs && w.fua);
    let cached = cached.into_iter().map(Command::Single);
    send(queue, cached.chain(pack(urgent, caps)))
}
