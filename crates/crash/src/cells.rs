//! The semantics matrix: all combinations of six properties of an eMMC device, and what each of
//! them means for a scheme.
//!
//! An expectation written after a run only explains the run, so the table [`RULES`] was committed
//! before the runs that it judges. The first rule that fits a combination decides. In a safe one no
//! cut violates a promise; an unsafe one is refused at mount, or some cut shows damage.

use blockdev::{Caps, PackOrder, Packed};
use rig::{FullFirst, Scheme};
use std::fmt;

/// The reliable writes of a device, by the byte WR_REL_PARAM of its EXT_CSD (JEDEC eMMC 5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reliable {
    /// EN_REL_WR = 1: a reliable write may have any length.
    Enhanced,
    /// EN_REL_WR = 0: a reliable write has one sector, so the driver sends longer ones in pieces.
    Legacy,
    /// The device has none: it is a plain disk with flushes only.
    Absent,
}

/// In which order cached writes reach the medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CacheOrder {
    /// In any order.
    Any,
    /// In order of arrival.
    Fifo,
    /// In any order, but none across a barrier command.
    Barrier,
}

/// One combination of promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// The device has a volatile cache.
    pub cache: bool,
    /// Its reliable writes.
    pub reliable: Reliable,
    /// WR_REL_SET: a cut damages nothing but what was being written.
    pub wr_rel_set: bool,
    /// The order that a cut keeps inside a packed command; `None`: there are no packed commands.
    pub pack: Option<PackOrder>,
    /// Sector size, bytes.
    pub sector: u32,
    /// The order in which its cache is written back.
    pub order: CacheOrder,
}

const BOTH: [bool; 2] = [true, false];
const RELIABLE: [Reliable; 3] = [Reliable::Enhanced, Reliable::Legacy, Reliable::Absent];
const PACKS: [Option<PackOrder>; 3] = [Some(PackOrder::Prefix), Some(PackOrder::AnySubset), None];
const SECTORS: [u32; 2] = [512, 4096];
const ORDERS: [CacheOrder; 3] = [CacheOrder::Any, CacheOrder::Fifo, CacheOrder::Barrier];

impl Cell {
    /// All cells, in a fixed order.
    pub fn all() -> Vec<Cell> {
        let mut cells = Vec::new();
        for cache in BOTH {
            for reliable in RELIABLE {
                for wr_rel_set in BOTH {
                    for pack in PACKS {
                        for sector in SECTORS {
                            cells.extend(ORDERS.map(|order| Cell {
                                cache,
                                reliable,
                                wr_rel_set,
                                pack,
                                sector,
                                order,
                            }));
                        }
                    }
                }
            }
        }
        cells
    }

    /// The promises of a device of `bytes` bytes in this cell.
    pub fn caps(&self, bytes: u64) -> Caps {
        Caps {
            sectors: bytes / 512,
            sector_bytes: self.sector,
            volatile_cache: self.cache,
            fua: self.reliable != Reliable::Absent,
            fua_flushes: false,
            // A legacy reliable write names one sector; the driver sends longer ones in pieces.
            reliable_granule: (self.reliable != Reliable::Absent).then_some(self.sector),
            tear_granule: None,
            atomic_write_bytes: 0,
            no_collateral: self.wr_rel_set,
            packed: self.pack.map(|order| Packed {
                order,
                writes_max: 63,
            }),
            cache_fifo: self.order == CacheOrder::Fifo,
            barrier: self.order == CacheOrder::Barrier,
            discard: true,
            remap: None,
            max_transfer_sectors: 256,
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pack = match self.pack {
            Some(PackOrder::Prefix) => "prefix",
            Some(PackOrder::AnySubset) => "any-subset",
            None => "none",
        };
        write!(
            f,
            "cache={} reliable={:?} wr_rel_set={} pack={pack} sector={} order={:?}",
            self.cache, self.reliable, self.wr_rel_set, self.sector, self.order
        )
    }
}

/// What a combination means for a scheme.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expect {
    /// No cut violates a promise.
    Safe,
    /// Some cut violates a promise.
    Damage,
    /// The mount is refused.
    Refused,
}

/// A combination and a scheme: the table answers what happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// The device.
    pub cell: Cell,
    /// The scheme.
    pub scheme: Scheme,
}

/// One line of the table.
pub struct Rule {
    /// Whether the line speaks of this question.
    pub fits: fn(&Question) -> bool,
    /// What happens if it does.
    pub expect: Expect,
    /// The reason, for reports.
    pub why: &'static str,
}

fn deltas_without_full_first(scheme: Scheme) -> bool {
    let off = |s: rig::JournalScheme| s.is_coalition() && s.full_first == FullFirst::Off;
    scheme.journal().is_some_and(off)
}

/// The table, in order of precedence; its last line fits everything.
pub static RULES: &[Rule] = &[
    Rule {
        fits: |q| !q.scheme.is_consistent(),
        expect: Expect::Damage,
        why: "without a journal nothing orders metadata: the positive control",
    },
    Rule {
        fits: |q| {
            let safe_home = q.cell.reliable != Reliable::Absent && q.cell.wr_rel_set;
            deltas_without_full_first(q.scheme) && !safe_home
        },
        expect: Expect::Refused,
        why: "a torn home write could not be repaired from deltas",
    },
    Rule {
        fits: |q| !q.cell.wr_rel_set,
        expect: Expect::Damage,
        why: "a normal write that the cut interrupts damages what is stored beside it: synced data, and metadata that \
              the log does not hold any more; no journal can bring that back",
    },
    Rule {
        fits: |q| q.cell.reliable == Reliable::Absent,
        expect: Expect::Damage,
        why: "the journal's superblock is one copy, written in place; a write that may leave garbage can destroy it",
    },
    Rule {
        fits: |_| true,
        expect: Expect::Safe,
        why: "commit records and home writes of deltas are old or new, data is flushed before them, and full images heal \
              torn home writes",
    },
];

impl Question {
    /// The rule that decides.
    pub fn rule(&self) -> &'static Rule {
        RULES
            .iter()
            .find(|rule| (rule.fits)(self))
            .expect("the last rule fits all")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_is_whole_and_every_rule_decides_some_cell() {
        let cells = Cell::all();
        assert_eq!(cells.len(), 2 * 3 * 2 * 3 * 2 * 3);
        let mut used = vec![0; RULES.len()];
        for cell in cells {
            for scheme in ["jbd2", "emmc", "emmc+full-first=off", "none"] {
                let scheme = scheme.parse().expect("a scheme");
                let question = Question { cell, scheme };
                let at = RULES.iter().position(|r| std::ptr::eq(r, question.rule()));
                used[at.expect("a rule of the table")] += 1;
            }
        }
        assert!(used.iter().all(|&n| n > 0), "{used:?}");
    }
}
