//! Atomic writes as programs see them: parts, what is beside them, refusals that change nothing.
//! What a cut leaves is tested where the file system is. One without atomic writes passes.

use super::{Case, content, fails, ok, open, write_file};
use base::Bytes;
use std::sync::Arc;
use vfs::{Errno, OpenFlags, Vfs};

pub(super) const CASES: &[Case] = &[
    ("atomic write: parts and what is beside them", parts),
    ("atomic write: what is refused changes nothing", refusals),
];

fn part(at: u64, byte: u8, len: usize) -> (u64, Bytes) {
    (at, Bytes::from(vec![byte; len]))
}

fn parts(vfs: &Arc<Vfs>) {
    if !vfs.has_atomic_writes() {
        return;
    }
    write_file(vfs, "/f", &[1; 5000]);
    let file = open(vfs, "/f");
    let mut expected = vec![1; 5000];
    for round in 0..3_u8 {
        let parts = [
            part(10, 20 + round, 20),
            part(4000, 30 + round, 2000),
            part(4090, 40 + round, 10),
            part(20_000, 50 + round, 4096),
        ];
        ok(file.write_atomic(&parts), "write_atomic");
        expected.resize(24_096, 0);
        for (at, data) in &parts {
            expected[*at as usize..][..data.len()].copy_from_slice(data);
        }
        assert!(content(&file) == expected, "round {round}");
        ok(file.fdatasync(), "fdatasync");
        vfs.drop_caches();
        assert!(content(&file) == expected, "round {round}, read again");
        // The same blocks, written directly.
        ok(file.write_at(4096, &[60 + round; 4096]), "write");
        expected[4096..8192].fill(60 + round);
        ok(file.fdatasync(), "fdatasync");
        assert!(content(&file) == expected, "round {round}, overwritten");
    }
    ok(file.write_atomic(&[]), "no part at all");
    ok(file.close(), "close");
}

fn refusals(vfs: &Arc<Vfs>) {
    if !vfs.has_atomic_writes() {
        return;
    }
    write_file(vfs, "/f", &[1; 5000]);
    let reader = ok(vfs.open("/f", OpenFlags::READ, 0), "open");
    fails(
        reader.write_atomic(&[part(0, 2, 1)]),
        Errno::BadF,
        "a reader",
    );
    ok(reader.close(), "close");
    let file = open(vfs, "/f");
    fails(
        file.write_atomic(&[part(0, 2, 1), part(u64::MAX - 1, 2, 4)]),
        Errno::Inval,
        "beyond all offsets",
    );
    assert!(content(&file) == [1; 5000]);
    let page = Bytes::from(vec![2; 4096]);
    let many: Vec<(u64, Bytes)> = (0..1_000_000).map(|n| (n * 4096, page.clone())).collect();
    assert!(
        file.write_atomic(&many).is_err(),
        "more than a volume here holds"
    );
    assert!(content(&file) == [1; 5000]);
    ok(
        file.write_atomic(&[part(0, 3, 4)]),
        "write_atomic after refusals",
    );
    assert_eq!(content(&file)[..5], [3, 3, 3, 3, 1]);
    ok(file.close(), "close");
}
