//! Directories of the host into which a tree is extracted. Each is opened relative to its open
//! parent.
//!
//! - **H1** A name is looked up in an open directory, one component at a time, and a symbolic link
//!   is never followed: a link that an image (or another process, meanwhile) puts in the place of a
//!   directory leads nowhere.
//! - **H2** A directory that is opened again must be the one that was made: device and inode number
//!   are compared.
//! - **H3** Paths may have any length, because the host sees one name at a time. At most
//!   [`OPEN_MAX`] directories are open.

use rustix::fs as unix;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Directories that are kept open along the way to one that lies deep.
const OPEN_MAX: usize = 64;

/// Number of a directory of a [`Tree`]; 0 is the one that it begins with.
pub type DirNo = usize;

struct Dir {
    parent: DirNo,
    depth: usize,
    name: Vec<u8>,
    /// Device and inode on the host.
    id: (u64, u64),
}

/// The directories that were made, or found.
pub struct Tree {
    root: PathBuf,
    dirs: Vec<Dir>,
    /// Open directories on the way to the last one that was asked for, the root first. Some in
    /// between may be missing.
    open: Vec<(DirNo, OwnedFd)>,
}

/// How a directory is opened: H1.
fn dir_flags() -> unix::OFlags {
    unix::OFlags::RDONLY | unix::OFlags::DIRECTORY | unix::OFlags::NOFOLLOW | unix::OFlags::CLOEXEC
}

fn id_of(fd: impl AsFd) -> io::Result<(u64, u64)> {
    let stat = unix::fstat(fd)?;
    Ok((stat.st_dev, stat.st_ino))
}

impl Tree {
    /// Begins with an existing directory. Its path is the user's own, and links in it are followed.
    pub fn begin(root: &Path) -> io::Result<Tree> {
        let flags = dir_flags().difference(unix::OFlags::NOFOLLOW);
        let fd = unix::open(root, flags, unix::Mode::empty())?;
        let dir = Dir {
            parent: 0,
            depth: 0,
            name: Vec::new(),
            id: id_of(&fd)?,
        };
        Ok(Tree {
            root: root.into(),
            dirs: vec![dir],
            open: vec![(0, fd)],
        })
    }

    /// The path of a name, for messages.
    pub fn path(&self, dir: DirNo, name: &[u8]) -> PathBuf {
        let mut names = vec![name];
        let mut at = dir;
        while at != 0 {
            names.push(&self.dirs[at].name);
            at = self.dirs[at].parent;
        }
        let mut path = self.root.clone();
        names.reverse();
        path.extend(
            names
                .into_iter()
                .filter(|n| !n.is_empty())
                .map(OsStr::from_bytes),
        );
        path
    }

    /// Opens a directory.
    pub fn fd(&mut self, dir: DirNo) -> io::Result<BorrowedFd<'_>> {
        let mut missing = Vec::new();
        let mut at = dir;
        loop {
            let depth = self.dirs[at].depth;
            // The root is on the way to all and the only one of its depth.
            while let Some(&(last, _)) = self.open.last() {
                let other = last != at && self.dirs[last].depth == depth;
                match self.dirs[last].depth > depth || other {
                    true => drop(self.open.pop()),
                    false => break,
                }
            }
            if self.open.last().is_some_and(|&(last, _)| last == at) {
                break;
            }
            missing.push(at);
            at = self.dirs[at].parent;
        }
        for no in missing.into_iter().rev() {
            let (_, above) = self
                .open
                .last()
                .expect("invariant: the root is never closed");
            let name = OsStr::from_bytes(&self.dirs[no].name);
            let fd = unix::openat(above, name, dir_flags(), unix::Mode::empty())?;
            // H2.
            if id_of(&fd)? != self.dirs[no].id {
                let why = "another directory has taken its place meanwhile";
                return Err(io::Error::other(why));
            }
            self.open.push((no, fd));
            if self.open.len() > OPEN_MAX {
                self.open.remove(1);
            }
        }
        let (_, fd) = self
            .open
            .last()
            .expect("invariant: the root is never closed");
        Ok(fd.as_fd())
    }

    /// Makes a directory that only its owner can use for now. An existing directory is used as it
    /// is; a link to one is refused (H1).
    pub fn make_dir(&mut self, parent: DirNo, name: &[u8]) -> io::Result<DirNo> {
        let depth = self.dirs[parent].depth + 1;
        let above = self.fd(parent)?;
        let word = OsStr::from_bytes(name);
        let fd = match unix::mkdirat(above, word, unix::Mode::RWXU) {
            Ok(()) => unix::openat(above, word, dir_flags(), unix::Mode::empty())?,
            Err(Errno::EXIST) => unix::openat(above, word, dir_flags(), unix::Mode::empty())
                .map_err(|e| match e {
                    Errno::NOTDIR | Errno::LOOP => Errno::EXIST,
                    other => other,
                })?,
            Err(e) => return Err(e.into()),
        };
        let id = id_of(&fd)?;
        let dir = Dir {
            parent,
            depth,
            name: name.to_vec(),
            id,
        };
        self.dirs.push(dir);
        let no = self.dirs.len() - 1;
        self.open.push((no, fd));
        if self.open.len() > OPEN_MAX {
            self.open.remove(1);
        }
        Ok(no)
    }

    /// Removes a file that is in the way of one that is to be made; a directory stays, and is an
    /// error.
    pub fn clear(&mut self, dir: DirNo, name: &[u8]) -> io::Result<()> {
        let fd = self.fd(dir)?;
        match unix::unlinkat(fd, OsStr::from_bytes(name), unix::AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// A second name for a file that was made.
    pub fn link(&mut self, first: (DirNo, &[u8]), second: (DirNo, &[u8])) -> io::Result<()> {
        let from = self.fd(first.0)?.try_clone_to_owned()?;
        let (from_name, to_name) = (OsStr::from_bytes(first.1), OsStr::from_bytes(second.1));
        let to = self.fd(second.0)?;
        Ok(unix::linkat(
            from,
            from_name,
            to,
            to_name,
            unix::AtFlags::empty(),
        )?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A chain longer than may be open, back and forth; and one whose end was swapped for a link.
    #[test]
    fn directories_are_reached_one_from_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let mut tree = Tree::begin(folder.path()).unwrap();
        let mut dirs = vec![0];
        for depth in 0..200 {
            let name = format!("{:a>100}", depth);
            dirs.push(tree.make_dir(dirs[depth], name.as_bytes()).unwrap());
        }
        let other = tree.make_dir(dirs[100], b"other").unwrap();
        for no in [200, 3, 150, 0, 199] {
            let id = tree.dirs[dirs[no]].id;
            assert_eq!(id_of(tree.fd(dirs[no]).unwrap()).unwrap(), id);
            assert!(tree.open.len() <= OPEN_MAX, "H3");
        }
        assert!(tree.path(dirs[200], b"f").as_os_str().len() > 20_000);
        tree.clear(other, b"none").unwrap();
        let outside = tempfile::tempdir().unwrap();
        let first = tree.path(dirs[1], b"");
        fs::rename(&first, folder.path().join("moved")).unwrap();
        symlink(outside.path(), &first).unwrap();
        tree.fd(0).unwrap();
        assert!(tree.fd(dirs[2]).is_err(), "H1");
        fs::remove_file(&first).unwrap();
        fs::create_dir(&first).unwrap();
        let why = tree.fd(dirs[1]).unwrap_err().to_string();
        assert!(why.contains("another directory"), "H2: {why}");
    }
}
