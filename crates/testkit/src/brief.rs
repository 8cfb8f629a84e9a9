//! Short names for the calls of a file system that tests make all the time. Every file system has
//! them ([`Brief`]). Files are made by the super-user, whose umask is 0. The calls that make
//! something in a given directory, and [`Brief::resize`], answer errors; the others panic, because
//! a test goes on only if they work.

use base::Ino;
use fscore::{Creds, Errno, FileKind, FileSystem, FsResult, SetAttr};

/// The super-user, whose umask takes nothing away.
pub const ROOT: Creds = Creds {
    uid: 0,
    gid: 0,
    umask: 0,
};

/// The moment at which tests make their volumes.
pub const MADE: rt::WallTime = rt::WallTime {
    secs: 1_700_000_000,
    nanos: 0,
};

/// Short words for calls of a file system.
pub trait Brief: FileSystem {
    /// Makes a file with the permissions 0644.
    ///
    /// # Errors
    /// Those of `create`.
    fn make(&self, dir: Ino, name: impl AsRef<[u8]>) -> FsResult<Ino> {
        let made = self.create(dir, name.as_ref(), FileKind::File, 0o644, 0, ROOT);
        made.map(|attr| attr.ino)
    }

    /// Makes a directory with the permissions 0755.
    ///
    /// # Errors
    /// Those of `mkdir`.
    fn make_dir(&self, dir: Ino, name: impl AsRef<[u8]>) -> FsResult<Ino> {
        let made = self.mkdir(dir, name.as_ref(), 0o755, ROOT);
        made.map(|attr| attr.ino)
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// Those of `symlink`.
    fn make_link(&self, dir: Ino, name: impl AsRef<[u8]>, target: &[u8]) -> FsResult<Ino> {
        let made = self.symlink(dir, name.as_ref(), target, ROOT);
        made.map(|attr| attr.ino)
    }

    /// Makes a file in the root.
    ///
    /// # Panics
    /// If it cannot.
    fn file(&self, name: impl AsRef<[u8]>) -> Ino {
        self.make(self.root(), name).expect("room for a file")
    }

    /// Makes a directory in the root.
    ///
    /// # Panics
    /// If it cannot.
    fn dir(&self, name: impl AsRef<[u8]>) -> Ino {
        self.make_dir(self.root(), name)
            .expect("room for a directory")
    }

    /// The inode of a name in the root.
    ///
    /// # Panics
    /// If there is none.
    fn find(&self, name: impl AsRef<[u8]>) -> Ino {
        let (root, name) = (self.root(), name.as_ref());
        let found = self.lookup(root, name);
        found.unwrap_or_else(|e| panic!("`{}`: {e}", name.escape_ascii()))
    }

    /// Sets the size of a file.
    ///
    /// # Errors
    /// Those of `setattr`.
    fn resize(&self, ino: Ino, size: u64) -> FsResult<()> {
        let set = SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        self.setattr(ino, &set).map(drop)
    }

    /// All that a file holds.
    ///
    /// # Panics
    /// If it cannot be read, or ends before its size.
    fn content(&self, ino: Ino) -> Vec<u8> {
        let size = self.getattr(ino).expect("getattr").size;
        let mut bytes = vec![0; size as usize];
        let n = self.read(ino, 0, &mut bytes).expect("read");
        assert_eq!(n as u64, size);
        bytes
    }
}

impl<F: FileSystem + ?Sized> Brief for F {}

/// The error of a call that must fail.
///
/// # Panics
/// If it does not.
#[track_caller]
pub fn errno<T: std::fmt::Debug>(result: FsResult<T>) -> Errno {
    result.expect_err("refused").errno()
}

/// Bytes that depend on a seed and their place.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    base::Rng::named(seed, "pattern").fill(&mut bytes);
    bytes
}
