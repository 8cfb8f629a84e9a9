//! The bytes of a transaction: revoke blocks, then descriptors each followed by its images. No I/O.

use crate::transaction::Image;
use base::{BLOCK_BYTES, BlockNo, Bytes, Tid};
use block::Class;
use ondisk::jbd2::{Commit, DescriptorWriter, Format, Revoke, Tag, escape, needs_escape};

/// One log block and how it is counted.
pub(crate) type LogImage = (Class, Bytes);

/// The log blocks of one transaction, in log order.
pub(crate) struct Composed {
    pub blocks: Vec<LogImage>,
    /// Number of the block without which recovery does not recognise the transaction.
    pub record: usize,
}

/// A transaction of full images with its commit block.
pub(crate) fn full(
    format: &Format,
    tid: Tid,
    images: &[Image],
    revokes: &[BlockNo],
    escaping: bool,
) -> Composed {
    let mut blocks = log_blocks(format, tid, images, revokes, escaping);
    let record = blocks.len();
    let commit = commit_record(format, tid, rt::wall());
    blocks.push((Class::JournalCommit, commit));
    Composed { blocks, record }
}

/// All log blocks of a transaction but its commit record, in log order.
fn log_blocks(
    format: &Format,
    tid: Tid,
    images: &[Image],
    revokes: &[BlockNo],
    escaping: bool,
) -> Vec<LogImage> {
    let mut out = Vec::new();
    for records in revokes.chunks(format.revokes_per_block()) {
        let mut block = vec![0; BLOCK_BYTES];
        Revoke {
            tid,
            blocks: records.to_vec(),
        }
        .encode(format, &mut block);
        out.push((Class::JournalRevoke, block.into()));
    }
    for described in images.chunks(format.tags_per_descriptor()) {
        let mut descriptor = DescriptorWriter::new(*format, tid);
        let at = out.len();
        out.push((Class::JournalDescriptor, Bytes::new()));
        for image in described {
            let escaped = escaping && needs_escape(&image.bytes);
            let logged = if escaped {
                escaped_copy(&image.bytes)
            } else {
                image.bytes.clone()
            };
            descriptor.push(Tag::of(format, tid, image.block, &logged, escaped));
            out.push((image.kind.log_class(), logged));
            rt::charge(crate::cost::COMMIT_PER_BLOCK);
        }
        let mut block = vec![0; BLOCK_BYTES];
        descriptor.encode(&mut block);
        out[at].1 = block.into();
    }
    out
}

fn escaped_copy(image: &Bytes) -> Bytes {
    let mut copy = image.to_vec();
    escape(&mut copy);
    debug_assert_eq!(copy.len(), BLOCK_BYTES);
    copy.into()
}

/// The commit record.
fn commit_record(format: &Format, tid: Tid, now: rt::WallTime) -> Bytes {
    let mut block = vec![0; BLOCK_BYTES];
    let secs = u64::try_from(now.secs).unwrap_or(0);
    Commit {
        tid,
        secs,
        nanos: now.nanos,
        transaction_crc: None,
    }
    .encode(format, &mut block);
    block.into()
}
