//! What handles have told since the last fast commit, or since their transaction began.

use base::{Ino, Mutant, Tid};
use ondisk::ext4::{FastCommitName, FastCommitTag};
use rt::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;

/// Names and inodes that are kept. An area of the usual size holds no more; a transaction with more
/// is committed in full.
const NOTES_MAX: usize = 4096;
/// Ranges of one inode that are kept apart; beyond that they become one that holds them all.
const RANGES_MAX: usize = 8;

/// What happened to a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Named {
    /// It came with a new inode.
    Create,
    /// It came.
    Link,
    /// It went.
    Unlink,
}

impl Named {
    /// The tag of it.
    pub fn tag(self, name: FastCommitName) -> FastCommitTag {
        match self {
            Named::Create => FastCommitTag::Create(name),
            Named::Link => FastCommitTag::Link(name),
            Named::Unlink => FastCommitTag::Unlink(name),
        }
    }
}

/// What one transaction has told.
#[derive(Debug)]
pub(super) struct Notes {
    tid: Tid,
    /// Something was not told (fast_record-B1).
    refused: bool,
    pub names: Vec<(Named, FastCommitName)>,
    /// Inodes whose fields have changed, with the blocks whose mapping has.
    pub inodes: BTreeMap<Ino, Vec<Range<u64>>>,
}

impl Notes {
    fn new(tid: Tid) -> Notes {
        Notes {
            tid,
            refused: false,
            names: Vec::new(),
            inodes: BTreeMap::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.inodes.is_empty()
    }

    fn refuse(&mut self) {
        self.refused = true;
        (self.names, self.inodes) = Default::default();
    }

    fn bound(&mut self) {
        if self.names.len() + self.inodes.len() > NOTES_MAX {
            self.refuse();
        }
    }

    /// fast_record-B5: forgets an inode if it was made since the last fast commit, otherwise only
    /// its fields and blocks.
    pub fn drop_inode(&mut self, ino: Ino) {
        self.inodes.remove(&ino);
        let made =
            |(what, name): &(Named, FastCommitName)| *what == Named::Create && name.ino == ino;
        if let Some(made) = self.names.iter().rposition(made) {
            let mut n = 0;
            self.names.retain(|(_, name)| {
                n += 1;
                n <= made || name.ino != ino
            });
        }
    }
}

/// The notes of a volume; none are taken if its scheme has no fast commits.
pub(crate) struct FastNotes(Option<Mutex<Notes>>);

impl FastNotes {
    /// Notes for a mount with (`on`) or without fast commits.
    pub fn new(on: bool) -> FastNotes {
        FastNotes(on.then(|| Mutex::named("fast commit notes", Notes::new(Tid(0)))))
    }

    /// True if fast commits are written.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Changes the notes of transaction `tid`, which begin empty: those of an older one are of no
    /// use, because that one is being committed in full.
    fn with(&self, tid: Tid, change: impl FnOnce(&mut Notes)) {
        let Some(notes) = &self.0 else { return };
        let mut notes = notes.lock();
        if notes.tid != tid {
            *notes = Notes::new(tid);
        }
        if !notes.refused {
            change(&mut notes);
            notes.bound();
        }
    }

    /// A handle of `tid` has changed something that it has not told.
    pub fn refuse(&self, tid: Tid) {
        if !rt::mutant(Mutant::FastUntold) {
            self.with(tid, Notes::refuse);
        }
    }

    /// A name came or went.
    pub fn name(&self, tid: Tid, what: Named, name: FastCommitName) {
        self.with(tid, |notes| notes.names.push((what, name)));
    }

    /// Fields of an inode have changed.
    pub fn inode(&self, tid: Tid, ino: Ino) {
        self.with(tid, |notes| {
            notes.inodes.entry(ino).or_default();
        });
    }

    /// The mapping of blocks of an inode has changed.
    pub fn range(&self, tid: Tid, ino: Ino, blocks: Range<u64>) {
        self.with(tid, |notes| {
            add_range(notes.inodes.entry(ino).or_default(), blocks);
        });
    }

    /// An inode was freed.
    pub fn freed(&self, tid: Tid, ino: Ino) {
        self.with(tid, |notes| notes.drop_inode(ino));
    }

    /// Takes the notes of `tid`. `None`: something was not told; that is said once, because the
    /// journal makes no fast commit of `tid` any more (fast-W6).
    pub(super) fn take(&self, tid: Tid) -> Option<Notes> {
        let mut notes = self.0.as_ref()?.lock();
        if notes.tid != tid {
            return Some(Notes::new(tid));
        }
        let taken = std::mem::replace(&mut *notes, Notes::new(tid));
        (!taken.refused).then_some(taken)
    }
}

/// Adds a range to those that neither touch nor overlap, in order.
fn add_range(ranges: &mut Vec<Range<u64>>, mut new: Range<u64>) {
    ranges.retain(|old| {
        let apart = old.end < new.start || new.end < old.start;
        if !apart {
            new = old.start.min(new.start)..old.end.max(new.end);
        }
        apart
    });
    let at = ranges.partition_point(|old| old.start < new.start);
    ranges.insert(at, new);
    if ranges.len() > RANGES_MAX {
        let all = ranges[0].start..ranges[ranges.len() - 1].end;
        ranges.clear();
        ranges.push(all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Tid = Tid(7);

    fn name(text: &str, ino: u32) -> FastCommitName {
        FastCommitName {
            parent: Ino(2),
            ino: Ino(ino),
            name: text.into(),
        }
    }

    fn list(notes: &Notes) -> Vec<(Named, &str, u32)> {
        let names = notes.names.iter();
        names
            .map(|(what, n)| (*what, std::str::from_utf8(&n.name).expect("text"), n.ino.0))
            .collect()
    }

    #[test]
    fn ranges_that_touch_become_one_and_many_become_one_that_holds_all() {
        let mut ranges = Vec::new();
        for new in [4..6, 0..1, 10..12, 6..8, 1..2] {
            add_range(&mut ranges, new);
        }
        assert_eq!(ranges, [0..2, 4..8, 10..12]);
        add_range(&mut ranges, 1..11);
        assert!(matches!(&ranges[..], [all] if *all == (0..12)));
        for n in 1..RANGES_MAX as u64 {
            add_range(&mut ranges, 20 * n..20 * n + 1);
        }
        assert_eq!(ranges.len(), RANGES_MAX);
        add_range(&mut ranges, 1000..1001);
        assert!(matches!(&ranges[..], [all] if *all == (0..1001)));
    }

    #[test]
    fn an_inode_of_a_short_life_leaves_nothing_and_its_number_lives_on() {
        let notes = FastNotes::new(true);
        notes.name(T, Named::Unlink, name("old", 12));
        notes.freed(T, Ino(12));
        notes.name(T, Named::Create, name("a", 12));
        notes.name(T, Named::Link, name("b", 12));
        notes.inode(T, Ino(12));
        notes.name(T, Named::Unlink, name("a", 12));
        notes.name(T, Named::Unlink, name("b", 12));
        notes.freed(T, Ino(12));
        notes.name(T, Named::Create, name("c", 12));
        let taken = notes.take(T).expect("told");
        let left = [(Named::Unlink, "old", 12), (Named::Create, "c", 12)];
        assert_eq!(list(&taken), left);
        assert!(taken.inodes.is_empty());
        assert!(notes.take(T).expect("told").is_empty(), "taken once");
    }

    #[test]
    fn what_is_not_told_is_refused_until_the_next_transaction() {
        let notes = FastNotes::new(true);
        notes.inode(T, Ino(12));
        notes.refuse(T);
        notes.inode(T, Ino(13));
        assert!(notes.take(T).is_none());
        notes.inode(T.next(), Ino(14));
        let next = notes.take(T.next()).expect("told");
        assert_eq!(next.inodes.into_keys().collect::<Vec<_>>(), [Ino(14)]);
    }

    #[test]
    fn more_than_an_area_holds_is_refused() {
        let notes = FastNotes::new(true);
        (0..=NOTES_MAX as u32).for_each(|n| notes.inode(T, Ino(n + 12)));
        assert!(notes.take(T).is_none());
    }
}
