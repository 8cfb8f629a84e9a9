//! Content of files: offsets, holes, sizes, append, syncs, and open files without a name.

use super::{Case, content, fails, ok, open, read_file, write_file};
use std::sync::Arc;
use vfs::{Errno, OpenFlags, Vfs};

pub(super) const CASES: &[Case] = &[
    ("content: write and read at every alignment", alignments),
    ("content: reads at the end", ends),
    ("content: holes read as zeros", holes),
    ("content: truncate and extend", truncate),
    ("content: extending shows zeros, never old bytes", zero_tail),
    ("content: append", append),
    ("content: file without a name", nameless),
    ("content: largest offsets", offsets),
    ("content: sync calls", syncs),
    ("content: many files at once", many),
];

/// Bytes that differ from their neighbours, also from page to page.
fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (i * 7 + i / 251 + seed * 13 + 1) as u8)
        .collect()
}

fn alignments(vfs: &Arc<Vfs>) {
    let file = open(vfs, "/f");
    let mut reference = Vec::new();
    let spans = [
        (0, 1),
        (1, 4095),
        (4095, 2),
        (4096, 4096),
        (3000, 10_000),
        (8192, 4096),
        (20_000, 1),
        (12_288, 40_000),
        (5, 0),
        (4000, 200),
    ];
    for (seed, (offset, len)) in spans.into_iter().enumerate() {
        let data = pattern(seed, len);
        assert_eq!(ok(file.write_at(offset as u64, &data), "write"), len);
        if len > 0 && reference.len() < offset + len {
            reference.resize(offset + len, 0);
        }
        reference[offset..offset + len].copy_from_slice(&data);
        assert_eq!(content(&file), reference, "after writing {len} at {offset}");
    }
    for (offset, len) in [(0, 1), (4095, 2), (4096, 4096), (1, 30_000)] {
        let mut buf = vec![0xAA; len];
        assert_eq!(ok(file.read_at(offset as u64, &mut buf), "read"), len);
        assert_eq!(buf, reference[offset..offset + len], "{len} at {offset}");
    }
    ok(file.close(), "close");
    assert_eq!(read_file(vfs, "/f"), reference);
}

fn ends(vfs: &Arc<Vfs>) {
    write_file(vfs, "/f", &pattern(0, 5000));
    let file = ok(vfs.open("/f", OpenFlags::READ, 0), "open");
    let mut buf = vec![0xAA; 4096];
    assert_eq!(ok(file.read_at(4096, &mut buf), "read"), 904);
    assert!(
        buf[904..].iter().all(|&b| b == 0xAA),
        "nothing beyond the count"
    );
    assert_eq!(ok(file.read_at(5000, &mut buf), "read at the end"), 0);
    assert_eq!(ok(file.read_at(1 << 40, &mut buf), "read far beyond"), 0);
    assert_eq!(ok(file.read_at(10, &mut []), "empty read"), 0);
    ok(file.close(), "close");
}

fn holes(vfs: &Arc<Vfs>) {
    let file = open(vfs, "/f");
    ok(file.write_at(1 << 20, b"end"), "write after a hole");
    let attr = ok(file.stat(), "stat");
    assert_eq!(attr.size, (1 << 20) + 3);
    ok(file.fsync(), "fsync");
    let sectors = ok(file.stat(), "stat").sectors;
    assert!(
        sectors < 128,
        "a hole takes no space, not {sectors} sectors"
    );
    let mut buf = vec![0xAA; 70_000];
    ok(file.read_at(0, &mut buf), "read of a hole");
    assert!(buf.iter().all(|&b| b == 0));
    ok(file.write_at(8192, &pattern(1, 100)), "write into the hole");
    let all = content(&file);
    assert!(all[..8192].iter().all(|&b| b == 0));
    assert_eq!(all[8192..8292], pattern(1, 100));
    assert!(all[8292..1 << 20].iter().all(|&b| b == 0));
    ok(file.close(), "close");
}

fn truncate(vfs: &Arc<Vfs>) {
    let file = open(vfs, "/f");
    let data = pattern(3, 20_000);
    ok(file.write_at(0, &data), "write");
    for size in [19_999, 12_288, 12_287, 4097, 4096, 1, 0] {
        ok(file.truncate(size), "truncate");
        assert_eq!(content(&file), data[..size as usize], "cut to {size}");
    }
    ok(file.truncate(9000), "extend");
    assert_eq!(content(&file), vec![0; 9000]);
    ok(file.close(), "close");
    ok(vfs.truncate("/f", 5), "truncate by path");
    assert_eq!(ok(vfs.stat("/f"), "stat").size, 5);
    fails(
        vfs.truncate("/", 0),
        Errno::IsDir,
        "truncate of a directory",
    );
}

fn zero_tail(vfs: &Arc<Vfs>) {
    let file = open(vfs, "/f");
    for cut in [1, 511, 4095, 4096, 4097, 8191] {
        ok(file.write_at(0, &pattern(cut, 12_288)), "write");
        ok(file.fdatasync(), "fdatasync");
        ok(file.truncate(cut as u64), "truncate");
        ok(file.truncate(12_288), "extend by truncate");
        let all = content(&file);
        assert_eq!(all[..cut], pattern(cut, 12_288)[..cut]);
        assert!(all[cut..].iter().all(|&b| b == 0), "old bytes after {cut}");
        ok(file.write_at(0, &pattern(cut, 12_288)), "write");
        ok(file.truncate(cut as u64), "truncate");
        ok(file.write_at(12_000, b"x"), "extend by write");
        let all = content(&file);
        assert!(
            all[cut..12_000].iter().all(|&b| b == 0),
            "old bytes after {cut}"
        );
    }
    ok(file.close(), "close");
}

fn append(vfs: &Arc<Vfs>) {
    let flags = OpenFlags::READ_WRITE | OpenFlags::CREATE | OpenFlags::APPEND;
    let log = ok(vfs.open("/log", flags, 0o644), "open");
    let other = open(vfs, "/log");
    ok(log.write_at(0, b"one,"), "append");
    ok(log.write_at(0, b"two,"), "append ignores the offset");
    ok(other.write_at(10, b"X"), "plain write beyond the end");
    assert_eq!(ok(log.append(b"end"), "append"), (11, 3));
    assert_eq!(content(&other), b"one,two,\0\0Xend");
    ok(other.truncate(4), "truncate");
    assert_eq!(ok(log.append(b"!"), "append"), (4, 1));
    ok(log.close(), "close");
    ok(other.close(), "close");
}

fn nameless(vfs: &Arc<Vfs>) {
    let file = open(vfs, "/f");
    let twin = open(vfs, "/f");
    ok(file.write_at(0, b"before"), "write");
    ok(vfs.unlink("/f"), "unlink of an open file");
    fails(vfs.stat("/f"), Errno::NoEnt, "the name is gone");
    assert_eq!(ok(file.stat(), "stat").nlink, 0);
    ok(file.write_at(6, b" after"), "write without a name");
    assert_eq!(content(&twin), b"before after");
    ok(twin.close(), "close of one handle");
    assert_eq!(content(&file), b"before after");
    ok(file.fsync(), "fsync without a name");
    ok(file.truncate(3), "truncate without a name");
    write_file(vfs, "/f", b"new");
    assert_eq!(content(&file), b"bef", "a new file of that name is another");
    assert_ne!(ok(vfs.stat("/f"), "stat").ino, file.ino());
    let old = file.ino();
    ok(file.close(), "close of the last handle");
    fails(vfs.fs().getattr(old), Errno::Stale, "the inode is free");
    assert_eq!(read_file(vfs, "/f"), b"new");
}

fn offsets(vfs: &Arc<Vfs>) {
    let file = open(vfs, "/f");
    let far = (1 << 40) + 4095;
    ok(
        file.write_at(far, b"ab"),
        "write at 1 TiB, over a page's end",
    );
    assert_eq!(ok(file.stat(), "stat").size, far + 2);
    let mut buf = [0xAA; 4];
    assert_eq!(ok(file.read_at(far - 2, &mut buf), "read"), 4);
    assert_eq!(&buf, b"\0\0ab");
    let last = i64::MAX as u64;
    fails(
        file.write_at(last - 1, b"x"),
        Errno::FBig,
        "write at the largest offset",
    );
    fails(
        file.write_at(last, b"x"),
        Errno::Inval,
        "a range that ends beyond 2^63-1",
    );
    fails(
        file.read_at(last + 1, &mut buf),
        Errno::Inval,
        "read beyond 2^63-1",
    );
    fails(
        file.truncate(last),
        Errno::FBig,
        "truncate to the largest offset",
    );
    fails(
        file.truncate(last + 1),
        Errno::Inval,
        "truncate beyond 2^63-1",
    );
    assert_eq!(ok(file.stat(), "stat").size, far + 2, "nothing happened");
    ok(file.truncate(0), "truncate");
    ok(file.close(), "close");
}

fn syncs(vfs: &Arc<Vfs>) {
    let flags = OpenFlags::READ_WRITE | OpenFlags::CREATE;
    for extra in [OpenFlags::NONE, OpenFlags::SYNC, OpenFlags::DSYNC] {
        let file = ok(vfs.open("/f", flags | extra, 0o644), "open");
        ok(file.write_at(0, &pattern(9, 6000)), "write");
        ok(file.fdatasync(), "fdatasync");
        ok(file.fsync(), "fsync");
        ok(file.close(), "close");
    }
    ok(vfs.sync_dir("/"), "fsync of the root");
    ok(vfs.fs().writeback(rt::now()), "writeback");
    ok(vfs.sync(), "sync");
    assert_eq!(vfs.fs().dirty_pages(), 0, "sync leaves no dirty page");
    assert_eq!(read_file(vfs, "/f"), pattern(9, 6000));
}

fn many(vfs: &Arc<Vfs>) {
    let files: Vec<_> = (0..40).map(|i| open(vfs, &format!("/f{i}"))).collect();
    for (i, file) in files.iter().enumerate() {
        ok(file.write_at(0, &pattern(i, 3000 + i * 100)), "write");
    }
    for (i, file) in files.into_iter().enumerate() {
        assert_eq!(content(&file), pattern(i, 3000 + i * 100), "file {i}");
        ok(file.close(), "close");
        if i % 2 == 0 {
            ok(vfs.unlink(format!("/f{i}")), "unlink");
        }
    }
    for i in (1..40).step_by(2) {
        assert_eq!(
            read_file(vfs, &format!("/f{i}")),
            pattern(i, 3000 + i * 100)
        );
    }
}
