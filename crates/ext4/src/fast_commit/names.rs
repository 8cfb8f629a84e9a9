//! The names that a row of fast commits adds and removes, taken together over the whole row.
//!
//! A name may come and go many times in a row; what counts is the inode that it leads to before and
//! after the row. From that follows how many names an inode gains and loses. So link counts can be
//! checked, and a row that leaves an inode without a name, or a name without an inode, is refused
//! before anything has changed (fast_commit-U4).

use super::{Replay, wrong};
use crate::dir;
use crate::inode::{Core, Inode};
use base::Ino;
use fscore::FsResult;
use ondisk::ext4 as disk;
use ondisk::ext4::{FastCommitName, InodeFlags, NAME_BYTES_MAX};
use std::collections::BTreeMap;

/// The inode that a name leads to, before and after the row.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Name {
    before: Option<Ino>,
    after: Option<Ino>,
    /// How the name is spelt on the device, if it is there. Only in a directory without regard to
    /// case can that differ from how the row spells it.
    old_text: Vec<u8>,
    text: Vec<u8>,
    /// When the row added it last, among all names.
    came: usize,
}

impl Name {
    /// True if the name goes on to lead to `ino`, in the same spelling.
    fn keeps(&self, ino: Ino) -> bool {
        (self.before, self.after) == (Some(ino), Some(ino)) && self.old_text == self.text
    }
}

/// What a name leads to on the device, and how it is spelt there.
pub(super) type There = Option<(Ino, Vec<u8>)>;

impl Replay<'_> {
    /// Adds or removes a name.
    pub(super) fn name(&mut self, add: bool, name: &FastCommitName) -> FsResult<()> {
        let fs = self.fs;
        let target = self.target(name.parent)?;
        let old = target.old.clone().filter(disk::Inode::is_dir);
        let fields = target.fields.clone();
        let folds = match fields {
            Some(fields) => self.parsed(&fields)?.flags(),
            None => old.as_ref().map_or(InodeFlags(0), disk::Inode::flags),
        };
        let folding = fs.folding.as_ref();
        let folding = folding.filter(|_| folds.has(InodeFlags::CASEFOLD));
        let key = folding.map_or_else(|| name.name.clone(), |f| f.identity(&name.name));
        let there = || {
            let Some(dir) = old else {
                return Ok(None);
            };
            let dir = Inode::new(name.parent, Core::new(dir, fs.newest_tid()));
            let found = dir::find(&fs.view_dir(&dir), &name.name)?;
            Ok(found.map(|entry| (entry.found().ino, entry.name().to_vec())))
        };
        match add {
            true => self.names.add(name, key, there),
            false => self.names.remove(name, key, there),
        }
    }

    /// True if the row removes this entry of a directory.
    pub(super) fn takes_entry(&self, dir: &dir::DirFacts, entry: &dir::RawEntry) -> bool {
        self.names
            .takes(dir.ino, &dir.identity(&entry.name), entry.ino)
    }
}

/// Names by directory, each under its identity there.
#[derive(Default)]
pub(super) struct Names {
    all: BTreeMap<Ino, BTreeMap<Vec<u8>, Name>>,
    /// Names that were added so far.
    added: usize,
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
        key: Vec<u8>,
        there: impl FnOnce() -> FsResult<There>,
    ) -> FsResult<()> {
        self.added += 1;
        let came = self.added;
        let of = self.entry(name, key, there)?;
        match of.after {
            Some(other) if other != name.ino => Err(wrong(format!(
                "name \"{}\" for inode {}, which stands for inode {other}",
                name.name.escape_ascii(),
                name.ino
            ))),
            Some(_) => Ok(()),
            None => {
                of.after = Some(name.ino);
                of.came = came;
                of.text.clone_from(&name.name);
                Ok(())
            }
        }
    }

    /// Removes a name, which may be missing already (fast_commit-U3).
    pub fn remove(
        &mut self,
        name: &FastCommitName,
        key: Vec<u8>,
        there: impl FnOnce() -> FsResult<There>,
    ) -> FsResult<()> {
        let of = self.entry(name, key, there)?;
        if of.after == Some(name.ino) {
            of.after = None;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        name: &FastCommitName,
        key: Vec<u8>,
        there: impl FnOnce() -> FsResult<There>,
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
        if !of.contains_key(&key) {
            let there = there()?;
            let before = there.as_ref().map(|(ino, _)| *ino);
            let old_text = there.map_or_else(|| text.clone(), |(_, spelt)| spelt);
            of.insert(
                key.clone(),
                Name {
                    before,
                    after: before,
                    text: old_text.clone(),
                    old_text,
                    came: 0,
                },
            );
        }
        Ok(of.get_mut(&key).expect("inserted above"))
    }

    /// The names that the row removes. An inode number that is reused loses its old name even if
    /// the new inode has the same name.
    pub fn gone<'a>(
        &'a self,
        is_new: impl Fn(Ino) -> bool + 'a,
    ) -> impl Iterator<Item = Change<'a>> {
        self.changes(move |name| {
            let ino = name.before.filter(|&ino| !name.keeps(ino) || is_new(ino))?;
            Some((ino, &name.old_text))
        })
        .map(|(_, change)| change)
    }

    /// The names that the row adds, in the order of the row: in that order they had room in their
    /// directories, while in another one a short name may take the place that a long one needs.
    pub fn come<'a>(
        &'a self,
        is_new: impl Fn(Ino) -> bool + 'a,
    ) -> impl Iterator<Item = Change<'a>> {
        let changes = self.changes(move |name| {
            let ino = name.after.filter(|&ino| !name.keeps(ino) || is_new(ino))?;
            Some((ino, &name.text))
        });
        let mut changes: Vec<_> = changes.collect();
        changes.sort_by_key(|(came, _)| *came);
        changes.into_iter().map(|(_, change)| change)
    }

    fn changes<'a>(
        &'a self,
        which: impl Fn(&Name) -> Option<(Ino, &Vec<u8>)> + 'a,
    ) -> impl Iterator<Item = (usize, Change<'a>)> {
        let all = self.all.iter();
        let all = all.flat_map(|(&parent, names)| names.values().map(move |of| (parent, of)));
        all.filter_map(move |(parent, of)| {
            let (ino, name) = which(of)?;
            Some((of.came, Change { parent, name, ino }))
        })
    }

    /// True if the row removes the name of this identity from this directory.
    fn takes(&self, parent: Ino, key: &[u8], ino: Ino) -> bool {
        let of = self.all.get(&parent).and_then(|names| names.get(key));
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
        let old = || Ok(Some((Ino(12), b"a".to_vec())));
        names
            .remove(&name(b"a", 12), b"a".to_vec(), old)
            .expect("goes");
        names
            .add(&name(b"a", 13), b"a".to_vec(), none)
            .expect("comes");
        names
            .add(&name(b"short", 14), b"short".to_vec(), none)
            .expect("comes");
        names
            .remove(&name(b"short", 14), b"short".to_vec(), none)
            .expect("goes");
        names
            .remove(&name(b"never", 15), b"never".to_vec(), none)
            .expect("not missed");
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
        let old = || Ok(Some((Ino(12), b"a".to_vec())));
        assert!(names.add(&name(b"a", 13), b"a".to_vec(), old).is_err());
        assert!(names.add(&name(b"a", 12), b"a".to_vec(), old).is_ok());
        for bad in [&b""[..], b".", b"..", b"a/b", b"a\0", &[b'x'; 256]] {
            assert!(
                names
                    .add(&name(bad, 13), bad.to_vec(), || Ok(None))
                    .is_err(),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn a_number_that_was_given_out_again_loses_its_name_and_gets_it() {
        let mut names = Names::default();
        let old = || Ok(Some((Ino(12), b"a".to_vec())));
        names
            .remove(&name(b"a", 12), b"a".to_vec(), old)
            .expect("goes");
        names
            .add(&name(b"a", 12), b"a".to_vec(), old)
            .expect("comes");
        let counts = |new: bool| {
            (
                names.gone(move |_| new).count(),
                names.come(move |_| new).count(),
            )
        };
        assert_eq!((counts(false), counts(true)), ((0, 0), (1, 1)));
    }
}
