//! The model's operations on names.

use super::inode::Body;
use super::{LINKS_MAX, State};
use base::Ino;
use fscore::{Attr, Creds, DirEntry, Errno, FileKind, FsError, FsResult, RenameMode};

const NAME_BYTES_MAX: usize = 255;

impl State {
    pub(super) fn lookup(&mut self, dir: Ino, name: &[u8]) -> FsResult<Ino> {
        check(name)?;
        let directory = self.inode(dir)?.dir()?;
        match name {
            b"." => Ok(dir),
            b".." => Ok(directory.parent),
            _ => match directory.names.get(name) {
                Some(&(ino, _)) => Ok(ino),
                None => Err(Errno::NoEnt.into()),
            },
        }
    }

    pub(super) fn find(&mut self, dir: Ino, name: &[u8]) -> FsResult<Option<Ino>> {
        match self.lookup(dir, name) {
            Ok(ino) => Ok(Some(ino)),
            Err(FsError::Posix(Errno::NoEnt)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn is_dir(&mut self, ino: Ino) -> FsResult<bool> {
        Ok(self.inode(ino)?.kind() == FileKind::Dir)
    }

    /// Checks that a name can be made in `dir`.
    fn check_new(&mut self, dir: Ino, name: &[u8]) -> FsResult<()> {
        if self.find(dir, name)?.is_some() {
            return Err(Errno::Exist.into());
        }
        if self.inode(dir)?.nlink == 0 {
            return Err(Errno::NoEnt.into());
        }
        Ok(())
    }

    fn add(&mut self, dir: Ino, name: &[u8], ino: Ino) -> FsResult<()> {
        let directory = self.inode(dir)?;
        directory.dir()?.insert(name, ino);
        directory.touch_content();
        Ok(())
    }

    fn take(&mut self, dir: Ino, name: &[u8]) -> FsResult<()> {
        let directory = self.inode(dir)?;
        directory.dir()?.remove(name);
        directory.touch_content();
        Ok(())
    }

    /// Changes the number of links by `by`, when the `..` of a subdirectory comes or goes.
    fn count_links(&mut self, ino: Ino, by: i32) -> FsResult<()> {
        let inode = self.inode(ino)?;
        inode.nlink = inode.nlink.strict_add_signed(by);
        Ok(())
    }

    pub(super) fn make(
        &mut self,
        dir: Ino,
        name: &[u8],
        body: Body,
        perm: u16,
        creds: Creds,
    ) -> FsResult<Attr> {
        self.check_new(dir, name)?;
        let is_dir = matches!(body, Body::Dir(_));
        let ino = self.insert(body, perm, creds);
        self.add(dir, name, ino)?;
        if is_dir {
            self.count_links(ino, 1)?;
            self.count_links(dir, 1)?;
        }
        self.attr(ino)
    }

    pub(super) fn link(&mut self, ino: Ino, dir: Ino, name: &[u8]) -> FsResult<Attr> {
        self.check_new(dir, name)?;
        let inode = self.inode(ino)?;
        match (inode.kind(), inode.nlink) {
            (FileKind::Dir, _) => return Err(Errno::Perm.into()),
            (_, 0) => return Err(Errno::NoEnt.into()),
            (_, LINKS_MAX) => return Err(Errno::MLink.into()),
            _ => {}
        }
        inode.nlink += 1;
        inode.touch_inode();
        self.add(dir, name, ino)?;
        self.attr(ino)
    }

    pub(super) fn unlink(&mut self, dir: Ino, name: &[u8]) -> FsResult<()> {
        let ino = self.lookup(dir, name)?;
        if self.is_dir(ino)? {
            return Err(Errno::IsDir.into());
        }
        self.take(dir, name)?;
        self.drop_file(ino)
    }

    /// Accounts for a file that has lost one name.
    fn drop_file(&mut self, ino: Ino) -> FsResult<()> {
        self.count_links(ino, -1)?;
        self.inode(ino)?.touch_inode();
        self.free_if_unused(ino);
        Ok(())
    }

    /// Accounts for an empty directory that has lost its name in `parent`.
    fn drop_dir(&mut self, ino: Ino, parent: Ino) -> FsResult<()> {
        self.count_links(parent, -1)?;
        let inode = self.inode(ino)?;
        inode.nlink = 0;
        inode.touch_inode();
        self.free_if_unused(ino);
        Ok(())
    }

    pub(super) fn rmdir(&mut self, dir: Ino, name: &[u8]) -> FsResult<()> {
        let ino = self.lookup(dir, name)?;
        if !self.inode(ino)?.dir()?.names.is_empty() {
            return Err(Errno::NotEmpty.into());
        }
        self.take(dir, name)?;
        self.drop_dir(ino, dir)
    }

    pub(super) fn rename(
        &mut self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
    ) -> FsResult<()> {
        if mode.whiteout().is_some() {
            return Err(Errno::NotSup.into());
        }
        let source = self.lookup(from.0, from.1)?;
        let Some(target) = self.find(to.0, to.1)? else {
            if mode == RenameMode::Exchange {
                return Err(Errno::NoEnt.into());
            }
            self.check_new(to.0, to.1)?;
            return self.relocate(source, from, to);
        };
        match mode {
            _ if mode.keeps_target() => Err(Errno::Exist.into()),
            _ if source == target => Ok(()),
            RenameMode::Exchange => self.exchange((from, source), (to, target)),
            _ => {
                match (self.is_dir(source)?, self.is_dir(target)?) {
                    (true, false) => return Err(Errno::NotDir.into()),
                    (false, true) => return Err(Errno::IsDir.into()),
                    (false, false) => {
                        self.take(to.0, to.1)?;
                        self.drop_file(target)?;
                    }
                    (true, true) => self.rmdir(to.0, to.1)?,
                }
                self.relocate(source, from, to)
            }
        }
    }

    /// Moves a name to a name that is free.
    fn relocate(&mut self, ino: Ino, from: (Ino, &[u8]), to: (Ino, &[u8])) -> FsResult<()> {
        self.take(from.0, from.1)?;
        self.add(to.0, to.1, ino)?;
        self.set_parent(ino, from.0, to.0)?;
        self.inode(ino)?.touch_inode();
        Ok(())
    }

    fn set_parent(&mut self, ino: Ino, from: Ino, to: Ino) -> FsResult<()> {
        if self.is_dir(ino)? {
            self.count_links(from, -1)?;
            self.count_links(to, 1)?;
            self.inode(ino)?.dir()?.parent = to;
        }
        Ok(())
    }

    fn exchange(
        &mut self,
        (a, a_ino): ((Ino, &[u8]), Ino),
        (b, b_ino): ((Ino, &[u8]), Ino),
    ) -> FsResult<()> {
        for (place, ino) in [(a, b_ino), (b, a_ino)] {
            let directory = self.inode(place.0)?;
            directory.dir()?.replace(place.1, ino);
            directory.touch_content();
            self.inode(ino)?.touch_inode();
        }
        self.set_parent(a_ino, a.0, b.0)?;
        self.set_parent(b_ino, b.0, a.0)
    }

    pub(super) fn readdir(&mut self, dir: Ino, from: u64, max: usize) -> FsResult<Vec<DirEntry>> {
        let inode = self.inode(dir)?;
        let removed = inode.nlink == 0;
        let directory = inode.dir()?;
        let dots = [(0, dir, &b"."[..]), (1, directory.parent, b"..")];
        let mut found: Vec<(u64, Ino, Vec<u8>)> = Vec::new();
        if !removed {
            found.extend(dots.map(|(cookie, ino, name)| (cookie, ino, name.to_vec())));
            found.retain(|entry| entry.0 >= from);
        }
        for (cookie, name) in directory.order.range(from..) {
            if found.len() >= max {
                break;
            }
            found.push((*cookie, directory.names[name].0, name.clone()));
        }
        found.truncate(max);
        let entry = |(cookie, ino, name)| {
            Ok(DirEntry {
                ino,
                kind: self.inode(ino)?.kind(),
                name,
                next: cookie + 1,
            })
        };
        found.into_iter().map(entry).collect()
    }
}

/// Checks the length of a name.
///
/// # Errors
/// ENAMETOOLONG.
fn check(name: &[u8]) -> FsResult<()> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Errno::NameTooLong.into());
    }
    Ok(())
}
