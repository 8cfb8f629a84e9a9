//! What commands cost, as the host sees it: samples for code that chooses between ways to make data
//! durable.
//!
//! A sample is taken only where the span is that of the work itself: nothing but reads was under
//! way when it began or was submitted until it ended, and the waiter really had to wait for it.
//! Non-volatile writes of several tasks are one sample, from the first submission to the last
//! completion, so it tells what such a write costs where many wait at once: as much as alone on a
//! device that does one after the other, and less on one that does several. Sampling is off until
//! it is switched on ([`Queue::observe`](crate::Queue::observe)).

use crate::batch::Kind;
use base::{Nanos, Time};
use std::collections::VecDeque;

/// Most samples kept until they are drained; the oldest go first.
const SAMPLES_MAX: usize = 64;
/// Non-volatile writes after which a sample of them ends although more are under way.
const PERIOD_MAX: u64 = 32;

/// Kinds of work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Work {
    /// Writes through the cache.
    Cached,
    /// Writes that are non-volatile at completion (a flush behind them included where the device
    /// has no FUA).
    Fua,
    /// A flush.
    Flush,
}

/// One sample: how long some work took.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    /// What it was.
    pub work: Work,
    /// Commands, at least one.
    pub commands: u64,
    /// Most of them that were under way at a time.
    pub at_once: u64,
    /// 4 KiB blocks, part blocks rounded up: written, or in the cache when the flush began.
    pub blocks: u64,
    /// From the first submission to the last completion.
    pub span: Nanos,
}

/// A measurement that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub work: Work,
    pub commands: u64,
    pub blocks: u64,
    pub at: Time,
    /// Value of `submitted` once the commands of the measurement are counted.
    expect: u64,
}

impl Probe {
    /// The work needed a flush after it.
    pub fn flush_of_its_own(&mut self) {
        self.expect += 1;
    }
}

/// A time in which nothing but non-volatile writes was under way.
#[derive(Clone, Copy, Debug)]
struct Period {
    at: Time,
    /// Commands and blocks that have completed in it.
    commands: u64,
    blocks: u64,
    /// Most commands that were under way.
    at_once: u64,
    /// Commands of the period before that are still under way: this one begins behind them.
    earlier: u64,
    /// When a waiter saw one of them end that it had waited for. A waiter that comes late does not
    /// know when the work ended.
    seen: Time,
}

impl Period {
    fn behind(earlier: u64) -> Period {
        Period {
            at: rt::now(),
            commands: 0,
            blocks: 0,
            at_once: earlier,
            earlier,
            seen: Time::default(),
        }
    }
}

/// What the samples need to know of the queue.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    on: bool,
    /// Commands ever submitted, reads aside.
    submitted: u64,
    /// Those that are under way.
    under_way: u64,
    /// `None` while something else is under way as well, and until the queue is empty again.
    period: Option<Period>,
    samples: VecDeque<Sample>,
}

impl Observer {
    pub fn switch(&mut self, on: bool) {
        self.on = on;
    }
    /// Begins a measurement, before its commands are submitted.
    pub fn begin(&self, work: Work, commands: u64, blocks: u64) -> Option<Probe> {
        (self.on && self.under_way == 0 && commands > 0).then(|| Probe {
            work,
            commands,
            blocks,
            at: rt::now(),
            expect: self.submitted + commands,
        })
    }
    /// A write of this kind is submitted; `None`: a flush or a REMAP.
    pub fn submitted(&mut self, kind: Option<Kind>) {
        self.period = match kind {
            _ if !self.on => None,
            Some(Kind::Durable) if self.under_way == 0 => Some(Period::behind(0)),
            Some(Kind::Durable) => self.period,
            _ => None,
        };
        self.submitted += 1;
        self.under_way += 1;
        if let Some(period) = &mut self.period {
            period.at_once = period.at_once.max(self.under_way);
        }
    }
    /// Something of `blocks` has completed, well or not. `waiting_since` is when its waiter came.
    pub fn completed(&mut self, blocks: u64, waiting_since: Time, ok: bool) {
        self.under_way -= 1;
        if !ok {
            self.period = None;
        }
        let Some(period) = &mut self.period else {
            return;
        };
        let now = rt::now();
        if now > waiting_since {
            period.seen = now;
        }
        if period.earlier > 0 {
            period.earlier -= 1;
            period.at = now;
        } else {
            period.commands += 1;
            period.blocks += blocks;
        }
        let done = *period;
        if self.under_way == 0 {
            self.period = None;
        } else if done.commands >= PERIOD_MAX {
            self.period = Some(Period::behind(self.under_way));
        } else {
            return;
        }
        if done.commands > 0 && done.seen == now && now > done.at {
            let at_once = done.at_once.min(done.commands);
            self.push(Work::Fua, (done.commands, at_once), done.blocks, done.at);
        }
    }
    /// Ends a measurement; `waiting_since` is when the waiter came for the last command.
    pub fn end(&mut self, probe: Probe, waiting_since: Time, ok: bool) {
        if ok && rt::now() > waiting_since && self.submitted == probe.expect {
            self.push(
                probe.work,
                (probe.commands, probe.commands),
                probe.blocks,
                probe.at,
            );
        }
    }
    fn push(&mut self, work: Work, (commands, at_once): (u64, u64), blocks: u64, since: Time) {
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample {
            work,
            commands,
            at_once,
            blocks,
            span: rt::now() - since,
        });
    }
    pub fn take(&mut self) -> Vec<Sample> {
        self.samples.drain(..).collect()
    }
}
