//! `varve mount`: a small POSIX exercise compared with the running kernel's ext4, remounts,
//! signals, kills, use as a helper of mount(8), ACLs, blocks held back, full volumes, and the ways
//! to mount. Needs root, FUSE and a loop device: its suite says so.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

mod acl;
mod attributes;
mod cached;
mod casefold;

mod databases;
mod ends;
mod f2fs;
mod full;
mod large_blocks;
pub mod place;
mod reserve;
mod scale;
mod ways;

use place::{Place, VARVE, must, run, unmount};
use rustix::fs::{RenameFlags, renameat_with};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Write as _};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn shown<T: std::fmt::Debug>(result: std::io::Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(e) => format!("error {:?}", e.raw_os_error()),
    }
}

/// What an unprivileged user is told.
fn as_nobody(dir: &Path, script: &str) -> String {
    let (code, _) = run(
        "setpriv",
        &[
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "sh",
            "-c",
            script,
            "sh",
            &dir.to_string_lossy(),
        ],
    );
    format!("nobody: {code}")
}

/// Uses the directory, and writes down what happened.
fn exercise(dir: &Path) -> String {
    let mut log = String::new();
    let mut note = |what: &str, result: String| writeln!(log, "{what}: {result}").expect("room");
    let at = |name: &str| dir.join(name);
    fs::set_permissions(dir, Permissions::from_mode(0o1777)).expect("the root");
    note("mkdir", shown(fs::create_dir(at("d"))));
    note("mkdir again", shown(fs::create_dir(at("d"))));
    note("rmdir of a full one", {
        fs::write(at("d/f"), b"12345").expect("room");
        shown(fs::remove_dir(at("d")))
    });
    note("link", shown(fs::hard_link(at("d/f"), at("l"))));
    note("links", shown(fs::metadata(at("l")).map(|m| m.nlink())));
    note("symlink", shown(symlink("d/f", at("s"))));
    note("through it", shown(fs::read(at("s"))));
    note("unlink of a directory", shown(fs::remove_file(at("d"))));
    let long = "n".repeat(255);
    note("a long name", shown(fs::write(at(&long), b"")));
    note(
        "a longer name",
        shown(fs::write(at(&format!("{long}n")), b"")),
    );
    let flags = |f| {
        shown(
            renameat_with(rustix::fs::CWD, at("l"), rustix::fs::CWD, at("s"), f)
                .map_err(Into::into),
        )
    };
    note("rename noreplace", flags(RenameFlags::NOREPLACE));
    note("rename exchange", flags(RenameFlags::EXCHANGE));
    note(
        "what it is now",
        shown(fs::symlink_metadata(at("l")).map(|m| m.is_symlink())),
    );

    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o4755)
        .open(at("sparse"));
    let file = file.expect("a new file");
    note("far", shown(file.write_at(b"end", 10 << 20)));
    note(
        "size",
        shown(file.metadata().map(|m| (m.len(), m.blocks() < 100))),
    );
    note(
        "hole",
        shown(rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(10 << 20)).map_err(Into::into)),
    );
    note("cut", shown(file.set_len(7)));
    note(
        "mode of a written file",
        shown(file.metadata().map(|m| m.mode())),
    );
    let sync = OpenOptions::new()
        .append(true)
        .custom_flags(0o4010000)
        .open(at("sparse"))
        .expect("O_SYNC");
    note("append", shown((&sync).write(b"abc")));
    note("synced size", shown(file.metadata().map(|m| m.len())));
    note(
        "chown",
        shown(std::os::unix::fs::chown(at("sparse"), Some(1), Some(1))),
    );
    note(
        "mode after it",
        shown(fs::metadata(at("sparse")).map(|m| (m.mode(), m.uid(), m.gid()))),
    );
    fs::set_permissions(at("sparse"), Permissions::from_mode(0o6777)).expect("known");
    note("a user writes", as_nobody(dir, "echo x >> $1/sparse"));
    note(
        "mode after that",
        shown(fs::metadata(at("sparse")).map(|m| m.mode())),
    );
    note("a user in the root", as_nobody(dir, "rm -f $1/sparse"));
    note("a user where he may not", as_nobody(dir, "echo x > $1/d/g"));
    fs::set_permissions(at("d"), Permissions::from_mode(0o2777)).expect("known");
    std::os::unix::fs::chown(at("d"), None, Some(50)).expect("known");
    fs::set_permissions(at("d"), Permissions::from_mode(0o2777)).expect("known");
    note(
        "a user in a directory of a group",
        as_nobody(dir, "umask 027; mkdir $1/d/e; echo x > $1/d/g"),
    );
    for name in ["d/e", "d/g"] {
        note(
            name,
            shown(fs::metadata(at(name)).map(|m| (m.mode(), m.uid(), m.gid()))),
        );
    }
    let held = File::open(at("d/g")).expect("there");
    note("unlink of an open file", shown(fs::remove_file(at("d/g"))));
    let mut text = String::new();
    note(
        "which is still there",
        shown((&held).read_to_string(&mut text)),
    );
    for i in 0..1000 {
        fs::write(at(&format!("d/many-{i}")), [i as u8; 3]).expect("room");
    }
    let mut names: Vec<_> = fs::read_dir(at("d"))
        .expect("a directory")
        .map(|e| e.expect("an entry").file_name())
        .collect();
    names.sort();
    note(
        "names",
        shown(Ok((
            names.len(),
            names.first().cloned(),
            names.last().cloned(),
        ))),
    );
    log
}

#[test]
fn the_same_exercise_on_the_kernels_ext4() {
    let place = Place::new("ext4");
    place.mount("allow_other");
    let ours = exercise(&place.dir());
    let (code, words) = run(VARVE, &["mount", &place.image(), &place.at()]);
    assert!(code == 1 && words.contains("mounted there"), "{words}");
    // The lock keeps other processes out; the message names the holder.
    let (code, words) = run(VARVE, &["fsck", "-p", &place.image()]);
    assert!(code == 8 && words.contains("in use"), "{words}");
    place.umount();
    place.check();

    let kernel = Place::new("ext4");
    must("mount", &["-o", "loop", &kernel.image(), &kernel.at()]);
    let theirs = exercise(&kernel.dir());
    unmount("umount", &kernel.at());
    assert_eq!(ours, theirs);

    // The kernel reads what was written, and we read it again.
    must("mount", &["-o", "loop,ro", &place.image(), &place.at()]);
    assert_eq!(
        fs::read(place.dir().join("d/many-7")).expect("there"),
        [7; 3]
    );
    unmount("umount", &place.at());
    place.mount("ro,allow_other,scheme=emmc");
    assert_eq!(
        fs::read_dir(place.dir().join("d")).expect("there").count(),
        1002
    );
    let refused = fs::write(place.dir().join("x"), b"").expect_err("read-only");
    assert_eq!(refused.raw_os_error(), Some(30));
    place.umount();
}

#[test]
fn f2fs_and_signals() {
    let place = Place::new("f2fs");
    let mut child = foreground(&place, "scheme=checkpoint-1");
    fs::create_dir(place.dir().join("d")).expect("room");
    fs::write(place.dir().join("d/f"), b"content").expect("room");
    must("kill", &["-TERM", &child.id().to_string()]);
    assert!(child.wait().expect("started").success());
    must(VARVE, &["fsck", "-n", &place.image()]);
    place.mount("rw");
    assert_eq!(
        fs::read(place.dir().join("d/f")).expect("there"),
        b"content"
    );
    must("fusermount3", &["-u", &place.at()]);
}

/// The cases of this program are run once more over io_uring, and have to reach it.
#[test]
fn the_transport_is_the_one_that_was_asked_for() {
    let place = Place::new("ext4");
    let (code, said) = place::run_as_it_is(VARVE, &["mount", &place.image(), &place.at()]);
    assert_eq!(code, 0, "{said}");
    let ring = place::transport().as_deref() == Some("uring");
    assert_eq!(said.contains(place::OVER_RING), ring, "{said}");
    place.umount();
}

#[test]
fn what_is_wrong_is_told_before_the_mount() {
    let place = Place::new("ext4");
    for (options, words) in [
        ("scheme=emcc", "scheme=emcc"),
        ("errors=ignore", "errors=ignore"),
        ("threads=0", "threads=0"),
    ] {
        let (code, text) = run(
            VARVE,
            &["mount", &place.image(), &place.at(), "-o", options],
        );
        assert!(code != 0 && text.contains(words), "{text}");
    }
    let (code, text) = run(VARVE, &["umount", &place.at()]);
    assert!(code == 1 && text.contains("nothing of varve"), "{text}");
    let helper = place.folder.path().join("mount.fuse.varve");
    symlink(VARVE, &helper).expect("a link");
    let line = [
        &place.image(),
        &place.at(),
        "-o",
        "rw,noatime",
        "-t",
        "fuse.varve",
    ];
    must(&helper.to_string_lossy(), &line.map(|word| word));
    let table = fs::read_to_string("/proc/self/mountinfo").expect("the table");
    assert!(
        table
            .lines()
            .any(|l| l.contains(&place.at()) && l.contains("fuse.varve"))
    );
    place.umount();
}

fn foreground(place: &Place, options: &str) -> Child {
    let child = Command::new(VARVE)
        .args(["mount", "-f", &place.image(), &place.at(), "-o", options])
        .args(place::over(&["mount", options]))
        .stdout(Stdio::null())
        .spawn()
        .expect("started");
    let outside = fs::metadata(place.folder.path()).expect("there").dev();
    while fs::metadata(place.dir()).map_or(true, |meta| meta.dev() == outside) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child
}

/// What a round has synced, with its content; the last name is being written.
fn load(dir: &Path, round: u64, synced: &std::sync::Mutex<Vec<(String, u64)>>) {
    for n in 0.. {
        let name = format!("r{round}-{n}");
        let write = || -> std::io::Result<()> {
            let mut file = File::create(dir.join(&name))?;
            file.write_all(&(n * round + 1).to_le_bytes().repeat(1000))?;
            file.sync_all()?;
            if n % 3 == 0 {
                fs::rename(dir.join(&name), dir.join(format!("{name}-moved")))?;
                File::open(dir)?.sync_all()?;
            }
            Ok(())
        };
        if write().is_err() {
            return;
        }
        let now = if n % 3 == 0 {
            format!("{name}-moved")
        } else {
            name
        };
        synced.lock().expect("no panic").push((now, n * round + 1));
    }
}

#[test]
fn a_killed_mount_keeps_what_was_synced() {
    kill_and_look(10);
}

#[test]
#[ignore = "minutes: suite mount-long"]
fn a_mount_killed_a_hundred_times_keeps_what_was_synced() {
    kill_and_look(100);
}

fn kill_and_look(rounds: u64) {
    let place = Place::new("ext4");
    let mut kept: Vec<(String, u64)> = Vec::new();
    for round in 1..=rounds {
        let scheme = ["jbd2", "emmc", "coalition", "jbd2,data=journal"][round as usize % 4];
        let mut child = foreground(&place, &format!("scheme={scheme}"));
        for (name, value) in &kept {
            let read = fs::read(place.dir().join(name))
                .unwrap_or_else(|e| panic!("{name}, round {round}: {e}"));
            assert!(
                read == value.to_le_bytes().repeat(1000),
                "{name}, round {round}"
            );
        }
        let synced = std::sync::Mutex::new(Vec::new());
        let dir = place.dir();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| load(&dir, round, &synced));
            let enough = 20 + 7 * (round as usize % 11);
            while synced.lock().expect("no panic").len() < enough {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            child.kill().expect("alive");
            writer.join().expect("no panic");
        });
        child.wait().expect("started");
        must("umount", &["-l", &place.at()]);
        kept.extend(synced.into_inner().expect("no panic"));
    }
    // Recovered by the last mount alone.
    place.mount("rw");
    place.umount();
    place.check();
    assert!(kept.len() as u64 > 20 * rounds);
}
