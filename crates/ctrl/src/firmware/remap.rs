//! REMAP inside a controller: pairs that the FTL can alias are passed on to it; the others are
//! copied in the same batch.
//!
//! A pair whose home, source or length is no multiple of the mapping unit cannot share a slot
//! (remap-S7), nor can a pair that has a unit in common with what such a pair changes. The new
//! content of its home units (of a move also its source units) is written to *scratch units* behind
//! the exported capacity. The FTL carries out the batch as one (remap-S4); in it, those units take
//! over scratch units as other homes take over sources. Invariants: raw-R1 to raw-R5 at the head of
//! [`crate::raw`].

use super::Firmware;
use crate::span;
use base::{Bytes, Lba, SECTORS_PER_BLOCK, Time};
use blockdev::spec::{Kind, Write};
use blockdev::{DevError, Remap, RemapMode, RemapPair, Remapped, expectation};
use ftl::remap::{Batch, Mode, Pair, RemapError};
use std::collections::{BTreeMap, BTreeSet};

/// How the pairs of a batch are carried out.
struct Plan {
    /// Pairs of whole units, which the FTL may alias.
    whole: Vec<RemapPair>,
    /// Pairs that are copied.
    copied: Vec<RemapPair>,
    /// Units that the copied pairs change.
    changed: BTreeSet<u64>,
}

fn units(lba: Lba, sectors: u64) -> std::ops::Range<u64> {
    lba.0 / SECTORS_PER_BLOCK..(lba.0 + sectors).div_ceil(SECTORS_PER_BLOCK)
}

fn is_whole(pair: &RemapPair) -> bool {
    [pair.home.0, pair.src.0, pair.sectors]
        .iter()
        .all(|n| n.is_multiple_of(SECTORS_PER_BLOCK))
}

impl Plan {
    fn new(remap: &Remap) -> Plan {
        let (whole, copied) = remap.pairs.iter().partition(|p| is_whole(p));
        let mut plan = Plan {
            whole,
            copied,
            changed: BTreeSet::new(),
        };
        let moves = remap.mode == RemapMode::Move;
        for i in 0..plan.copied.len() {
            plan.change(plan.copied[i], moves);
        }
        // A unit that a copy changes can be neither home nor source of an alias: such pairs are
        // copied too, which may affect further pairs.
        while let Some(i) = plan.whole.iter().position(|p| plan.meets(p)) {
            let pair = plan.whole.swap_remove(i);
            plan.change(pair, moves);
            plan.copied.push(pair);
        }
        plan
    }
    fn change(&mut self, pair: RemapPair, moves: bool) {
        self.changed.extend(units(pair.home, pair.sectors));
        if moves {
            self.changed.extend(units(pair.src, pair.sectors));
        }
    }
    fn meets(&self, pair: &RemapPair) -> bool {
        let hit = |lba| {
            self.changed
                .range(units(lba, pair.sectors))
                .next()
                .is_some()
        };
        hit(pair.home) || hit(pair.src)
    }
}

fn refused(remap: &Remap, e: RemapError) -> DevError {
    let at = remap.pairs.first().map(|p| p.home);
    match e {
        RemapError::Ftl(e) => DevError::io(at.unwrap_or(Lba(0)), e.to_string()),
        RemapError::WouldCopy { .. } => DevError::misuse(at, format!("remap-S7: {e}")),
        RemapError::Expect { .. } => DevError::misuse(at, format!("remap-S6: {e}")),
        e => DevError::misuse(at, e.to_string()),
    }
}

impl Firmware {
    /// Carries out a legal batch that arrives at `start`; with `durable` it is non-volatile at the
    /// end. Answers when it is over.
    ///
    /// # Errors
    /// The batch was refused, and nothing has changed; or the device is read-only.
    pub fn remap(
        &mut self,
        start: Time,
        remap: &Remap,
        durable: bool,
    ) -> Result<(Time, Remapped), DevError> {
        let io = |e: ftl::FtlError| DevError::io(remap.pairs[0].home, e.to_string());
        let plan = Plan::new(remap);
        self.check_plan(remap, &plan)?;
        let mut t = self.expected(start + self.timing.pairs(remap.pairs.len()), remap)?;
        let contents = self.contents(&mut t, remap, &plan)?;
        let parts = (self.ledger.is_some()).then(|| self.open_parts(remap, durable));
        // raw-R2: the sources are in the FTL before it aliases them (remap-S8).
        for unit in plan.whole.iter().flat_map(|p| units(p.src, p.sectors)) {
            if let Some(line) = self.cache.take_block(unit) {
                self.write_back_line(t, unit, line).map_err(io)?;
            }
        }
        let copied = self.carry_out(&mut t, remap, &plan, contents)?;
        self.unlogged = true;
        if durable || copied > 0 {
            t = self.sync(t).map_err(io)?;
        }
        if durable {
            self.unlogged = false;
        }
        if let Some(parts) = parts {
            self.note_remap((start, t), parts);
        }
        let all: u64 = remap.pairs.iter().map(|p| p.sectors).sum();
        let result = Remapped {
            aliased: all - copied,
            copied,
        };
        self.remapped.0 += result.aliased / SECTORS_PER_BLOCK;
        self.remapped.1 += (plan.changed.len() as u64).max(copied / SECTORS_PER_BLOCK);
        Ok((t, result))
    }
    fn check_plan(&self, remap: &Remap, plan: &Plan) -> Result<(), DevError> {
        let at = plan.copied.first().map(|p| p.home);
        if remap.require_all && at.is_some() {
            let why = "remap-S7: a pair is no multiple of 4 KiB, and nothing may be copied";
            return Err(DevError::misuse(at, why));
        }
        let scratch = self.scratch().count();
        if plan.changed.len() > scratch {
            let why = format!(
                "remap-S7: the batch would copy {} units of 4 KiB; one batch copies {scratch} at most",
                plan.changed.len()
            );
            return Err(DevError::misuse(at, why));
        }
        Ok(())
    }
    /// Units behind the exported capacity.
    pub fn scratch(&self) -> std::ops::Range<u32> {
        self.units as u32..self.ftl.layout().units
    }
    /// Compares the sources with what the host expects (remap-S6); answers when they have been
    /// read.
    fn expected(&mut self, start: Time, remap: &Remap) -> Result<Time, DevError> {
        let mut t = start;
        for pair in &remap.pairs {
            let Some(expect) = pair.expect else {
                continue;
            };
            let (content, read) = self.fetch(start, pair.src, pair.sectors);
            let content = content.map_err(|e| DevError::io(pair.src, e.to_string()))?;
            t = t.max(read);
            if expectation(&content) != expect {
                let why = "remap-S6: the source of a REMAP holds other content than expected";
                return Err(DevError::misuse(Some(pair.src), why));
            }
        }
        Ok(t)
    }
    /// raw-R3: the new content of every unit that the copied pairs change, all of it read before
    /// anything is written (remap-S1).
    fn contents(
        &mut self,
        t: &mut Time,
        remap: &Remap,
        plan: &Plan,
    ) -> Result<BTreeMap<u64, Bytes>, DevError> {
        let start = *t;
        let mut get = |fw: &mut Firmware, lba: Lba, sectors: u64| {
            let (content, read) = fw.fetch(start, lba, sectors);
            *t = read.max(*t);
            content.map_err(|e| DevError::io(lba, e.to_string()))
        };
        let mut all = BTreeMap::new();
        for unit in &plan.changed {
            let old = get(self, Lba(unit * SECTORS_PER_BLOCK), SECTORS_PER_BLOCK)?;
            all.insert(*unit, old.concat());
        }
        let mut put = |lba: Lba, sectors: u64, new: &[u8]| {
            let mut used = 0;
            for part in span::parts(lba, sectors) {
                let n = part.to - part.from;
                let unit = all.get_mut(&part.block).expect("the plan names every unit");
                unit[part.from..part.to].copy_from_slice(&new[used..used + n]);
                used += n;
            }
        };
        let mut new = Vec::with_capacity(plan.copied.len());
        for pair in &plan.copied {
            new.push(get(self, pair.src, pair.sectors)?.concat());
        }
        for (pair, new) in plan.copied.iter().zip(&new) {
            put(pair.home, pair.sectors, new);
        }
        if remap.mode == RemapMode::Move {
            for (pair, new) in plan.copied.iter().zip(&new) {
                put(pair.src, pair.sectors, &vec![0; new.len()]);
            }
        }
        let done = all.into_iter();
        Ok(done
            .map(|(unit, b)| (unit, base::fill::compact(b.into())))
            .collect())
    }
    /// Writes the scratch units, and then lets the FTL carry out the whole batch as one (raw-R1).
    /// Answers the number of sectors that were copied.
    fn carry_out(
        &mut self,
        t: &mut Time,
        remap: &Remap,
        plan: &Plan,
        contents: BTreeMap<u64, Bytes>,
    ) -> Result<u64, DevError> {
        let io = |e: ftl::FtlError| DevError::io(remap.pairs[0].home, e.to_string());
        let unit = |lba: Lba| (lba.0 / SECTORS_PER_BLOCK) as u32;
        let mut pairs: Vec<Pair> = Vec::with_capacity(plan.whole.len() + contents.len());
        pairs.extend(plan.whole.iter().map(|p| Pair {
            home: unit(p.home),
            src: unit(p.src),
            len: (p.sectors / SECTORS_PER_BLOCK) as u32,
            expect: None,
        }));
        let scratch = self.scratch().start..self.scratch().start + contents.len() as u32;
        for ((home, bytes), src) in contents.into_iter().zip(scratch.clone()) {
            self.program_unit(*t, u64::from(src), bytes, false)
                .map_err(io)?;
            pairs.push(Pair {
                home: home as u32,
                src,
                len: 1,
                expect: None,
            });
        }
        let batch = Batch {
            pairs: &pairs,
            mode: match remap.mode {
                RemapMode::Share => Mode::Share,
                RemapMode::Move => Mode::Move,
            },
            require_all: remap.require_all,
        };
        *t = self.path_free.max(*t);
        let done = self.ftl.remap(*t, batch);
        self.ftl.trim(*t, scratch.clone()).map_err(io)?;
        let done = done.map_err(|e| refused(remap, e))?;
        // raw-R4: no line of a home, nor of a source that has moved, is newer than the FTL now.
        for pair in &remap.pairs {
            self.forget_lines(units(pair.home, pair.sectors));
            if remap.mode == RemapMode::Move {
                self.forget_lines(units(pair.src, pair.sectors));
            }
        }
        let all: u64 = remap.pairs.iter().map(|p| p.sectors).sum();
        let plain = done.aliased.saturating_sub(scratch.len() as u64) * SECTORS_PER_BLOCK;
        Ok(all - plain.min(plan.whole.iter().map(|p| p.sectors).sum()))
    }
    /// Drops the lines of these units. Every unit that a batch changes was changed as a whole: by
    /// an alias, or by a copy that includes the line's content.
    fn forget_lines(&mut self, units: std::ops::Range<u64>) {
        self.forget_content(units.start as u32..units.end as u32);
        for block in units {
            self.cache.remove(span::Part {
                block,
                from: 0,
                to: base::BLOCK_BYTES,
            });
        }
    }
    /// The parts that the batch will change, for the ledger (remap-S4).
    fn open_parts(&self, remap: &Remap, durable: bool) -> Vec<Write> {
        let open = |lba: Lba, sectors, new| Write {
            start: Time(0),
            end: Time(0),
            kind: Kind::Remap { durable },
            lba,
            sectors,
            new,
            prev: self.before(lba, sectors),
        };
        let content = |p: &RemapPair| {
            let parts = span::parts(p.src, p.sectors);
            parts
                .map(|part| self.visible(part.block).slice(part.from..part.to))
                .collect()
        };
        let homes = remap.pairs.iter();
        let mut all: Vec<Write> = homes.map(|p| open(p.home, p.sectors, content(p))).collect();
        if remap.mode == RemapMode::Move {
            let sources = remap.sources().into_iter();
            all.extend(sources.map(|(lba, sectors)| open(lba, sectors, Vec::new())));
        }
        all
    }
    fn note_remap(&mut self, (start, end): (Time, Time), mut parts: Vec<Write>) {
        for part in &mut parts {
            (part.start, part.end) = (start, end);
        }
        if let Some(ledger) = &mut self.ledger {
            ledger.remap(parts);
        }
    }
}
