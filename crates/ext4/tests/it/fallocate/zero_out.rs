//! What becomes of the rest of a small unwritten extent that is written into (`file/zero_out.rs`).

use super::{KIB, create, extents, patched, soil};
use crate::common::{Image, have_tools};
use fscore::{FallocateMode, FileSystem};
use testkit::Brief;

const BLOCK: u64 = 4 * KIB;

/// Writes into files of 8 blocks and of 100 that are allocated on soiled blocks.
fn after(options: &str) -> Option<[(u64, u64); 2]> {
    if !have_tools() {
        return None;
    }
    let image = Image::new(16, &[]);
    let (ram, fs) = image.mount(options);
    soil(&fs);
    let parts = [(3 * BLOCK + 5, 100), (95 * BLOCK, 10)];
    let files = [("small", 8, &parts[..1]), ("large", 100, &parts[..])];
    for (name, blocks, parts) in files {
        let ino = create(&fs, name);
        (fs.fallocate(ino, FallocateMode::Allocate, 0, blocks * BLOCK)).expect("room");
        for &(at, n) in parts {
            let data = crate::common::pattern(at, n);
            assert_eq!(fs.write(ino, at, &data).expect("room"), n);
        }
        fs.fsync(ino, false).expect("synced");
    }
    image.end(&fs, &ram);
    for (name, blocks, parts) in files {
        assert!(image.cat(name) == patched(blocks * BLOCK, parts), "{name}");
    }
    Some(["small", "large"].map(|name| extents(&image, name)))
}

#[test]
fn a_small_rest_is_zeroed_where_the_data_is_logged() {
    let Some(found) = after("data=journal") else {
        return;
    };
    // Blocks 3 to 7 of 8; blocks 0 to 3 and 95 to 99 of 100.
    assert_eq!(found, [(5, 3), (9, 91)]);
}

#[test]
fn nothing_is_zeroed_in_the_other_modes() {
    for options in ["data=ordered", "data=writeback"] {
        let Some(found) = after(options) else {
            return;
        };
        assert_eq!(found, [(1, 7), (2, 98)], "{options}");
    }
}

/// The log holds old content of the blocks beside: recovery would write it over the zeros.
#[test]
fn blocks_with_content_in_the_log_stay_unwritten() {
    if !have_tools() {
        return;
    }
    let image = Image::new(16, &[]);
    let (ram, fs) = image.mount("data=journal,commit=600");
    let file = create(&fs, "f");
    fs.write(file, 0, &[7; 32 << 10]).expect("room");
    fs.fsync(file, false).expect("synced");
    let zero = FallocateMode::ZeroRangeKeepSize;
    fs.fallocate(file, zero, 0, 32 * KIB).expect("zeroed");
    fs.write(file, 3 * BLOCK, &[8; 4096]).expect("room");
    fs.fsync(file, false).expect("synced");
    // The log is replayed: nothing is unmounted.
    drop(fs);
    let cut = Image::of(&ram);
    let (ram, fs) = cut.mount("data=journal");
    let mut wanted = vec![0; 32 << 10];
    wanted[12 << 10..16 << 10].fill(8);
    assert!(fs.content(fs.find("f")) == wanted, "old content is back");
    cut.end(&fs, &ram);
}
