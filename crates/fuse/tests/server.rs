//! Tests of the server, driven without a kernel over the model file system.

use base::Nanos;
use rt::{Sim, SimConfig};
use std::sync::Arc;
use testkit::model::ModelFs;
use testkit::spy::{Call, Fault, SpyFs};
use varve_fuse::{Caller, Change, NoCache, OpenMode, Remount, Server};
use vfs::{AccessTimes, Errno, FallocateMode, FileKind, OpenFlags, RenameMode, Vfs};

const ROOT: u64 = 1;
const SUPERUSER: Caller = Caller {
    uid: 0,
    gid: 0,
    umask: 0,
};
const USER: Caller = Caller {
    uid: 1000,
    gid: 1000,
    umask: 0,
};

fn server() -> (Server, Arc<SpyFs>) {
    let spy = SpyFs::new(ModelFs::new());
    let vfs = Vfs::new(spy.clone());
    (
        Server::new(
            vfs,
            Arc::new(NoCache),
            AccessTimes::Relative,
            false,
            Box::new(|_| {}),
        ),
        spy,
    )
}

/// A file with `content`; looked up once, not open.
fn file(server: &Server, name: &[u8], perm: u16, content: &[u8]) -> u64 {
    let mode = OpenMode::default();
    let (attr, open) = (server.create(USER, ROOT, name, perm, mode)).expect("a new name");
    let number = server.number(attr.ino);
    let wrote = server.write(number, open.handle, 0, content, mode, false);
    assert_eq!(wrote, Ok(content.len()));
    server.release(open.handle).expect("open");
    number
}

fn perm(server: &Server, number: u64) -> u16 {
    server.getattr(number).expect("known").perm
}

#[test]
fn an_open_file_without_names_stays_until_it_is_closed_and_forgotten() {
    let (server, _) = server();
    let number = file(&server, b"f", 0o644, b"content");
    assert_eq!(server.lookup(ROOT, b"f").expect("there").size, 7);
    let open = server
        .open(USER, number, OpenMode::default())
        .expect("there");
    assert_eq!(server.known_inodes(), 1);
    server.unlink(ROOT, b"f").expect("there");
    assert_eq!(server.lookup(ROOT, b"f"), Err(Errno::NoEnt));
    // Made and looked up: two lookups. The forget may overtake the release.
    server.forget(number, 2);
    assert_eq!(server.lookup(ROOT, &[b'n'; 256]), Err(Errno::NameTooLong));
    assert_eq!(server.read(number, 0, 100), Ok(b"content".to_vec()));
    assert_eq!(server.getattr(number).expect("open").nlink, 0);
    server.release(open.handle).expect("open");
    assert_eq!(server.known_inodes(), 0);
    assert_eq!(server.getattr(number), Err(Errno::Stale));
}

#[test]
fn the_root_is_number_one_and_whoever_is_one_has_its_number() {
    let (server, _) = server();
    let root = server.vfs().fs().root();
    assert_eq!(server.number(root), ROOT);
    assert_eq!(server.number(base::Ino(1)), u64::from(root.0));
    assert_eq!(server.getattr(ROOT).expect("root").kind, FileKind::Dir);
}

#[test]
fn privileges_go_with_a_change_of_content_or_owner() {
    let (server, _) = server();
    let number = file(&server, b"f", 0o6755, b"x");
    let open = server
        .open(USER, number, OpenMode::default())
        .expect("there");
    let write = |kill| server.write(number, open.handle, 0, b"y", OpenMode::default(), kill);
    assert_eq!(write(false), Ok(1));
    assert_eq!(perm(&server, number), 0o6755, "with CAP_FSETID they stay");
    assert_eq!(write(true), Ok(1));
    assert_eq!(perm(&server, number), 0o755);

    let chmod = |bits| {
        let change = Change {
            perm: Some(bits),
            ..Change::default()
        };
        let attr = server.setattr(SUPERUSER, number, &change).expect("known");
        assert_eq!(attr.perm, bits);
    };
    let cut = Change {
        size: Some(0),
        ..Change::default()
    };
    chmod(0o6755);
    assert_eq!(
        server.setattr(SUPERUSER, number, &cut).expect("known").perm,
        0o6755
    );
    // Set-group-ID without execution by the group is a mark for locks.
    chmod(0o6745);
    assert_eq!(
        server.setattr(USER, number, &cut).expect("known").perm,
        0o2745
    );
    chmod(0o6755);
    let owner = Change {
        uid: Some(7),
        ..Change::default()
    };
    let attr = server.setattr(SUPERUSER, number, &owner).expect("known");
    assert_eq!((attr.perm, attr.uid), (0o755, 7));
    chmod(0o4700);
    let truncate = OpenMode {
        write: true,
        truncate: true,
        ..OpenMode::default()
    };
    server.open(USER, number, truncate).expect("known");
    assert_eq!(perm(&server, number), 0o700);
}

#[test]
fn a_directory_with_the_bit_gives_its_group() {
    let (server, _) = server();
    let dir = (server.mkdir(SUPERUSER, ROOT, b"d", 0o2777)).expect("a new name");
    let number = server.number(dir.ino);
    let change = Change {
        gid: Some(50),
        perm: Some(0o2777),
        ..Change::default()
    };
    server.setattr(SUPERUSER, number, &change).expect("known");
    let below = server.mkdir(USER, number, b"e", 0o755).expect("a new name");
    assert_eq!((below.gid, below.perm), (50, 0o2755));
    let file = (server.mknod(USER, number, b"f", 0o100_644, 0)).expect("a new name");
    assert_eq!((file.uid, file.gid, file.perm), (1000, 50, 0o644));
}

#[test]
fn a_write_to_a_synchronous_file_is_synced_before_the_answer() {
    let (server, spy) = server();
    let number = file(&server, b"f", 0o644, b"");
    let open = server
        .open(USER, number, OpenMode::default())
        .expect("there");
    for (sync, data_sync, wanted) in [
        (false, false, None),
        (true, true, Some(false)),
        (false, true, Some(true)),
    ] {
        spy.take();
        let mode = OpenMode {
            write: true,
            sync,
            data_sync,
            ..OpenMode::default()
        };
        server
            .write(number, open.handle, 0, b"z", mode, false)
            .expect("room");
        let synced = spy.take().into_iter().find_map(|call| match call {
            Call::Fsync { data_only, .. } => Some(data_only),
            _ => None,
        });
        assert_eq!(synced, wanted);
    }
}

/// The kernel asks for no sync behind an allocation or a copy (fuse-U3).
#[test]
fn an_allocation_and_a_copy_are_synced_before_the_answer() {
    let (server, spy) = server();
    let from = file(&server, b"from", 0o644, b"content");
    for (sync, data_sync, wanted) in [
        (false, false, 0),
        (true, true, 1),
        (true, false, 1),
        (false, true, 1),
    ] {
        let mode = OpenMode {
            write: true,
            truncate: true,
            sync,
            data_sync,
            ..OpenMode::default()
        };
        let name = format!("to {sync} {data_sync}");
        let (attr, made) =
            (server.create(USER, ROOT, name.as_bytes(), 0o644, mode)).expect("a new name");
        let number = server.number(attr.ino);
        let opened = server.open(USER, number, mode).expect("there");
        for handle in [made.handle, opened.handle] {
            let syncs = || {
                let calls = spy.take().into_iter();
                let of_it = calls.filter(
                    |call| matches!(call, Call::Fsync { ino, data_only: false } if *ino == attr.ino),
                );
                of_it.count()
            };
            let file = (number, handle);
            let allocated = server.fallocate(USER, file, FallocateMode::Allocate, 0, 4096);
            assert_eq!((allocated, syncs()), (Ok(()), wanted), "{name}");
            let copied = server.copy(USER, (from, 0), (number, handle, 0), 7);
            assert_eq!((copied, syncs()), (Ok(7), wanted), "{name}");
        }
    }
}

/// What each kind of write is answered when the third page of six finds no room, and what the file
/// holds then.
fn without_room(
    write: impl Fn(&Server, u64, u64, &[u8]) -> Result<usize, Errno>,
) -> (Result<usize, Errno>, Vec<u8>) {
    const PAGE: usize = 4096;
    let (server, spy) = server();
    let number = file(&server, b"f", 0o644, &[0; 6 * PAGE]);
    let open = (server.open(USER, number, OpenMode::default())).expect("there");
    spy.set_without_room(2..3);
    // It begins in the middle of the first page.
    let answer = write(&server, number, open.handle, &[1; 5 * PAGE]);
    let content = server.read(number, 0, 6 * PAGE).expect("readable");
    let firsts = (0..6).map(|page| content[page * PAGE + PAGE - 1]);
    (answer, firsts.collect())
}

#[test]
fn a_write_that_fits_in_part_is_answered_so_that_the_kernel_understands() {
    const FROM: u64 = 100;
    let mode = |direct| OpenMode {
        direct,
        ..OpenMode::default()
    };
    let call =
        |direct| without_room(|s, n, h, data| s.write(n, h, FROM, data, mode(direct), false));
    let fits = 2 * 4096 - FROM as usize;
    assert_eq!(call(false), (Ok(fits), vec![1, 1, 0, 0, 0, 0]), "write-W1");
    assert_eq!(call(true).0, Err(Errno::NoSpc), "write-W2");
    let cached = without_room(|s, n, _, data| s.write_cached(n, FROM, data, false));
    let all_others = vec![1, 1, 0, 1, 1, 0];
    assert_eq!(cached, (Err(Errno::NoSpc), all_others), "write-W3");
    let fitting = without_room(|s, n, _, data| s.write_cached(n, 3 * 4096, data, false));
    assert_eq!(fitting.0, Ok(5 * 4096), "write-W3");
}

#[test]
fn each_open_file_is_told_a_failure_once() {
    let (server, spy) = server();
    let number = file(&server, b"f", 0o644, b"x");
    let open = || {
        let opened = server.open(USER, number, OpenMode::default());
        opened.expect("there").handle
    };
    let ino = server.lookup(ROOT, b"f").expect("there").ino;
    let [a, b] = [open(), open()];
    spy.fail_write(ino, Errno::NoSpc.into());
    let before_anybody_was_told = open();
    let fsync = |handle| server.fsync(number, handle, false);
    assert_eq!(fsync(a), Err(Errno::NoSpc));
    let later = open();
    assert_eq!(fsync(a), Ok(()));
    assert_eq!(fsync(later), Ok(()), "opened after somebody was told");
    for handle in [b, before_anybody_was_told] {
        assert_eq!(fsync(handle), Err(Errno::NoSpc));
        assert_eq!(fsync(handle), Ok(()));
    }
    let io = vfs::FsError::Io {
        what: "planted".into(),
        power_lost: false,
    };
    spy.fail_write(ino, io);
    let write = |handle| {
        let mode = OpenMode {
            write: true,
            data_sync: true,
            ..OpenMode::default()
        };
        server.write(number, handle, 0, b"y", mode, false)
    };
    assert_eq!([write(later), write(later)], [Err(Errno::Io), Ok(1)]);
    assert_eq!([fsync(a), fsync(a)], [Err(Errno::Io), Ok(())]);
}

/// A volume for a remount: the model cannot be mounted again, so it is made a second time, with the
/// file of the same number.
fn remounted(name: &[u8]) -> Arc<Vfs> {
    let (again, _) = server();
    file(&again, name, 0o644, b"x");
    again.vfs()
}

/// Who was not told of a failure before a remount is told after it (remount-E3).
#[test]
fn a_remount_keeps_the_failures_that_were_not_told() {
    let (server, spy) = server();
    let number = file(&server, b"f", 0o644, b"x");
    let open = || {
        let opened = server.open(USER, number, OpenMode::default());
        opened.expect("there").handle
    };
    let fsync = |handle| server.fsync(number, handle, false);
    let remount = || server.remount(|| (Some(remounted(b"f")), Ok(())));
    let ino = server.lookup(ROOT, b"f").expect("there").ino;
    let [told, untold] = [open(), open()];
    spy.fail_write(ino, Errno::NoSpc.into());
    assert_eq!(fsync(told), Err(Errno::NoSpc));
    for _ in 0..2 {
        assert_eq!(remount(), Ok(()));
        assert_eq!(fsync(told), Ok(()), "it was told before");
        assert_eq!(fsync(open()), Ok(()), "opened after somebody was told");
    }
    assert_eq!(fsync(untold), Err(Errno::NoSpc));
    assert_eq!(fsync(untold), Ok(()));
}

/// The mount that follows has failures of its own, and the kind of the last one counts.
#[test]
fn a_remount_adds_the_failures_of_the_mounts() {
    let (server, spy) = server();
    let number = file(&server, b"f", 0o644, b"x");
    let ino = server.lookup(ROOT, b"f").expect("there").ino;
    let open = || {
        let opened = server.open(USER, number, OpenMode::default());
        opened.expect("there").handle
    };
    let fsync = |handle| server.fsync(number, handle, false);
    let [a, b] = [open(), open()];
    spy.fail_write(ino, Errno::NoSpc.into());
    let next = SpyFs::new(ModelFs::new());
    let inside = Vfs::new(next.clone());
    (inside.open("/f", OpenFlags::WRITE | OpenFlags::CREATE, 0o644))
        .and_then(vfs::File::close)
        .expect("the same number");
    assert_eq!(server.remount(|| (Some(inside), Ok(()))), Ok(()));
    let late = open();
    assert_eq!(fsync(late), Err(Errno::NoSpc), "nobody was told");
    let io = vfs::FsError::Io {
        what: "planted".into(),
        power_lost: false,
    };
    next.fail_write(ino, io);
    assert_eq!([fsync(a), fsync(b), fsync(late)], [Err(Errno::Io); 3]);
    let last = open();
    assert_eq!([fsync(a), fsync(b), fsync(late), fsync(last)], [Ok(()); 4]);
}

/// A remount that panics is a request that panics (fuse-U2), wherever it does.
#[test]
fn a_remount_that_panics_ends_everything() {
    let planted = |words: &str| -> Result<Remount, String> {
        assert_ne!(words, "read", "planted");
        Ok(Remount {
            access_times: AccessTimes::Never,
            again: Box::new(|| panic!("planted")),
        })
    };
    for words in ["read", "mounted"] {
        let (server, spy) = server();
        file(&server, b"f", 0o644, b"x");
        server.remount_by(Box::new(planted));
        let name = format!("{}{words}", varve_fuse::REMOUNT_XATTR);
        let answer = server.getxattr(ROOT, name.as_bytes()).expect("a reason");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.contains("planted"), "{answer}");
        assert_eq!(server.getattr(ROOT), Err(Errno::Io), "{words}");
        spy.take();
        assert!(server.shut_down().is_err());
        assert_eq!(spy.take(), [], "the volume is left for recovery");
    }
}

#[test]
fn acls_are_refused_where_nobody_obeys_them() {
    let (server, _) = server();
    let number = file(&server, b"f", 0o644, b"x");
    let set = |name: &[u8]| {
        let mode = vfs::XattrMode::Any;
        server.setxattr(SUPERUSER, &Vec::new, number, name, b"value", mode)
    };
    assert_eq!(set(b"system.posix_acl_access"), Err(Errno::NotSup));
    assert_eq!(set(b"system.posix_acl_default"), Err(Errno::NotSup));
    assert_eq!(set(b"user.x"), Ok(()));
}

#[test]
fn entries_with_attributes_are_lookups() {
    let (server, _) = server();
    for name in [&b"a"[..], b"b", b"c"] {
        let number = file(&server, name, 0o600, b"1");
        server.forget(number, 1);
    }
    assert_eq!(server.known_inodes(), 0);
    let entries = server.readdir_plus(ROOT, 0, 100).expect("a directory");
    let with_attr: Vec<_> = entries
        .iter()
        .filter_map(|(_, attr)| attr.as_ref())
        .collect();
    assert_eq!(
        (entries.len(), with_attr.len(), server.known_inodes()),
        (5, 3, 3)
    );
    for attr in with_attr {
        server.forget(server.number(attr.ino), 1);
    }
    assert_eq!(server.known_inodes(), 0);
    let plain = server
        .readdir(ROOT, entries[1].0.next, 100)
        .expect("a directory");
    assert_eq!(plain.len(), 3);
}

#[test]
fn names_move_and_copies_end_with_the_source() {
    let (server, _) = server();
    let content: Vec<u8> = (0..3_000_000u32).map(|i| (i / 7) as u8).collect();
    let from = file(&server, b"from", 0o600, &content);
    let to = file(&server, b"to", 0o600, b"0123456789");
    let copied = server.copy(USER, (from, 5), (to, 0, 4), 1 << 40);
    assert_eq!(copied, Ok(content.len() - 5));
    let read = server.read(to, 0, content.len()).expect("known");
    assert_eq!(&read[..4], b"0123");
    assert!(read[4..] == content[5..]);
    assert_eq!(
        server.rename((ROOT, b"from"), (ROOT, b"to"), RenameMode::NoReplace),
        Err(Errno::Exist)
    );
    (server.rename((ROOT, b"from"), (ROOT, b"to"), RenameMode::Exchange)).expect("both there");
    let found = server.lookup(ROOT, b"to").expect("there");
    assert_eq!(server.number(found.ino), from);
    assert_eq!(
        server.write(to, 0, u64::MAX, b"x", OpenMode::default(), false),
        Err(Errno::FBig)
    );
}

#[test]
fn the_end_gives_every_pin_back() {
    let (server, _) = server();
    let number = file(&server, b"f", 0o600, b"gone");
    let open = server
        .open(USER, number, OpenMode::default())
        .expect("there");
    server.unlink(ROOT, b"f").expect("there");
    // The kernel has forgotten nothing and closed nothing.
    assert_eq!(server.shut_down(), Ok(()));
    assert_eq!(server.known_inodes(), 0);
    assert_eq!(server.getattr(ROOT), Err(Errno::Shutdown));
    assert_eq!(
        server.fsync(number, open.handle, false),
        Err(Errno::Shutdown)
    );
}

/// A volume without room on which the file behind the first number was removed, and which has room
/// 5 ms after this; a second file is there.
fn full_with_a_removed_file(open: bool) -> (Arc<Server>, Arc<SpyFs>, u64) {
    let (server, spy) = server();
    let server = Arc::new(server);
    let gone = file(&server, b"gone", 0o600, b"1");
    let other = file(&server, b"other", 0o600, b"1");
    let handle = open.then(|| {
        let open = server.open(USER, gone, OpenMode::default());
        open.expect("there").handle
    });
    server.unlink(ROOT, b"gone").expect("there");
    spy.plant(Some(Fault::Room(0)));
    let (kernel, volume) = (Arc::clone(&server), Arc::clone(&spy));
    rt::spawn("kernel", move || {
        rt::sleep(Nanos::from_millis(5));
        volume.plant(None);
        if let Some(handle) = handle {
            kernel.release(handle).expect("open");
        }
        kernel.forget(gone, 1);
    });
    (server, spy, other)
}

/// ends-N1.
#[test]
fn a_write_without_room_waits_for_the_end_of_a_removed_file() {
    for open in [false, true] {
        let outcome = Sim::new(SimConfig::default()).run(move || {
            let (server, _, other) = full_with_a_removed_file(open);
            let written = server.write(other, 0, 0, b"12", OpenMode::default(), false);
            assert_eq!(written, Ok(2));
            assert_eq!(server.write_cached(other, 2, b"3", false), Ok(1));
        });
        outcome.unwrap();
    }
}

/// ends-N1: a file that stays open holds a writer up for half a second, and no longer.
#[test]
fn a_write_without_room_does_not_wait_for_a_file_that_stays_open() {
    let outcome = Sim::new(SimConfig::default()).run(|| {
        let (server, spy) = server();
        let number = file(&server, b"f", 0o600, b"1");
        let open = server.open(USER, number, OpenMode::default());
        open.expect("there");
        server.unlink(ROOT, b"f").expect("there");
        spy.plant(Some(Fault::Room(0)));
        let before = rt::now();
        let written = server.write(number, 0, 0, b"12", OpenMode::default(), false);
        assert_eq!(written, Err(Errno::NoSpc));
        assert!(rt::now() - before < Nanos::from_millis(600));
    });
    outcome.unwrap();
}

/// ends-N2.
#[test]
fn the_last_thread_does_not_wait_for_a_forget_that_only_it_can_read() {
    let outcome = Sim::new(SimConfig::default()).run(|| {
        let (server, _, other) = full_with_a_removed_file(false);
        server.room_waiters(0);
        let before = rt::now();
        let written = server.write(other, 0, 0, b"12", OpenMode::default(), false);
        assert_eq!((written, rt::now()), (Err(Errno::NoSpc), before));
    });
    outcome.unwrap();
}

/// ends-N3.
#[test]
fn a_sync_that_finds_no_room_is_not_tried_again() {
    let outcome = Sim::new(SimConfig::default()).run(|| {
        let (server, spy, other) = full_with_a_removed_file(false);
        spy.plant(None);
        let mode = OpenMode {
            write: true,
            sync: true,
            ..OpenMode::default()
        };
        let handle = server.open(USER, other, mode).expect("there").handle;
        let ino = server.getattr(other).expect("known").ino;
        spy.fail_write(ino, Errno::NoSpc.into());
        let written = server.write(other, handle, 0, b"12", mode, false);
        assert_eq!(written, Err(Errno::NoSpc));
    });
    outcome.unwrap();
}

/// Each look for a name searches a directory.
#[test]
fn a_removal_looks_for_its_name_once() {
    let (server, spy) = server();
    for name in [b"a", b"b", b"c"] {
        file(&server, name, 0o644, b"");
    }
    server.mkdir(USER, ROOT, b"d", 0o755).expect("a new name");
    spy.take_lookups();
    server.unlink(ROOT, b"a").expect("there");
    assert_eq!(spy.take_lookups(), 1, "unlink");
    server.rmdir(ROOT, b"d").expect("there");
    assert_eq!(spy.take_lookups(), 1, "rmdir");
    let names = ((ROOT, &b"b"[..]), (ROOT, &b"c"[..]));
    let replaced = server.rename(names.0, names.1, RenameMode::Replace);
    replaced.expect("both are there");
    assert_eq!(spy.take_lookups(), 2, "rename: the source, and the target");
}
