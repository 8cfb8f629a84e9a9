//! Writing of one fast commit: tags are packed into whole blocks, the last of which ends with the
//! tail.
//!
//! A tag is never cut by the end of a block: where the next one does not fit, a pad fills the block
//! up. So each block keeps room for the head of a pad behind every tag.

use super::{FastCommitName, FastCommitTag, TAG_BYTES, WRITTEN_MAX, kind};
use crate::ext4::Extent;
use base::checksum::crc32c;
use base::{Ino, Tid};

/// Bytes of the value of a head and of a tail.
const VALUE_BYTES: usize = 8;

/// Makes the blocks of one fast commit.
pub struct FastCommitWriter {
    block_bytes: usize,
    tid: Tid,
    /// Of everything since the last tail.
    crc: u32,
    /// Blocks that are full.
    done: Vec<Vec<u8>>,
    open: Vec<u8>,
}

impl FastCommitWriter {
    /// A fast commit of changes that transaction `tid` holds. `head`: it is the first behind the
    /// last full commit, with which an area begins.
    pub fn new(block_bytes: usize, tid: Tid, head: bool) -> FastCommitWriter {
        let mut writer = FastCommitWriter {
            block_bytes,
            tid,
            crc: 0,
            done: Vec::new(),
            open: Vec::new(),
        };
        if head {
            // Features: none are known to any system so far.
            let value = [0u32.to_le_bytes(), tid.0.to_le_bytes()].concat();
            writer.put(kind::HEAD, &value);
        }
        writer
    }

    /// The largest inode that is told whole: number and bytes, with the heads of its tag and of a
    /// pad, fit a block of so many bytes.
    pub const fn inode_bytes_max(block_bytes: usize) -> usize {
        block_bytes - 2 * TAG_BYTES - size_of::<u32>()
    }

    /// Appends one change.
    ///
    /// # Panics
    /// If the tag does not fit a block: an inode of more bytes than a block, or a name that no
    /// directory takes.
    pub fn push(&mut self, tag: &FastCommitTag) {
        let (kind, value) = encode(tag);
        self.put(kind, &value);
    }

    /// Blocks so far, the one with the tail included.
    pub fn blocks(&self) -> usize {
        self.done.len() + 1
    }

    /// The blocks, of which the last has the tail.
    pub fn finish(mut self) -> Vec<Vec<u8>> {
        self.reserve(TAG_BYTES + VALUE_BYTES);
        let rest = self.block_bytes - self.open.len() - TAG_BYTES;
        let start = self.open.len();
        self.open.extend(kind::TAIL.to_le_bytes());
        self.open.extend((rest as u16).to_le_bytes());
        self.open.extend(self.tid.0.to_le_bytes());
        let crc = crc32c(self.crc, &self.open[start..]);
        self.open.extend(crc.to_le_bytes());
        self.open.resize(self.block_bytes, 0);
        self.done.push(self.open);
        self.done
    }

    fn put(&mut self, kind: u16, value: &[u8]) {
        self.reserve(TAG_BYTES + value.len());
        let start = self.open.len();
        self.open.extend(kind.to_le_bytes());
        self.open.extend((value.len() as u16).to_le_bytes());
        self.open.extend(value);
        self.crc = crc32c(self.crc, &self.open[start..]);
    }

    /// Ensures that a tag of `bytes` fits the open block with the head of a pad behind it.
    fn reserve(&mut self, bytes: usize) {
        assert!(
            bytes + TAG_BYTES <= self.block_bytes,
            "a tag of {bytes} bytes fits no block of {}",
            self.block_bytes
        );
        let pad = self.block_bytes - TAG_BYTES - self.open.len();
        if bytes <= pad {
            return;
        }
        let start = self.open.len();
        self.open.extend(kind::PAD.to_le_bytes());
        self.open.extend((pad as u16).to_le_bytes());
        self.open.resize(self.block_bytes, 0);
        self.crc = crc32c(self.crc, &self.open[start..]);
        self.done.push(std::mem::take(&mut self.open));
    }
}

fn encode(tag: &FastCommitTag) -> (u16, Vec<u8>) {
    match tag {
        FastCommitTag::AddRange(ino, extent) => (kind::ADD_RANGE, add_range(*ino, extent)),
        FastCommitTag::DelRange(ino, first, len) => {
            let words = [ino.0, *first, *len].map(u32::to_le_bytes);
            (kind::DEL_RANGE, words.concat())
        }
        FastCommitTag::Create(name) => (kind::CREATE, named(name)),
        FastCommitTag::Link(name) => (kind::LINK, named(name)),
        FastCommitTag::Unlink(name) => (kind::UNLINK, named(name)),
        FastCommitTag::Inode(ino, fields) => {
            (kind::INODE, [&ino.0.to_le_bytes()[..], fields].concat())
        }
    }
}

fn named(name: &FastCommitName) -> Vec<u8> {
    let words = [name.parent.0, name.ino.0].map(u32::to_le_bytes);
    [&words.concat()[..], &name.name].concat()
}

fn add_range(ino: Ino, extent: &Extent) -> Vec<u8> {
    let len = match extent.unwritten {
        true => extent.len + u32::from(WRITTEN_MAX),
        false => extent.len,
    };
    let physical = extent.physical.0;
    let mut out = [ino.0, extent.logical].map(u32::to_le_bytes).concat();
    out.extend((len as u16).to_le_bytes());
    out.extend(((physical >> 32) as u16).to_le_bytes());
    out.extend((physical as u32).to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::super::FastCommits;
    use super::*;
    use base::BlockNo;
    use proptest::prelude::*;

    const BLOCK: usize = 1024;

    fn tag() -> impl Strategy<Value = FastCommitTag> {
        let ino = || (1u32..5000).prop_map(Ino);
        let name = || {
            (ino(), ino(), proptest::collection::vec(1u8.., 1..255))
                .prop_map(|(parent, ino, name)| FastCommitName { parent, ino, name })
        };
        let range = (
            ino(),
            any::<u32>(),
            1u32..32768,
            0u64..1 << 48,
            any::<bool>(),
        );
        prop_oneof![
            range.prop_map(|(ino, logical, len, at, unwritten)| {
                let physical = BlockNo(at);
                let len = if unwritten { len.min(32767) } else { len };
                FastCommitTag::AddRange(
                    ino,
                    Extent {
                        logical,
                        len,
                        physical,
                        unwritten,
                    },
                )
            }),
            (ino(), any::<u32>(), any::<u32>())
                .prop_map(|(ino, first, len)| FastCommitTag::DelRange(ino, first, len)),
            name().prop_map(FastCommitTag::Create),
            name().prop_map(FastCommitTag::Link),
            name().prop_map(FastCommitTag::Unlink),
            (ino(), proptest::collection::vec(any::<u8>(), 128..256))
                .prop_map(|(ino, fields)| FastCommitTag::Inode(ino, fields)),
        ]
    }

    fn area(commits: &[Vec<FastCommitTag>]) -> Vec<u8> {
        let blocks = commits.iter().enumerate().flat_map(|(n, tags)| {
            let mut writer = FastCommitWriter::new(BLOCK, Tid(7), n == 0);
            tags.iter().for_each(|tag| writer.push(tag));
            let count = writer.blocks();
            let blocks = writer.finish();
            // The tail may need a block of its own.
            assert!(blocks.len() == count || blocks.len() == count + 1);
            blocks
        });
        blocks.flatten().collect()
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            commits in proptest::collection::vec(proptest::collection::vec(tag(), 0..30), 1..5)
        ) {
            let area = area(&commits);
            prop_assert_eq!(area.len() % BLOCK, 0);
            let found = FastCommits::parse(&area, BLOCK, Tid(7)).expect("sound");
            prop_assert_eq!(found.commits as usize, commits.len());
            prop_assert_eq!(found.tags, commits.concat());
        }

        #[test]
        fn a_changed_byte_of_the_last_commit_ends_the_row_before_it(
            tags in proptest::collection::vec(tag(), 1..30), at in any::<prop::sample::Index>(), bit in 0u8..8
        ) {
            let whole = area(&[vec![FastCommitTag::DelRange(Ino(12), 0, 1)], tags]);
            let mut torn = whole.clone();
            // Bytes behind the checksum of the tail are not covered by it.
            let tail = {
                let last = whole.len() - BLOCK;
                let mut n = last;
                while whole[n] != 8 { n += TAG_BYTES + usize::from(u16::from_le_bytes([whole[n + 2], whole[n + 3]])); }
                n
            };
            let at = BLOCK + at.index(tail + TAG_BYTES + VALUE_BYTES - BLOCK);
            torn[at] ^= 1 << bit;
            let found = FastCommits::parse(&torn, BLOCK, Tid(7)).expect("sound");
            // The length of a tail is covered as well, as its head is part of the sum.
            prop_assert_eq!(found.commits, 1);
        }
    }
}
