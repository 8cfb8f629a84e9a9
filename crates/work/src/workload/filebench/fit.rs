//! Whether a model fits a volume: asked before files are made, because a full volume would end the
//! run in its middle. This is an estimate: random sizes count by their mean, and appends only where
//! the number of operations is known.

use super::amount::Amount;
use super::model::{Fileset, Model, OPS_MAX, Op, Step};
use crate::RunError;
use vfs::Vfs;

const BLOCK: u64 = base::BLOCK_BYTES as u64;
/// Percent of what is needed that has to stay free: cleaning and journals need room.
const RESERVE: u64 = 10;

/// Refuses a model that does not fit.
///
/// # Errors
/// It does not fit; the error says what it needs and what there is.
pub fn check(model: &Model, most: u64, vfs: &Vfs) -> Result<(), RunError> {
    let stat = vfs.statfs()?;
    let free = stat
        .blocks_available
        .saturating_mul(stat.block_bytes.into());
    let need = needed(model, most);
    let files: u64 = model
        .filesets
        .iter()
        .map(|set| set.entries + set.leafdirs)
        .sum();
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    if need > free {
        let what = format!(
            "{files} files and directories need {} MiB with their metadata and {RESERVE} % reserve, the volume has {} MiB free; \
             choose a larger volume, fewer files (files=, nfiles=) or a smaller scale (scale=1/20)",
            mib(need),
            mib(free)
        );
        return Err(RunError::Filebench(what));
    }
    // F2FS counts inodes by blocks, so there are enough inodes where there are enough blocks.
    if files > stat.inodes_free {
        let what = format!(
            "{files} files and directories, the volume has {} inodes free",
            stat.inodes_free
        );
        return Err(RunError::Filebench(what));
    }
    Ok(())
}

/// Bytes that the model needs: all files, whether there before the run or not, what is appended,
/// metadata, and the reserve.
pub fn needed(model: &Model, most: u64) -> u64 {
    let sets = model
        .filesets
        .iter()
        .map(of_set)
        .fold(0, u64::saturating_add);
    let all = sets.saturating_add(appended(model, most));
    all.saturating_add(all / 100 * RESERVE)
}

fn of_set(set: &Fileset) -> u64 {
    let mean = match &set.size {
        Amount::Fixed(n) => *n,
        Amount::Random(random) => (random.mean() as u64).clamp(random.min, random.max),
    };
    // Each file has a block for its inode and, below, 64 bytes for its name.
    let file = mean.div_ceil(BLOCK).saturating_add(1).saturating_mul(BLOCK);
    let dirs = (set.entries + 2 * set.leafdirs) / set.width + set.leafdirs + 1;
    let files = file.saturating_mul(set.entries);
    files
        .saturating_add(dirs.saturating_mul(2 * BLOCK))
        .saturating_add(set.entries * 64)
}

/// Bytes of appends to files that are never deleted, if the number of operations is known.
fn appended(model: &Model, most: u64) -> u64 {
    let mut deleted = vec![false; model.filesets.len()];
    model.each(&mut |op, _| {
        if let (Op::DeleteFile, Some(set)) = (op.op, op.fileset) {
            deleted[set] = true;
        }
    });
    if most >= OPS_MAX {
        return 0;
    }
    let threads = model.processes.iter().flat_map(|p| &p.threads);
    threads
        .map(|t| grows(&t.body, &deleted, most))
        .max()
        .unwrap_or(0)
}

fn grows(body: &[Step], deleted: &[bool], most: u64) -> u64 {
    let (mut bytes, mut counted) = (0_u64, 0_u64);
    let mut open: Vec<(u32, usize)> = Vec::new();
    for step in body {
        step.each(&mut |op| {
            let iters = op.iters.most().max(1);
            counted = counted.saturating_add(if op.op.counted() { iters } else { 0 });
            if let (Op::OpenFile | Op::CreateFile, Some(set)) = (op.op, op.fileset) {
                open.retain(|(fd, _)| *fd != op.fd);
                open.push((op.fd, set));
            }
            let there = open
                .iter()
                .find(|(fd, _)| *fd == op.fd)
                .map(|(_, set)| *set);
            let stays = op.fileset.or(there).is_some_and(|set| !deleted[set]);
            let io = op
                .iosize
                .as_ref()
                .map_or(super::resolve::IO_DEFAULT, Amount::most);
            let grown = match op.op {
                Op::AppendFile => io,
                Op::AppendFileRand => io.div_ceil(2),
                _ => 0,
            };
            if stays {
                bytes = bytes.saturating_add(grown.saturating_mul(iters));
            }
        });
    }
    let rounds = most / counted.max(1);
    bytes.saturating_mul(rounds)
}
