//! Invariants of a mounted file system that can be checked cheaply, for tests.

use crate::Ext4;
use crate::group::FlexSums;

impl Ext4 {
    /// Checks that the accounts kept in memory agree with each other: free blocks, promises,
    /// windows and pages. No operation may be under way.
    ///
    /// # Panics
    /// If two accounts disagree; the message begins with the number of the invariant.
    pub fn check(&self) {
        self.pages.check();
        let (mut free, mut waiting) = (0, 0);
        let mut descs = Vec::new();
        for group in 0..self.groups.count() {
            let state = self.groups.get(group).lock();
            free += u64::from(state.desc.free_blocks());
            waiting += u64::from(state.waiting);
            descs.push(state.desc.clone());
            let Some(map) = state.map.as_deref() else {
                continue;
            };
            let clear = crate::bitmap::count_zeros(map, self.geo.group_clusters(group));
            assert_eq!(
                clear + state.waiting + state.held,
                state.desc.free_blocks(),
                "ext4-group-G2, ext4-group-G3, prealloc-W1: free bits of group {group}, pending frees and windows"
            );
        }
        assert_eq!(
            *self.groups.sums.lock(),
            FlexSums::of(self.flex_groups(), descs.iter()),
            "ext4-group-G5: sums over flexible groups"
        );
        assert_eq!(self.space.on_disk(), free, "ext4-space-S2: free blocks");
        assert_eq!(
            self.space.pending(),
            waiting,
            "ext4-group-G3: pending frees"
        );
        let pending = self.groups.pending.lock();
        let listed: u64 = pending.iter().map(|free| u64::from(free.len)).sum();
        assert_eq!(listed, waiting, "ext4-group-G3: list of pending frees");
        drop(pending);
        let mut promised = 0;
        for inode in self.inodes.all() {
            let core = inode.core();
            promised += core.promise.meta;
            promised += match self.has_clusters() {
                true => core.promise.clusters.len() as u64,
                false => core.promise.data,
            };
            assert_eq!(
                core.promise.data,
                self.pages.delayed(inode.ino),
                "file-F1: one promise per delayed page of inode {}",
                inode.ino
            );
        }
        assert_eq!(self.space.promised(), promised, "file-F1: promises");
    }
}
