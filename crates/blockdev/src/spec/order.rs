//! Which writes a cut may choose about at all: what packs, the FIFO policy of the cache and
//! barriers leave open.

use super::draw::{pick, unit, unit_key};
use super::exact::{Exact, Rest};
use super::mood::Mood;
use super::{Barrier, Kind, Ledger, Write};
use crate::{Caps, PackOrder};
use base::{Map, Set, Time};
use std::collections::BTreeMap;
use std::ops::Range;

/// What the order of operations leaves open about one write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// Nothing of it is on the medium.
    Lost,
    /// Each of its granules may be there or not, or torn if its promises allow it.
    Free,
    /// All of it is on the medium, except for what [`Fates::replaced`] says.
    Sure,
    /// All of it is durable: nothing older can show.
    Durable,
}

/// The fates of all writes of a ledger.
pub(super) struct Fates {
    /// By place in the ledger.
    pub of: Vec<Fate>,
    /// Granules that a later write replaced in the FIFO cache, by (place in the ledger, first
    /// sector): true if they were written back before.
    pub replaced: Map<(usize, u64), bool>,
    /// What the cut leaves open besides the fates of single writes.
    pub open: Structure,
}

/// What a cut leaves open besides the fates of single writes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Structure {
    /// Packs in flight on a device of prefix order: number of the first write, number of entries.
    pub packs: Vec<(u64, u32)>,
    /// Barriers that write-back may have passed.
    pub barriers: u32,
    /// Cached writes that a FIFO cache writes back in order.
    pub queue: u32,
    /// A FIFO cache may have dropped content that was replaced in it.
    pub lazy: bool,
}

/// A sequence of operations whose progress at the cut is open.
#[derive(Clone, Copy)]
enum Line {
    /// Entries of the pack with this number.
    Pack(u64),
    Barriers,
    Queue,
}

struct Decide<'a> {
    ledger: &'a Ledger,
    at: Time,
    caps: &'a Caps,
    mood: Mood,
    seed: u64,
    of: Vec<Fate>,
    /// Entries of packs in flight that the device has finished.
    executed: Set<usize>,
    /// The exact state that decides instead of the seed.
    exact: Option<&'a Exact>,
    open: Structure,
}

impl Fates {
    pub fn decide(
        ledger: &Ledger,
        at: Time,
        caps: &Caps,
        (mood, seed): (Mood, u64),
        exact: Option<&Exact>,
    ) -> Fates {
        let mut decide = Decide {
            ledger,
            at,
            caps,
            mood,
            seed,
            of: Vec::with_capacity(ledger.entries.len()),
            executed: Set::default(),
            exact,
            open: Structure::default(),
        };
        decide.alone();
        decide.packs();
        let barriers = decide.barriers();
        let replaced = if caps.cache_fifo {
            decide.fifo(&barriers)
        } else {
            decide.epochs(&barriers);
            Map::default()
        };
        Fates {
            of: decide.of,
            replaced,
            open: decide.open,
        }
    }
}

/// The progress of a line that an exact state gives.
fn said(exact: &Exact, line: Line) -> Option<u64> {
    let said = match line {
        Line::Pack(pack) => exact.packs.iter().find(|p| p.0 == pack).map(|p| p.1),
        Line::Barriers => exact.epoch,
        Line::Queue => exact.queue.map(|queue| queue.written),
    };
    said.map(u64::from)
}

impl Decide<'_> {
    /// The progress of a line at the cut: how many of its `n` operations had happened.
    fn progress(&self, n: u64, line: Line) -> u64 {
        let (what, of) = match line {
            Line::Pack(pack) => (10, pack),
            Line::Barriers => (11, 0),
            Line::Queue => (12, 0),
        };
        if let Some(exact) = self.exact {
            return said(exact, line)
                .map_or(if exact.rest == Rest::Kept { n } else { 0 }, |said| {
                    said.min(n)
                });
        }
        let draw = |salt| pick(self.seed, [what, of, salt]);
        match self.mood {
            Mood::Oldest => 0,
            Mood::Newest => n,
            _ => match draw(0) % 6 {
                0 => 0,
                1 | 2 => n,
                _ => draw(1) % (n + 1),
            },
        }
    }

    fn prefix_packs(&self) -> bool {
        self.caps.packed.map(|p| p.order) == Some(PackOrder::Prefix)
    }

    fn write(&self, place: usize) -> &Write {
        &self.ledger.entries[place].write
    }

    /// Sets the fate of each write by its own promise alone.
    fn alone(&mut self) {
        let complete = self.ledger.flushes.iter().filter(|f| f.end <= self.at);
        let flushed_before = complete.map(|f| f.start).max();
        for e in &self.ledger.entries {
            let w = &e.write;
            let flushed = e.flushed || flushed_before.is_some_and(|t| w.end <= t);
            self.of.push(match w {
                w if w.start >= self.at => Fate::Lost,
                w if w.end <= self.at && (flushed || w.kind.is_durable()) => Fate::Durable,
                _ => Fate::Free,
            });
        }
    }

    /// Applies packs of prefix order that are in flight: each was executed up to one of its
    /// entries.
    fn packs(&mut self) {
        if !self.prefix_packs() {
            return;
        }
        let mut packs: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (place, e) in self.ledger.entries.iter().enumerate() {
            let in_flight = e.write.start < self.at && self.at < e.write.end;
            if let (true, Some((pack, _))) = (in_flight, e.pack) {
                packs.entry(pack).or_default().push(place);
            }
        }
        for (pack, places) in packs {
            self.open.packs.push((pack, places.len() as u32));
            let executed = self.progress(places.len() as u64, Line::Pack(pack)) as usize;
            for (n, place) in places.into_iter().enumerate() {
                if n < executed {
                    self.executed.insert(place);
                }
                let durable = self.write(place).kind.is_durable();
                self.of[place] = match n.cmp(&executed) {
                    std::cmp::Ordering::Less if durable => Fate::Sure,
                    std::cmp::Ordering::Greater => Fate::Lost,
                    _ => Fate::Free,
                };
            }
        }
    }

    /// A write whose order the cache decides.
    fn is_cached(&self, place: usize) -> bool {
        self.write(place).kind.is_cached() && self.of[place] == Fate::Free
    }

    fn cached(&self) -> Vec<usize> {
        let all = 0..self.of.len();
        all.filter(|place| self.is_cached(*place)).collect()
    }

    /// The barriers with a cached write before them, by time.
    fn barriers(&self) -> Vec<Barrier> {
        let first = self.cached().iter().map(|p| self.write(*p).end).min();
        let orders = |b: &&Barrier| b.start < self.at && first.is_some_and(|end| end <= b.start);
        self.ledger
            .barriers
            .iter()
            .filter(orders)
            .copied()
            .collect()
    }

    /// Applies barriers: write-back has passed some of them, so cached writes before these are on
    /// the medium, and those behind the next one are not.
    fn epochs(&mut self, barriers: &[Barrier]) {
        self.open.barriers = barriers.len() as u32;
        let passed = self.progress(barriers.len() as u64, Line::Barriers) as usize;
        let behind = passed.checked_sub(1).map(|last| barriers[last].start);
        let ahead = barriers.get(passed).map(|next| next.end);
        for place in self.cached() {
            let w = self.write(place);
            if behind.is_some_and(|t| w.end <= t) {
                self.of[place] = Fate::Sure;
            } else if ahead.is_some_and(|t| w.start >= t) {
                self.of[place] = Fate::Lost;
            }
        }
    }

    /// Applies the FIFO cache, which was written back in order of arrival up to one write. Answers
    /// the fates of replaced granules.
    fn fifo(&mut self, barriers: &[Barrier]) -> Map<(usize, u64), bool> {
        let arrivals = self.arrivals();
        let mut came = vec![false; self.of.len()];
        for place in &arrivals {
            came[self.parts(*place)].fill(true);
        }
        for place in self.cached().into_iter().filter(|p| !came[*p]) {
            self.of[place] = Fate::Lost;
        }
        let queue: Vec<usize> = arrivals
            .iter()
            .copied()
            .filter(|p| self.is_cached(*p))
            .collect();
        self.open.queue = queue.len() as u32;
        let written = self.progress(queue.len() as u64, Line::Queue) as usize;
        let replaced = self.replaced(&arrivals);
        self.open.lazy = !replaced.is_empty();
        let kept = self.behind_barriers(&queue, written, barriers);
        let turns = self.turns(&arrivals, &queue, written, &replaced, &kept);
        let mut outcome = Map::default();
        for (turn, place) in queue.into_iter().enumerate() {
            for (granule, by) in replaced.get(&place).into_iter().flatten() {
                let lucky = match self.lazy() {
                    Some(lazy) => !lazy,
                    None => pick(self.seed, [13, self.ledger.entries[place].id, *granule]) & 1 == 1,
                };
                let in_time = turns[*by] > turn || (turns[*by] == turn && lucky);
                outcome.insert((place, *granule), in_time);
            }
            let fate = match turn.cmp(&written) {
                std::cmp::Ordering::Less => Fate::Sure,
                std::cmp::Ordering::Equal => Fate::Free,
                std::cmp::Ordering::Greater => Fate::Lost,
            };
            let parts = self.parts(place);
            self.of[parts].fill(fate);
        }
        outcome
    }

    /// The places of the write that leads at `place`: itself, or all parts of its REMAP.
    fn parts(&self, place: usize) -> Range<usize> {
        let entries = &self.ledger.entries;
        let lead = entries[place].lead;
        let mut end = place + 1;
        while entries.get(end).is_some_and(|e| e.lead == lead) {
            end += 1;
        }
        place..end
    }

    /// Whether an exact state says that content which was replaced in a FIFO cache was never
    /// written back.
    fn lazy(&self) -> Option<bool> {
        self.exact.map(|e| e.queue.is_some_and(|queue| queue.lazy))
    }

    fn has_come(&self, place: usize) -> bool {
        let e = &self.ledger.entries[place];
        let in_flight = e.write.end > self.at && !self.executed.contains(&place);
        !in_flight
            || match self.mood {
                Mood::Oldest => false,
                Mood::Newest | Mood::Exact => true,
                _ => !pick(self.seed, [17, e.id, 0]).is_multiple_of(4),
            }
    }

    /// The writes that had arrived at the card, in order of arrival; for a REMAP its first part.
    /// Commands that overlap may arrive in any order, and a command in flight may not have arrived
    /// yet.
    fn arrivals(&self) -> Vec<usize> {
        let leads = (0..self.of.len()).filter(|p| self.ledger.entries[*p].leads());
        let began = leads.filter(|p| self.of[*p] != Fate::Lost && self.has_come(*p));
        let mut keyed: Vec<(u64, usize)> = began
            .map(|place| {
                let e = &self.ledger.entries[place];
                let span = e.write.end.min(self.at).0 - e.write.start.0;
                let late = match self.exact {
                    Some(_) => 0,
                    None => pick(self.seed, [14, e.id, 0]) % (span + 1),
                };
                (e.write.start.0 + late, place)
            })
            .collect();
        if self.prefix_packs() {
            // The entries of a pack arrive in their order, but other commands may arrive between
            // them.
            let pack = |keyed: &(u64, usize)| self.ledger.entries[keyed.1].pack.map(|p| p.0);
            for run in keyed.chunk_by_mut(|a, b| pack(a).is_some() && pack(a) == pack(b)) {
                let mut earliest = u64::MAX;
                for (time, _) in run.iter_mut().rev() {
                    earliest = earliest.min(*time);
                    *time = earliest;
                }
            }
        }
        keyed.sort_unstable();
        keyed.into_iter().map(|(_, place)| place).collect()
    }

    /// For each cached write its granules that later writes replaced as a whole: (key of the
    /// granule, the arrival that completed it).
    fn replaced(&self, arrivals: &[usize]) -> Map<usize, Vec<(u64, usize)>> {
        let mut arrival: Vec<Option<usize>> = vec![None; self.of.len()];
        for (n, place) in arrivals.iter().enumerate() {
            arrival[*place] = Some(n);
        }
        // The first arrival of a later write, by sector; discards may be long and are kept as runs.
        let mut by_sector: Map<u64, usize> = Map::default();
        let mut discards: Vec<(Range<u64>, usize)> = Vec::new();
        let mut out: Map<usize, Vec<(u64, usize)>> = Map::default();
        for place in (0..self.of.len()).rev() {
            let Some(n) = arrival[place] else { continue };
            if self.is_cached(place) {
                let first = |lba: u64| {
                    let runs = discards.iter().filter(|(run, _)| run.contains(&lba));
                    runs.map(|(_, n)| *n)
                        .chain(by_sector.get(&lba).copied())
                        .min()
                };
                let granules = self.replaced_granules(place, first);
                if !granules.is_empty() {
                    out.insert(place, granules);
                }
            }
            for part in self.parts(place) {
                let w = self.write(part);
                let all = w.lba.0..w.lba.0 + w.sectors;
                if w.kind == Kind::Discard {
                    discards.push((all, n));
                    continue;
                }
                for lba in all {
                    let first = by_sector.entry(lba).or_insert(n);
                    *first = n.min(*first);
                }
            }
        }
        out
    }

    /// For the write that leads at `place`, the granules (a REMAP is one) that were replaced as a
    /// whole, by the first replacement of each sector.
    fn replaced_granules(
        &self,
        place: usize,
        first: impl Fn(u64) -> Option<usize>,
    ) -> Vec<(u64, usize)> {
        let by = |mut sectors: &mut dyn Iterator<Item = u64>| {
            Iterator::try_fold(&mut sectors, 0, |a, lba| Some(a.max(first(lba)?)))
        };
        let w = self.write(place);
        if w.kind.is_remap() {
            let parts = self.parts(place).map(|part| self.write(part));
            let by = by(&mut parts.flat_map(|w| w.lba.0..w.lba.0 + w.sectors));
            let key = unit_key(self.caps, w, w.lba.0, 0);
            return by.map(|by| (key, by)).into_iter().collect();
        }
        let mut out = Vec::new();
        let mut lba = w.lba.0;
        while lba < w.lba.0 + w.sectors {
            let granule = unit(self.caps, w, lba, 0);
            lba = granule.end;
            out.extend(by(&mut granule.clone()).map(|by| (granule.start, by)));
        }
        out
    }

    /// The cached writes that must not be dropped, because something behind a barrier behind them
    /// was written back.
    fn behind_barriers(&self, queue: &[usize], written: usize, barriers: &[Barrier]) -> Set<usize> {
        let reached = queue.iter().take(written + 1);
        let newest = reached.map(|p| self.write(*p).start).max();
        let passed = barriers
            .iter()
            .filter(|b| newest.is_some_and(|t| t >= b.end));
        let until = passed.map(|b| b.start).max();
        let before = |p: &usize| until.is_some_and(|t| self.write(*p).end <= t);
        queue.iter().copied().filter(before).collect()
    }

    /// How many of the queue were written back when each arrival came.
    fn turns(
        &self,
        arrivals: &[usize],
        queue: &[usize],
        written: usize,
        replaced: &Map<usize, Vec<(u64, usize)>>,
        kept: &Set<usize>,
    ) -> Vec<usize> {
        let mut least = vec![0; arrivals.len()];
        for (turn, place) in queue.iter().enumerate().filter(|(_, p)| kept.contains(p)) {
            for (_, by) in replaced.get(place).into_iter().flatten() {
                least[*by] = least[*by].max(turn + 1);
            }
        }
        let matters: Set<usize> = replaced.values().flatten().map(|(_, by)| *by).collect();
        let manner = match self.lazy() {
            Some(lazy) => u64::from(!lazy),
            None => pick(self.seed, [15, 0, 0]) % 4,
        };
        let mut turns = Vec::with_capacity(arrivals.len());
        let (mut came, mut now) = (0, 0);
        for (n, place) in arrivals.iter().enumerate() {
            if matters.contains(&n) {
                let most = came.min(written).max(now);
                let draw = pick(self.seed, [16, self.ledger.entries[*place].id, 0]);
                now = match manner {
                    0 => now,
                    1 => most,
                    _ if draw.is_multiple_of(2) => now + (draw >> 8) as usize % (most - now + 1),
                    _ => now,
                };
                now = now.max(least[n]);
            }
            turns.push(now);
            came += usize::from(self.is_cached(*place));
        }
        turns
    }
}
