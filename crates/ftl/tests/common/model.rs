//! A model of what a device with REMAP may hold after a cut: for each unit the effects since the
//! last flush that had completed, and of each batch all or nothing.

use super::unit;
use base::Time;
use std::collections::{BTreeMap, BTreeSet};
use varve_ftl::Ftl;
use varve_ftl::remap::{Batch, Mode, Pair};

#[derive(Clone, Copy, Debug)]
struct Effect {
    /// The write that made the content; 0: zeros.
    id: u32,
    batch: Option<u32>,
}

/// The units' effects in the order of acceptance; the first of each is durable.
#[derive(Clone, Default)]
pub struct Model {
    effects: BTreeMap<u32, Vec<Effect>>,
    /// Flushes: when they are complete, and how many effects each unit had.
    flushes: Vec<(Time, BTreeMap<u32, usize>)>,
    /// The unit that each write was made to.
    written_to: BTreeMap<u32, u32>,
    batches: u32,
}

impl Model {
    fn add(&mut self, lpn: u32, id: u32, batch: Option<u32>) {
        let list = self
            .effects
            .entry(lpn)
            .or_insert_with(|| vec![Effect { id: 0, batch: None }]);
        list.push(Effect { id, batch });
    }
    pub fn write(&mut self, lpn: u32, id: u32) {
        self.written_to.insert(id, lpn);
        self.add(lpn, id, None);
    }
    pub fn trim(&mut self, lpns: std::ops::Range<u32>) {
        lpns.for_each(|lpn| self.add(lpn, 0, None));
    }
    pub fn current(&self, lpn: u32) -> u32 {
        self.effects
            .get(&lpn)
            .and_then(|l| l.last())
            .map_or(0, |e| e.id)
    }
    pub fn remap(&mut self, batch: &Batch<'_>) {
        self.batches += 1;
        let number = Some(self.batches);
        let units = |p: &Pair| (p.home..).zip(p.src..p.src + p.len);
        let all: Vec<(u32, u32)> = batch.pairs.iter().flat_map(units).collect();
        let values: Vec<u32> = all.iter().map(|(_, src)| self.current(*src)).collect();
        for ((home, _), id) in all.iter().zip(values) {
            self.add(*home, id, number);
        }
        if batch.mode == Mode::Move {
            let sources: BTreeSet<u32> = all.iter().map(|(_, src)| *src).collect();
            sources.into_iter().for_each(|src| self.add(src, 0, number));
        }
    }
    pub fn flush(&mut self, end: Time) {
        let lens = self.effects.iter().map(|(l, e)| (*l, e.len())).collect();
        self.flushes.push((end, lens));
    }
    /// The content that a unit has: the number of the write that made it.
    fn observe(&self, ftl: &Ftl, lpn: u32) -> Result<u32, String> {
        let data = ftl.content(lpn).map_err(|e| e.to_string())?;
        let word = &data[..8];
        if data.chunks(8).any(|c| c != word) {
            return Err(format!("unit {lpn} holds a mixture"));
        }
        let id = u32::from_le_bytes(word[4..].try_into().unwrap());
        let wrote = self.written_to.get(&id).copied().unwrap_or(0);
        match data == unit(data.len() as u32, wrote, id) {
            true => Ok(id),
            false => Err(format!("unit {lpn} holds what nobody wrote")),
        }
    }
    /// Checks that every unit of the device reads as its newest value.
    pub fn check_now(&self, ftl: &Ftl) -> Result<(), String> {
        for lpn in self.effects.keys() {
            let (id, want) = (self.observe(ftl, *lpn)?, self.current(*lpn));
            if id != want {
                return Err(format!("unit {lpn} holds {id} instead of {want}"));
            }
        }
        Ok(())
    }
    /// Checks a recovered device; answers a model of what is known to be there.
    pub fn check(&self, ftl: &Ftl, cut: Time) -> Result<Model, String> {
        let last = self.flushes.iter().rfind(|(end, _)| *end <= cut);
        let base = |lpn: &u32| last.and_then(|(_, l)| l.get(lpn)).map_or(0, |len| len - 1);
        let mut seen = BTreeMap::new();
        let mut open = BTreeSet::new();
        for (lpn, list) in &self.effects {
            let id = self.observe(ftl, *lpn)?;
            let window = &list[base(lpn)..];
            if !window.iter().any(|e| e.id == id) {
                let ids: Vec<u32> = window.iter().map(|e| e.id).collect();
                return Err(format!("unit {lpn} holds {id}, allowed {ids:?}"));
            }
            open.extend(window[1..].iter().filter_map(|e| e.batch));
            seen.insert(*lpn, id);
        }
        let fits = |present: &BTreeSet<u32>, only: Option<u32>| {
            seen.iter().all(|(lpn, id)| {
                let window = &self.effects[lpn][base(lpn)..];
                // With `only`, the effects of other batches are not checked.
                let free = |b: u32| only.is_some_and(|only| only != b);
                let after = |i: usize| {
                    let later = window[i + 1..].iter().filter_map(|e| e.batch);
                    later.filter(|b| !free(*b)).all(|b| !present.contains(&b))
                };
                window.iter().enumerate().any(|(i, e)| {
                    let there = e
                        .batch
                        .is_none_or(|b| i == 0 || free(b) || present.contains(&b));
                    e.id == *id && there && after(i)
                })
            })
        };
        let open: Vec<u32> = open.into_iter().collect();
        let whole = if open.len() <= 8 {
            let choose = |bits: u32| {
                let chosen = open.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1);
                chosen.map(|(_, b)| *b).collect::<BTreeSet<u32>>()
            };
            (0..1 << open.len()).any(|bits| fits(&choose(bits), None))
        } else {
            open.iter().all(|b| {
                let some = |set: &[u32]| fits(&set.iter().copied().collect(), Some(*b));
                some(&[*b]) || some(&[])
            })
        };
        if !whole {
            return Err(format!(
                "neither all nor nothing of one of {} batches",
                open.len()
            ));
        }
        let known = |(lpn, id): (&u32, &u32)| {
            let id = *id;
            (*lpn, vec![Effect { id, batch: None }])
        };
        Ok(Model {
            effects: seen.iter().map(known).collect(),
            flushes: Vec::new(),
            written_to: self.written_to.clone(),
            batches: 0,
        })
    }
}
