//! Composes a transaction as a coalition: its revokes and the modified bytes of its blocks in one
//! log block or a few, then full images of the blocks for which a delta does not do, then a commit
//! block, unless the transaction commits itself by its checksums.

use super::delta::{Choice, choose, cumulative, cumulative_max, delta_max, whole};
use super::{CommitTime, Composed, commit_record, escaped};
use crate::CommitBlock;
use crate::track::{Basis, Logged};
use crate::transaction::Image;
use base::{BlockNo, Bytes, Tid};
use block::Class;
use ondisk::jbd2::{
    COALITION_HEADER_BYTES, CoalitionRecord, CoalitionWriter, Format, full_image_checksum,
    post_image_checksum,
};

/// How a coalition is written.
#[derive(Clone, Copy)]
pub(crate) struct Coalition<'a> {
    pub format: &'a Format,
    pub tid: Tid,
    pub time: CommitTime,
    /// Whether a commit block of its own ends it.
    pub commit_block: CommitBlock,
    /// No cumulative deltas: home may be garbage, so that only a full image supersedes (track-D2).
    pub full_first: bool,
}

/// The log blocks; notes in each image what was logged of it.
pub(crate) fn coalition(how: &Coalition, images: &mut [Image], revokes: &[BlockNo]) -> Composed {
    let choices = choices(how, images, revokes.len());
    let record_bytes = choices.iter().map(Choice::bytes).sum::<usize>() + 8 * revokes.len();
    let mut writer = CoalitionWriter::new(how.format, how.tid);
    if !revokes.is_empty() {
        let blocks = revokes.to_vec();
        writer.push(CoalitionRecord::Revoke { blocks });
    }
    let mut whole = Vec::new();
    for (image, choice) in images.iter_mut().zip(choices) {
        (image.logged, image.changed) = (choice.logged, choice.changed.clone());
        if choice.logged != Logged::Unchanged {
            writer.push(record(how, image, choice, &mut whole));
        }
    }
    let logged: Vec<Bytes> = whole.iter().map(|(_, bytes)| bytes.clone()).collect();
    rt::charge_each(base::cost::journal::COALITION_PART, writer.parts() as u64);
    let commit_block = how.commit_block.ends(writer.parts() + logged.len());
    let parts = writer.finish(how.time, !commit_block, &logged);
    let last = parts.len() - 1;
    let parts = parts.into_iter().map(|p| (Class::Coalition, p.into()));
    let mut blocks: Vec<_> = parts.chain(whole).collect();
    let record = match commit_block {
        false => last,
        true => {
            blocks.push((
                Class::JournalCommit,
                commit_record(how.format, how.tid, how.time),
            ));
            blocks.len() - 1
        }
    };
    Composed {
        blocks,
        record,
        commits_itself: !commit_block,
        record_bytes: record_bytes as u64,
        plain: Vec::new(),
    }
}

/// Adds the record of one block; a full image joins the other images.
fn record(
    how: &Coalition,
    image: &Image,
    choice: Choice,
    whole: &mut Vec<(Class, Bytes)>,
) -> CoalitionRecord {
    let block = image.block;
    rt::charge(base::cost::journal::COMMIT_PER_BLOCK);
    if choice.logged == Logged::Full {
        let (logged, escaped) = escaped(&image.bytes);
        let crc = full_image_checksum(how.format, how.tid, &logged);
        whole.push((image.kind.log_class(), logged));
        return CoalitionRecord::Full {
            block,
            escaped,
            crc,
        };
    }
    CoalitionRecord::Delta {
        block,
        cumulative: choice.logged == Logged::Cumulative,
        post_crc: post_image_checksum(how.format, &image.bytes),
        segments: choice.segments,
    }
}

/// What to log of each block: cumulative deltas as far as they cost no further log block.
fn choices(how: &Coalition, images: &[Image], revokes: usize) -> Vec<Choice> {
    let mut choices: Vec<Choice> = images.iter().map(|i| choose(i, basis(i))).collect();
    for (image, choice) in images.iter().zip(&mut choices) {
        if basis(image).pinned && choice.logged == Logged::Delta {
            *choice = unpinned(how, image, choice);
        }
    }
    if how.full_first {
        return choices;
    }
    let taken = 12 + 8 * revokes + choices.iter().map(Choice::bytes).sum::<usize>();
    let mut room = (how.format.block_bytes - COALITION_HEADER_BYTES).saturating_sub(taken);
    let mut order: Vec<usize> = (0..images.len())
        .filter(|&n| choices[n].logged == Logged::Delta && basis(&images[n]).rec.is_some())
        .collect();
    // Blocks that hold the tail back most come first.
    order.sort_by_key(|&n| {
        let rec = basis(&images[n]).rec.expect("filtered");
        rec.0.wrapping_sub(how.tid.0) as i32
    });
    for n in order {
        let wide = cumulative(&images[n], basis(&images[n]), &choices[n]);
        let more = wide.bytes().saturating_sub(choices[n].bytes());
        if wide.bytes() <= cumulative_max(&images[n].bytes) && more <= room {
            room -= more;
            choices[n] = wide;
        }
    }
    choices
}

/// Makes a record that lets the tail pass everything older of this block (track-R2).
fn unpinned(how: &Coalition, image: &Image, choice: &Choice) -> Choice {
    let wide = cumulative(image, basis(image), choice);
    if !how.full_first && wide.bytes() <= delta_max(&image.bytes) {
        wide
    } else {
        whole(choice)
    }
}

fn basis(image: &Image) -> &Basis {
    let basis = image.basis.as_ref();
    basis.expect("track-D4: blocks of a coalition journal are tracked")
}
