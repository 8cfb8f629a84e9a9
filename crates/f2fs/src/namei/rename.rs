//! Rename: moves a name, replaces a name, or exchanges two names; on request it leaves a whiteout
//! in the place of the old name.
//!
//! The whiteout is made, and gets the old name, in the `Op` that moves the name: after a cut either
//! both changes are there or neither.
//!
//! Whether a directory would come to lie below itself is checked by `vfs`, which holds a lock
//! against other renames between directories; here only the nearest cases are refused.

use super::last_name::Fate;
use super::{Gates, Named, check_alive, links, lock_gates};
use crate::F2fs;
use crate::dir::{Found, NewEntry, Place, entry_type};
use crate::inode::Inode;
use crate::ops::Op;
use base::Ino;
use base::cost::f2fs as cost;
use fscore::shell::names;
use fscore::{Creds, Errno, FileKind, FsError, FsResult, NewInode, Onlookers, RenameMode};
use std::sync::Arc;

/// One end of a rename: the directory, the name, and what the name stood for when it was looked up
/// without gates.
struct End<'a> {
    dir: Arc<Inode>,
    name: &'a [u8],
    inode: Option<Arc<Inode>>,
}

/// A name with the inode behind it, looked up again under all gates.
struct Known<'a> {
    dir: &'a Inode,
    name: &'a [u8],
    inode: Arc<Inode>,
    found: Found,
    kind: FileKind,
}

impl<'a> End<'a> {
    fn known(&'a self, named: Option<Named>) -> FsResult<Option<Known<'a>>> {
        let Some(Named { inode, found }) = named else {
            return Ok(None);
        };
        Ok(Some(Known {
            dir: &self.dir,
            name: self.name,
            kind: inode.kind()?,
            inode,
            found,
        }))
    }

    /// True if the name stands for the inode whose gate is held, or for nothing as before.
    fn is(&self, named: Option<&Named>) -> bool {
        named.map(|n| n.inode.ino) == self.inode.as_ref().map(|inode| inode.ino)
    }
}

impl F2fs {
    pub(crate) fn op_rename(
        &self,
        from_dir: Ino,
        from_name: &[u8],
        to_dir: Ino,
        to_name: &[u8],
        mode: RenameMode,
    ) -> FsResult<()> {
        let (from, to) = ((from_dir, from_name), (to_dir, to_name));
        self.rename_beside(from, to, mode, Onlookers::NONE)
    }

    pub(crate) fn rename_beside(
        &self,
        (from_dir, from_name): (Ino, &[u8]),
        (to_dir, to_name): (Ino, &[u8]),
        mode: RenameMode,
        onlookers: Onlookers<'_>,
    ) -> FsResult<()> {
        self.check_writable()?;
        names::check_renamed(from_name, to_name)?;
        if to_name.len() > super::NAME_BYTES_MAX {
            return Err(Errno::NameTooLong.into());
        }
        let mut from = End {
            dir: self.directory_to_change(from_dir)?,
            name: from_name,
            inode: None,
        };
        let mut to = End {
            dir: self.directory_to_change(to_dir)?,
            name: to_name,
            inode: None,
        };
        self.balance()?;
        loop {
            from.inode = self.peek(&from.dir, from_name)?;
            to.inode = self.peek(&to.dir, to_name)?;
            if let Some(target) = &to.inode {
                self.land_before_removal(target);
            }
            let mut inodes: Vec<&Inode> = vec![&from.dir, &to.dir];
            inodes.extend(from.inode.iter().chain(&to.inode).map(|inode| &**inode));
            let mut gates = lock_gates(&inodes);
            let source = self.find(&from.dir, from_name)?;
            let target = self.find(&to.dir, to_name)?;
            if from.is(source.as_ref()) && to.is(target.as_ref()) {
                let source = from.known(source)?.ok_or(Errno::NoEnt)?;
                let target = to.known(target)?;
                self.rename_locked(source, target, &to, mode, &mut gates, onlookers)?;
                break;
            }
        }
        match &to.inode {
            Some(target) => self.evict_unnamed(target),
            None => Ok(()),
        }
    }

    /// All gates are held.
    fn rename_locked(
        &self,
        source: Known<'_>,
        target: Option<Known<'_>>,
        to: &End<'_>,
        mode: RenameMode,
        gates: &mut Gates<'_>,
        onlookers: Onlookers<'_>,
    ) -> FsResult<()> {
        rt::charge(cost::RENAME);
        if source.inode.ino == to.dir.ino {
            return Err(Errno::Inval.into());
        }
        source.dir.check_not_guarded()?;
        source.inode.check_not_guarded()?;
        self.check_project(&source.inode, &to.dir)?;
        let Some(target) = target else {
            if mode == RenameMode::Exchange {
                return Err(Errno::NoEnt.into());
            }
            check_alive(&to.dir)?;
            to.dir.check_not_immutable()?;
            check_arrival(&source, &to.dir)?;
            return self.move_name(&source, &to.dir, to.name, mode.whiteout());
        };
        if mode.keeps_target() {
            return Err(Errno::Exist.into());
        }
        to.dir.check_not_guarded()?;
        target.inode.check_not_guarded()?;
        match mode {
            _ if source.inode.ino == target.inode.ino => Ok(()),
            RenameMode::Exchange => {
                self.check_project(&target.inode, source.dir)?;
                self.exchange(&source, &target)
            }
            _ => {
                check_kinds(&source, &target)?;
                if target.kind.is_dir() {
                    self.check_empty(&target.inode)?;
                }
                let fate = self.fate(&target.inode, target.name, onlookers)?;
                self.replace(&source, &target, mode.whiteout(), fate, gates)
            }
        }
    }

    fn move_name(
        &self,
        source: &Known<'_>,
        to: &Inode,
        name: &[u8],
        whiteout: Option<Creds>,
    ) -> FsResult<()> {
        let parent = self.parent_entry(source, to)?;
        self.change(|op| {
            let whiteout = self.make_whiteout(op, source, whiteout)?;
            let entry = NewEntry {
                name,
                ino: source.inode.ino,
                kind: entry_type(source.kind),
            };
            if let Err(e) = self.dir_insert(op, to, entry) {
                if let (Some(whiteout), FsError::Posix(_)) = (&whiteout, &e) {
                    // namei-R3.
                    self.discard_inode(op, whiteout)?;
                }
                return Err(e);
            }
            // Inline entries may have moved to a block in that, but they keep their places.
            self.leave(op, source, whiteout.as_deref())?;
            self.arrive(op, source, to, name, parent)?;
            self.put_dirs(op, source.dir, to)
        })
    }

    fn replace(
        &self,
        source: &Known<'_>,
        target: &Known<'_>,
        whiteout: Option<Creds>,
        fate: Fate,
        gates: &mut Gates<'_>,
    ) -> FsResult<()> {
        let parent = self.parent_entry(source, target.dir)?;
        self.take_name_of(&target.inode, fate, gates, |op| {
            // What a full disk refuses comes first.
            let whiteout = self.make_whiteout(op, source, whiteout)?;
            let (place, kind) = (target.found.place, entry_type(source.kind));
            self.dir_retarget(op, target.dir, place, source.inode.ino, kind)?;
            if target.kind.is_dir() {
                links::subdir_went(target.dir);
            }
            self.leave(op, source, whiteout.as_deref())?;
            self.arrive(op, source, target.dir, target.name, parent)?;
            self.put_dirs(op, source.dir, target.dir)
        })
    }

    /// What takes the place of the source's old name for an overlay.
    fn make_whiteout(
        &self,
        op: &Op<'_>,
        source: &Known<'_>,
        owner: Option<Creds>,
    ) -> FsResult<Option<Arc<Inode>>> {
        let make = |creds| {
            let new = NewInode::whiteout(creds);
            self.new_inode(op, source.dir, source.name, new, |_| {}, |_, _, _| {})
        };
        owner.map(make).transpose()
    }

    /// Takes the source's old name away after it got its new one, or gives it to `whiteout`.
    fn leave(&self, op: &Op<'_>, source: &Known<'_>, whiteout: Option<&Inode>) -> FsResult<()> {
        // The insertion may have given the entry another page, if the directory left its inode for
        // hashed blocks.
        let found = self.dir_find(source.dir, source.name)?;
        let found = found
            .filter(|found| found.ino == source.inode.ino)
            .ok_or_else(|| {
                FsError::corrupt(format!(
                    "directory inode {}: a name vanished while it was renamed",
                    source.dir.ino
                ))
            })?;
        match whiteout {
            Some(new) => {
                let kind = entry_type(FileKind::Char);
                self.dir_retarget(op, source.dir, found.place, new.ino, kind)
            }
            None => self.dir_remove(op, source.dir, &found, source.name),
        }
    }

    /// Puts both directories, or the one if both are the same, after names in them have changed.
    fn put_dirs(&self, op: &Op<'_>, from: &Inode, to: &Inode) -> FsResult<()> {
        if from.ino != to.ino {
            self.put_dir(op, from)?;
        }
        self.put_dir(op, to)
    }

    /// The source has a name in `to` now: `..` and counts of links follow.
    fn arrive(
        &self,
        op: &Op<'_>,
        source: &Known<'_>,
        to: &Inode,
        name: &[u8],
        parent: Option<Place>,
    ) -> FsResult<()> {
        if let Some(place) = parent {
            let kind = ondisk::f2fs::FileType::Directory;
            self.dir_retarget(op, &source.inode, place, to.ino, kind)?;
            links::subdir_went(source.dir);
            links::subdir_came(to);
        }
        links::renamed(&source.inode, to.ino, name);
        self.note_moved_name(source.dir.ino);
        self.note_moved_name(to.ino);
        if source.kind.is_dir() {
            self.note_moved_name(source.inode.ino);
        }
        if let Some(tx) = op.tx() {
            tx.touch(source.inode.nid());
        }
        self.put_inode(op, &source.inode)
    }

    /// Where `..` stands in a directory that goes to another one; `None` if nothing has to follow.
    fn parent_entry(&self, source: &Known<'_>, to: &Inode) -> FsResult<Option<Place>> {
        if !source.kind.is_dir() || source.dir.ino == to.ino {
            return Ok(None);
        }
        match self.dir_find(&source.inode, b"..")? {
            Some(found) => Ok(Some(found.place)),
            None => Err(FsError::corrupt(format!(
                "directory inode {} has no \"..\"",
                source.inode.ino
            ))),
        }
    }

    fn exchange(&self, a: &Known<'_>, b: &Known<'_>) -> FsResult<()> {
        if b.inode.ino == a.dir.ino {
            return Err(Errno::Inval.into());
        }
        if a.kind.is_dir() != b.kind.is_dir() {
            check_arrival(a, b.dir)?;
            check_arrival(b, a.dir)?;
        }
        let (parent_a, parent_b) = (self.parent_entry(a, b.dir)?, self.parent_entry(b, a.dir)?);
        self.change(|op| {
            self.dir_retarget(op, a.dir, a.found.place, b.inode.ino, entry_type(b.kind))?;
            self.dir_retarget(op, b.dir, b.found.place, a.inode.ino, entry_type(a.kind))?;
            self.arrive(op, a, b.dir, b.name, parent_a)?;
            self.arrive(op, b, a.dir, a.name, parent_b)?;
            self.put_dirs(op, a.dir, b.dir)
        })
    }
}

/// A directory replaces directories alone, and nothing else replaces one.
fn check_kinds(source: &Known<'_>, target: &Known<'_>) -> FsResult<()> {
    match (source.kind.is_dir(), target.kind.is_dir()) {
        (true, false) => Err(Errno::NotDir.into()),
        (false, true) => Err(Errno::IsDir.into()),
        (true, true) if target.inode.ino == source.dir.ino => Err(Errno::NotEmpty.into()),
        _ => Ok(()),
    }
}

/// The directory `to` can count one more subdirectory, if one arrives.
fn check_arrival(source: &Known<'_>, to: &Inode) -> FsResult<()> {
    match source.kind.is_dir() && source.dir.ino != to.ino {
        true => links::check_subdirs(to),
        false => Ok(()),
    }
}
