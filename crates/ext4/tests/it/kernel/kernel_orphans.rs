//! Orphans in the orphan file, in both directions: the kernel ends those that a cut of Varve
//! leaves, and the other way round.

use crate::common::mounted::Mounted;
use crate::common::{Image, check_ram, fork, have_tools, load, mount, pattern, said, tool};
use base::Ino;
use fscore::{Creds, FileKind, FileSystem};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use varve_ext4::Ext4;

const ORPHANS: u64 = 300;

fn volume(more: &[&str]) -> Image {
    let mut options = vec!["-O", "orphan_file,metadata_csum_seed"];
    options.extend(more);
    Image::new(64, &options)
}

/// Free blocks and inodes, and whether the volume waits for recovery or has orphans, by dumpe2fs.
fn state(path: &Path) -> (String, String, bool) {
    let out = tool("dumpe2fs").arg("-h").arg(path).output();
    let text = String::from_utf8_lossy(&out.expect("dumpe2fs").stdout).into_owned();
    let line = |name: &str| {
        let found = text.lines().find(|line| line.starts_with(name));
        found.expect("a line of dumpe2fs").to_string()
    };
    let features = line("Filesystem features:");
    let waits = features.contains("needs_recovery") || features.contains("orphan_present");
    (line("Free blocks:"), line("Free inodes:"), waits)
}

fn orphans_of_ours(fs: &Ext4) {
    for n in 0..ORPHANS {
        let name = format!("f{n}");
        let made = fs.create(
            fs.root(),
            name.as_bytes(),
            FileKind::File,
            0o600,
            0,
            Creds::default(),
        );
        let ino: Ino = made.expect("create").ino;
        fs.open(ino).expect("open");
        fs.write(ino, 0, &pattern(n, (n * 50) as usize))
            .expect("write");
        fs.unlink(fs.root(), name.as_bytes()).expect("unlink");
    }
}

/// `more` are options of mke2fs: with 254 slots some of the orphans are on the list.
fn the_kernel_ends_ours(more: &[&str], scheme: &str) {
    let image = volume(more);
    let Some(mounted) = Mounted::new(&image) else {
        return;
    };
    fs::write(mounted.point.join("stays"), pattern(1, 50_000)).expect("write");
    mounted.unmount();
    let before = state(&image.path);

    let (ram, fs) = image.mount(scheme);
    orphans_of_ours(&fs);
    fs.sync().expect("sync");
    let cut = fork(&ram);
    fs.unmount().expect("unmount");
    image.store(&cut);
    assert!(state(&image.path).2);
    let mounted = Mounted::new(&image).expect("it went before");
    let stays = fs::read(mounted.point.join("stays")).expect("there");
    assert_eq!(stays, pattern(1, 50_000));
    mounted.unmount();
    assert_eq!(state(&image.path), before);
    image.fsck();
}

#[test]
fn the_kernel_ends_orphans_of_ours() {
    if have_tools() {
        the_kernel_ends_ours(&[], "commit=600");
        the_kernel_ends_ours(
            &["-b", "1024", "-E", "orphan_file_size=1"],
            "commit=600,order=flush-ahead",
        );
    }
}

#[test]
fn we_end_orphans_of_the_kernel() {
    if !have_tools() {
        return;
    }
    let image = volume(&[]);
    let Some(mounted) = Mounted::new(&image) else {
        return;
    };
    fs::write(mounted.point.join("stays"), pattern(1, 50_000)).expect("write");
    mounted.unmount();
    let before = state(&image.path);
    let mounted = Mounted::new(&image).expect("it went before");
    let open: Vec<File> = (0..ORPHANS)
        .map(|n| {
            let path = mounted.point.join(format!("f{n}"));
            let mut file = File::create(&path).expect("create");
            file.write_all(&pattern(n, (n * 50) as usize))
                .expect("write");
            file.sync_all().expect("fsync");
            fs::remove_file(&path).expect("unlink");
            file
        })
        .collect();
    let root = File::open(&mounted.point).expect("the root");
    rustix::fs::syncfs(&root).expect("syncfs");
    drop(root);
    let cut = image.dir.path().join("cut");
    fs::copy(&image.path, &cut).expect("a copy");
    drop(open);
    mounted.unmount();

    assert!(state(&cut).2);
    let ram = load(&cut);
    assert!(!check_ram(&ram).is_clean());
    let fs = mount(&ram, "");
    fs.unmount().expect("unmount");
    let report = check_ram(&ram);
    assert!(report.is_clean(), "{}", said(&report));
    image.store(&ram);
    assert_eq!(state(&image.path), before);
    image.fsck();
}
