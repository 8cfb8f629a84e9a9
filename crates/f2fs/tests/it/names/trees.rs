//! Thousands of random operations on a tree, which is then read by several mounts and checked by
//! fsck.f2fs.
//! fsck.f2fs, dump.f2fs.

use super::volumes::{Judge, features};
use crate::common::{fork, mount};
use base::Rng;
use blockdev::Ram;
use fscore::FileSystem;
use std::sync::Arc;
use testkit::shadow::{Mix, Shadow, read_tree};

/// Random operations, with a remount in the middle; then unmount and `fsck.f2fs`.
fn run((ram, judge): (Arc<Ram>, Judge), options: &str, seed: u64, steps: u32, mix: Mix) {
    let mut rng = Rng::named(seed, "names");
    let mut fs = mount(&ram, options);
    let mut shadow = Shadow::new(&*fs);
    for round in 0..2 {
        for _ in 0..steps / 2 {
            shadow.step(&*fs, &mut rng, mix);
        }
        assert_eq!(read_tree(&*fs, 7), shadow.tree());
        if round == 0 {
            fs.sync().expect("sync");
            // What a cut leaves after a sync is what there was.
            let cut = mount(&fork(&ram), options);
            assert_eq!(read_tree(&*cut, 50), shadow.tree());
            fs.unmount().expect("unmount");
            judge.judge(&ram);
            fs = mount(&ram, options);
            assert_eq!(read_tree(&*fs, 100), shadow.tree());
        }
    }
    fs.unmount().expect("unmount");
    judge.judge(&ram);
}

const TREE: Mix = Mix {
    names: 60,
    dirs: 25,
    longest: 40,
    fast_target: None,
};
const FLAT: Mix = Mix {
    names: 2500,
    dirs: 2,
    longest: 200,
    fast_target: None,
};

#[test]
fn deep_trees() {
    run(features(64, ""), "", 1, 3000, TREE);
}

#[test]
fn deep_trees_without_inline_content() {
    let options = "noinline_dentry,noinline_data,noinline_xattr";
    run(
        features(64, ""),
        options,
        2,
        1500,
        Mix { names: 40, ..TREE },
    );
}

#[test]
fn deep_trees_with_extra_attributes() {
    let all = "extra_attr,inode_checksum,inode_crtime,flexible_inline_xattr,sb_checksum";
    run(features(64, all), "", 3, 2000, TREE);
}

#[test]
fn one_large_directory() {
    run(features(64, ""), "", 4, 5000, FLAT);
}

#[test]
fn one_large_directory_with_checksums_and_without_inline_attributes() {
    let some = "extra_attr,inode_checksum";
    run(features(64, some), "noinline_xattr", 5, 3000, FLAT);
}
