//! `varve fsck` and `varve recover` on volumes of F2FS, as a user runs them.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::program::{on_image as varve, told, tool};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const BLOCK: usize = 4096;

/// A new volume of 64 MiB.
fn volume(folder: &Path) -> PathBuf {
    let image = folder.join("image");
    let (code, said) = varve(&["mkfs", "--fs", "f2fs", "--size", "64", "--force"], &image);
    assert_eq!(code, 0, "{said}");
    image
}

fn change(image: &Path, at: u64, change: impl FnOnce(&mut [u8])) {
    let file = File::options().read(true).write(true).open(image).unwrap();
    let mut block = vec![0; BLOCK];
    file.read_exact_at(&mut block, at * BLOCK as u64).unwrap();
    change(&mut block);
    file.write_all_at(&block, at * BLOCK as u64).unwrap();
}

#[test]
fn a_damaged_superblock_is_damage_until_it_is_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let image = volume(folder.path());
    assert_eq!(varve(&["fsck", "-n"], &image).0, 0);
    for copy in [0, 1] {
        // The number of segments of the main area.
        change(&image, copy, |block| block[1024 + 71] = 0x80);
        let before = fs::read(&image).unwrap();
        let (code, said) = varve(&["fsck", "-n"], &image);
        let place = format!("F102 superblock-copy (block {copy})");
        assert!(code == 4 && said.contains(&place), "{said}");
        assert!(before == fs::read(&image).unwrap(), "-n writes nothing");
        told(varve(&["fsck", "-p"], &image), 1, "on the file");
        assert_eq!(varve(&["fsck", "-n"], &image).0, 0, "it is mended");
        change(&image, copy, |block| block[1024 + 71] = 0x80);
        let (code, said) = varve(&["recover"], &image);
        let told = said.contains(&format!("superblock {copy} is damaged"));
        assert!(code == 0 && told, "{said}");
        assert_eq!(varve(&["fsck", "-n"], &image).0, 0, "it is mended");
    }
}

#[test]
fn an_impossible_checkpoint_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let image = volume(folder.path());
    let packs = [512u64, 1024];
    let version = |at: u64| {
        let mut block = vec![0; BLOCK];
        let file = File::open(&image).unwrap();
        file.read_exact_at(&mut block, at * BLOCK as u64).unwrap();
        (u64::from_le_bytes(block[..8].try_into().unwrap()), at)
    };
    let (_, newest) = packs.map(version).into_iter().max().unwrap();
    let mut last = 0;
    let spoil = |block: &mut [u8]| {
        block[32..36].fill(0xFF);
        let sum = ondisk_crc(&block[..BLOCK - 4]);
        block[BLOCK - 4..].copy_from_slice(&sum.to_le_bytes());
    };
    change(&image, newest, |block| {
        last = u32::from_le_bytes(block[136..140].try_into().unwrap());
        spoil(block);
    });
    change(&image, newest + u64::from(last) - 1, spoil);
    for args in [&["fsck", "-n"], &["fsck", "-p"]] {
        let (code, said) = varve(args, &image);
        let told = said.contains("F202 checkpoint-field") && said.contains("free_segment_count");
        assert!(code == 4 && told, "{said}");
        assert!(!said.contains("fsck.f2fs can"), "nobody can: {said}");
    }
    told(varve(&["recover", "--dry-run"], &image), 4, "refused");
}

/// CRC-32 as F2FS begins it.
fn ondisk_crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    };
    bytes.iter().fold(0xF2F5_2010, step)
}

/// What `mkfs.f2fs -O ro` and `sload.f2fs` make is sound: it has two logs and no summaries.
#[test]
fn a_volume_made_to_be_read_only_is_clean() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).unwrap();
    for n in 0..20 {
        fs::write(tree.join(format!("file {n}")), vec![n; 10_000]).unwrap();
    }
    File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let run = |name: &str, args: &[&std::ffi::OsStr]| tool(name).args(args).output();
    let made = run(
        "mkfs.f2fs",
        &["-q".as_ref(), "-O".as_ref(), "ro".as_ref(), image.as_ref()],
    );
    let Ok(made) = made else {
        eprintln!("skipped: no mkfs.f2fs");
        return;
    };
    assert!(made.status.success());
    let loaded = run(
        "sload.f2fs",
        &["-f".as_ref(), tree.as_ref(), image.as_ref()],
    )
    .unwrap();
    assert!(loaded.status.success());
    for args in [&["fsck", "-n"], &["fsck", "-p"]] {
        told(varve(args, &image), 0, "clean");
    }
}
