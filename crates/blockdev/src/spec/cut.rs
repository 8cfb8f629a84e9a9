//! The blocks in which a choice differs from what reads see, for recorded runs: content that exists
//! already is not copied, and content whose hash is known is not hashed.

use super::draw::{Draw, Drawn};
use super::order::{Fate, Structure};
use super::{Choice, ChoiceError, Exact, Form, Ledger, WriteFate, blocks_of};
use crate::{Caps, Image};
use base::{Bytes, SECTORS_PER_BLOCK, Time, fill};
use std::collections::BTreeMap;
use std::ops::Range;

/// A block of a state that differs from what reads see.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub block: u64,
    pub bytes: Bytes,
    /// Its [`fill::fingerprint`].
    pub print: u64,
}

/// The open writes of each block, in order, as places in the ledger.
pub(crate) type Touched = Vec<(u64, Vec<usize>)>;

/// A write that a cut may choose about.
#[derive(Clone, Debug)]
pub(super) struct Free {
    pub id: u64,
    /// Number of its granules.
    pub granules: u64,
    /// It may be garbage.
    pub garbage: bool,
    /// True if it may damage the sectors around it.
    pub collateral: bool,
}

impl Ledger {
    /// Numbers of the writes that the ledger still keeps.
    pub(crate) fn kept_ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.entries.iter().map(|e| e.id)
    }

    /// The open writes by block.
    pub(crate) fn touched(&self) -> Touched {
        self.by_block().into_iter().collect()
    }

    fn decided<'a>(
        &'a self,
        at: Time,
        caps: &'a Caps,
        choice: &'a Choice,
    ) -> Result<Option<Draw<'a>>, ChoiceError> {
        Ok(match choice {
            Choice::Oldest => Some(Draw::lost(self, at, caps)),
            Choice::Newest => None,
            Choice::Seed(seed) => Some(Draw::new(self, at, *seed, caps)),
            Choice::Exact(exact) => Some(Draw::exact(self, at, caps, exact)?),
        })
    }

    /// The blocks in which `choice` differs from `visible`, ascending.
    pub(crate) fn changes(
        &self,
        at: Time,
        caps: &Caps,
        choice: &Choice,
        touched: &Touched,
        visible: &Image,
    ) -> Result<Vec<Change>, ChoiceError> {
        let Some(draw) = self.decided(at, caps, choice)? else {
            return Ok(Vec::new());
        };
        let see = |n| visible.block(n);
        let mut out = Vec::with_capacity(touched.len());
        for (block, writes) in touched {
            let first = block * SECTORS_PER_BLOCK;
            let block = *block;
            let seen = visible.print(block);
            let (known, drawn) = match draw.drawn(block, writes, &see) {
                Drawn::Visible => continue,
                Drawn::Mixed(bytes) => (None, Ok(bytes)),
                Drawn::Old(place) => (self.print(place, block, |p| p.0), Err((place, true))),
                Drawn::New(place) => (self.print(place, block, |p| p.1), Err((place, false))),
            };
            if known == Some(seen) {
                continue;
            }
            let bytes = match drawn {
                Ok(bytes) => bytes,
                Err((place, true)) => draw.old(place, first),
                Err((place, false)) => draw.new_block(place, first),
            };
            let print = known.unwrap_or_else(|| fill::fingerprint(&bytes));
            if print != seen {
                out.push(Change {
                    block,
                    bytes,
                    print,
                });
            }
        }
        if draw.damages() {
            out = damaged(&draw, out, &see);
        }
        Ok(out)
    }

    fn print(&self, place: usize, block: u64, which: impl Fn(&(u64, u64)) -> u64) -> Option<u64> {
        let entry = &self.entries[place];
        let first = entry.write.lba.0 / SECTORS_PER_BLOCK;
        entry.prints.get((block - first) as usize).map(which)
    }

    /// What the cut leaves open if `exact` decides the structure: that structure, and the free
    /// writes in their order.
    pub(super) fn open(&self, at: Time, caps: &Caps, exact: &Exact) -> (Structure, Vec<Free>) {
        let fates =
            super::order::Fates::decide(self, at, caps, (super::mood::Mood::Exact, 0), Some(exact));
        let free = self.entries.iter().zip(&fates.of);
        let free = free.filter(|(e, fate)| e.leads() && **fate == Fate::Free);
        let free = free.map(|(e, _)| Free {
            id: e.id,
            granules: super::draw::granules(caps, &e.write).1,
            garbage: super::draw::may_garble(caps, &e.write),
            collateral: !caps.no_collateral
                && matches!(e.write.kind, super::Kind::Normal | super::Kind::Through),
        });
        (fates.open.clone(), free.collect())
    }

    /// The fates that `choice` gives to the writes that the ledger still keeps: (number, fate),
    /// ascending.
    pub(crate) fn fates(
        &self,
        at: Time,
        caps: &Caps,
        choice: &Choice,
    ) -> Result<Vec<(u64, WriteFate)>, ChoiceError> {
        // What reads see is the state in which nothing is lost.
        let newest = Choice::Exact(Exact::all(super::Rest::Kept));
        let choice = match choice {
            Choice::Newest => &newest,
            _ => choice,
        };
        let draw = self.decided(at, caps, choice)?;
        let draw = draw.expect("only newest needs no decision");
        let fate = |(place, e): (usize, &super::Entry)| (e.id, fate(&draw, place));
        Ok(self.entries.iter().enumerate().map(fate).collect())
    }
}

fn fate(draw: &Draw<'_>, place: usize) -> WriteFate {
    let w = &draw.entry(place).write;
    match draw.fates.of[place] {
        Fate::Durable => return WriteFate::Durable,
        Fate::Lost => return WriteFate::Lost,
        Fate::Sure if draw.fates.replaced.is_empty() => return WriteFate::Kept,
        Fate::Sure | Fate::Free => {}
    }
    let blocks = blocks_of(w);
    if w.kind == super::Kind::Discard && blocks.end - blocks.start > 1 << 16 {
        return match draw.kept(place, w.lba.0) {
            true => WriteFate::Kept,
            false => WriteFate::Lost,
        };
    }
    let (mut kept, mut garbage): (Vec<Range<u64>>, Vec<Range<u64>>) = (Vec::new(), Vec::new());
    for lba in w.lba.0..w.lba.0 + w.sectors {
        let runs = match (draw.garbled(place, lba), draw.kept(place, lba)) {
            (true, _) => &mut garbage,
            (_, true) => &mut kept,
            _ => continue,
        };
        match runs.last_mut() {
            Some(run) if run.end == lba => run.end += 1,
            _ => runs.push(lba..lba + 1),
        }
    }
    let all = w.lba.0..w.lba.0 + w.sectors;
    match (&kept[..], &garbage[..]) {
        ([], []) => WriteFate::Lost,
        ([run], []) if *run == all => WriteFate::Kept,
        ([], [run]) if *run == all => WriteFate::Garbage,
        _ => WriteFate::Torn { kept, garbage },
    }
}

fn damaged(draw: &Draw<'_>, changes: Vec<Change>, see: &impl Fn(u64) -> Bytes) -> Vec<Change> {
    let mut blocks: BTreeMap<u64, Bytes> =
        changes.into_iter().map(|c| (c.block, c.bytes)).collect();
    draw.collateral(see, &mut blocks);
    let change = |(block, bytes): (u64, Bytes)| Change {
        block,
        print: fill::fingerprint(&bytes),
        bytes,
    };
    blocks.into_iter().map(change).collect()
}

impl Form {
    /// The forms of a torn write of `granules` granules that is torn at one of `places`; those that
    /// are most likely to show a fault come first.
    pub(crate) fn torn(granules: u64, garbage: bool, places: &[u64]) -> Vec<Form> {
        let inside = |n: &&u64| 0 < **n && **n < granules;
        let heads = places.iter().filter(inside).map(|n| Form::Head(*n));
        let tails = places.iter().filter(inside).map(|n| Form::Tail(*n));
        let middle = |n: &&u64| 0 < **n && **n + 1 < granules;
        let but = places.iter().filter(middle).map(|n| Form::But(*n));
        let only = places.iter().filter(middle).map(|n| Form::Only(*n));
        let at = places.iter().filter(|n| garbage && **n < granules);
        let at = at.map(|n| Form::GarbageAt(*n));
        let all = (garbage && granules > 1).then_some(Form::Garbage);
        let first = (garbage && !places.contains(&0)).then_some(Form::GarbageAt(0));
        heads
            .chain(first)
            .chain(at)
            .chain(tails)
            .chain(but)
            .chain(only)
            .chain(all)
            .collect()
    }
}
