//! Directory entries: a block of a directory is filled with them without gaps.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0x00 | le32 | `inode` | 0 = unused |
//! | 0x04 | le16 | `rec_len` | bytes to the next entry, multiple of 4 |
//! | 0x06 | u8 | `name_len` | |
//! | 0x07 | u8 | `file_type` | see [`FileType`]; part of `name_len` without feature `filetype` |
//! | 0x08 | | `name` | |
//!
//! With `metadata_csum` the last 12 bytes of a leaf look like an unused entry without name and of
//! type 0xDE; its name is the CRC32C of the bytes before it.

use super::InodeSeed;
use crate::Corrupt;
use base::Ino;
use base::bytes::{get_le16, get_le32, put_le16, put_le32};
use base::checksum::crc32c_change;

/// Longest name.
pub const NAME_BYTES_MAX: usize = 255;
/// Smallest entry: a name of one to four bytes.
pub const DIR_ENTRY_MIN_BYTES: usize = 12;
/// Where an entry holds its length.
pub const DIR_REC_LEN_AT: usize = 4;
/// Bytes of the checksum entry.
pub const DIR_TAIL_BYTES: usize = 12;

const WHAT: &str = "directory entry";
const LEAF: &str = "directory block";
const HEADER_BYTES: usize = 8;
const TAIL_TYPE: u8 = 0xDE;
/// `rec_len` of an entry that fills a 64 KiB block, which 16 bits cannot hold.
const REC_LEN_64K: u16 = 0xFFFF;

/// Type of a file as noted in its directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileType {
    /// Not noted.
    Unknown,
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Character device.
    CharDevice,
    /// Block device.
    BlockDevice,
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
    /// Symbolic link.
    Symlink,
    /// A number without a meaning.
    Invalid,
}

impl FileType {
    /// The number on disk.
    pub const fn code(self) -> u8 {
        self as u8
    }
    /// The type with this number; `Invalid` for numbers without a meaning.
    pub const fn from_code(code: u8) -> FileType {
        match code {
            1 => FileType::Regular,
            2 => FileType::Directory,
            3 => FileType::CharDevice,
            4 => FileType::BlockDevice,
            5 => FileType::Fifo,
            6 => FileType::Socket,
            7 => FileType::Symlink,
            0 => FileType::Unknown,
            _ => FileType::Invalid,
        }
    }
    /// The type that a mode means.
    pub const fn of_mode(mode: u16) -> FileType {
        match mode & super::MODE_TYPE_MASK {
            super::MODE_REGULAR => FileType::Regular,
            super::MODE_DIR => FileType::Directory,
            super::MODE_CHAR => FileType::CharDevice,
            super::MODE_BLOCK => FileType::BlockDevice,
            super::MODE_FIFO => FileType::Fifo,
            super::MODE_SOCKET => FileType::Socket,
            super::MODE_SYMLINK => FileType::Symlink,
            _ => FileType::Unknown,
        }
    }
}

/// An entry of a directory block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// Byte offset in the block.
    pub offset: usize,
    /// Bytes up to the next entry.
    pub rec_len: usize,
    /// The file; `None` if the entry is unused.
    pub ino: Option<Ino>,
    /// Type of the file.
    pub file_type: FileType,
    /// Its name. Any bytes: a damaged volume may hold '/' or zeros.
    pub name: &'a [u8],
}

impl DirEntry<'_> {
    /// Bytes this entry needs at least: none if it is unused.
    pub fn used_bytes(&self) -> usize {
        if self.ino.is_some() {
            dir_entry_bytes(self.name.len())
        } else {
            0
        }
    }
    /// Bytes behind this entry that a new one can take.
    pub fn free_bytes(&self) -> usize {
        self.rec_len - self.used_bytes()
    }
}

/// Bytes an entry with a name of this length needs.
pub const fn dir_entry_bytes(name_len: usize) -> usize {
    (HEADER_BYTES + name_len).next_multiple_of(4)
}

/// The fields of a directory entry before its name: what a search needs of the entries that it
/// passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirHead {
    /// Bytes up to the next entry.
    pub rec_len: usize,
    /// Bytes of the name.
    pub name_len: usize,
    ino: u32,
    type_code: u8,
}

impl DirHead {
    /// The head of the entry at byte `at`, which lies in `block`; `None` if it is damaged, as
    /// [`DirEntries`] tells.
    #[inline]
    pub fn read(block: &[u8], at: usize) -> Option<DirHead> {
        DirHead::parse(block, at).ok()
    }

    /// The error is a value and why it cannot be.
    #[inline]
    fn parse(block: &[u8], at: usize) -> Result<DirHead, (u64, &'static str)> {
        let left = block.len() - at;
        let Some(fields) = block[at..].first_chunk::<DIR_ENTRY_MIN_BYTES>() else {
            let reason = "the entry before leaves less than the smallest entry";
            return Err((left as u64, reason));
        };
        let raw = get_le16(fields, DIR_REC_LEN_AT);
        let rec_len = match raw {
            0 | REC_LEN_64K if block.len() == 65536 => 65536,
            n => usize::from(n),
        };
        let bad = |reason| Err((raw.into(), reason));
        if rec_len < DIR_ENTRY_MIN_BYTES || !rec_len.is_multiple_of(4) {
            return bad("must be a multiple of 4, at least 12");
        }
        if rec_len > left {
            return bad("passes the end of the block");
        }
        let name_len = usize::from(fields[6]);
        if dir_entry_bytes(name_len) > rec_len {
            return bad("too small for the name");
        }
        Ok(DirHead {
            rec_len,
            name_len,
            ino: get_le32(fields, 0),
            type_code: fields[7],
        })
    }

    /// The file; `None` if the entry is unused.
    pub fn ino(&self) -> Option<Ino> {
        (self.ino != 0).then_some(Ino(self.ino))
    }
    /// Type of the file.
    pub fn file_type(&self) -> FileType {
        FileType::from_code(self.type_code)
    }
    /// Bytes the entry needs at least: none if it is unused.
    pub fn used_bytes(&self) -> usize {
        match self.ino {
            0 => 0,
            _ => dir_entry_bytes(self.name_len),
        }
    }
}

/// The entries of a directory block, unused ones and the checksum entry included. Ends after the
/// first error.
#[derive(Clone, Debug)]
pub struct DirEntries<'a> {
    block: &'a [u8],
    at: usize,
}

impl<'a> DirEntries<'a> {
    /// Starts at the first entry of `block`.
    pub fn new(block: &'a [u8]) -> DirEntries<'a> {
        DirEntries { block, at: 0 }
    }

    fn read(&self) -> Result<DirEntry<'a>, Corrupt> {
        let damage = |(value, reason)| Corrupt::field(WHAT, "rec_len", value, reason);
        let head = DirHead::parse(self.block, self.at).map_err(damage)?;
        let name_at = self.at + HEADER_BYTES;
        Ok(DirEntry {
            offset: self.at,
            rec_len: head.rec_len,
            ino: head.ino(),
            file_type: head.file_type(),
            name: &self.block[name_at..name_at + head.name_len],
        })
    }
}

impl<'a> Iterator for DirEntries<'a> {
    type Item = Result<DirEntry<'a>, Corrupt>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.block.len() {
            return None;
        }
        let entry = self.read();
        self.at = entry
            .as_ref()
            .map_or(self.block.len(), |e| e.offset + e.rec_len);
        Some(entry)
    }
}

/// Writes an entry at byte `offset`; `ino` `None` makes it unused. Bytes behind the name stay as
/// they are.
///
/// # Panics
/// If the name does not fit `rec_len`, or the entry does not fit the block.
pub fn put_dir_entry(
    block: &mut [u8],
    offset: usize,
    rec_len: usize,
    ino: Option<Ino>,
    file_type: FileType,
    name: &[u8],
) {
    set_dir_rec_len(block, offset, rec_len);
    let entry = encode_dir_entry(rec_len, ino, file_type, name);
    block[offset..offset + entry.len()].copy_from_slice(&entry);
}

/// The bytes of an entry up to the end of its name, in no memory of their own.
pub struct EncodedDirEntry {
    bytes: [u8; HEADER_BYTES + NAME_BYTES_MAX],
    len: usize,
}

impl std::ops::Deref for EncodedDirEntry {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The bytes of an entry up to the end of its name; `ino` `None` makes it unused.
///
/// # Panics
/// If the name does not fit `rec_len`.
pub fn encode_dir_entry(
    rec_len: usize,
    ino: Option<Ino>,
    file_type: FileType,
    name: &[u8],
) -> EncodedDirEntry {
    assert!(name.len() <= NAME_BYTES_MAX, "a name has at most 255 bytes");
    assert!(
        dir_entry_bytes(name.len()) <= rec_len,
        "a name fits its entry"
    );
    let mut bytes = [0; HEADER_BYTES + NAME_BYTES_MAX];
    bytes[..4].copy_from_slice(&ino.map_or(0, |ino| ino.0).to_le_bytes());
    bytes[DIR_REC_LEN_AT..DIR_REC_LEN_AT + 2].copy_from_slice(&encode_dir_rec_len(rec_len));
    bytes[6] = name.len() as u8;
    bytes[7] = file_type.code();
    let len = HEADER_BYTES + name.len();
    bytes[HEADER_BYTES..len].copy_from_slice(name);
    EncodedDirEntry { bytes, len }
}

/// The two bytes of the length of an entry, which lie [`DIR_REC_LEN_AT`] bytes behind its start.
pub fn encode_dir_rec_len(rec_len: usize) -> [u8; 2] {
    u16::try_from(rec_len).unwrap_or(REC_LEN_64K).to_le_bytes()
}

/// Changes the length of the entry at byte `offset`.
///
/// # Panics
/// If the length is no multiple of 4 or the entry would pass the end of the block.
pub fn set_dir_rec_len(block: &mut [u8], offset: usize, rec_len: usize) {
    assert!(
        rec_len.is_multiple_of(4) && offset + rec_len <= block.len(),
        "entries tile the block"
    );
    let at = offset + DIR_REC_LEN_AT;
    block[at..at + 2].copy_from_slice(&encode_dir_rec_len(rec_len));
}

/// Writes the checksum entry at the end of a new leaf; [`update_dir_checksum`] fills in the
/// checksum.
///
/// # Panics
/// If the block is shorter than that entry.
pub fn put_dir_tail(block: &mut [u8]) {
    let at = block.len() - DIR_TAIL_BYTES;
    block[at..].fill(0);
    put_le16(block, at + 4, DIR_TAIL_BYTES as u16);
    block[at + 7] = TAIL_TYPE;
}

/// The offset of the checksum entry, if the block ends in one.
fn tail_at(block: &[u8]) -> Option<usize> {
    let at = block.len().checked_sub(DIR_TAIL_BYTES)?;
    let is_tail = get_le32(block, at) == 0
        && usize::from(get_le16(block, at + 4)) == DIR_TAIL_BYTES
        && block[at + 6] == 0
        && block[at + 7] == TAIL_TYPE;
    is_tail.then_some(at)
}

fn checked_tail_at(block: &[u8]) -> Result<usize, Corrupt> {
    let reason = "the block does not end in a checksum entry";
    tail_at(block).ok_or_else(|| Corrupt::field(LEAF, "det_reserved_ft", 0, reason))
}

/// Stores the checksum of a leaf.
///
/// # Panics
/// If the block does not end in a checksum entry.
pub fn update_dir_checksum(seed: InodeSeed, block: &mut [u8]) {
    let at = tail_at(block).expect("a leaf with checksum ends in its checksum entry");
    let crc = seed.crc_sparse(&block[..at]);
    put_le32(block, at + 8, crc);
}

/// Where a leaf whose checksum is right holds it, and what it will be once these pieces (offset and
/// bytes), which do not overlap, are written over the leaf.
///
/// # Errors
/// The block does not end in a checksum entry.
///
/// # Panics
/// If a piece reaches into the checksum entry.
pub fn dir_checksum_with(
    block: &[u8],
    pieces: &[(usize, &[u8])],
) -> Result<(usize, [u8; 4]), Corrupt> {
    let end = checked_tail_at(block)?;
    let mut crc = get_le32(block, end + 8);
    for (at, new) in pieces {
        let behind = at + new.len();
        crc ^= crc32c_change(&block[*at..behind], new, end - behind);
    }
    Ok((end + 8, crc.to_le_bytes()))
}

/// Checks the checksum of a leaf.
///
/// # Errors
/// There is none, or the stored one is another one.
pub fn verify_dir_checksum(seed: InodeSeed, block: &[u8]) -> Result<(), Corrupt> {
    let at = checked_tail_at(block)?;
    Corrupt::check(LEAF, get_le32(block, at + 8), seed.crc(&block[..at]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(block: &[u8]) -> Result<Vec<DirEntry<'_>>, Corrupt> {
        DirEntries::new(block).collect()
    }

    #[test]
    fn numbers_without_a_meaning_are_no_unnoted_type() {
        for code in 0..=7 {
            let kind = FileType::from_code(code);
            assert!(kind.code() == code && kind != FileType::Invalid);
        }
        for code in [8, 33, 255] {
            assert_eq!(FileType::from_code(code), FileType::Invalid);
        }
    }

    #[test]
    fn new_directory() {
        let mut block = vec![0; 1024];
        put_dir_entry(&mut block, 0, 12, Some(Ino(2)), FileType::Directory, b".");
        put_dir_entry(
            &mut block,
            12,
            1000,
            Some(Ino(2)),
            FileType::Directory,
            b"..",
        );
        put_dir_tail(&mut block);
        update_dir_checksum(InodeSeed(5), &mut block);
        verify_dir_checksum(InodeSeed(5), &block).expect("fits");
        assert!(verify_dir_checksum(InodeSeed(6), &block).is_err());
        assert!(verify_dir_checksum(InodeSeed(6), &[0; 40]).is_err());
        let entries = all(&block).expect("valid");
        let names: Vec<_> = entries
            .iter()
            .map(|e| (e.name, e.ino, e.free_bytes()))
            .collect();
        let root = Some(Ino(2));
        assert_eq!(
            names,
            [(&b"."[..], root, 0), (b"..", root, 988), (b"", None, 12)]
        );
    }

    #[test]
    fn damage_is_named() {
        let block_with = |rec_len, name_len| {
            let mut b = vec![0; 64];
            put_le16(&mut b, 4, rec_len);
            b[6] = name_len;
            all(&b).expect_err("refused").to_string()
        };
        assert!(block_with(0, 0).contains("multiple of 4"));
        assert!(block_with(30, 0).contains("multiple of 4"));
        assert!(block_with(68, 0).contains("passes the end"));
        assert!(block_with(12, 5).contains("too small"));
        assert!(block_with(56, 5).contains("leaves less"));
    }

    #[test]
    fn one_entry_fills_64_kib() {
        let mut block = vec![0; 65536];
        put_dir_entry(&mut block, 0, 65536, None, FileType::Unknown, b"");
        assert_eq!(all(&block).expect("valid")[0].rec_len, 65536);
    }

    #[test]
    fn the_checksum_of_pieces_is_that_of_the_whole() {
        let mut block = vec![3; 1024];
        put_dir_tail(&mut block);
        update_dir_checksum(InodeSeed(5), &mut block);
        let pieces: [(usize, &[u8]); 3] = [(0, &[9; 7]), (500, &[0; 300]), (1011, &[1])];
        let (at, crc) = dir_checksum_with(&block, &pieces).expect("a leaf");
        for (at, piece) in pieces {
            block[at..at + piece.len()].copy_from_slice(piece);
        }
        block[at..at + 4].copy_from_slice(&crc);
        verify_dir_checksum(InodeSeed(5), &block).expect("fits");
        block[1024 - DIR_TAIL_BYTES] = 1;
        assert!(dir_checksum_with(&block, &pieces).is_err(), "no checksum");
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(block in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = all(&block);
            let _ = verify_dir_checksum(InodeSeed(1), &block);
        }

        #[test]
        fn names_survive(names in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..256), 1..8)) {
            let mut block = vec![0xAA; 4096];
            let mut at = 0;
            for (n, name) in names.iter().enumerate() {
                let last = n + 1 == names.len();
                let len = if last { 4096 - at } else { dir_entry_bytes(name.len()) };
                put_dir_entry(&mut block, at, len, Some(Ino(n as u32 + 1)), FileType::Symlink, name);
                at += len;
            }
            let back: Vec<_> = all(&block).expect("valid").iter().map(|e| e.name.to_vec()).collect();
            prop_assert_eq!(back, names);
        }
    }
}
