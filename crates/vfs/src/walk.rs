//! The path walk: components, `.` and `..`, symbolic links and trailing slashes, as Linux does it,
//! but for relative paths: there is no current directory, so they begin at the root.
//!
//! Each component costs what it costs a kernel that has the name in its cache of names; what a
//! file system takes for a name beyond that, it charges itself.

use crate::path::{self, NAME_BYTES_MAX, SYMLINKS_MAX};
use base::Ino;
use base::cost::host;
use fscore::{Attr, Errno, FileKind, FileSystem, FsError, FsResult, Grace, OpNo};

/// The last component of a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Last {
    /// An ordinary name.
    Name(Vec<u8>),
    /// `.`
    Dot,
    /// `..`
    DotDot,
    /// There is none: the path consists of slashes.
    Root,
}

/// The directory that holds, or would hold, the last component.
#[derive(Clone, Debug)]
pub(crate) struct Parent {
    pub(crate) dir: Ino,
    pub(crate) last: Last,
    /// A slash stands behind the last component.
    pub(crate) slash: bool,
}

/// The end of a walk.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) parent: Parent,
    /// Attributes of the inode, if the last component exists.
    pub(crate) attr: Option<Attr>,
}

impl Place {
    /// The attributes, or ENOENT.
    pub(crate) fn found(self) -> FsResult<Attr> {
        self.attr.ok_or(FsError::Posix(Errno::NoEnt))
    }
}

/// What becomes of a symbolic link in the last place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Follow {
    /// It is followed.
    Yes,
    /// It is followed only if a slash stands behind it.
    No,
}

/// One walk. It counts the links that it follows, because a loop of links has no end.
pub(crate) struct Walk<'f> {
    fs: &'f dyn FileSystem,
    /// Is told which names are looked up (grace-G1).
    told: (&'f Grace, OpNo),
    links: u32,
    dir: Ino,
    /// Components that are still to be walked, the next one last.
    todo: Vec<Vec<u8>>,
    slash: bool,
}

impl<'f> Walk<'f> {
    /// A walk along `path`, from the root even if it is relative: there is no current directory.
    pub(crate) fn new(
        fs: &'f dyn FileSystem,
        told: (&'f Grace, OpNo),
        path: &[u8],
    ) -> FsResult<Walk<'f>> {
        path::check(path)?;
        let mut walk = Walk {
            fs,
            told,
            links: 0,
            dir: fs.root(),
            todo: Vec::new(),
            slash: path::ends_in_slash(path),
        };
        walk.add(path);
        Ok(walk)
    }

    /// Puts the components of a path before those that are still to be walked.
    fn add(&mut self, path: &[u8]) {
        let (grace, op) = self.told;
        grace.looks_up(op, path);
        let known = self.todo.len();
        self.todo
            .extend(path::components_reversed(path).map(<[u8]>::to_vec));
        rt::charge_each(host::COMPONENT, (self.todo.len() - known) as u64);
    }

    /// Walks to the directory of the last component, which is not looked up.
    pub(crate) fn parent(mut self) -> FsResult<Parent> {
        while self.todo.len() > 1 {
            self.step()?;
        }
        let last = match self.todo.pop() {
            None => Last::Root,
            Some(name) if name == b"." => Last::Dot,
            Some(name) if name == b".." => Last::DotDot,
            Some(name) => Last::Name(checked(name)?),
        };
        Ok(Parent {
            dir: self.dir,
            last,
            slash: self.slash,
        })
    }

    /// Walks to the end.
    pub(crate) fn resolve(mut self, follow: Follow) -> FsResult<Place> {
        loop {
            while self.todo.len() > 1 {
                self.step()?;
            }
            let Some(name) = self.todo.pop() else {
                return self.at_directory(Last::Root);
            };
            if name == b"." {
                return self.at_directory(Last::Dot);
            }
            if name == b".." {
                self.dir = self.fs.lookup(self.dir, b"..")?;
                return self.at_directory(Last::DotDot);
            }
            let name = checked(name)?;
            let attr = match self.fs.lookup(self.dir, &name) {
                Ok(ino) => Some(self.fs.getattr(ino)?),
                Err(FsError::Posix(Errno::NoEnt)) => None,
                Err(error) => return Err(error),
            };
            if let Some(link) = &attr
                && link.kind == FileKind::Symlink
                && (follow == Follow::Yes || self.slash)
            {
                self.follow(link.ino)?;
                continue;
            }
            if self.slash && attr.as_ref().is_some_and(|a| a.kind != FileKind::Dir) {
                return Err(Errno::NotDir.into());
            }
            let parent = Parent {
                dir: self.dir,
                last: Last::Name(name),
                slash: self.slash,
            };
            return Ok(Place { parent, attr });
        }
    }

    fn at_directory(self, last: Last) -> FsResult<Place> {
        let attr = Some(self.fs.getattr(self.dir)?);
        let parent = Parent {
            dir: self.dir,
            last,
            slash: self.slash,
        };
        Ok(Place { parent, attr })
    }

    /// Walks one component that is not the last.
    fn step(&mut self) -> FsResult<()> {
        let name = self.todo.pop().expect("step has a component to take");
        if name == b"." {
            return Ok(());
        }
        let ino = self.fs.lookup(self.dir, &checked(name)?)?;
        match self.fs.getattr(ino)?.kind {
            FileKind::Dir => self.dir = ino,
            FileKind::Symlink => self.follow(ino)?,
            _ => return Err(Errno::NotDir.into()),
        }
        Ok(())
    }

    /// Puts the target of a link before the components that are still to be walked.
    fn follow(&mut self, link: Ino) -> FsResult<()> {
        self.links += 1;
        if self.links > SYMLINKS_MAX {
            return Err(Errno::Loop.into());
        }
        let target = self.fs.readlink(link)?;
        path::check(&target)?;
        if target[0] == b'/' {
            self.dir = self.fs.root();
        }
        if self.todo.is_empty() {
            self.slash |= path::ends_in_slash(&target);
        }
        self.add(&target);
        Ok(())
    }
}

fn checked(name: Vec<u8>) -> FsResult<Vec<u8>> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Errno::NameTooLong.into());
    }
    Ok(name)
}
