//! fallocate, compared with the running kernel, e2fsck and debugfs: what one side allocates the
//! other reads, fills and checks.
#![allow(clippy::disallowed_methods)]

mod ranges;
mod zero_out;

use crate::common::mounted::Mounted;
use crate::common::{Image, have_tools, mount, pattern};
use base::Ino;
use fscore::{Errno, FallocateMode, FileSystem, FsResult};
use rustix::fs::FallocateFlags;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use testkit::Brief;
use varve_ext4::Ext4;

const KIB: u64 = 1024;

fn create(fs: &Ext4, name: &str) -> Ino {
    fs.file(name)
}

#[track_caller]
fn fails<T: std::fmt::Debug>(result: FsResult<T>, errno: Errno) {
    assert_eq!(result.expect_err("refused").errno(), errno);
}

/// Blocks of a file as debugfs counts them, extent blocks left out: (written, unwritten).
fn extents(image: &Image, name: &str) -> (u64, u64) {
    let text = image.debugfs(&format!("dump_extents {name}"));
    let mut sums = (0, 0);
    for line in text.lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let level: Vec<&str> = line.split('/').collect();
        // Leaves only: the number of the level is the depth.
        let depth = |s: &str| {
            s.split_whitespace()
                .next()
                .and_then(|w| w.parse::<u32>().ok())
        };
        let (Some(at), Some(of)) = (depth(level[0]), level.get(1).and_then(|s| depth(s))) else {
            continue;
        };
        if at != of {
            continue;
        }
        let uninit = words.last() == Some(&"Uninit");
        let len = words[words.len() - 1 - usize::from(uninit)];
        let len: u64 = len.parse().expect("a length");
        match uninit {
            true => sums.1 += len,
            false => sums.0 += len,
        }
    }
    sums
}

/// The content that each file must have.
type Files = Vec<(&'static str, Vec<u8>)>;

fn patched(len: u64, parts: &[(u64, usize)]) -> Vec<u8> {
    let mut content = vec![0; len as usize];
    for &(at, n) in parts {
        content[at as usize..at as usize + n].copy_from_slice(&pattern(at, n));
    }
    content
}

const PARTS: [(u64, usize); 5] = [
    (0, 100),
    (5000, 1),
    (100 * KIB, 9000),
    (200 * KIB - 7, 14),
    (299 * KIB, 1024),
];

fn wanted() -> Files {
    vec![
        ("plain", patched(300 * KIB, &[])),
        ("kept", patched(10, &[(0, 10)])),
        ("parts", patched(300 * KIB, &PARTS)),
        ("over", patched(300 * KIB, &[(50 * KIB, 20_000)])),
        ("beyond", patched(400 * KIB + 10, &[(400 * KIB, 10)])),
    ]
}

/// Fills the device with other bytes, so that a block that is marked as written too early
/// (fallocate-U2), or a page that is not whole (fallocate-U3), shows them.
fn soil(fs: &Ext4) {
    let dirt = create(fs, "dirt");
    fs.open(dirt).expect("open");
    let mut at = 0;
    loop {
        match fs.write(dirt, at, &[0xD1; 64 * 1024]) {
            Ok(n) => at += n as u64,
            Err(e) => break assert_eq!(e.errno(), Errno::NoSpc),
        }
    }
    fs.fsync(dirt, false).expect("fsync");
    fs.unlink(fs.root(), b"dirt").expect("unlink");
    fs.release(dirt).expect("release");
    fs.sync().expect("sync");
}

fn make_ours(fs: &Ext4) {
    let write = |ino, at: u64, n: usize| {
        assert_eq!(fs.write(ino, at, &pattern(at, n)).expect("write"), n);
    };
    let allocate = |name: &str, mode, at, len| {
        let ino = create(fs, name);
        fs.fallocate(ino, mode, at, len).expect("fallocate");
        ino
    };
    let all = FallocateMode::Allocate;
    let plain = allocate("plain", all, 0, 300 * KIB);
    assert_eq!(fs.getattr(plain).expect("stat").sectors, 600);
    let kept = allocate("kept", FallocateMode::KeepSize, 0, 64 * KIB);
    assert_eq!(fs.getattr(kept).expect("stat").size, 0);
    write(kept, 0, 10);
    let parts = allocate("parts", all, 0, 300 * KIB);
    for (at, n) in PARTS {
        write(parts, at, n);
        fs.fsync(parts, false).expect("fsync");
    }
    // Dirty pages and data are there before the blocks are.
    let over = create(fs, "over");
    write(over, 50 * KIB, 20_000);
    fs.fallocate(over, all, 10, 300 * KIB - 10)
        .expect("fallocate");
    let beyond = allocate("beyond", FallocateMode::KeepSize, 0, 1000 * KIB);
    write(beyond, 400 * KIB, 10);
}

fn make_by_kernel(root: &std::path::Path) {
    let file = |name: &str| {
        let mut options = File::options();
        let made = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(root.join(name));
        made.expect("create")
    };
    let write = |f: &File, at: u64, n: usize| f.write_all_at(&pattern(at, n), at).expect("write");
    let (all, keep) = (FallocateFlags::empty(), FallocateFlags::KEEP_SIZE);
    let allocate = |f: &File, flags, at, len| {
        rustix::fs::fallocate(f, flags, at, len).expect("fallocate");
    };
    allocate(&file("plain"), all, 0, 300 * KIB);
    let kept = file("kept");
    allocate(&kept, keep, 0, 64 * KIB);
    write(&kept, 0, 10);
    let parts = file("parts");
    allocate(&parts, all, 0, 300 * KIB);
    for (at, n) in PARTS {
        write(&parts, at, n);
        parts.sync_all().expect("fsync");
    }
    let over = file("over");
    write(&over, 50 * KIB, 20_000);
    allocate(&over, all, 10, 300 * KIB - 10);
    let beyond = file("beyond");
    allocate(&beyond, keep, 0, 1000 * KIB);
    write(&beyond, 400 * KIB, 10);
}

fn with_kernel(mkfs: &[&str], options: &str) {
    if !have_tools() {
        return;
    }
    let image = Image::new(16, mkfs);
    let (ram, fs) = image.mount(options);
    soil(&fs);
    make_ours(&fs);
    for (name, content) in wanted() {
        assert!(
            fs.content(fs.find(name)) == content,
            "{name}, as we read it"
        );
    }
    image.end(&fs, &ram);
    for (name, content) in wanted() {
        assert!(image.cat(name) == content, "{name}, as debugfs reads it");
    }
    let ours: Vec<_> = wanted()
        .iter()
        .map(|(name, _)| extents(&image, name))
        .collect();
    assert_eq!(ours[0], (0, 75), "all of `plain` is unwritten");
    let Some(mounted) = Mounted::new(&image) else {
        return;
    };
    for (name, content) in wanted() {
        let found = std::fs::read(mounted.point.join(name)).expect("read");
        assert!(found == content, "{name}, as the kernel reads it");
    }
    mounted.unmount();

    let image = Image::new(16, mkfs);
    let mounted = Mounted::new(&image).expect("it went before");
    make_by_kernel(&mounted.point);
    let sectors: Vec<u64> = (wanted().iter())
        .map(|(name, _)| {
            std::fs::metadata(mounted.point.join(name))
                .expect("stat")
                .blocks()
        })
        .collect();
    mounted.unmount();
    let theirs: Vec<_> = wanted()
        .iter()
        .map(|(name, _)| extents(&image, name))
        .collect();
    // The kernel may write zeros to a short rest instead of splitting it off.
    let sum = |v: &[(u64, u64)]| v.iter().map(|(w, u)| w + u).collect::<Vec<u64>>();
    assert_eq!(
        sum(&ours),
        sum(&theirs),
        "as many blocks as the kernel gives"
    );
    let (ram, fs) = image.mount(options);
    for ((name, content), sectors) in wanted().iter().zip(sectors) {
        let ino = fs.find(name);
        assert_eq!(fs.getattr(ino).expect("stat").sectors, sectors, "{name}");
        assert!(fs.content(ino) == *content, "{name}, as we read it");
        let middle = content.len() as u64 / 2;
        fs.write(ino, middle, &pattern(1, 5000)).expect("write");
    }
    image.end(&fs, &ram);
    let mounted = Mounted::new(&image).expect("it went before");
    for (name, mut content) in wanted() {
        let middle = content.len() / 2;
        content.resize(content.len().max(middle + 5000), 0);
        content[middle..middle + 5000].copy_from_slice(&pattern(1, 5000));
        let found = std::fs::read(mounted.point.join(name)).expect("read");
        assert!(
            found == content,
            "{name}, as the kernel reads it at the end"
        );
    }
    mounted.unmount();
    image.fsck();
}

#[test]
fn ordered() {
    with_kernel(&[], "");
}

#[test]
fn writeback() {
    with_kernel(&[], "data=writeback");
}

#[test]
fn journal() {
    with_kernel(&["-J", "size=4"], "data=journal");
}

#[test]
fn without_journal() {
    with_kernel(&["-O", "^has_journal"], "scheme=none");
}

#[test]
fn sizes_and_errors() {
    if !have_tools() {
        return;
    }
    let image = Image::new(16, &[]);
    let (ram, fs) = image.mount("");
    let ino = create(&fs, "f");
    let size = || fs.getattr(ino).expect("stat").size;
    let sectors = || fs.getattr(ino).expect("stat").sectors;
    let all = FallocateMode::Allocate;
    fs.fallocate(ino, all, 4095, 2).expect("fallocate");
    assert_eq!((size(), sectors()), (4097, 16));
    fs.fallocate(ino, all, 0, 10).expect("nothing to do");
    assert_eq!((size(), sectors()), (4097, 16));
    fs.fallocate(ino, FallocateMode::KeepSize, 0, 40_960)
        .expect("beyond the end");
    assert_eq!((size(), sectors()), (4097, 80));
    fs.resize(ino, 5000).expect("truncate");
    assert_eq!(sectors(), 80, "growing keeps the blocks");
    fs.resize(ino, 5000).expect("truncate");
    assert_eq!(sectors(), 16, "a truncation to the size gives them up");
    fails(fs.fallocate(ino, all, (1 << 44) - 4096, 1), Errno::FBig);
    fails(fs.fallocate(ino, all, u64::MAX, 2), Errno::FBig);
    fails(fs.fallocate(ino, all, 0, 0), Errno::Inval);
    fails(fs.fallocate(fs.root(), all, 0, 1), Errno::IsDir);
    fails(
        fs.fallocate(ino, FallocateMode::Unshare, 0, 1),
        Errno::NotSup,
    );
    for moves in [FallocateMode::CollapseRange, FallocateMode::InsertRange] {
        fails(fs.fallocate(ino, moves, 0, 1), Errno::Inval);
        fails(fs.fallocate(ino, moves, 8192, 4096), Errno::Inval);
    }
    fails(fs.fallocate(ino, all, 0, 1 << 30), Errno::NoSpc);
    fs.check();
    fs.resize(ino, 0).expect("truncate");
    fs.sync().expect("sync");
    assert_eq!(sectors(), 0);
    image.end(&fs, &ram);
}

#[test]
fn block_maps_have_no_unwritten_blocks() {
    if !have_tools() {
        return;
    }
    let image = Image::new(16, &["-t", "ext3"]);
    let fs = mount(&image.load(), "");
    let ino = create(&fs, "f");
    fails(
        fs.fallocate(ino, FallocateMode::Allocate, 0, 1),
        Errno::NotSup,
    );
    fs.unmount().expect("unmount");
}

/// As in Linux, fallocate can only make holes in a block map: random holes at every level of the
/// map, compared with a copy of the content.
#[test]
fn holes_in_block_maps() {
    if !have_tools() {
        return;
    }
    let image = Image::new(64, &["-t", "ext3", "-b", "1024"]);
    let (ram, fs) = image.mount("");
    let ino = create(&fs, "f");
    let mut rng = base::Rng::named(1, "holes");
    // 1024 * (12 + 256) bytes are direct and single; the second level begins there.
    let mut content = pattern(3, 3_000_000);
    fs.write(ino, 0, &content).expect("write");
    fs.fsync(ino, false).expect("fsync");
    let before = fs.getattr(ino).expect("there").sectors;
    for n in 0..120 {
        let most = [3_000, 60_000, 600_000][n % 3];
        let (from, len) = (rng.below(3_100_000), 1 + rng.below(most));
        fs.fallocate(ino, FallocateMode::PunchHole, from, len)
            .expect("a hole");
        let size = content.len();
        let end = (from + len).min(size as u64) as usize;
        if let Some(part) = content.get_mut(from as usize..end) {
            part.fill(0);
        }
        if n % 4 == 0 {
            let at = rng.below(2_900_000) as usize;
            let new = pattern(n as u64, 5_000);
            fs.write(ino, at as u64, &new).expect("write");
            content[at..at + 5_000].copy_from_slice(&new);
        }
        if n % 7 == 0 {
            fs.sync().expect("sync");
        }
    }
    let mut read = vec![1; content.len()];
    assert_eq!(fs.read(ino, 0, &mut read).expect("read"), content.len());
    assert!(read == content, "the content");
    assert!(fs.getattr(ino).expect("there").sectors < before);
    fs.check();
    image.end(&fs, &ram);
}
