//! Recovery brings back everything that was committed before a cut, also if recovery itself is cut.

use super::common::{Mistake, disk, fsck, mount, sim, try_mount};
use super::foreign::{
    Before, CREATE, Step, committed, made_over, mount_plain, set_version, tree, write,
    written_by_another,
};
use base::Ino;
use block::Queue;
use blockdev::Image;
use fscore::{Creds, FallocateMode, FileKind, FileSystem, RenameMode, SetAttr, XattrMode};
use testkit::Brief;
use varve_f2fs::{F2fs, MountOptions};

const RING: u32 = 1024;

fn find(fs: &F2fs, path: &str) -> Ino {
    path.split('/').fold(fs.root(), |dir, name| {
        fs.lookup(dir, name.as_bytes()).expect("it is there")
    })
}

/// Each kind of operation (docs/design/f2fsj.md, "What an operation logs").
const STEPS: &[Step] = &[
    ("nothing", |_| ()),
    CREATE,
    ("a name of 255 bytes", |fs| {
        fs.make(find(fs, "dir"), "n".repeat(255)).expect("a file");
    }),
    ("mknod", |fs| {
        let creds = Creds::default();
        fs.create(fs.root(), b"node", FileKind::Char, 0o600, 0x0103, creds)
            .expect("made");
        fs.create(fs.root(), b"pipe", FileKind::Fifo, 0o600, 0, creds)
            .expect("made");
    }),
    ("mkdir", |fs| {
        let dir = fs.make_dir(find(fs, "dir"), "below").expect("a directory");
        fs.make(dir, "x").expect("a file");
    }),
    ("symlink", |fs| {
        let target = vec![b't'; 3800];
        fs.make_link(fs.root(), b"long", &target).expect("made");
    }),
    ("append", |fs| {
        write(fs, find(fs, "big"), 3 << 20, 9, 50_000)
    }),
    ("overwrite", |fs| {
        write(fs, find(fs, "big"), 4096, 9, 100_000)
    }),
    ("inline write", |fs| {
        write(fs, find(fs, "small"), 100, 9, 900)
    }),
    ("inline data leaves the inode", |fs| {
        write(fs, find(fs, "small"), 0, 9, 20_000);
    }),
    ("indirect nodes", |fs| {
        let ino = fs.make(fs.root(), "sparse").expect("a file");
        for at in [0u64, 4 << 20, 9 << 20, 16 << 20, 21 << 20] {
            write(fs, ino, at, at, 5000);
        }
    }),
    ("truncate", |fs| {
        fs.resize(find(fs, "big"), 12_345).expect("cut")
    }),
    ("truncate to nothing", |fs| {
        fs.resize(find(fs, "far"), 0).expect("cut");
    }),
    ("truncate and grow", |fs| {
        fs.resize(find(fs, "far"), 9 << 20).expect("cut");
        fs.resize(find(fs, "far"), 18 << 20).expect("grown");
    }),
    ("punch", |fs| {
        let mode = FallocateMode::PunchHole;
        fs.fallocate(find(fs, "big"), mode, 5000, 1 << 20)
            .expect("punched");
    }),
    ("allocate", |fs| {
        let mode = FallocateMode::Allocate;
        fs.fallocate(find(fs, "big"), mode, 2 << 20, 2 << 20)
            .expect("allocated");
    }),
    ("zero range", |fs| {
        let mode = FallocateMode::ZeroRange;
        fs.fallocate(find(fs, "big"), mode, 4096, 300_000)
            .expect("zeroed");
    }),
    ("unlink", |fs| {
        fs.unlink(find(fs, "dir"), b"victim").expect("gone")
    }),
    ("unlink a large file", |fs| {
        fs.unlink(fs.root(), b"big").expect("gone");
        fs.unlink(fs.root(), b"far").expect("gone");
    }),
    ("unlink what was allocated", |fs| {
        fs.unlink(fs.root(), b"reserved").expect("gone");
    }),
    ("unlink one of two names", |fs| {
        fs.unlink(fs.root(), b"hard").expect("gone");
    }),
    ("unlink all of a directory", |fs| {
        let many = find(fs, "many");
        for n in 0..400 {
            let name = format!("a rather long name of file {n}");
            fs.unlink(many, name.as_bytes()).expect("gone");
        }
        fs.rmdir(fs.root(), b"many").expect("gone");
    }),
    ("unlink what is open", |fs| {
        let ino = find(fs, "big");
        fs.open(ino).expect("opened");
        fs.unlink(fs.root(), b"big").expect("gone");
    }),
    ("link", |fs| {
        fs.link(find(fs, "small"), find(fs, "dir"), b"second")
            .expect("a link");
    }),
    ("rename", |fs| {
        let (root, dir) = (fs.root(), find(fs, "dir"));
        fs.rename(root, b"small", dir, b"moved", RenameMode::Replace)
            .expect("moved");
    }),
    ("rename over", |fs| {
        let (root, dir) = (fs.root(), find(fs, "dir"));
        fs.rename(root, b"big", dir, b"victim", RenameMode::Replace)
            .expect("moved");
    }),
    ("rename a directory", |fs| {
        let (root, dir) = (fs.root(), find(fs, "dir"));
        fs.rename(root, b"many", dir, b"inside", RenameMode::Replace)
            .expect("moved");
    }),
    ("exchange", |fs| {
        let (root, dir) = (fs.root(), find(fs, "dir"));
        fs.rename(root, b"many", dir, b"victim", RenameMode::Exchange)
            .expect("exchanged");
    }),
    ("a directory grows", |fs| {
        let dir = find(fs, "dir");
        for n in 0..300 {
            fs.make(dir, format!("another of these long names, number {n}"))
                .expect("a file");
        }
    }),
    ("setattr", |fs| {
        let set = SetAttr {
            perm: Some(0o4711),
            uid: Some(7),
            gid: Some(8),
            mtime: Some(fscore::TimeSet::To(rt::WallTime { secs: 5, nanos: 6 })),
            ..SetAttr::default()
        };
        fs.setattr(find(fs, "big"), &set).expect("set");
        fs.setattr(find(fs, "many"), &set).expect("set");
    }),
    ("xattr", |fs| {
        let big = find(fs, "big");
        fs.setxattr(big, b"user.two", &[2; 60], XattrMode::Any)
            .expect("set");
        fs.setxattr(big, b"user.three", &[3; 3500], XattrMode::Any)
            .expect("set");
        fs.removexattr(big, b"user.one").expect("removed");
        fs.removexattr(find(fs, "small"), b"user.long")
            .expect("removed");
    }),
    ("made and gone", |fs| {
        let ino = fs.make(fs.root(), "short-lived").expect("a file");
        write(fs, ino, 0, 6, 100_000);
        fs.sync().expect("synced");
        fs.unlink(fs.root(), b"short-lived").expect("gone");
    }),
];

const BEGINS: [Before; 3] = [Before::Beside, Before::Apart, Before::Home];

/// Each kind after one of the beginnings, of which neighbours have different ones.
#[test]
fn every_kind_of_operation_comes_back() {
    every_kind_comes_back(false, |n| &BEGINS[n % 3..=n % 3]);
}

/// Where the ring goes on, unmounting compares what an apply wrote with what there was.
#[test]
fn every_kind_of_operation_comes_back_and_the_ring_goes_on() {
    every_kind_comes_back(true, |n| &BEGINS[(n + 1) % 3..=(n + 1) % 3]);
}

#[test]
#[ignore = "half a minute: each kind of operation after each beginning"]
fn every_kind_of_operation_comes_back_after_each_beginning() {
    for goes_on in [false, true] {
        every_kind_comes_back(goes_on, |_| &BEGINS);
    }
}

/// The `n`-th kind of operation after the beginnings that `begins` tells.
fn every_kind_comes_back(goes_on: bool, begins: fn(usize) -> &'static [Before]) {
    for (n, step) in STEPS.iter().enumerate() {
        for &begin in begins(n) {
            let (content, expected) = committed(step, begin);
            let left = sim(4, || {
                let disk = disk(RING, content.clone(), 4);
                // Read-only first: the same state, and nothing is written.
                let options = MountOptions::parse("ro").expect("valid");
                let fs = F2fs::mount(Queue::new(disk.clone()), options).expect("mounted");
                assert_eq!(tree(&fs), expected, "{}, read-only", step.0);
                fs.unmount().expect("unmounted");
                assert!(disk.visible() == content, "f2fs-mount-M1: {}", step.0);
                let fs = match goes_on {
                    true => mount(&disk, ""),
                    false => mount_plain(&disk).expect(step.0),
                };
                let found = fs.journal_recovery().expect("a journal").clone();
                // Behind the pack there may be where logs have gone on.
                let is_home = step.0 == "nothing" && begin == Before::Home;
                let cases = if is_home { "FI" } else { "I" };
                assert!(cases.contains(found.case), "{}: {}", step.0, found.message);
                assert!(!found.miscounted, "{}: {:?}", step.0, fs.mount_notes());
                // resume-G2.
                let records = super::SCHEME == "scheme=f2fsj";
                let simple = records && step.0 != "unlink what is open";
                let kept = if goes_on && simple { found.epochs } else { 0 };
                assert_eq!(found.kept, kept, "{}", step.0);
                assert_eq!(tree(&fs), expected, "{}", step.0);
                fs.check();
                fs.unmount().expect("unmounted");
                disk.visible()
            });
            fsck(RING, &left);
        }
    }
}

/// A cut at any moment of recovery: the next one finds the same state (recover-R2).
#[test]
fn recovery_is_cut_and_begins_anew() {
    cut_in_recovery(false);
}

/// The same in the life of a ring that goes on, up to its unmount.
#[test]
fn a_ring_that_goes_on_is_cut_and_goes_on_again() {
    cut_in_recovery(true);
}

fn cut_in_recovery(goes_on: bool) {
    let busy: Step = ("busy", |fs| {
        for step in STEPS.iter().filter(|s| {
            [
                "create",
                "append",
                "unlink",
                "rename a directory",
                "a directory grows",
                "xattr",
            ]
            .contains(&s.0)
        }) {
            (step.1)(fs);
            fs.sync().expect("synced");
        }
    });
    let (content, expected) = committed(&busy, Before::Apart);
    let pictures = sim(5, || {
        let disk = disk(RING, content.clone(), 5);
        let task = {
            let disk = disk.clone();
            rt::spawn("recovery", move || {
                let fs = match goes_on {
                    true => mount(&disk, ""),
                    false => mount_plain(&disk).expect("mounted"),
                };
                fs.unmount().expect("unmounted");
            })
        };
        let mut pictures: Vec<Image> = Vec::new();
        while !task.is_finished() {
            let n = pictures.len() as u64;
            for picture in [disk.snapshot(n), disk.snapshot_lost()] {
                if pictures.last() != Some(&picture) {
                    pictures.push(picture);
                }
            }
            rt::sleep(base::Nanos(10_000));
        }
        task.join().expect("no panic");
        pictures
    });
    assert!(pictures.len() > 10, "{}", pictures.len());
    let mut cases = std::collections::BTreeSet::new();
    let stride = (pictures.len() / 24).max(1);
    for (n, picture) in pictures.into_iter().enumerate().step_by(stride) {
        let (left, case) = sim(n as u64, || {
            let next = disk(RING, picture, 6);
            let fs = mount_plain(&next).expect("mounted after a cut in recovery");
            assert_eq!(tree(&fs), expected, "picture {n}");
            let found = fs.journal_recovery().expect("a journal").clone();
            let case = found.case;
            assert!(['I', 'F', 'G'].contains(&case), "{n}: {}", found.message);
            fs.unmount().expect("unmounted");
            (next.visible(), case)
        });
        cases.insert(case);
        if n / stride % 8 == 0 {
            fsck(RING, &left);
        }
    }
    assert!(cases.len() > 1, "before and behind the pack: {cases:?}");
}

/// trim-T5, trim-T6: inodes that went, in the epoch that made them and in later ones.
#[test]
fn inodes_that_are_freed_together_stay_away() {
    let looked_at = super::ends::each(&Mistake::default()).expect("trim-T6");
    assert_eq!(looked_at, 36);
}

/// trim-T6: inodes with neighbouring numbers are one record.
#[test]
fn neighbours_that_go_are_one_record() {
    if super::SCHEME == "scheme=f2fsj" {
        let (freed, records) = super::ends::neighbours();
        assert_eq!(freed, 298);
        assert!(records < 10, "{records} records");
    }
}

/// trim-T7: files that are made and removed in one epoch take no room of a recovery.
#[test]
fn temporary_files_take_no_room_in_recovery() {
    if super::SCHEME == "scheme=f2fsj" {
        assert_eq!(super::ends::temporary_files(), (0, 0), "trim-T7");
    }
}

/// A ring of an older version is recovered by its own rules, and a new life of it begins; what its
/// version does not know is refused.
#[test]
fn a_ring_of_an_older_version_is_recovered_and_begins_anew() {
    use ondisk::f2fs::journal::JournalVersion::{Ordered, Summed, Together};
    let (plain, expected) = committed(&CREATE, Before::Home);
    let removal: Step = ("removal", |fs| {
        fs.unlink(find(fs, "dir"), b"victim").expect("gone");
    });
    let (removed, _) = committed(&removal, Before::Home);
    for version in [Ordered, Summed] {
        sim(4, || {
            let disk = disk(RING, plain.clone(), 4);
            assert_eq!(set_version(&disk, version), Together);
            let fs = mount(&disk, "");
            let found = fs.journal_recovery().expect("a journal").clone();
            assert_eq!((found.case, found.epochs > 0, found.kept), ('I', true, 0));
            assert_eq!(tree(&fs), expected);
            fs.check();
            fs.unmount().expect("unmounted");
            assert_eq!(set_version(&disk, Together), Together, "a new life");
        });
        // A journal of pages has no such record.
        if super::SCHEME == "scheme=f2fsj" {
            sim(4, || {
                let disk = disk(RING, removed.clone(), 4);
                set_version(&disk, version);
                let before = disk.visible();
                let refused = try_mount(&disk, "").map(drop).expect_err("case R");
                let said = refused.to_string();
                assert!(
                    said.contains(&format!("in a ring of version {version}")),
                    "{said}"
                );
                assert!(disk.visible() == before, "f2fs-mount-M1");
            });
        }
    }
}

#[test]
fn a_ring_is_not_redone_onto_what_another_implementation_wrote() {
    let found = written_by_another(&Mistake::default()).expect("their state");
    assert!(
        found.starts_with('E') && found.contains("they are lost"),
        "{found}"
    );
}

#[test]
fn transactions_of_another_life_do_not_count() {
    assert_eq!(made_over(&Mistake::default()), Ok('G'));
}
