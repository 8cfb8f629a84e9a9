//! Chooses the section to clean: the greedy policy where room is needed now, cost-benefit where
//! there is time (Rosenblum and Ousterhout, "The Design and Implementation of a Log-Structured File
//! System", 3.6: benefit/cost = (1 - u) * age / (1 + u)).

use crate::segs::{Segments, State};
use ondisk::f2fs::{BLOCKS_PER_SEG, SegNo};
use std::collections::BTreeSet;

/// Candidates that one search looks at; the next one goes on there (Linux `max_victim_search`).
const SEARCH_MAX: u32 = 4096;

/// How a victim is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Policy {
    /// The section with the fewest valid blocks.
    Greedy,
    /// Few valid blocks that are old, because old blocks are likely to stay valid.
    CostBenefit,
}

impl Segments {
    /// The best section that has something to gain; none of `but`.
    pub(crate) fn victim(&self, policy: Policy, but: &BTreeSet<u32>) -> Option<u32> {
        self.with_table(|table, cursor| {
            let geo = *table.geo();
            let blocks = geo.segs_per_sec * BLOCKS_PER_SEG;
            let (oldest, newest) = match policy {
                Policy::Greedy => (0, 0),
                Policy::CostBenefit => table.ages(),
            };
            let mut best: Option<(u64, u32)> = None;
            let mut seen = 0;
            let first = *cursor;
            for section in (0..geo.sections).map(|i| (first + i) % geo.sections) {
                let segs =
                    (section * geo.segs_per_sec..(section + 1) * geo.segs_per_sec).map(SegNo);
                let (mut valid, mut mtime, mut used) = (0, 0, 0);
                let mut open = false;
                for seg in segs {
                    open |= table.state(seg) == State::Open;
                    used += u64::from(table.state(seg) == State::Used);
                    valid += table.valid_in(seg);
                    mtime += if table.state(seg) == State::Used {
                        table.mtime(seg)
                    } else {
                        0
                    };
                }
                if open || used == 0 || valid == blocks || but.contains(&section) {
                    continue;
                }
                let worth = match policy {
                    Policy::Greedy => u64::from(blocks - valid),
                    Policy::CostBenefit => benefit(valid, blocks, mtime / used, oldest, newest),
                };
                if best.is_none_or(|(most, _)| worth > most) {
                    best = Some((worth, section));
                }
                seen += 1;
                if seen == SEARCH_MAX {
                    *cursor = (section + 1) % geo.sections;
                    break;
                }
            }
            best.map(|(_, section)| section)
        })
    }
}

/// Benefit over cost, in ten-thousandths; utilization and age in percent.
fn benefit(valid: u32, blocks: u32, mtime: u64, oldest: u64, newest: u64) -> u64 {
    let used = u64::from(valid) * 100 / u64::from(blocks);
    let age = match newest.saturating_sub(oldest) {
        0 => 100,
        span => 100 - (mtime.clamp(oldest, newest) - oldest) * 100 / span,
    };
    // One, so that among the youngest the emptiest still wins.
    (100 - used) * (age + 1) * 100 / (100 + used)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emptier_and_the_older_the_better() {
        let worth = |valid, mtime| benefit(valid, 512, mtime, 100, 200);
        assert!(worth(10, 150) > worth(300, 150));
        assert!(worth(300, 100) > worth(300, 190));
        assert!(worth(200, 100) > worth(100, 195), "age outweighs");
        assert!(worth(10, 200) > worth(400, 200));
        assert!(benefit(5, 512, 7, 7, 7) > benefit(6 * 51, 512, 7, 7, 7));
        assert!(
            benefit(5, 512, u64::MAX, 0, u64::MAX / 100) > 0,
            "hostile ages"
        );
    }
}
