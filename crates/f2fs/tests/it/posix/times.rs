//! Access times.

use super::{KINDS, after_power_cut, volume};
use crate::common::{end, fresh, mount};
use base::Ino;
use fscore::{FileFlags, FileSystem, SetAttr, TimeSet};
use testkit::Brief;
use testkit::posix::{ROOT, file};
use varve_f2fs::F2fs;

/// The access time of an inode, and the time of its last change.
fn times(fs: &F2fs, ino: Ino) -> (rt::WallTime, rt::WallTime) {
    let attr = fs.getattr(ino).expect("stat");
    (attr.atime, attr.mtime.max(attr.ctime))
}

fn tick() {
    rt::sleep(base::Nanos::from_millis(12));
}

#[test]
fn access_times_are_stored_as_the_options_say() {
    for options in KINDS {
        for word in ["relatime", "strictatime", "noatime"] {
            let ram = volume(options);
            let options = format!("{options},{word}");
            let fs = mount(&ram, &options);
            let root = fs.root();
            let f = file(&*fs, root, "f", 0o644);
            fs.write(f, 0, b"content").expect("write");
            let link = fs.symlink(root, b"l", b"f", ROOT).expect("symlink").ino;
            let quiet = file(&*fs, root, "quiet", 0o644);
            fs.write(quiet, 0, b"content").expect("write");
            let flag = FileFlags::NO_ATIME;
            fs.set_file_flags(quiet, flag).expect("chattr +A");
            fs.sync().expect("sync");
            let read = |ino| fs.read(ino, 0, &mut [0; 3]).expect("read");
            let all = [f, link, root];
            let mut seen = Vec::new();
            for _ in 0..2 {
                tick();
                read(f);
                read(quiet);
                fs.readlink(link).expect("readlink");
                fs.readdir(root, 0, 10).expect("readdir");
                seen.push(all.map(|ino| times(&fs, ino)));
            }
            for (first, second) in seen[0].into_iter().zip(&seen[1]) {
                let moved = (first.0 > first.1, second.0 > first.0);
                let wanted = (word != "noatime", word == "strictatime");
                assert_eq!(moved, wanted, "{options}");
            }
            let (at, changed) = times(&fs, quiet);
            assert!(at <= changed, "{options}: chattr +A");
            // After a sync a cut leaves them.
            fs.sync().expect("sync");
            drop(fs);
            let fs = mount(&ram, &options);
            assert_eq!(all.map(|ino| times(&fs, ino)), seen[1], "{options}");
            tick();
            fs.setattr(
                f,
                &SetAttr {
                    mtime: Some(TimeSet::Now),
                    ..SetAttr::default()
                },
            )
            .expect("touch");
            tick();
            fs.content(f);
            let last = times(&fs, f);
            fs.unmount().expect("unmount");
            let fs = mount(&ram, &options);
            assert_eq!(times(&fs, f), last, "{options}: after an unmount");
            assert_eq!(last.0 > last.1, word != "noatime", "{options}");
            end(&fs, &ram);
        }
    }
}

/// Inodes whose access times wait cannot leave memory, so they do not wait without end.
#[test]
fn many_access_times_are_stored() {
    let ram = fresh(128);
    let fs = mount(&ram, "");
    let dir = fs.mkdir(fs.root(), b"dir", 0o755, ROOT).expect("mkdir").ino;
    let files: Vec<Ino> = (0..6000)
        .map(|n| {
            let f = file(&*fs, dir, &format!("f{n}"), 0o644);
            fs.write(f, 0, b"x").expect("write");
            f
        })
        .collect();
    tick();
    for &f in &files {
        fs.read(f, 0, &mut [0; 1]).expect("read");
    }
    // A cut after a checkpoint that was not asked to store access times.
    fs.fsync(dir, false).expect("a checkpoint");
    drop(fs);
    let fs = mount(&ram, "");
    let stored = files.iter().filter(|&&f| {
        let (at, changed) = times(&fs, f);
        at > changed
    });
    assert!(stored.count() >= 4096);
    fs.unmount().expect("unmount");
}

/// As Linux: what has waited for half a day goes out with the data that write-back is asked for.
#[test]
fn old_access_times_are_stored() {
    for hours in [11, 13] {
        let start = fresh(64).blocks().into_iter().collect();
        let left = after_power_cut(start, KINDS[0], 1, move |fs| {
            let root = fs.root();
            let f = file(fs, root, "f", 0o644);
            fs.write(f, 0, b"content").expect("write");
            fs.sync().expect("sync");
            tick();
            fs.content(f);
            rt::sleep(base::Nanos::from_secs(hours * 3600));
            fs.writeback(rt::now()).expect("write-back");
            fs.fsync(root, false).expect("a checkpoint");
        });
        let fs = mount(&left, "");
        let f = fs.find(b"f");
        let (at, changed) = times(&fs, f);
        assert_eq!(at > changed, hours > 12, "{hours} hours");
        fs.unmount().expect("unmount");
    }
}

#[test]
fn a_volume_that_is_only_read_keeps_its_access_times() {
    let ram = fresh(64);
    let fs = mount(&ram, "");
    let f = file(&*fs, fs.root(), "f", 0o644);
    fs.write(f, 0, b"content").expect("write");
    fs.unmount().expect("unmount");
    let before = ram.blocks();
    let fs = mount(&ram, "ro,strictatime");
    let at = times(&fs, f);
    tick();
    fs.content(f);
    assert_eq!(times(&fs, f), at);
    fs.unmount().expect("unmount");
    assert!(before == ram.blocks(), "nothing was written");
}
