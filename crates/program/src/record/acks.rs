//! Two files of the mount that take acknowledgements: no listing shows them, and they hold nothing.

use super::recorder::Tape;
use crate::call::Who;
use base::Ino;
use vfs::{Attr, FileFlags, FileKind};

/// Name of the file that takes acknowledgements, a line each.
pub const ACKS: &str = ".varve-acks";
/// Name of the file that is a program's standard output where each line of that is an
/// acknowledgement.
pub const STDOUT: &str = ".varve-stdout";

/// Numbers that no file system here gives to an inode.
const FIRST: u32 = u32::MAX - 1;

/// One of the two files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AckFile {
    Acks,
    Stdout,
}

impl AckFile {
    const ALL: [AckFile; 2] = [AckFile::Acks, AckFile::Stdout];

    fn name(self) -> &'static str {
        match self {
            AckFile::Acks => ACKS,
            AckFile::Stdout => STDOUT,
        }
    }

    pub fn named(name: &[u8]) -> Option<AckFile> {
        AckFile::ALL
            .into_iter()
            .find(|file| file.name().as_bytes() == name)
    }

    pub fn of(ino: Ino) -> Option<AckFile> {
        AckFile::ALL.into_iter().find(|file| file.ino() == ino)
    }

    pub fn ino(self) -> Ino {
        Ino(FIRST + self as u32)
    }
}

/// What has come to the files.
#[derive(Default)]
pub(super) struct Acks {
    streams: [Stream; 2],
}

#[derive(Default)]
struct Stream {
    /// Bytes that have come, which is where the next ones are appended.
    bytes: u64,
    /// A line whose end has not come.
    open: Vec<u8>,
    /// Who wrote last.
    who: Who,
}

impl Acks {
    pub fn attr(&self, file: AckFile) -> Attr {
        let then = rt::WallTime { secs: 0, nanos: 0 };
        Attr {
            ino: file.ino(),
            kind: FileKind::File,
            perm: 0o666,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: self.streams[file as usize].bytes,
            sectors: 0,
            atime: then,
            mtime: then,
            ctime: then,
            crtime: then,
            generation: 0,
            flags: FileFlags::default(),
        }
    }
}

impl Tape {
    /// Takes what is written to a file: each line that ends is an acknowledgement (record-R5).
    pub fn take_acks(&mut self, file: AckFile, data: &[u8]) {
        let who = self.caller();
        let stream = &mut self.acks.streams[file as usize];
        stream.bytes += data.len() as u64;
        stream.who = who.clone();
        let mut lines = Vec::new();
        for piece in data.split_inclusive(|&b| b == b'\n') {
            stream.open.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                lines.push(std::mem::take(&mut stream.open));
            }
        }
        self.hold_to_room(file);
        lines
            .iter()
            .for_each(|line| self.promise(who.clone(), line));
    }

    /// Gives up a line that is longer than the room (record-R4).
    fn hold_to_room(&mut self, file: AckFile) {
        let open = &mut self.acks.streams[file as usize].open;
        if open.len() > self.room_left {
            *open = Vec::new();
            self.over = true;
        }
    }

    /// A line that has no end is one nevertheless when the file is opened with `O_TRUNC`, as a
    /// shell's `>` does, and when the program has ended.
    pub fn end_acks(&mut self, file: AckFile) {
        let stream = &mut self.acks.streams[file as usize];
        let open = std::mem::take(&mut stream.open);
        let who = stream.who.clone();
        if !open.is_empty() {
            // It was written by an earlier call.
            self.without_stack();
            self.promise(who, &open);
        }
    }

    pub fn end_all_acks(&mut self) {
        AckFile::ALL
            .into_iter()
            .for_each(|file| self.end_acks(file));
    }
}
