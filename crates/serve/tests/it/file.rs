//! The file of a device: what it refuses, and that a part of a sector leaves the rest as it was.

use crate::device::{BYTES, Seen, Spy};
use std::sync::Arc;
use varve_serve::Served;
use varve_serve::file::{DEVICE, OneFile};
use vfs::{Errno, FallocateMode, FileSystem, FsError, SetAttr};

fn file(spy: &Arc<Spy>) -> OneFile<Served> {
    OneFile::new(Arc::new(Served::new(spy.clone()).unwrap()))
}

fn errno<T>(outcome: Result<T, FsError>) -> Errno {
    match outcome.map(|_| ()).unwrap_err() {
        FsError::Posix(errno) => errno,
        other => panic!("{other}"),
    }
}

fn sized(size: u64) -> SetAttr {
    SetAttr {
        size: Some(size),
        ..SetAttr::default()
    }
}

#[test]
fn a_file_to_read_only_is_not_changed() {
    let spy = Spy::new(true);
    let file = file(&spy).read_only();
    assert_eq!(errno(file.write(DEVICE, 0, &[1; 512])), Errno::RoFs);
    let hole = FallocateMode::PunchHole;
    assert_eq!(errno(file.fallocate(DEVICE, hole, 0, 4096)), Errno::RoFs);
    assert_eq!(spy.seen(), []);
    assert_eq!(file.getattr(DEVICE).unwrap().perm, 0o444);
}

#[test]
fn the_file_keeps_its_size() {
    let file = file(&Spy::new(true));
    for size in [0, BYTES - 1, BYTES + 512] {
        assert_eq!(errno(file.setattr(DEVICE, &sized(size))), Errno::Perm);
    }
    assert_eq!(file.setattr(DEVICE, &sized(BYTES)).unwrap().size, BYTES);
    assert_eq!(errno(file.write(DEVICE, BYTES, &[1])), Errno::NoSpc);
    assert_eq!(file.write(DEVICE, BYTES - 512, &[1; 1024]).unwrap(), 512);
}

/// Holes end at sectors, because a part of one cannot be discarded.
#[test]
fn a_hole_has_whole_sectors() {
    let spy = Spy::new(true);
    let file = file(&spy);
    for mode in [FallocateMode::PunchHole, FallocateMode::ZeroRangeKeepSize] {
        for (offset, len) in [(1, 1023), (0, 513)] {
            assert_eq!(
                errno(file.fallocate(DEVICE, mode, offset, len)),
                Errno::NotSup
            );
        }
    }
    assert_eq!(spy.seen(), []);
    file.write(DEVICE, 0, &[1; 2048]).unwrap();
    file.fallocate(DEVICE, FallocateMode::PunchHole, 512, 1024)
        .unwrap();
    let bytes = spy.at(0, 4);
    let is = |range: std::ops::Range<usize>, byte| bytes[range].iter().all(|b| *b == byte);
    assert!(is(0..512, 1) && is(512..1536, 0) && is(1536..2048, 1));
}

#[test]
fn a_write_of_a_part_leaves_the_rest_of_its_sectors() {
    let spy = Spy::new(true);
    let file = file(&spy);
    file.write(DEVICE, 0, &[1; 1536]).unwrap();
    file.write(DEVICE, 500, &[2; 600]).unwrap();
    let bytes = spy.at(0, 3);
    let is = |range: std::ops::Range<usize>, byte| bytes[range].iter().all(|b| *b == byte);
    assert!(is(0..500, 1) && is(500..1100, 2) && is(1100..1536, 1));
    let mut read = [0; 700];
    assert_eq!(file.read(DEVICE, 450, &mut read).unwrap(), 700);
    assert!(read[..50] == [1; 50] && read[50..650] == [2; 600] && read[650..] == [1; 50]);
}

#[test]
fn a_sync_of_the_file_is_a_flush() {
    let spy = Spy::new(true);
    let file = file(&spy);
    for data_only in [false, true] {
        file.fsync(DEVICE, data_only).unwrap();
        assert_eq!(spy.seen()[0], Seen::Flush);
    }
    file.sync().unwrap();
    assert_eq!(spy.seen()[0], Seen::Flush);
}
