//! Orphans in the orphan file: where they are named, what a cut leaves, what damage does; e2fsck
//! judges.
#![allow(clippy::disallowed_methods)]

mod cuts;
mod damage;
mod places;
mod view;

use crate::common::Image;
use base::Ino;
use fscore::FileSystem;
use testkit::Brief;
use varve_ext4::Ext4;

/// A volume of mke2fs whose orphan file has `blocks` blocks.
fn image(mib: u64, blocks: u32, more: &[&str]) -> Image {
    let size = match blocks {
        // The option is in MiB below 1024 or so: 1 is rounded to a block, larger sizes have a unit.
        1 => "orphan_file_size=1".to_string(),
        n => format!("orphan_file_size={}k", 4 * n),
    };
    let mut options = vec!["-O", "orphan_file", "-J", "size=4", "-E", &size];
    options.extend(more);
    Image::new(mib, &options)
}

fn file(fs: &Ext4, name: &str) -> Ino {
    let root = fs.root();
    fs.make(root, name).expect("create")
}

/// Makes a file that is open and has lost its name.
fn orphan(fs: &Ext4, name: &str, len: usize) -> Ino {
    let ino = file(fs, name);
    fs.open(ino).expect("open");
    let bytes = crate::common::pattern(ino.0.into(), len);
    assert_eq!(fs.write(ino, 0, &bytes).expect("write"), len);
    fs.unlink(fs.root(), name.as_bytes()).expect("unlink");
    ino
}

fn free(fs: &Ext4) -> (u64, u64) {
    let stat = fs.statfs().expect("statfs");
    (stat.blocks_free, stat.inodes_free)
}
