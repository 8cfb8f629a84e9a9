//! What the kernel caches of a mount is never stale: set-user-ID, times, pages, inodes behind file
//! handles (fuse-U6 to fuse-U8).

use super::place::{Place, must, run};
use rustix::fs::OFlags;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

const KINDS: [&str; 2] = ["ext4", "f2fs"];
/// So long that the kernel would answer from what it keeps for as long as the test runs.
const KEEPS: &str = "allow_other,attr_timeout=600";

/// The helper in C, compiled into the folder of `place`.
fn kernel_calls(place: &Place) -> String {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/mount/kernel_calls.c");
    let program = place.folder.path().join("kernel_calls");
    let (source, program) = (source.to_string_lossy(), program.to_string_lossy());
    must("cc", &["-O1", "-o", &program, &source, "-lpthread"]);
    program.to_string()
}

fn as_nobody(script: &str) -> (i32, String) {
    let line = [
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "sh",
        "-c",
        script,
    ];
    run("setpriv", &line)
}

#[test]
fn set_user_id_goes_with_what_an_ordinary_user_does_to_the_content() {
    for kind in KINDS {
        let place = Place::new(kind);
        place.mount(KEEPS);
        let file = place.dir().join("f");
        let name = file.to_string_lossy().to_string();
        let copy = format!("xfs_io -c 'copy_range -s 0 -d 4096 -l 100 {name}' {name}");
        let ways = [
            ("write", format!("echo x >> {name}")),
            ("O_TRUNC", format!(": > {name}")),
            ("truncate", format!("truncate -s 3 {name}")),
            ("fallocate", format!("fallocate -l 9000 {name}")),
            ("punch", format!("fallocate -p -l 4096 {name}")),
            ("copy", copy),
            (
                "direct",
                format!("dd if=/dev/zero of={name} bs=4096 count=1 oflag=direct conv=notrunc"),
            ),
        ];
        for (way, script) in ways {
            fs::write(&file, [7; 8192]).expect("room");
            fs::set_permissions(&file, Permissions::from_mode(0o6777)).expect("ours");
            assert_eq!(fs::metadata(&file).expect("there").mode() & 0o7777, 0o6777);
            let (code, said) = as_nobody(&script);
            assert_eq!(code, 0, "{kind}, {way}: {said}");
            let mode = fs::metadata(&file).expect("there").mode() & 0o7777;
            assert_eq!(mode, 0o777, "{kind}, {way}: the kernel goes by an old mode");
        }
        // Without the right to execute, set-group-ID goes for those outside of the group.
        for (group, mode) in [("0", 0o666), ("65534", 0o2666)] {
            fs::write(&file, b"x").expect("room");
            must("chown", &[&format!("0:{group}"), &name]);
            fs::set_permissions(&file, Permissions::from_mode(0o6666)).expect("ours");
            assert_eq!(as_nobody(&format!("echo x >> {name}")).0, 0, "{kind}");
            let now = fs::metadata(&file).expect("there").mode() & 0o7777;
            assert_eq!(now, mode, "{kind}, group {group}");
        }
        place.umount();
    }
}

/// stat(2) asks for attributes anew behind a write; running a program goes by the mode that the
/// kernel has.
#[test]
fn a_program_with_new_content_does_not_run_as_its_owner() {
    for kind in KINDS {
        let place = Place::new(kind);
        place.mount(KEEPS);
        let name = place.dir().join("id").to_string_lossy().to_string();
        fs::copy("/usr/bin/id", &name).expect("room");
        fs::set_permissions(&name, Permissions::from_mode(0o4777)).expect("ours");
        let runs_as = |script: String| as_nobody(&script).1.trim().to_string();
        assert_eq!(
            runs_as(format!("{name} -u")),
            "0",
            "{kind}: set-user-ID works"
        );
        let appended = format!("echo >> {name} && {name} -u");
        assert_eq!(runs_as(appended), "65534", "{kind}: it ran as its owner");
        place.umount();
    }
}

#[test]
fn chattr_shows_in_the_time_of_change() {
    let place = Place::new("ext4");
    place.mount(KEEPS);
    let file = place.dir().join("f");
    fs::write(&file, b"x").expect("room");
    let at = |file: &PathBuf| {
        let meta = fs::metadata(file).expect("there");
        (meta.ctime(), meta.ctime_nsec())
    };
    let before = at(&file);
    // Longer than a tick of the clock that times are taken from.
    std::thread::sleep(std::time::Duration::from_millis(20));
    must("chattr", &["+A", &file.to_string_lossy()]);
    assert!(at(&file) > before, "ctime has not moved");
    place.umount();
}

#[test]
fn reads_behind_an_asynchronous_direct_write_find_it() {
    for (kind, options) in [("ext4", ""), ("f2fs", ""), ("ext4", "threads=1")] {
        let place = Place::new(kind);
        place.mount(options);
        let program = kernel_calls(&place);
        let file = place.dir().join("f");
        let old = must(&program, &["stale", &file.to_string_lossy(), "1500"]);
        assert_eq!(
            old.trim(),
            "0",
            "{kind}, {options}: rounds with old content"
        );
        place.umount();
    }
}

#[test]
fn file_handles_outlive_what_the_kernel_remembers() {
    for kind in KINDS {
        let place = Place::new(kind);
        place.mount("");
        let program = kernel_calls(&place);
        let (at, dir) = (place.at(), place.dir());
        let handle = |file: &str, command: &str| {
            let command = format!("{command} && sync && echo 2 > /proc/sys/vm/drop_caches");
            must(
                &program,
                &["handle", &at, &format!("{at}/{file}"), &command],
            )
        };
        fs::create_dir(dir.join("d")).expect("a directory");
        fs::write(dir.join("d/f"), b"content").expect("room");
        assert_eq!(handle("d/f", "true"), "content\n", "{kind}");
        assert_eq!(handle("d", "true"), "open\n", "{kind}");
        let renamed = format!("mv {at}/d/f {at}/g");
        assert_eq!(handle("d/f", &renamed), "content\n", "{kind}");
        // The number may be taken anew by then, with another generation.
        let gone = format!("rm {at}/g && echo other > {at}/h");
        assert_eq!(handle("g", &gone), "ESTALE\n", "{kind}");
        place.umount();
    }
}

#[test]
fn reads_that_the_kernel_could_answer_move_the_access_time_where_it_is_due() {
    for (options, moves) in [("strictatime", true), ("", false), ("noatime", false)] {
        let place = Place::new("ext4");
        place.mount(&format!("attr_timeout=0,{options}"));
        let file = place.dir().join("f");
        fs::write(&file, b"x").expect("room");
        let read = || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            fs::read(&file).expect("there");
            let meta = fs::metadata(&file).expect("there");
            (meta.atime(), meta.atime_nsec())
        };
        read();
        let (second, third) = (read(), read());
        assert_eq!(third > second, moves, "{options}: {second:?}, {third:?}");
        place.umount();
    }
}

/// The kernel sends the time of a write, which it has kept, before the answer to an fsync. A file
/// that only grows by appending refuses times that somebody names.
#[test]
fn an_append_to_a_file_that_takes_nothing_else_is_synced() {
    for kind in KINDS {
        let place = Place::new(kind);
        place.mount("writeback");
        let file = place.dir().join("log");
        fs::write(&file, "12345").expect("room");
        let name = file.to_string_lossy().to_string();
        must("sync", &[&name]);
        must("chattr", &["+a", &name]);
        let mut log = fs::File::options().append(true).open(&file).expect("may");
        log.write_all(b"more").expect("may");
        log.sync_all().unwrap_or_else(|e| panic!("{kind}: {e}"));
        drop(log);
        let (code, said) = run("touch", &["-d", "2001-01-01", &name]);
        assert_ne!(code, 0, "{kind}, a time that is named: {said}");
        let when = fs::metadata(&file).expect("there").mtime();
        place.umount();
        place.mount("writeback");
        assert_eq!(fs::read(&file).expect("there"), b"12345more", "{kind}");
        let kept = fs::metadata(&file).expect("there").mtime();
        assert_eq!(kept, when, "{kind}");
        must("chattr", &["-a", &name]);
        place.umount();
    }
}

/// What direct writers and those who cut a file as they open it leave, with pages in the kernel's
/// write-back cache, is what programs were shown.
#[test]
fn a_file_cut_by_an_open_beside_direct_writes_stays_cut() {
    const FILES: usize = 4;
    for kind in KINDS {
        let place = Place::new(kind);
        place.mount("writeback");
        let dir = place.dir();
        let file = move |n: usize| dir.join(format!("f{}", n % FILES));
        for n in 0..FILES {
            fs::write(file(n), "").expect("room");
        }
        let until = Instant::now() + Duration::from_secs(3);
        thread::scope(|scope| {
            for task in 0..3_usize {
                let at = &file;
                scope.spawn(move || {
                    // Memory for direct writes has to lie on a border of pages.
                    let memory = vec![b'A' + task as u8; 17 * 4096];
                    let first = memory.as_ptr().align_offset(4096);
                    for n in (0..).map(|n: usize| n * 2_654_435_761 + task) {
                        let mut options = fs::File::options();
                        let direct = options
                            .write(true)
                            .custom_flags(OFlags::DIRECT.bits() as i32);
                        let direct = direct.open(at(n >> 3)).expect("there");
                        let piece = &memory[first..][..4096 * (1 + (n >> 7) % 15)];
                        let _ = direct.write_all_at(piece, 4096 * ((n >> 12) as u64 % 512));
                        if Instant::now() > until {
                            return;
                        }
                    }
                });
                scope.spawn(move || {
                    for n in (0..).map(|n: usize| n * 2_246_822_519 + task) {
                        let mut options = fs::File::options();
                        let flags = [0, OFlags::TRUNC.bits() as i32][(n >> 9) % 2];
                        let options = options.append(true).custom_flags(flags);
                        let mut file = options.open(at(n >> 5)).expect("there");
                        let piece = vec![b'a' + task as u8; 1 + (n >> 11) % 400];
                        file.write_all(&piece).expect("room");
                        if Instant::now() > until {
                            return;
                        }
                    }
                });
            }
        });
        let contents = || (0..FILES).map(|n| fs::read(file(n)).expect("there"));
        let shown: Vec<Vec<u8>> = contents().collect();
        place.umount();
        place.mount("writeback");
        for (n, (shown, kept)) in shown.iter().zip(contents()).enumerate() {
            let (bytes, after) = (shown.len(), kept.len());
            assert!(*shown == kept, "{kind}, {n}: {bytes} shown, {after} kept");
        }
        place.umount();
    }
}

/// A call for more room than there is may have changed the file before it fails.
#[test]
fn after_a_failed_fallocate_the_kernel_shows_what_is_there() {
    for kind in KINDS {
        let place = Place::new(kind);
        place.mount("rw");
        let zeroed = place.dir().join("zeroed");
        fs::write(&zeroed, [b'x'; 65536]).expect("room");
        let name = zeroed.to_string_lossy().to_string();
        must("truncate", &["-s", "10G", &name]);
        must("sync", &[&name]);
        let read = || {
            let mut bytes = vec![0; 65536];
            let file = fs::File::open(&zeroed).expect("there");
            file.read_exact_at(&mut bytes, 0).expect("there");
            bytes
        };
        assert_eq!(read(), [b'x'; 65536]);
        let (code, said) = run("fallocate", &["-z", "-l", "10G", &name]);
        assert_ne!(code, 0, "{kind}: {said}");
        // Pages are dropped by a thread of its own, which a request after this one may overtake.
        thread::sleep(Duration::from_millis(300));
        let shown = read();
        must("sh", &["-c", "echo 1 >/proc/sys/vm/drop_caches"]);
        assert_eq!(shown, read(), "{kind}: shown from a cache, and there");
        place.umount();
    }
}

/// The kernel learns no size from a request that fails, and it decides where an append goes.
#[test]
fn an_append_behind_a_failed_fallocate_goes_to_the_end() {
    for (kind, options) in KINDS
        .map(|kind| ["rw", "writeback"].map(|o| (kind, o)))
        .concat()
    {
        let place = Place::new(kind);
        place.mount(options);
        let path = place.dir().join("log");
        fs::write(&path, [b'x'; 5000]).expect("room");
        let name = path.to_string_lossy().to_string();
        let spare = |n: usize| place.dir().join(format!("spare{n}"));
        (0..2).for_each(|n| fs::write(spare(n), [b's'; 1 << 20]).expect("room"));
        must("sync", &[&name]);
        let mut log = fs::File::options().append(true).open(&path).expect("there");
        for (n, way) in [&["-l", "10G"][..], &["-z", "-l", "10G"]]
            .iter()
            .enumerate()
        {
            let (code, said) = run("fallocate", &[*way, &[&name]].concat());
            assert_ne!(code, 0, "{kind}: {said}");
            fs::remove_file(spare(n)).expect("there");
            log.write_all(&[b'y'; 3000]).expect("room again");
        }
        log.sync_all().expect("room");
        let lens = || fs::metadata(&path).expect("there").len();
        assert_eq!(lens(), 11_000, "{kind}, {options}");
        drop(log);
        let tail = || fs::read(&path).expect("there")[8000..].to_vec();
        assert_eq!(tail(), [b'y'; 3000], "{kind}, {options}");
        place.umount();
        place.mount(options);
        assert_eq!(lens(), 11_000, "{kind}, {options}: after a remount");
        assert_eq!(tail(), [b'y'; 3000], "{kind}, {options}: after a remount");
        place.umount();
        place.judge(kind);
    }
}

/// The kernel took the content before the flag was set, and only then sends it.
#[test]
fn a_flag_against_writes_loses_nothing_that_was_written_before() {
    for kind in KINDS {
        let place = Place::new(kind);
        place.mount("rw");
        let file = place.dir().join("f");
        fs::write(&file, [7; 65536]).expect("room");
        let name = file.to_string_lossy().to_string();
        let commands = [
            "-c",
            "mmap -rw 0 64k",
            "-c",
            "mwrite -S 0x41 0 64k",
            "-c",
            "chattr +i",
            "-c",
            "fsync",
            &name,
        ];
        assert_eq!(must("xfs_io", &commands), "", "{kind}");
        assert!(
            fs::write(&file, "later").is_err(),
            "{kind}: it is immutable"
        );
        place.umount();
        place.mount("rw");
        assert_eq!(fs::read(&file).expect("there"), [0x41; 65536], "{kind}");
        must("chattr", &["-i", &name]);
        place.umount();
    }
}
