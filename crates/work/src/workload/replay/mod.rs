//! Runs the calls of a recording on a mounted file system.
//!
//! Each recorded thread is a task. Calls start in the order of the recording, whatever the device,
//! so that two schemes see the same calls in the same order. Beyond that a call waits for
//!
//! - R1: the end of the previous call of its own thread;
//! - R2: the end of the calls it depends on (`plan`). A use of a handle depends on its open, and
//!   the close on all uses. A read, change or fsync of a file, and an open that empties it, depend
//!   on its last change; the fsync of a directory on the last change in it; a sync of the whole
//!   volume on the last call of each other thread before it. A change of a name
//!   depends on the last changes of the name, of its directory and of the directory's own name; an
//!   open on those of the name and of the directory's name;
//! - R3: its time, as [`Pacing`] says.
//!
//! So a write or open of one thread may run beside an fsync of another, as it did in the recording.

mod again;
mod names;
mod plan;

pub use plan::own_time;

use super::replay_spec::{Pace, Pacing};
use super::{Done, Told};
use crate::RunError;
use crate::causes::{Calls, in_call};
use crate::recording::{Op, Recording};
use base::{Nanos, Rng, Time};
use names::Names;
use plan::Plan;
use rt::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use vfs::{File, OpenFlags, RenameMode, Vfs};

/// Most threads of a recording, because each is a task with a stack.
pub const THREADS_MAX: usize = 1024;

/// Bytes of one `write_at` or `read_at`; a longer call is made in several.
const CHUNK_BYTES: usize = 1 << 20;
/// Number of offsets at which the content of a call may begin in the noise. A call begins at one
/// that depends on its number, so neither blocks nor writes are alike.
const NOISE_SHIFTS: usize = 4093;

/// Prepares, runs and checks, for callers that do nothing in between.
///
/// # Errors
/// As [`Replay::prepare`], [`Replay::run`] and [`Replay::check`].
pub fn run(
    recording: &Recording,
    pacing: Pacing,
    vfs: &Arc<Vfs>,
    done: &mut Done<'_>,
) -> Result<(), RunError> {
    let mut replay = Replay::prepare(recording, pacing, vfs)?;
    replay.run(done)?;
    replay.check()
}

/// Checks that the calls of a recording fit together: each finds what it needs.
///
/// # Errors
/// The first contradiction, with the number of its call; more threads than [`THREADS_MAX`].
pub fn validate(recording: &Recording) -> Result<(), RunError> {
    Plan::of(recording, &Pacing::default()).map(drop)
}

/// A recording on the file system that it runs on.
pub struct Replay<'a> {
    recording: &'a Recording,
    pacing: Pacing,
    plan: Plan,
    vfs: Arc<Vfs>,
    content: Content,
    names: Names,
    /// What is noted of the calls for who wants to know what caused a write.
    calls: Calls,
    /// Open handles of the run; at its end those that the recording never closed.
    open: Mutex<BTreeMap<u32, Arc<File>>>,
}

impl<'a> Replay<'a> {
    /// Makes the folders and files that are there before the first call, and syncs.
    ///
    /// # Errors
    /// The recording contradicts itself (a call on what is not there or not open), its files do not
    /// fit the volume, or the file system fails.
    pub fn prepare(
        recording: &'a Recording,
        pacing: Pacing,
        vfs: &Arc<Vfs>,
    ) -> Result<Replay<'a>, RunError> {
        let plan = Plan::of(recording, &pacing)?;
        let content = Content::new();
        has_room(recording, vfs)?;
        for folder in recording.folders.iter().filter(|f| *f != "/") {
            vfs.mkdir(folder, 0o755)?;
        }
        for (n, (path, bytes)) in recording.files.iter().enumerate() {
            let file = vfs.open(path, OpenFlags::READ_WRITE | OpenFlags::CREATE, 0o644)?;
            let written = content.write(&file, n, 0, *bytes);
            file.close()?;
            written?;
        }
        vfs.sync()?;
        Ok(Replay {
            recording,
            pacing,
            plan,
            vfs: vfs.clone(),
            content,
            names: Names::first(recording),
            calls: Calls::new(),
            open: Mutex::named("replay handles", BTreeMap::new()),
        })
    }

    /// Runs all calls; `done` is told the kind and the duration of each.
    ///
    /// # Errors
    /// The first call that fails.
    pub fn run(&mut self, done: &mut Done<'_>) -> Result<(), RunError> {
        let turns = Turns::new(&self.plan);
        let (told, tell) = rt::channel_named("replay results", CHANNEL);
        let this = &*self;
        rt::scope(|scope| {
            let started = rt::now();
            for (lane, calls) in this.plan.lanes.iter().enumerate() {
                let (told, turns) = (told.clone(), &turns);
                let thread = this.recording.calls[calls[0] as usize].thread;
                scope.spawn(&format!("replay {thread}"), move || {
                    // R1: one task makes the calls of a thread, one after the other.
                    for &call in calls {
                        match this.one(lane, call, started, turns) {
                            None => return,
                            Some(Err(e)) => return turns.fail(e),
                            // The receiver outlives this task.
                            Some(Ok(took)) => drop(told.send((call, rt::now(), took))),
                        }
                    }
                });
            }
            drop(told);
            for (call, end, took) in tell.iter() {
                done(Told {
                    kind: this.recording.calls[call as usize].op.kind(),
                    end,
                    took,
                });
            }
        });
        turns.result()
    }

    /// Makes one call when its turn comes. `None`: another call failed, so the run is over.
    fn one(
        &self,
        lane: usize,
        call: u32,
        started: Time,
        turns: &Turns<'_>,
    ) -> Option<Result<Nanos, RunError>> {
        let previous = turns.wait(lane, call)?;
        let at = &self.recording.calls[call as usize].at;
        let pause = self.plan.pauses[call as usize];
        // R3.
        match self.pacing.pace {
            Pace::Recorded => rt::sleep_until(Time(started.0.saturating_add(at.0))),
            Pace::Busy if pause.0 > 0 => {
                rt::sleep_until(Time(previous.0.saturating_add(pause.0)));
            }
            Pace::Busy | Pace::None => {}
        }
        let start = rt::now();
        turns.start(call, start);
        let made = in_call(call, || self.make(call));
        let took = rt::now() - start;
        turns.end(call);
        let op = &self.recording.calls[call as usize].op;
        Some(match made {
            Ok(()) => Ok(took),
            Err(e) => Err(RunError::Recording(format!(
                "call {} of {} ({}): {e}",
                call + 1,
                self.recording.name,
                op.kind()
            ))),
        })
    }

    /// Makes the call on the file system.
    fn make(&self, call: u32) -> Result<(), RunError> {
        match &self.recording.calls[call as usize].op {
            Op::Open {
                handle,
                path,
                create,
                truncate,
                directory,
            } => {
                let on = |flag, on: &bool| if *on { flag } else { OpenFlags::NONE };
                let flags = match directory {
                    true => OpenFlags::READ | OpenFlags::DIRECTORY,
                    false => {
                        OpenFlags::READ_WRITE
                            | on(OpenFlags::CREATE, create)
                            | on(OpenFlags::TRUNC, truncate)
                    }
                };
                let path = match *create && !directory {
                    true => self.names.made(path),
                    false => self.names.of(path),
                };
                let file = self.vfs.open(&path, flags, 0o644)?;
                self.calls.opened(call, file.ino());
                self.open.lock().insert(handle.0, Arc::new(file));
                Ok(())
            }
            Op::Write {
                handle,
                offset,
                bytes,
            } => {
                let file = self.file(handle.0);
                self.calls
                    .wrote(call, file.ino(), |other| self.same_thread(call, other));
                self.content
                    .write(&file, call as usize, *offset, u64::from(*bytes))
            }
            Op::Read {
                handle,
                offset,
                bytes,
            } => read(&self.file(handle.0), *offset, *bytes as usize),
            Op::Sync { handle, data_only } => self.calls.sync(call, || match data_only {
                true => Ok(self.file(handle.0).fdatasync()?),
                false => Ok(self.file(handle.0).fsync()?),
            }),
            Op::SyncAll => self.calls.sync(call, || Ok(self.vfs.sync()?)),
            Op::Truncate { handle, size } => Ok(self.file(handle.0).truncate(*size)?),
            Op::Close { handle } => {
                let file = self.open.lock().remove(&handle.0);
                close(file.expect("the plan knows that it is open"))
            }
            Op::Unlink { path } => Ok(self.vfs.unlink(self.names.gone(path))?),
            // A name that becomes itself stays.
            Op::Rename { from, to } if from == to => {
                let path = self.names.of(from);
                Ok(self.vfs.rename(&path, &path, RenameMode::Replace)?)
            }
            Op::Rename { from, to } => {
                let (from, to) = (self.names.gone(from), self.names.made(to));
                Ok(self.vfs.rename(&from, &to, RenameMode::Replace)?)
            }
            Op::Mkdir { path } => self.vfs.mkdir(path, 0o755).map(drop).map_err(Into::into),
            Op::Rmdir { path } => Ok(self.vfs.rmdir(path)?),
        }
    }

    fn same_thread(&self, call: u32, other: u32) -> bool {
        let thread = |call: u32| self.recording.calls[call as usize].thread;
        thread(call) == thread(other)
    }

    /// What was noted of the calls.
    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    fn file(&self, handle: u32) -> Arc<File> {
        let open = self.open.lock();
        open.get(&handle)
            .expect("the plan knows that it is open")
            .clone()
    }

    /// Closes what is open, and compares names and sizes with those that the recording ends with.
    ///
    /// # Errors
    /// The first difference, or an error of the file system.
    pub fn check(self) -> Result<(), RunError> {
        let open = std::mem::take(&mut *self.open.lock());
        open.into_values().try_for_each(close)?;
        let wrong = |what: String| Err(RunError::Check(what));
        for (path, size) in &self.plan.sizes {
            let found = self.vfs.stat(path)?.size;
            if found != *size {
                return wrong(format!(
                    "{path} has {found} bytes, the recording leaves {size}"
                ));
            }
        }
        for (folder, wanted) in &self.plan.entries {
            let found = super::names(&self.vfs, folder)?;
            if found != *wanted {
                return wrong(format!(
                    "{folder} has {found} names, the recording leaves {wanted}"
                ));
            }
        }
        Ok(())
    }
}

/// Refuses a volume that cannot hold the files which are there at first.
fn has_room(recording: &Recording, vfs: &Vfs) -> Result<(), RunError> {
    let needed: u128 = recording.files.iter().map(|(_, n)| u128::from(*n)).sum();
    let stat = vfs.statfs()?;
    let free = u128::from(stat.blocks_free) * u128::from(stat.block_bytes);
    if needed <= free {
        return Ok(());
    }
    let (name, needed, free) = (&recording.name, needed >> 20, free >> 20);
    Err(RunError::Recording(format!(
        "{name}: the files that are there before the first call take {needed} MiB, the volume has {free} MiB; \
         choose a larger one with --size"
    )))
}

/// Most messages under way from the tasks to the one that counts.
const CHANNEL: usize = 256;

fn close(file: Arc<File>) -> Result<(), RunError> {
    match Arc::try_unwrap(file) {
        Ok(file) => Ok(file.close()?),
        Err(_) => unreachable!("R2: a close waits for the end of all uses"),
    }
}

fn read(file: &File, mut offset: u64, mut bytes: usize) -> Result<(), RunError> {
    let mut buffer = vec![0; bytes.min(CHUNK_BYTES)];
    while bytes > 0 {
        let part = bytes.min(CHUNK_BYTES);
        let found = file.read_at(offset, &mut buffer[..part])?;
        if found < part {
            break;
        }
        offset += part as u64;
        bytes -= part;
    }
    Ok(())
}

/// The noise that writes take their content from.
struct Content(Vec<u8>);

impl Content {
    fn new() -> Content {
        let mut rng = Rng::named(0, "workload/replay");
        let words = (CHUNK_BYTES + NOISE_SHIFTS).div_ceil(8);
        Content(
            (0..words)
                .flat_map(|_| rng.next_u64().to_le_bytes())
                .collect(),
        )
    }

    fn write(
        &self,
        file: &File,
        number: usize,
        mut offset: u64,
        mut bytes: u64,
    ) -> Result<(), RunError> {
        let noise = &self.0[number % NOISE_SHIFTS..];
        while bytes > 0 {
            let part = (CHUNK_BYTES as u64).min(bytes) as usize;
            let written = file.write_at(offset, &noise[..part])? as u64;
            if written == 0 {
                return Err(RunError::Check("a write wrote nothing".into()));
            }
            offset += written;
            bytes -= written;
        }
        Ok(())
    }
}

/// Lets calls start in the order of the recording, each when the calls it depends on have ended.
struct Turns<'a> {
    plan: &'a Plan,
    state: Mutex<State>,
    /// One condition for each lane, so that only the lane that can go on wakes up.
    wake: Vec<Condvar>,
}

struct State {
    /// The call that starts next.
    next: u32,
    /// When the call before `next` started.
    started: Time,
    ended: Vec<bool>,
    failed: Option<RunError>,
}

impl Turns<'_> {
    fn new(plan: &Plan) -> Turns<'_> {
        let state = State {
            next: 0,
            started: rt::now(),
            ended: vec![false; plan.pauses.len()],
            failed: None,
        };
        let wake = plan.lanes.iter();
        Turns {
            plan,
            state: Mutex::named("replay turns", state),
            wake: wake.map(|_| Condvar::named("replay turn")).collect(),
        }
    }

    /// Waits until `call` may start (R2); returns the start of the call before. `None`: run over.
    fn wait(&self, lane: usize, call: u32) -> Option<Time> {
        let mut state = self.state.lock();
        let needs = self.plan.needs(call);
        loop {
            if state.failed.is_some() {
                return None;
            }
            if state.next == call && needs.iter().all(|n| state.ended[*n as usize]) {
                return Some(state.started);
            }
            self.wake[lane].wait(&mut state);
        }
    }

    fn start(&self, call: u32, now: Time) {
        let mut state = self.state.lock();
        (state.next, state.started) = (call + 1, now);
        self.wake_next(&state);
    }

    fn end(&self, call: u32) {
        let mut state = self.state.lock();
        state.ended[call as usize] = true;
        if self.plan.needs(state.next).contains(&call) {
            self.wake_next(&state);
        }
    }

    fn wake_next(&self, state: &State) {
        if let Some(lane) = self.plan.lane_of.get(state.next as usize) {
            self.wake[*lane as usize].notify_one();
        }
    }

    fn fail(&self, error: RunError) {
        self.state.lock().failed.get_or_insert(error);
        self.wake.iter().for_each(Condvar::notify_all);
    }

    fn result(self) -> Result<(), RunError> {
        self.state.into_inner().failed.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Call, Handle};
    use rt::{Sim, SimConfig};

    /// Thread 1 makes a file, thread 2 writes it and syncs it, thread 1 removes an old one.
    fn recording() -> Recording {
        let path = |name: &str| format!("/d/{name}");
        let open = |handle, name: &str| Op::Open {
            handle: Handle(handle),
            path: path(name),
            create: true,
            truncate: false,
            directory: false,
        };
        let (handle, bytes) = (Handle(1), 5000);
        let old = path("old");
        let write = |offset| Op::Write {
            handle,
            offset,
            bytes,
        };
        let data_only = false;
        let ops = [
            (0, 1, open(1, "new")),
            (1, 2, write(0)),
            (2, 2, write(5000)),
            (3, 2, Op::Sync { handle, data_only }),
            (3, 1, Op::Unlink { path: old }),
            (500, 2, Op::Truncate { handle, size: 77 }),
            (501, 1, Op::Close { handle }),
        ];
        let calls = ops.map(|(ms, thread, op)| Call {
            at: Nanos::from_millis(ms),
            thread,
            op,
        });
        Recording {
            name: "test".into(),
            folders: vec!["/d".into()],
            files: vec![(path("old"), 100_000)],
            calls: calls.into(),
        }
    }

    /// What was done, when it was over, and the file system.
    fn replayed(pace: Pace) -> (Vec<&'static str>, Time, Arc<Vfs>) {
        // The pace is compared exactly, so that no call may take time.
        let sim = Sim::new(SimConfig {
            cpu_percent: 0,
            ..SimConfig::seeded(1)
        });
        sim.run(|| {
            let vfs = Vfs::new(testkit::model::ModelFs::new());
            let pacing = Pacing {
                pace,
                ..Pacing::default()
            };
            let mut kinds = Vec::new();
            run(&recording(), pacing, &vfs, &mut |told| {
                kinds.push(told.kind)
            })
            .unwrap();
            assert_eq!(vfs.leaked_files() + vfs.open_files(), 0);
            assert_eq!(vfs.stat("/d/new").unwrap().size, 77);
            assert!(vfs.stat("/d/old").is_err());
            (kinds, rt::now(), vfs)
        })
        .unwrap()
    }

    #[test]
    fn calls_run_in_order_at_their_pace() {
        let (kinds, end, _) = replayed(Pace::Recorded);
        let order = [
            "open", "write", "write", "fsync", "unlink", "truncate", "close",
        ];
        assert_eq!(kinds, order);
        assert_eq!(end, Time(501_000_000));
        // 1 + 1 + 1 ms before the sync, nothing after it, 1 ms before the close.
        assert_eq!(replayed(Pace::Busy).1, Time(4_000_000));
        assert_eq!(replayed(Pace::None).1, Time(0));
    }

    #[test]
    fn a_call_that_fails_ends_the_run_in_words() {
        let sim = Sim::new(SimConfig::seeded(1));
        let error = sim.run(|| {
            let vfs = Vfs::new(testkit::model::ModelFs::new());
            let recording = recording();
            let mut replay = Replay::prepare(&recording, Pacing::default(), &vfs).unwrap();
            vfs.unlink("/d/old").unwrap();
            let error = replay.run(&mut |_| {}).unwrap_err();
            drop(std::mem::take(&mut *replay.open.lock()));
            error.to_string()
        });
        let error = error.unwrap();
        assert!(error.contains("call 5 of test (unlink)"), "{error}");
    }
}
