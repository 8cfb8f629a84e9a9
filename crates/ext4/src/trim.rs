//! FITRIM: telling the device which space is free.

use crate::Ext4;
use crate::bitmap;
use crate::fault;
use fscore::{Errno, FsResult};
use std::ops::Range;

impl Ext4 {
    /// Discards free blocks in `range` (bytes of the volume), in runs of at least `min_bytes`.
    /// Answers how many bytes were discarded.
    ///
    /// Blocks whose freeing is not committed keep their content, and so do windows kept for files
    /// to grow into. The group's lock is held meanwhile, so that no block is handed out while it is
    /// being discarded.
    ///
    /// # Errors
    /// EOPNOTSUPP if the device has no discard; EINVAL as in Linux for a range that begins behind
    /// the volume or is shorter than a block, and for a `min_bytes` larger than a group; errors of
    /// the device; damage.
    pub(crate) fn trim_free(&self, range: Range<u64>, min_bytes: u64) -> FsResult<u64> {
        self.check_writable()?;
        if !self.queue.caps().discard {
            return Err(Errno::NotSup.into());
        }
        let unit = u64::from(self.geo.cluster_blocks());
        let least = min_bytes.div_ceil(self.block() * unit).max(1);
        let blocks = self.geo.blocks_count();
        let short = range.end.saturating_sub(range.start) < self.block();
        if short
            || range.start / self.block() >= blocks
            || least > self.geo.clusters_per_group().into()
        {
            return Err(Errno::Inval.into());
        }
        self.reap_pending()?;
        let wanted = range.start / self.block()..(range.end / self.block()).min(blocks);
        let mut done = 0;
        for group in 0..self.groups.count() {
            let first = self.geo.group_first_block(group).0;
            let end = first + u64::from(self.geo.group_blocks(group));
            let part = wanted.start.max(first)..wanted.end.min(end);
            if !part.is_empty() {
                // Clusters that lie in the range as a whole.
                let part = (part.start - first).div_ceil(unit)..(part.end - first) / unit;
                let part = part.start as u32..part.end as u32;
                done += self.trim_group(group, part, least as u32)?;
            }
        }
        Ok(done * unit * self.block())
    }

    /// Discards the free runs within the bits `part` of one group. Answers how many clusters were
    /// discarded.
    fn trim_group(&self, group: u32, part: Range<u32>, least: u32) -> FsResult<u64> {
        let mut state = self.groups.get(group).lock();
        if state.desc.free_blocks() < least {
            return Ok(0);
        }
        self.load_map(group, &mut state)?;
        let map = state.map.as_deref().expect("loaded above");
        let (mut at, mut done) = (part.start, 0);
        // The loop ends because each turn moves on.
        while at < part.end {
            let start = bitmap::next(map, at, part.end, false);
            let end = bitmap::next(map, start, part.end, true);
            if end - start >= least {
                let block = self.geo.cluster_start(group, start);
                let blocks = self.cluster_len(end - start);
                let sectors = self.block_size.sectors_of(blocks);
                self.queue
                    .discard(self.block_size.lba(block), sectors)
                    .map_err(fault::device("discarding free blocks"))?;
                done += u64::from(end - start);
            }
            at = end.max(at + 1);
        }
        Ok(done)
    }
}
