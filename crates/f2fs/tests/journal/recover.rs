//! What was committed is there after a cut, whatever it was; recovery may be cut in turn.

use crate::common::{disk, fsck, mount, sim, volume};
use crate::images;
use base::{BlockNo, Ino, Mutant};
use block::{Class, Queue};
use blockdev::{Image, SpecDisk};
use fscore::{
    Creds, FallocateMode, FileKind, FileSystem, FsResult, RenameMode, SetAttr, XattrMode,
};
use ondisk::f2fs::journal::{JournalArea, JournalSuper, RING_AT};
use ondisk::f2fs::{Features, Superblock};
use rt::{Sim, SimConfig};
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_f2fs::{F2fs, MountOptions};

const RING: u32 = 1024;

/// Everything that a user sees of a volume, by path.
pub type Tree = BTreeMap<String, String>;

fn look(fs: &F2fs, path: &str, ino: Ino, tree: &mut Tree) {
    let a = fs.getattr(ino).expect("attributes");
    let mut text = format!(
        "{:?} {:o} links {} owner {}:{} size {} sectors {} m {:?} c {:?} gen {}",
        a.kind, a.perm, a.nlink, a.uid, a.gid, a.size, a.sectors, a.mtime, a.ctime, a.generation
    );
    for name in fs.listxattr(ino).expect("names") {
        let value = fs.getxattr(ino, &name).expect("a value");
        let sum = base::checksum::crc32c(!0, &value);
        text += &format!(" x{}={}:{sum:x}", name.escape_ascii(), value.len());
    }
    match a.kind {
        FileKind::File => {
            let content = images::read_all(fs, ino);
            text += &format!(" data {:x}", base::checksum::crc32c(!0, &content));
        }
        FileKind::Symlink => {
            let target = fs.readlink(ino).expect("a target");
            text += &format!(" -> {}", target.escape_ascii());
        }
        FileKind::Dir => {
            let mut from = 0;
            loop {
                let some = fs.readdir(ino, from, 64).expect("entries");
                let Some(last) = some.last() else { break };
                from = last.next;
                for entry in some {
                    if !matches!(&entry.name[..], b"." | b"..") {
                        let path = format!("{path}/{}", entry.name.escape_ascii());
                        look(fs, &path, entry.ino, tree);
                    }
                }
            }
        }
        _ => text += &format!(" dev {}", a.rdev),
    }
    tree.insert(path.to_string(), text);
}

pub fn tree(fs: &F2fs) -> Tree {
    let mut tree = Tree::new();
    look(fs, "", fs.root(), &mut tree);
    tree
}

/// Mounts without using the journal: its ring is redone all the same.
fn mount_plain(disk: &Arc<SpecDisk>) -> FsResult<Arc<F2fs>> {
    F2fs::mount(Queue::new(disk.clone()), MountOptions::default())
}

fn make(fs: &F2fs, dir: Ino, name: &str) -> Ino {
    let creds = Creds::default();
    let made = fs.create(dir, name.as_bytes(), FileKind::File, 0o644, 0, creds);
    made.expect("a file").ino
}

fn mkdir(fs: &F2fs, dir: Ino, name: &str) -> Ino {
    let made = fs.mkdir(dir, name.as_bytes(), 0o755, Creds::default());
    made.expect("a directory").ino
}

fn write(fs: &F2fs, ino: Ino, at: u64, seed: u64, len: usize) {
    let data = images::pattern(seed, len);
    assert_eq!(fs.write(ino, at, &data).expect("written"), len);
}

/// What there is before each operation: files of all layouts, a directory of blocks, links, attributes.
fn before(fs: &F2fs) {
    let root = fs.root();
    let small = make(fs, root, "small");
    write(fs, small, 0, 1, 700);
    let big = make(fs, root, "big");
    write(fs, big, 0, 2, 3 << 20);
    let far = make(fs, root, "far");
    write(fs, far, 16 << 20, 3, 9000);
    write(fs, far, 8 << 20, 4, 9000);
    let dir = mkdir(fs, root, "dir");
    let many = mkdir(fs, root, "many");
    for n in 0..400 {
        make(fs, many, &format!("a rather long name of file {n}"));
    }
    make(fs, dir, "victim");
    let kept = make(fs, dir, "kept");
    fs.link(kept, root, b"hard").expect("a link");
    fs.symlink(root, b"soft", b"dir/kept", Creds::default())
        .expect("a link");
    fs.setxattr(big, b"user.one", b"eins", XattrMode::Any)
        .expect("set");
    fs.setxattr(
        small,
        b"user.long",
        &images::pattern(5, 3000),
        XattrMode::Any,
    )
    .expect("set");
}

type Step = (&'static str, fn(&F2fs));

fn find(fs: &F2fs, path: &str) -> Ino {
    path.split('/').fold(fs.root(), |dir, name| {
        fs.lookup(dir, name.as_bytes()).expect("it is there")
    })
}

/// Each kind of operation (f2fsj.md, section 6).
const STEPS: &[Step] = &[
    ("nothing", |_| ()),
    ("create", |fs| {
        make(fs, fs.root(), "new");
    }),
    ("a name of 255 bytes", |fs| {
        make(fs, find(fs, "dir"), &"n".repeat(255));
    }),
    ("mknod", |fs| {
        let creds = Creds::default();
        fs.create(fs.root(), b"node", FileKind::Char, 0o600, 0x0103, creds)
            .expect("made");
        fs.create(fs.root(), b"pipe", FileKind::Fifo, 0o600, 0, creds)
            .expect("made");
    }),
    ("mkdir", |fs| {
        let dir = mkdir(fs, find(fs, "dir"), "below");
        make(fs, dir, "x");
    }),
    ("symlink", |fs| {
        let target = vec![b't'; 3800];
        fs.symlink(fs.root(), b"long", &target, Creds::default())
            .expect("made");
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
        let ino = make(fs, fs.root(), "sparse");
        for at in [0u64, 4 << 20, 9 << 20, 16 << 20, 21 << 20] {
            write(fs, ino, at, at, 5000);
        }
    }),
    ("truncate", |fs| {
        images::truncate(fs, find(fs, "big"), 12_345).expect("cut")
    }),
    ("truncate to nothing", |fs| {
        images::truncate(fs, find(fs, "far"), 0).expect("cut");
    }),
    ("truncate and grow", |fs| {
        images::truncate(fs, find(fs, "far"), 9 << 20).expect("cut");
        images::truncate(fs, find(fs, "far"), 18 << 20).expect("grown");
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
            make(fs, dir, &format!("another of these long names, number {n}"));
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
        let ino = make(fs, fs.root(), "short-lived");
        write(fs, ino, 0, 6, 100_000);
        fs.sync().expect("synced");
        fs.unlink(fs.root(), b"short-lived").expect("gone");
    }),
];

/// What the device has when everything of `step` is committed, and what a user saw then.
fn committed(step: &Step, apart: bool) -> (Image, Tree) {
    sim(3, || {
        let disk = disk(RING, volume(RING), 3);
        let fs = mount(&disk, "");
        before(&fs);
        if apart {
            // Another epoch.
            fs.sync().expect("synced");
        }
        (step.1)(&fs);
        fs.sync().expect("synced");
        let (left, seen) = (disk.snapshot_lost(), tree(&fs));
        fs.unmount().expect("unmounted");
        (left, seen)
    })
}

#[test]
fn every_kind_of_operation_comes_back() {
    for step in STEPS {
        for apart in [true, false] {
            let (content, expected) = committed(step, apart);
            let left = sim(4, || {
                let disk = disk(RING, content.clone(), 4);
                // Read-only first: the same state, and nothing is written.
                let options = MountOptions::parse("ro").expect("valid");
                let fs = F2fs::mount(Queue::new(disk.clone()), options).expect("mounted");
                assert_eq!(tree(&fs), expected, "{}, read-only", step.0);
                fs.unmount().expect("unmounted");
                assert!(disk.visible() == content, "M1: {}", step.0);
                let fs = mount_plain(&disk).expect(step.0);
                let found = fs.journal_recovery().expect("a journal").clone();
                assert_eq!(found.case, 'I', "{}: {}", step.0, found.message);
                assert!(!found.miscounted, "{}: {:?}", step.0, fs.mount_notes());
                assert_eq!(tree(&fs), expected, "{}", step.0);
                fs.check();
                fs.unmount().expect("unmounted");
                disk.visible()
            });
            fsck(RING, &left);
        }
    }
}

/// A cut at any moment of recovery: the next one finds the same state.
#[test]
fn recovery_is_cut_and_begins_anew() {
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
    let (content, expected) = committed(&busy, true);
    let pictures = sim(5, || {
        let disk = disk(RING, content.clone(), 5);
        let task = {
            let disk = disk.clone();
            rt::spawn("recovery", move || {
                let fs = mount_plain(&disk).expect("mounted");
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

fn block(disk: &Arc<SpecDisk>, at: u64) -> Vec<u8> {
    let queue = Queue::new(disk.clone());
    queue.read(BlockNo(at).lba(), 8).expect("read").to_vec()
}

fn put(disk: &Arc<SpecDisk>, at: u64, bytes: Vec<u8>) {
    Queue::new(disk.clone())
        .write_fua(BlockNo(at).lba(), Class::Data, bytes.into())
        .expect("written");
}

/// Hides the journal from a mount, as from somebody who does not know it; or shows it again.
fn forget_journal(disk: &Arc<SpecDisk>, area: Option<JournalArea>) -> JournalArea {
    let mut found = area;
    for at in 0..2 {
        let mut bytes = block(disk, at);
        let mut sb = Superblock::in_block(&bytes).expect("sound");
        match area {
            Some(area) => sb.set_journal(&area),
            None => {
                found = sb.journal().expect("sound");
                sb.clear_journal();
                sb.set_features(sb.features().without(Features::RO));
            }
        }
        sb.encode(&mut bytes);
        put(disk, at, bytes);
    }
    found.expect("a journal")
}

/// Whether what somebody else wrote is found, after epochs of ours were left in the ring.
fn written_by_another(mutant: Option<Mutant>) -> Result<String, String> {
    let step = STEPS.iter().find(|s| s.0 == "create").expect("a step");
    let (content, _) = committed(step, true);
    let config = SimConfig {
        mutant,
        quiet: mutant.is_some(),
        ..SimConfig::seeded(1)
    };
    let outcome = Sim::new(config).run(move || {
        let disk = disk(RING, content, 7);
        let area = forget_journal(&disk, None);
        let fs = mount_plain(&disk).expect("a plain volume");
        make(&fs, fs.root(), "theirs");
        let expected = tree(&fs);
        fs.unmount().expect("unmounted");
        forget_journal(&disk, Some(area));
        let fs = mount_plain(&disk).map_err(|e| e.to_string())?;
        let same = tree(&fs) == expected;
        let found = fs.journal_recovery().expect("a journal").case;
        let notes = fs.mount_notes().concat();
        fs.unmount().map_err(|e| e.to_string())?;
        match same {
            true => Ok(format!("{found} {notes}")),
            false => Err("another state".to_string()),
        }
    });
    match outcome.first_failure {
        Some(failure) => Err(failure.to_string()),
        None => outcome.value.expect("no failure"),
    }
}

#[test]
fn a_ring_is_not_redone_onto_what_another_implementation_wrote() {
    let found = written_by_another(None).expect("their state");
    assert!(
        found.starts_with('E') && found.contains("they are lost"),
        "{found}"
    );
}

/// Whether a volume that was made over is empty, although its ring holds transactions of the one before.
fn made_over(mutant: Option<Mutant>) -> Result<char, String> {
    let step = STEPS.iter().find(|s| s.0 == "create").expect("a step");
    let (old, _) = committed(step, true);
    let config = SimConfig {
        mutant,
        quiet: mutant.is_some(),
        ..SimConfig::seeded(1)
    };
    let outcome = Sim::new(config).run(move || {
        let before = disk(RING, old, 7);
        let disk = disk(RING, volume(RING), 7);
        let sb = Superblock::in_block(&block(&disk, 0)).expect("sound");
        let area = sb.journal().expect("sound").expect("a journal");
        for n in u64::from(RING_AT)..u64::from(area.blocks) {
            put(&disk, area.start + n, block(&before, area.start + n));
        }
        for copy in 0..2 {
            let at = area.super_block(copy);
            let sb = JournalSuper::parse(&block(&disk, at)).expect("sound");
            let sb = JournalSuper {
                clean: false,
                incarnation: sb.incarnation ^ 1 << 40,
                ..sb
            };
            put(&disk, at, sb.encode());
        }
        let fs = mount_plain(&disk).map_err(|e| e.to_string())?;
        let empty = fs.lookup(fs.root(), b"big").is_err();
        let found = fs.journal_recovery().expect("a journal").case;
        fs.unmount().map_err(|e| e.to_string())?;
        match empty {
            true => Ok(found),
            false => Err("files of the volume before".to_string()),
        }
    });
    match outcome.first_failure {
        Some(failure) => Err(failure.to_string()),
        None => outcome.value.expect("no failure"),
    }
}

#[test]
fn transactions_of_another_life_do_not_count() {
    assert_eq!(made_over(None), Ok('G'));
}

#[cfg(feature = "mutants")]
#[test]
fn mutants_of_recovery_are_noticed() {
    let found = written_by_another(Some(Mutant::F2fsjStampIgnored));
    println!(
        "{}: {}",
        Mutant::F2fsjStampIgnored,
        found.expect_err("noticed")
    );
    let found = made_over(Some(Mutant::F2fsjStaleIncarnation));
    println!(
        "{}: {}",
        Mutant::F2fsjStaleIncarnation,
        found.expect_err("noticed")
    );
}
