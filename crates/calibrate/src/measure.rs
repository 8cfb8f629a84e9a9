//! Measuring: the requests of each probe, and how long they took.

use crate::bench::Bench;
use crate::estimate::Estimate;
use crate::probe::{Plan, Probe};
use base::{Bytes, Lba, Nanos, Rng};
use blockdev::{Class, DevError, PackedWrite, Piece, Request};
use std::collections::BTreeMap;
use thiserror::Error;

/// Length of each write of a burst and of a discard, KiB.
const STEP_KIB: u32 = 64;
/// Transfer with which the area is filled before, KiB at most.
const FILL_KIB: u64 = 512;
/// Commands of a probe with several under way: so many times the depth.
const ROUNDS: u32 = 8;

/// What was measured.
pub type Seen = BTreeMap<Probe, Estimate>;

/// How thoroughly to measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Bytes from the begin of the device on that are written and read.
    pub area: u64,
    /// Times of each probe, at most.
    pub repeats: usize,
    /// A probe that has taken so long is not repeated beyond [`Effort::LEAST`].
    pub budget: Nanos,
    /// Seed of places and content.
    pub seed: u64,
}

impl Effort {
    /// Times of each probe, at least: of fewer there is no interval.
    pub const LEAST: usize = 5;
}

/// Why measuring ended early.
#[derive(Clone, Debug, Error)]
pub enum MeasureError {
    /// The device's error for the first request that failed.
    #[error("{0}")]
    Device(#[from] DevError),
    /// The caller wanted no more.
    #[error("it was stopped")]
    Stopped,
}

/// Hears what is measured next, and answers whether to go on.
pub type Told<'a> = &'a mut dyn FnMut(&str) -> bool;

/// Measures all probes of a plan. The first `effort.area` bytes of the device are written over.
///
/// # Errors
/// A request failed, or `told` answered no.
pub fn measure(
    bench: &mut dyn Bench,
    plan: &Plan,
    effort: &Effort,
    told: Told<'_>,
) -> Result<Seen, MeasureError> {
    let mut rng = Rng::named(effort.seed, "calibrate");
    // Random, because a device may store zeros or repeated content for less.
    let mut content = vec![0; 2 << 20];
    rng.fill(&mut content);
    let mut work = Work {
        bench,
        plan,
        effort,
        rng,
        content: content.into(),
        times: BTreeMap::new(),
    };
    go_on(told, "fill")?;
    work.fill()?;
    work.all(told)?;
    let estimates = work.times.into_iter();
    let estimates = estimates.filter_map(|(probe, t)| Estimate::of(t).map(|e| (probe, e)));
    Ok(estimates.collect())
}

/// Name of a kind of probes, how it is measured, and the size of a probe if it is of that kind.
type Row<'w> = (&'static str, Step<'w>, fn(&Probe) -> Option<u32>);
/// Measures the probes of one kind and one size.
type Step<'w> = fn(&mut Work<'w>, u32) -> Result<(), DevError>;

fn go_on(told: Told<'_>, what: &str) -> Result<(), MeasureError> {
    match told(what) {
        true => Ok(()),
        false => Err(MeasureError::Stopped),
    }
}

struct Work<'a> {
    bench: &'a mut dyn Bench,
    plan: &'a Plan,
    effort: &'a Effort,
    rng: Rng,
    content: Bytes,
    times: BTreeMap<Probe, Vec<f64>>,
}

impl<'w> Work<'w> {
    /// Writes the whole area once, so that reads find chips that were programmed, and writes find
    /// blocks of a file that are allocated.
    fn fill(&mut self) -> Result<(), DevError> {
        let step = (self.bench.caps().max_transfer_sectors / 2).clamp(4, FILL_KIB) as u32;
        for at in (0..self.effort.area / 1024).step_by(step as usize) {
            let left = (self.effort.area / 1024 - at).min(u64::from(step)) as u32;
            let write = self.write(Lba(at * 2), left);
            self.untimed(write)?;
        }
        self.flush()
    }
    fn all(&mut self, told: Told<'_>) -> Result<(), MeasureError> {
        let steps: [Row<'w>; 8] = [
            ("read", Work::read, |p| match p {
                Probe::Read { kib } => Some(*kib),
                _ => None,
            }),
            ("write and flush", Work::write_and_flush, |p| match p {
                Probe::Write { kib } | Probe::Flush { kib } => Some(*kib),
                _ => None,
            }),
            ("write in line", Work::in_line, |p| match p {
                Probe::InLine { kib } => Some(*kib),
                _ => None,
            }),
            ("durable write", Work::durable, |p| match p {
                Probe::Durable { kib } => Some(*kib),
                _ => None,
            }),
            ("reads under way", Work::reads, |p| match p {
                Probe::Reads { depth } => Some(*depth),
                _ => None,
            }),
            ("writes under way", Work::writes, |p| match p {
                Probe::Writes { depth } => Some(*depth),
                _ => None,
            }),
            ("packed writes", Work::packed, |p| match p {
                Probe::Packed { writes } => Some(*writes),
                _ => None,
            }),
            ("burst", Work::burst, |p| match p {
                Probe::Burst { kib } => Some(*kib),
                _ => None,
            }),
        ];
        for (name, step, of) in steps {
            for size in self.plan.sizes(of) {
                go_on(told, &format!("{name} ({size})"))?;
                step(self, size)?;
            }
        }
        if self.plan.probes.contains(&Probe::IdleFlush) {
            go_on(told, "flush behind nothing")?;
            self.idle_flush()?;
        }
        // Last, because a place that was discarded reads faster.
        if self.plan.probes.contains(&Probe::Discard) {
            go_on(told, "discard")?;
            self.discard()?;
        }
        Ok(())
    }

    // Probes.

    fn read(&mut self, kib: u32) -> Result<(), DevError> {
        self.repeat(|work| {
            let read = Request::read(work.place(kib), u64::from(kib) * 2);
            work.timed(Probe::Read { kib }, read)
        })
    }
    fn write_and_flush(&mut self, kib: u32) -> Result<(), DevError> {
        self.repeat(|work| {
            let write = work.write_somewhere(kib);
            let wrote = work.timed(Probe::Write { kib }, write)?;
            Ok(wrote + work.flush_timed(Probe::Flush { kib })?)
        })
    }
    fn in_line(&mut self, kib: u32) -> Result<(), DevError> {
        let mut at = self.place(kib);
        let before = self.write(at, kib);
        self.untimed(before)?;
        self.repeat(|work| {
            at = at.plus(u64::from(kib) * 2);
            if at.0 * 512 + u64::from(kib) * 1024 > work.effort.area {
                at = Lba(0);
                let before = work.write(at, kib);
                work.untimed(before)?;
                at = at.plus(u64::from(kib) * 2);
            }
            let write = work.write(at, kib);
            let took = work.timed(Probe::InLine { kib }, write)?;
            work.flush()?;
            Ok(took)
        })
    }
    fn durable(&mut self, kib: u32) -> Result<(), DevError> {
        self.repeat(|work| {
            let (at, bytes) = (work.place(kib), work.bytes(kib));
            work.timed(
                Probe::Durable { kib },
                Request::write_fua(at, Class::Data, bytes),
            )
        })
    }
    fn idle_flush(&mut self) -> Result<(), DevError> {
        self.flush()?;
        self.repeat(|work| work.flush_timed(Probe::IdleFlush))
    }
    fn reads(&mut self, depth: u32) -> Result<(), DevError> {
        self.repeat(|work| {
            let all = (0..ROUNDS * depth).map(|_| Request::read(work.place(4), 8));
            let all = all.collect();
            work.timed_by(Probe::Reads { depth }, all, depth, ROUNDS * depth)
        })
    }
    fn writes(&mut self, depth: u32) -> Result<(), DevError> {
        self.repeat(|work| {
            let all = (0..ROUNDS * depth)
                .map(|_| work.write_somewhere(4))
                .collect();
            let took = work.timed_by(Probe::Writes { depth }, all, depth, ROUNDS * depth)?;
            work.flush()?;
            Ok(took)
        })
    }
    fn burst(&mut self, kib: u32) -> Result<(), DevError> {
        let step = (self.bench.caps().max_transfer_sectors / 2).clamp(4, u64::from(STEP_KIB));
        let step = step as u32;
        self.repeat(|work| {
            let at = work.place(kib);
            let writes = (0..kib / step).map(|i| {
                let at = at.plus(u64::from(i * step) * 2);
                work.write(at, step)
            });
            let writes = writes.collect();
            let took = work.timed_by(Probe::Burst { kib }, writes, 1, 1)?;
            work.flush()?;
            Ok(took)
        })
    }
    fn packed(&mut self, writes: u32) -> Result<(), DevError> {
        self.repeat(|work| {
            // A step apart, so that no sector comes twice.
            let first = work.place(writes * STEP_KIB);
            let entries = (0..writes).map(|i| PackedWrite {
                lba: first.plus(u64::from(i * STEP_KIB) * 2),
                pieces: vec![Piece {
                    class: Class::Data,
                    bytes: work.bytes(4),
                }],
                fua: true,
            });
            let pack = Request::pack(entries.collect());
            work.timed(Probe::Packed { writes }, pack)
        })
    }
    fn discard(&mut self) -> Result<(), DevError> {
        self.repeat(|work| {
            let discard = Request::discard(work.place(STEP_KIB), u64::from(STEP_KIB) * 2);
            let took = work.timed(Probe::Discard, discard)?;
            work.flush()?;
            Ok(took)
        })
    }

    // Parts of them.

    /// Repeats a probe, which answers with the time that it took.
    fn repeat(
        &mut self,
        mut once: impl FnMut(&mut Self) -> Result<Nanos, DevError>,
    ) -> Result<(), DevError> {
        let mut spent = 0;
        for done in 0..self.effort.repeats {
            if done >= Effort::LEAST && spent > self.effort.budget.0 {
                break;
            }
            spent += once(self)?.0;
        }
        Ok(())
    }
    fn timed(&mut self, probe: Probe, request: Request) -> Result<Nanos, DevError> {
        self.timed_by(probe, vec![request], 1, 1)
    }
    /// Keeps the time of all requests divided by `by`.
    fn timed_by(
        &mut self,
        probe: Probe,
        requests: Vec<Request>,
        depth: u32,
        by: u32,
    ) -> Result<Nanos, DevError> {
        let took = self.bench.run(requests, depth as usize)?;
        if self.plan.probes.contains(&probe) {
            let us = took.0 as f64 / 1000.0 / f64::from(by);
            self.times.entry(probe).or_default().push(us);
        }
        Ok(took)
    }
    fn untimed(&mut self, request: Request) -> Result<Nanos, DevError> {
        self.bench.run(vec![request], 1)
    }
    fn flush(&mut self) -> Result<(), DevError> {
        if self.bench.caps().volatile_cache {
            self.untimed(Request::flush())?;
        }
        Ok(())
    }
    fn flush_timed(&mut self, probe: Probe) -> Result<Nanos, DevError> {
        match self.bench.caps().volatile_cache {
            true => self.timed(probe, Request::flush()),
            false => Ok(Nanos(0)),
        }
    }
    fn write_somewhere(&mut self, kib: u32) -> Request {
        let at = self.place(kib);
        self.write(at, kib)
    }
    fn write(&mut self, at: Lba, kib: u32) -> Request {
        Request::write(at, Class::Data, self.bytes(kib))
    }
    /// A place where so much fits, a multiple of its length.
    fn place(&mut self, kib: u32) -> Lba {
        let places = (self.effort.area / 1024 / u64::from(kib)).max(1);
        Lba(self.rng.below(places) * u64::from(kib) * 2)
    }
    /// Content that differs from write to write.
    fn bytes(&mut self, kib: u32) -> Bytes {
        let len = kib as usize * 1024;
        let room = (self.content.len() - len) / 512;
        let from = self.rng.below(room as u64 + 1) as usize * 512;
        self.content.slice(from..from + len)
    }
}
