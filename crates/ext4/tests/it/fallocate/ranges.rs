//! Every mode of fallocate with writes and truncations between them, in the same order by Varve, by
//! the running kernel and on bytes in memory: errors, sizes and contents are equal, and
//! `e2fsck -fn` finds no fault in either volume.

use crate::common::mounted::Mounted;
use crate::common::{Image, have_tools, pattern};
use base::{Ino, Rng};
use fscore::{Errno, FallocateMode, FileSystem, SeekMode};
use rustix::fs::FallocateFlags as F;
use std::os::unix::fs::FileExt;
use testkit::Brief;
use varve_ext4::Ext4;

const BLOCK: u64 = 4096;
const SIZE_MAX: u64 = 3 << 20;

const MODES: [(FallocateMode, F); 7] = [
    (FallocateMode::Allocate, F::empty()),
    (FallocateMode::KeepSize, F::KEEP_SIZE),
    (FallocateMode::PunchHole, F::PUNCH_HOLE.union(F::KEEP_SIZE)),
    (FallocateMode::ZeroRange, F::ZERO_RANGE),
    (
        FallocateMode::ZeroRangeKeepSize,
        F::ZERO_RANGE.union(F::KEEP_SIZE),
    ),
    (FallocateMode::CollapseRange, F::COLLAPSE_RANGE),
    (FallocateMode::InsertRange, F::INSERT_RANGE),
];

#[derive(Clone, Copy, Debug)]
enum Step {
    Write(u64, usize),
    Truncate(u64),
    Range(usize, u64, u64),
    Sync,
}

fn steps(seed: u64, count: usize) -> Vec<Step> {
    let mut rng = Rng::named(seed, "ranges");
    let mut below = |n: u64| rng.next_u64() % n;
    let mut out = vec![Step::Write(0, 400_000)];
    for _ in 0..count {
        let at = below(SIZE_MAX / 2);
        out.push(match below(10) {
            0..=2 => Step::Write(at, 1 + below(60_000) as usize),
            3 => Step::Truncate(below(SIZE_MAX)),
            4 => Step::Sync,
            _ => {
                let mode = below(MODES.len() as u64) as usize;
                let (at, len) = match mode >= 5 && below(8) > 0 {
                    true => (at / BLOCK * BLOCK, (1 + below(20)) * BLOCK),
                    false => (at, 1 + below(100_000)),
                };
                Step::Range(mode, at, len)
            }
        });
    }
    out
}

fn apply_ours(fs: &Ext4, ino: Ino, step: Step) -> Option<i32> {
    match step {
        Step::Write(at, len) => {
            let data = pattern(at, len);
            assert_eq!(fs.write(ino, at, &data).expect("write"), len);
            None
        }
        Step::Truncate(size) => {
            fs.resize(ino, size).expect("truncate");
            None
        }
        Step::Sync => {
            fs.fsync(ino, false).expect("fsync");
            None
        }
        Step::Range(mode, at, len) => fs
            .fallocate(ino, MODES[mode].0, at, len)
            .err()
            .map(|e| e.errno().code()),
    }
}

fn apply_kernel(file: &std::fs::File, step: Step) -> Option<i32> {
    match step {
        Step::Write(at, len) => file.write_all_at(&pattern(at, len), at).expect("write"),
        Step::Truncate(size) => file.set_len(size).expect("truncate"),
        Step::Sync => file.sync_all().expect("fsync"),
        Step::Range(mode, at, len) => {
            let done = rustix::fs::fallocate(file, MODES[mode].1, at, len);
            return done.err().map(|e| e.raw_os_error());
        }
    }
    None
}

/// Applies a step that did not fail to the bytes.
fn apply_bytes(bytes: &mut Vec<u8>, step: Step) {
    let size = bytes.len();
    match step {
        Step::Write(at, len) => {
            let end = at as usize + len;
            bytes.resize(size.max(end), 0);
            bytes[at as usize..end].copy_from_slice(&pattern(at, len));
        }
        Step::Truncate(to) => bytes.resize(to as usize, 0),
        Step::Sync => {}
        Step::Range(mode, at, len) => {
            let (at, end) = (at as usize, (at + len) as usize);
            match MODES[mode].0 {
                FallocateMode::Allocate => bytes.resize(size.max(end), 0),
                FallocateMode::CollapseRange => drop(bytes.drain(at..end)),
                FallocateMode::InsertRange => {
                    bytes.splice(at..at, std::iter::repeat_n(0, end - at));
                }
                FallocateMode::ZeroRange => {
                    bytes.resize(size.max(end), 0);
                    bytes[at..end].fill(0);
                }
                FallocateMode::PunchHole | FallocateMode::ZeroRangeKeepSize => {
                    let end = end.min(size);
                    bytes[at.min(end)..end].fill(0);
                }
                _ => {}
            }
        }
    }
}

/// Checks that data and holes agree with the content: bytes in holes are zero, and both end at the
/// same place.
fn check_seek(fs: &Ext4, ino: Ino, bytes: &[u8]) {
    let size = bytes.len() as u64;
    let mut at = 0;
    let mut in_holes = 0;
    while at < size {
        let data = match fs.seek(ino, at, SeekMode::Data) {
            Ok(data) => data,
            Err(e) => {
                assert_eq!(e.errno(), Errno::NxIo);
                size
            }
        };
        let hole = &bytes[at as usize..data as usize];
        assert!(hole.iter().all(|&b| b == 0), "a hole at {at}..{data}");
        in_holes += data - at;
        if data == size {
            break;
        }
        let end = fs.seek(ino, data, SeekMode::Hole).expect("the end is one");
        assert!(end > data && end <= size, "{data}..{end} of {size}");
        at = end;
    }
    assert!(in_holes <= size);
    assert_eq!(
        fs.seek(ino, size, SeekMode::Hole)
            .map_err(|e| e.errno())
            .err(),
        Some(Errno::NxIo)
    );
}

fn run(seed: u64, count: usize, options: &str) {
    if !have_tools() {
        return;
    }
    let theirs = Image::new(32, &[]);
    let Some(mounted) = Mounted::new(&theirs) else {
        return;
    };
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(mounted.point.join("f"))
        .expect("create");
    let image = Image::new(32, &[]);
    let (ram, fs) = image.mount(options);
    let ino = fs.file("f");
    fs.open(ino).expect("open");
    let mut bytes = Vec::new();
    for (n, step) in steps(seed, count).into_iter().enumerate() {
        let ours = apply_ours(&fs, ino, step);
        let kernel = apply_kernel(&file, step);
        assert_eq!(ours, kernel, "seed {seed}, step {n}: {step:?}");
        if ours.is_none() {
            apply_bytes(&mut bytes, step);
        }
        let size = fs.getattr(ino).expect("stat").size;
        assert_eq!(size, bytes.len() as u64, "seed {seed}, step {n}: {step:?}");
        if n % 16 == 0 {
            assert!(fs.content(ino) == bytes, "seed {seed}, step {n}: {step:?}");
            check_seek(&fs, ino, &bytes);
        }
    }
    assert!(fs.content(ino) == bytes, "seed {seed}");
    check_seek(&fs, ino, &bytes);
    fs.check();
    fs.release(ino).expect("release");
    image.end(&fs, &ram);
    assert!(image.cat("/f") == bytes, "debugfs reads the same");
    let mut kernel = vec![0; bytes.len()];
    file.read_exact_at(&mut kernel, 0).expect("read");
    assert!(kernel == bytes, "the kernel has the same");
    drop(file);
    mounted.unmount();
    let (_, fs) = image.mount(options);
    assert!(fs.content(fs.find("f")) == bytes, "mounted again");
    fs.unmount().expect("unmount");
}

#[test]
fn as_the_kernel_does() {
    run(1, 150, "");
    run(2, 150, "data=journal");
}

#[test]
#[ignore = "long: 40 seeds of 600 steps"]
fn as_the_kernel_does_for_long() {
    for seed in 10..50 {
        run(
            seed,
            600,
            ["", "data=journal", "data=writeback"][seed as usize % 3],
        );
    }
}
