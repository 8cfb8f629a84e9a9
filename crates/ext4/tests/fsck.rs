//! Our checker against e2fsck: clean images of many makers, and single mutations of all metadata.
#![allow(clippy::disallowed_methods)]

mod common;

use common::{Image, check_ram, have_tools, said};

#[test]
fn fresh_images_of_mke2fs_are_clean() {
    if !have_tools() {
        return;
    }
    let all: [(u64, &[&str]); 12] = [
        (16, &[]),
        (144, &[]),
        (700, &[]),
        (16, &["-t", "ext3"]),
        (16, &["-t", "ext2"]),
        (300, &["-O", "^metadata_csum,^64bit"]),
        (300, &["-O", "^metadata_csum,uninit_bg"]),
        (300, &["-O", "^sparse_super,^resize_inode"]),
        (300, &["-O", "^resize_inode"]),
        (300, &["-O", "orphan_file,metadata_csum_seed"]),
        (300, &["-I", "128", "-O", "^flex_bg"]),
        (
            1000,
            &[
                "-O",
                "^has_journal,sparse_super2",
                "-E",
                "lazy_itable_init=0",
            ],
        ),
    ];
    for (mib, options) in all {
        let image = Image::new(mib, options);
        let report = check_ram(&image.load());
        assert!(report.is_clean(), "{mib} {options:?}\n{}", said(&report));
    }
}
