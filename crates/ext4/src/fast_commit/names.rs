//! The names that a row of fast commits adds and removes, taken together over the whole row.
//!
//! A name may come and go many times in a row; what counts is the inode that it leads to before and
//! after the row. From that follows how many names an inode gains and loses. So link counts can be
//! checked, and a row that leaves an inode without a name, or a name without an inode, is refused
//! before anything has changed (fast_commit-U4).

use super::wrong;
use base::Ino;
use fscore::FsResult;
use ondisk::ext4::{FastCommitName, NAME_BYTES_MAX};
use std::collections::BTreeMap;

/// The inode that a name leads to, before and after the row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Name {
    before: Option<Ino>,
    after: Option<Ino>,
}

/// Names by directory.
#[derive(Default)]
pub(super) struct Names {
    all: BTreeMap<Ino, BTreeMap<Vec<u8>, Name>>,
}

/// A name that is removed or added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Change<'a> {
    pub parent: Ino,
    pub name: &'a [u8],
    pub ino: Ino,
}

impl Names {
    /// Adds a name; `there` says which inode it leads to on the device. A name that is there
    /// already stays (fast_commit-U3).
    pub fn add(
        &mut self,
        name: &FastCommitName,
        there: impl FnOnce() -> FsResult<Option<Ino>>,
    ) -> FsResult<()> {
        let of = self.entry(name, there)?;
        match of.after {
            Some(other) if other != name.ino => Err(wrong(format!(
                "name \"{}\" for inode {}, which stands for inode {other}",
                name.name.escape_ascii(),
                name.ino
            ))),
            _ => {
                of.after = Some(name.ino);
                Ok(())
            }
        }
    }

    /// Removes a name, which may be missing already (fast_commit-U3).
    pub fn remove(
        &mut self,
        name: &FastCommitName,
        there: impl FnOnce() -> FsResult<Option<Ino>>,
    ) -> FsResult<()> {
        let of = self.entry(name, there)?;
        if of.after == Some(name.ino) {
            of.after = None;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        name: &FastCommitName,
        there: impl FnOnce() -> FsResult<Option<Ino>>,
    ) -> FsResult<&mut Name> {
        let text = &name.name;
        let possible = !text.is_empty()
            && text.len() <= NAME_BYTES_MAX
            && !text.iter().any(|&b| matches!(b, 0 | b'/'))
            && !matches!(&text[..], b"." | b"..");
        if !possible {
            return Err(wrong(format!("\"{}\" is no name", text.escape_ascii())));
        }
        let of = self.all.entry(name.parent).or_default();
        if !of.contains_key(text) {
            let before = there()?;
            of.insert(
                text.clone(),
                Name {
                    before,
                    after: before,
                },
            );
        }
        Ok(of.get_mut(text).expect("inserted above"))
    }

    /// The names that the row removes. An inode number that is reused loses its old name even if
    /// the new inode has the same name.
    pub fn gone<'a>(
        &'a self,
        is_new: impl Fn(Ino) -> bool + 'a,
    ) -> impl Iterator<Item = Change<'a>> {
        self.changes(move |name| {
            name.before
                .filter(|&ino| name.after != Some(ino) || is_new(ino))
        })
    }

    /// The names that the row adds.
    pub fn come<'a>(
        &'a self,
        is_new: impl Fn(Ino) -> bool + 'a,
    ) -> impl Iterator<Item = Change<'a>> {
        self.changes(move |name| {
            name.after
                .filter(|&ino| name.before != Some(ino) || is_new(ino))
        })
    }

    fn changes<'a>(
        &'a self,
        which: impl Fn(&Name) -> Option<Ino> + 'a,
    ) -> impl Iterator<Item = Change<'a>> {
        let all = self
            .all
            .iter()
            .flat_map(|(&parent, names)| names.iter().map(move |(name, of)| (parent, name, of)));
        all.filter_map(move |(parent, name, of)| {
            let ino = which(of)?;
            Some(Change { parent, name, ino })
        })
    }

    /// True if the row removes this entry of a directory.
    pub fn takes(&self, parent: Ino, name: &[u8], ino: Ino) -> bool {
        let of = self.all.get(&parent).and_then(|names| names.get(name));
        of.is_some_and(|of| of.before == Some(ino) && of.after.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &[u8], ino: u32) -> FastCommitName {
        FastCommitName {
            parent: Ino(2),
            ino: Ino(ino),
            name: text.to_vec(),
        }
    }

    #[test]
    fn what_counts_is_before_and_after() {
        let mut names = Names::default();
        let none = || Ok(None);
        let old = || Ok(Some(Ino(12)));
        names.remove(&name(b"a", 12), old).expect("goes");
        names.add(&name(b"a", 13), none).expect("comes");
        names.add(&name(b"short", 14), none).expect("comes");
        names.remove(&name(b"short", 14), none).expect("goes");
        names.remove(&name(b"never", 15), none).expect("not missed");
        let list = |changes: &mut dyn Iterator<Item = Change<'_>>| {
            changes
                .map(|c| (c.name.to_vec(), c.ino))
                .collect::<Vec<_>>()
        };
        let same = |_| false;
        assert_eq!(list(&mut names.gone(same)), [(b"a".to_vec(), Ino(12))]);
        assert_eq!(list(&mut names.come(same)), [(b"a".to_vec(), Ino(13))]);
    }

    #[test]
    fn a_name_of_another_inode_is_refused_and_so_is_what_is_no_name() {
        let mut names = Names::default();
        let old = || Ok(Some(Ino(12)));
        assert!(names.add(&name(b"a", 13), old).is_err());
        assert!(names.add(&name(b"a", 12), old).is_ok());
        for bad in [&b""[..], b".", b"..", b"a/b", b"a\0", &[b'x'; 256]] {
            assert!(names.add(&name(bad, 13), || Ok(None)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_number_that_was_given_out_again_loses_its_name_and_gets_it() {
        let mut names = Names::default();
        let old = || Ok(Some(Ino(12)));
        names.remove(&name(b"a", 12), old).expect("goes");
        names.add(&name(b"a", 12), old).expect("comes");
        let counts = |new: bool| {
            (
                names.gone(move |_| new).count(),
                names.come(move |_| new).count(),
            )
        };
        assert_eq!((counts(false), counts(true)), ((0, 0), (1, 1)));
    }
}
