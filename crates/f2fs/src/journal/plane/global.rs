//! `lists=global`: one list for what all inodes log, one counter, and one lock that every operation
//! takes at its start, at its end, and for each record (as JBD2 takes `j_state_lock` and
//! `j_list_lock`). It is the baseline that shows what per-inode lists gain.
//!
//! lists-D1 to lists-D3 hold here too: lists-D1, because a record gets its number when it is
//! logged, under the lock of what it describes, and the committer sorts by it; lists-D2, because
//! the inode's own entry says what it logged last, as without this option; lists-D3, because
//! nothing leaves the list before its epoch is collected. The result is what per-inode lists give,
//! byte for byte, in the order of inode numbers.
//!
//! Records are filed one by one when their operation ends, with no other lock held, so that the
//! measured wait is the wait for this lock.

use super::OwnedGroup;
use super::figures::LockBooks;
use super::gate::Padded;
use crate::journal::Epoch;
use base::cost::f2fs::{EPOCH_OP, LIST_APPEND, LIST_SORT};
use ondisk::f2fs::Nid;
use ondisk::f2fs::journal::Record;
use rt::Mutex;
use rt::atomic::{AtomicU64, Ordering};
use std::collections::VecDeque;

/// A record in a list of bytes.
#[derive(Clone, Copy, Debug)]
struct Entry {
    ino: Nid,
    /// lists-D1.
    number: u64,
    /// Its bytes.
    at: usize,
    end: usize,
    /// Appends that are charged for it: one, or one for each block that a journal of pages has to
    /// file.
    appends: u32,
}

/// Records in the order in which they were filed.
#[derive(Default, Debug)]
pub(super) struct Mixed {
    entries: Vec<Entry>,
    bytes: Vec<u8>,
}

impl Mixed {
    /// Empty, with its memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
    }

    /// Encodes a record; answers its length.
    pub fn add(&mut self, ino: Nid, number: u64, record: &Record<'_>, appends: u32) -> usize {
        let at = self.bytes.len();
        record.encode(&mut self.bytes);
        let end = self.bytes.len();
        self.entries.push(Entry {
            ino,
            number,
            at,
            end,
            appends,
        });
        end - at
    }

    fn push(&mut self, entry: Entry, from: &[u8]) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&from[entry.at..entry.end]);
        let end = self.bytes.len();
        self.entries.push(Entry { at, end, ..entry });
    }

    /// Sorted by inode, of each in the order of lists-D1.
    pub fn into_groups(mut self) -> Vec<OwnedGroup> {
        self.entries.sort_unstable_by_key(|e| (e.ino, e.number));
        let of_inode = self.entries.chunk_by(|a, b| a.ino == b.ino);
        let group = |entries: &[Entry]| {
            let mut bytes = Vec::with_capacity(entries.iter().map(|e| e.end - e.at).sum());
            for e in entries {
                bytes.extend_from_slice(&self.bytes[e.at..e.end]);
            }
            OwnedGroup {
                ino: entries[0].ino,
                records: entries.len() as u32,
                bytes,
            }
        };
        of_inode.map(group).collect()
    }
}

#[derive(Default)]
struct Lists {
    /// Oldest first; one per epoch that is not collected and has something.
    open: VecDeque<(u64, Mixed)>,
    /// Last epoch whose list was taken.
    taken: u64,
}

impl Lists {
    fn of(&mut self, epoch: Epoch) -> &mut Mixed {
        assert!(
            epoch.0 > self.taken,
            "f2fs-journal-I4: a record is filed in epoch {}, which has been collected",
            epoch.0
        );
        let place = self.open.partition_point(|(of, _)| *of < epoch.0);
        if self.open.get(place).is_none_or(|(of, _)| *of != epoch.0) {
            self.open.insert(place, (epoch.0, Mixed::default()));
        }
        &mut self.open[place].1
    }
}

/// The list of all inodes.
pub(super) struct Global {
    next: Padded<AtomicU64>,
    lists: Mutex<Lists>,
}

impl Global {
    pub fn new() -> Global {
        Global {
            next: Padded(AtomicU64::new(0)),
            lists: Mutex::named("f2fs global log list", Lists::default()),
        }
    }

    /// The number of a record (lists-D1).
    pub fn number(&self) -> u64 {
        self.next.0.fetch_add(1, Ordering::AcqRel)
    }

    /// An operation starts, or ends.
    pub fn pass(&self, books: &LockBooks) {
        books.within(&self.lists, |_| rt::charge(base::Nanos(EPOCH_OP.0 / 2)));
    }

    /// What an operation in `epoch` has logged.
    pub fn file(&self, epoch: Epoch, own: &Mixed, books: &LockBooks) {
        for entry in &own.entries {
            books.within(&self.lists, |lists| {
                if entry.appends > 0 {
                    rt::charge(base::Nanos(LIST_APPEND.0 * u64::from(entry.appends)));
                }
                lists.of(epoch).push(*entry, &own.bytes);
            });
        }
    }

    /// What was logged in `epoch`, from whose operations none is left.
    pub fn take(&self, epoch: Epoch) -> Vec<OwnedGroup> {
        let mixed = {
            let mut lists = self.lists.lock();
            lists.taken = epoch.0;
            let first = lists.open.front().map(|(of, _)| *of);
            assert!(
                first.is_none_or(|of| of >= epoch.0),
                "f2fs-journal-I4: epoch {} is collected, and {first:?} still has records",
                epoch.0
            );
            match first == Some(epoch.0) {
                true => lists.open.pop_front().map(|(_, mixed)| mixed),
                false => None,
            }
        };
        let mixed = mixed.unwrap_or_default();
        rt::charge(base::Nanos(LIST_SORT.0 * mixed.entries.len() as u64));
        mixed.into_groups()
    }
}
