//! Counters of what passed the queue.

use base::{SECTOR_BYTES, SECTORS_PER_BLOCK};
use blockdev::{Class, Op, Request};
use std::collections::BTreeMap;

/// Figures since the queue was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// 512-byte sectors written, by class.
    pub sectors_written: BTreeMap<Class, u64>,
    /// 512-byte sectors read.
    pub sectors_read: u64,
    /// Write commands handed to the device.
    pub write_commands: u64,
    /// Those with FUA; a pack counts once.
    pub fua_commands: u64,
    /// Those that pack several writes.
    pub packed_commands: u64,
    /// Writes that were merged into a neighbour.
    pub merges: u64,
    /// REMAP commands handed to the device.
    pub remaps: u64,
    /// Pairs in them.
    pub remap_pairs: u64,
    /// Flush commands handed to the device.
    pub flushes: u64,
    /// Flushes that were saved because one that covered the caller was done or under way.
    pub flushes_joined: u64,
}

impl QueueStats {
    /// 4 KiB blocks written of `class`, part blocks rounded up.
    pub fn blocks_written(&self, class: Class) -> u64 {
        self.sectors_written
            .get(&class)
            .map_or(0, |sectors| sectors.div_ceil(SECTORS_PER_BLOCK))
    }

    /// 4 KiB blocks written of all classes.
    pub fn blocks_written_total(&self) -> u64 {
        Class::ALL
            .iter()
            .map(|&class| self.blocks_written(class))
            .sum()
    }

    /// Counts one command that goes to the device.
    pub(crate) fn add(&mut self, request: &Request) {
        match &request.op {
            Op::Read { sectors, .. } => self.sectors_read += sectors,
            Op::Write { .. } => self.write_commands += 1,
            Op::Pack { .. } => {
                self.write_commands += 1;
                self.packed_commands += 1;
            }
            Op::Barrier => {}
            Op::Flush => self.flushes += 1,
            Op::Remap(remap) => {
                self.remaps += 1;
                self.remap_pairs += remap.pairs.len() as u64;
            }
            Op::Discard { .. } => {}
        }
        let written = request.written();
        self.fua_commands += u64::from(written.iter().any(|(_, _, fua)| *fua));
        for piece in written.iter().flat_map(|(_, pieces, _)| *pieces) {
            let sectors = (piece.bytes.len() / SECTOR_BYTES) as u64;
            *self.sectors_written.entry(piece.class).or_default() += sectors;
        }
    }
}
