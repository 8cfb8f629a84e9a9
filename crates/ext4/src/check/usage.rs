//! Records which blocks have an owner: one bit for each block, in groups that have owners beside
//! the zone of fixed places.

use super::volume::Volume;
use crate::bitmap;
use std::collections::BTreeMap;

/// Blocks with an owner.
pub(super) struct Usage {
    /// By group: the bits of the zone, those of owned blocks, and those behind the end of the
    /// volume.
    maps: BTreeMap<u32, Box<[u8]>>,
    /// Blocks taken.
    pub taken: u64,
}

impl Usage {
    pub fn new() -> Usage {
        Usage {
            maps: BTreeMap::new(),
            taken: 0,
        }
    }

    /// Takes blocks inside the volume, and with them all of their clusters, for an owner. Answers
    /// the first block that has an owner already, if there is one.
    pub fn take(&mut self, volume: &Volume<'_>, start: u64, len: u64) -> Option<u64> {
        let cluster = volume.cluster();
        let per_group = u64::from(volume.sb.clusters_per_group());
        // Group 0 begins behind the boot block.
        let zero = u64::from(volume.sb.first_data_block());
        let (mut at, end) = (
            (start - zero) / cluster,
            (start - zero + len).div_ceil(cluster),
        );
        self.taken += (end - at) * cluster;
        let mut shared = None;
        while at < end {
            let group = (at / per_group) as u32;
            let bit = (at % per_group) as u32;
            let n = (end - at).min(per_group - u64::from(bit)) as u32;
            let map = self
                .maps
                .entry(group)
                .or_insert_with(|| Usage::fresh(volume, group));
            let used = bitmap::next(map, bit, bit + n, true);
            if used < bit + n && shared.is_none() {
                let first = zero + (at + u64::from(used - bit)) * cluster;
                shared = Some(first.max(start));
            }
            bitmap::fill(map, bit, n, true);
            at += u64::from(n);
        }
        shared
    }

    /// The bitmap that a group must have.
    pub fn map(&self, volume: &Volume<'_>, group: u32) -> std::borrow::Cow<'_, [u8]> {
        match self.maps.get(&group) {
            Some(map) => map.as_ref().into(),
            None => Usage::fresh(volume, group).into_vec().into(),
        }
    }

    /// True if a block outside the zone has an owner in this group.
    pub fn has_owners(&self, group: u32) -> bool {
        self.maps.contains_key(&group)
    }

    /// The bitmap of a group that holds nothing but the zone.
    pub fn fresh(volume: &Volume<'_>, group: u32) -> Box<[u8]> {
        let first = volume.sb.group_first_block(group).0;
        let (blocks, cluster) = (volume.sb.group_blocks(group), volume.cluster());
        let mut map = vec![0; volume.block_bytes()].into_boxed_slice();
        for (start, end) in volume.zone.ranges(first, first + u64::from(blocks)) {
            let (from, to) = ((start - first) / cluster, (end - first).div_ceil(cluster));
            bitmap::fill(&mut map, from as u32, (to - from) as u32, true);
        }
        let (bits, clusters) = (volume.bits(), volume.sb.group_clusters(group));
        bitmap::fill(&mut map, clusters, bits - clusters, true);
        map
    }
}
