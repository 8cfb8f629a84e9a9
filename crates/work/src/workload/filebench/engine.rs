//! Runs a model on a mounted file system: makes its files, starts its threads, adds up what they
//! did, and checks what is left.
//!
//! An operation is what Filebench's summary counts, so that figures can be compared: a flowop of
//! input or output, asynchronous ones too. Hogs, delays, semaphores, limits and what ends a thread
//! do not count. Filebench divides by the time from the start to the end of the last thread; a run
//! by [`crate::run`] has its final sync in the time as well.

use super::aio::{Aio, Pending};
use super::files::{Entries, Set};
use super::fit;
use super::model::{Model, OPS_MAX, Op, Process, Step, Thread};
use super::spec::FilebenchSpec;
use super::sync::{Events, Sem};
use super::tree::Tree;
use super::worker::{Left, Worker};
use crate::RunError;
use crate::workload::Done;
use crate::workload::bench::{Bench, Sync};
use base::{Nanos, Rng, Time};
use rt::JoinHandle;
use rt::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use vfs::{FileKind, OpenFlags, Vfs};

/// Bytes of content that are compared after a run; of a larger set only some files are.
const COMPARED: u64 = 64 << 20;
/// Bytes of one write while a file is made before the run.
const FILL: u64 = 1 << 20;

/// Why a thread ended.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Why {
    /// The time of the run was over.
    Time,
    /// The run did as many operations as were asked for.
    Operations,
    /// This flowop ended it.
    Done(String),
    /// This flowop found no file of its kind.
    NoFile(String),
    /// Another thread ended the run.
    Ended,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Time => write!(f, "the time was over"),
            Why::Operations => write!(f, "as many operations as were asked for"),
            Why::Done(name) => write!(f, "flowop {name} was reached"),
            Why::NoFile(name) => write!(f, "flowop {name} found no more files"),
            Why::Ended => write!(f, "another thread ended the run"),
        }
    }
}

/// Number and bytes of flowops that have ended.
#[derive(Default)]
pub struct Counters {
    pub(super) ops: AtomicU64,
    pub(super) bytes: AtomicU64,
}

/// The state that all threads of a run share.
pub struct Shared {
    pub(super) vfs: Arc<Vfs>,
    pub(super) model: Model,
    pub(super) sets: Vec<Arc<Set>>,
    /// Semaphores by the name of the flowop that waits, one for each of its threads.
    pub(super) sems: BTreeMap<String, Vec<Arc<Sem>>>,
    /// Counters of the flowops that another flowop names as its target.
    pub(super) totals: BTreeMap<String, Counters>,
    pub(super) events: Events,
    over: AtomicBool,
    ops: AtomicU64,
    most: u64,
    span: (Time, Time),
}

impl Shared {
    /// When the run began.
    pub(super) fn start(&self) -> Time {
        self.span.0
    }

    /// When the run is to end.
    pub(super) fn deadline(&self) -> Time {
        self.span.1
    }

    /// Why no further flowop may begin; `None`: the run goes on.
    pub(super) fn over(&self) -> Option<Why> {
        if self.over.load(Ordering::Relaxed) {
            let all = self.ops.load(Ordering::Relaxed) >= self.most;
            return Some(if all { Why::Operations } else { Why::Ended });
        }
        (rt::now() >= self.deadline()).then_some(Why::Time)
    }

    /// Ends the run: threads that wait wake up, and no flowop begins any more.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.sems.values().flatten().for_each(|sem| sem.close());
        for set in &self.sets {
            set.files.end();
            set.leaves.end();
        }
    }

    /// Counts an operation that has ended, and ends the run if it was the last.
    pub(super) fn operation(&self) {
        if self.ops.fetch_add(1, Ordering::Relaxed) + 1 == self.most {
            self.end();
        }
    }

    pub(super) fn counted(&self, name: &str, bytes: u64) {
        if let Some(counters) = self.totals.get(name) {
            counters.ops.fetch_add(1, Ordering::Relaxed);
            counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

/// A model on a mounted file system.
pub struct Filebench {
    vfs: Arc<Vfs>,
    spec: FilebenchSpec,
    seed: u64,
    /// The model, once everything is prepared.
    model: Model,
    /// Operations after which the run ends.
    most: u64,
    sets: Vec<Arc<Set>>,
    written: u64,
    why: BTreeSet<Why>,
}

impl Filebench {
    /// The model of `spec`; nothing is made yet.
    pub fn new(spec: &FilebenchSpec, vfs: Arc<Vfs>, seed: u64) -> Filebench {
        Filebench {
            vfs,
            spec: spec.clone(),
            seed,
            model: Model::default(),
            most: spec.ops().unwrap_or(OPS_MAX).min(OPS_MAX),
            sets: Vec::new(),
            written: 0,
            why: BTreeSet::new(),
        }
    }

    fn make_set(&self, number: usize) -> Result<Set, RunError> {
        let def = &self.model.filesets[number];
        let tree = Tree::of(def, self.seed);
        for dir in &tree.dirs {
            self.vfs.mkdir(dir, 0o755)?;
        }
        let set = Set {
            files: Entries::new(tree.files.len()),
            leaves: Entries::new(tree.leaves.len()),
            readonly: def.readonly,
            number: number as u64,
            tree,
        };
        let mut rng = Rng::named(
            self.seed,
            &format!("workload/filebench/prealloc/{}", def.name),
        );
        let mut buffer = Vec::new();
        for n in chosen(set.tree.files.len(), def.prealloc, &mut rng) {
            self.make_file(&set, n, &mut buffer)?;
            set.files.give_back(n, Some(true), 0);
        }
        for n in chosen(set.tree.leaves.len(), def.prealloc, &mut rng) {
            self.vfs.mkdir(set.tree.leaf(n), 0o755)?;
            set.leaves.give_back(n, Some(true), 0);
        }
        Ok(set)
    }

    fn make_file(&self, set: &Set, n: u32, buffer: &mut Vec<u8>) -> Result<(), RunError> {
        let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::EXCL;
        let file = self.vfs.open(set.tree.file(n), flags, 0o644)?;
        let made = set.files.made(n);
        let size = set.tree.files[n as usize].1;
        let mut at = 0;
        while at < size {
            buffer.resize(FILL.min(size - at) as usize, 0);
            set.stamp(n, made.generation).fill(at, buffer);
            super::ops::whole(file.write_at(at, buffer)?, buffer.len())?;
            at += buffer.len() as u64;
        }
        set.files.reaches(n, size);
        Ok(file.close()?)
    }

    /// The semaphores of one thread, by the flowop that waits.
    fn sems(thread: &Thread) -> BTreeMap<String, Arc<Sem>> {
        let mut sems = BTreeMap::new();
        for step in &thread.body {
            step.each(&mut |op| {
                if op.op == Op::SemBlock {
                    let sem = || Arc::new(Sem::new(op.highwater));
                    sems.entry(op.name.clone()).or_insert_with(sem);
                }
            });
        }
        sems
    }

    fn targets(&self) -> BTreeMap<String, Counters> {
        let mut totals = BTreeMap::new();
        self.model.each(&mut |op, _| {
            if let (Some(target), false) = (&op.target, op.op == Op::SemPost) {
                totals
                    .entry(target.clone())
                    .or_insert_with(Counters::default);
            }
        });
        totals
    }
}

/// Chooses `percent` of `count`, in random order.
fn chosen(count: usize, percent: u64, rng: &mut Rng) -> Vec<u32> {
    let mut all: Vec<u32> = (0..count as u32).collect();
    for n in (1..all.len()).rev() {
        all.swap(n, rng.below(n as u64 + 1) as usize);
    }
    all.truncate((count as u64 * percent).div_ceil(100) as usize);
    all
}

/// A thread that is ready to start.
struct Ready {
    name: String,
    process: String,
    worker: Worker,
}

impl Filebench {
    /// All threads, ready to start, and the queues of their processes.
    fn threads(
        &self,
        shared: &Arc<Shared>,
        sems: Vec<BTreeMap<String, Arc<Sem>>>,
    ) -> (Vec<Ready>, Vec<Aio>) {
        let (mut ready, mut queues) = (Vec::new(), Vec::new());
        let body = |thread: &Thread| (thread.name.clone(), Arc::new(thread.body.clone()));
        let of = |process: &Process| process.threads.iter().map(body).collect();
        let mut bodies: BTreeMap<&String, BTreeMap<String, Arc<Vec<Step>>>> = BTreeMap::new();
        let mut sems = sems.into_iter();
        for (process, instance) in instances(&self.model.processes, |p| p.instances) {
            let counters = Arc::new(Counters::default());
            let name = format!("{}-{instance}", process.name);
            let aio = writes_later(process).then(|| Aio::start(&name));
            let bodies = bodies.entry(&process.name).or_insert_with(|| of(process));
            for (thread, instance) in instances(&process.threads, |t| t.instances) {
                let name = format!("{name}/{}-{instance}", thread.name);
                let mut rng = Rng::named(self.seed, &format!("workload/filebench/{name}"));
                let sets = self.model.filesets.iter();
                // Each thread begins its rotations at another place.
                let mut begin = |count: u64| rng.below(count.max(1)) as u32;
                let rotors = sets.clone().map(|set| begin(set.entries)).collect();
                let leaf_rotors = sets.map(|set| begin(set.leafdirs)).collect();
                let worker = Worker {
                    shared: shared.clone(),
                    process: counters.clone(),
                    body: bodies[&thread.name].clone(),
                    open: BTreeMap::new(),
                    rotors,
                    leaf_rotors,
                    dir_rotor: 0,
                    next_fd: 0,
                    sems: sems.next().expect("one for each thread"),
                    aio: aio.as_ref().map(Aio::queue),
                    pending: Pending::new(),
                    marks: BTreeMap::new(),
                    buffer: Vec::new(),
                    done: Vec::new(),
                    written: 0,
                    stuck: 0,
                    rng,
                };
                let process = process.name.clone();
                ready.push(Ready {
                    name,
                    process,
                    worker,
                });
            }
            queues.extend(aio);
        }
        (ready, queues)
    }

    /// Waits for all threads, and returns how each ended.
    fn join(threads: Vec<(String, JoinHandle<Left>)>) -> Result<Vec<Left>, RunError> {
        let mut all = Vec::new();
        for (name, thread) in threads {
            let panicked = |_| RunError::Check(format!("thread {name} panicked"));
            all.push(thread.join().map_err(panicked)?);
        }
        Ok(all)
    }
}

fn instances<T>(all: &[T], count: impl Fn(&T) -> u64) -> Vec<(&T, u64)> {
    let of = |one| (0..count(one)).map(move |n| (one, n + 1));
    all.iter().flat_map(of).collect()
}

fn writes_later(process: &Process) -> bool {
    let mut found = false;
    let steps = process.threads.iter().flat_map(|t| &t.body);
    steps.for_each(|step: &Step| step.each(&mut |op| found |= op.op == Op::AioWrite));
    found
}

impl Bench for Filebench {
    fn prepare(&mut self, sync: &Sync<'_>) -> Result<(), RunError> {
        self.model = self.spec.model()?;
        fit::check(&self.model, self.most, &self.vfs)?;
        for number in 0..self.model.filesets.len() {
            self.sets.push(Arc::new(self.make_set(number)?));
        }
        sync()
    }

    fn run(&mut self, _: &Sync<'_>, done: &mut Done<'_>) -> Result<(), RunError> {
        let start = rt::now();
        let seconds = self.model.seconds.unwrap_or(super::parse::SECONDS_MAX);
        let mut sems = Vec::new();
        let mut by_name: BTreeMap<String, Vec<Arc<Sem>>> = BTreeMap::new();
        for (process, _) in instances(&self.model.processes, |p| p.instances) {
            for (thread, _) in instances(&process.threads, |t| t.instances) {
                let own = Self::sems(thread);
                for (name, sem) in &own {
                    by_name.entry(name.clone()).or_default().push(sem.clone());
                }
                sems.push(own);
            }
        }
        let shared = Arc::new(Shared {
            vfs: self.vfs.clone(),
            model: self.model.clone(),
            sets: self.sets.clone(),
            sems: by_name,
            totals: self.targets(),
            events: Events::new(self.model.rate),
            over: AtomicBool::new(false),
            ops: AtomicU64::new(0),
            most: self.most,
            span: (start, start + Nanos::from_secs(seconds)),
        });
        let (ready, queues) = self.threads(&shared, sems);
        let start = |ready: Ready| (ready.process, rt::spawn(&ready.name, || ready.worker.run()));
        let threads = ready.into_iter().map(start).collect();
        let left = Self::join(threads);
        for queue in queues {
            queue.stop()?;
        }
        let (mut failure, mut all) = (Ok(()), Vec::new());
        for left in left? {
            all.extend(left.done);
            self.written += left.written;
            match left.why {
                Ok(why) => drop(self.why.insert(why)),
                Err(e) => failure = failure.and(Err(e)),
            }
        }
        failure?;
        all.sort_by_key(|one| one.end);
        all.into_iter().for_each(done);
        Ok(())
    }

    fn check(&mut self) -> Result<(), RunError> {
        let sizes = |set: &Arc<Set>| -> u64 {
            let there = set.files.there().into_iter().zip(0..);
            there
                .filter(|(there, _)| *there)
                .map(|(_, n)| set.files.entry(n).size)
                .sum()
        };
        let all: u64 = self.sets.iter().map(sizes).sum();
        let one_in = (all / COMPARED + 1) as u32;
        for set in &self.sets {
            for (n, there) in (0..).zip(set.files.there()) {
                check_file(&self.vfs, set, n, there, n.is_multiple_of(one_in))?;
            }
            for (n, there) in (0..).zip(set.leaves.there()) {
                let path = set.tree.leaf(n);
                let found = self.vfs.lstat(&path).ok().map(|attr| attr.kind);
                if found != there.then_some(FileKind::Dir) {
                    let what =
                        format!("{path}: there is {found:?}, a directory should be there: {there}");
                    return Err(RunError::Check(what));
                }
            }
        }
        Ok(())
    }

    fn written(&self) -> Option<u64> {
        Some(self.written)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.model.ignored_words();
        let ended = |why: &Why| format!("threads ended because {why}");
        notes.extend(
            self.why
                .iter()
                .filter(|w| !matches!(w, Why::Ended))
                .map(ended),
        );
        notes
    }
}

/// Checks that a file is as the run left it: its name, its size, and if `whole` its content.
fn check_file(vfs: &Arc<Vfs>, set: &Set, n: u32, there: bool, whole: bool) -> Result<(), RunError> {
    let path = set.tree.file(n);
    let entry = set.files.entry(n);
    let found = vfs.lstat(&path).ok().map(|attr| attr.size);
    if found != there.then_some(entry.size) {
        let wanted = there.then_some(entry.size);
        let what = format!("{path}: bytes there {found:?}, bytes written {wanted:?}");
        return Err(RunError::Check(what));
    }
    if !there || !whole || entry.holes {
        return Ok(());
    }
    let file = vfs.open(&path, OpenFlags::READ, 0)?;
    let mut buffer = vec![0; FILL.min(entry.size) as usize];
    let mut at = 0;
    while at < entry.size {
        let count = file.read_at(at, &mut buffer)?;
        let wrong = set.stamp(n, entry.generation).differs(at, &buffer[..count]);
        if count == 0 || wrong.is_some() {
            let at = wrong.unwrap_or(at);
            return Err(RunError::Check(format!(
                "{path}: byte {at} is not what was written"
            )));
        }
        at += count as u64;
    }
    Ok(file.close()?)
}
