//! Flags, access times, whiteouts and holes, set by system calls on ext4 and F2FS: what was
//! accepted is still there after a remount.

use super::place::{Place, VARVE, run, shell};
use rustix::fs::{CWD, RenameFlags, SeekFrom, renameat_with, seek};
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

const KINDS: [&str; 2] = ["ext4", "f2fs"];
const O_NOATIME: i32 = 0o1_000_000;

/// Longer than a tick of the clock of time stamps.
fn tick() {
    std::thread::sleep(Duration::from_millis(20));
}

#[test]
fn a_flag_is_kept_or_refused() {
    for kind in KINDS {
        let place = Place::new(kind);
        place.mount("rw");
        let dir = place.dir();
        let refused = shell(
            &dir,
            "touch f; mkdir d
             chattr +x f
             chattr +x d
             chattr +m f
             xfs_io -c 'chattr +x' f
             chattr -p 7 f",
        );
        let count = refused.matches("Operation not supported").count();
        assert_eq!(count, 5, "{kind}: {refused}");
        let set = shell(&dir, "chattr +dA f; xfs_io -c 'chattr +s' f; chattr +aD d");
        assert!(!set.contains("not supported"), "{kind}: {set}");
        place.umount();
        place.mount("rw");
        let shown = shell(&dir, "lsattr -d f d | tr -d -");
        assert!(shown.contains("SdA"), "{kind}: {shown}");
        assert!(shown.contains("Da"), "{kind}: {shown}");
        let denied = shell(&dir, "chattr +i f\necho x >> f\nrm f\nchmod 600 f");
        let count = denied.matches("not permitted").count();
        assert_eq!(count, 3, "{kind}: {denied}");
        shell(
            &dir,
            "chattr -i f; chattr -a d; echo a > log; chattr +a log",
        );
        // Nothing is known of the file yet.
        place.umount();
        place.mount("rw");
        let log = shell(&dir, "echo b >> log; cat log\necho c > log");
        assert!(log.contains("\na\nb\n->"), "{kind}: {log}");
        assert!(log.contains("not permitted"), "{kind}: {log}");
        place.umount();
        place.judge(kind);
    }
}

#[test]
fn a_rename_leaves_a_whiteout() {
    for kind in KINDS {
        let place = Place::new(kind);
        place.mount("rw");
        let at = |name: &str| place.dir().join(name);
        let rename = |from: &str, to: &str, flags| renameat_with(CWD, at(from), CWD, at(to), flags);
        for name in ["a", "b", "c"] {
            fs::write(at(name), name).expect("room");
        }
        let whiteout = RenameFlags::WHITEOUT;
        rename("a", "moved", whiteout).expect("renamed");
        let both = rename("b", "c", whiteout | RenameFlags::NOREPLACE);
        assert_eq!(both, Err(rustix::io::Errno::EXIST), "{kind}");
        rename("b", "c", whiteout).expect("replaced");
        place.umount();
        place.mount("rw");
        for name in ["a", "b"] {
            let meta = fs::symlink_metadata(at(name)).expect("a whiteout");
            assert!(meta.file_type().is_char_device(), "{kind}: {name}");
            assert_eq!((meta.rdev(), meta.mode() & 0o7777), (0, 0), "{kind}");
        }
        assert_eq!(fs::read(at("moved")).expect("there"), b"a");
        assert_eq!(fs::read(at("c")).expect("there"), b"b");
        place.umount();
        place.judge(kind);
    }
}

#[test]
fn a_hole_lies_between_data() {
    for kind in KINDS {
        let place = Place::new(kind);
        place.mount("rw");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(place.dir().join("f"))
            .expect("a new file");
        for n in [0, 2, 7] {
            file.write_at(&[7; 4096], n * 8192).expect("room");
        }
        let synced = |how: &str| {
            let seek = |from| seek(&file, from).map_err(|e| e.raw_os_error());
            let told = [
                seek(SeekFrom::Hole(0)),
                seek(SeekFrom::Data(4096)),
                seek(SeekFrom::Hole(16_384)),
                seek(SeekFrom::Data(20_480)),
                seek(SeekFrom::Hole(57_344)),
                seek(SeekFrom::Data(61_440)),
            ];
            let wanted = [4096, 16_384, 20_480, 57_344, 61_440].map(Ok);
            assert_eq!(told[..5], wanted, "{kind}, {how}");
            assert_eq!(told[5], Err(6), "{kind}, {how}");
        };
        synced("in the cache");
        file.sync_all().expect("fsync");
        synced("on the volume");
        drop(file);
        place.umount();
    }
}

/// With `writeback` data may be in the kernel alone, which does not send it before it asks for
/// holes: no hole is told where it lies.
#[test]
fn what_the_kernel_has_gathered_is_no_hole() {
    for kind in KINDS {
        let place = Place::new(kind);
        place.mount("writeback");
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create_new(true);
        let file = options.open(place.dir().join("f")).expect("a new file");
        file.set_len(8 << 20).expect("room");
        file.write_all_at(&[7; 4096], 1 << 20).expect("room");
        let data = seek(&file, SeekFrom::Data(1 << 20));
        assert_eq!(data, Ok(1 << 20), "{kind}: the data was taken for a hole");
        let hole = seek(&file, SeekFrom::Hole(1 << 20)).expect("the end is one");
        assert!(hole >= (1 << 20) + 4096, "{kind}: {hole}");
        // What makes the file longer, too, though the volume does not know it yet.
        file.write_all_at(&[7; 4096], 9 << 20).expect("room");
        let data = seek(&file, SeekFrom::Data(9 << 20));
        assert_eq!(data, Ok(9 << 20), "{kind}: beyond what the volume knows");
        drop(file);
        place.umount();
    }
}

fn access(path: &Path) -> (i64, i64) {
    let meta = fs::symlink_metadata(path).expect("stat");
    (meta.atime(), meta.atime_nsec())
}

#[test]
fn a_file_opened_with_o_noatime_keeps_its_access_time() {
    for kind in KINDS {
        let place = Place::new(kind);
        place.mount("strictatime,attr_timeout=0");
        let path = place.dir().join("f");
        fs::write(&path, [7; 9000]).expect("room");
        let read = |flags: i32| {
            tick();
            let before = access(&path);
            let mut options = OpenOptions::new();
            let file = options.read(true).custom_flags(flags).open(&path);
            file.expect("open").read_at(&mut [0; 4], 0).expect("read");
            access(&path) > before
        };
        assert!(!read(O_NOATIME), "{kind}: nothing is cached");
        assert!(read(0), "{kind}: strictatime");
        assert!(!read(O_NOATIME), "{kind}: the kernel has the pages");
        place.umount();
    }
}

#[test]
fn access_times_are_there_after_a_remount() {
    for kind in KINDS {
        for (options, moves) in [
            ("rw", [true, false]),
            ("strictatime,attr_timeout=0", [true, true]),
            ("noatime", [false, false]),
        ] {
            let place = Place::new(kind);
            place.mount(options);
            let path = place.dir().join("f");
            fs::write(&path, b"content").expect("room");
            let mut before = access(&path);
            for moved in moves {
                tick();
                let file = File::open(&path).expect("open");
                file.read_at(&mut [0; 4], 0).expect("read");
                drop(file);
                place.umount();
                place.mount(options);
                let after = access(&path);
                assert_eq!(after > before, moved, "{kind}: {options}");
                before = after;
            }
            place.umount();
        }
    }
}

/// Capabilities go with root's append although the file takes appends only; what somebody wants to
/// set by itself stays, and so does set-user-ID, with which a user cannot append.
#[test]
fn an_append_takes_privileges_away_as_with_the_kernel() {
    // A capability as setcap(8) writes it, revision 2.
    const SCRIPT: &str = "
        for f in root user own; do touch $f; chmod 6777 $f; done
        for f in root user; do setfattr -n security.capability -v 0x0100000200040000000000000000000000000000 $f; done
        chattr +a root user own
        echo x >> root
        getfattr -d -m - root
        stat -c '%a %s' root
        @nobody 'echo x >> user'
        getfattr -d -m - user
        stat -c '%a %s' user
        @nobody 'echo x >> own'
        stat -c '%a %s' own
        chmod 700 own
        chown 1 root
        setfattr -n security.capability -v 0x0100000200040000000000000000000000000000 own
        chattr -a root user own
        setfattr -n security.capability -v 0x0100000200040000000000000000000000000000 own
        chattr +a own
        getfattr -d -m - -e hex own
        exec 7>>own; chattr +i own; echo x >&7
        getfattr -d -m - -e hex own
        chattr -ia own
        stat -c '%a %u %s' own";
    let kernel = Place::foreign(&[]);
    kernel.mount_by_kernel();
    fs::set_permissions(kernel.dir(), Permissions::from_mode(0o777)).expect("ours");
    let expected = shell(&kernel.dir(), SCRIPT);
    kernel.umount_kernel();
    assert!(expected.contains("6777 2"), "root keeps these: {expected}");
    assert!(expected.contains("6777 0"), "a user: {expected}");
    for kind in KINDS {
        let place = Place::new(kind);
        place.mount("allow_other");
        fs::set_permissions(place.dir(), Permissions::from_mode(0o777)).expect("ours");
        assert_eq!(shell(&place.dir(), SCRIPT), expected, "{kind}");
        // No write takes them from a directory.
        let of_dir = "mkdir d; setfattr -n security.capability -v 0x0100000200040000000000000000000000000000 d
            chattr +a d; setfattr -x security.capability d 2>/dev/null || echo refused
            chattr -a d; rmdir d";
        let said = shell(&place.dir(), of_dir);
        assert!(said.contains("\nrefused\n"), "{kind}: {said}");
        place.umount();
        place.judge(kind);
    }
}

/// With `noxattr` the kernel asks for no capability before a write, so the process behind the mount
/// takes it away by itself.
#[test]
fn without_attributes_a_write_takes_capabilities_all_the_same() {
    const SET: &str =
        "setfattr -n security.capability -v 0x0100000200040000000000000000000000000000";
    for kind in KINDS {
        let place = Place::new(kind);
        place.mount("rw");
        let said = shell(
            &place.dir(),
            &format!(
                "for f in written cut allocated appended left; do echo content > $f; chmod 6755 $f; {SET} $f; done
                setfattr -n user.n -v 1 left; setfacl -m u:7:r left; chattr +a appended"
            ),
        );
        assert!(!said.contains("not supported"), "{kind}: {said}");
        place.umount();
        place.mount("noxattr");
        let said = shell(
            &place.dir(),
            "getfattr -d -m - left; getfattr -n user.n left; setfattr -n user.n -v 2 left
            setfattr -x user.n left; setfacl -m u:8:r left
            echo x >> written; truncate -s 1 cut; fallocate -l 9000 allocated; echo x >> appended",
        );
        let count = said.matches("Operation not supported").count();
        assert_eq!(count, 5, "{kind}: {said}");
        assert!(!said.contains("user.n=\""), "{kind}: {said}");
        let (code, remount) = run(VARVE, &["mount", "-o", "remount,ro", &place.at()]);
        assert_eq!(code, 1, "{kind}: {remount}");
        assert!(
            remount.contains("a mount with `noxattr`"),
            "{kind}: {remount}"
        );
        place.umount();
        place.mount("rw");
        let shown = shell(
            &place.dir(),
            "for f in written cut allocated appended left; do getfattr -m security $f 2>/dev/null | grep -q capability && echo $f: kept || echo $f: gone; done
            getfattr -n user.n --only-values left; getfacl -n left | grep user:7
            chattr -a appended",
        );
        for gone in ["written", "cut", "allocated", "appended"] {
            assert!(shown.contains(&format!("{gone}: gone")), "{kind}: {shown}");
        }
        assert!(shown.contains("left: kept"), "{kind}: {shown}");
        assert!(shown.contains("user:7:r--"), "{kind}: {shown}");
        place.umount();
        place.judge(kind);
    }
}
