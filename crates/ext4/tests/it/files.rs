//! Content of files: write, read, truncate, fsync, checked by e2fsck and debugfs.

use crate::common::{Image, Volume, fork, fresh, have_tools, mount, pattern};
use fscore::{FileSystem, SetAttr};
use testkit::Brief;
use testkit::volume::the_sync_flag_holds;
use varve_ext4::mkfs::Kind;

fn with_files(mib: u64, options: &[&str], names: &[&str]) -> Image {
    let image = Image::new(mib, options);
    let commands: Vec<String> = names
        .iter()
        .map(|n| format!("write /dev/null {n}"))
        .collect();
    image.debugfs_write(&commands.iter().map(String::as_str).collect::<Vec<_>>());
    image
}

fn truncate(fs: &varve_ext4::Ext4, ino: base::Ino, size: u64) {
    let set = SetAttr {
        size: Some(size),
        ..SetAttr::default()
    };
    assert_eq!(fs.setattr(ino, &set).expect("truncate").size, size);
}

#[test]
fn every_change_of_a_synchronous_file_is_durable() {
    for options in ["", "scheme=coalition", "scheme=emmc"] {
        the_sync_flag_holds(&Volume::new(fresh(Kind::Ext4, 64), options));
    }
}

#[test]
fn mount_and_unmount_leave_a_clean_image() {
    if !have_tools() {
        return;
    }
    for options in ["", "scheme=none", "ro", "data=writeback", "data=journal"] {
        let image = Image::new(64, &[]);
        let (ram, fs) = image.mount(options);
        assert_eq!(fs.find(b"lost+found").0, 11);
        fs.unmount().expect("unmount");
        assert!(fs.getattr(fs.root()).is_err(), "unmounted");
        image.judge(&ram);
    }
}

#[test]
fn written_bytes_are_read_back_by_debugfs() {
    if !have_tools() {
        return;
    }
    for options in ["", "scheme=none", "data=writeback", "data=journal"] {
        let image = with_files(64, &[], &["a", "b"]);
        let (ram, fs) = image.mount(options);
        let a = fs.find(b"a");
        let b = fs.find(b"b");
        let content = pattern(1, 300_000);
        assert_eq!(fs.write(a, 0, &content).expect("write"), content.len());
        assert_eq!(fs.write(b, 5000, b"hello").expect("write"), 5);
        assert_eq!(fs.content(a), content);
        fs.fsync(a, false).expect("fsync");
        truncate(&fs, a, 123_457);
        image.end(&fs, &ram);
        assert_eq!(image.cat("a"), content[..123_457], "{options}");
        let hole = [&[0; 5000][..], b"hello"].concat();
        assert_eq!(image.cat("b"), hole, "{options}");

        let fs = mount(&image.load(), options);
        assert_eq!(fs.content(a), content[..123_457]);
        assert_eq!(fs.content(b), hole);
    }
}

#[test]
fn what_was_synced_survives_a_crash() {
    if !have_tools() {
        return;
    }
    let image = with_files(64, &[], &["a"]);
    let (ram, fs) = image.mount("commit=600");
    let a = fs.find(b"a");
    let content = pattern(2, 100_000);
    fs.write(a, 0, &content).expect("write");
    fs.fsync(a, true).expect("fdatasync");
    fs.write(a, 0, &[0; 50]).expect("write");
    let crashed = fork(&ram);
    // Recovery by Varve.
    let again = mount(&fork(&crashed), "");
    assert_eq!(again.content(a), content);
    again.unmount().expect("unmount");
    // A read-only mount recovers, too, and leaves an empty log behind.
    let ram = fork(&crashed);
    let fs = mount(&ram, "ro");
    assert_eq!(fs.content(a), content);
    image.end(&fs, &ram);
    // Recovery by e2fsck.
    image.store(&crashed);
    let (code, text) = image.fsck_repair();
    assert!(matches!(code, Some(0 | 1)), "{text}");
    assert_eq!(image.cat("a"), content);
}

/// A rollback journal is a small file that is filled and emptied again and again. As in Linux what
/// it gave back is free once that is committed, so it goes around in a few windows, and does not
/// come to use all of the volume.
#[test]
fn small_files_come_back_to_the_blocks_that_small_files_left() {
    let ram = fresh(Kind::Ext4, 64);
    let fs = mount(&ram, "");
    let journal = fs.make(fs.root(), "journal").expect("made");
    fs.open(journal).expect("open");
    let before = ram.blocks().len();
    for _ in 0..2000 {
        fs.write(journal, 0, &pattern(3, 3 * 4096)).expect("write");
        fs.fsync(journal, false).expect("fsync");
        truncate(&fs, journal, 0);
    }
    fs.release(journal).expect("release");
    fs.unmount().expect("unmount");
    // 6000 blocks were allocated. What is used is the log of 4 MiB and two windows of 512 blocks.
    let used = ram.blocks().len() - before;
    assert!(used < 1024 + 2 * 512 + 64, "{used} blocks");
}

#[test]
fn files_that_grow_side_by_side_stay_in_one_piece() {
    if !have_tools() {
        return;
    }
    let image = with_files(64, &[], &["a", "b"]);
    let (ram, fs) = image.mount("");
    let inos = [b"a", b"b"].map(|n| fs.find(n));
    for ino in inos {
        fs.open(ino).expect("open");
    }
    for n in 0..500 {
        for ino in inos {
            fs.write(ino, n * 4096, &[n as u8; 4096]).expect("write");
            fs.fsync(ino, false).expect("fsync");
        }
    }
    fs.check();
    for ino in inos {
        fs.release(ino).expect("release");
    }
    fs.check();
    image.end(&fs, &ram);
    for name in ["a", "b"] {
        let extents = image
            .debugfs(&format!("dump_extents -l {name}"))
            .lines()
            .count()
            - 1;
        // As in Linux the first 16 blocks come one by one from the window of small files.
        assert!(
            extents <= 16 + 6,
            "{name} has {extents} extents of 500 blocks"
        );
    }
}
