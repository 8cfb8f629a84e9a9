//! The run that is cut: tasks work on files, and at moments drawn from the seed a snapshot of the
//! device says what a cut there would leave.
//!
//! A snapshot does not stop the run, so one run yields all its cuts.

use super::device::{Disk, Remains, Volume};
use super::model::{DIR_PERM, FILE_PERM, State};
use super::names::Names;
use super::ops::{Mix, Op, Stress};
use super::stamp::FileId;
use super::{CrashConfig, Script, full};
use crate::CrashError;
use base::{Ino, Nanos, Rng, Time};
use blockdev::{BlockDevice, Caps, DevError, Reply, Request, Ticket};
use rig::Mounted;
use rt::{Mutex, Sim};
use std::collections::BTreeMap;
use std::sync::Arc;
use vfs::{FallocateMode, File, FsResult, OpenFlags, RenameMode, Vfs, XattrMode};

/// What one task did, in order.
#[derive(Clone, Debug, Default)]
pub struct TaskLog {
    /// Every operation that began.
    pub ops: Vec<Op>,
    /// How many of them have ended.
    pub ended: usize,
    /// When the operations began and ended, ascending.
    pub times: Times,
    /// Inode number and generation of each file that it made.
    pub made: BTreeMap<FileId, (Ino, u32)>,
}

/// When the operations of a task began and ended.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// When each operation began.
    pub begun: Vec<Time>,
    /// When each of those that ended did.
    pub ended: Vec<Time>,
}

impl TaskLog {
    /// How far the task had come at `at`: an operation that ends at that very moment has ended.
    pub fn progress(&self, at: Time) -> Progress {
        Progress {
            begun: self.times.begun.partition_point(|t| *t <= at),
            ended: self.times.ended.partition_point(|t| *t <= at),
        }
    }
}

/// How far a task had come at a cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Operations that had begun.
    pub begun: usize,
    /// Operations that had ended; what their syncs cover is promised.
    pub ended: usize,
}

/// Where a cut fell between the commands of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// Just before a command was given.
    Before,
    /// Just after a command was complete.
    After,
    /// At another time.
    Inside,
}

/// A cut: what it leaves, and how far the tasks had come.
#[derive(Clone)]
pub struct Cut {
    /// The number of its moment among all candidates.
    pub number: u64,
    /// Its time, virtual ns.
    pub at: u64,
    /// Where it fell between the commands.
    pub moment: Moment,
    /// How far each task had come; empty before the tasks began.
    pub progress: Vec<Progress>,
    /// What is left of the device.
    pub remains: Remains,
}

/// A run and its cuts.
pub struct Recording {
    /// What each task did.
    pub logs: Vec<TaskLog>,
    /// The cuts, by ascending time.
    pub cuts: Vec<Cut>,
    /// Number of moments at which a cut was possible.
    pub candidates: u64,
    /// Why the run ended early, if it did.
    pub failure: Option<String>,
    /// How often the guard of each mutant was reached.
    pub reached: rt::Reached,
}

/// Draws a sample of the candidates (reservoir sampling), and takes the snapshots.
struct Sampler {
    disk: Disk,
    wanted: usize,
    state: Mutex<SamplerState>,
    logs: Arc<Mutex<Vec<TaskLog>>>,
}

struct SamplerState {
    rng: Rng,
    seen: u64,
    cuts: Vec<Cut>,
    over: bool,
}

impl Sampler {
    fn new(disk: Disk, wanted: usize, seed: u64, logs: Arc<Mutex<Vec<TaskLog>>>) -> Arc<Sampler> {
        let state = SamplerState {
            rng: Rng::named(seed, "crash/sampler"),
            seen: 0,
            cuts: Vec::new(),
            over: false,
        };
        Arc::new(Sampler {
            disk,
            wanted,
            state: Mutex::named("sampler", state),
            logs,
        })
    }

    /// A moment at which the power might be cut. No other task may run between reading the logs and
    /// taking the snapshot, because the two describe one moment.
    fn candidate(&self, moment: Moment) {
        rt::no_yield(|| {
            let mut state = self.state.lock();
            state.seen += 1;
            let full = state.cuts.len() == self.wanted;
            let seen = state.seen;
            let slot = match full {
                false => state.cuts.len() as u64,
                true => state.rng.below(seen),
            };
            if self.wanted == 0 || slot >= self.wanted as u64 {
                return;
            }
            let logs = self.logs.lock();
            let progress = logs.iter().map(|log| Progress {
                begun: log.ops.len(),
                ended: log.ended,
            });
            let cut = Cut {
                number: state.seen,
                at: rt::now().0,
                moment,
                progress: progress.collect(),
                remains: self.disk.snapshot(state.rng.next_u64()),
            };
            match full {
                true => state.cuts[slot as usize] = cut,
                false => state.cuts.push(cut),
            }
        });
    }

    /// Makes candidates at random times until the run is over.
    fn clockwork(&self, seed: u64) {
        let mut rng = Rng::named(seed, "crash/moments");
        while !self.state.lock().over {
            rt::sleep(Nanos(1 + rng.below(150_000)));
            self.candidate(Moment::Inside);
        }
    }
}

/// Makes a candidate before and after each command.
struct Tap {
    inner: Arc<dyn BlockDevice>,
    sampler: Arc<Sampler>,
}

impl BlockDevice for Tap {
    fn caps(&self) -> Caps {
        self.inner.caps()
    }
    fn submit(&self, request: Request) -> Ticket {
        self.sampler.candidate(Moment::Before);
        self.inner.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        let reply = self.inner.wait(ticket);
        self.sampler.candidate(Moment::After);
        reply
    }
}

/// Runs `body` in a simulation and draws `wanted` cuts over its whole length.
fn sampled(
    config: &CrashConfig,
    disk: Disk,
    logs: &Arc<Mutex<Vec<TaskLog>>>,
    (wanted, seed): (usize, u64),
    body: impl FnOnce(Arc<dyn BlockDevice>) -> Result<(), CrashError>,
) -> (Vec<Cut>, u64, Option<String>, rt::Reached) {
    let outcome = Sim::new(config.sim(seed)).run(|| {
        let sampler = Sampler::new(disk.clone(), wanted, seed, logs.clone());
        let device = Arc::new(Tap {
            inner: disk.device(),
            sampler: sampler.clone(),
        });
        let clock = {
            let sampler = sampler.clone();
            rt::spawn("clockwork", move || sampler.clockwork(seed))
        };
        let ended = body(device);
        sampler.state.lock().over = true;
        let clocked = clock.join();
        if ended.is_err() {
            disk.power_off();
            rt::power_cut();
        }
        let mut state = sampler.state.lock();
        let cuts = std::mem::take(&mut state.cuts);
        let failure = ended.err().map(|e| e.to_string());
        let failure = failure.or_else(|| clocked.err().map(|_| "the clockwork panicked".into()));
        (cuts, state.seen, failure)
    });
    let simulation = outcome
        .first_failure
        .map(|f| format!("{f}; replay: {}", outcome.replay));
    let (mut cuts, seen, failure) = outcome.value.unwrap_or_default();
    cuts.sort_by_key(|cut| cut.number);
    (cuts, seen, failure.or(simulation), outcome.reached)
}

/// Runs the workload once and takes all its cuts.
///
/// # Errors
/// The device cannot be made. A failure of the run itself stands in [`Recording::failure`].
pub fn record(config: &CrashConfig, volume: &Volume) -> Result<Recording, CrashError> {
    let disk = volume.fresh(config.seed)?;
    let logs = Arc::new(Mutex::named("crash logs", Vec::new()));
    let (cuts, candidates, failure, reached) =
        sampled(config, disk, &logs, (config.cuts, config.seed), |device| {
            work(config, device, &logs)
        });
    let logs = std::mem::take(&mut *logs.lock());
    Ok(Recording {
        logs,
        cuts,
        candidates,
        failure,
        reached,
    })
}

/// Recovers what `cut` left by a mount and an unmount, and draws cuts of that.
///
/// # Errors
/// The device cannot be made. A recovery that fails gives the cuts up to then; its failure is
/// reported by the judge of `cut` itself.
pub fn record_recovery(
    config: &CrashConfig,
    volume: &Volume,
    cut: &Cut,
    wanted: usize,
    seed: u64,
) -> Result<Vec<Cut>, CrashError> {
    let disk = volume.attach(&cut.remains, seed)?;
    let logs = Arc::new(Mutex::named("crash logs", Vec::new()));
    let (cuts, ..) = sampled(config, disk, &logs, (wanted, seed), |device| {
        let mounted = config.mount(device)?;
        Ok(mounted.unmount()?)
    });
    let nested = cuts.into_iter().map(|nested| Cut {
        progress: cut.progress.clone(),
        ..nested
    });
    Ok(nested.collect())
}

fn work(
    config: &CrashConfig,
    device: Arc<dyn BlockDevice>,
    logs: &Arc<Mutex<Vec<TaskLog>>>,
) -> Result<(), CrashError> {
    let mounted = config.mount(device)?;
    run_tasks(config, &config.script, &mounted, logs)?;
    // The judge checks the accounts in memory: here write-back and discards are under way.
    Ok(mounted.unmount()?)
}

/// Runs the tasks of a script to their end; `logs` says what they did.
pub(super) fn run_tasks(
    config: &CrashConfig,
    script: &Script,
    mounted: &Mounted,
    logs: &Arc<Mutex<Vec<TaskLog>>>,
) -> Result<(), CrashError> {
    run_on(&mounted.vfs, config.seed, script, logs)
}

/// Runs the tasks of a script to their end as [`run_tasks`] does, on any mounted file system.
pub(super) fn run_on(
    vfs: &Arc<Vfs>,
    seed: u64,
    script: &Script,
    logs: &Arc<Mutex<Vec<TaskLog>>>,
) -> Result<(), CrashError> {
    if let Some(kib) = script.free() {
        full::leave(vfs, kib << 10)?;
    }
    *logs.lock() = vec![TaskLog::default(); script.tasks()];
    let mut running = Vec::new();
    for number in 0..script.tasks() {
        let mut task = Task {
            number,
            vfs: vfs.clone(),
            logs: logs.clone(),
            state: State::new(number),
            names: Names::of(vfs),
            held: None,
            full: script.free().is_some(),
        };
        let script = script.clone();
        running.push(rt::spawn("crash task", move || {
            let outcome = task.work(seed, &script);
            outcome.and(task.let_go())
        }));
    }
    let mut outcome = Ok(());
    for task in running {
        let ended = task.join();
        let ended = ended.map_err(|_| CrashError::Simulation("a task panicked".into()))?;
        outcome = outcome.and(ended);
    }
    outcome
}

struct Task {
    number: usize,
    vfs: Arc<Vfs>,
    logs: Arc<Mutex<Vec<TaskLog>>>,
    state: State,
    names: Names,
    held: Option<File>,
    /// The volume is nearly full, so operations may be refused.
    full: bool,
}

/// How an operation ended that did not fail.
enum Outcome {
    /// It is done; the inode that it has made, if it makes one.
    Done(Option<(Ino, u32)>),
    /// A write found room for this many bytes.
    Wrote(u64),
}

/// Draws after which a task gives up looking for a possible operation.
const DRAWS_MAX: usize = 200;

/// The operations that task number `task` of a seeded mix draws; the arguments alone decide.
pub(super) fn drawn(
    task: usize,
    ops: usize,
    stress: Stress,
    seed: u64,
) -> impl Iterator<Item = Op> {
    let mut rng = Rng::named(seed, &format!("crash/task {task}"));
    let mix = Mix::new(stress, &mut rng);
    let mut state = State::new(task);
    state.apply(&Op::Mkdir(String::new()));
    (0..ops).map_while(move |_| {
        let mut draws = (0..DRAWS_MAX).map(|_| mix.draw(&mut rng));
        let op = draws.find(|op| state.allows(op))?;
        state.apply(&op);
        Some(op)
    })
}

impl Task {
    fn work(&mut self, seed: u64, script: &Script) -> Result<(), CrashError> {
        self.step(Op::Mkdir(String::new()))?;
        match script {
            Script::Fixed(scripts) => {
                for op in &scripts[self.number] {
                    assert!(self.state.allows(op), "script: `{op}` is not possible");
                    self.step(op.clone())?;
                }
            }
            Script::Mixed { ops, stress, .. } => {
                for op in drawn(self.number, *ops, *stress, seed) {
                    // What a refused operation would have made is missing now.
                    if !self.full || self.state.allows(&op) {
                        self.step(op)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn let_go(&mut self) -> Result<(), CrashError> {
        match self.held.take() {
            Some(file) => Ok(file.close()?),
            None => Ok(()),
        }
    }

    fn log<R>(&self, f: impl FnOnce(&mut TaskLog) -> R) -> R {
        f(&mut self.logs.lock()[self.number])
    }

    /// Where a name of the script is, in a spelling of its own if case does not count.
    fn path(&self, path: &str) -> String {
        format!("/t{}{}", self.number, self.names.asked(path))
    }

    /// Where a name is made: it stands as the script spells it, which the judge looks for.
    fn new_path(&self, path: &str) -> String {
        format!("/t{}{}", self.number, self.names.made(path))
    }

    fn step(&mut self, op: Op) -> Result<(), CrashError> {
        let before = self.full.then(|| self.state.clone());
        // The state changes when the operation begins; a refused one restores it.
        let made = self.state.apply(&op);
        self.log(|log| {
            log.ops.push(op.clone());
            log.times.begun.push(rt::now());
        });
        let mut ident = None;
        let instead = match self.carry_out(&op) {
            Ok(Outcome::Done(found)) => {
                ident = found;
                None
            }
            Ok(Outcome::Wrote(len)) => full::shortened(&op, len),
            Err(e) if self.full && full::may_be_refused(&op, &e) => Some(full::NOTHING),
            Err(e) => {
                let what = format!("task {}: `{op}` failed: {e}", self.number);
                return Err(CrashError::Check(what));
            }
        };
        if let (Some(instead), Some(before)) = (&instead, before) {
            self.state = before;
            self.state.apply(instead);
        }
        self.log(|log| {
            if let Some(instead) = instead {
                *log.ops.last_mut().expect("it has begun") = instead;
            }
            log.ended += 1;
            log.times.ended.push(rt::now());
            if let (Some(id), Some(ident)) = (made, ident) {
                log.made.insert(id, ident);
            }
        });
        Ok(())
    }

    fn carry_out(&mut self, op: &Op) -> FsResult<Outcome> {
        let vfs = &self.vfs;
        let path = |p: &str| self.path(p);
        let new_path = |p: &str| self.new_path(p);
        match op {
            Op::Create(p) => {
                let flags = OpenFlags::READ_WRITE | OpenFlags::CREATE | OpenFlags::EXCL;
                let file = vfs.open(new_path(p), flags, FILE_PERM)?;
                let attr = file.stat();
                file.close()?;
                return attr.map(|a| Outcome::Done(Some((a.ino, a.generation))));
            }
            Op::Mkdir(p) => {
                let attr = vfs.mkdir(new_path(p), DIR_PERM)?;
                if p.is_empty() {
                    self.names.begin(vfs, attr.ino)?;
                }
                return Ok(Outcome::Done(Some((attr.ino, attr.generation))));
            }
            Op::Symlink { target, to } => {
                let attr = vfs.symlink(target, new_path(to))?;
                return Ok(Outcome::Done(Some((attr.ino, attr.generation))));
            }
            Op::Write {
                path: p,
                offset,
                len,
            } => return self.write(p, *offset, *len),
            Op::Truncate { path: p, size } => vfs.truncate(path(p), *size)?,
            Op::Fallocate {
                path: p,
                offset,
                len,
                keep_size,
            } => {
                let mode = match keep_size {
                    true => FallocateMode::KeepSize,
                    false => FallocateMode::Allocate,
                };
                self.with_file(p, OpenFlags::WRITE, |file| {
                    file.fallocate(mode, *offset, *len)
                })?;
            }
            Op::SetXattr {
                path: p,
                name,
                value,
            } => vfs.setxattr(path(p), format!("user.{name}"), value, XattrMode::Any)?,
            Op::RemoveXattr { path: p, name } => {
                vfs.removexattr(path(p), format!("user.{name}"))?;
            }
            Op::Rename { from, to } => vfs.rename(path(from), new_path(to), RenameMode::Replace)?,
            Op::Link { from, to } => {
                vfs.link(path(from), new_path(to))?;
            }
            Op::Unlink(p) => vfs.unlink(path(p))?,
            Op::Rmdir(p) => vfs.rmdir(path(p))?,
            Op::Chmod { path: p, perm } => vfs.chmod(path(p), *perm)?,
            Op::Fsync(p) => self.with_file(p, OpenFlags::READ, File::fsync)?,
            Op::Fdatasync(p) => self.with_file(p, OpenFlags::READ, File::fdatasync)?,
            Op::SyncDir(p) => {
                let flags = OpenFlags::READ | OpenFlags::DIRECTORY;
                self.with_file(p, flags, File::fsync)?;
            }
            Op::Sync => vfs.sync()?,
            Op::Hold(p) => {
                let file = vfs.open(path(p), OpenFlags::READ, 0)?;
                if let Some(before) = self.held.replace(file) {
                    before.close()?;
                }
            }
            Op::Pause(ns) => rt::sleep(Nanos(*ns)),
        }
        Ok(Outcome::Done(None))
    }

    /// Writes the bytes that the model says the file holds there.
    fn write(&self, path: &str, offset: u64, len: u64) -> FsResult<Outcome> {
        let content = self.state.content(path).expect("a file of the model");
        let data = content.bytes()[offset as usize..(offset + len) as usize].to_vec();
        let mut wrote = 0;
        self.with_file(path, OpenFlags::WRITE, |file| {
            wrote = file.write_at(offset, &data)?;
            Ok(())
        })?;
        if wrote == data.len() {
            return Ok(Outcome::Done(None));
        }
        assert!(self.full, "this workload does not fill the volume");
        Ok(Outcome::Wrote(wrote as u64))
    }

    fn with_file(
        &self,
        path: &str,
        flags: OpenFlags,
        f: impl FnOnce(&File) -> FsResult<()>,
    ) -> FsResult<()> {
        let file = self.vfs.open(self.path(path), flags, 0)?;
        let outcome = f(&file);
        let closed = file.close();
        outcome.and(closed)
    }
}
