//! fsync of a file while other tasks write back the same file.

use super::common::{disk, sim, try_mount_alone, volume};
use base::{Ino, Nanos};
use fscore::FileSystem;
use testkit::Brief;
use varve_f2fs::F2fs;

const RING: u32 = 64;
const PAGES: usize = 8;

/// How the file is made durable.
type Sync = fn(&F2fs, Ino);

/// f2fs-journal-I7: pages that another task has taken for write-back, and has not logged yet, are
/// not dirty any more; an fsync waits for that task.
fn waits_for_who_took_the_pages(sync: Sync) {
    let image = volume(RING);
    for seed in 0..60 {
        let image = image.clone();
        sim(seed, move || {
            let device = disk(RING, image, seed);
            let fs = try_mount_alone(&device, "").expect("a mount");
            let ino = fs.file(b"file");
            let version = |n: u8| vec![n; PAGES * 4096];
            fs.write(ino, 0, &version(1)).expect("write");
            fs.fsync(ino, false).expect("fsync");
            fs.write(ino, 0, &version(2)).expect("write");
            let left = rt::scope(|s| {
                let syncer = s.spawn("syncer", || {
                    rt::sleep(Nanos(seed % 7 * 300));
                    sync(&fs, ino);
                    device.snapshot_lost()
                });
                s.spawn("flusher", || {
                    fs.writeback(rt::now() + Nanos(1)).expect("written");
                });
                syncer.join().expect("no panic")
            });
            drop(fs);
            let next = disk(RING, left, seed);
            let fs = try_mount_alone(&next, "").expect("a mount");
            let found = fs.find(b"file");
            let mut read = vec![0; PAGES * 4096];
            fs.read(found, 0, &mut read).expect("read");
            let old = read.chunks(4096).filter(|page| page[0] != 2).count();
            assert_eq!(
                old, 0,
                "f2fs-journal-I7: {old} pages are older than the fsync"
            );
        });
    }
}

#[test]
fn an_fsync_waits_for_who_took_its_pages() {
    waits_for_who_took_the_pages(|fs, ino| fs.fsync(ino, false).expect("fsync"));
}

#[test]
fn an_fdatasync_waits_for_who_took_its_pages() {
    waits_for_who_took_the_pages(|fs, ino| fs.fsync(ino, true).expect("fdatasync"));
}

#[test]
fn a_sync_waits_for_who_took_pages() {
    waits_for_who_took_the_pages(|fs, _| fs.sync().expect("sync"));
}
