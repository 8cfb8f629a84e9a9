//! Walks over what an inode maps: the inode becomes the owner of the blocks, and their ends and
//! number are noted.

use super::finding::Kind;
use super::state::{Run, State};
use super::volume::Volume;
use ondisk::ext4::{Inode, InodeFlags, InodeSeed, RoCompat};

/// The mapping of one inode.
#[derive(Default)]
pub(super) struct Mapping {
    /// The runs, if they were asked for.
    pub runs: Vec<Run>,
    /// Number of clusters of the device, those of the tree included; without the feature a cluster
    /// is a block.
    pub clusters: u64,
    /// One past the last block of the file that is mapped.
    pub end: u64,
    /// One past the last block of the file that was written.
    pub written_end: u64,
    /// For a directory whose content lies in its inode: the block as which that content is read.
    pub inline: Option<Vec<u8>>,
    /// True if part of the mapping cannot be judged, so that nothing follows from ends and numbers.
    pub broken: bool,
}

/// Walks over the mapping of an inode.
pub(super) struct Walker<'w, 'f> {
    pub volume: &'w Volume<'w>,
    pub state: &'w mut State<'f>,
    pub ino: u32,
    pub seed: Option<InodeSeed>,
    /// Whether the runs are wanted.
    pub keep: bool,
    /// Cluster of the file and of the device in which the last data lies.
    pub cluster: Option<(u64, u64)>,
    pub mapping: Mapping,
}

/// Makes the inode the owner of all blocks that it maps; `keep` asks for its runs.
pub(super) fn map(
    volume: &Volume<'_>,
    state: &mut State<'_>,
    ino: u32,
    inode: &Inode,
    keep: bool,
) -> Mapping {
    let seed = volume
        .seed
        .map(|seed| seed.inode(base::Ino(ino), inode.generation()));
    let mut walker = Walker {
        volume,
        state,
        ino,
        seed,
        keep,
        cluster: None,
        mapping: Mapping::default(),
    };
    if inode.flags().has(InodeFlags::EXTENTS) {
        super::extents::walk(&mut walker, inode.block_area());
    } else {
        super::blockmap::walk(&mut walker, inode.block_area());
    }
    walker.mapping
}

impl Walker<'_, '_> {
    pub fn finding(&mut self, kind: Kind, block: Option<u64>, what: impl Into<String>) {
        self.mapping.broken = true;
        match block {
            Some(block) => self.state.at_block(self.ino, block, kind, what),
            None => self.state.at_inode(self.ino, kind, what),
        }
    }

    /// Takes blocks of data (`data`) or of the tree; false if they lie outside the volume or have
    /// another owner.
    fn take(&mut self, start: u64, len: u64, data: bool) -> bool {
        let volume = self.volume;
        if !volume.inside(start, len) {
            let what = format!("blocks {start}+{len} lie outside the volume");
            self.finding(Kind::MapOutside, None, what);
            return false;
        }
        let (zero, cluster) = (u64::from(volume.sb.first_data_block()), volume.cluster());
        self.mapping.clusters += (start - zero + len).div_ceil(cluster) - (start - zero) / cluster;
        let Some(shared) = self.state.usage.take(volume, start, len) else {
            return true;
        };
        let metadata = volume.zone.touches(shared, 1);
        if data && !metadata && volume.sb.ro_compat().has(RoCompat::SHARED_BLOCKS) {
            return true;
        }
        let owner = match metadata {
            true => "holds metadata of the volume",
            false => "belongs to something else already",
        };
        let what = format!("of its blocks {start}+{len} block {shared} {owner}");
        self.finding(Kind::SharedBlock, Some(shared), what);
        false
    }

    /// Takes blocks of data with their clusters. The cluster in which the data before them ended is
    /// taken already.
    fn take_data(&mut self, logical: u64, start: u64, len: u64) {
        let cluster = self.volume.cluster();
        if cluster == 1 || !self.volume.inside(start, len) {
            self.take(start, len, true);
            return;
        }
        if logical % cluster != start % cluster {
            let what = format!(
                "block {logical} of the file is block {start} of the device: not at the same place of a cluster of {cluster}"
            );
            self.finding(Kind::ClusterPlace, None, what);
        }
        let first = (logical / cluster, start / cluster);
        let (last, end) = (logical + len - 1, start + len);
        let from = match self.cluster {
            Some(same) if same == first => (start / cluster + 1) * cluster,
            _ => start,
        };
        if from < end {
            self.take(from, end - from, true);
        }
        self.cluster = Some((last / cluster, (end - 1) / cluster));
    }

    /// Takes a block of the tree and reads it; `None` if it cannot be followed.
    pub fn node(&mut self, block: u64) -> Option<base::Bytes> {
        // ext4-check-C2: a block that is reached a second time, or in a circle, is taken already.
        if !self.take(block, 1, false) {
            return None;
        }
        let bytes = self.volume.reader.block(block, self.state.found);
        self.mapping.broken |= bytes.is_none();
        bytes
    }

    /// Takes blocks of data.
    pub fn data(&mut self, logical: u64, start: u64, len: u64, written: bool) {
        self.take_data(logical, start, len);
        let mapping = &mut self.mapping;
        mapping.end = mapping.end.max(logical + len);
        if written {
            mapping.written_end = mapping.written_end.max(logical + len);
        }
        if !self.keep || !self.volume.inside(start, len) {
            return;
        }
        match mapping.runs.last_mut() {
            Some(run) if run.logical + run.len == logical && run.start + run.len == start => {
                run.len += len;
            }
            _ => mapping.runs.push(Run {
                logical,
                start,
                len,
            }),
        }
    }
}

/// The block of the device that holds a block of the file.
pub(super) fn find(runs: &[Run], logical: u64) -> Option<u64> {
    let at = runs.partition_point(|run| run.logical + run.len <= logical);
    let run = runs.get(at).filter(|run| run.logical <= logical)?;
    Some(run.start + logical - run.logical)
}
