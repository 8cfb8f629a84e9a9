//! Random histories over the journal's public interface, cut everywhere, on a device that leaves
//! any state its `Caps` allow.
//!
//! One run yields all its cuts: a sampler takes snapshots while the history plays on. Properties,
//! judged after recovery from each:
//! - Q0: the log opens and recovers without an error;
//! - Q1: the metadata equals the state after some transaction, whole;
//! - Q2: that transaction is not older than the newest one that was published before the cut;
//! - Q3: recovery leaves blocks alone that hold file data;
//! - Q4: a cut inside recovery, and recovery once more (to depth 2), gives the same state;
//! - Q5: at the end of a life file data on the device is what was written: no stale home write hit
//!   it;
//! - Q6: ordered data of every transaction that recovery finds is there;
//! - Q7: the history itself runs: no refusal, no panic, no dead end.

#![allow(dead_code, reason = "shared by two test programs")]

pub mod cells;
pub mod judge;
pub mod life;
pub mod model;
pub mod odd;

use base::{BLOCK_BYTES, BlockNo, Bytes, Mutant, Rng};
use blockdev::{Caps, Image};
use journal::{LogPlace, Preset, Scheme};
use life::Life;
use rt::{Outcome, Reached, Sim, SimConfig};
use std::collections::BTreeSet;
use std::fmt;
use varve_journal as journal;

/// A violation of a property.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Its label, as `harness-Q1`.
    pub property: &'static str,
    /// Where and how.
    pub text: String,
}

impl Violation {
    pub fn new(property: &'static str, text: impl Into<String>) -> Violation {
        let text = text.into();
        Violation { property, text }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.property, self.text)
    }
}

/// The kind of histories that are played.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Blocks of the log, the superblock included: from, below.
    pub log_blocks: (u64, u64),
    /// Operations of each task: from, below.
    pub operations: (u64, u64),
    /// Most tasks that work at once.
    pub tasks: u64,
    /// Lives: each ends with a cut, the next begins with its recovery.
    pub lives: u64,
    /// No programming unit of the device holds both metadata and file data, or two blocks of file
    /// data.
    pub apart: bool,
    /// One in so many images poses as a control block of the log.
    pub pose_one_in: u64,
    /// Each life has a scheme of its own, of any preset that the device allows.
    pub mixed: bool,
    /// Recovery happens on this device instead.
    pub moved: Option<fn() -> Caps>,
    /// The odd behaviour of the device.
    pub odd: odd::Odd,
    /// One in so many new contents is all zeros; 0: none.
    pub zeros_one_in: u64,
    /// Blocks that are free are discarded, once what freed them is committed (balloc-A2).
    pub discards: bool,
    /// Blocks change their owners all the time; nothing else happens.
    pub churn: bool,
    /// Small stores only, no whole blocks.
    pub small: bool,
    /// Checkpoints and write-back by timers and at random.
    pub checkpoints: bool,
    /// Checksums v3 in the log; `None`: either.
    pub checksums: Option<bool>,
    /// One in so many blocks of a recovered device cannot be read; 0: none.
    pub unreadable_one_in: u64,
    /// Most cuts that one life yields.
    pub cuts: usize,
    /// One in so many cuts is followed by cuts inside its recovery.
    pub nested_one_in: u64,
    /// One in so many handles is dropped in the middle of its work; 0: none.
    pub drop_one_in: u64,
}

impl Default for Workload {
    fn default() -> Workload {
        Workload {
            log_blocks: (16, 65),
            operations: (6, 26),
            tasks: 3,
            lives: 2,
            apart: false,
            pose_one_in: 4,
            mixed: false,
            moved: None,
            odd: odd::Odd::Nothing,
            zeros_one_in: 0,
            discards: false,
            churn: false,
            small: false,
            checkpoints: true,
            checksums: None,
            unreadable_one_in: 0,
            cuts: 48,
            nested_one_in: 4,
            drop_one_in: 0,
        }
    }
}

/// One scheme on one device under one workload.
#[derive(Clone, Debug)]
pub struct Setup {
    pub scheme: Scheme,
    /// The promises; the size is set by each history.
    pub caps: Caps,
    pub workload: Workload,
}

impl Setup {
    pub fn of(scheme: Scheme, caps: Caps) -> Setup {
        Setup {
            scheme,
            caps,
            workload: Workload::default(),
        }
    }
}

/// The layout of the device in one history. Units of 16 KiB hold either log, metadata or file data
/// if the workload wants it.
#[derive(Clone)]
pub struct Layout {
    pub place: LogPlace,
    pub blocks: u64,
    /// Blocks for metadata and, unless `apart`, for file data.
    pub first: u64,
    /// Behind the last of them; from here on only file data, if any.
    pub middle: u64,
    pub end: u64,
}

const HOMES: u64 = 16;
/// Programming units for file data alone.
const DATA: u64 = 8;
/// Blocks in a programming unit.
const UNIT: u64 = 4;
/// Blocks of the log that lie at the end of the device, to exercise the mapping.
const TAIL_RUN: u64 = UNIT;

impl Layout {
    pub fn new(log_blocks: u64, apart: bool) -> Layout {
        let first = log_blocks.next_multiple_of(UNIT);
        let middle = first + HOMES;
        let end = if apart { middle + DATA * UNIT } else { middle };
        let blocks = end + TAIL_RUN;
        let runs = [
            (BlockNo(0), (log_blocks - TAIL_RUN) as u32),
            (BlockNo(end), TAIL_RUN as u32),
        ];
        Layout {
            place: LogPlace::new(&runs, blocks).expect("fits"),
            blocks,
            first,
            middle,
            end,
        }
    }
    /// All blocks but those of the log and those that stay empty beside file data.
    pub fn homes(&self) -> impl Iterator<Item = BlockNo> + '_ {
        let used = |n: &u64| *n < self.middle || n.is_multiple_of(UNIT);
        (self.first..self.end).filter(used).map(BlockNo)
    }
    /// A device with an empty log, known metadata in half of the homes and old bytes everywhere
    /// else.
    pub fn image(&self, rng: &mut Rng) -> Image {
        let mut image = Image::new();
        let mut log = vec![0; BLOCK_BYTES];
        let blocks = self.place.blocks_count();
        ondisk::jbd2::Superblock::new(BLOCK_BYTES as u32, blocks, *b"a journal's UUID")
            .encode(&mut log);
        image.set_block(0, log.into());
        for n in self.first..self.end {
            let byte = rng.next_u64() as u8 | 1;
            image.set_block(n, Bytes::from(vec![byte; BLOCK_BYTES]));
        }
        image
    }
}

/// The result of a campaign.
#[derive(Default)]
pub struct Tally {
    /// States recovered and judged, those inside recovery included.
    pub states: u64,
    /// Different contents among the first cuts.
    pub distinct: BTreeSet<u64>,
    pub violations: Vec<(u64, Violation)>,
    pub reached: Reached,
    /// States judged before the first violation.
    pub first_after: u64,
}

impl Tally {
    pub fn add(&mut self, reached: Reached) {
        for (mutant, n) in reached {
            *self.reached.entry(mutant).or_default() += n;
        }
    }
    pub fn violated(&mut self, seed: u64, violation: Violation) {
        if self.violations.is_empty() {
            self.first_after = self.states;
        }
        self.violations.push((seed, violation));
    }
    /// The first violation with the seed that shows it again.
    pub fn first(&self) -> Option<String> {
        let (seed, v) = self.violations.first()?;
        Some(format!("seed {seed}: {v}"))
    }
}

/// Plays histories from seed `first` on until `states` states were judged. Stops at the first
/// violation if `stop` says so.
pub fn explore(
    setup: &Setup,
    first: u64,
    states: u64,
    mutant: Option<Mutant>,
    stop: bool,
) -> Tally {
    let mut tally = Tally::default();
    let mut seed = first;
    while tally.states < states && (tally.violations.is_empty() || !stop) {
        history(setup, seed, states, mutant, &mut tally);
        seed += 1;
        assert!(seed < first + 4 * states + 100, "histories yield states");
    }
    tally
}

fn config(seed: u64, mutant: Option<Mutant>, random: bool) -> SimConfig {
    let base = match random {
        true => SimConfig::random(seed),
        false => SimConfig::seeded(seed),
    };
    SimConfig {
        mutant,
        quiet: true,
        ..base
    }
}

/// Runs a simulation; its reached guards go to the tally, its failure is a violation.
fn simulate<T>(
    cfg: SimConfig,
    tally: &mut Tally,
    body: impl FnOnce() -> Result<T, Violation>,
) -> Result<T, Violation> {
    let Outcome {
        value,
        first_failure,
        reached,
        replay,
        ..
    } = Sim::new(cfg).run(body);
    tally.add(reached);
    match (first_failure, value) {
        (None, Some(result)) => result,
        // A violation found before the simulation failed says more.
        (_, Some(Err(v))) => Err(v),
        (failure, _) => {
            let why = failure.map_or("no value".into(), |f| f.to_string());
            Err(Violation::new("harness-Q7", format!("{why}; {replay}")))
        }
    }
}

/// One history of several lives.
fn history(setup: &Setup, seed: u64, limit: u64, mutant: Option<Mutant>, tally: &mut Tally) {
    let mut rng = Rng::named(seed, "history");
    let w = &setup.workload;
    let log_blocks = w.log_blocks.0 + rng.below(w.log_blocks.1 - w.log_blocks.0);
    let layout = Layout::new(log_blocks, w.apart);
    let image = layout.image(&mut rng);
    let mut life = Life::first(setup, layout, image, &mut rng);
    let lives = 1 + rng.below(w.lives);
    for n in 0..lives {
        let random = rng.one_in(2);
        let cfg = config(seed ^ n << 40, mutant, random);
        let life_seed = rng.next_u64();
        if let Err(v) = simulate(cfg, tally, || life.play(life_seed)) {
            tally.violated(seed, v);
            return;
        }
        let chosen = rng.next_u64();
        let cfg = config(seed, mutant, false);
        let mut counted = Tally::default();
        let judged = simulate(cfg, tally, || {
            judge::all(&life, chosen, limit, &mut counted)
        });
        tally.states += counted.states;
        tally.distinct.append(&mut counted.distinct);
        match judged {
            Err(v) => {
                tally.violated(seed, v);
                return;
            }
            Ok(None) => return,
            Ok(Some((state, image))) => life = life.next(state, image, &mut rng),
        }
        if tally.states >= limit {
            return;
        }
    }
}
