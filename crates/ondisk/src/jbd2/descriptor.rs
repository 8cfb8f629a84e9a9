//! The descriptor block: the list of home addresses of the logged blocks that follow it.
//!
//! | offset | content |
//! |---|---|
//! | 0 | header, type 1 |
//! | 12 | first tag (layouts: [`Format`]), then a 16-byte UUID unless the tag says "same" |
//! | ... | further tags, the last one flagged |
//! | end - 4 | v2/v3: CRC32C of the block with these four bytes zero |

use super::header::HEADER_BYTES;
use super::{BlockKind, ChecksumMode, Format, Header};
use crate::Corrupt;
use base::bytes::{get_be16, get_be32, put_be16, put_be32};
use base::{BlockNo, Tid};

const WHAT: &str = "journal descriptor";
const UUID_BYTES: usize = 16;

const FLAG_ESCAPED: u32 = 1;
const FLAG_SAME_UUID: u32 = 2;
const FLAG_LAST: u32 = 8;
/// Ours: see [`Tag::zeros`].
const FLAG_ZEROS: u32 = 0x1000;

/// One logged block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Its home.
    pub block: BlockNo,
    /// The log image is escaped: its first four bytes are the magic number at home.
    pub escaped: bool,
    /// Only in logs with the feature [`REMAP_MOVE`](super::JournalIncompat::REMAP_MOVE): the image
    /// is all zeros. Any other log block there that reads as zeros has been moved home.
    pub zeros: bool,
    /// [`Format::tag_checksum`] of the log image.
    pub checksum: u32,
}

impl Tag {
    /// The tag of a log image (already escaped, if it needs to be).
    pub fn of(format: &Format, tid: Tid, block: BlockNo, logged: &[u8], escaped: bool) -> Tag {
        Tag {
            block,
            escaped,
            zeros: false,
            checksum: format.tag_checksum(tid, logged),
        }
    }

    /// Checks a block of the log against its tag.
    ///
    /// # Errors
    /// Its checksum is another one; the error names the home block and the transaction.
    pub fn verify(&self, format: &Format, tid: Tid, logged: &[u8]) -> Result<(), Corrupt> {
        // Without them the field is undefined: debugfs leaves something there.
        if !format.has_block_checksums() {
            return Ok(());
        }
        Corrupt::check(
            "logged block",
            self.checksum,
            format.tag_checksum(tid, logged),
        )
        .map_err(|e| e.at_block(self.block).at_tid(tid))
    }

    fn encode(&self, format: &Format, flags: u32, buf: &mut [u8]) {
        let (low, high) = (self.block.0 as u32, (self.block.0 >> 32) as u32);
        put_be32(buf, 0, low);
        if format.checksum == ChecksumMode::V3 {
            put_be32(buf, 4, flags);
            put_be32(buf, 8, if format.wide_blocks { high } else { 0 });
            put_be32(buf, 12, self.checksum);
            return;
        }
        put_be16(buf, 4, self.checksum as u16);
        put_be16(buf, 6, flags as u16);
        if format.wide_blocks {
            put_be32(buf, 8, high);
        }
    }

    fn decode(format: &Format, buf: &[u8]) -> (Tag, u32) {
        let v3 = format.checksum == ChecksumMode::V3;
        let (checksum, flags) = if v3 {
            (get_be32(buf, 12), get_be32(buf, 4))
        } else {
            (u32::from(get_be16(buf, 4)), u32::from(get_be16(buf, 6)))
        };
        let high = if format.wide_blocks {
            u64::from(get_be32(buf, 8)) << 32
        } else {
            0
        };
        let block = BlockNo(high | u64::from(get_be32(buf, 0)));
        (
            Tag {
                block,
                escaped: flags & FLAG_ESCAPED != 0,
                zeros: flags & FLAG_ZEROS != 0,
                checksum,
            },
            flags,
        )
    }
}

/// Fills one descriptor block.
#[derive(Debug)]
pub struct DescriptorWriter {
    format: Format,
    tid: Tid,
    tags: Vec<Tag>,
}

impl DescriptorWriter {
    /// An empty descriptor of transaction `tid`.
    pub fn new(format: Format, tid: Tid) -> DescriptorWriter {
        DescriptorWriter {
            format,
            tid,
            tags: Vec::new(),
        }
    }
    /// True if no further tag fits.
    pub fn is_full(&self) -> bool {
        self.tags.len() >= self.format.tags_per_descriptor()
    }
    /// Adds a tag.
    ///
    /// # Panics
    /// If the descriptor is full.
    pub fn push(&mut self, tag: Tag) {
        assert!(!self.is_full(), "no tag is pushed into a full descriptor");
        self.tags.push(tag);
    }
    /// Tags so far.
    pub fn tags(&self) -> &[Tag] {
        &self.tags
    }

    /// Writes the block: header, tags, a zero UUID after the first tag (as Linux leaves it), tail
    /// checksum.
    ///
    /// # Panics
    /// If `block` is not one block long, or if there is no tag (a descriptor without tags has no
    /// meaning).
    pub fn encode(&self, block: &mut [u8]) {
        assert_eq!(
            block.len(),
            self.format.block_bytes,
            "a descriptor is one block"
        );
        assert!(!self.tags.is_empty(), "a descriptor has at least one tag");
        block.fill(0);
        Header {
            kind: BlockKind::Descriptor,
            tid: self.tid,
        }
        .encode(block);
        let mut at = HEADER_BYTES;
        for (n, tag) in self.tags.iter().enumerate() {
            let mut flags = if tag.escaped { FLAG_ESCAPED } else { 0 };
            if tag.zeros {
                flags |= FLAG_ZEROS;
            }
            if n > 0 {
                flags |= FLAG_SAME_UUID;
            }
            if n + 1 == self.tags.len() {
                flags |= FLAG_LAST;
            }
            tag.encode(&self.format, flags, &mut block[at..]);
            at += self.format.tag_bytes() + if n == 0 { UUID_BYTES } else { 0 };
        }
        write_tail(&self.format, block);
    }
}

/// Reads the tags of one descriptor block, in log order.
#[derive(Debug)]
pub struct DescriptorReader<'a> {
    format: Format,
    block: &'a [u8],
    at: usize,
    done: bool,
}

impl<'a> DescriptorReader<'a> {
    /// Starts reading. The tail checksum is not looked at; see [`verify`](Self::verify).
    ///
    /// # Errors
    /// Too few bytes, or no descriptor header.
    pub fn parse(format: Format, block: &'a [u8]) -> Result<Self, Corrupt> {
        let block = Corrupt::need(WHAT, block, format.block_bytes)?;
        Header::expect(block, BlockKind::Descriptor, WHAT)?;
        Ok(DescriptorReader {
            format,
            block,
            at: HEADER_BYTES,
            done: false,
        })
    }

    /// Checks the tail checksum; formats without one pass.
    ///
    /// # Errors
    /// The stored checksum is another one.
    pub fn verify(&self) -> Result<(), Corrupt> {
        verify_tail(&self.format, self.block, WHAT)
    }
}

impl Iterator for DescriptorReader<'_> {
    type Item = Tag;
    /// The next tag. Ends at the flagged last tag or where no further tag fits, whichever comes
    /// first.
    fn next(&mut self) -> Option<Tag> {
        let end = self.at + self.format.tag_bytes();
        if self.done || end > self.format.block_bytes - self.format.tail_bytes() {
            return None;
        }
        let (tag, flags) = Tag::decode(&self.format, &self.block[self.at..end]);
        self.at = end
            + if flags & FLAG_SAME_UUID == 0 {
                UUID_BYTES
            } else {
                0
            };
        self.done = flags & FLAG_LAST != 0;
        Some(tag)
    }
}

/// Stores the checksum at the end of a descriptor or revoke block.
pub(super) fn write_tail(format: &Format, block: &mut [u8]) {
    if format.has_block_checksums() {
        let at = block.len() - 4;
        let crc = format.crc_without(block, at);
        put_be32(block, at, crc);
    }
}

/// Checks the checksum at the end of a descriptor or revoke block.
pub(super) fn verify_tail(
    format: &Format,
    block: &[u8],
    what: &'static str,
) -> Result<(), Corrupt> {
    if !format.has_block_checksums() {
        return Ok(());
    }
    let at = block.len() - 4;
    Corrupt::check(what, get_be32(block, at), format.crc_without(block, at))
        .map_err(|e| e.at_tid(Tid(get_be32(block, 8))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jbd2::{JournalCompat, JournalIncompat};
    use proptest::prelude::*;

    fn format(incompat: u32) -> Format {
        Format::new(
            1024,
            JournalCompat::NONE,
            JournalIncompat(incompat),
            &[7; 16],
        )
    }

    fn read(format: Format, block: &[u8]) -> Vec<Tag> {
        let reader = DescriptorReader::parse(format, block).expect("header");
        reader.verify().expect("tail");
        reader.collect()
    }

    #[test]
    fn full_descriptors_survive_in_every_layout() {
        for incompat in [0, 2, 8, 0xA, 0x10, 0x12] {
            let f = format(incompat);
            let mut w = DescriptorWriter::new(f, Tid(3));
            while !w.is_full() {
                let n = w.tags().len() as u64;
                let block = BlockNo(if f.wide_blocks { n << 30 } else { n << 20 });
                w.push(Tag::of(
                    &f,
                    Tid(3),
                    block,
                    &[n as u8; 64],
                    n.is_multiple_of(3),
                ));
            }
            let mut block = vec![0xEE; 1024];
            w.encode(&mut block);
            assert_eq!(read(f, &block), w.tags(), "layout {incompat:#x}");
        }
    }

    #[test]
    fn one_flipped_bit_is_noticed() {
        let f = format(0x12);
        let mut w = DescriptorWriter::new(f, Tid(3));
        w.push(Tag::of(&f, Tid(3), BlockNo(5), &[1; 1024], false));
        let mut block = vec![0; 1024];
        w.encode(&mut block);
        block[500] ^= 1;
        let e = DescriptorReader::parse(f, &block)
            .expect("header")
            .verify()
            .expect_err("damaged");
        assert!(e.is_checksum());
        let e = w.tags()[0]
            .verify(&f, Tid(4), &[1; 1024])
            .expect_err("another transaction");
        assert!(
            e.to_string()
                .starts_with("logged block at block 5 in transaction 4: checksum")
        );
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(
            mut block in proptest::collection::vec(any::<u8>(), 1024),
            incompat in 0u32..0x20,
        ) {
            Header { kind: BlockKind::Descriptor, tid: Tid(1) }.encode(&mut block);
            let reader = DescriptorReader::parse(format(incompat), &block).expect("header");
            let _ = reader.verify();
            prop_assert!(reader.count() <= 1024 / 8);
        }
    }
}
