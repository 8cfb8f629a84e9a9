//! Exposes single parts of logging to the bench `cost`, and to nothing else.

use super::Tx;
use super::figures::LockBooks;
use super::global::{Global, Mixed};
use super::lists::{InodeLog, List};
use super::touched::Touches;
use crate::F2fs;
use crate::journal::Epoch;
use ondisk::f2fs::Nid;
use ondisk::f2fs::journal::{Record, attr};

/// What most records are like.
fn record<R>(work: impl FnOnce(&Record<'_>) -> R) -> R {
    let fields = &[7; 12];
    let mask = attr::CTIME;
    work(&Record::InodeAttr { mask, fields })
}

/// `n` operations that take part in an epoch, and log nothing.
pub fn log_epochs(fs: &F2fs, n: u64) {
    (0..n).for_each(|_| {
        fs.with_op(|op| op.tx().map(Tx::epoch));
    });
}

/// Appends `n` times to the lists of a few inodes what an operation has logged of one.
pub fn list_appends(n: u64) {
    let books = LockBooks::default();
    let logs: Vec<InodeLog> = (0..64).map(|ino| InodeLog::new(Nid(ino + 4))).collect();
    let mut list = List::default();
    for at in 0..n {
        let log = &logs[at as usize % logs.len()];
        list.clear();
        list.begin(at);
        record(|r| r.encode(&mut list.bytes));
        log.append(Epoch(1), &list, &books);
    }
}

/// A list of all inodes.
pub struct Unsorted(Global);

impl Unsorted {
    /// `n` records of half as many inodes.
    #[must_use]
    pub fn new(n: u64) -> Unsorted {
        let global = Global::new();
        let mut mixed = Mixed::default();
        for at in 0..n {
            let ino = Nid((at * 7919 % (n / 2).max(1)) as u32 + 4);
            record(|r| mixed.add(ino, at, r, 0));
        }
        global.file(Epoch(1), &mixed, &LockBooks::default());
        Unsorted(global)
    }

    /// Sorts it by inode. Answers the number of inodes.
    pub fn sort(&self) -> usize {
        self.0.take(Epoch(1)).len()
    }
}

/// `n` operations that touch four blocks, two of them twice. Answers how many blocks counted.
pub fn touch_blocks(n: u32) -> u64 {
    let mut touches = Touches::default();
    let mut fresh = 0;
    for at in 0..n {
        touches.clear();
        for ino in [0, 1, 2, 3, 1, 2] {
            fresh += record(|r| touches.by(Nid(at + ino + 4), r));
        }
    }
    fresh.into()
}
