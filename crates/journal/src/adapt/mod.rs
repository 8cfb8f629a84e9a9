//! `order=adaptive`: chooses the cheapest way to durability from what commands have cost so far.
//!
//! The model answers two questions, and any answer to either is safe: the flush step looks at
//! marks, not at what was chosen (journal-commit-F2). A question with one sensible answer is not
//! asked. Without a cache in the device that is so of both. The first is not asked either where
//! earlier data of the file needs a flush anyway. Of the second the answer is *ahead* for a log of
//! one block, and where cached writes may damage what lies beside them ([`Caps::no_collateral`]): a
//! log block sent through the cache would put committed log blocks in its programming unit at risk
//! (hazards-H13).
//!
//! | question | ways | costs |
//! |---|---|---|
//! | data of an fsync, k blocks in r runs | direct | fua(r, k) + fua(log), or fua(r + 1, k + log) where the data rides with the log |
//! | | cached | write(r, k) + the cheaper of flush(x + k) + fua(log) and write(log - 1) + flush(x + k + log - 1) + fua(1) |
//! | the log of a commit, J blocks | ahead | flush(x), if something vouched for needs one, + fua(J) |
//! | | end | write(J - 1) + flush(x + J - 1) + fua(1) |
//!
//! Direct data rides with the log, ahead of it in one packed command, where the device keeps a
//! prefix of a pack (journal-commit-F7). That saves a command and costs nothing, so the model does
//! not ask about it.
//!
//! One flush serves all who wait for it, while each writes its data with FUA for itself. So the
//! first question is put for all fsyncs that run at the same time ([`Beside`]): k and r are sums,
//! and the log is that of the one transaction which they share. How far FUA writes of several
//! commands overlap in the device is measured ([`Overlap`]).
//!
//! x is what the host believes to be in the device's cache. The three curves ([`Curve`]) start from
//! the ratios behind the crossover that the eMMC paper reports (IV.B, Fig. 8: direct persistence
//! pays below 128 KB) and follow measured spans.
//!
//! - Hysteresis: the way last taken for a question of this size stays until another one is cheaper
//!   by [`HOLD`].
//! - Exploration: a way whose figures are older than [`STALE`] decisions (an eighth of that while
//!   they rest on few samples) is tried although it looks dearer, as long as the sum of all extra
//!   costs of trials stays below [`EXPLORE`] of what the decisions cost. The real cost of a trial
//!   is booked afterwards. A way that is known only by the prior, or by figures of quite other
//!   sizes, gets one trial at once, unless it looks more than twice as dear.
//! - No clock and no randomness: equal samples, equal choices.

mod beside;
mod curve;
mod overlap;

use base::Nanos;
pub use beside::Syncing;
pub(crate) use beside::{Beside, Syncs};
use block::{Caps, PackOrder, Sample, Work};
use curve::{Curve, class};
use overlap::Overlap;
use std::collections::BTreeMap;

/// How much cheaper another way must be, share.
const HOLD: f64 = 0.02;
/// Decisions after which a figure counts as old.
const STALE: u64 = 64;
/// Share of all cost that trying may take.
const EXPLORE: f64 = 0.01;
/// Share of a new number in the running mean of log blocks.
const LOG_MEAN: f64 = 0.25;

base::words! {
    /// How the data of an fsync goes to the device.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum DataPath {
        /// Through the device's cache: a flush makes it durable.
        Cached => "data-cached",
        /// With FUA: it needs no flush.
        Direct => "data-direct",
        /// With FUA, but held back until the log of its transaction is written: it goes ahead of
        /// the log, in one command with it.
        WithLog => "data-with-log",
    }
}

/// What an fsync is about to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataNeed {
    /// Dirty pages, 4 KiB each.
    pub blocks: u64,
    /// Runs of neighbours among them.
    pub runs: u64,
    /// A transaction has to be committed, too.
    pub commits: bool,
    /// Data of the same file that was written earlier still needs a flush.
    pub flush_anyway: bool,
}

/// Why a way was taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Why {
    /// There is no other.
    Only,
    Cheapest,
    /// The other is cheaper by less than the hysteresis.
    Held,
    /// The way was taken to learn its cost.
    Tried,
}

impl Why {
    pub fn word(self) -> &'static str {
        match self {
            Why::Only => "only",
            Why::Cheapest => "cheapest",
            Why::Held => "held",
            Why::Tried => "tried",
        }
    }
}

/// What is to be decided.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Question {
    Data {
        /// Of all fsyncs that are under way.
        need: DataNeed,
        dirty: u64,
    },
    Log {
        blocks: u64,
        /// Blocks of held data that rides with the log.
        leading: u64,
        flush: bool,
        dirty: u64,
    },
}

/// The answer to both questions: past the cache or through it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Direct data; the log ahead.
    Past,
    /// Cached data; the log flushed at the end.
    Through,
}

impl Way {
    fn other(self) -> Way {
        match self {
            Way::Past => Way::Through,
            Way::Through => Way::Past,
        }
    }
}

/// The cost model of one journal.
pub(crate) struct Adapt {
    cached: Curve,
    fua: Curve,
    flush: Curve,
    /// Of writes with FUA.
    overlap: Overlap,
    /// Most writes that one command can pack.
    pack_max: u64,
    /// The log goes out in one command although its record must be last.
    log_in_one: bool,
    /// Data and log go out in one command.
    rides: bool,
    cache: bool,
    /// A log block in the cache does no harm to committed ones beside it (hazards-H13).
    harmless: bool,
    log_mean: f64,
    decisions: u64,
    spent: f64,
    tried: f64,
    /// The trial whose real cost is not known yet.
    trial: Option<Way>,
    /// Fsyncs that run at the same time as the one that tries, and follow it: what is tried is what
    /// the way costs for all of them.
    followers: u64,
    last: BTreeMap<(bool, usize), Way>,
    #[cfg(test)]
    pub random: Option<base::Rng>,
}

impl Adapt {
    /// A model of a device of which nothing but its promises is known. `self_committing`: the
    /// record says whether the transaction is complete.
    pub fn new(caps: &Caps, self_committing: bool) -> Adapt {
        let us = |n: u64| Nanos(n * 1000);
        let prefix = caps.packed.is_some_and(|p| p.order == PackOrder::Prefix);
        Adapt {
            cached: Curve::assumed(us(100), us(10)),
            fua: match caps.fua {
                true => Curve::assumed(us(1000), us(90)),
                // A write and a flush.
                false => Curve::assumed(us(1600), us(70)),
            },
            flush: Curve::assumed(us(1500), us(60)),
            overlap: Overlap::default(),
            pack_max: caps.packed.map_or(1, |p| u64::from(p.writes_max)),
            log_in_one: self_committing || prefix,
            rides: prefix && caps.fua,
            cache: caps.volatile_cache,
            harmless: caps.no_collateral,
            log_mean: 2.0,
            decisions: 0,
            spent: 0.0,
            tried: 0.0,
            trial: None,
            followers: 0,
            last: BTreeMap::new(),
            #[cfg(test)]
            random: None,
        }
    }

    /// Takes in what commands have cost since the last call. For a trial it books the cost that the
    /// device took beyond the estimate.
    pub fn observe(&mut self, samples: &[Sample]) {
        for sample in samples {
            let commands = sample.commands.max(1) as f64;
            let (curve, way) = match sample.work {
                Work::Cached => (&mut self.cached, None),
                Work::Fua => (&mut self.fua, Some(Way::Past)),
                Work::Flush => (&mut self.flush, Some(Way::Through)),
            };
            let (blocks, span) = (sample.blocks as f64, sample.span.0 as f64);
            if sample.work == Work::Flush && sample.blocks == 0 {
                // Nothing to flush: no point of the line.
                continue;
            }
            let single = curve.estimate(blocks / commands);
            // So many times as long as one command it took, as far as is known before it is learnt.
            let at_once = (sample.at_once as f64).clamp(1.0, commands);
            let rounds = commands / at_once;
            let expected = match sample.work {
                Work::Fua => rounds * self.overlap.times(at_once) * single,
                Work::Cached | Work::Flush => commands * single,
            };
            if way.is_some() && self.trial == way {
                self.tried += (span - expected).max(0.0);
                self.trial = None;
            }
            let times = match sample.work {
                Work::Fua => {
                    if at_once > 1.0 {
                        self.overlap.observe(at_once, span / rounds, single);
                    }
                    rounds * self.overlap.times(at_once)
                }
                Work::Cached | Work::Flush => commands,
            };
            curve.observe(blocks / commands, span / times, self.decisions);
        }
    }

    /// The way for data.
    pub fn data(&mut self, need: DataNeed, beside: Beside, dirty: u64) -> (DataPath, Why) {
        let only = !self.cache || need.flush_anyway || need.blocks == 0;
        let all = DataNeed {
            blocks: need.blocks + beside.blocks,
            runs: need.runs + beside.runs,
            ..need
        };
        // Data of others is in the cache already, or goes there if this does.
        let dirty = dirty.saturating_sub(beside.blocks);
        let (way, why) = match only {
            true => (Way::Through, Why::Only),
            false => {
                let share = need.blocks as f64 / all.blocks as f64;
                let question = Question::Data { need: all, dirty };
                self.decide(question, (share, beside.callers))
            }
        };
        let path = match way {
            Way::Past if self.rides && need.commits => DataPath::WithLog,
            Way::Past => DataPath::Direct,
            Way::Through => DataPath::Cached,
        };
        (path, why)
    }

    /// The way for a log of `blocks`, with `leading` blocks of held data; `flush`: data that the
    /// commit vouches for needs a flush.
    pub fn log(
        &mut self,
        (blocks, leading): (u64, u64),
        flush: bool,
        dirty: u64,
    ) -> (crate::Ending, Why) {
        self.log_mean += LOG_MEAN * (blocks as f64 - self.log_mean);
        let question = Question::Log {
            blocks,
            leading,
            flush,
            dirty,
        };
        let (way, why) = match !self.cache || !self.harmless || blocks < 2 {
            true => (Way::Past, Why::Only),
            false => self.decide(question, (1.0, 0)),
        };
        let ending = match way {
            Way::Past => crate::Ending::Ahead,
            Way::Through => crate::Ending::End,
        };
        (ending, why)
    }

    /// `share`: how much of what the question is about the caller has to pay for; `others`: those
    /// who are put the same question at the same time.
    fn decide(&mut self, question: Question, (share, others): (f64, u64)) -> (Way, Why) {
        #[cfg(test)]
        if let Some(rng) = &mut self.random {
            let way = [Way::Past, Way::Through][rng.below(2) as usize];
            return (way, Why::Tried);
        }
        if let Some(way) = self.trial.filter(|_| others > 0 && self.followers > 0) {
            self.followers -= 1;
            return (way, Why::Tried);
        }
        self.decisions += 1;
        self.overlap.forget();
        let slot = question.slot();
        let cost = |way| self.cost(&question, way);
        let cheapest = match cost(Way::Past) <= cost(Way::Through) {
            true => Way::Past,
            false => Way::Through,
        };
        let held = self.last.get(&slot).copied().unwrap_or(cheapest);
        let (way, why) = match held != cheapest && cost(held) <= (1.0 + HOLD) * cost(cheapest) {
            true => (held, Why::Held),
            false => (cheapest, Why::Cheapest),
        };
        let extra = (cost(way.other()) - cost(way)).max(0.0);
        let paid = cost(way);
        self.spent += share * paid;
        self.last.insert(slot, way);
        let affordable = self.tried + extra <= EXPLORE * self.spent;
        if self.stale(&question, way.other())
            && (affordable || self.blind(&question, way.other(), extra, paid))
        {
            self.tried += extra;
            self.trial = Some(way.other());
            self.followers = others;
            return (way.other(), Why::Tried);
        }
        (way, why)
    }

    /// Nanoseconds.
    fn cost(&self, question: &Question, way: Way) -> f64 {
        match (*question, way) {
            (Question::Data { need, .. }, Way::Past) => {
                let (commands, blocks) = self.past(&need);
                let log = match need.commits && !self.rides {
                    true => self.log_past(),
                    false => 0.0,
                };
                self.overlap.times(commands) * self.fua.estimate(blocks / commands) + log
            }
            (Question::Data { need, dirty }, Way::Through) => {
                let in_cache = (dirty + need.blocks) as f64;
                let ahead = self.flush.estimate(in_cache);
                let after = match (need.commits, self.harmless) {
                    (true, true) => {
                        (ahead + self.log_past()).min(self.log_through(self.log_mean, in_cache))
                    }
                    (true, false) => ahead + self.log_past(),
                    (false, _) => ahead,
                };
                self.cached(need.runs, need.blocks as f64) + after
            }
            (
                Question::Log {
                    blocks,
                    leading,
                    flush,
                    dirty,
                },
                Way::Past,
            ) => {
                let early = match flush {
                    true => self.flush.estimate(dirty as f64),
                    false => 0.0,
                };
                early + self.log_fua((blocks + leading) as f64)
            }
            (
                Question::Log {
                    blocks,
                    leading,
                    dirty,
                    ..
                },
                Way::Through,
            ) => {
                let first = match leading {
                    0 => 0.0,
                    n => self.fua.estimate(n as f64),
                };
                first + self.log_through(blocks as f64, dirty as f64)
            }
        }
    }

    fn log_past(&self) -> f64 {
        self.log_fua(self.log_mean)
    }

    fn log_fua(&self, blocks: f64) -> f64 {
        match self.log_in_one || blocks < 2.0 {
            true => self.fua.estimate(blocks),
            false => self.fua.estimate(blocks - 1.0) + self.fua.estimate(1.0),
        }
    }

    fn log_through(&self, blocks: f64, in_cache: f64) -> f64 {
        let body = blocks - 1.0;
        let write = if body > 0.0 {
            self.cached.estimate(body)
        } else {
            0.0
        };
        write + self.flush.estimate(in_cache + body) + self.fua.estimate(1.0)
    }

    /// Commands and blocks of direct data, with the log if that rides along.
    fn past(&self, need: &DataNeed) -> (f64, f64) {
        let (more, log) = match self.rides && need.commits {
            true => (1, self.log_mean),
            false => (0, 0.0),
        };
        let commands = (need.runs + more).div_ceil(self.pack_max).max(1);
        (commands as f64, need.blocks as f64 + log)
    }

    fn cached(&self, runs: u64, blocks: f64) -> f64 {
        let commands = runs.max(1) as f64;
        commands * self.cached.estimate(blocks / commands)
    }

    /// True if nothing is known of what this way needs but the prior and figures of quite other
    /// sizes, while the other's figure is measured, and it does not look much dearer: one try
    /// tells.
    fn blind(&self, question: &Question, way: Way, extra: f64, paid: f64) -> bool {
        let known = |way| {
            let (curve, blocks) = self.needs(question, way);
            curve.knows(blocks)
        };
        !known(way) && known(way.other()) && self.trial.is_none() && extra <= paid
    }

    /// The curve that decides about a way, and at which size.
    fn needs(&self, question: &Question, way: Way) -> (&Curve, f64) {
        match (*question, way) {
            (Question::Data { need, .. }, Way::Past) => {
                let (commands, blocks) = self.past(&need);
                (&self.fua, blocks / commands)
            }
            (
                Question::Log {
                    blocks, leading, ..
                },
                Way::Past,
            ) => (&self.fua, (blocks + leading) as f64),
            (Question::Data { need, dirty }, Way::Through) => {
                (&self.flush, (dirty + need.blocks) as f64)
            }
            (Question::Log { blocks, dirty, .. }, Way::Through) => {
                (&self.flush, (dirty + blocks - 1) as f64)
            }
        }
    }

    /// True if taking this way would refresh an old figure that speaks against it.
    fn stale(&self, question: &Question, way: Way) -> bool {
        let (curve, blocks) = self.needs(question, way);
        let stale = if curve.is_sure() { STALE } else { STALE / 8 };
        let age = curve.age(blocks, self.decisions);
        age.is_none_or(|age| age > stale)
    }
}

impl Question {
    /// Questions that share their last answer.
    fn slot(&self) -> (bool, usize) {
        match self {
            Question::Data { need, .. } => (true, class(need.blocks as f64)),
            Question::Log { blocks, .. } => (false, class(*blocks as f64)),
        }
    }
}

#[cfg(test)]
mod tests;
