//! An index in memory of the names in a directory, so that adding a name needs no search on the
//! device: it has the hashes that exist, the page of each, and how much room a page may have.
//!
//! Linux keeps such facts in its dentry cache. The index of a new directory is complete from the
//! start; that of an existing directory is built when searches have looked at more than twice as
//! many pages as it has. The index of a very large one is given up, and its names are searched for.

use base::Map;

/// Names of one directory that are kept in memory.
const NAMES_MAX: usize = 1 << 20;
/// Pages whose room is kept in memory.
const PAGES_MAX: usize = 1 << 18;
/// More than one name has this hash.
const MANY: u32 = u32::MAX;
/// Nothing is known of the room of this page.
const ROOM_UNKNOWN: u8 = u8::MAX;

/// What is known of a hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    /// No name in the directory has this hash.
    Absent,
    /// One name has this hash, in this page.
    Page(u64),
    /// Not known: only a search can tell.
    Search,
}

/// What is known of a directory.
#[derive(Default)]
pub(crate) struct NameIndex {
    /// Page by hash, of all names but the dots (dir-D3); `None`: not known.
    names: Option<Map<u32, u32>>,
    /// Some names may not stand under the hash that this code gives them (`dir::names`).
    strays: bool,
    /// Pages searched without it.
    searched: u64,
    /// By page: no run of free slots is longer than this.
    room: Vec<u8>,
}

impl NameIndex {
    /// A directory without names.
    pub fn empty() -> NameIndex {
        NameIndex {
            names: Some(Map::default()),
            ..NameIndex::default()
        }
    }

    /// A name stands under another hash than its own.
    pub(super) fn has_stray(&mut self) {
        self.strays = true;
    }

    /// False if it is known that all names stand under their own hashes.
    pub(super) fn may_have_strays(&self) -> bool {
        self.strays || self.names.is_none()
    }

    pub(super) fn look(&self, hash: u32) -> Look {
        let Some(names) = &self.names else {
            return Look::Search;
        };
        match names.get(&hash) {
            None => Look::Absent,
            Some(&MANY) => Look::Search,
            Some(&page) => Look::Page(page.into()),
        }
    }

    pub(super) fn added(&mut self, hash: u32, page: u64) {
        let Some(names) = &mut self.names else { return };
        if names.len() >= NAMES_MAX || page >= u64::from(MANY) {
            self.names = None;
            return;
        }
        names
            .entry(hash)
            .and_modify(|p| *p = MANY)
            .or_insert(page as u32);
    }

    pub(super) fn removed(&mut self, hash: u32) {
        let Some(names) = &mut self.names else { return };
        if names.get(&hash).is_some_and(|&page| page != MANY) {
            names.remove(&hash);
        }
    }

    /// A search looked at so many pages of a directory of `pages`. True if searches have cost as
    /// much as reading all of it: then its names should be read.
    pub(super) fn searched(&mut self, looked: u64, pages: u64) -> bool {
        self.searched += looked;
        let small = pages * (super::disk::DENTRIES_PER_BLOCK as u64) < NAMES_MAX as u64;
        let due = self.names.is_none() && small && self.searched >= 2 * pages + 16;
        if due {
            self.searched = 0;
        }
        due
    }

    /// `known` has all names of the directory.
    pub(super) fn learn(&mut self, known: NameIndex) {
        self.names = known.names;
        self.strays = known.strays;
    }

    /// True unless it is known that no `slots` slots in a row are free in the page.
    pub(super) fn may_hold(&self, page: u64, slots: usize) -> bool {
        self.room_of(page)
            .is_none_or(|most| slots <= usize::from(most))
    }

    /// What is known of the room of a page.
    pub(super) fn room_of(&self, page: u64) -> Option<u8> {
        let most = *self.room.get(usize::try_from(page).ok()?)?;
        (most != ROOM_UNKNOWN).then_some(most)
    }

    /// The page has no run of free slots longer than `most`; `None`: that is not known any more.
    pub(super) fn note_room(&mut self, page: u64, most: Option<usize>) {
        let Some(at) = usize::try_from(page).ok().filter(|&at| at < PAGES_MAX) else {
            return;
        };
        if self.room.len() <= at {
            if most.is_none() {
                return;
            }
            self.room.resize(at + 1, ROOM_UNKNOWN);
        }
        self.room[at] = most.map_or(ROOM_UNKNOWN, |n| n.min(usize::from(ROOM_UNKNOWN) - 1) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_hashes_are_searched_for_ever() {
        let mut index = NameIndex::empty();
        index.added(7, 3);
        assert_eq!(
            (index.look(7), index.look(8)),
            (Look::Page(3), Look::Absent)
        );
        index.added(7, 4);
        assert_eq!(index.look(7), Look::Search);
        index.removed(7);
        assert_eq!(
            index.look(7),
            Look::Search,
            "dir-D3: the other one is still there"
        );
        index.added(9, 1);
        index.removed(9);
        assert_eq!(index.look(9), Look::Absent);
        assert_eq!(NameIndex::default().look(9), Look::Search);
    }

    #[test]
    fn room_is_known_until_an_entry_goes() {
        let mut index = NameIndex::default();
        assert!(index.may_hold(5, 32));
        index.note_room(5, Some(2));
        assert!(index.may_hold(5, 2) && !index.may_hold(5, 3) && index.may_hold(4, 32));
        index.note_room(5, None);
        assert!(index.may_hold(5, 32) && index.room_of(5).is_none());
        index.note_room(u64::MAX, Some(1));
        assert!(index.room.len() == 6, "bounded");
    }
}
