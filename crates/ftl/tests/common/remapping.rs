//! Loads with REMAP, and cuts at every operation of the chips.

use super::model::Model;
use super::{CONFIG, GEOMETRY, TIMING, unit};
use base::{Mutant, Nanos, Rng, Time};
use std::cell::Cell;
use std::rc::Rc;
use varve_ftl::nand::{Cells, Geometry, Media, Nand, Operation};
use varve_ftl::remap::{Batch, Mode, Pair, RemapError};
use varve_ftl::{Config, Ftl};

/// A few blocks with two units in a page.
pub const TINY: Geometry = Geometry {
    blocks_per_plane: 12,
    pages_per_block: 4,
    page_bytes: 1024,
    spare_bytes: 60,
    ..GEOMETRY
};
pub const TINY_CONFIG: Config = Config {
    units: 72,
    lanes: 1,
    gc_slack: 1,
    checkpoint_blocks: 6,
    ..CONFIG
};
/// Units of two pages; a log page holds 38 pairs.
pub const SPLIT: Geometry = Geometry {
    blocks_per_plane: 20,
    pages_per_block: 8,
    page_bytes: 512,
    spare_bytes: 16,
    ..GEOMETRY
};
pub const SPLIT_CONFIG: Config = Config {
    unit_bytes: 1024,
    units: 96,
    ..TINY_CONFIG
};

/// A device under a load, with a model of what it may hold.
#[derive(Clone)]
pub struct Rig {
    pub ftl: Ftl,
    pub model: Model,
    pub now: Time,
    pub id: u32,
    pub config: Config,
    /// How the chips behave.
    pub cells: Cells,
    /// Owners beyond the first of their slots.
    pub cap: u32,
    /// A deliberate mistake that the device makes, before and after a cut.
    pub mutant: Option<Mutant>,
    /// How often the guard of that mutant was reached before the last cuts.
    pub reached: Rc<Cell<u64>>,
}

impl Rig {
    pub fn new(geometry: Geometry, config: Config) -> Rig {
        Rig::on(geometry, config, Cells::default())
    }
    /// A rig on chips whose cut can leave worse than torn pages.
    pub fn on(geometry: Geometry, config: Config, cells: Cells) -> Rig {
        let mut nand = Nand::new(Media::blank(geometry), TIMING);
        nand.set_cells(cells);
        let mut ftl = Ftl::format(nand, config).unwrap();
        ftl.settle();
        Rig {
            ftl,
            cells,
            model: Model::default(),
            now: Time(0),
            id: 0,
            config,
            cap: u32::MAX,
            mutant: None,
            reached: Rc::default(),
        }
    }
    pub fn cap(mut self, cap: u32) -> Rig {
        self.ftl.set_alias_cap(cap);
        self.cap = cap;
        self
    }
    #[cfg(feature = "mutants")]
    pub fn with(mut self, mutant: Option<Mutant>) -> Rig {
        self.ftl.set_mutant(mutant);
        self.mutant = mutant;
        self
    }
    /// How often the guard of a mutant was reached.
    #[cfg(feature = "mutants")]
    pub fn reached(&self, mutant: Mutant) -> u64 {
        self.reached.get() + self.ftl.mutant_reached(mutant)
    }
    fn mount(&self, media: Media) -> Result<(Ftl, Time), String> {
        let mut nand = Nand::new(media, TIMING);
        nand.set_cells(self.cells);
        #[cfg(feature = "mutants")]
        let mounted = Ftl::mount_with(nand, self.config, Time(0), self.mutant);
        #[cfg(not(feature = "mutants"))]
        let mounted = Ftl::mount(nand, self.config, Time(0));
        mounted.map_err(|e| e.to_string())
    }
    pub fn write(&mut self, lpn: u32) {
        self.id += 1;
        let data = unit(self.config.unit_bytes, lpn, self.id);
        self.ftl.write(self.now, lpn, data).unwrap();
        self.model.write(lpn, self.id);
    }
    pub fn trim(&mut self, lpns: std::ops::Range<u32>) {
        self.ftl.trim(self.now, lpns.clone()).unwrap();
        self.model.trim(lpns);
    }
    pub fn flush(&mut self) {
        self.now = self.ftl.flush(self.now).unwrap();
        self.model.flush(self.now);
    }
    pub fn remap(&mut self, pairs: &[(u32, u32, u32)], mode: Mode) {
        let pair = |(home, src, len): &(u32, u32, u32)| Pair {
            home: *home,
            src: *src,
            len: *len,
            expect: None,
        };
        let pairs: Vec<Pair> = pairs.iter().map(pair).collect();
        let batch = Batch {
            pairs: &pairs,
            mode,
            require_all: false,
        };
        match self.ftl.remap(self.now, batch) {
            Ok(done) => {
                let units: u32 = pairs.iter().map(|p| p.len).sum();
                assert_eq!(done.aliased + done.copied, u64::from(units));
                self.model.remap(&batch);
            }
            Err(RemapError::NoRoom { .. }) => {}
            Err(e) => panic!("{e}"),
        }
    }
    /// The value that `expect` must have for the present content.
    pub fn expectation(&self, src: u32, len: u32) -> u64 {
        let units = (src..src + len).map(|l| self.ftl.content(l).unwrap().to_vec());
        base::collections::fingerprint(&units.collect::<Vec<_>>().concat())
    }
    /// Sends a batch of one pair that expects this content; false if it was refused because of the
    /// content.
    pub fn remap_expecting(&mut self, home: u32, src: u32, len: u32, expect: u64) -> bool {
        let right = self.expectation(src, len) == expect;
        let pairs = [Pair {
            home,
            src,
            len,
            expect: Some(expect),
        }];
        let batch = Batch {
            pairs: &pairs,
            mode: Mode::Share,
            require_all: true,
        };
        let done = self.ftl.remap(self.now, batch);
        if right {
            self.model.remap(&batch);
        }
        match done {
            Ok(_) => true,
            Err(RemapError::Expect { index: 0 }) => false,
            Err(e) => panic!("{e}"),
        }
    }
    /// Writes every unit once and some twice, and flushes, long before the test.
    pub fn filled(mut self) -> Rig {
        for lpn in 0..self.config.units as u32 {
            self.write(lpn);
        }
        self.flush();
        self.settle();
        self
    }
    pub fn settle(&mut self) {
        self.ftl.settle();
        self.model.flush(Time(0));
        self.now = Time(0);
    }
    /// One operation; the first quarter of the units is the journal.
    pub fn step(&mut self, rng: &mut Rng) {
        let units = self.config.units as u32;
        let journal = (units / 4).max(2);
        match rng.below(20) {
            0..=5 => self.write(rng.below(journal.into()) as u32),
            6..=9 => self.write(rng.below(units.into()) as u32),
            10 => {
                let first = rng.below(u64::from(units) - 3) as u32;
                self.trim(first..first + 1 + rng.below(3) as u32);
            }
            11..=14 => {
                let (pairs, mode) = draw_pairs(rng, units, journal);
                self.remap(&pairs, mode);
            }
            15..=17 => {
                let now = self.now;
                self.flush();
                if rng.one_in(3) {
                    self.now = now;
                }
            }
            _ => {
                let n = 1 + rng.below(12) as u32;
                self.ftl.collect_idle(self.now, n).unwrap();
                self.ftl.fold_idle(self.now, n).unwrap();
            }
        }
        self.now += Nanos(rng.below(120_000));
    }
    /// Cuts the power at `at` and `nested` more times in the recovery, and answers the recovered
    /// device; an error is a finding.
    pub fn cut(&self, at: Time, rng: &mut Rng, nested: u64) -> Result<Rig, String> {
        let media = self.ftl.clone().power_off(at, rng.next_u64());
        let (mut ftl, mut ready) = self.mount(media)?;
        for _ in 0..nested {
            let at = Time(rng.below(ready.0 + 1));
            (ftl, ready) = self.mount(ftl.power_off(at, rng.next_u64()))?;
        }
        ftl.set_alias_cap(self.cap);
        #[cfg(feature = "mutants")]
        if let Some(mutant) = self.mutant {
            self.reached
                .set(self.reached.get() + ftl.mutant_reached(mutant));
        }
        ftl.check();
        let model = self.model.check(&ftl, at)?;
        Ok(Rig {
            now: ready,
            ftl,
            model,
            ..self.clone()
        })
    }
    /// Cuts before, in the middle of and after every operation of the chips in `operations`; after
    /// each cut the device is used again and cut again. Answers the number of cuts.
    pub fn cut_everywhere(&self, operations: &[Operation], seed: u64) -> Result<u64, String> {
        let mut cuts = 0;
        for (i, operation) in operations.iter().enumerate() {
            let (start, end) = (operation.span.start, operation.span.end);
            for (j, at) in [start, Time((start.0 + end.0) / 2), end]
                .into_iter()
                .enumerate()
            {
                let rng = &mut Rng::named(seed + 3 * i as u64 + j as u64, "cut everywhere");
                let what = |e| format!("seed {seed}, cut {j} of operation {i} at {at}: {e}");
                let nested = (i % 3) as u64;
                let mut next = self.cut(at, rng, nested).map_err(what)?;
                for _ in 0..6 {
                    next.step(rng);
                }
                let at = Time(next.now.0 + rng.below(600_000));
                next.cut(at, rng, 0)
                    .map_err(|e| format!("then used, cut again: {e}"))
                    .map_err(what)?;
                cuts += 2 + nested;
            }
        }
        Ok(cuts)
    }
}

/// Pairs of a batch, mostly from the journal to elsewhere.
pub fn draw_pairs(rng: &mut Rng, units: u32, journal: u32) -> (Vec<(u32, u32, u32)>, Mode) {
    let mut free: Vec<u32> = (0..units).collect();
    let mut sources = std::collections::BTreeSet::new();
    let mut pairs = Vec::new();
    let most = if rng.one_in(6) { journal } else { 5 };
    for _ in 0..1 + rng.below(most.into()) {
        let len = 1 + rng.below(3) as u32;
        let limit = if rng.one_in(8) { units } else { journal };
        let src = rng.below(u64::from(limit.saturating_sub(len)) + 1) as u32;
        let home = rng.below(u64::from(units - len) + 1) as u32;
        let homes: Vec<u32> = (home..home + len).collect();
        let srcs: Vec<u32> = (src..src + len).collect();
        let taken = homes
            .iter()
            .any(|h| !free.contains(h) || sources.contains(h) || srcs.contains(h));
        if taken || srcs.iter().any(|s| !free.contains(s)) {
            continue;
        }
        free.retain(|l| !homes.contains(l));
        sources.extend(srcs);
        pairs.push((home, src, len));
    }
    if pairs.is_empty() {
        pairs.push((units - 1, 0, 1));
    }
    let mode = if rng.one_in(3) {
        Mode::Move
    } else {
        Mode::Share
    };
    (pairs, mode)
}
