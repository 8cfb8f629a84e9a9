//! Images filled by the running kernel are read and changed here, and images filled here are read
//! by the kernel.
#![allow(clippy::disallowed_methods)]

mod features;
mod inline_data;
mod kernel_orphans;
mod posix;

use crate::common::mounted::Mounted;
use crate::common::trees::{kernel_tree, our_tree, same_trees};
use crate::common::{Image, check_ram, fork, fresh_of, have_tools, load, mount, pattern};
use base::Ino;
use fscore::{Creds, FileKind, FileSystem, SetAttr};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use testkit::Brief;
use varve_ext4::Ext4;
use varve_ext4::mkfs::Kind;

fn fill_by_kernel(root: &Path) {
    for d in 0..5 {
        let dir = root.join(format!("dir{d}"));
        fs::create_dir(&dir).expect("mkdir");
        for n in 0..40u64 {
            let len = (n * n * 97 % 50_000) as usize;
            fs::write(dir.join(format!("file{n}")), pattern(n, len)).expect("write");
        }
    }
    let many = root.join("many");
    fs::create_dir(&many).expect("mkdir");
    for n in 0..1500 {
        fs::write(
            many.join(format!("a rather long name for a file, number {n}")),
            b"x",
        )
        .expect("write");
    }
    fs::write(root.join("large"), pattern(77, 9 << 20)).expect("write");
    let sparse = fs::File::create(root.join("sparse")).expect("create");
    use std::os::unix::fs::FileExt;
    for n in 0..600u64 {
        sparse
            .write_at(&n.to_le_bytes(), n * 20_000)
            .expect("write");
    }
    let unwritten = fs::File::create(root.join("unwritten")).expect("create");
    let flags = rustix::fs::FallocateFlags::empty();
    if rustix::fs::fallocate(&unwritten, flags, 0, 300_000).is_err() {
        // Block maps know no unwritten blocks.
        unwritten.set_len(300_000).expect("truncate");
    }
    symlink("dir0/file1", root.join("short")).expect("symlink");
    symlink("x".repeat(300), root.join("long")).expect("symlink");
    fs::hard_link(root.join("large"), root.join("dir1/again")).expect("link");
    fs::set_permissions(root.join("dir2"), fs::Permissions::from_mode(0o1751)).expect("chmod");
    std::os::unix::fs::chown(root.join("short"), Some(70_000), Some(80_000)).ok();
}

/// Changes of every kind.
fn change(fs: &Ext4) {
    let root = fs.root();
    let lookup = |dir: Ino, name: &str| fs.lookup(dir, name.as_bytes()).expect(name);
    let dir0 = lookup(root, "dir0");
    for n in 0..20 {
        fs.unlink(dir0, format!("file{n}").as_bytes())
            .expect("unlink");
    }
    let many = lookup(root, "many");
    for n in (0..1500).step_by(3) {
        let name = format!("a rather long name for a file, number {n}");
        fs.unlink(many, name.as_bytes()).expect("unlink");
    }
    let made = fs
        .mkdir(
            root,
            b"made here",
            0o755,
            Creds {
                uid: 5,
                gid: 6,
                umask: 0,
            },
        )
        .expect("mkdir");
    for n in 0..300u64 {
        let name = format!("new file {n}");
        let creds = Creds {
            uid: 66_000,
            gid: 7,
            umask: 0,
        };
        let file = fs
            .create(made.ino, name.as_bytes(), FileKind::File, 0o640, 0, creds)
            .expect("create");
        fs.write(file.ino, n * 11, &pattern(n, (n * 331 % 20_000) as usize))
            .expect("write");
    }
    let sparse = lookup(root, "sparse");
    for n in 0..500u64 {
        fs.write(sparse, n * 24_000 + 4096, &pattern(n, 5000))
            .expect("write");
    }
    fs.write(lookup(root, "unwritten"), 100_000, &pattern(9, 50_000))
        .expect("write");
    let set = SetAttr {
        size: Some(5_000_001),
        ..SetAttr::default()
    };
    fs.setattr(lookup(root, "large"), &set).expect("truncate");
    fs.rename(
        root,
        b"dir3",
        made.ino,
        b"moved",
        fscore::RenameMode::Replace,
    )
    .expect("rename");
    fs.make_link(made.ino, b"link", &[b'y'; 200])
        .expect("symlink");
}

fn kernel_then_us(mkfs: &[&str], options: &str) {
    if have_tools() {
        both_ways(&Image::new(96, mkfs), options);
    }
}

/// The kernel fills an image, Varve changes it, and the kernel goes on with it.
pub fn both_ways(image: &Image, options: &str) {
    let Some(mounted) = Mounted::new(image) else {
        return;
    };
    fill_by_kernel(&mounted.point);
    let before = kernel_tree(&mounted.point);
    mounted.unmount();

    let (ram, fs) = image.mount(options);
    same_trees(&before, &our_tree(&fs));
    change(&fs);
    let changed = our_tree(&fs);
    image.end(&fs, &ram);

    let mounted = Mounted::new(image).expect("it went before");
    same_trees(&changed, &kernel_tree(&mounted.point));
    fs::remove_dir_all(mounted.point.join("many")).expect("the kernel goes on with it");
    fs::write(mounted.point.join("made here/one more"), b"kernel").expect("write");
    mounted.unmount();
    image.fsck();
}

#[test]
fn default_features() {
    kernel_then_us(&[], "");
}

#[test]
fn without_journal() {
    kernel_then_us(&["-O", "^has_journal"], "scheme=none");
}

#[test]
fn with_orphan_file_and_checksum_seed() {
    kernel_then_us(&["-O", "orphan_file,metadata_csum_seed"], "");
}

/// A volume by Varve's mkfs, which makes the bytes that mke2fs makes.
#[test]
fn ext3() {
    if have_tools() {
        both_ways(
            &Image::ours(Kind::Ext3, 96),
            "data=journal,order=flush-ahead",
        );
    }
}

#[test]
fn blocks_of_1_kib() {
    kernel_then_us(&["-b", "1024"], "");
}

#[test]
fn blocks_of_2_kib_with_deltas() {
    kernel_then_us(&["-b", "2048", "-O", "orphan_file"], "scheme=emmc");
}

#[test]
fn blocks_of_1_kib_of_ext3_by_our_mkfs() {
    if have_tools() {
        both_ways(&Image::of(&fresh_of(Kind::Ext3, 96, 1024)), "data=journal");
    }
}

/// A log without checksums that Varve or the kernel left behind is replayed by the other.
#[test]
fn dirty_logs_of_ext3_go_both_ways() {
    if have_tools() {
        dirty_logs_both_ways(Image::ours(Kind::Ext3, 96));
    }
}

#[test]
fn dirty_logs_of_small_blocks_go_both_ways() {
    if have_tools() {
        dirty_logs_both_ways(Image::of(&fresh_of(Kind::Ext4, 96, 1024)));
        dirty_logs_both_ways(Image::of(&fresh_of(Kind::Ext3, 96, 2048)));
    }
}

/// Fast commits that the kernel's fsyncs left, in an image copied while it is mounted, are
/// replayed: the tree is the one that the kernel had.
#[test]
fn fast_commits_of_the_kernel_are_replayed() {
    if !have_tools() {
        return;
    }
    for (block, features) in [
        ("1024", "fast_commit"),
        ("4096", "fast_commit"),
        ("4096", "fast_commit,inline_data"),
    ] {
        let image = Image::new(96, &["-b", block, "-O", features]);
        let Some(mounted) = Mounted::new(&image) else {
            return;
        };
        fill_by_kernel(&mounted.point);
        rustix::fs::syncfs(fs::File::open(&mounted.point).expect("the root")).expect("synced");
        change_and_fsync(&mounted.point);
        let copy = image.dir.path().join("copy");
        fs::copy(&image.path, &copy).expect("a copy");
        let theirs = kernel_tree(&mounted.point);
        mounted.unmount();
        let ram = load(&copy);
        let fs = mount(&ram, "");
        let report = fs.recovery().expect("the log is not empty");
        assert!(
            report.fast_commits > 0,
            "blocks of {block}, {features}: {report:?}"
        );
        same_trees(&theirs, &our_tree(&fs));
        image.end(&fs, &ram);
    }
}

fn change_and_fsync(root: &Path) {
    let sync = |path: &Path| {
        fs::File::open(path)
            .and_then(|f| f.sync_all())
            .expect("fsync")
    };
    for n in 0..6u64 {
        let path = root.join(format!("dir1/fresh{n}"));
        fs::write(&path, pattern(n, 7000 * n as usize + 10)).expect("write");
        sync(&path);
    }
    use std::os::unix::fs::FileExt;
    let large = fs::OpenOptions::new()
        .write(true)
        .open(root.join("large"))
        .expect("open");
    large
        .write_at(&pattern(3, 100_000), (9 << 20) + 5000)
        .expect("write");
    large.sync_all().expect("fsync");
    large.set_len(3 << 20).expect("truncate");
    large.sync_all().expect("fsync");
    fs::hard_link(root.join("dir0/file7"), root.join("dir1/linked")).expect("link");
    fs::remove_file(root.join("dir2/file9")).expect("unlink");
    fs::remove_file(root.join("dir1/fresh2")).expect("unlink");
    fs::create_dir(root.join("dir1/sub")).expect("mkdir");
    let inside = root.join("dir1/sub/inside");
    fs::write(&inside, pattern(8, 20_000)).expect("write");
    sync(&inside);
    sync(&root.join("dir0/file7"));
}

fn dirty_logs_both_ways(image: Image) {
    // The kernel's log, in an image copied while it is mounted: everything is in the log, little of
    // it at home.
    let Some(mounted) = Mounted::new(&image) else {
        return;
    };
    fill_by_kernel(&mounted.point);
    fs::remove_dir_all(mounted.point.join("dir4")).expect("revokes");
    rustix::fs::syncfs(fs::File::open(&mounted.point).expect("the root")).expect("synced");
    let copy = image.dir.path().join("copy");
    fs::copy(&image.path, &copy).expect("a copy");
    let theirs = kernel_tree(&mounted.point);
    mounted.unmount();
    let ram = load(&copy);
    let fs = mount(&ram, "");
    let report = fs.recovery().expect("the log is not empty");
    assert!(report.transactions > 0 && report.blocks_replayed > 0);
    same_trees(&theirs, &our_tree(&fs));

    // Varve's log, cut after a sync.
    change(&fs);
    fs.sync().expect("synced");
    let cut = fork(&ram);
    let ours = our_tree(&fs);
    fs.unmount().expect("unmount");
    image.store(&cut);
    let needs = |image: &Image| image.debugfs("stats -h").contains("needs_recovery");
    // Replayed by e2fsck, which finds nothing else to do, and by the kernel.
    let (code, text) = image.fsck_repair();
    assert!(code.is_some_and(|code| code < 2), "{text}");
    same_trees(&ours, &our_tree(&mount(&image.load(), "ro")));
    image.store(&cut);
    assert!(needs(&image), "the log waits");
    let mounted = Mounted::new(&image).expect("it went before");
    same_trees(&ours, &kernel_tree(&mounted.point));
    mounted.unmount();
    assert!(!needs(&image));
    image.fsck();
}

/// Varve's checker judges volumes with blocks of 1 KiB as e2fsck does: volumes filled by the
/// kernel, then damaged in a few ways.
#[test]
fn blocks_of_1_kib_are_judged_as_by_e2fsck() {
    if !have_tools() {
        return;
    }
    const DAMAGES: [&str; 9] = [
        "freeb 20000 40000",
        "setb 45000",
        "clri large",
        "unlink many",
        "sif /dir0/file9 size 3",
        "sif large links_count 7",
        "sif sparse blocks 4",
        "ssv free_blocks_count 77",
        "set_bg 3 inode_bitmap 20000",
    ];
    for (kind, damages) in [(Kind::Ext3, &DAMAGES[..]), (Kind::Ext4, &DAMAGES[..3])] {
        let image = Image::of(&fresh_of(kind, 48, 1024));
        let Some(mounted) = Mounted::new(&image) else {
            return;
        };
        fill_by_kernel(&mounted.point);
        fs::remove_dir_all(mounted.point.join("dir3")).expect("removed");
        mounted.unmount();
        // Neither checker finds a fault.
        image.fsck();
        let good = image.load();
        let mut found = 0;
        for damage in damages {
            image.store(&good);
            image.debugfs_write(&[damage]);
            let report = check_ram(&image.load());
            let (code, text) = image.fsck_repair();
            let kind = kind.word();
            assert_eq!(
                code == Some(0),
                report.is_clean(),
                "{kind} {damage}: {text}"
            );
            found += usize::from(!report.is_clean());
        }
        assert!(found + 1 >= damages.len(), "{found} of {}", damages.len());
    }
}

#[test]
fn without_checksums() {
    kernel_then_us(&["-O", "^metadata_csum,^64bit"], "data=journal");
}
