//! The job of Fig 2c and 2d: runs operations on names, cuts the power, and looks what is back.
//!
//! - L1: what is there is the state after some prefix of the operations: one process did them, and
//!   every system here orders its changes.
//! - L2: one run has all its cuts, because a copy is taken of what a cut would leave, and the run
//!   goes on. A task takes copies at seeded moments. The worst moment for the system is when the
//!   commit block, or the first block of a checkpoint pack, is about to be sent: until then all
//!   that this commit or checkpoint makes durable would be lost. The last such moment in the second
//!   half of the run counts, or the end of the run if there is none.

use super::measure::Host;
use super::objects::{meta, recovered};
use crate::PaperError;
use base::{Nanos, Rng, Time};
use report::metrics::round;
use rig::{
    AnyModel, BlockDevice, Caps, Class, Clock, DevError, Media, Modelled, Op, Reply, Request,
    Stack, Ticket,
};
use rt::{Mutex, Sim, SimConfig};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use work::RunConfig;
use work::run::sync_home;
use work::workload::bench::MetaSpec;
use work::workload::{BenchSpec, Workload};

/// The job: what to run and cut.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LossJob {
    /// System, and a `meta:` workload of one process.
    pub run: RunConfig,
    /// The host that it runs on.
    pub host: Host,
    /// Number of operations that each one stands for. After it passes the time that the others
    /// would take, so that an interval of seconds is as long compared with the run as in a run with
    /// all of them.
    pub stands_for: u32,
    /// Number of cuts at seeded moments, beside the one at the worst moment.
    pub cuts: u32,
}

/// What all cuts of a run lost. Times are virtual.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Lost {
    /// Number of operations.
    pub ops: u64,
    /// Length of the run, seconds.
    pub seconds: f64,
    /// Number of commits or checkpoints in the run.
    pub commits: u64,
    /// Time between two operations that stands for the operations left out, microseconds.
    pub pause_us: f64,
    /// The cut at the worst moment of the second half, then the seeded ones by ascending time.
    pub cuts: Vec<Cut>,
}

/// What one cut lost.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Cut {
    /// Moment of the cut, seconds since the beginning of the run.
    pub at_s: f64,
    /// Number of operations that had ended.
    pub done: u64,
    /// Number of those that are not there after recovery.
    pub lost: u64,
    /// Number of files that are there without their content.
    pub hollow: u64,
    /// Age of the oldest operation that is lost, seconds.
    pub oldest_s: f64,
    /// Duration of the mount that recovers, milliseconds.
    pub mount_ms: f64,
}

impl Cut {
    /// Share of the operations that had ended and are lost.
    pub fn share(&self) -> f64 {
        self.lost as f64 / self.done.max(1) as f64
    }
}

impl Lost {
    /// The cut at the worst moment.
    pub fn worst(&self) -> Cut {
        self.cuts.first().copied().unwrap_or_default()
    }

    /// The largest share of the seeded cuts.
    pub fn seeded(&self) -> f64 {
        let shares = self.cuts.iter().skip(1).map(Cut::share);
        shares.fold(0.0, f64::max)
    }

    /// The greatest age of a lost operation over all cuts, seconds.
    pub fn oldest_s(&self) -> f64 {
        self.cuts.iter().map(|c| c.oldest_s).fold(0.0, f64::max)
    }
}

/// The first operations, one in this many of all, are timed: their median says how long one takes.
const WARM: u32 = 50;
/// Time from power on to the mount, in which the drive recovers its own map.
pub const BOOT: Nanos = Nanos::from_secs(10);

/// A moment, and what a cut at it would leave.
type Remainder = (Time, Media);

/// What was seen of a run.
struct Seen {
    start: Time,
    ended: Vec<Time>,
    end: Time,
    pause: Nanos,
    commits: u64,
    worst: Remainder,
    seeded: Vec<Remainder>,
}

/// Takes what a cut would leave whenever a write that makes changes durable is about to be sent.
struct Watch {
    device: Arc<Modelled<AnyModel>>,
    class: Class,
    seed: u64,
    state: Mutex<Watching>,
}

#[derive(Default)]
struct Watching {
    armed: bool,
    done: usize,
    taken_at: usize,
    last: Option<Remainder>,
}

/// A layer above the device that sees every command pass.
struct Tap {
    inner: Arc<dyn BlockDevice>,
    watch: Arc<Watch>,
}

impl BlockDevice for Tap {
    fn caps(&self) -> Caps {
        self.inner.caps()
    }
    fn submit(&self, request: Request) -> Ticket {
        self.watch.before(&request);
        self.inner.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        self.inner.wait(ticket)
    }
}

impl Watch {
    fn before(&self, request: &Request) {
        let pieces = match &request.op {
            Op::Write { pieces, .. } => pieces,
            _ => return,
        };
        if !pieces.iter().any(|piece| piece.class == self.class) {
            return;
        }
        // No operation may end between the count and the snapshot.
        rt::no_yield(|| {
            let mut state = self.state.lock();
            if !state.armed || state.taken_at == state.done {
                return;
            }
            state.taken_at = state.done;
            state.last = self.snapshot(0).map(|media| (rt::now(), media));
        });
    }

    /// What a cut now would leave. A random stream for each `number` chooses what survives.
    fn snapshot(&self, number: u64) -> Option<Media> {
        let choice = Rng::named(self.seed, &format!("loss/{number}")).next_u64();
        self.device.snapshot(choice)
    }

    fn ended(&self, done: usize, armed: bool) {
        let mut state = self.state.lock();
        (state.done, state.armed) = (done, armed);
    }
}

/// The class of the write that completes a checkpoint or a commit.
fn committing(run: &RunConfig) -> Class {
    match run.stack.scheme {
        rig::Scheme::F2fs(scheme) if scheme.journal().is_none() => Class::CheckpointPack,
        _ => Class::JournalCommit,
    }
}

impl LossJob {
    /// Runs the workload, cuts, and recovers.
    ///
    /// # Errors
    /// A run fails, or a remainder cannot be recovered or is the state of no prefix (L1).
    pub fn run(&self) -> Result<Lost, PaperError> {
        let spec = meta(&self.run.workload)?;
        let seen = self.recorded(&spec)?;
        let seconds = |span: Nanos| round(span.0 as f64 / 1e9);
        let mut all = Lost {
            ops: spec.count.into(),
            seconds: seconds(seen.end - seen.start),
            commits: seen.commits,
            pause_us: round(seen.pause.0 as f64 / 1e3),
            cuts: Vec::new(),
        };
        let remainders = [&seen.worst].into_iter().chain(&seen.seeded);
        for (at, media) in remainders {
            let done = seen.ended.partition_point(|t| t <= at);
            let (found, mount) = self.recover(&spec, media.clone())?;
            if found.ops as usize > (done + 1).min(seen.ended.len()) {
                let what = format!("{} of {done} operations are there", found.ops);
                return Err(PaperError::Check(what));
            }
            let oldest = seen.ended.get(found.ops as usize).filter(|t| *t <= at);
            all.cuts.push(Cut {
                at_s: seconds(*at - seen.start),
                done: done as u64,
                lost: (done as u64).saturating_sub(found.ops),
                hollow: found.ops - found.whole,
                oldest_s: oldest.map_or(0.0, |t| seconds(*at - *t)),
                mount_ms: round(mount.0 as f64 / 1e6),
            });
        }
        Ok(all)
    }

    fn recorded(&self, spec: &MetaSpec) -> Result<Seen, PaperError> {
        let model = self.run.stack.format()?;
        simulated(self.host.sim(self.run.seed), || {
            let watch = Arc::new(Watch {
                device: Arc::new(Modelled::new(model, Clock::Runtime)),
                class: committing(&self.run),
                seed: self.run.seed,
                state: Mutex::named("loss", Watching::default()),
            });
            let options = (self.run.stack.mount_options(), self.run.stack.writeback());
            let stack = Stack::mount_with(watch.device.clone(), options, |inner| {
                let watch = watch.clone();
                Arc::new(Tap { inner, watch })
            })?;
            let seen = self.paced(spec, &stack, &watch)?;
            stack.unmount()?;
            Ok(seen)
        })
    }

    /// Runs the workload; each operation is followed by the time of those that it stands for.
    fn paced(
        &self,
        spec: &MetaSpec,
        stack: &Stack,
        watch: &Arc<Watch>,
    ) -> Result<Seen, PaperError> {
        let Workload::Bench(BenchSpec { program, .. }) = self.run.workload.parse()? else {
            return Err(PaperError::Check("no benchmark".into()));
        };
        let bench = BenchSpec {
            program,
            background: Default::default(),
        };
        let mut bench = bench.on(&stack.vfs, self.run.seed);
        bench.prepare(&|| sync_home(stack))?;
        let (start, before) = (rt::now(), commits(stack));
        let (mut ended, mut spans) = (Vec::new(), Vec::new());
        let (mut pause, mut cutter) = (Nanos(0), None);
        let warm = (spec.count / WARM).max(1) as usize;
        let half = spec.count as usize / 2;
        bench.run(&|| Ok(()), &mut |told| {
            ended.push(rt::now());
            spans.push(told.took);
            if ended.len() == warm {
                spans.sort_unstable();
                let median = spans[warm / 2];
                pause = Nanos(median.0 * u64::from(self.stands_for.saturating_sub(1)));
                let left = Nanos(pause.0 * (spec.count as u64 - warm as u64));
                cutter = Some(self.cutter(watch.clone(), left));
            }
            watch.ended(ended.len(), ended.len() >= half);
            rt::sleep(pause);
        })?;
        let end = rt::now();
        let seeded = match cutter {
            Some(cutter) => cutter
                .join()
                .map_err(|_| PaperError::Simulation("the cutter panicked".into()))?,
            None => Vec::new(),
        };
        watch.ended(ended.len(), false);
        let last = watch.state.lock().last.take();
        // L2: if nothing was sent in the second half, the end is the worst moment.
        let worst = last.or_else(|| Some((rt::now(), watch.snapshot(0)?)));
        let power = || PaperError::Check("the power is off".into());
        Ok(Seen {
            start,
            ended,
            end,
            pause,
            commits: commits(stack) - before,
            worst: worst.ok_or_else(power)?,
            seeded,
        })
    }

    /// Starts a task that takes, at seeded moments in the next `left`, what a cut would leave.
    fn cutter(&self, watch: Arc<Watch>, left: Nanos) -> rt::JoinHandle<Vec<Remainder>> {
        let mut rng = Rng::named(self.run.seed, "loss/moments");
        let now = rt::now();
        let moment = |_| now + Nanos(rng.below(left.0.max(1)));
        let mut moments: Vec<Time> = (0..self.cuts).map(moment).collect();
        moments.sort_unstable();
        rt::spawn("cutter", move || {
            let mut all = Vec::new();
            for (number, at) in (1..).zip(moments) {
                rt::sleep_until(at);
                let media = rt::no_yield(|| watch.snapshot(number).map(|m| (rt::now(), m)));
                all.extend(media);
            }
            all
        })
    }

    fn recover(
        &self,
        spec: &MetaSpec,
        media: Media,
    ) -> Result<(super::objects::Recovered, Nanos), PaperError> {
        let model = self.run.stack.attach(media)?;
        simulated(self.host.sim(self.run.seed), || {
            rt::sleep(BOOT);
            let stack = Stack::mount(model, &self.run.stack, Clock::Runtime)?;
            let found = recovered(&stack.vfs, spec)?;
            stack.fs.check();
            let took = stack.mount_took;
            stack.unmount()?;
            Ok((found, took))
        })
    }
}

/// Number of commits of the journal, or of checkpoints where there is no journal.
fn commits(stack: &Stack) -> u64 {
    let fs = stack.fs.f2fs().filter(|fs| fs.journal_stats().is_none());
    match fs {
        Some(fs) => fs.checkpoints().packs(),
        None => stack.fs.journal_stats().transactions,
    }
}

/// Runs `body` in a simulation. A body that fails leaves tasks of its mount behind; they end when
/// the power of the device is cut.
pub fn simulated<T>(
    sim: SimConfig,
    body: impl FnOnce() -> Result<T, PaperError>,
) -> Result<T, PaperError> {
    let outcome = Sim::new(sim).run(|| {
        let value = body();
        if value.is_err() {
            rt::power_cut();
        }
        value
    });
    if let Some(failure) = &outcome.first_failure {
        let what = format!("{failure}; replay: {}", outcome.replay);
        return Err(PaperError::Simulation(what));
    }
    outcome.value.expect("a run without failure has a value")
}
