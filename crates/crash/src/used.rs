//! A volume whose log was used before: the blocks in which fast commits will lie hold those of an
//! earlier life, as where `mke2fs -E lazy_journal_init=1` makes a volume anew. Nothing else of that
//! life is there.

use super::device::Remains;
use super::subject::FileScript;
use super::{CrashConfig, Cut, Script, Target, Volume, record};
use crate::CrashError;
use base::{BLOCK_BYTES, Ino};
use blockdev::Image;
use ondisk::ext4::{ExtentEntries, ExtentNode, GroupDesc, Inode, Superblock};
use rig::{Config, Scheme};

/// What that life did: its fast commit belongs to the transaction behind the first full one.
const LIFE: &str = "create first; sync; create ghost; fsync ghost";

/// The volume with what an earlier life of it has left in the area of fast commits.
///
/// # Errors
/// That life cannot be run.
pub(super) fn with_used_area(volume: &Volume, stack: &Config) -> Result<Volume, CrashError> {
    let Some(caps) = volume.caps() else {
        return Ok(volume.clone());
    };
    let mut stack = stack.clone();
    let fast = rig::Preset::FastCommit.scheme();
    stack.scheme = Scheme::Journal(fast);
    let life = FileScript::parse(LIFE)?.tasks().to_vec();
    let target = Target::Spec(caps.clone());
    let config = CrashConfig::new(stack, target, 3, Script::Fixed(life), usize::MAX);
    let recording = record(&config, volume)?;
    let area = recording.cuts.iter().rev().find_map(left_in_area);
    let area =
        area.ok_or_else(|| CrashError::Check("the life before made no fast commit".into()))?;
    let Remains::Image(mut image) = volume.start().clone() else {
        return Ok(volume.clone());
    };
    for (block, bytes) in area {
        image.set_block(block, bytes);
    }
    Ok(volume.beginning_with(image))
}

/// The blocks of the area in what a cut left; `None` if no fast commit is there.
fn left_in_area(cut: &Cut) -> Option<Vec<(u64, base::Bytes)>> {
    const TAG_HEAD: [u8; 2] = [9, 0];
    let Remains::Image(image) = &cut.remains else {
        return None;
    };
    let log = log_of(image)?;
    let first = image.block(*log.first()?);
    let sb = ondisk::jbd2::Superblock::parse(&first).ok()?;
    if sb.fast_commit_blocks() == 0 {
        return None;
    }
    let at = log.get(sb.fast_commit_first() as usize..sb.blocks_count() as usize)?;
    let area: Vec<_> = at.iter().map(|&n| (n, image.block(n))).collect();
    let begins = area.first().is_some_and(|(_, b)| b.starts_with(&TAG_HEAD));
    begins.then_some(area)
}

/// The blocks of the log, whose inode holds its extents itself.
fn log_of(image: &Image) -> Option<Vec<u64>> {
    let sb = Superblock::parse(&image.block(0)[1024..2048]).ok()?;
    let (block, offset) = sb.desc_place(0);
    let desc = image.block(block.0);
    let desc =
        GroupDesc::parse(desc.get(offset..)?.get(..sb.desc_bytes())?, sb.desc_bytes()).ok()?;
    let Ino(journal) = sb.journal_ino();
    let at = u64::from(journal - 1) * sb.inode_bytes() as u64;
    let table = image.block(desc.inode_table().0 + at / BLOCK_BYTES as u64);
    let at = (at % BLOCK_BYTES as u64) as usize;
    let inode = Inode::parse(table.get(at..at + sb.inode_bytes())?, sb.inode_bytes()).ok()?;
    let root = ExtentNode::parse(inode.block_area()).ok()?;
    let ExtentEntries::Leaf(extents) = root.entries else {
        return None;
    };
    let blocks = extents
        .iter()
        .flat_map(|e| e.physical.0..e.physical.0 + u64::from(e.len));
    Some(blocks.collect())
}
