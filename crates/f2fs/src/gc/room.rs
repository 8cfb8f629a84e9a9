//! How many sections are free, and how many must be kept free: what the kernel calls
//! `has_not_enough_free_secs`.
//!
//! The next checkpoint needs segments for dirty nodes and directory blocks, and counts each
//! directory block twice, because writing it makes a node dirty. Below that lies the reserve
//! (`rsvd_segment_count`), from which cleaning takes the blocks for its copies.
//!
//! On small volumes mkfs reserves more than is left once users have filled their share: no cleaning
//! could ever free that much. So at most three quarters are kept of what would be free if all valid
//! blocks lay side by side; filling holes (SSR) provides the rest.
//!
//! With a journal an apply writes what is dirty, and after a cut recovery writes the same blocks
//! once more: each node that a record in the ring concerns, each directory block and the node that
//! names it. The dirty counts are exactly these, whatever the size of the ring. So an operation
//! that begins while what is dirty would fill half of the free segments applies first
//! ([`F2fs::held_up`]). The other half is for what operations already under way add, and for a
//! recovery, which has only the segments that are free at the moment of the cut, because nothing is
//! reused before an apply is durable.

use crate::F2fs;
use crate::journal::Load;
use ondisk::f2fs::{BLOCKS_PER_SEG, Log};

/// Logs have a section each.
const LOGS: u32 = Log::ALL.len() as u32;

/// What is free and what is spoken for, in sections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Room {
    free: u32,
    /// For what is dirty.
    pressure: u32,
    reserved: u32,
    /// Free ones if there were no holes.
    attainable: u32,
    /// What is dirty fits into the segments that are open.
    open_ones_do: bool,
}

/// Up to this many dirty blocks find room in the holes of open segments, so that no room has to be
/// kept for them.
const FEW: u64 = 128;

impl Room {
    pub fn is_low(&self) -> bool {
        let kept = self.kept();
        self.free < kept || (self.free == kept && (kept == 0 || !self.open_ones_do))
    }

    /// Sections to clean.
    pub fn sections_wanted(&self) -> u32 {
        (self.kept() + 1).saturating_sub(self.free)
    }

    /// With a journal: an apply alone makes room, as it writes what is dirty.
    pub fn is_for_apply(&self) -> bool {
        self.pressure > 0
            && !Room {
                pressure: 0,
                ..*self
            }
            .is_low()
    }

    fn kept(&self) -> u32 {
        let wished = self.pressure + self.reserved;
        wished.min(self.attainable * 3 / 4)
    }
}

impl F2fs {
    /// Free sections do not do for what is dirty and the reserve.
    pub(super) fn is_low(&self) -> bool {
        self.room().is_low()
    }

    /// What is dirty would fill half of the segments that are free.
    pub(super) fn is_full_of_dirt(&self) -> bool {
        let (dirty, free) = self.dirt_and_free();
        dirty > FEW && 2 * dirty > free
    }

    /// What is dirty, of half of the segments that are free.
    pub(crate) fn dirt(&self) -> Load {
        let (dirty, free) = self.dirt_and_free();
        match dirty > FEW {
            true => Load::of(2 * dirty, free),
            false => Load::default(),
        }
    }

    /// Blocks that an apply would write for what is dirty, and free blocks.
    fn dirt_and_free(&self) -> (u64, u64) {
        let dirty = self.nodes.dirty() + 2 * self.pages.dirty_meta_pages();
        let free = u64::from(self.segs.free()) * u64::from(BLOCKS_PER_SEG);
        (dirty, free)
    }

    pub(super) fn room(&self) -> Room {
        let nodes = self.nodes.dirty();
        let dirs = self.pages.dirty_meta_pages();
        let per_section = u64::from(BLOCKS_PER_SEG * self.geo.segs_per_sec);
        let sections = |blocks: u64| blocks.div_ceil(per_section) as u32;
        // f2fs-space-S6.
        let pressure = sections(nodes) + 2 * sections(dirs);
        self.segs.set_pressure(pressure);
        let free = self.segs.free_sections();
        let reserved = self.segs.reserved_sections;
        let full = sections(self.segs.valid_blocks()) + LOGS;
        let attainable = self.geo.sections.saturating_sub(full);
        let open_ones_do = free == pressure + reserved && {
            let fits = |log: &Log| self.segs.left_in(*log) >= nodes;
            Log::NODE.iter().all(fits) && self.segs.left_in(Log::HotData) >= dirs
        };
        Room {
            free,
            pressure,
            reserved,
            attainable,
            open_ones_do,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_means_that_what_is_dirty_would_need_the_reserve() {
        let room = |free, pressure, open_ones_do| Room {
            free,
            pressure,
            reserved: 6,
            attainable: 40,
            open_ones_do,
        };
        assert!(!room(9, 2, false).is_low());
        assert!(room(8, 2, false).is_low());
        assert!(!room(8, 2, true).is_low(), "the open segments do");
        assert!(room(7, 2, true).is_low());
        assert_eq!(room(7, 2, true).sections_wanted(), 2);
        assert_eq!(room(20, 2, true).sections_wanted(), 0);
        let small = |free| Room {
            attainable: 10,
            ..room(free, 2, true)
        };
        assert!(
            !small(7).is_low(),
            "8 would be kept, 10 could be free at best"
        );
        assert!(small(6).is_low());
    }

    #[test]
    fn an_apply_helps_where_dirt_is_all_that_is_in_the_way() {
        let room = |free, pressure| Room {
            free,
            pressure,
            reserved: 6,
            attainable: 40,
            open_ones_do: true,
        };
        assert!(room(9, 4).is_low() && room(9, 4).is_for_apply());
        assert!(room(5, 4).is_low() && !room(5, 4).is_for_apply());
        assert!(!room(9, 0).is_for_apply(), "nothing is dirty");
    }
}
