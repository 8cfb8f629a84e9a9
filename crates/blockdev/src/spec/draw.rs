//! Computes one legal state of the medium.

use super::ChoiceError;
use super::exact::{Exact, Form};
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
    pub(super) ledger: &'a Ledger,
    pub(super) at: Time,
    seed: u64,
    pub(super) caps: &'a Caps,
    mood: Mood,
    target: Option<Target>,
    pub(super) fates: Fates,
    /// For an exact state, by place: the fate of a write that is free and named.
    pub(super) forms: Vec<Option<Form>>,
    pub(super) exact: Option<&'a Exact>,
}

/// Where the content of a block comes from; numbers are places in the ledger.
pub(super) enum Drawn {
    /// As reads see it.
    Visible,
    /// As it was before the write at this place.
    Old(usize),
    /// As the write at this place left it.
    New(usize),
    /// From several places.
    Mixed(Bytes),
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
        Draw::with_mood(ledger, at, caps, (Mood::draw(seed), seed))
    }

    pub fn lost(ledger: &'a Ledger, at: Time, caps: &'a Caps) -> Draw<'a> {
        Draw::with_mood(ledger, at, caps, (Mood::Oldest, 0))
    }

    /// The state that `exact` names.
    pub fn exact(
        ledger: &'a Ledger,
        at: Time,
        caps: &'a Caps,
        exact: &'a Exact,
    ) -> Result<Draw<'a>, ChoiceError> {
        let fates = Fates::decide(ledger, at, caps, (Mood::Exact, 0), Some(exact));
        let form = |entry: &Entry| exact.form(entry.lead);
        let draw = Draw {
            ledger,
            at,
            seed: 0,
            caps,
            mood: Mood::Exact,
            target: None,
            fates,
            forms: ledger.entries.iter().map(form).collect(),
            exact: Some(exact),
        };
        match draw.refusal() {
            None => Ok(draw),
            Some(why) => Err(ChoiceError {
                text: exact.to_string(),
                why,
            }),
        }
    }

    fn with_mood(
        ledger: &'a Ledger,
        at: Time,
        caps: &'a Caps,
        (mood, seed): (Mood, u64),
    ) -> Draw<'a> {
        let fates = Fates::decide(ledger, at, caps, (mood, seed), None);
        let free: Vec<&Entry> = ledger
            .entries
            .iter()
            .zip(&fates.of)
            .filter(|(entry, fate)| entry.leads() && **fate == Fate::Free)
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
            forms: Vec::new(),
            exact: None,
        }
    }

    pub(super) fn entry(&self, place: usize) -> &'a Entry {
        &self.ledger.entries[place]
    }

    /// The content of `block`, which `writes` touch, in order.
    pub fn block(&self, block: u64, writes: &[usize], visible: impl Fn(u64) -> Bytes) -> Bytes {
        let first = block * SECTORS_PER_BLOCK;
        match self.drawn(block, writes, &visible) {
            Drawn::Visible => fill::compact(visible(block)),
            Drawn::Old(place) => self.old(place, first),
            Drawn::New(place) => self.new_block(place, first),
            Drawn::Mixed(bytes) => bytes,
        }
    }

    /// The block at sector `first` before the write at `place`.
    pub fn old(&self, place: usize, first: u64) -> Bytes {
        old_run(&self.entry(place).write, first, BLOCK_BYTES)
    }

    /// The block at sector `first` as the write at `place` left it, which covers it.
    pub fn new_block(&self, place: usize, first: u64) -> Bytes {
        new_block(&self.entry(place).write, first)
    }

    /// Where the content of `block` comes from.
    pub fn drawn(&self, block: u64, writes: &[usize], visible: &impl Fn(u64) -> Bytes) -> Drawn {
        let first = block * SECTORS_PER_BLOCK;
        let whole = self.whole(first, writes);
        let sources: [Source; SECTORS_PER_BLOCK as usize] =
            std::array::from_fn(|s| whole.unwrap_or_else(|| self.sector(first + s as u64, writes)));
        if sources.iter().all(|s| *s == sources[0]) {
            match sources[0] {
                Source::Visible => return Drawn::Visible,
                Source::Before(place) => return Drawn::Old(place),
                Source::Of(place) => return Drawn::New(place),
                Source::Garbage => {}
            }
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
        Drawn::Mixed(fill::compact(out.into()))
    }

    /// The single source of the block at sector `first`, if it can be found without looking at its
    /// sectors: each write covers the whole block and is kept or lost as a whole.
    fn whole(&self, first: u64, writes: &[usize]) -> Option<Source> {
        if !self.fates.replaced.is_empty() {
            return None;
        }
        let mut kept = Source::Before(*writes.first()?);
        for place in writes {
            let w = &self.entry(*place).write;
            if w.lba.0 > first || w.lba.0 + w.sectors < first + SECTORS_PER_BLOCK {
                return None;
            }
            let all = match (self.fates.of[*place], self.mood) {
                (Fate::Lost, _) => false,
                (Fate::Durable | Fate::Sure, _) => true,
                (_, Mood::Oldest) => false,
                (_, Mood::Newest) => true,
                (_, Mood::PerWrite) => self.per_write(*place),
                (_, Mood::Exact) => self.named_whole(*place)?,
                _ => return None,
            };
            if all {
                kept = Source::Of(*place);
            }
        }
        Some(kept)
    }

    fn per_write(&self, place: usize) -> bool {
        pick(self.seed, [1, self.entry(place).lead, 0]) & 1 == 1
    }

    /// The source of a sector: the newest write that the cut keeps, because it hides older
    /// versions.
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

    /// True if the write leaves its sectors old or new, never garbage: then whatever lies below it
    /// is whole when it is programmed.
    fn protects(&self, place: usize) -> bool {
        let w = &self.entry(place).write;
        w.kind == Kind::Fua
            && self.caps.reliable_granule.is_some()
            && self.fates.of[place] != Fate::Lost
    }

    pub(super) fn kept(&self, place: usize, lba: u64) -> bool {
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
                [what, entry.lead, unit_key(self.caps, w, lba, min)],
            )
        };
        match (self.mood, self.target) {
            (Mood::Oldest, _) => false,
            (Mood::Newest, _) => true,
            (Mood::Exact, _) => self.named_kept(place, lba),
            (Mood::PerWrite, _) => self.per_write(place),
            (Mood::PerBlock, _) => by(2, BLOCK_BYTES) & 1 == 1,
            (Mood::Only(grain), Some(t)) => t.hits(self.caps, entry, lba, grain),
            (Mood::AllBut(grain), Some(t)) => !t.hits(self.caps, entry, lba, grain),
            (Mood::Tail, Some(t)) if t.id == entry.lead => match w.kind.is_remap() {
                true => self.per_write(place),
                false => t.before_the_break(self.caps, entry, lba),
            },
            (Mood::Tail, Some(t)) => match t.choice >> 1 & 3 {
                0 => false,
                1 => self.per_write(place),
                _ => true,
            },
            _ => by(3, 0) & 1 == 1,
        }
    }

    /// For a granule that was replaced in a FIFO cache: true if it was written back before it was
    /// replaced.
    fn replaced(&self, place: usize, lba: u64) -> Option<bool> {
        if self.fates.replaced.is_empty() {
            return None;
        }
        let entry = self.entry(place);
        let granule = unit_key(self.caps, &entry.write, lba, 0);
        let place = entry.lead_place(place);
        self.fates.replaced.get(&(place, granule)).copied()
    }

    /// True if the device may leave garbage in the sectors of this write, if it is free.
    pub(super) fn may_garble(&self, w: &Write) -> bool {
        may_garble(self.caps, w)
    }

    pub(super) fn garbled(&self, place: usize, lba: u64) -> bool {
        let gambles = matches!(self.mood, Mood::Garbage | Mood::Exact);
        if !gambles || self.fates.of[place] != Fate::Free {
            return false;
        }
        let entry = self.entry(place);
        let w = &entry.write;
        if !self.may_garble(w) || self.replaced(place, lba).is_some() {
            return false;
        }
        if self.mood == Mood::Exact {
            return self.named_garbled(place, lba);
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

    /// True if there may be damage around writes.
    pub fn damages(&self) -> bool {
        self.mood == Mood::Garbage || self.exact.is_some_and(|e| e.collateral.is_some())
    }

    /// Damages stored sectors that share a programming unit with a normal write that reaches the
    /// medium at the cut, where the Caps allow it: with one in flight, or with a cached one that is
    /// just being written back.
    pub fn collateral(&self, visible: &impl Fn(u64) -> Bytes, out: &mut BTreeMap<u64, Bytes>) {
        if self.caps.no_collateral || !self.damages() {
            return;
        }
        for (entry, fate) in self.ledger.entries.iter().zip(&self.fates.of) {
            let w = &entry.write;
            let normal = matches!(w.kind, Kind::Normal | Kind::Through);
            let written_back = || pick(self.seed, [6, entry.id, 0]).is_multiple_of(8);
            if let Some(exact) = self.exact {
                if exact.collateral == Some(entry.id) {
                    self.damage_around(w, visible, out);
                }
                continue;
            }
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
                    let hit = || pick(self.seed, [5, *lba, 0]).is_multiple_of(3);
                    !named.contains(lba) && (self.mood == Mood::Exact || hit())
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

/// A key that distinguishes the [`unit`] of `lba` from the others of its write; all of a REMAP has
/// one key, whichever of its parts `w` is.
pub(super) fn unit_key(caps: &Caps, w: &Write, lba: u64, min: usize) -> u64 {
    match w.kind {
        Kind::Remap { .. } => 0,
        _ => unit(caps, w, lba, min).start,
    }
}

/// The sectors of `w` that the device keeps or loses together with `lba`: as its promises say, and
/// at least an aligned run of `min` bytes.
pub(super) fn unit(caps: &Caps, w: &Write, lba: u64, min: usize) -> Range<u64> {
    let all = w.lba.0..w.lba.0 + w.sectors;
    if is_one(caps, w) {
        return all;
    }
    let sectors = granule_sectors(caps, w, min);
    let start = lba / sectors * sectors;
    start.max(all.start)..(start + sectors).min(all.end)
}

/// True if this write, or the REMAP that it is a part of, is one granule.
fn is_one(caps: &Caps, w: &Write) -> bool {
    w.kind.is_remap() || atomic(caps, w)
}

/// True if the device may leave garbage in the sectors of this write.
pub(super) fn may_garble(caps: &Caps, w: &Write) -> bool {
    let promised = match w.kind {
        Kind::Normal | Kind::Through => caps.tear_granule,
        Kind::Fua => caps.reliable_granule,
        Kind::Discard | Kind::Remap { .. } => Some(0),
    };
    promised.is_none() && !atomic(caps, w)
}

/// The sectors of one granule of `w` (the last may be shorter), and the number of its granules.
pub(super) fn granules(caps: &Caps, w: &Write) -> (u64, u64) {
    if is_one(caps, w) {
        return (w.sectors, 1);
    }
    let first = unit(caps, w, w.lba.0, 0);
    let sectors = granule_sectors(caps, w, 0);
    let rest = (w.lba.0 + w.sectors).saturating_sub(first.end);
    (sectors, 1 + rest.div_ceil(sectors))
}

/// The number of the granule of `w` that holds `lba`.
pub(super) fn granule_of(caps: &Caps, w: &Write, lba: u64) -> u64 {
    match granules(caps, w) {
        (_, 1) => 0,
        (sectors, _) => lba / sectors - w.lba.0 / sectors,
    }
}

fn granule_sectors(caps: &Caps, w: &Write, min: usize) -> u64 {
    let promised = match w.kind {
        Kind::Fua => caps.reliable_granule,
        Kind::Normal | Kind::Through => caps.tear_granule,
        Kind::Discard | Kind::Remap { .. } => None,
    };
    let bytes = promised.unwrap_or(0).max(caps.sector_bytes).max(min as u32);
    u64::from(bytes) / SECTOR_BYTES as u64
}

/// The block at sector `first` as `w`, which covers it, left it; without a copy if it lies in one
/// piece.
pub(crate) fn new_block(w: &Write, first: u64) -> Bytes {
    if let Some(bytes) = new_run(w, first, BLOCK_BYTES) {
        return bytes;
    }
    let sectors = (first..first + SECTORS_PER_BLOCK).map(|lba| new_run(w, lba, SECTOR_BYTES));
    let sectors: Vec<Bytes> = sectors
        .map(|s| s.expect("pieces are whole sectors"))
        .collect();
    fill::compact(sectors.concat().into())
}

/// `bytes` bytes of the new content of `w` from sector `lba` on; `None` if they do not lie in one
/// piece.
pub(crate) fn new_run(w: &Write, lba: u64, bytes: usize) -> Option<Bytes> {
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
