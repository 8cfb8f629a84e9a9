//! Checks directories: their entries, the hashes of the names, and the places where entries may
//! lie.

use super::files::Walk;
use super::finding::{Finding, Kind};
use super::state::{Reason, State};
use crate::dir;
use base::{BLOCK_BYTES, Bytes};
use ondisk::Folding;
use ondisk::f2fs::{
    BlockAddr, Dentry, DentryLayout, FileType, Inline, InodeFlags, MAX_DIR_HASH_DEPTH, Nid,
    bucket_blocks, dir_buckets, iter, level_blocks,
};
use std::sync::Arc;

/// What the entries of a directory said so far.
pub(super) struct Directory {
    /// What '..' has to lead to; `None` for an orphan.
    parent: Option<Nid>,
    /// '.' and '..' were there.
    dots: [bool; 2],
    /// All names with their hashes, to find doubles.
    names: Vec<(u32, Bytes)>,
}

impl Directory {
    pub fn new(parent: Option<Nid>) -> Directory {
        Directory {
            parent,
            dots: [false; 2],
            names: Vec::new(),
        }
    }
}

/// Level and bucket of a block of a directory; `None` beyond the last possible level.
fn place(block: u64, dir_level: u8) -> Option<(u32, u32)> {
    let mut rest = block;
    for level in 0..MAX_DIR_HASH_DEPTH {
        let blocks = level_blocks(level, dir_level);
        if rest < blocks {
            return Some((level, (rest / u64::from(bucket_blocks(level))) as u32));
        }
        rest -= blocks;
    }
    None
}

/// Checks the entries in the inode.
pub(super) fn check_inline(state: &mut State<'_>, walk: &mut Walk, block: &Bytes) {
    let layout = walk.fields.inline_dentry_layout();
    entries(state, walk, block, &layout, None);
}

/// Checks a block of entries: block `file_block` of the directory, which lies at `at`.
pub(super) fn check_block(
    state: &mut State<'_>,
    walk: &mut Walk,
    file_block: u64,
    at: BlockAddr,
    block: &Bytes,
) {
    entries(
        state,
        walk,
        block,
        &DentryLayout::BLOCK,
        Some((file_block, at)),
    );
}

/// How the directory compares names; `None`: by their bytes.
fn folding(state: &State<'_>, walk: &Walk) -> Option<Arc<Folding>> {
    let folds = walk.fields.flags.has(InodeFlags::CASEFOLD);
    state.volume.folding.clone().filter(|_| folds)
}

fn entries(
    state: &mut State<'_>,
    walk: &mut Walk,
    block: &Bytes,
    layout: &DentryLayout,
    place_of: Option<(u64, BlockAddr)>,
) {
    let ino = walk.ino;
    let folding = folding(state, walk);
    let folding = folding.as_deref();
    let bucket = match place_of {
        Some((n, _)) => Some(place(n, walk.fields.dir_level)),
        None => None,
    };
    let located = |finding: Finding| match place_of {
        Some((_, at)) => finding.ino(ino).block(at),
        None => finding.ino(ino),
    };
    for entry in iter(block, layout, 0) {
        let (slot, entry) = match entry {
            Ok(entry) => entry,
            Err(e) => {
                state
                    .found
                    .add(located(Finding::new(Kind::DirBlock, e.to_string())));
                continue;
            }
        };
        let mut add = |kind, what: String| {
            let name = String::from_utf8_lossy(entry.name);
            state.found.add(located(Finding::new(
                kind,
                format!("slot {slot}, {name:?}: {what}"),
            )));
        };
        for (kind, what) in faults(walk, folding, &entry, bucket) {
            add(kind, what);
        }
        if let Some(n) = dot(entry.name) {
            let Some(dir) = &mut walk.dir else {
                return;
            };
            let right = if n == 0 {
                ino
            } else {
                dir.parent.unwrap_or(entry.ino)
            };
            if dir.dots[n] || entry.ino != right || entry.kind != FileType::Directory {
                add(
                    Kind::DirDots,
                    format!(
                        "leads to inode {} instead of {right}, or is there twice",
                        entry.ino
                    ),
                );
            }
            dir.dots[n] = true;
            let pino = walk.fields.pino;
            // The root notes no parent.
            if n == 1 && ino != state.volume.geo.root && pino != entry.ino {
                add(
                    Kind::DirDots,
                    format!("leads to {}, and the inode says parent {pino}", entry.ino),
                );
            }
            continue;
        }
        let name = block.slice_ref(entry.name);
        state.queue.push_back((
            entry.ino,
            Reason::Entry {
                parent: ino,
                kind: entry.kind,
            },
        ));
        if let Some(dir) = &mut walk.dir {
            dir.names.push((entry.hash, key(folding, name)));
        }
    }
}

/// What two names share exactly if they are the same one.
fn key(folding: Option<&Folding>, name: Bytes) -> Bytes {
    match folding {
        Some(folding) => dir::identity(folding, &name).into(),
        None => name,
    }
}

/// 0 for '.', 1 for '..'.
fn dot(name: &[u8]) -> Option<usize> {
    match name {
        b"." => Some(0),
        b".." => Some(1),
        _ => None,
    }
}

/// What is wrong with an entry by itself.
fn faults(
    walk: &Walk,
    folding: Option<&Folding>,
    entry: &Dentry<'_>,
    bucket: Option<Option<(u32, u32)>>,
) -> Vec<(Kind, String)> {
    let mut faults = Vec::new();
    if entry.name.iter().any(|&b| b == b'/' || b == 0) {
        faults.push((Kind::DirName, "holds a slash or a zero".to_string()));
    }
    let hash = dir::name_hash(folding, entry.name);
    if folding.is_some_and(|folding| folding.refuses(entry.name)) {
        let what = "no UTF-8, which the volume does not take here";
        faults.push((Kind::DirName, what.to_string()));
    }
    if entry.hash != hash {
        faults.push((
            Kind::DirHash,
            format!("hash {:#x}, it is {hash:#x}", entry.hash),
        ));
    }
    match bucket {
        None => {}
        Some(None) => faults.push((Kind::DirPlace, "lies beyond the last level".to_string())),
        Some(Some((level, bucket))) => {
            let right = hash % dir_buckets(level, walk.fields.dir_level);
            let depth = walk.fields.current_depth;
            if bucket != right || level >= depth {
                let what = format!(
                    "lies in bucket {bucket} of level {level}; bucket {right}, {depth} levels"
                );
                faults.push((Kind::DirPlace, what));
            }
        }
    }
    faults
}

/// After all entries: '.' and '..', doubles, size.
pub(super) fn finish(state: &mut State<'_>, walk: &mut Walk) {
    let Some(dir) = &mut walk.dir else {
        return;
    };
    let ino = walk.ino;
    let orphan = state.files[&ino.0].orphan;
    if dir.dots != [true; 2] && !orphan && !walk.fields.inline.has(Inline::DOTS) {
        state
            .found
            .at_inode(ino, Kind::DirDots, "'.' or '..' is missing");
    }
    dir.names.sort_unstable();
    for pair in dir.names.windows(2) {
        if pair[0] == pair[1] {
            let name = String::from_utf8_lossy(&pair[0].1);
            let blind = match walk.fields.flags.has(InodeFlags::CASEFOLD) {
                true => ", without regard to case",
                false => "",
            };
            let what = format!("{name:?} is there twice{blind}");
            state.found.at_inode(ino, Kind::DirDuplicate, what);
        }
    }
    let end = walk.last_block.map_or(0, |n| (n + 1) * BLOCK_BYTES as u64);
    if end > walk.fields.size {
        let what = format!("{} bytes; entries lie up to {end}", walk.fields.size);
        state.found.at_inode(ino, Kind::InodeSize, what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::f2fs::first_block;

    #[test]
    fn places_are_those_of_the_format() {
        for (level, dir_level) in [(0, 0), (1, 0), (5, 0), (4, 2), (33, 0)] {
            for bucket in [0, dir_buckets(level, dir_level) - 1] {
                let first = first_block(level, dir_level, bucket);
                assert_eq!(place(first, dir_level), Some((level, bucket)));
                let last = first + u64::from(bucket_blocks(level)) - 1;
                assert_eq!(place(last, dir_level), Some((level, bucket)));
            }
        }
        assert_eq!(place(u64::MAX, 0), None);
    }
}
