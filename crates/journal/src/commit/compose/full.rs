//! Composes a transaction of full images: revoke blocks, then descriptors each followed by its
//! images, then the commit record.

use super::{CommitTime, Composed, LogImage, commit_record, escaped};
use crate::transaction::Image;
use base::fill::uniform;
use base::{BlockNo, Bytes, Mutant, Tid};
use block::Class;
use ondisk::jbd2::{DescriptorWriter, Format, Revoke, Tag};

/// A transaction of full images with its commit block. `moved`: its log blocks may be moved home,
/// so images of zeros are told from what reads as zeros since then (home_remap-X7).
pub(crate) fn full(
    format: &Format,
    (tid, time): (Tid, CommitTime),
    images: &[Image],
    revokes: &[BlockNo],
    moved: bool,
) -> Composed {
    let (mut blocks, plain) = log_blocks(format, tid, images, revokes, moved);
    let record = blocks.len();
    let commit = commit_record(format, tid, time);
    blocks.push((Class::JournalCommit, commit));
    Composed {
        blocks,
        record,
        commits_itself: false,
        record_bytes: 0,
        plain,
    }
}

/// All log blocks of a transaction but its commit record, in log order; and where its plain images
/// are.
fn log_blocks(
    format: &Format,
    tid: Tid,
    images: &[Image],
    revokes: &[BlockNo],
    moved: bool,
) -> (Vec<LogImage>, Vec<Option<u32>>) {
    let mut out = Vec::new();
    let mut plain = Vec::with_capacity(images.len());
    for records in revokes.chunks(format.revokes_per_block()) {
        let mut block = vec![0; format.block_bytes];
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
            let mut tag = Tag::of(format, tid, image.block, &logged, escaped);
            // home_remap-X7, hazards-R1.
            tag.zeros = moved
                && !escaped
                && uniform(&logged) == Some(0)
                && !rt::mutant(Mutant::RemapZerosUnmarked);
            // hazards-H10 has its way of making copies; hazards-R9: what is not the image must not
            // become home.
            let same = !escaped || rt::mutant(Mutant::RemapEscaped);
            plain.push((same && !tag.zeros).then_some(out.len() as u32));
            descriptor.push(tag);
            out.push((image.kind.log_class(), logged));
            rt::charge(base::cost::journal::COMMIT_PER_BLOCK);
        }
        let mut block = vec![0; format.block_bytes];
        descriptor.encode(&mut block);
        out[at].1 = block.into();
    }
    (out, plain)
}
