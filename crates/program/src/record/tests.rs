//! The recorder on a real ext4 in memory, on the model file system, and on a spy.

use super::acks::AckFile;
use super::{ACKS, Fault, RecordError, Recorder, STDOUT, Word, line, load, save, volume};
use crate::apply::complete;
use crate::call::{Attribute, Call, Recording, What, Who};
use crate::tree::{Kind, NodeId, ROOT, Tree};
use base::{Ino, Rng};
use rt::{Mutex, Sim, SimConfig};
use std::sync::Arc;
use testkit::model::ModelFs;
use testkit::spy::{Call as Seen, SpyFs};
use vfs::{
    Creds, Errno, FallocateMode, FileKind, FileSystem, FsResult, RenameMode, Requester, SetAttr,
    XattrMode,
};

const CREDS: Creds = Creds {
    uid: 0,
    gid: 0,
    umask: 0o22,
};
const ROOM: usize = 16 << 20;

fn recorder(below: Arc<dyn FileSystem>) -> Arc<Recorder> {
    Recorder::new(below, ROOM, &[], Box::new(|_| ()))
}

fn ext4() -> Arc<dyn FileSystem> {
    volume(32 << 20, (0, 0)).expect("a volume")
}

/// A recorder that has begun, on an empty ext4.
fn begun() -> Arc<Recorder> {
    let recorder = recorder(ext4());
    recorder.begin().expect("an empty volume");
    recorder
}

fn failing(fault: &str, below: Arc<dyn FileSystem>) -> Arc<Recorder> {
    let faults: Vec<Fault> = vec![fault.parse().expect("a fault")];
    let recorder = Recorder::new(below, ROOM, &faults, Box::new(|_| ()));
    recorder.begin().expect("an empty volume");
    recorder
}

fn file(fs: &dyn FileSystem, name: &str) -> Ino {
    let made = fs.create(fs.root(), name.as_bytes(), FileKind::File, 0o666, 0, CREDS);
    made.expect("a new file").ino
}

fn rename(fs: &dyn FileSystem, from: &str, to: &str, mode: RenameMode) -> FsResult<()> {
    let root = fs.root();
    fs.rename(root, from.as_bytes(), root, to.as_bytes(), mode)
}

fn end(recorder: &Recorder) -> Recording {
    recorder.end().expect("it had room").0
}

fn whats(recording: &Recording) -> Vec<&What> {
    recording.calls.iter().map(|call| &call.what).collect()
}

fn acks(recording: &Recording) -> Vec<&str> {
    crate::state::acknowledged(recording, recording.calls.len())
}

/// The tree of a volume as a new recording would begin with it.
fn tree_of(fs: Arc<dyn FileSystem>) -> Tree {
    let again = recorder(fs);
    again.begin().expect("it has room");
    end(&again).start
}

fn errno<T>(result: FsResult<T>) -> Errno {
    match result {
        Ok(_) => panic!("it succeeded"),
        Err(e) => e.errno(),
    }
}

#[test]
fn r2_a_number_that_is_used_again_is_another_node() {
    let fs = begun();
    let first = file(&*fs, "a");
    fs.write(first, 0, b"one").expect("room");
    fs.unlink(fs.root(), b"a").expect("it is there");
    let second = file(&*fs, "a");
    fs.write(second, 0, b"two").expect("room");
    assert_eq!(first, second, "the file system has used the number again");
    let recording = end(&fs);
    let nodes: Vec<NodeId> = (whats(&recording).into_iter())
        .map(|what| match what {
            What::Create { node, .. } | What::Write { node, .. } | What::Unlink { node, .. } => {
                *node
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let (one, two) = (NodeId(1), NodeId(2));
    assert_eq!(nodes, [one, one, one, two, two]);
    assert_eq!(
        complete(&recording).hash(),
        tree_of(fs.below.clone()).hash()
    );
}

#[test]
fn names_move_and_their_paths_with_them() {
    let fs = begun();
    let root = fs.root();
    let dir = fs.mkdir(root, b"d", 0o777, CREDS).expect("new").ino;
    let a = file(&*fs, "a");
    file(&*fs, "b");
    rename(&*fs, "a", "b", RenameMode::Replace).expect("both are there");
    fs.link(a, dir, b"l").expect("a further name");
    // Both are names of one file, so POSIX moves nothing.
    fs.rename(root, b"b", dir, b"l", RenameMode::Replace)
        .expect("nothing to do");
    file(&*fs, "c");
    rename(&*fs, "b", "c", RenameMode::Exchange).expect("both are there");
    fs.fsync(a, true).expect("a device in memory");
    fs.fsync(dir, false).expect("a device in memory");
    fs.fsync(root, false).expect("a device in memory");
    fs.symlink(dir, b"s", b"../c", CREDS).expect("new");
    fs.rmdir(root, b"none")
        .expect_err("call-C3: it is not there");
    let recording = end(&fs);
    let paths: Vec<&str> = (recording.calls.iter())
        .map(|call| call.path.as_str())
        .collect();
    let expected = [
        "d", "a", "b", "a, b", "b, d/l", "c", "b, c", "c", "d", ".", "d/s",
    ];
    assert_eq!(paths, expected);
    let (d, a, b, c) = (NodeId(1), NodeId(2), NodeId(3), NodeId(4));
    let moves: Vec<_> = (whats(&recording).into_iter())
        .filter_map(|what| match what {
            What::Rename {
                node,
                replaced,
                exchange,
                ..
            } => Some((*node, *replaced, *exchange)),
            _ => None,
        })
        .collect();
    assert_eq!(moves, [(a, Some(b), false), (a, Some(c), true)]);
    let syncs: Vec<_> = (whats(&recording).into_iter())
        .filter_map(|what| match what {
            What::Sync {
                node, data_only, ..
            } => Some((*node, *data_only)),
            _ => None,
        })
        .collect();
    assert_eq!(syncs, [(a, true), (d, false), (ROOT, false)]);
    assert_eq!(
        complete(&recording).hash(),
        tree_of(fs.below.clone()).hash()
    );
}

#[test]
fn the_start_is_what_was_there() {
    let below = ext4();
    let fs = recorder(below.clone());
    let root = fs.root();
    let sparse = file(&*fs, "sparse");
    fs.write(sparse, 5000, b"deep").expect("room");
    fs.write(sparse, 9 << 20, b"deeper").expect("room");
    let dir = fs.mkdir(root, b"d", 0o1777, CREDS).expect("new").ino;
    fs.link(sparse, dir, b"same").expect("a further name");
    fs.symlink(dir, b"s", b"/target", CREDS).expect("new");
    fs.create(dir, b"null", FileKind::Char, 0o666, 0x103, CREDS)
        .expect("new");
    fs.setxattr(sparse, b"user.x", b"value", XattrMode::Any)
        .expect("room");
    for n in 0..600 {
        file(&*fs, &format!("file-{n}"));
    }
    fs.begin().expect("it has room");
    let recording = end(&fs);
    assert!(recording.calls.is_empty(), "what came before is no call");
    let tree = &recording.start;
    let node = |path: &[u8]| {
        let id = tree.find(path).expect("it is there");
        (id, tree.node(id).expect("it is there"))
    };
    let (first, file) = node(b"sparse");
    assert_eq!(node(b"d/same").0, first);
    assert_eq!(file.size, (9 << 20) + 6);
    assert_eq!(file.read(4999, 6), b"\0deep\0");
    assert_eq!(file.pages.len(), 2, "holes take nothing");
    assert_eq!(file.xattrs[&b"user.x"[..]], b"value");
    assert_eq!(node(b"d").1.mode, 0o1755);
    assert_eq!(node(b"d/s").1.kind, Kind::Symlink(b"/target".to_vec()));
    assert_eq!(node(b"d/null").1.kind, Kind::Special(0o020_000, 0x103));
    assert_eq!(tree.nodes().count(), 1 + 1 + 1 + 1 + 1 + 600);
}

#[test]
fn r1_the_notes_of_tasks_that_race_are_in_the_order_of_the_effects() {
    for seed in 0..40 {
        let outcome = Sim::new(SimConfig::random(seed)).run(move || {
            let fs = recorder(SpyFs::new(ModelFs::new()));
            let ino = file(&*fs, "f");
            fs.begin().expect("it has room");
            rt::scope(|scope| {
                for task in 0..3u8 {
                    let fs = &fs;
                    scope.spawn("writer", move || {
                        for _ in 0..4 {
                            fs.write(ino, 0, &[task; 8]).expect("room");
                        }
                    });
                }
            });
            let recording = end(&fs);
            let mut last = [9; 8];
            fs.read(ino, 0, &mut last).expect("it is there");
            let id = recording.start.find(b"f").expect("it is there");
            let tree = complete(&recording);
            assert_eq!(tree.node(id).expect("it").content(), last, "record-R1");
        });
        outcome.unwrap();
    }
}

#[test]
fn r3_what_a_recording_has_no_word_for_is_refused() {
    let fs = begun();
    let ino = file(&*fs, "a");
    fs.write(ino, 0, &[7; 12288]).expect("room");
    for mode in [FallocateMode::CollapseRange, FallocateMode::InsertRange] {
        assert_eq!(errno(fs.fallocate(ino, mode, 0, 4096)), Errno::NotSup);
    }
    let whiteout = RenameMode::Whiteout(CREDS);
    assert_eq!(errno(rename(&*fs, "a", "b", whiteout)), Errno::Inval);
    let flags = fs.file_flags(ino).expect("it is there");
    assert_eq!(errno(fs.set_file_flags(ino, flags)), Errno::NotSup);
    let collapse = FallocateMode::CollapseRange;
    assert_eq!(errno(fs.fallocate(ino, collapse, 0, 4096)), Errno::NotSup);
    let xattr = fs.setxattr(ino, b"nonsense.x", b"1", XattrMode::Any);
    assert_eq!(errno(xattr), Errno::NotSup);
    // A program that fails is told of them, and of no call that failed in another way.
    assert_eq!(errno(fs.unlink(fs.root(), b"none")), Errno::NoEnt);
    assert_eq!(
        errno(rename(&*fs, "none", "b", RenameMode::Replace)),
        Errno::NoEnt
    );
    let told = "fallocate(FALLOC_FL_COLLAPSE_RANGE) of a (2 times), fallocate(FALLOC_FL_INSERT_RANGE) of a, \
                rename(RENAME_WHITEOUT) of a, setxattr(nonsense.x) of a";
    assert_eq!(fs.refused().as_deref(), Some(told));
    let recording = end(&fs);
    assert_eq!(recording.calls.len(), 2);
    assert_eq!(
        complete(&recording).hash(),
        tree_of(fs.below.clone()).hash()
    );
}

#[test]
fn r4_what_does_not_fit_fails_and_all_behind_it() {
    let fs = Recorder::new(ext4(), 20_000, &[], Box::new(|_| ()));
    fs.begin().expect("an empty volume");
    let ino = file(&*fs, "a");
    assert_eq!(fs.write(ino, 0, &[1; 10_000]).expect("room"), 10_000);
    assert_eq!(errno(fs.write(ino, 0, &[2; 10_000])), Errno::Io);
    // There would be room for these.
    assert_eq!(errno(fs.fsync(ino, false)), Errno::Io);
    assert_eq!(errno(fs.unlink(fs.root(), b"a")), Errno::Io);
    let mut byte = [0];
    fs.read(ino, 0, &mut byte).expect("it is there");
    assert_eq!(byte, [1], "nothing of it was carried out");
    let why = fs.end().expect_err("record-R4").to_string();
    assert!(why.contains("--memory") && why.contains("2 calls"), "{why}");

    let fs = Recorder::new(ext4(), 20_000, &[], Box::new(|_| ()));
    fs.begin().expect("an empty volume");
    let acks = fs.lookup(fs.root(), ACKS.as_bytes()).expect("it is there");
    fs.write(acks, 0, &[b'x'; 30_000]).expect("told at the end");
    assert!(fs.end().is_err(), "record-R4: a line without end");

    let below = ext4();
    let big = file(&*below, "big");
    below.write(big, 0, &[1; 30_000]).expect("room");
    let fs = Recorder::new(below, 20_000, &[], Box::new(|_| ()));
    let why = fs.begin().expect_err("record-R4");
    assert!(matches!(why, RecordError::Room { .. }), "{why}");
}

#[test]
fn r5_lines_are_acknowledgements_in_their_order() {
    let said = Arc::new(Mutex::named("said", Vec::new()));
    let echo = Arc::clone(&said);
    let echo = Box::new(move |bytes: &[u8]| echo.lock().extend_from_slice(bytes));
    let fs = Recorder::new(ext4(), ROOM, &[], echo);
    let root = fs.root();
    let acks_file = fs.lookup(root, ACKS.as_bytes()).expect("it is there");
    let stdout = fs.lookup(root, STDOUT.as_bytes()).expect("it is there");
    fs.write(acks_file, 0, b"too early\nand open")
        .expect("taken");
    fs.begin().expect("an empty volume");
    fs.write(acks_file, 99, b"one\r\ntw").expect("taken");
    let ino = file(&*fs, "a");
    fs.write(stdout, 0, b"printed\n").expect("taken");
    fs.write(acks_file, 0, b"o\nthree").expect("taken");
    let size = SetAttr {
        size: Some(0),
        ..SetAttr::default()
    };
    fs.setattr(acks_file, &size).expect("`>` opens it so");
    fs.fsync(ino, false).expect("a device in memory");
    fs.acknowledge("by socket");
    let long = vec![b'x'; 70_000];
    fs.write(acks_file, 0, &long).expect("taken");
    fs.write(acks_file, 0, b"\nlast").expect("taken");
    let recording = end(&fs);
    let all = acks(&recording);
    assert_eq!(
        all[..5],
        ["one", "printed", "two", "three", "by socket"],
        "record-R5"
    );
    let lengths: Vec<usize> = all[5..].iter().map(|line| line.len()).collect();
    assert_eq!((lengths, all[all.len() - 1]), (vec![70_000, 4], "last"));
    let at = |wanted: &dyn Fn(&What) -> bool| {
        let found = whats(&recording).into_iter().position(wanted);
        found.expect("it is noted")
    };
    let made = at(&|what| matches!(what, What::Create { .. }));
    let synced = at(&|what| matches!(what, What::Sync { .. }));
    let two = at(&|what| *what == What::Acknowledge("two".into()));
    assert!(made < two && two < synced, "record-R5");
    assert_eq!(said.lock().as_slice(), b"printed\n");
    let names = fs.readdir(root, 0, 100).expect("it is there");
    assert_eq!(names.len(), 3, "no listing shows the files");
    assert_eq!(AckFile::of(acks_file), Some(AckFile::Acks));
}

#[test]
fn the_files_of_acknowledgements_hold_nothing_and_keep_nothing() {
    let fs = begun();
    let acks_file = fs.lookup(fs.root(), ACKS.as_bytes()).expect("it is there");
    fs.open(acks_file).expect("as any file");
    fs.open_handle(acks_file).expect("as any file");
    let mut byte = [7];
    assert_eq!(fs.read(acks_file, 0, &mut byte).expect("empty"), 0);
    let any = XattrMode::Any;
    assert_eq!(
        errno(fs.setxattr(acks_file, b"user.k", b"v", any)),
        Errno::NotSup
    );
    assert_eq!(errno(fs.removexattr(acks_file, b"user.k")), Errno::NotSup);
    assert_eq!(errno(fs.getxattr(acks_file, b"user.k")), Errno::NoData);
    assert!(fs.listxattr(acks_file).expect("none").is_empty());
    let allocate = FallocateMode::Allocate;
    assert_eq!(
        errno(fs.fallocate(acks_file, allocate, 0, 9)),
        Errno::NotSup
    );
    assert_eq!(
        errno(fs.seek(acks_file, 0, vfs::SeekMode::Data)),
        Errno::NxIo
    );
    fs.fsync(acks_file, false).expect("a shell may ask for it");
    fs.release(acks_file).expect("as any file");
    assert!(end(&fs).calls.is_empty());
}

#[test]
fn r6_one_write_has_one_sync() {
    let syncs = |syncs: &[(bool, bool)]| {
        let fs = begun();
        let ino = file(&*fs, "a");
        for &(write, data_only) in syncs {
            if write {
                fs.write(ino, 0, b"x").expect("room");
            }
            fs.fsync(ino, data_only).expect("a device in memory");
        }
        end(&fs).calls.len() - 1
    };
    assert_eq!(syncs(&[(true, true), (false, true)]), 2, "record-R6");
    assert_eq!(syncs(&[(true, true), (false, false)]), 3, "another sync");
    assert_eq!(syncs(&[(true, true), (true, true)]), 4, "another write");
    assert_eq!(syncs(&[(false, true), (false, true)]), 2, "no write");
}

#[test]
fn a_write_of_nothing_is_no_call() {
    let fs = begun();
    let ino = file(&*fs, "a");
    assert_eq!(fs.write(ino, 5, b"").expect("nothing"), 0);
    assert_eq!(end(&fs).calls.len(), 1);
}

#[test]
fn faults_fail_and_leave_a_note() {
    let spy = SpyFs::new(ModelFs::new());
    let fs = failing("fsync=EIO@2", spy.clone());
    let ino = file(&*fs, "a");
    spy.take();
    fs.fsync(ino, false).expect("the first");
    assert_eq!(errno(fs.fsync(ino, false)), Errno::Io);
    fs.fsync(ino, false).expect("the third");
    let carried = spy.take();
    let syncs = carried.iter().filter(|c| matches!(c, Seen::Fsync { .. }));
    assert_eq!(syncs.count(), 2, "the failed one was not carried out");
    let recording = end(&fs);
    let failures: Vec<_> = whats(&recording)[1..].iter().map(|w| w.failure()).collect();
    assert_eq!(failures, [None, Some(Errno::Io.code()), None], "call-C3");

    let fs = failing("write=ENOSPC@1+:b", ModelFs::new());
    let (a, b) = (file(&*fs, "a"), file(&*fs, "b"));
    fs.write(a, 0, b"x").expect("another path");
    assert_eq!(errno(fs.write(b, 0, b"x")), Errno::NoSpc);
    assert_eq!(fs.getattr(b).expect("it is there").size, 0);
    let (recording, unmet) = fs.end().expect("room");
    assert_eq!((recording.calls.len(), unmet.len()), (4, 0));
    let failed = What::Failed {
        call: Word::Write,
        error: Errno::NoSpc.code(),
        node: Some(NodeId(2)),
        offset: 0,
        len: 1,
    };
    assert_eq!(recording.calls[3].what, failed, "call-C3");
    assert_eq!(line(&recording.calls[3]), "write(b, 1 bytes at 0) = ENOSPC");

    let fs = failing("read=EIO@2", ModelFs::new());
    let (a, mut byte) = (file(&*fs, "a"), [0]);
    fs.read(a, 0, &mut byte).expect("the first");
    assert_eq!(errno(fs.read(a, 0, &mut byte)), Errno::Io);
    let (recording, _) = fs.end().expect("room");
    assert_eq!(line(&recording.calls[1]), "read(a) = EIO");
    let (_, unmet) = failing("rename=EIO@1", ModelFs::new()).end().expect("room");
    assert_eq!(unmet, ["rename=EIO@1"]);
}

#[test]
fn who_made_a_call_is_asked_of_the_host() {
    let fs = begun();
    let ino = file(&*fs, "a");
    let (own, thread) = (rustix::process::getpid(), rustix::thread::gettid());
    let id = |pid: rustix::process::Pid| pid.as_raw_pid() as u32;
    Requester(id(thread)).scope(|| fs.write(ino, 0, b"x").expect("room"));
    Requester(0).scope(|| fs.write(ino, 0, b"x").expect("room"));
    let recording = end(&fs);
    let who = &recording.calls[1].who;
    assert_eq!((who.process, who.thread), (id(own), id(thread)));
    assert!(!who.program.is_empty());
    assert_eq!(recording.calls[2].who, Who::default(), "the kernel");
}

/// Random calls of every kind, and what they leave by the recording and by the volume.
#[test]
fn what_is_noted_makes_the_tree_that_is_there() {
    for seed in 0..12 {
        let fs = begun();
        let mut rng = Rng::named(seed, "calls");
        for _ in 0..1000 {
            // Many fail: names that are not there, directories in the way.
            let _ = random_call(&*fs, &mut rng);
        }
        let recording = end(&fs);
        assert!(recording.calls.len() > 100, "seed {seed}");
        let tree = complete(&recording);
        assert_eq!(tree.hash(), tree_of(fs.below.clone()).hash(), "seed {seed}");
        let again = load(&save(&recording).expect("memory")).expect("what was saved");
        assert_eq!(again.calls, recording.calls);
        assert_eq!(complete(&again).hash(), tree.hash());
    }
}

fn random_call(fs: &dyn FileSystem, rng: &mut Rng) -> FsResult<()> {
    let root = fs.root();
    let dir = match rng.below(3) {
        0 => root,
        n => fs
            .lookup(root, if n == 1 { b"d" } else { b"e" })
            .unwrap_or(root),
    };
    let name = [b'a' + rng.below(6) as u8];
    let other = [b'a' + rng.below(6) as u8];
    let at = rng.below(20_000);
    match rng.below(16) {
        0 => fs
            .create(dir, &name, FileKind::File, 0o666, 0, CREDS)
            .map(|_| ())?,
        1 => fs.mkdir(dir, &name, 0o777, CREDS).map(|_| ())?,
        2 => fs.symlink(dir, &name, b"target", CREDS).map(|_| ())?,
        3 => fs.unlink(dir, &name)?,
        4 => fs.rmdir(dir, &name)?,
        5 => {
            let modes = [
                RenameMode::Replace,
                RenameMode::NoReplace,
                RenameMode::Exchange,
            ];
            // vfs-V3 is not ours to keep, so directories stay where they are.
            if !fs.getattr(fs.lookup(dir, &name)?)?.kind.is_dir() {
                fs.rename(dir, &name, root, &other, modes[rng.below(3) as usize])?;
            }
        }
        6 => fs.link(fs.lookup(dir, &name)?, root, &other).map(|_| ())?,
        7 => {
            let set = SetAttr {
                size: Some(at),
                ..SetAttr::default()
            };
            fs.setattr(fs.lookup(dir, &name)?, &set).map(|_| ())?;
        }
        8 => {
            let set = SetAttr {
                perm: Some(rng.below(0o10000) as u16),
                uid: Some(rng.below(3) as u32),
                ..SetAttr::default()
            };
            fs.setattr(fs.lookup(dir, &name)?, &set).map(|_| ())?;
        }
        9 => fs.setxattr(fs.lookup(dir, &name)?, b"user.k", &name, XattrMode::Any)?,
        10 => fs.removexattr(fs.lookup(dir, &name)?, b"user.k")?,
        11 => {
            let modes = [
                FallocateMode::Allocate,
                FallocateMode::KeepSize,
                FallocateMode::PunchHole,
                FallocateMode::ZeroRange,
            ];
            let mode = modes[rng.below(4) as usize];
            fs.fallocate(fs.lookup(dir, &name)?, mode, at, 1 + rng.below(9000))?;
        }
        12 => fs.fsync(fs.lookup(dir, &name)?, rng.below(2) == 0)?,
        _ => {
            let data = vec![rng.below(256) as u8; 1 + rng.below(9000) as usize];
            fs.write(fs.lookup(dir, &name)?, at, &data)?;
        }
    }
    Ok(())
}

#[test]
fn acls_are_noted_with_what_brings_them() {
    // One user more than the mode has: version 2, user::rwx, user:1:rw-, group::r-x, mask::rwx,
    // other::---.
    let entry = |tag: u16, perm: u16, id: u32| {
        [
            &tag.to_le_bytes()[..],
            &perm.to_le_bytes(),
            &id.to_le_bytes(),
        ]
        .concat()
    };
    let none = u32::MAX;
    let acl = [
        2u32.to_le_bytes().to_vec(),
        entry(1, 7, none),
        entry(2, 6, 1),
        entry(4, 5, none),
        entry(16, 7, none),
        entry(32, 0, none),
    ]
    .concat();
    let fs = begun();
    let dir = fs.mkdir(fs.root(), b"d", 0o777, CREDS).expect("new").ino;
    let default = b"system.posix_acl_default";
    fs.setxattr(dir, default, &acl, XattrMode::Any)
        .expect("an ACL");
    let made = fs.create(dir, b"f", FileKind::File, 0o666, 0, CREDS);
    let ino = made.expect("new").ino;
    let set = SetAttr {
        perm: Some(0o640),
        ..SetAttr::default()
    };
    fs.setattr(ino, &set).expect("it is there");
    fs.setxattr(ino, b"system.posix_acl_access", &acl, XattrMode::Any)
        .expect("an ACL");
    let recording = end(&fs);
    let acls = whats(&recording).into_iter().filter(|what| {
        let What::SetAttribute { attribute, .. } = what else {
            return false;
        };
        matches!(attribute, Attribute::Xattr(name, _) if name.starts_with(b"system.posix_acl"))
    });
    assert!(acls.count() >= 4, "{:?}", recording.calls);
    assert_eq!(
        complete(&recording).hash(),
        tree_of(fs.below.clone()).hash()
    );
}

/// A recording with a call of each kind.
fn sample() -> Recording {
    let below = ext4();
    let old = file(&*below, "old");
    below.write(old, 3, b"content").expect("room");
    let fs = recorder(below);
    fs.begin().expect("it has room");
    let mut rng = Rng::named(7, "calls");
    for _ in 0..60 {
        let _ = random_call(&*fs, &mut rng);
    }
    fs.acknowledge("done");
    end(&fs)
}

#[test]
fn a_damaged_file_is_an_error_or_another_recording() {
    let whole = save(&sample()).expect("memory");
    assert!(load(&whole).is_ok());
    assert!(load(b"varve recording 2\n").is_err());
    for len in (0..whole.len()).step_by(7) {
        assert!(load(&whole[..len]).is_err(), "{len} bytes of it");
    }
    let mut longer = whole.clone();
    longer.push(0);
    assert!(load(&longer).is_err());
    let mut rng = Rng::named(1, "damage");
    for _ in 0..2000 {
        let mut damaged = whole.clone();
        for _ in 0..=rng.below(3) {
            let at = rng.below(damaged.len() as u64) as usize;
            damaged[at] = rng.below(256) as u8;
        }
        // Nothing may panic: neither reading, nor what uses what was read.
        if let Ok(recording) = load(&damaged) {
            complete(&recording).hash();
        }
    }
}

#[test]
fn a_recording_that_contradicts_itself_is_refused() {
    let call = |what| Call {
        who: Who::default(),
        what,
        path: String::new(),
        stack: Vec::new(),
    };
    let refused = |what: What, words: &str| {
        let recording = Recording {
            start: Tree::default(),
            calls: vec![call(what)],
        };
        let bytes = save(&recording).expect("memory");
        let why = load(&bytes).expect_err(words).to_string();
        assert!(why.contains(words), "{why}");
    };
    let sync = What::Sync {
        node: NodeId(5),
        data_only: false,
        failed: None,
    };
    refused(sync, "no node 5");
    let size = What::Truncate {
        node: ROOT,
        size: u64::MAX,
        size_before: 0,
    };
    refused(size, "largest file");
    let create = What::CreateUnnamed {
        node: ROOT,
        mode: 0,
        owner: (0, 0),
    };
    refused(create, "made twice");
    let exchange = What::Rename {
        from: (ROOT, b"a".to_vec()),
        to: (ROOT, b"b".to_vec()),
        node: ROOT,
        replaced: None,
        exchange: true,
    };
    refused(exchange, "exchange with nothing");
}
