//! Notes when each command goes to the device and when its submitter learns of its end, what tasks
//! do and wait for, and when chips work: the time line of a run.

use crate::run::Finished;
use base::{SECTOR_BYTES, Time};
use report::timeline::{Span, Timeline, Track};
use rig::{BlockDevice, Class, Op, Request, Tap};
use rt::{Doing, Doings, What};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Keeps the device of a run that is being recorded, and what its tasks do.
#[derive(Default)]
pub struct Recorder {
    tap: RefCell<Option<Arc<Tap<String>>>>,
    doings: RefCell<Option<Doings>>,
}

/// The measured part of a run: only what lies within it is shown.
struct Within {
    begin: Time,
    end: Time,
}

impl Within {
    /// What of the span lies within; times count from the beginning.
    fn span(&self, name: String, from: Time, to: Time) -> Option<Span> {
        let is_within = to >= from && to >= self.begin && from <= self.end;
        let (from, to) = (from.max(self.begin), to.min(self.end));
        is_within.then(|| Span {
            name,
            start_ns: from.0 - self.begin.0,
            end_ns: to.0 - self.begin.0,
        })
    }
}

impl Recorder {
    /// The layer between queue and device ([`crate::life::Between`]).
    pub fn between(&self) -> impl Fn(Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
        |inner| {
            let tap = Arc::new(Tap::new(inner, |request| Some(words(request))));
            *self.tap.borrow_mut() = Some(tap.clone());
            *self.doings.borrow_mut() = Some(rt::note_doings());
            tap
        }
    }

    /// What happened in the measured part.
    pub fn timeline(&self, finished: &mut Finished) -> Timeline {
        let (begin, end) = finished.measured.span;
        let within = Within { begin, end };
        let syncs = finished.measured.syncs.iter().filter_map(|sync| {
            let name = if sync.data_only { "fdatasync" } else { "fsync" };
            within.span(name.into(), sync.at, sync.at + sync.took)
        });
        let syncs = syncs.collect();
        let tap = self.tap.borrow();
        let passed = tap.iter().flat_map(|tap| tap.take());
        let passed = passed.filter_map(|c| within.span(c.note, c.submitted, c.ended?));
        let (flushes, commands) = passed.partition(|span| span.name == FLUSH);
        let doings = self.doings.borrow();
        let doings: Vec<Doing> = doings.iter().flat_map(Doings::take).collect();
        Timeline {
            syncs,
            commands,
            flushes,
            tasks: tasks(&doings, &within),
            locks: locks(&doings, &within),
            chips: chips(finished, &within),
        }
    }
}

/// What each task did, in the order of the tasks.
fn tasks(doings: &[Doing], within: &Within) -> Vec<Track> {
    let mut tasks: BTreeMap<u32, Track> = BTreeMap::new();
    for doing in doings {
        let words = match doing.what {
            What::Core => "on a core".into(),
            What::Sleep => "sleeps".into(),
            What::Join => "waits for tasks".into(),
            What::Lock(name) => waits("lock", name),
            What::Condvar(name) => waits("condition", name),
            What::Channel(name) => waits("channel", name),
            What::Semaphore(name) => waits("semaphore", name),
        };
        if let Some(span) = within.span(words, doing.from, doing.to) {
            let track = tasks.entry(doing.task).or_insert_with(|| Track {
                name: doing.name.to_string(),
                spans: Vec::new(),
            });
            track.spans.push(span);
        }
    }
    tasks.into_values().collect()
}

/// Who waited for each lock, in the order of their names.
fn locks(doings: &[Doing], within: &Within) -> Vec<Track> {
    let mut locks: BTreeMap<&str, Track> = BTreeMap::new();
    for doing in doings {
        let What::Lock(name) = doing.what else {
            continue;
        };
        let words = format!("{} waits", doing.name);
        if let Some(span) = within.span(words, doing.from, doing.to) {
            let track = locks.entry(name).or_insert_with(|| Track {
                name: or_none(name).into(),
                spans: Vec::new(),
            });
            track.spans.push(span);
        }
    }
    locks.into_values().collect()
}

/// In words; `kind` is what has this name, or none.
fn waits(kind: &str, name: &str) -> String {
    match name.is_empty() {
        true => format!("waits for a {kind}"),
        false => format!("waits for {kind} {name}"),
    }
}

fn or_none(name: &str) -> &str {
    if name.is_empty() {
        "without a name"
    } else {
        name
    }
}

/// Programs and erases of each die that has any.
fn chips(finished: &mut Finished, within: &Within) -> Vec<Track> {
    let mut dies: BTreeMap<u32, Track> = BTreeMap::new();
    for operation in finished.model.take_operations() {
        let what = match operation.page {
            Some(_) => "program",
            None => "erase",
        };
        let words = format!("{what}: {}", operation.cause);
        let span = within.span(words, operation.span.start, operation.span.end);
        if let Some(span) = span {
            let die = finished.model.die_of(&operation);
            let track = dies.entry(die).or_insert_with(|| Track {
                name: format!("die {die}"),
                spans: Vec::new(),
            });
            track.spans.push(span);
        }
    }
    dies.into_values().collect()
}

/// The word of a flush.
const FLUSH: &str = "flush";

/// A command in words: what, how much, of which classes.
fn words(request: &Request) -> String {
    let kib = |sectors: u64| sectors * SECTOR_BYTES as u64 / 1024;
    match &request.op {
        Op::Read { sectors, .. } => format!("read {} KiB", kib(*sectors)),
        Op::Flush => FLUSH.into(),
        Op::Barrier => "barrier".into(),
        Op::Discard { sectors, .. } => format!("discard {} KiB", kib(*sectors)),
        Op::Remap(remap) => format!("remap {} pairs", remap.pairs.len()),
        Op::Write { .. } | Op::Pack { .. } => {
            let written = request.written();
            let pieces = || written.iter().flat_map(|(_, pieces, _)| pieces.iter());
            let bytes: usize = pieces().map(|piece| piece.bytes.len()).sum();
            let classes: BTreeSet<Class> = pieces().map(|piece| piece.class).collect();
            let classes: Vec<&str> = classes.into_iter().map(Class::word).collect();
            let pack = matches!(request.op, Op::Pack { .. });
            let fua = written.iter().any(|(_, _, fua)| *fua);
            format!(
                "{}{} {} KiB: {}",
                if fua { "FUA " } else { "" },
                if pack { "pack" } else { "write" },
                bytes / 1024,
                classes.join(", ")
            )
        }
    }
}
