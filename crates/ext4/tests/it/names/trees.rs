//! Thousands of operations, and then a check by every available reader.

use super::walk::{compare_with_debugfs, walk};
use crate::common::mounted::Mounted;
use crate::common::{Image, Volume, have_tools, made};
use std::sync::Arc;
use testkit::shadow::Mix;
use testkit::volume::wander;
use varve_ext4::mkfs::MkfsOptions;

/// Random operations, with a remount in the middle; then unmount, `e2fsck`, `debugfs`, the kernel.
fn run(features: &[&str], options: &str, seed: u64, steps: u32, mix: Mix) {
    if !have_tools() {
        return;
    }
    run_on(Image::new(64, features), options, seed, steps, mix);
}

fn run_on(image: Image, options: &str, seed: u64, steps: u32, mix: Mix) {
    let image = Arc::new(image);
    let tree = wander(&Volume::of(&image, options), seed, steps, mix);
    compare_with_debugfs(&image, &tree);
    if let Some(mounted) = Mounted::with(&image, "ro") {
        let found = walk(&mounted);
        mounted.unmount();
        assert_eq!(found, tree);
    }
}

const TREE: Mix = Mix {
    names: 60,
    dirs: 25,
    longest: 40,
    fast_target: Some(59),
    target_sectors: 8,
};
const FLAT: Mix = Mix {
    names: 2500,
    dirs: 2,
    longest: 200,
    fast_target: Some(59),
    target_sectors: 8,
};

#[test]
fn deep_trees() {
    run(&[], "", 1, 3000, TREE);
}

#[test]
fn deep_trees_without_checksums_and_index() {
    run(
        &["-O", "^metadata_csum,^64bit,^dir_index"],
        "",
        2,
        2000,
        TREE,
    );
}

#[test]
fn deep_trees_without_journal() {
    run(&["-O", "^has_journal"], "scheme=none", 3, 2000, TREE);
}

#[test]
fn one_large_directory() {
    run(&[], "", 4, 5000, FLAT);
}

#[test]
fn one_large_directory_without_file_types_and_checksums() {
    run(&["-O", "^metadata_csum,^filetype"], "", 5, 3000, FLAT);
}

#[test]
fn one_large_linear_directory() {
    run(&["-O", "^dir_index"], "", 6, 2000, FLAT);
}

#[test]
fn an_image_of_our_own_mkfs() {
    if !have_tools() {
        return;
    }
    let options = MkfsOptions::new(64 << 20, [0x5A; 16], [0xA5; 16], rt::wall());
    run_on(Image::of(&made(&options)), "", 7, 1500, TREE);
}
