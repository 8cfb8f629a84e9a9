//! Which calls of a recording cause which writes of the device.
//!
//! A layer between queue and device notes each write with what is known of it there: whose content
//! it is ([`vfs::Sends`]), and in which call of the recording it is sent ([`InCall`]). A commit of
//! JBD2 is sent by a task of its own; then it belongs to the syncs that wait at that moment, in
//! equal parts. What nobody waits for (metadata at home, checkpoints) is spread over all causes in
//! proportion to what is known of them.

use crate::recording::{Handle, Op, Recording};
use base::{Ino, Time};
use report::causes::{By, Cause, Causes, ranked};
use rig::{BlockDevice, Class, Request, Tap};
use rt::Mutex;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use vfs::Sends;

/// Marks what the running task does as part of a call of the recording.
#[derive(Clone, Copy, Debug)]
struct InCall(u32);

/// Runs `f` as part of the call with this number.
pub(crate) fn in_call<R>(call: u32, f: impl FnOnce() -> R) -> R {
    rt::with_local(InCall(call), f)
}

/// What is noted of a write.
pub(crate) struct Written {
    pieces: Vec<(Class, u64)>,
    call: Option<u32>,
    ino: Option<Ino>,
}

/// The layer that notes writes.
pub(crate) type Watch = Tap<Written>;

/// Puts the layer over `device`.
fn watch(device: Arc<dyn BlockDevice>) -> Watch {
    Tap::new(device, |request: &Request| {
        let mut pieces: Vec<(Class, u64)> = Vec::new();
        for piece in request.written().iter().flat_map(|write| write.1) {
            let bytes = piece.bytes.len() as u64;
            match pieces.last_mut() {
                Some((class, sum)) if *class == piece.class => *sum += bytes,
                _ => pieces.push((piece.class, bytes)),
            }
        }
        (!pieces.is_empty()).then(|| Written {
            pieces,
            call: rt::local::<InCall>().map(|call| call.0),
            ino: Sends::here(),
        })
    })
}

/// The layer of one run: it is made when the device is there, and read when the work is done.
#[derive(Default)]
pub(crate) struct Watching(RefCell<Option<Arc<Watch>>>);

impl Watching {
    /// Puts the layer over `device`.
    pub fn over(&self, device: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
        let watch = Arc::new(watch(device));
        *self.0.borrow_mut() = Some(watch.clone());
        watch
    }
    /// The layer, if it was made.
    pub fn watch(&self) -> Option<Arc<Watch>> {
        self.0.borrow().clone()
    }
}

/// What a replay knows of its calls beyond the recording.
pub(crate) struct Calls(Mutex<Log>);

#[derive(Default)]
struct Log {
    /// Syncs that have ended: the call, from when to when.
    syncs: Vec<(u32, Range<Time>)>,
    /// Syncs under way.
    waiting: BTreeMap<u32, Time>,
    /// Files that were opened: when, by which call.
    opened: BTreeMap<Ino, Vec<(Time, u32)>>,
    /// The last call that wrote to a file.
    wrote: BTreeMap<Ino, Vec<(Time, u32)>>,
}

impl Calls {
    pub fn new() -> Calls {
        Calls(Mutex::named("calls of a replay", Log::default()))
    }
    /// Notes that a call opened a file.
    pub fn opened(&self, call: u32, ino: Ino) {
        let now = rt::now();
        self.0
            .lock()
            .opened
            .entry(ino)
            .or_default()
            .push((now, call));
    }
    /// Notes that a call wrote to a file. Of the calls of one thread in a row only the first is
    /// kept.
    pub fn wrote(&self, call: u32, ino: Ino, same: impl Fn(u32) -> bool) {
        let now = rt::now();
        let mut log = self.0.lock();
        let writers = log.wrote.entry(ino).or_default();
        if writers.last().is_none_or(|(_, last)| !same(*last)) {
            writers.push((now, call));
        }
    }
    /// Runs a sync, and notes from when to when it waited.
    pub fn sync<R>(&self, call: u32, f: impl FnOnce() -> R) -> R {
        let begin = rt::now();
        self.0.lock().waiting.insert(call, begin);
        let result = f();
        let mut log = self.0.lock();
        log.waiting.remove(&call);
        log.syncs.push((call, begin..rt::now()));
        result
    }
}

/// The causes of all writes that were submitted within `span`.
pub(crate) fn causes(
    recording: &Recording,
    calls: &Calls,
    watch: &Watch,
    span: (Time, Time),
) -> Causes {
    let mut sums = Sums::new(recording, calls);
    for passed in watch.take() {
        if (span.0..span.1).contains(&passed.submitted) {
            sums.add(passed.submitted, &passed.note);
        }
    }
    sums.into_causes()
}

/// What a cause is: who sends content, or who waits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    file: String,
    call: &'static str,
    thread: Option<u32>,
}

#[derive(Clone, Copy, Default)]
struct Bytes {
    data: u64,
    metadata: u64,
}

struct Sums<'a> {
    recording: &'a Recording,
    log: Log,
    /// The handle and path that each call of a handle names.
    paths: BTreeMap<u32, String>,
    sums: BTreeMap<Key, Bytes>,
    /// Bytes that nobody waited for.
    later: u64,
}

/// What has no file, call or process to be named.
const NOBODY: &str = "(before the first call)";
/// The file of a sync of the whole volume.
const WHOLE: &str = "(whole volume)";

impl<'a> Sums<'a> {
    fn new(recording: &'a Recording, calls: &Calls) -> Sums<'a> {
        let mut log = std::mem::take(&mut *calls.0.lock());
        // By their ends, as they were noted; a search wants them by their begins.
        log.syncs.sort_by_key(|(call, span)| (span.start, *call));
        Sums {
            recording,
            log,
            paths: paths(recording),
            sums: BTreeMap::new(),
            later: 0,
        }
    }
    fn add(&mut self, at: Time, written: &Written) {
        for (class, bytes) in &written.pieces {
            let keys = self.keys(at, *class, written);
            if keys.is_empty() {
                self.later += bytes;
            }
            let parts = keys.len() as u64;
            for (n, key) in keys.into_iter().enumerate() {
                let part = bytes / parts + u64::from((n as u64) < bytes % parts);
                let sum = self.sums.entry(key).or_default();
                match class {
                    Class::Data => sum.data += part,
                    _ => sum.metadata += part,
                }
            }
        }
    }
    /// Those to whom a piece belongs, in equal parts. None: nobody waited for it.
    fn keys(&self, at: Time, class: Class, written: &Written) -> Vec<Key> {
        let content = written.ino.filter(|_| class == Class::Data);
        match (written.call, content) {
            (Some(call), ino) => vec![self.key(call, at, ino)],
            (None, Some(ino)) => vec![self.late(ino, at)],
            (None, None) => self
                .waiting(at)
                .map(|call| self.key(call, at, None))
                .collect(),
        }
    }
    /// Content of a file that was written by a call and sent when nobody waited.
    fn late(&self, ino: Ino, at: Time) -> Key {
        let writer = before(self.log.wrote.get(&ino), at);
        Key {
            file: self.file(ino, at),
            call: "write, sent later",
            thread: writer.map(|call| self.thread(call)),
        }
    }
    fn key(&self, call: u32, at: Time, ino: Option<Ino>) -> Key {
        let file = ino.map(|ino| self.file(ino, at));
        Key {
            file: file.unwrap_or_else(|| self.named(call)),
            call: name_of(&self.recording.calls[call as usize].op),
            thread: Some(self.thread(call)),
        }
    }
    fn thread(&self, call: u32) -> u32 {
        self.recording.calls[call as usize].thread
    }
    fn file(&self, ino: Ino, at: Time) -> String {
        match before(self.log.opened.get(&ino), at) {
            Some(call) => self.named(call),
            None => NOBODY.into(),
        }
    }
    /// The path that a call names.
    fn named(&self, call: u32) -> String {
        self.paths
            .get(&call)
            .cloned()
            .unwrap_or_else(|| NOBODY.into())
    }
    /// The syncs that wait at a time.
    fn waiting(&self, at: Time) -> impl Iterator<Item = u32> {
        let begun = self.log.syncs.partition_point(|(_, span)| span.start <= at);
        let ended = self.log.syncs[..begun].iter();
        let open = self
            .log
            .waiting
            .iter()
            .filter(move |(_, begin)| **begin <= at);
        let ended = ended
            .filter(move |(_, span)| at < span.end)
            .map(|(call, _)| *call);
        ended.chain(open.map(|(call, _)| *call))
    }
    fn into_causes(self) -> Causes {
        let list = |by: By| {
            let mut all: BTreeMap<String, Cause> = BTreeMap::new();
            for (key, bytes) in &self.sums {
                let cause = all.entry(name(key, by)).or_default();
                cause.data_bytes += bytes.data;
                cause.metadata_bytes += bytes.metadata;
            }
            for (call, _) in &self.log.syncs {
                let key = self.key(*call, Time(u64::MAX), None);
                all.entry(name(&key, by)).or_default().syncs += 1;
            }
            let mut all: Vec<Cause> = all
                .into_iter()
                .map(|(name, c)| Cause { name, ..c })
                .collect();
            spread(&mut all, self.later);
            ranked(all)
        };
        Causes {
            file: list(By::File),
            call: list(By::Call),
            process: list(By::Process),
        }
    }
}

/// The call's name, where both syncs have their own.
fn name_of(op: &Op) -> &'static str {
    match op {
        Op::Sync {
            data_only: true, ..
        } => "fdatasync",
        other => other.kind(),
    }
}

fn name(key: &Key, by: By) -> String {
    match by {
        By::File => key.file.clone(),
        By::Call => key.call.into(),
        By::Process => key
            .thread
            .map_or(NOBODY.into(), |thread| thread.to_string()),
    }
}

/// The last call of a list that was made by `at`.
fn before(calls: Option<&Vec<(Time, u32)>>, at: Time) -> Option<u32> {
    let calls = calls?;
    let by = calls.partition_point(|(time, _)| *time <= at);
    calls[..by].last().or(calls.first()).map(|(_, call)| *call)
}

/// Adds `later` bytes in proportion to the metadata of each cause; to data where there is none.
fn spread(all: &mut Vec<Cause>, later: u64) {
    if later == 0 {
        return;
    }
    let metadata: u64 = all.iter().map(|c| c.metadata_bytes).sum();
    let weight = |c: &Cause| match metadata {
        0 => c.data_bytes,
        _ => c.metadata_bytes,
    };
    let sum: u64 = all.iter().map(weight).sum();
    let mut left = later;
    for cause in all.iter_mut().filter(|_| sum > 0) {
        let part = u128::from(later) * u128::from(weight(cause)) / u128::from(sum);
        cause.later_bytes = part as u64;
        left -= part as u64;
    }
    // What the rounding left, or all of it where nothing else was written.
    match all.iter_mut().max_by_key(|c| c.later_bytes) {
        Some(most) => most.later_bytes += left,
        None => all.push(Cause {
            name: NOBODY.into(),
            later_bytes: left,
            ..Cause::default()
        }),
    }
}

/// The path that each call names: its own, or that of its handle.
fn paths(recording: &Recording) -> BTreeMap<u32, String> {
    let mut open: BTreeMap<Handle, String> = BTreeMap::new();
    let mut all = BTreeMap::new();
    for (n, call) in recording.calls.iter().enumerate() {
        let path = match &call.op {
            Op::Open { handle, path, .. } => {
                open.insert(*handle, path.clone());
                Some(path.clone())
            }
            Op::Write { handle, .. }
            | Op::Read { handle, .. }
            | Op::Sync { handle, .. }
            | Op::Truncate { handle, .. }
            | Op::Close { handle } => open.get(handle).cloned(),
            Op::Unlink { path } | Op::Mkdir { path } | Op::Rmdir { path } => Some(path.clone()),
            Op::Rename { to, .. } => Some(to.clone()),
            Op::SyncAll => Some(WHOLE.into()),
        };
        all.extend(path.map(|path| (n as u32, path)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(name: &str, data: u64, metadata: u64) -> Cause {
        Cause {
            name: name.into(),
            data_bytes: data,
            metadata_bytes: metadata,
            ..Cause::default()
        }
    }

    #[test]
    fn what_nobody_waited_for_is_spread_and_no_byte_is_lost() {
        let mut all = vec![cause("a", 0, 100), cause("b", 900, 200), cause("c", 50, 0)];
        spread(&mut all, 1000);
        let later: Vec<u64> = all.iter().map(|c| c.later_bytes).collect();
        assert_eq!(later, [333, 667, 0]);
        let mut data_only = vec![cause("a", 10, 0), cause("b", 30, 0)];
        spread(&mut data_only, 4);
        assert_eq!((data_only[0].later_bytes, data_only[1].later_bytes), (1, 3));
        let mut nothing = Vec::new();
        spread(&mut nothing, 7);
        assert_eq!((nothing.len(), nothing[0].later_bytes), (1, 7));
    }

    #[test]
    fn the_call_before_a_time_is_found_and_the_first_where_there_is_none() {
        let calls = vec![(Time(10), 1), (Time(20), 2)];
        let at = |t| before(Some(&calls), Time(t));
        assert_eq!(
            (at(5), at(10), at(19), at(20)),
            (Some(1), Some(1), Some(1), Some(2))
        );
        assert_eq!(before(None, Time(5)), None);
    }
}
