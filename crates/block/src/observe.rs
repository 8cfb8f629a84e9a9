//! What commands cost, as the host sees it: samples for code that chooses between ways to make data
//! durable.
//!
//! A sample is taken only where the span is that of the work itself: no flush and no other
//! non-volatile write was under way when it began, nothing but reads was submitted until it ended,
//! and the waiter really had to wait for its end. Sampling is off until it is switched on
//! ([`Queue::observe`](crate::Queue::observe)).

use base::{Nanos, Time};
use std::collections::VecDeque;

/// Most samples kept until they are drained; the oldest go first.
const SAMPLES_MAX: usize = 64;

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

/// What the samples need to know of the queue.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    on: bool,
    /// Commands ever submitted.
    submitted: u64,
    /// Flushes and non-volatile writes under way.
    urgent: u64,
    samples: VecDeque<Sample>,
}

impl Observer {
    pub fn switch(&mut self, on: bool) {
        self.on = on;
    }
    /// Begins a measurement, before its commands are submitted.
    pub fn begin(&self, work: Work, commands: u64, blocks: u64) -> Option<Probe> {
        (self.on && self.urgent == 0 && commands > 0).then(|| Probe {
            work,
            commands,
            blocks,
            at: rt::now(),
            expect: self.submitted + commands,
        })
    }
    pub fn submitted(&mut self, urgent: bool) {
        self.submitted += 1;
        self.urgent += u64::from(urgent);
    }
    pub fn completed(&mut self, urgent: bool) {
        self.urgent -= u64::from(urgent);
    }
    /// Ends a measurement; `waiting_since` is when the waiter came for the last command.
    pub fn end(&mut self, probe: Probe, waiting_since: Time, ok: bool) {
        let now = rt::now();
        // A waiter that did not have to wait does not know when the work ended.
        if !ok || now <= waiting_since || self.submitted != probe.expect {
            return;
        }
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample {
            work: probe.work,
            commands: probe.commands,
            blocks: probe.blocks,
            span: now - probe.at,
        });
    }
    pub fn take(&mut self) -> Vec<Sample> {
        self.samples.drain(..).collect()
    }
}
