//! Chooses which segment a log writes next.
//!
//! LFS opens a free segment and writes it from end to end. SSR opens a used segment and fills its
//! holes: this needs no cleaning, but the writes are scattered, so a log does it only when free
//! sections run low. Both searches are deterministic; the one for holes looks at a bounded number
//! of candidates, and the next search continues behind them (Linux `max_victim_search`).

use super::OpenLog;
use super::table::{State, Table};
use ondisk::f2fs::{AllocType, BLOCKS_PER_SEG, Log, SegNo};

/// Candidates that one search for holes looks at.
const SEARCH_MAX: u32 = 4096;

/// What bears on the choice beside the table.
pub(super) struct Rules<'a> {
    /// `mode=lfs`: holes are not filled.
    pub lfs: bool,
    /// Nodes may fill holes: their footers tell a stale neighbour in a chain from a new one.
    pub node_holes: bool,
    /// Number of free sections at or below which holes are filled.
    pub low: u32,
    /// Sections that are being cleaned.
    pub cleaning: &'a [u32],
    /// Segments that are being discarded.
    pub discarding: &'a [SegNo],
}

impl Rules<'_> {
    fn is_out(&self, table: &Table, seg: SegNo) -> bool {
        self.cleaning.contains(&table.geo().section(seg)) || self.discarding.contains(&seg)
    }
}

/// The next segment of a log and how it is written; `None` if there is no room at all. `cursor`:
/// where the last search for holes ended.
pub(super) fn choose(
    table: &Table,
    log: &OpenLog,
    rules: &Rules<'_>,
    cursor: &mut SegNo,
) -> Option<(SegNo, AllocType)> {
    let lfs = |seg| (seg, AllocType::Lfs);
    let neighbour = || neighbour_of(table, log.segno).filter(|&seg| !rules.is_out(table, seg));
    let holes = !rules.lfs && (rules.node_holes || !log.log.is_node());
    if log.alloc == AllocType::Lfs
        && let Some(seg) = neighbour()
    {
        return Some(lfs(seg));
    }
    let mut ssr = || {
        let found = with_holes(table, log.log, rules, cursor);
        found.map(|seg| (seg, AllocType::Ssr))
    };
    if holes && table.free_sections() <= rules.low {
        return ssr().or_else(|| free(table, log.segno, rules).map(lfs));
    }
    let found = free(table, log.segno, rules).map(lfs);
    found.or_else(|| if holes { ssr() } else { None })
}

/// The next segment of the same section, if it is free.
fn neighbour_of(table: &Table, seg: SegNo) -> Option<SegNo> {
    let next = SegNo(seg.0 + 1);
    let geo = table.geo();
    let same = next.0 < geo.segments_main && geo.section(next) == geo.section(seg);
    (same && table.state(next) == State::Free).then_some(next)
}

/// A free segment: of the next section that is free as a whole, or else any.
fn free(table: &Table, from: SegNo, rules: &Rules<'_>) -> Option<SegNo> {
    let geo = table.geo();
    let usable = |seg: &SegNo| table.state(*seg) == State::Free && !rules.is_out(table, *seg);
    if table.free_sections() > 0 {
        let first = geo.section(from) + 1;
        let sections = (0..geo.sections).map(|i| (first + i) % geo.sections);
        let found = sections
            .filter(|&s| table.section_is_free(s))
            .map(|s| SegNo(s * geo.segs_per_sec))
            .find(usable);
        if found.is_some() {
            return found;
        }
    }
    if table.free() == 0 {
        return None;
    }
    table.round(from).find(usable)
}

/// A used segment with usable blocks, of the log's own kind if there is one, else of the nearest
/// temperature: data and nodes never share a segment. Of one kind the one with the most holes.
fn with_holes(table: &Table, log: Log, rules: &Rules<'_>, cursor: &mut SegNo) -> Option<SegNo> {
    let mut best: [Option<(u32, SegNo)>; 3] = [None; 3];
    let mut seen = 0;
    for seg in table.round(*cursor) {
        let kind = table.kind(seg);
        let held = table.held_in(seg);
        let fits = table.state(seg) == State::Used && kind.is_node() == log.is_node();
        if !fits || held == BLOCKS_PER_SEG || rules.is_out(table, seg) {
            continue;
        }
        let best = &mut best[kind.heat()];
        if best.is_none_or(|(least, _)| held < least) {
            *best = Some((held, seg));
        }
        seen += 1;
        if seen == SEARCH_MAX {
            *cursor = seg;
            break;
        }
    }
    let order = match log.heat() {
        0 => [0, 1, 2],
        1 => [1, 2, 0],
        _ => [2, 1, 0],
    };
    order
        .into_iter()
        .find_map(|heat| best[heat])
        .map(|(_, seg)| seg)
}
