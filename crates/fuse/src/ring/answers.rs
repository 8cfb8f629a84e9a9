//! Answers in the byte layout of the protocol, written to the payload of an entry.

use crate::convert::BLOCK_BYTES;
use crate::server::STATFS_NAME_BYTES;
use rt::WallTime;
use std::time::Duration;
use vfs::{Attr, FileKind, FsStat};

/// Bytes of what leads a name in the answer of READDIR.
const DIRENT_BYTES: usize = 24;

/// Writes an answer from the start of the payload on. What finds no room is left out, and the
/// answer is then too big (`ERANGE`).
pub(super) struct Writer<'a> {
    bytes: &'a mut [u8],
    len: usize,
    full: bool,
}

impl<'a> Writer<'a> {
    pub fn new(bytes: &'a mut [u8]) -> Writer<'a> {
        Writer {
            bytes,
            len: 0,
            full: false,
        }
    }

    pub fn put(&mut self, bytes: &[u8]) -> &mut Self {
        match self.bytes.get_mut(self.len..self.len + bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            None => self.full = true,
        }
        self
    }

    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_ne_bytes())
    }

    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.put(&value.to_ne_bytes())
    }

    /// The length of the answer.
    pub fn done(&self) -> Result<usize, i32> {
        match self.full {
            true => Err(libc::ERANGE),
            false => Ok(self.len),
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The attributes of the inode that the protocol calls `number` (88 bytes).
    fn attr(&mut self, number: u64, attr: &Attr) -> &mut Self {
        let times = [attr.atime, attr.mtime, attr.ctime];
        self.u64(number).u64(attr.size).u64(attr.sectors);
        for time in times {
            self.u64(seconds(time));
        }
        for time in times {
            self.u32(time.nanos);
        }
        let mode = kind_bits(attr.kind) | u32::from(attr.perm);
        for value in [
            mode,
            attr.nlink,
            attr.uid,
            attr.gid,
            attr.rdev,
            BLOCK_BYTES,
            0,
        ] {
            self.u32(value);
        }
        self
    }

    /// Answers with attributes, which the kernel may keep so long.
    pub fn attr_out(&mut self, number: u64, attr: &Attr, ttl: Duration) -> &mut Self {
        self.u64(ttl.as_secs()).u32(ttl.subsec_nanos()).u32(0);
        self.attr(number, attr)
    }

    /// Answers with a name's inode; name and attributes may be kept so long.
    pub fn entry_out(
        &mut self,
        number: u64,
        attr: &Attr,
        (name_ttl, attr_ttl): (Duration, Duration),
    ) -> &mut Self {
        self.u64(number).u64(attr.generation.into());
        self.ttls(name_ttl, attr_ttl).attr(number, attr)
    }

    /// A name without an inode, of which only number and kind are told (128 bytes).
    pub fn bare_entry(&mut self, number: u64, kind: FileKind, name_ttl: Duration) -> &mut Self {
        self.u64(0).u64(0).ttls(name_ttl, Duration::ZERO);
        self.u64(number);
        for _ in 0..5 {
            self.u64(0);
        }
        for value in [0, 0, 0, kind_bits(kind), 1, 0, 0, 0, BLOCK_BYTES, 0] {
            self.u32(value);
        }
        self
    }

    fn ttls(&mut self, name: Duration, attr: Duration) -> &mut Self {
        self.u64(name.as_secs()).u64(attr.as_secs());
        self.u32(name.subsec_nanos()).u32(attr.subsec_nanos())
    }

    /// Answers with an open file.
    pub fn open_out(&mut self, handle: u64, flags: u32) -> &mut Self {
        self.u64(handle).u32(flags).u32(0)
    }

    /// A name of a directory, padded.
    pub fn dirent(&mut self, ino: u64, next: u64, kind: FileKind, name: &[u8]) -> &mut Self {
        self.u64(ino).u64(next).u32(name.len() as u32);
        self.u32(kind_bits(kind) >> 12).put(name);
        let padding = dirent_bytes(name) - DIRENT_BYTES - name.len();
        self.put(&[0; 8][..padding])
    }

    /// Answers with space and inodes.
    pub fn statfs_out(&mut self, stat: &FsStat) -> &mut Self {
        self.u64(stat.blocks).u64(stat.blocks_free);
        self.u64(stat.blocks_available).u64(stat.inodes);
        self.u64(stat.inodes_free).u32(stat.block_bytes);
        self.u32(stat.name_bytes_max.min(STATFS_NAME_BYTES));
        self.u32(stat.block_bytes).put(&[0; 28])
    }
}

/// Bytes of a name in the answer of READDIR.
pub(super) fn dirent_bytes(name: &[u8]) -> usize {
    (DIRENT_BYTES + name.len()).next_multiple_of(8)
}

/// The protocol counts seconds before 1970 as a negative number does.
fn seconds(time: WallTime) -> u64 {
    time.secs as u64
}

fn kind_bits(kind: FileKind) -> u32 {
    match kind {
        FileKind::File => libc::S_IFREG,
        FileKind::Dir => libc::S_IFDIR,
        FileKind::Symlink => libc::S_IFLNK,
        FileKind::Char => libc::S_IFCHR,
        FileKind::Block => libc::S_IFBLK,
        FileKind::Fifo => libc::S_IFIFO,
        FileKind::Socket => libc::S_IFSOCK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_the_sizes_of_the_protocol() {
        let mut room = [0; 512];
        let ttl = Duration::from_secs(1);
        let len = |writer: &Writer| writer.done().expect("room");
        let bare = |room: &mut [u8]| len(Writer::new(room).bare_entry(5, FileKind::Dir, ttl));
        assert_eq!(bare(&mut room), 128);
        let stat = FsStat::default();
        assert_eq!(len(Writer::new(&mut room).statfs_out(&stat)), 80);
        assert_eq!(len(Writer::new(&mut room).open_out(1, 0)), 16);
        for name in [&b"a"[..], b"12345678", b"123456789"] {
            let mut writer = Writer::new(&mut room);
            writer.dirent(1, 2, FileKind::File, name);
            assert_eq!(len(&writer), dirent_bytes(name));
            assert_eq!(len(&writer) % 8, 0);
        }
    }

    #[test]
    fn an_answer_without_room_is_an_error() {
        let mut room = [0; 12];
        assert_eq!(
            Writer::new(&mut room).u64(1).u64(2).done(),
            Err(libc::ERANGE)
        );
    }
}
