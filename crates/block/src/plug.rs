//! Gathers writes, so that neighbours become one command.

use crate::batch::Batch;
use crate::{Class, Queue};
use base::{Bytes, Lba, SECTOR_BYTES};
use blockdev::Piece;
use std::sync::Arc;

/// Writes held back until [`Plug::submit`]. No sector may be written twice in one plug: the order inside it is free.
#[must_use = "a plug holds its writes back until it is submitted"]
pub struct Plug {
    queue: Arc<Queue>,
    writes: Vec<Write>,
}

/// A write to be: one or more pieces in a row.
pub(crate) struct Write {
    pub lba: Lba,
    pub sectors: u64,
    pub fua: bool,
    pub pieces: Vec<Piece>,
}

impl Write {
    pub fn new(lba: Lba, class: Class, bytes: Bytes, fua: bool) -> Write {
        let sectors = (bytes.len() / SECTOR_BYTES) as u64;
        Write {
            lba,
            sectors,
            fua,
            pieces: vec![Piece { class, bytes }],
        }
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

    /// Adds a write that is non-volatile at completion. Without FUA in the device one flush follows the whole batch.
    pub fn write_fua(&mut self, lba: Lba, class: Class, bytes: Bytes) {
        self.writes.push(Write::new(lba, class, bytes, true));
    }

    /// Number of writes held.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// True if it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Sorts by address, merges neighbours of equal flags up to the largest transfer, and sends all of it.
    pub fn submit(mut self) -> Batch {
        self.writes.sort_by_key(|w| w.lba);
        let limit = self.queue.caps().max_transfer_sectors;
        let gathered = self.writes.len();
        let merged = merge(self.writes, limit);
        self.queue.count_merges((gathered - merged.len()) as u64);
        let probe = self.queue.probe_writes(&merged);
        let mut batch = Batch::new(self.queue.clone());
        for write in merged {
            batch.push(self.queue.send_write(write));
        }
        batch.set_probe(probe);
        batch
    }
}

/// Joins writes that touch, of equal flags, as long as they fit one command.
fn merge(sorted: Vec<Write>, limit: u64) -> Vec<Write> {
    let mut out: Vec<Write> = Vec::with_capacity(sorted.len());
    for write in sorted {
        match out.last_mut() {
            Some(last)
                if last.lba.plus(last.sectors) == write.lba
                    && last.fua == write.fua
                    && last.sectors + write.sectors <= limit =>
            {
                last.sectors += write.sectors;
                last.pieces.extend(write.pieces);
            }
            last => {
                let apart = last.is_none_or(|l| l.lba.plus(l.sectors) <= write.lba);
                debug_assert!(apart, "sector {} is written twice in one plug", write.lba);
                out.push(write);
            }
        }
    }
    out
}
