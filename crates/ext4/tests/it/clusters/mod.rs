//! Volumes with clusters (feature `bigalloc`): made here and by mke2fs, filled here and by the
//! running kernel, judged by e2fsck, `dumpe2fs` and Varve's own checker.
#![allow(clippy::disallowed_methods)]

mod cuts;
mod loads;
mod places;

use crate::common::{Image, made, options_of};
use blockdev::Ram;
use std::sync::Arc;
use varve_ext4::mkfs::{JournalSize, MkfsOptions};

const KIB: u32 = 1024;

/// The options of a volume with clusters of `cluster` bytes, and a small log.
fn clustered(mib: u64, cluster: u32) -> MkfsOptions {
    MkfsOptions {
        cluster_bytes: Some(cluster),
        journal: JournalSize::Blocks(1024),
        ..options_of(mib)
    }
}

fn volume(mib: u64, cluster: u32) -> Arc<Ram> {
    made(&clustered(mib, cluster))
}

/// A volume by mke2fs, with clusters of `cluster` bytes.
fn theirs(mib: u64, cluster: u32) -> Image {
    let cluster = cluster.to_string();
    Image::new(mib, &["-O", "bigalloc", "-C", &cluster])
}
