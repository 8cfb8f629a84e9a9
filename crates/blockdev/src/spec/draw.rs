//! One legal state of the medium.

use super::mood::{Mood, Target};
use super::order::{Fate, Fates};
use super::{Entry, Kind, Ledger, Write, blocks_of};
use crate::Caps;
use base::collections::mix;
use base::{BLOCK_BYTES, Bytes, Rng, SECTOR_BYTES, SECTORS_PER_BLOCK, Time, fill};
use std::collections::BTreeMap;
use std::ops::Range;

/// The decisions of one cut.
pub(super) struct Draw<'a> {
    ledger: &'a Ledger,
    at: Time,
    seed: u64,
    caps: &'a Caps,
    mood: Mood,
    target: Option<Target>,
    fates: Fates,
}

/// Where the content of a sector comes from; numbers are places in the ledger.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Visible,
    Before(usize),
    Of(usize),
    Garbage,
}

impl<'a> Draw<'a> {
    pub fn new(ledger: &'a Ledger, at: Time, seed: u64, caps: &'a Caps) -> Draw<'a> {
        let seed = mix(seed ^ mix(at.0 ^ 0x5bec));
        Draw::with_mood(ledger, at, seed, caps, Mood::draw(seed))
    }

    pub fn lost(ledger: &'a Ledger, at: Time, caps: &'a Caps) -> Draw<'a> {
        Draw::with_mood(ledger, at, 0, caps, Mood::Oldest)
    }

    fn with_mood(ledger: &'a Ledger, at: Time, seed: u64, caps: &'a Caps, mood: Mood) -> Draw<'a> {
        let fates = Fates::decide(ledger, at, caps, mood, seed);
        let free: Vec<&Entry> = ledger
            .entries
            .iter()
            .zip(&fates.of)
            .filter(|(_, fate)| **fate == Fate::Free)
            .map(|(entry, _)| entry)
            .collect();
        let target = Target::choose(&free, |n| pick(seed, [7, n, 0]));
        Draw {
            ledger,
            at,
            seed,
            caps,
            mood,
            target,
            fates,
        }
    }

    fn entry(&self, place: usize) -> &'a Entry {
        &self.ledger.entries[place]
    }

    /// The content of `block`, which `writes` touch, in order.
    pub fn block(&self, block: u64, writes: &[usize], visible: impl Fn(u64) -> Bytes) -> Bytes {
        let first = block * SECTORS_PER_BLOCK;
        let sources: [Source; SECTORS_PER_BLOCK as usize] =
            std::array::from_fn(|s| self.sector(first + s as u64, writes));
        if let Some(whole) = self.whole(first, &sources) {
            return whole;
        }
        let mut out = match sources.contains(&Source::Visible) {
            true => visible(block).to_vec(),
            false => vec![0; BLOCK_BYTES],
        };
        for (s, source) in sources.into_iter().enumerate() {
            let into = &mut out[s * SECTOR_BYTES..][..SECTOR_BYTES];
            let lba = first + s as u64;
            match source {
                Source::Visible => {}
                Source::Before(place) => {
                    into.copy_from_slice(&old_run(&self.entry(place).write, lba, SECTOR_BYTES));
                }
                Source::Of(place) => {
                    let new = new_run(&self.entry(place).write, lba, SECTOR_BYTES);
                    into.copy_from_slice(&new.expect("pieces are whole sectors"));
                }
                Source::Garbage => into.copy_from_slice(&self.garbage(lba)),
            }
        }
        fill::compact(out.into())
    }

    /// The block without a copy, if all of it has one source.
    fn whole(&self, first: u64, sources: &[Source]) -> Option<Bytes> {
        let source = sources[0];
        if sources.iter().any(|s| *s != source) {
            return None;
        }
        let bytes = sources.len() * SECTOR_BYTES;
        match source {
            Source::Before(place) => Some(old_run(&self.entry(place).write, first, bytes)),
            Source::Of(place) => new_run(&self.entry(place).write, first, bytes),
            Source::Visible | Source::Garbage => None,
        }
    }

    /// The newest write that the cut keeps wins; what lies below it is history.
    fn sector(&self, lba: u64, writes: &[usize]) -> Source {
        let covering = || {
            let covers = |w: &Write| w.lba.0 <= lba && lba < w.lba.0 + w.sectors;
            let mine = move |place: &usize| covers(&self.entry(*place).write);
            writes.iter().copied().filter(mine)
        };
        let Some(first) = covering().next() else {
            return Source::Visible;
        };
        let mut kept = Source::Before(first);
        let mut open_from = 0;
        for place in covering().filter(|p| self.fates.of[*p] == Fate::Durable) {
            kept = Source::Of(place);
            open_from = place + 1;
        }
        for place in covering().filter(|p| *p >= open_from) {
            if self.garbled(place, lba) && !covering().any(|p| p > place && self.protects(p)) {
                kept = Source::Garbage;
            } else if self.kept(place, lba) {
                kept = Source::Of(place);
            }
        }
        kept
    }

    /// Old or new, never garbage: what lies below this write when it is programmed is whole.
    fn protects(&self, place: usize) -> bool {
        let w = &self.entry(place).write;
        w.kind == Kind::Fua
            && self.caps.reliable_granule.is_some()
            && self.fates.of[place] != Fate::Lost
    }

    fn kept(&self, place: usize, lba: u64) -> bool {
        let entry = self.entry(place);
        match self.fates.of[place] {
            Fate::Lost => return false,
            Fate::Durable => return true,
            Fate::Sure | Fate::Free => {}
        }
        if let Some(written_back) = self.replaced(place, lba) {
            return written_back;
        }
        if self.fates.of[place] == Fate::Sure {
            return true;
        }
        let w = &entry.write;
        let by = |what, min| {
            pick(
                self.seed,
                [what, entry.id, unit(self.caps, w, lba, min).start],
            )
        };
        let per_write = || pick(self.seed, [1, entry.id, 0]) & 1 == 1;
        match (self.mood, self.target) {
            (Mood::Oldest, _) => false,
            (Mood::Newest, _) => true,
            (Mood::PerWrite, _) => per_write(),
            (Mood::PerBlock, _) => by(2, BLOCK_BYTES) & 1 == 1,
            (Mood::Only(grain), Some(t)) => t.hits(self.caps, entry, lba, grain),
            (Mood::AllBut(grain), Some(t)) => !t.hits(self.caps, entry, lba, grain),
            (Mood::Tail, Some(t)) if t.id == entry.id => t.before_the_break(self.caps, entry, lba),
            (Mood::Tail, Some(t)) => match t.choice >> 1 & 3 {
                0 => false,
                1 => per_write(),
                _ => true,
            },
            _ => by(3, 0) & 1 == 1,
        }
    }

    /// Of a granule that was replaced in a FIFO cache: true if it was written back before.
    fn replaced(&self, place: usize, lba: u64) -> Option<bool> {
        if self.fates.replaced.is_empty() {
            return None;
        }
        let granule = unit(self.caps, &self.entry(place).write, lba, 0).start;
        self.fates.replaced.get(&(place, granule)).copied()
    }

    fn garbled(&self, place: usize, lba: u64) -> bool {
        if self.mood != Mood::Garbage || self.fates.of[place] != Fate::Free {
            return false;
        }
        let entry = self.entry(place);
        let w = &entry.write;
        let promised = match w.kind {
            Kind::Normal | Kind::Through => self.caps.tear_granule,
            Kind::Fua => self.caps.reliable_granule,
            Kind::Discard => Some(0),
        };
        if promised.is_some() || atomic(self.caps, w) || self.replaced(place, lba).is_some() {
            return false;
        }
        let rare = pick(self.seed, [8, 0, 0]) & 1 == 1;
        let one_in = if w.end > self.at || !rare { 3 } else { 16 };
        let granule = unit(self.caps, w, lba, 0).start;
        pick(self.seed, [4, entry.id, granule]).is_multiple_of(one_in)
    }

    fn garbage(&self, lba: u64) -> Bytes {
        let mut rng = Rng::named(self.seed ^ lba, "spec garbage");
        match rng.below(4) {
            0 => fill::filled(0xFF, SECTOR_BYTES),
            _ => {
                let mut junk = vec![0; SECTOR_BYTES];
                rng.fill(&mut junk);
                junk.into()
            }
        }
    }

    /// Damages stored sectors that share a programming unit with a normal write that reaches the medium at the cut, where the
    /// Caps allow it: one in flight, or a cached one that is just being written back.
    pub fn collateral(&self, visible: &impl Fn(u64) -> Bytes, out: &mut BTreeMap<u64, Bytes>) {
        if self.caps.no_collateral || self.mood != Mood::Garbage {
            return;
        }
        for (entry, fate) in self.ledger.entries.iter().zip(&self.fates.of) {
            let w = &entry.write;
            let normal = matches!(w.kind, Kind::Normal | Kind::Through);
            let written_back = || pick(self.seed, [6, entry.id, 0]).is_multiple_of(8);
            if normal && *fate == Fate::Free && (w.end > self.at || written_back()) {
                self.damage_around(w, visible, out);
            }
        }
    }

    fn damage_around(
        &self,
        w: &Write,
        visible: &impl Fn(u64) -> Bytes,
        out: &mut BTreeMap<u64, Bytes>,
    ) {
        /// 4 KiB blocks in a programming unit (16 KiB page).
        const UNIT_BLOCKS: u64 = 4;
        let span = blocks_of(w);
        let unit = span.start / UNIT_BLOCKS * UNIT_BLOCKS;
        let end = (span.end.div_ceil(UNIT_BLOCKS) * UNIT_BLOCKS)
            .min(self.caps.sectors / SECTORS_PER_BLOCK);
        let sectors_of = |block: u64| block * SECTORS_PER_BLOCK..(block + 1) * SECTORS_PER_BLOCK;
        let named = w.lba.0..w.lba.0 + w.sectors;
        for block in unit..end {
            let hit: Vec<u64> = sectors_of(block)
                .filter(|lba| {
                    !named.contains(lba) && pick(self.seed, [5, *lba, 0]).is_multiple_of(3)
                })
                .collect();
            if hit.is_empty() {
                continue;
            }
            let drawn = out.get(&block).cloned();
            let mut content = drawn.unwrap_or_else(|| visible(block)).to_vec();
            for lba in hit {
                content[(lba % SECTORS_PER_BLOCK) as usize * SECTOR_BYTES..][..SECTOR_BYTES]
                    .copy_from_slice(&self.garbage(lba));
            }
            out.insert(block, content.into());
        }
    }
}

/// A number that depends on the seed and on `what` only.
pub(super) fn pick(seed: u64, what: [u64; 3]) -> u64 {
    what.iter().fold(seed, |h, x| mix(h ^ mix(*x)))
}

/// True if this write is all or nothing by `atomic_write_bytes`.
fn atomic(caps: &Caps, w: &Write) -> bool {
    let bytes = w.sectors * SECTOR_BYTES as u64;
    bytes <= u64::from(caps.atomic_write_bytes)
        && bytes.is_power_of_two()
        && (w.lba.0 * SECTOR_BYTES as u64).is_multiple_of(bytes)
}

/// The sectors of `w` that the device keeps or loses together with `lba`: by its promises, and at least aligned `min` bytes.
pub(super) fn unit(caps: &Caps, w: &Write, lba: u64, min: usize) -> Range<u64> {
    let all = w.lba.0..w.lba.0 + w.sectors;
    if atomic(caps, w) {
        return all;
    }
    let promised = match w.kind {
        Kind::Fua => caps.reliable_granule,
        Kind::Normal | Kind::Through => caps.tear_granule,
        Kind::Discard => None,
    };
    let bytes = promised.unwrap_or(0).max(caps.sector_bytes).max(min as u32);
    let sectors = u64::from(bytes) / SECTOR_BYTES as u64;
    let start = lba / sectors * sectors;
    start.max(all.start)..(start + sectors).min(all.end)
}

/// `bytes` bytes of the new content of `w` from sector `lba` on; `None` if they do not lie in one piece.
fn new_run(w: &Write, lba: u64, bytes: usize) -> Option<Bytes> {
    let mut skip = ((lba - w.lba.0) as usize) * SECTOR_BYTES;
    for piece in &w.new {
        if skip < piece.len() {
            let fits = skip + bytes <= piece.len();
            return fits.then(|| piece.slice(skip..skip + bytes));
        }
        skip -= piece.len();
    }
    Some(fill::zeros(bytes))
}

/// `bytes` bytes of one block before `w`, from sector `lba` on.
fn old_run(w: &Write, lba: u64, bytes: usize) -> Bytes {
    let block = lba / SECTORS_PER_BLOCK;
    let skip = (lba % SECTORS_PER_BLOCK) as usize * SECTOR_BYTES;
    match w.prev.binary_search_by_key(&block, |(b, _)| *b) {
        Ok(i) => w.prev[i].1.slice(skip..skip + bytes),
        Err(_) => fill::zeros(bytes),
    }
}
