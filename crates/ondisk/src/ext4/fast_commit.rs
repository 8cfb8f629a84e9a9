//! Fast commits: changes that ext4 of Linux appends to a log between two full commits, in an area
//! of its own after the ring.
//!
//! A fast commit is a sequence of tags, each {le16 kind, le16 length, value}; it ends with a tail
//! that carries the number of the transaction and a CRC32C over all tags since the previous tail.
//! Tags do not cross blocks; a pad fills a block up. The area counts only if it begins with a head
//! that names the transaction after the last full commit.
//!
//! Source: kernel documentation `filesystems/ext4/journal.rst`, "Fast commits"; checked against
//! areas written by Linux 6.

mod writer;

pub use writer::FastCommitWriter;

use super::Extent;
use crate::Corrupt;
use base::bytes::{get_le16, get_le32};
use base::checksum::crc32c;
use base::{BlockNo, Ino, Tid};

const WHAT: &str = "fast commit";
const TAG_BYTES: usize = 4;
/// Kinds of tags.
mod kind {
    pub const ADD_RANGE: u16 = 1;
    pub const DEL_RANGE: u16 = 2;
    pub const CREATE: u16 = 3;
    pub const LINK: u16 = 4;
    pub const UNLINK: u16 = 5;
    pub const INODE: u16 = 6;
    pub const PAD: u16 = 7;
    pub const TAIL: u16 = 8;
    pub const HEAD: u16 = 9;
}
/// `ee_len` above this says that the blocks are unwritten.
const WRITTEN_MAX: u16 = 0x8000;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FastCommitTag {
    /// These blocks of a file are mapped so.
    AddRange(Ino, Extent),
    /// So many blocks of a file, from a logical one on, are not mapped.
    DelRange(Ino, u32, u32),
    /// A new inode, and its name.
    Create(FastCommitName),
    /// One more name of an inode.
    Link(FastCommitName),
    /// One name less.
    Unlink(FastCommitName),
    /// The fields of an inode; its map of blocks does not count.
    Inode(Ino, Vec<u8>),
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FastCommitName {
    /// The directory.
    pub parent: Ino,
    /// What the name stands for.
    pub ino: Ino,
    /// The name.
    pub name: Vec<u8>,
}

/// What of an area is complete: everything up to the last tail that is right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FastCommits {
    /// The changes, in order.
    pub tags: Vec<FastCommitTag>,
    /// Fast commits.
    pub commits: u32,
    /// How many of the tags each fast commit ends behind.
    pub ends: Vec<usize>,
    /// Whole blocks that they take.
    pub blocks: usize,
}

impl FastCommits {
    /// Reads an area, whole blocks in order, that follows the full commits before transaction
    /// `tid`.
    ///
    /// # Errors
    /// A head with unknown features, or a complete fast commit with a tag that makes no sense. A
    /// torn end is none.
    pub fn parse(area: &[u8], block_bytes: usize, tid: Tid) -> Result<FastCommits, Corrupt> {
        let mut scan = Scan {
            tid,
            crc: 0,
            begun: false,
            open: Vec::new(),
            done: FastCommits::default(),
        };
        for (n, block) in area.chunks_exact(block_bytes).enumerate() {
            let mut at = 0;
            let before = scan.done.commits;
            while at + TAG_BYTES <= block.len() {
                let len = usize::from(get_le16(block, at + 2));
                let Some(tag) = block.get(at..at + TAG_BYTES + len) else {
                    return Ok(scan.done);
                };
                if !scan.step(get_le16(block, at), tag)? {
                    return Ok(scan.done);
                }
                at += tag.len();
                if scan.done.commits > before {
                    scan.done.blocks = n + 1;
                }
            }
        }
        Ok(scan.done)
    }
}

struct Scan {
    tid: Tid,
    crc: u32,
    begun: bool,
    /// Tags since the last tail; what is wrong with one counts when the tail says that it was
    /// written so.
    open: Vec<Result<FastCommitTag, Corrupt>>,
    done: FastCommits,
}

impl Scan {
    /// Takes one tag with its head; false at the end of what counts.
    fn step(&mut self, kind: u16, tag: &[u8]) -> Result<bool, Corrupt> {
        let value = &tag[TAG_BYTES..];
        if !self.begun && kind != kind::HEAD {
            return Ok(false);
        }
        match kind {
            kind::HEAD if value.len() >= 8 => {
                if Tid(get_le32(value, 4)) != self.tid {
                    return Ok(false);
                }
                let features = get_le32(value, 0);
                if features != 0 {
                    let reason = "features of a fast commit that are not known";
                    return Err(Corrupt::field(WHAT, "fc_features", features.into(), reason));
                }
                self.begun = true;
            }
            kind::TAIL if value.len() >= 8 => {
                self.crc = crc32c(self.crc, &tag[..TAG_BYTES + 4]);
                if Tid(get_le32(value, 0)) != self.tid || get_le32(value, 4) != self.crc {
                    return Ok(false);
                }
                for tag in self.open.drain(..) {
                    self.done.tags.push(tag?);
                }
                self.done.commits += 1;
                self.done.ends.push(self.done.tags.len());
                self.crc = 0;
                return Ok(true);
            }
            kind::PAD => {}
            kind::ADD_RANGE..=kind::INODE => self.open.push(parse_tag(kind, value)),
            _ => return Ok(false),
        }
        self.crc = crc32c(self.crc, tag);
        Ok(true)
    }
}

fn parse_tag(kind: u16, value: &[u8]) -> Result<FastCommitTag, Corrupt> {
    let least = [0, 16, 12, 9, 9, 9, 4 + 128][usize::from(kind)];
    Corrupt::need(WHAT, value, least)?;
    let ino = Ino(get_le32(value, 0));
    let name = || FastCommitName {
        parent: ino,
        ino: Ino(get_le32(value, 4)),
        name: value[8..].to_vec(),
    };
    Ok(match kind {
        kind::ADD_RANGE => FastCommitTag::AddRange(ino, parse_extent(&value[4..])?),
        kind::DEL_RANGE => FastCommitTag::DelRange(ino, get_le32(value, 4), get_le32(value, 8)),
        kind::CREATE => FastCommitTag::Create(name()),
        kind::LINK => FastCommitTag::Link(name()),
        kind::UNLINK => FastCommitTag::Unlink(name()),
        _ => FastCommitTag::Inode(ino, value[4..].to_vec()),
    })
}

fn parse_extent(raw: &[u8]) -> Result<Extent, Corrupt> {
    let stored = get_le16(raw, 4);
    let unwritten = stored > WRITTEN_MAX;
    let len = u32::from(if unwritten {
        stored - WRITTEN_MAX
    } else {
        stored
    });
    if len == 0 {
        return Err(Corrupt::field(WHAT, "ee_len", 0, "an extent has blocks"));
    }
    Ok(Extent {
        logical: get_le32(raw, 0),
        len,
        physical: BlockNo(u64::from(get_le16(raw, 6)) << 32 | u64::from(get_le32(raw, 8))),
        unwritten,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tag(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut out = kind.to_le_bytes().to_vec();
        out.extend((value.len() as u16).to_le_bytes());
        out.extend(value);
        out
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    /// Head, a link, a tail; then a second fast commit whose tail is torn.
    fn area() -> Vec<u8> {
        let mut link = words(&[2, 12]);
        link.extend(b"name");
        let mut out = tag(9, &words(&[0, 7]));
        out.extend(tag(4, &link));
        let crc = |out: &[u8]| {
            let head = [8, 0, 8, 0, 7, 0, 0, 0];
            crc32c(crc32c(0, out), &head)
        };
        let value = crc(&out);
        out.extend(tag(8, &words(&[7, value])));
        out.extend(tag(2, &words(&[12, 3, 4])));
        out.extend(tag(8, &words(&[7, value])));
        out.resize(1024, 0);
        out
    }

    #[test]
    fn what_counts_ends_with_the_last_good_tail() {
        let found = FastCommits::parse(&area(), 1024, Tid(7)).expect("sound");
        let name = FastCommitName {
            parent: Ino(2),
            ino: Ino(12),
            name: b"name".to_vec(),
        };
        assert_eq!(
            (found.commits, &found.tags[..]),
            (1, &[FastCommitTag::Link(name)][..])
        );
        let other = FastCommits::parse(&area(), 1024, Tid(8)).expect("of an older time");
        assert_eq!(other, FastCommits::default());
    }

    #[test]
    fn unknown_features_are_refused() {
        let mut bytes = area();
        bytes[4] = 1;
        let why = FastCommits::parse(&bytes, 1024, Tid(7)).expect_err("refused");
        assert!(why.to_string().contains("fc_features"), "{why}");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut bytes in proptest::collection::vec(any::<u8>(), 64..2048), begin in any::<bool>()) {
            if begin {
                bytes.splice(..12, tag(9, &words(&[0, 7])));
            }
            let _ = FastCommits::parse(&bytes, 64, Tid(7));
        }
    }
}
