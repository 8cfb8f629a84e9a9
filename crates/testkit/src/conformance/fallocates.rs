//! fallocate: sizes, blocks, zeros and errors of plain allocation, with and without a new size. A
//! file system without fallocate (EOPNOTSUPP) passes.

use super::attributes::{BOTH, moves};
use super::{Case, content, fails, ok, open, write_file};
use std::sync::Arc;
use vfs::{Errno, FallocateMode, FsError, OpenFlags, Vfs};

pub(super) const CASES: &[Case] = &[
    ("fallocate: blocks and size", blocks_and_size),
    ("fallocate: the size kept", size_kept),
    ("fallocate: content stays, zeros around it", content_stays),
    ("fallocate: errors", errors),
];

/// True if the file system has fallocate; otherwise there is nothing to check.
fn supported(vfs: &Arc<Vfs>) -> bool {
    let file = open(vfs, "/probe");
    let answer = file.fallocate(FallocateMode::KeepSize, 0, 1);
    ok(file.close(), "close");
    !matches!(answer, Err(FsError::Posix(Errno::NotSup)))
}

fn blocks_and_size(vfs: &Arc<Vfs>) {
    if !supported(vfs) {
        return;
    }
    let file = open(vfs, "/f");
    let allocate = |at, len| {
        ok(
            file.fallocate(FallocateMode::Allocate, at, len),
            "fallocate",
        )
    };
    let stat = || ok(file.stat(), "stat");
    allocate(4095, 2);
    assert_eq!(stat().size, 4097);
    assert!(stat().sectors >= 16, "two blocks");
    assert_eq!(content(&file), vec![0; 4097]);
    allocate(0, 100);
    assert_eq!((stat().size, stat().sectors), (4097, 16), "as before");
    allocate(1 << 20, 1 << 20);
    assert_eq!(stat().size, 2 << 20);
    assert!(stat().sectors >= 16 + 2048);
    assert_eq!(moves(vfs, "/f", || allocate(0, 3 << 20)), BOTH);
    ok(file.truncate(10), "truncate");
    assert_eq!(stat().sectors, 8);
    ok(file.close(), "close");
}

fn size_kept(vfs: &Arc<Vfs>) {
    if !supported(vfs) {
        return;
    }
    write_file(vfs, "/f", b"abc");
    let file = open(vfs, "/f");
    let keep = |at, len| {
        ok(
            file.fallocate(FallocateMode::KeepSize, at, len),
            "fallocate",
        )
    };
    let stat = || ok(file.stat(), "stat");
    keep(0, 40_960);
    assert_eq!(stat().size, 3);
    ok(file.fsync(), "fsync");
    assert!(stat().sectors >= 80);
    assert_eq!(content(&file), b"abc");
    ok(file.truncate(5000), "extend");
    assert!(stat().sectors >= 80, "growing keeps the blocks");
    let mut expected = b"abc".to_vec();
    expected.resize(5000, 0);
    assert_eq!(content(&file), expected);
    ok(file.truncate(5000), "truncate to the size");
    assert_eq!(stat().sectors, 16, "gives up what lies beyond");
    ok(file.close(), "close");
}

fn content_stays(vfs: &Arc<Vfs>) {
    if !supported(vfs) {
        return;
    }
    let file = open(vfs, "/f");
    ok(file.write_at(10_000, &[7; 5000]), "write");
    ok(
        file.fallocate(FallocateMode::Allocate, 0, 100_000),
        "fallocate",
    );
    let mut expected = vec![0; 100_000];
    expected[10_000..15_000].fill(7);
    assert_eq!(content(&file), expected);
    ok(file.fsync(), "fsync");
    for (at, len) in [(0, 1), (50_001, 100), (99_999, 1), (20_000, 20_000)] {
        ok(file.write_at(at as u64, &vec![9; len]), "write");
        expected[at..at + len].fill(9);
        assert_eq!(content(&file), expected);
        ok(file.fdatasync(), "fdatasync");
    }
    assert_eq!(content(&file), expected);
    ok(file.close(), "close");
}

fn errors(vfs: &Arc<Vfs>) {
    if !supported(vfs) {
        return;
    }
    let file = open(vfs, "/f");
    let all = FallocateMode::Allocate;
    fails(file.fallocate(all, 0, 0), Errno::Inval, "no length");
    fails(
        file.fallocate(all, 1 << 63, 1),
        Errno::Inval,
        "negative offset",
    );
    fails(
        file.fallocate(all, (1 << 63) - 1, 1),
        Errno::FBig,
        "end above 2^63-1",
    );
    fails(file.fallocate(all, 1 << 60, 1), Errno::FBig, "too large");
    assert_eq!(ok(file.stat(), "stat").size, 0);
    ok(file.close(), "close");
    let file = ok(vfs.open("/f", OpenFlags::READ, 0), "open");
    fails(file.fallocate(all, 0, 1), Errno::BadF, "opened for reading");
    ok(file.close(), "close");
}
