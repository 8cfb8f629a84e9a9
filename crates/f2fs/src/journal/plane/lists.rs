//! Data plane: what each inode has logged, by epoch. It is kept apart from the inode in memory,
//! because that may be evicted.
//!
//! - D1 the records of one inode in one epoch stand in the order in which they were logged, which
//!   is the order in which the locks of what they describe were held; operations may end in another
//!   order;
//! - D2 an inode counts as logged from the first record of an operation on, not from the end of the
//!   operation: a caller of [`Table::last`] after that gets an epoch that it can wait for;
//! - D3 a list lives until its epoch is collected, and what [`Table::last`] says of the epoch until
//!   it is committed, whatever becomes of the inode.

use super::OwnedGroup;
use super::figures::LockBooks;
use super::gate::Padded;
use crate::journal::Epoch;
use base::cost::f2fs::LIST_APPEND;
use base::{Map, Mutant};
use ondisk::f2fs::Nid;
use rt::Mutex;
use rt::atomic::{AtomicU64, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;

/// Parts of the table of inodes.
const SHARDS: usize = 16;

/// Records in a row: no other record of the inode was logged between them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Run {
    /// Number of the first one.
    pub first: u64,
    /// Number behind the last one.
    pub end: u64,
    /// Its first byte.
    pub at: usize,
}

/// Records of one inode, of one operation or of one epoch. Most are of a single run: it needs no
/// memory of its own.
#[derive(Clone, Default, Debug)]
pub(super) struct List {
    pub records: u32,
    pub bytes: Vec<u8>,
    /// The first one, if there are records.
    first: Run,
    more: Vec<Run>,
}

impl List {
    /// A record with number `number` is being written behind `bytes`.
    pub fn begin(&mut self, number: u64) {
        let at = self.bytes.len();
        self.push(Run {
            first: number,
            end: number + 1,
            at,
        });
        self.records += 1;
    }

    fn push(&mut self, run: Run) {
        if self.records == 0 {
            self.first = run;
            return;
        }
        match self.more.last_mut().unwrap_or(&mut self.first) {
            last if last.end == run.first => last.end = run.end,
            _ => self.more.push(run),
        }
    }

    fn runs(&self) -> impl Iterator<Item = &Run> {
        let first = (self.records > 0).then_some(&self.first);
        first.into_iter().chain(&self.more)
    }

    /// Takes over what an operation has logged.
    pub fn append(&mut self, other: &List) {
        let base = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        for run in other.runs() {
            let at = base + run.at;
            self.push(Run { at, ..*run });
            self.records += (run.end - run.first) as u32;
        }
        debug_assert!(self.records >= other.records, "D1: a run has its records");
    }

    /// Empty, with its memory.
    pub fn clear(&mut self) {
        self.records = 0;
        self.bytes.clear();
        self.more.clear();
    }

    /// The bytes in the order of D1.
    pub fn into_bytes(self) -> Vec<u8> {
        let sorted = self.more.is_empty() || self.runs().is_sorted_by_key(|run| run.first);
        if sorted || rt::mutant(Mutant::F2fsjOrderOfEnds) {
            return self.bytes;
        }
        let ends = self.more.iter().map(|run| run.at);
        let ends = ends.chain([self.bytes.len()]);
        let mut runs: Vec<(Run, usize)> = self.runs().copied().zip(ends).collect();
        runs.sort_by_key(|(run, _)| run.first);
        let mut sorted = Vec::with_capacity(self.bytes.len());
        for (run, end) in runs {
            sorted.extend_from_slice(&self.bytes[run.at..end]);
        }
        sorted
    }
}

/// What one inode has logged.
pub(super) struct InodeLog {
    pub ino: Nid,
    /// The next record's number (D1).
    next: AtomicU64,
    /// Last epoch with a record.
    any: AtomicU64,
    /// Last epoch with a record of more than times.
    data: AtomicU64,
    lists: Mutex<Lists>,
}

/// One list per epoch that is not collected.
#[derive(Default)]
struct Lists {
    /// The oldest; most inodes have no other.
    oldest: Option<(u64, List)>,
    /// Lists of later epochs, oldest first.
    later: VecDeque<(u64, List)>,
    /// Last epoch whose list was taken.
    taken: u64,
}

impl Lists {
    /// The list of `epoch`, and whether it is a new one.
    fn of(&mut self, epoch: u64) -> (&mut List, bool) {
        let fresh = || (epoch, List::default());
        match &self.oldest {
            None => {
                let (_, list) = self.oldest.insert(fresh());
                return (list, true);
            }
            Some((of, _)) if *of > epoch => {
                let displaced = self.oldest.replace(fresh());
                self.later.extend(displaced);
                self.later.rotate_right(1);
            }
            _ => {}
        }
        let first = self.oldest.as_mut().filter(|(of, _)| *of == epoch);
        if let Some((_, list)) = first {
            let new = list.records == 0;
            return (list, new);
        }
        let place = self.later.partition_point(|(of, _)| *of < epoch);
        let new = self.later.get(place).is_none_or(|(of, _)| *of != epoch);
        if new {
            self.later.insert(place, fresh());
        }
        (&mut self.later[place].1, new)
    }

    fn take_oldest(&mut self) -> Option<(u64, List)> {
        let next = self.later.pop_front();
        std::mem::replace(&mut self.oldest, next)
    }
}

impl InodeLog {
    pub fn new(ino: Nid) -> InodeLog {
        InodeLog {
            ino,
            next: AtomicU64::new(0),
            any: AtomicU64::new(0),
            data: AtomicU64::new(0),
            lists: Mutex::named("f2fs log list", Lists::default()),
        }
    }

    /// An operation in `epoch` logs a record; answers its number. The caller holds the lock of what
    /// it describes.
    pub fn note(&self, epoch: Epoch, data: bool) -> u64 {
        self.touch(epoch, data);
        self.next.fetch_add(1, Ordering::AcqRel)
    }

    /// A sync of the inode has to wait for `epoch`.
    pub fn touch(&self, epoch: Epoch, data: bool) {
        // Of several records of an operation only the first one has to write.
        let raise = |last: &AtomicU64| {
            if last.load(Ordering::Acquire) < epoch.0 {
                last.fetch_max(epoch.0, Ordering::AcqRel);
            }
        };
        if data {
            raise(&self.data);
        }
        raise(&self.any);
    }

    /// An operation in `epoch` ends. True if this is the first one of that epoch.
    pub fn append(&self, epoch: Epoch, list: &List, books: &LockBooks) -> bool {
        books.within(&self.lists, |lists| {
            rt::charge(LIST_APPEND);
            assert!(
                epoch.0 > lists.taken,
                "f2fs-journal-I4: inode {} logs to epoch {}, which has been collected",
                self.ino,
                epoch.0
            );
            let (own, first) = lists.of(epoch.0);
            own.append(list);
            first
        })
    }

    /// What it logged in `epoch`, from whose operations none is left.
    pub fn take(&self, epoch: Epoch) -> OwnedGroup {
        let mut lists = self.lists.lock();
        let list = match lists.take_oldest() {
            Some((of, list)) if of == epoch.0 => list,
            other => panic!(
                "f2fs-journal-I4: inode {} is registered in epoch {}, and its oldest list is of {:?}",
                self.ino,
                epoch.0,
                other.map(|(of, _)| of)
            ),
        };
        lists.taken = epoch.0;
        let records = list.records;
        drop(lists);
        OwnedGroup {
            ino: self.ino,
            records,
            bytes: list.into_bytes(),
        }
    }
}

type Shard = Mutex<Map<u32, Arc<InodeLog>>>;

/// The inodes that logged something which is not committed, or that an operation whose epoch is not
/// committed concerns.
pub(super) struct Table(Vec<Padded<Shard>>);

impl Table {
    pub fn new() -> Table {
        let shard = || Padded(Mutex::named("f2fs log table", Map::default()));
        Table((0..SHARDS).map(|_| shard()).collect())
    }

    fn shard(&self, ino: Nid) -> &Shard {
        &self.0[ino.0 as usize % SHARDS].0
    }

    /// The log of inode `ino`.
    pub fn get(&self, ino: Nid) -> Arc<InodeLog> {
        let mut shard = self.shard(ino).lock();
        let log = shard
            .entry(ino.0)
            .or_insert_with(|| Arc::new(InodeLog::new(ino)));
        Arc::clone(log)
    }

    /// The last epoch that logged `ino` at all, and the last one that logged more than times; 0 if
    /// that is committed (D2).
    pub fn last(&self, ino: Nid) -> (Epoch, Epoch) {
        let shard = self.shard(ino).lock();
        shard.get(&ino.0).map_or_else(Default::default, |log| {
            let (any, data) = (
                log.any.load(Ordering::Acquire),
                log.data.load(Ordering::Acquire),
            );
            // A task that logs may have stored one of the two and not yet the other.
            (Epoch(any.max(data)), Epoch(data))
        })
    }

    /// `epoch` is committed: forgets those of `inodes` that logged nothing since and that no
    /// operation is about to log to.
    pub fn forget(&self, epoch: Epoch, inodes: &[Nid]) {
        for &ino in inodes {
            let mut shard = self.shard(ino).lock();
            // An operation that is about to log has got a reference, and got it under this lock.
            let idle = shard.get(&ino.0).is_some_and(|log| {
                Arc::strong_count(log) == 1 && log.any.load(Ordering::Acquire) <= epoch.0
            });
            if idle {
                shard.remove(&ino.0);
            }
        }
    }

    /// Bytes of the records in it.
    pub fn bytes(&self) -> u64 {
        let of = |log: &Arc<InodeLog>| -> u64 {
            let lists = log.lists.lock();
            let open = lists.oldest.iter().chain(&lists.later);
            open.map(|(_, list)| list.bytes.len() as u64).sum()
        };
        let shards = self.0.iter();
        let logs = shards.flat_map(|shard| shard.0.lock().values().cloned().collect::<Vec<_>>());
        logs.map(|log| of(&log)).sum()
    }

    /// Inodes in it.
    pub fn len(&self) -> usize {
        self.0.iter().map(|shard| shard.0.lock().len()).sum()
    }
}
