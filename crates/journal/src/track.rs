//! Tracking for coalition: which bytes of a block were modified, which record its commit has to
//! make, and why recovery gets the block right.
//!
//! A commit logs, instead of whole blocks, the bytes that changed (eMMC paper, IV.A). So a record
//! alone does not give the block: recovery applies it to a base, and must have the right base.
//! Notation:
//!
//! - `img_T(b)`: content of block `b` after committed transaction `T`;
//! - `home(b)`: content at its place in the file system;
//! - `rec(b)`: the oldest transaction of which recovery still needs a record of `b`; none if home
//!   has everything.
//!
//! Three kinds of record: a **delta** has the bytes that its transaction changed; a **cumulative**
//! delta every byte that may differ from home; a **full** image everything.
//!
//! # The claim
//!
//! After a cut, start from `home(b)` and apply all records of `b` from the tail of the log to the
//! last complete transaction `T` in order, leaving out revoked ones: the result is `img_T(b)`.
//!
//! Look at one byte `x`. If any of these records holds `x`, the last one that does wins. It holds
//! `img_T(b)[x]`, because every later change of `x` would have made a record that holds it (D4). If
//! no record holds `x`, no transaction since the tail changed it, so it is the same in all images
//! since then, and home holds it: the last complete home write left it there or some earlier one
//! did, and home writes that were cut left that byte old or new, which is the same (D1, D2). This
//! argument is about single bytes, so it needs no home write of a block to be atomic: any granule
//! does (place-B4). Recovery itself writes `img_T(b)` home in the same way, so a cut inside it
//! gives another mixture of the same versions, and it can be repeated.
//!
//! # What it needs
//!
//! - D1: only committed images go home, and none before its transaction is durable: `pending` is
//!   what goes home, and publishing sets it (buffer-U2, hazards-H5).
//! - D2: a home write leaves every byte old or new (one function does them all, with FUA:
//!   hazards-H1); or else **full-first** holds: the first record after each start of a home write,
//!   and after each load, is a full image, and `rec` stays at a full image until a home write
//!   completes while no delta leans on it. Then recovery never looks at home at all where home may
//!   be garbage (hazards-H13).
//! - D3: the tail does not pass `rec(b)`: `b` stands in the checkpoint list of `rec(b)` as long as
//!   anything of it is pending, and in no other list (hazards-H2). What `rec` does:
//!   - R1: a delta leaves it where it is, or sets it if there was none;
//!   - R2: a cumulative delta or a full image moves it to its transaction;
//!   - R3: a completed home write of the newest image clears it (under full-first not while a delta
//!     that is being committed leans on it); of an older image it moves to the first transaction
//!     published since that write began (whose image was not yet in it), unless R2 has moved it
//!     further. Under full-first it stays.
//! - D4: every byte that a transaction changed lies in a word marked as changed: content changes
//!   through `modify` and `create` only, and both mark. Checked against a full comparison in debug
//!   builds (hazards-H4).
//! - D5: the base of a delta is an image that recovery can build: content read from home while
//!   nothing newer was on its way there, or the image of the transaction before, whose record
//!   recovery has. Otherwise the record is full (hazards-H3).
//! - D6: a journaled block is written through the journal only (hazards-H9).
//! - D7: a cumulative delta covers all bytes in which `img_T(b)` may differ from home. Its map has
//!   everything changed since the last *completed* home write; what was published while a home
//!   write was in flight stays marked when that one completes.
//! - D8: a block whose content is the same as before its transaction gets no record, and nothing
//!   about it changes; except a block that was made anew, because a revoke may stand before it.
//!
//! Reuse: a freed block is revoked, and its `pending` and `rec` are dropped when the freeing is
//! durable. When it is made anew it gets a full image, so recovery needs nothing older.

use crate::words::WordMap;
use base::{Bytes, Mutant, Tid};

/// How much of a block a transaction has logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Logged {
    /// The whole image.
    Full,
    /// Every byte that may differ from home.
    Cumulative,
    /// The bytes that it changed.
    Delta,
    /// Nothing: the content is as before (D8).
    Unchanged,
}

impl Logged {
    /// True if recovery needs no older record of the block (R2).
    pub fn supersedes(self) -> bool {
        matches!(self, Logged::Full | Logged::Cumulative)
    }
}

/// What the commit of a block needs to know besides its image.
pub(crate) struct Basis {
    /// The content before the transaction; `None`: the block was made anew (D5).
    pub base: Option<Bytes>,
    /// Words stored to in the transaction.
    pub marked: WordMap,
    /// A changed block gets a full image, whatever its size.
    pub full: bool,
    /// Words in which `base` may differ from home (D7).
    pub since_home: WordMap,
    /// `rec(b)`: see the head of this file.
    pub rec: Option<Tid>,
    /// `rec` holds the tail back while the log is short of space.
    pub pinned: bool,
}

/// The state of one block that transactions change.
#[derive(Debug)]
pub(crate) struct Track {
    /// Content before the running transaction, unless the block was made anew in it.
    base: Option<Bytes>,
    marked: WordMap,
    /// The next record is full.
    full: bool,
    /// Changed by transactions published since the last completed home write, but for those in
    /// `since_begin`.
    since_home: WordMap,
    /// Changed by transactions published since the home write in flight began.
    since_begin: WordMap,
    /// Where `rec` goes if the home write in flight succeeds (R3).
    next_rec: Option<Tid>,
}

impl Basis {
    /// True if the next record is full in any case, unless there is nothing to record.
    pub fn must_be_full(&self) -> bool {
        self.full || self.base.is_none()
    }
}

impl Track {
    /// A block that is completely home; with `full` its first record is a full image all the same.
    pub fn new(full: bool) -> Track {
        Track {
            base: None,
            marked: WordMap::NONE,
            full,
            since_home: WordMap::NONE,
            since_begin: WordMap::NONE,
            next_rec: None,
        }
    }

    /// The block joins the running transaction with this content; `None`: with one that is no base
    /// (D5).
    pub fn joined(&mut self, content: Option<Bytes>) {
        self.marked = WordMap::NONE;
        self.base = content;
    }

    /// A store (D4).
    pub fn stored(&mut self, offset: usize, len: usize) {
        // A real mistake would be just that: a counter or checksum of a few bytes, changed behind
        // the marking (hazards-H4).
        if len < crate::words::WORD_BYTES && rt::mutant(Mutant::UntrackedStore) {
            return;
        }
        self.marked.mark(offset, len);
    }

    /// The content was made anew, whatever home holds (D5).
    /// `bytes`: how many there are.
    pub fn created(&mut self, bytes: usize) {
        self.marked = WordMap::ALL;
        if rt::mutant(Mutant::BaseAlwaysValid) {
            // hazards-H3: a buffer of zeros passes for the content of home.
            self.base = Some(base::fill::zeros(bytes));
            return;
        }
        self.base = None;
    }

    /// The block left the running transaction.
    pub fn forgotten(&mut self) {
        self.base = None;
        self.marked = WordMap::NONE;
    }

    /// The running transaction is switched to committing.
    pub fn switched(&mut self, rec: Option<Tid>) -> Basis {
        let marked = std::mem::take(&mut self.marked);
        Basis {
            base: self.base.take(),
            marked,
            full: std::mem::take(&mut self.full),
            since_home: self.since_home.clone().union(&self.since_begin),
            rec,
            pinned: false,
        }
    }

    /// The transaction came out without a change of this block (D8).
    pub fn unchanged(&mut self, full: bool) {
        self.full |= full;
    }

    /// The record of the block in `tid` is durable.
    pub fn published(&mut self, tid: Tid, logged: Logged, changed: &WordMap, writing: bool) {
        match writing {
            true => self.since_begin.add(changed),
            false => self.since_home.add(changed),
        }
        if writing && (logged.supersedes() || self.next_rec.is_none()) {
            self.next_rec = Some(tid);
        }
    }

    /// A home write begins.
    pub fn home_begins(&mut self, full_first: bool) {
        assert!(
            self.since_begin.is_empty() && self.next_rec.is_none(),
            "D7: one home write of a block at a time"
        );
        self.full |= full_first;
    }

    /// A home write has ended. Answers, if it succeeded, which transaction was the first to be
    /// published while it was in flight (R3).
    pub fn home_ended(&mut self, ok: bool) -> Option<Tid> {
        let since_begin = std::mem::take(&mut self.since_begin);
        let next = self.next_rec.take();
        match ok {
            true => self.since_home = since_begin,
            false => self.since_home.add(&since_begin),
        }
        next.filter(|_| ok)
    }
}
