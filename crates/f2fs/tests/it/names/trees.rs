//! Thousands of random operations on a tree, which is then read by several mounts and checked by
//! fsck.f2fs.

use crate::common::{Volume, featured};
use testkit::shadow::Mix;
use testkit::volume::wander;

/// Random operations on a volume with these features.
fn run(features: &str, options: &str, seed: u64, steps: u32, mix: Mix) {
    let volume = Volume::new(featured(64, features), options);
    wander(&volume, seed, steps, mix);
}

const TREE: Mix = Mix {
    names: 60,
    dirs: 25,
    longest: 40,
    fast_target: None,
    target_sectors: 8,
};
const FLAT: Mix = Mix {
    names: 2500,
    dirs: 2,
    longest: 200,
    fast_target: None,
    target_sectors: 8,
};

#[test]
fn deep_trees() {
    run("", "", 1, 3000, TREE);
}

#[test]
fn deep_trees_without_inline_content() {
    let options = "noinline_dentry,noinline_data,noinline_xattr";
    run("", options, 2, 1500, Mix { names: 40, ..TREE });
}

#[test]
fn deep_trees_with_extra_attributes() {
    let all = "extra_attr,inode_checksum,inode_crtime,flexible_inline_xattr,sb_checksum";
    run(all, "", 3, 2000, TREE);
}

#[test]
fn one_large_directory() {
    run("", "", 4, 5000, FLAT);
}

#[test]
fn one_large_directory_with_checksums_and_without_inline_attributes() {
    let some = "extra_attr,inode_checksum";
    run(some, "noinline_xattr", 5, 3000, FLAT);
}
