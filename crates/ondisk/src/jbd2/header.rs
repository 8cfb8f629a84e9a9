//! The header of every control block.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0x00 | be32 | `h_magic` | 0xC03B3998 |
//! | 0x04 | be32 | `h_blocktype` | 1 descriptor, 2 commit, 3 superblock v1, 4 superblock v2, 5 revoke, 6 coalition (ours) |
//! | 0x08 | be32 | `h_sequence` | transaction number |

use crate::Corrupt;
use base::Tid;
use base::bytes::{get_be32, put_be32};

/// First word of every control block.
pub const MAGIC: u32 = 0xC03B_3998;
/// Bytes of a header.
pub const HEADER_BYTES: usize = 12;

const WHAT: &str = "journal block header";

/// What a control block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Lists the blocks that follow it in the log.
    Descriptor,
    /// Ends a transaction.
    Commit,
    /// Superblock without features.
    SuperblockV1,
    /// Superblock with features.
    SuperblockV2,
    /// Lists blocks that replay must skip.
    Revoke,
    /// Modified bytes of many blocks (our extension, see [`CoalitionPart`](super::CoalitionPart)).
    Coalition,
}

impl BlockKind {
    /// The number on disk.
    pub const fn code(self) -> u32 {
        match self {
            BlockKind::Descriptor => 1,
            BlockKind::Commit => 2,
            BlockKind::SuperblockV1 => 3,
            BlockKind::SuperblockV2 => 4,
            BlockKind::Revoke => 5,
            BlockKind::Coalition => 6,
        }
    }
    /// The kind with this number.
    pub const fn from_code(code: u32) -> Option<BlockKind> {
        Some(match code {
            1 => BlockKind::Descriptor,
            2 => BlockKind::Commit,
            3 => BlockKind::SuperblockV1,
            4 => BlockKind::SuperblockV2,
            5 => BlockKind::Revoke,
            6 => BlockKind::Coalition,
            _ => return None,
        })
    }
}

/// Kind and transaction number of a control block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the block is.
    pub kind: BlockKind,
    /// The transaction it belongs to.
    pub tid: Tid,
}

impl Header {
    /// Reads a header.
    ///
    /// # Errors
    /// Fewer than 12 bytes, another magic number, an unknown type. To recovery each of these means
    /// the end of the log.
    pub fn parse(buf: &[u8]) -> Result<Header, Corrupt> {
        let buf = Corrupt::need(WHAT, buf, HEADER_BYTES)?;
        let magic = get_be32(buf, 0);
        if magic != MAGIC {
            return Err(Corrupt::magic(WHAT, magic, MAGIC));
        }
        let tid = Tid(get_be32(buf, 8));
        let code = get_be32(buf, 4);
        let kind = BlockKind::from_code(code).ok_or_else(|| {
            Corrupt::field(WHAT, "h_blocktype", code.into(), "unknown block type").at_tid(tid)
        })?;
        Ok(Header { kind, tid })
    }

    /// Reads a header and demands its kind.
    pub(crate) fn expect(
        buf: &[u8],
        kind: BlockKind,
        what: &'static str,
    ) -> Result<Header, Corrupt> {
        let header = Header::parse(buf)?;
        if header.kind == kind {
            return Ok(header);
        }
        let code = header.kind.code().into();
        Err(
            Corrupt::field(what, "h_blocktype", code, "another block type was expected")
                .at_tid(header.tid),
        )
    }

    /// Writes the header to the first 12 bytes.
    pub fn encode(&self, buf: &mut [u8]) {
        put_be32(buf, 0, MAGIC);
        put_be32(buf, 4, self.kind.code());
        put_be32(buf, 8, self.tid.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_survive() {
        for code in 0..8 {
            let Some(kind) = BlockKind::from_code(code) else {
                continue;
            };
            assert_eq!(kind.code(), code);
            let h = Header {
                kind,
                tid: Tid(0xFFFF_FFFE),
            };
            let mut buf = [0; HEADER_BYTES];
            h.encode(&mut buf);
            assert_eq!(Header::parse(&buf), Ok(h));
        }
    }

    #[test]
    fn refuses_what_is_no_header() {
        assert!(Header::parse(&[0xC0, 0x3B]).is_err());
        assert!(Header::parse(&[0; 12]).is_err());
        let mut buf = [0; 12];
        Header {
            kind: BlockKind::Commit,
            tid: Tid(9),
        }
        .encode(&mut buf);
        buf[7] = 7;
        let e = Header::parse(&buf).expect_err("type 7 does not exist");
        assert_eq!(
            e.to_string(),
            "journal block header in transaction 9: h_blocktype = 7 (0x7): unknown block type"
        );
    }
}
