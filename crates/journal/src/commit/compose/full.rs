//! A transaction of full images: revoke blocks, then descriptors each followed by its images, then the commit record.

use super::{CommitTime, Composed, LogImage, commit_record, escaped};
use crate::transaction::Image;
use base::{BLOCK_BYTES, BlockNo, Bytes, Tid};
use block::Class;
use ondisk::jbd2::{DescriptorWriter, Format, Revoke, Tag};

/// A transaction of full images with its commit block.
pub(crate) fn full(
    format: &Format,
    (tid, time): (Tid, CommitTime),
    images: &[Image],
    revokes: &[BlockNo],
) -> Composed {
    let mut blocks = log_blocks(format, tid, images, revokes);
    let record = blocks.len();
    let commit = commit_record(format, tid, time);
    blocks.push((Class::JournalCommit, commit));
    Composed {
        blocks,
        record,
        record_bytes: 0,
    }
}

/// All log blocks of a transaction but its commit record, in log order.
fn log_blocks(format: &Format, tid: Tid, images: &[Image], revokes: &[BlockNo]) -> Vec<LogImage> {
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
            let (logged, escaped) = escaped(&image.bytes);
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
