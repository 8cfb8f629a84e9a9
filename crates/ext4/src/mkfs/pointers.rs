//! Maps a file without holes by pointers, in whatever space is free: each pointer block lies in
//! front of the first block that it leads to.

use super::geometry::Geometry;
use super::space::Space;
use ondisk::ext4::{BLOCK_MAP_SLOTS, BlockPath};
use std::collections::BTreeMap;

/// Where a file and its pointer blocks lie.
#[derive(Clone, Debug)]
pub(super) struct PointerMap {
    /// The words of the block area.
    pub area: [u32; BLOCK_MAP_SLOTS],
    /// Pointer blocks with their pointers.
    pub pointers: BTreeMap<u32, Vec<u32>>,
    /// The blocks of the file in order.
    data: Vec<u32>,
}

impl PointerMap {
    /// The blocks of the file as runs.
    pub fn runs(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for &block in &self.data {
            match runs.last_mut() {
                Some((start, len)) if *start + *len == u64::from(block) => *len += 1,
                _ => runs.push((block.into(), 1)),
            }
        }
        runs
    }
}

/// Number of pointer blocks of a path that begin with file block `logical`: those that lead to it
/// as their first block.
fn fresh_levels(path: &BlockPath) -> usize {
    let used = path.indexes().iter().rev().take_while(|&&n| n == 0).count();
    used.min(path.indexes().len())
}

/// Maps `blocks` blocks, from the first free block of the volume on; `None` if they do not fit.
pub(super) fn map_by_pointers(space: &mut Space, g: &Geometry, blocks: u32) -> Option<PointerMap> {
    let paths = || (0..blocks).map(|n| BlockPath::to(n, g.block_bytes));
    let mut need = 0;
    for path in paths() {
        need += 1 + fresh_levels(&path?) as u64;
    }
    let runs = space.take_runs(g.first_block(), need)?;
    let mut free = runs.into_iter().flat_map(|(start, len)| start..start + len);
    let mut next = || u32::try_from(free.next()?).ok();
    let mut map = PointerMap {
        area: [0; BLOCK_MAP_SLOTS],
        pointers: BTreeMap::new(),
        data: Vec::with_capacity(blocks as usize),
    };
    for path in paths() {
        let path = path?;
        let known = path.indexes().len() - fresh_levels(&path);
        // The pointer block whose word is set next; `None`: the block area.
        let mut parent: Option<u32> = None;
        let words = std::iter::once(path.slot).chain(path.indexes().iter().map(|&n| n as usize));
        for (level, word) in words.enumerate() {
            let last = level == path.indexes().len();
            let slot = match parent {
                None => &mut map.area[word],
                Some(block) => &mut map.pointers.get_mut(&block)?[word],
            };
            if last || level >= known {
                *slot = next()?;
            }
            let block = *slot;
            if last {
                map.data.push(block);
            } else if level >= known {
                let none = vec![0; g.pointers_per_block() as usize];
                map.pointers.insert(block, none);
            }
            parent = Some(block);
        }
    }
    Some(map)
}
