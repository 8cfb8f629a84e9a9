//! What became of a write, seen in the crash state: each of its sectors is compared with what stood
//! there before, what the write brought, and what later writes brought.

use super::{Fate, Site};
use base::{BLOCK_BYTES, Bytes, SECTOR_BYTES, SECTORS_PER_BLOCK, Time, fill};
use blockdev::Image;
use blockdev::spec::{Kind, Write};
use blockdev::trace::What;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All writes of the run up to the cut, of which each one is judged.
pub(super) struct Fates<'a> {
    at: Time,
    image: &'a Image,
    /// Start and end of each completed flush.
    flushes: Vec<(Time, Time)>,
    /// The writes that touch a block, in order, each with the number of its command.
    by_block: BTreeMap<u64, Vec<(usize, &'a Write)>>,
}

impl<'a> Fates<'a> {
    pub fn new(site: &Site<'a>) -> Fates<'a> {
        let mut fates = Fates {
            at: site.at,
            image: site.image,
            flushes: Vec::new(),
            by_block: BTreeMap::new(),
        };
        let steps = site.trace.steps.iter().enumerate();
        for (number, step) in steps.filter(|(_, step)| step.start < site.at) {
            match &step.what {
                What::Write(write) => fates.enter(number, write),
                What::Pack(writes) => writes.iter().for_each(|w| fates.enter(number, w)),
                What::Remap(done) => done.writes.iter().for_each(|w| fates.enter(number, w)),
                What::Flush if step.end <= site.at => fates.flushes.push((step.start, step.end)),
                What::Flush | What::Barrier => {}
            }
        }
        fates
    }

    fn enter(&mut self, number: usize, write: &'a Write) {
        let end = (write.lba.0 + write.sectors).div_ceil(SECTORS_PER_BLOCK);
        // A discard of blocks that held nothing changes nothing, and may be as long as the device.
        let first = write.lba.0 / SECTORS_PER_BLOCK;
        let all = (first..end).filter(|_| write.kind != Kind::Discard);
        let held = write.prev.iter().map(|(block, _)| *block);
        let held = held.filter(|_| write.kind == Kind::Discard);
        for block in all.chain(held) {
            self.by_block
                .entry(block)
                .or_default()
                .push((number, write));
        }
    }

    fn durable(&self, write: &Write) -> bool {
        let at_once = write.kind.is_durable() && write.end <= self.at;
        at_once || self.flushes.iter().any(|(start, _)| write.end <= *start)
    }

    pub fn of(&self, number: usize, write: &Write, sectors: std::ops::Range<u64>) -> Fate {
        if write.start >= self.at {
            return Fate::Never;
        }
        let mut found = Found::default();
        self.look(number, write, sectors, &mut found);
        found.fate(self.durable(write))
    }

    /// The fate of several writes of one command, which share its span, as one.
    pub fn of_all(&self, number: usize, writes: &[Arc<Write>]) -> Fate {
        let mut found = Found::default();
        let mut durable = false;
        for write in writes {
            if write.start >= self.at {
                return Fate::Never;
            }
            let sectors = write.lba.0..write.lba.0 + write.sectors;
            self.look(number, write, sectors, &mut found);
            durable |= self.durable(write);
        }
        found.fate(durable)
    }

    fn look(
        &self,
        number: usize,
        write: &Write,
        sectors: std::ops::Range<u64>,
        counts: &mut Found,
    ) {
        for block in sectors.start / SECTORS_PER_BLOCK..sectors.end.div_ceil(SECTORS_PER_BLOCK) {
            let Some(writes) = self.by_block.get(&block) else {
                continue;
            };
            // A discard changes only what held something.
            if write.kind == Kind::Discard && !write.prev.iter().any(|(n, _)| *n == block) {
                continue;
            }
            let found = self.image.block(block);
            let here = (block * SECTORS_PER_BLOCK).max(sectors.start)
                ..((block + 1) * SECTORS_PER_BLOCK).min(sectors.end);
            for sector in here {
                match sector_fate(number, write, sector, writes, &found) {
                    SectorFate::New => counts.new += 1,
                    SectorFate::Old => counts.old += 1,
                    SectorFate::Replaced => counts.replaced += 1,
                    SectorFate::Garbage => counts.garbage += 1,
                }
            }
        }
    }
}

/// Numbers of sectors of a write, by what they hold.
#[derive(Default)]
struct Found {
    new: u64,
    old: u64,
    replaced: u64,
    garbage: u64,
}

impl Found {
    fn fate(self, durable: bool) -> Fate {
        let Found {
            new,
            old,
            replaced,
            garbage,
        } = self;
        match (durable, new, old, garbage) {
            (true, _, 0, 0) => Fate::Durable,
            (true, ..) => Fate::Damaged,
            (false, 0, 0, 0) if replaced > 0 => Fate::Replaced,
            (false, _, 0, 0) => Fate::Kept,
            (false, 0, _, 0) if replaced == 0 => Fate::Lost,
            (false, 0, 0, _) if replaced == 0 => Fate::Garbage,
            (false, ..) => Fate::Torn {
                new: new + replaced,
                old,
                garbage,
            },
        }
    }
}

enum SectorFate {
    New,
    Old,
    Replaced,
    Garbage,
}

fn sector_fate(
    number: usize,
    write: &Write,
    sector: u64,
    writes: &[(usize, &Write)],
    found: &Bytes,
) -> SectorFate {
    let within = (sector % SECTORS_PER_BLOCK) as usize * SECTOR_BYTES;
    let found = &found[within..within + SECTOR_BYTES];
    if content(write, sector).is_some_and(|new| new[..] == *found) {
        return SectorFate::New;
    }
    let same = |w: &Write| std::ptr::eq(w, write);
    let place = writes.iter().position(|(n, w)| *n == number && same(w));
    let (older, newer) = writes.split_at(place.map_or(writes.len(), |place| place + 1));
    let has = |w: &Write| content(w, sector).is_some_and(|new| new[..] == *found);
    let had = |w: &Write| before(w, sector)[..] == *found;
    if newer.iter().any(|(_, w)| has(w)) {
        return SectorFate::Replaced;
    }
    match older.iter().any(|(_, w)| has(w) || had(w)) {
        true => SectorFate::Old,
        false => SectorFate::Garbage,
    }
}

/// What `write` puts into a sector; `None` if it does not touch the sector.
fn content(write: &Write, sector: u64) -> Option<Bytes> {
    let mut rest = sector
        .checked_sub(write.lba.0)
        .filter(|n| *n < write.sectors)?;
    for bytes in &write.new {
        let sectors = (bytes.len() / SECTOR_BYTES) as u64;
        if rest < sectors {
            let from = rest as usize * SECTOR_BYTES;
            return Some(bytes.slice(from..from + SECTOR_BYTES));
        }
        rest -= sectors;
    }
    Some(fill::zeros(SECTOR_BYTES))
}

/// What stood in a sector before `write`.
fn before(write: &Write, sector: u64) -> Bytes {
    let block = sector / SECTORS_PER_BLOCK;
    let held = write.prev.iter().find(|(n, _)| *n == block);
    let bytes = held.map_or_else(|| fill::zeros(BLOCK_BYTES), |(_, bytes)| bytes.clone());
    let from = (sector % SECTORS_PER_BLOCK) as usize * SECTOR_BYTES;
    bytes.slice(from..from + SECTOR_BYTES)
}
