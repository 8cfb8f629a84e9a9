//! What handles have told since the last fast commit, or since their transaction began.

use base::{Ino, Mutant, Tid};
use ondisk::ext4::{FastCommitName, FastCommitTag};
use rt::Mutex;
use std::collections::{BTreeMap, BTreeSet};
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

/// What a replay of all fast commits of one transaction may need at most beyond what the
/// transaction has changed (fast_record-B7).
#[derive(Clone, Default, Debug)]
pub(crate) struct Claims {
    /// Images and free blocks for the mapping of each file that was told, which counts once.
    mappings: BTreeMap<Ino, (u32, u32)>,
    /// Directories that have got names, which may begin an index and a tree of extents.
    dirs: BTreeSet<Ino>,
    added: u32,
    removed: u32,
}

/// Blocks that a new name takes at most: its leaf is split, and so may be a node of the index and
/// one of the directory's extents above.
const BLOCKS_PER_NAME: u32 = 3;
/// Blocks that the first new name of a directory takes besides: levels that begin.
const BLOCKS_PER_DIR: u32 = 4;
/// Images of a name that comes: its leaf, the two nodes above, and each block that it takes with a
/// bitmap and a descriptor.
const IMAGES_PER_NAME: u32 = 3 + 3 * BLOCKS_PER_NAME;

impl Claims {
    /// A name comes (`adds`) or goes.
    pub fn name(&mut self, dir: Ino, adds: bool) {
        if adds {
            self.dirs.insert(dir);
            self.added += 1;
        } else {
            self.removed += 1;
        }
    }

    /// The mapping of a file is told: a replay logs so many images, and takes so many blocks
    /// besides those that the file has.
    pub fn mapping(&mut self, ino: Ino, images: u32, blocks: u32) {
        self.mappings.insert(ino, (images, blocks));
    }

    /// Blocks of the log (fast-W10).
    pub fn images(&self) -> u32 {
        let mappings: u32 = self.mappings.values().map(|(images, _)| images).sum();
        let dirs = 3 * BLOCKS_PER_DIR * self.dirs.len() as u32;
        mappings + dirs + IMAGES_PER_NAME * self.added + self.removed
    }

    /// Free blocks of the volume.
    pub fn blocks(&self) -> u64 {
        let mappings: u32 = self.mappings.values().map(|(_, blocks)| blocks).sum();
        let dirs = BLOCKS_PER_DIR * self.dirs.len() as u32;
        u64::from(mappings + dirs + BLOCKS_PER_NAME * self.added)
    }
}

/// The notes of a volume; none are taken if its scheme has no fast commits.
pub(crate) struct FastNotes(Option<Mutex<Kept>>);

/// Notes, and what fast commits of the same transaction have claimed.
struct Kept {
    notes: Notes,
    claims: (Tid, Claims),
}

impl FastNotes {
    /// Notes for a mount with (`on`) or without fast commits.
    pub fn new(on: bool) -> FastNotes {
        let kept = || Kept {
            notes: Notes::new(Tid(0)),
            claims: (Tid(0), Claims::default()),
        };
        FastNotes(on.then(|| Mutex::named("fast commit notes", kept())))
    }

    /// True if fast commits are written.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Changes the notes of transaction `tid`, which begin empty: those of an older one are of no
    /// use, because that one is being committed in full.
    fn with(&self, tid: Tid, change: impl FnOnce(&mut Notes)) {
        let Some(notes) = &self.0 else { return };
        let notes = &mut notes.lock().notes;
        if notes.tid != tid {
            *notes = Notes::new(tid);
        }
        if !notes.refused {
            change(notes);
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
        let notes = &mut self.0.as_ref()?.lock().notes;
        if notes.tid != tid {
            return Some(Notes::new(tid));
        }
        let taken = std::mem::replace(notes, Notes::new(tid));
        (!taken.refused).then_some(taken)
    }

    /// What the fast commits of `tid` so far have claimed.
    pub(super) fn claims(&self, tid: Tid) -> Claims {
        let kept = self.0.as_ref().map(Mutex::lock);
        let kept = kept.filter(|kept| kept.claims.0 == tid);
        kept.map(|kept| kept.claims.1.clone()).unwrap_or_default()
    }

    /// Keeps what they claim with the next one.
    pub(super) fn claim(&self, tid: Tid, claims: Claims) {
        if let Some(kept) = &self.0 {
            kept.lock().claims = (tid, claims);
        }
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

    /// fast_record-B7: one replay carries out all fast commits of a transaction.
    #[test]
    fn claims_of_a_transaction_add_up_and_a_file_counts_once() {
        let notes = FastNotes::new(true);
        let mut claims = notes.claims(T);
        claims.mapping(Ino(12), 10, 2);
        claims.name(Ino(2), true);
        let first = (claims.images(), claims.blocks());
        notes.claim(T, claims);
        let mut claims = notes.claims(T);
        claims.mapping(Ino(12), 12, 3);
        assert_eq!(claims.images(), first.0 + 2, "again, and larger by now");
        assert_eq!(claims.blocks(), first.1 + 1);
        claims.mapping(Ino(13), 5, 1);
        claims.name(Ino(2), true);
        claims.name(Ino(2), false);
        assert_eq!(claims.images(), first.0 + 2 + 5 + IMAGES_PER_NAME + 1);
        let added = u64::from(BLOCKS_PER_NAME);
        assert_eq!(claims.blocks(), first.1 + 1 + 1 + added);
        notes.claim(T, claims);
        let next = notes.claims(T.next());
        assert_eq!(
            (next.images(), next.blocks()),
            (0, 0),
            "another transaction"
        );
    }

    #[test]
    fn more_than_an_area_holds_is_refused() {
        let notes = FastNotes::new(true);
        (0..=NOTES_MAX as u32).for_each(|n| notes.inode(T, Ino(n + 12)));
        assert!(notes.take(T).is_none());
    }
}
