//! What the complete transactions of a log say about each block, in a form that does not grow
//! beyond the log that it was read from.

use crate::LogBlock;
use base::bytes::{get_be16, put_be16};
use base::{BlockNo, Tid};
use ondisk::jbd2::{Segment, Tag};

/// One complete transaction.
pub(crate) struct Logged {
    pub tid: Tid,
    /// What it says of blocks, in log order.
    pub writes: Vec<(BlockNo, Content)>,
    pub revokes: Vec<BlockNo>,
}

impl Logged {
    pub fn new(tid: Tid) -> Logged {
        Logged {
            tid,
            writes: Vec::new(),
            revokes: Vec::new(),
        }
    }
}

/// What a record says of a block: its whole content, or a part of it.
#[derive(Clone)]
pub(crate) enum Content {
    /// The image in a log block, with its tag.
    Tagged { at: LogBlock, tag: Tag },
    /// The image in a log block, of a coalition transaction.
    Full {
        at: LogBlock,
        escaped: bool,
        crc: u32,
    },
    /// Modified bytes, and the checksum of the block after the transaction.
    Delta { post_crc: u32, patch: Patch },
}

/// Modified bytes of a block: runs of be16 offset, be16 length, bytes.
#[derive(Clone)]
pub(crate) struct Patch(Box<[u8]>);

impl Patch {
    /// The patch of these segments, which all lie inside a block.
    pub fn new(segments: &[Segment]) -> Patch {
        let bytes: usize = segments.iter().map(|s| 4 + s.bytes.len()).sum();
        let mut out = Vec::with_capacity(bytes);
        for s in segments {
            let mut head = [0; 4];
            put_be16(&mut head, 0, s.offset);
            put_be16(&mut head, 2, s.bytes.len() as u16);
            out.extend_from_slice(&head);
            out.extend_from_slice(&s.bytes);
        }
        Patch(out.into())
    }

    /// Writes the bytes where they belong.
    pub fn apply(&self, block: &mut [u8]) {
        let mut rest = &self.0[..];
        while !rest.is_empty() {
            let (offset, length) = (
                usize::from(get_be16(rest, 0)),
                usize::from(get_be16(rest, 2)),
            );
            block[offset..offset + length].copy_from_slice(&rest[4..4 + length]);
            rest = &rest[4 + length..];
        }
    }
}
