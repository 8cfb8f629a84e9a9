//! The end of a mount that a process still uses, a second mount point, other options while the
//! mount stays, and shutting a volume down.

use super::place::{Place, VARVE, must, run, unmount};
use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const KINDS: [&str; 2] = ["ext4", "f2fs"];

/// The process behind the mount of this image.
fn daemon(place: &Place) -> String {
    let found = must(
        "pgrep",
        &["-f", "--", &format!("--daemon {}", place.image())],
    );
    found.trim().to_string()
}

fn ends_within(pid: &str, limit: Duration) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < limit {
        if run("kill", &["-0", pid]).0 != 0 {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

fn sleeper(program: &str, args: &[&str]) -> Child {
    let mut command = Command::new(program);
    let child = command.args(args).stdout(Stdio::piped()).spawn();
    let mut child = child.expect(program);
    // Its first line says that it has what it is to hold.
    let mut word = [0; 1];
    let out = child.stdout.as_mut().expect("piped");
    std::io::Read::read_exact(out, &mut word).expect("a word");
    child
}

#[test]
fn a_signal_ends_what_has_been_taken_away_with_a_file_open() {
    let place = Place::new("ext4");
    place.mount("");
    let mut open = File::create(place.dir().join("f")).expect("room");
    open.write_all(b"kept").expect("room");
    open.sync_all().expect("a disk");
    let pid = daemon(&place);
    must("umount", &["-l", &place.at()]);
    must("kill", &["-TERM", &pid]);
    assert!(ends_within(&pid, Duration::from_secs(30)), "it goes on");
    assert!(open.write_all(b"x").and_then(|()| open.sync_all()).is_err());
    drop(open);
    place.mount("");
    assert_eq!(fs::read(place.dir().join("f")).expect("there"), b"kept");
    place.umount();
    place.check();
}

/// Another mount that is there by then is not taken away in its place.
#[test]
fn a_signal_touches_no_other_mount_on_the_directory() {
    let (first, second) = (Place::new("ext4"), Place::new("ext4"));
    first.mount("");
    let open = File::create(first.dir().join("f")).expect("room");
    let pid = daemon(&first);
    must("umount", &["-l", &first.at()]);
    must(VARVE, &["mount", &second.image(), &first.at()]);
    must("kill", &["-TERM", &pid]);
    drop(open);
    assert!(ends_within(&pid, Duration::from_secs(30)), "it goes on");
    fs::write(first.dir().join("g"), b"x").expect("the other one is there");
    assert_eq!(unmount(VARVE, &first.at()), "");
    second.check();
}

/// What somebody has mounted over a mount is not taken away in its place (place-L1).
#[test]
fn what_lies_over_a_mount_stays() {
    let place = Place::new("ext4");
    place.mount("");
    let pid = daemon(&place);
    must("mount", &["-t", "tmpfs", "over", &place.at()]);
    fs::write(place.dir().join("theirs"), b"x").expect("room");
    let (code, said) = run(VARVE, &["umount", &place.at()]);
    assert!(code == 1 && said.contains("mounted over it"), "{said}");
    must("kill", &["-TERM", &pid]);
    std::thread::sleep(Duration::from_secs(1));
    assert!(place.dir().join("theirs").exists(), "the signal took it");
    unmount("umount", &place.at());
    let _ = run("umount", &["-l", &place.at()]);
    assert!(ends_within(&pid, Duration::from_secs(30)), "it goes on");
    place.check();
}

/// Whether the host lets FUSE use io_uring.
fn rings_are_allowed() -> bool {
    let switch = fs::read_to_string("/sys/module/fuse/parameters/enable_uring");
    switch.is_ok_and(|text| text.trim() == "Y")
}

/// A mount without its transport is refused after the handshake with the kernel, when others may
/// see it already: who looks into it then waits for an answer.
#[test]
fn a_refused_mount_is_gone_though_somebody_looks() {
    if rings_are_allowed() {
        // Its suite has a case of its own.
        return;
    }
    let place = Place::new("ext4");
    let stop = AtomicBool::new(false);
    let looks = || {
        while !stop.load(Ordering::Relaxed) {
            let _ = fs::metadata(place.dir().join("name"));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(looks);
        }
        for round in 0..20 {
            let line = [
                "mount",
                &place.image(),
                &place.at(),
                "-o",
                "transport=uring",
            ];
            let (code, said) = run(VARVE, &line);
            let mounted = run("mountpoint", &[&place.at()]).0 == 0;
            let answers = fs::read_dir(place.dir()).map(Iterator::count);
            stop.store(mounted || answers.is_err(), Ordering::Relaxed);
            assert!(code == 1 && said.contains("does not offer"), "{said}");
            assert!(!mounted, "round {round}: it is there");
            assert_eq!(answers.expect("the folder below"), 0, "round {round}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    place.mount("");
    place.umount();
    place.check();
}

/// A host without room for threads or descriptors refuses a mount, or gets one that answers.
#[test]
fn a_lack_of_threads_or_descriptors_leaves_no_mount_without_a_process() {
    let place = Place::new("ext4");
    let open = Permissions::from_mode(0o666);
    fs::set_permissions(place.image(), open).expect("ours");
    let dir = Permissions::from_mode(0o777);
    fs::set_permissions(place.dir(), dir).expect("ours");
    // Limits of processes are not for root, and what another user has mounted is not either.
    let nobody = |limit: &str, line: &[&str]| {
        let user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        let before = [&["20", "setpriv"], &user[..], &["prlimit", limit]].concat();
        run("timeout", &[&before[..], line].concat())
    };
    let mut refused = 0;
    for (limit, least, most) in [("--nproc", 2, 40), ("--nofile", 6, 40)] {
        for room in (least..most).step_by(4) {
            let limit = format!("{limit}={room}");
            let mount = [VARVE, "mount", &place.image(), &place.at()];
            let (code, said) = nobody(&limit, &mount);
            assert_ne!(code, 124, "{limit}: it hangs: {said}");
            assert!(!said.contains("panicked"), "{limit}: {said}");
            let (answer, looked) = nobody("--core=0", &["stat", &place.at()]);
            assert_eq!(answer, 0, "{limit}: {said}: {looked}");
            let up = nobody("--core=0", &["mountpoint", &place.at()]).0 == 0;
            assert_eq!(up, code == 0, "{limit}: {said}");
            if up {
                unmount(VARVE, &place.at());
            }
            refused += u32::from(!up);
            place.check();
        }
    }
    assert!(refused > 0, "six descriptors are too few");
}

#[test]
fn a_mount_that_makes_no_fast_commits_says_so() {
    let place = Place::new("ext4");
    let mount = |image: &str| {
        let line = [
            "mount",
            image,
            &place.at(),
            "-o",
            "scheme=fast-commit+adaptive",
        ];
        let said = must(VARVE, &line);
        unmount(VARVE, &place.at());
        said
    };
    let made = |name: &str, journal: &str| {
        let path = place.folder.path().join(name).display().to_string();
        must(
            VARVE,
            &["mkfs", "--size", "64", "--journal", journal, &path],
        );
        path
    };
    let said = mount(&made("small", "4M"));
    assert!(said.contains("too small for fast commits"), "{said}");
    let large = made("large", "5M");
    assert_eq!(mount(&large), "");
    let with = |image: &str, options: &str| {
        let said = must(VARVE, &["mount", image, &place.at(), "-o", options]);
        unmount(VARVE, &place.at());
        said
    };
    let said = with(&large, "scheme=fast-commit,data=journal");
    assert!(said.contains("data=journal puts"), "{said}");
    let old = place.folder.path().join("old").display().to_string();
    must(
        VARVE,
        &[
            "mkfs",
            "--fs",
            "ext3",
            "--size",
            "64",
            "--journal",
            "5M",
            &old,
        ],
    );
    let said = with(&old, "scheme=fast-commit");
    assert!(said.contains("no extents"), "{said}");
    // Read-only there are no commits.
    assert_eq!(with(&old, "scheme=fast-commit,ro"), "");
}

#[test]
fn umount_waits_for_no_reader_and_says_whom_it_cannot_wait_for() {
    let place = Place::new("ext4");
    place.mount("");
    // A program that has opened the image to read, and locks it when it can.
    let script = format!("exec 7< {}; echo; flock -s 7; exec sleep 60", place.image());
    let mut reader = sleeper("sh", &["-c", &script]);
    place.umount();
    reader.kill().and_then(|()| reader.wait()).expect("it ends");

    place.mount("");
    let mut other = sleeper("unshare", &["-m", "sh", "-c", "echo; exec sleep 60"]);
    let (code, said) = run(VARVE, &["umount", &place.at()]);
    assert!(
        code == 1 && said.contains(&format!("process {}", other.id())),
        "{code}: {said}"
    );
    let pid = daemon(&place);
    other.kill().and_then(|()| other.wait()).expect("it ends");
    assert!(ends_within(&pid, Duration::from_secs(30)), "it goes on");
    place.check();
}

#[test]
fn an_image_has_several_places_and_a_place_one_image() {
    let (place, other) = (Place::new("ext4"), Place::new("ext4"));
    place.mount("");
    let (image, at, second) = (place.image(), place.at(), other.at());
    let (code, said) = run(VARVE, &["mount", &other.image(), &at]);
    assert!(code == 1 && said.contains(&image), "{said}");
    for options in ["ro", "commit=7"] {
        let (code, said) = run(VARVE, &["mount", &image, &second, "-o", options]);
        assert!(code == 1 && said.contains(&at), "{options}: {said}");
    }
    must(VARVE, &["mount", &image, &second]);
    fs::write(place.dir().join("f"), b"x").expect("room");
    assert_eq!(fs::read(other.dir().join("f")).expect("there"), b"x");
    assert_eq!(unmount(VARVE, &at), "");
    fs::write(other.dir().join("g"), b"x").expect("it goes on");
    assert_eq!(unmount(VARVE, &second), "");
    place.check();
}

#[test]
fn a_write_protected_device_is_mounted_read_only() {
    for kind in KINDS {
        let place = Place::new(kind);
        place.mount("");
        fs::write(place.dir().join("f"), b"there").expect("room");
        place.umount();
        let device = must("losetup", &["-f", "--show", "-r", &place.image()]);
        let said = must(VARVE, &["mount", device.trim(), &place.at()]);
        assert!(said.contains("write-protected"), "{kind}: {said}");
        let refused = fs::write(place.dir().join("g"), b"x").expect_err("read-only");
        assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        assert_eq!(fs::read(place.dir().join("f")).expect("there"), b"there");
        must("umount", &[&place.at()]);
        must("losetup", &["-d", device.trim()]);
    }
}

/// The device's own line in the table of mounts is no reason to refuse it.
#[test]
fn a_device_is_remounted_for_writing_and_back() {
    for kind in KINDS {
        let place = Place::new(kind);
        let device = must("losetup", &["-f", "--show", &place.image()]);
        let device = device.trim();
        must(VARVE, &["mount", device, &place.at(), "-o", "ro"]);
        let remount = |words: &str| {
            let line = ["mount", "-o", &format!("remount,{words}"), &place.at()];
            run(VARVE, &line)
        };
        assert_eq!(remount("rw"), (0, String::new()), "{kind}");
        fs::write(place.dir().join("f"), b"there").expect("writable");
        assert_eq!(remount("ro"), (0, String::new()), "{kind}");
        let (code, said) = run(VARVE, &["mkfs", "--force", device]);
        assert!(code != 0 && said.contains("in use"), "{kind}: {said}");
        assert_eq!(fs::read(place.dir().join("f")).expect("there"), b"there");
        place.umount();
        must("losetup", &["-d", device]);
    }
}

#[test]
fn a_remount_changes_options_and_keeps_open_files() {
    for kind in KINDS {
        let place = Place::new(kind);
        place.mount("");
        let (at, dir) = (place.at(), place.dir());
        let remount = |words: &str| run(VARVE, &["mount", "-o", &format!("remount,{words}"), &at]);
        fs::write(dir.join("f"), b"old").expect("room");
        let mut open = File::create(dir.join("open")).expect("room");
        let (code, said) = remount("ro");
        assert!(code == 1 && said.contains("open for writing"), "{said}");
        open.write_all(b"still").expect("it is not read-only");
        drop(open);

        let mut reader = File::open(dir.join("f")).expect("there");
        assert_eq!(remount("ro"), (0, String::new()), "{kind}");
        let refused = fs::write(dir.join("g"), b"x").expect_err("read-only");
        assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        if kind == "ext4" {
            place.check();
        }
        assert_eq!(remount("rw"), (0, String::new()), "{kind}");
        fs::write(dir.join("g"), b"new").expect("writable");
        let mut text = String::new();
        std::io::Read::read_to_string(&mut reader, &mut text).expect("still open");
        assert_eq!(text, "old", "{kind}");
        drop(reader);

        for (words, why) in [
            ("bogus=3", "bogus"),
            ("threads=3", "threads="),
            ("direct", "how"),
        ] {
            let (code, said) = remount(words);
            assert!(code == 1 && said.contains(why), "{kind}, {words}: {said}");
        }
        fs::write(dir.join("h"), b"x").expect("it goes on after a refusal");
        let gone = File::open(dir.join("h")).expect("there");
        fs::remove_file(dir.join("h")).expect("there");
        let (code, said) = remount("rw");
        assert!(code == 1 && said.contains("no name"), "{kind}: {said}");
        drop(gone);
        place.umount();
    }
}

#[test]
fn another_scheme_by_a_remount() {
    let place = Place::new("ext4");
    place.mount("scheme=jbd2,commit=60");
    for scheme in ["emmc", "flush-ahead", "jbd2"] {
        let words = format!("remount,scheme={scheme}");
        must(VARVE, &["mount", "-o", &words, &place.image(), &place.at()]);
        let name = place.dir().join(scheme);
        let mut file = File::create(&name).expect("room");
        file.write_all(scheme.as_bytes()).expect("room");
        file.sync_all().expect("a disk");
        assert_eq!(fs::read(&name).expect("there"), scheme.as_bytes());
    }
    place.umount();
    place.check();
}

/// `godown` of others sends the same `ioctl`.
#[test]
fn a_volume_that_is_shut_down_keeps_what_was_synced() {
    for (kind, options) in [
        ("ext4", "scheme=emmc"),
        ("ext4", ""),
        ("f2fs", ""),
        ("f2fs", "scheme=f2fsj"),
    ] {
        let place = Place::new("ext4");
        if kind == "f2fs" {
            must(
                VARVE,
                &[
                    "mkfs",
                    "--fs",
                    kind,
                    "--size",
                    "128",
                    "-J",
                    "default",
                    "--force",
                    &place.image(),
                ],
            );
        }
        place.mount(options);
        let dir = place.dir();
        fs::create_dir(dir.join("d")).expect("room");
        let mut synced = File::create(dir.join("d/synced")).expect("room");
        synced.write_all(&[9; 10_000]).expect("room");
        synced.sync_all().expect("a disk");
        let lazy = fs::write(dir.join("lazy"), [8; 10_000]);
        lazy.expect("room");
        let refused = run(
            "setpriv",
            &[
                "--reuid=65534",
                "--clear-groups",
                "xfs_io",
                "-x",
                "-c",
                "shutdown -f",
                &place.at(),
            ],
        );
        assert!(fs::read_dir(&dir).is_ok(), "{kind}: {}", refused.1);
        must("xfs_io", &["-x", "-c", "shutdown -f", &place.at()]);
        assert!(fs::write(dir.join("late"), b"x").is_err(), "{kind}");
        assert!(
            synced
                .write_all(b"x")
                .and_then(|()| synced.sync_all())
                .is_err()
        );
        drop(synced);
        let (code, said) = run(VARVE, &["umount", &place.at()]);
        assert!(
            code == 1 && said.contains("was shut down"),
            "{kind}, {options}: {code} {said}"
        );

        if kind == "ext4" {
            let words = must(
                VARVE,
                &["mount", &place.image(), &place.at(), "-o", "ro,norecovery"],
            );
            assert_eq!(words, "");
            assert!(
                !dir.join("d/synced").exists(),
                "{options}: it is in the log only"
            );
            place.umount();
        }
        place.mount(options);
        assert_eq!(fs::read(dir.join("d/synced")).expect("synced"), [9; 10_000]);
        assert!(!dir.join("late").exists());
        place.umount();
        if kind == "ext4" {
            place.check();
        }
    }
}

#[test]
fn umount_says_that_the_host_is_full() {
    for kind in KINDS {
        let host = Place::new("ext4");
        fs::remove_file(host.image()).expect("not needed");
        let folder = host.folder.path().join("host");
        fs::create_dir(&folder).expect("a folder");
        let folder = folder.to_string_lossy();
        must("mount", &["-t", "tmpfs", "-o", "size=24m", "none", &folder]);
        let image = format!("{folder}/image");
        must(VARVE, &["mkfs", "--fs", kind, "--size", "128", &image]);
        must(VARVE, &["mount", &image, &host.at()]);
        let mut file = File::create(host.dir().join("f")).expect("room");
        let wrote = file.write_all(&vec![7; 40 << 20]);
        assert!(wrote.and_then(|()| file.sync_all()).is_err(), "{kind}");
        drop(file);
        let (code, said) = run(VARVE, &["umount", &host.at()]);
        must("umount", &["-l", &folder]);
        assert!(
            code == 1 && said.contains("not clean"),
            "{kind}: {code} {said}"
        );
    }
}

/// umount(8) without our helper returns before the volume is clean.
#[test]
fn a_mount_waits_for_the_one_that_is_ending() {
    let place = Place::new("ext4");
    for round in 0..8 {
        place.mount("");
        fs::write(place.dir().join(format!("{round}")), vec![1; 8 << 20]).expect("room");
        unmount("umount", &place.at());
    }
    place.mount("");
    assert!(place.dir().join("7").exists());
    place.umount();
    place.check();
}
