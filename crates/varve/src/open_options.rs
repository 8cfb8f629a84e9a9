//! How a file is opened, as `std::fs::OpenOptions` has it.

use crate::{File, Result, Volume};
use std::path::Path;
use vfs::OpenFlags;

/// Permission bits of a file that is made.
const FILE_PERM: u16 = 0o644;

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    sync: bool,
    mode: u16,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions::new()
    }
}

impl OpenOptions {
    /// Nothing is chosen.
    pub fn new() -> OpenOptions {
        OpenOptions {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            sync: false,
            mode: FILE_PERM,
        }
    }
    /// To read.
    pub fn read(&mut self, yes: bool) -> &mut OpenOptions {
        self.read = yes;
        self
    }
    /// To write.
    pub fn write(&mut self, yes: bool) -> &mut OpenOptions {
        self.write = yes;
        self
    }
    /// To write, always at the end of the file.
    pub fn append(&mut self, yes: bool) -> &mut OpenOptions {
        self.append = yes;
        self
    }
    /// Cuts the file to size 0.
    pub fn truncate(&mut self, yes: bool) -> &mut OpenOptions {
        self.truncate = yes;
        self
    }
    /// Makes the file if there is none.
    pub fn create(&mut self, yes: bool) -> &mut OpenOptions {
        self.create = yes;
        self
    }
    /// Makes the file; it is an error if the name exists.
    pub fn create_new(&mut self, yes: bool) -> &mut OpenOptions {
        self.create_new = yes;
        self
    }
    /// Every write is durable when it returns (`O_SYNC`).
    pub fn sync(&mut self, yes: bool) -> &mut OpenOptions {
        self.sync = yes;
        self
    }
    /// Permission bits of a file that is made; 0o644 by default.
    pub fn mode(&mut self, mode: u16) -> &mut OpenOptions {
        self.mode = mode;
        self
    }

    /// Opens the file at `path` of `volume`.
    ///
    /// # Errors
    /// Those of `open(2)`, such as no such file or directory.
    pub fn open(&self, volume: &Volume, path: impl AsRef<Path>) -> Result<File> {
        volume.open_flags(path.as_ref(), self.flags(), self.mode)
    }

    fn flags(&self) -> OpenFlags {
        let new = OpenFlags::CREATE | OpenFlags::EXCL;
        let chosen = [
            (self.read, OpenFlags::READ),
            (self.write || self.append, OpenFlags::WRITE),
            (self.append, OpenFlags::APPEND),
            (self.truncate, OpenFlags::TRUNC),
            (self.create, OpenFlags::CREATE),
            (self.create_new, new),
            (self.sync, OpenFlags::SYNC),
        ];
        let chosen = chosen.into_iter().filter(|(yes, _)| *yes);
        chosen.fold(OpenFlags::NONE, |all, (_, flag)| all | flag)
    }
}
