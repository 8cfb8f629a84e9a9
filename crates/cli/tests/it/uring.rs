//! `varve mount` over io_uring: what comes back is what was written, a request that waits keeps no
//! other one, and every end leaves a volume that is whole. Needs root, FUSE and the host's switch
//! for FUSE over io_uring: its suite says so, and turns the switch on.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

use crate::mount::place::{Place, VARVE, must, run, run_as_it_is, unmount};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Within which everything here has to happen.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(10);

/// A mount in the foreground, whose words are kept.
struct Daemon(Child);

impl Daemon {
    fn start(place: &Place, options: &str) -> Daemon {
        let child = Command::new(VARVE)
            .args(["mount", "-f", &place.image(), &place.at(), "-o", options])
            .stderr(Stdio::piped())
            .spawn()
            .expect("a program");
        let daemon = Daemon(child);
        until("the mount is up", || {
            run("mountpoint", &[&place.at()]).0 == 0
        });
        daemon
    }

    fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        until("the daemon ends", || {
            status = self.0.try_wait().expect("a child");
            status.is_some()
        });
        status.expect("it has ended")
    }

    /// All that it said; it has ended.
    fn words(mut self) -> String {
        let mut words = String::new();
        let mut from = self.0.stderr.take().expect("a pipe");
        from.read_to_string(&mut words).expect("text");
        words
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // What a failed test left; a good one has waited for the end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn until(what: &str, mut seen: impl FnMut() -> bool) {
    let start = Instant::now();
    while !seen() {
        assert!(
            start.elapsed() < PATIENCE,
            "{what}: not within {PATIENCE:?}"
        );
        std::thread::sleep(LOOK);
    }
}

/// Bytes that differ from place to place and from file to file.
fn content(seed: usize, len: usize) -> Vec<u8> {
    let byte = |at: usize| ((at / 4096).wrapping_mul(31) ^ at.wrapping_mul(seed + 7)) as u8;
    (0..len).map(byte).collect()
}

fn make_all_kinds(dir: &Path) {
    for (i, len) in [0, 1, 4095, 4096, 70_000, 9 << 20].into_iter().enumerate() {
        fs::write(dir.join(format!("file-{i}")), content(i, len)).expect("room");
    }
    fs::create_dir(dir.join("many")).expect("a directory");
    for i in 0..5000 {
        fs::write(dir.join(format!("many/name-{i}")), []).expect("room");
    }
    symlink("t".repeat(3000), dir.join("link")).expect("a link");
    fs::hard_link(dir.join("file-4"), dir.join("other")).expect("a link");
    fs::rename(dir.join("many/name-0"), dir.join("many/renamed")).expect("a name");
    fs::remove_file(dir.join("many/name-1")).expect("a name");
    fs::copy(dir.join("file-5"), dir.join("copy")).expect("room");
    let value = content(9, 2000);
    let file = dir.join("file-4");
    rustix::fs::setxattr(&file, "user.big", &value, rustix::fs::XattrFlags::CREATE).expect("room");
    let holes = File::options().write(true).open(dir.join("file-5"));
    let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(holes.expect("there"), punch, 1 << 20, 1 << 20).expect("a hole");
    let (code, _) = run("chmod", &["4750", &dir.join("file-1").to_string_lossy()]);
    assert_eq!(code, 0);
}

fn expect_all_kinds(dir: &Path) {
    for (i, len) in [0, 1, 4095, 4096, 70_000].into_iter().enumerate() {
        let found = fs::read(dir.join(format!("file-{i}"))).expect("there");
        assert!(found == content(i, len), "file-{i}");
    }
    let mut large = content(5, 9 << 20);
    assert!(fs::read(dir.join("copy")).expect("there") == large, "copy");
    large[1 << 20..2 << 20].fill(0);
    assert!(
        fs::read(dir.join("file-5")).expect("there") == large,
        "file-5"
    );
    let mut names: Vec<_> = (fs::read_dir(dir.join("many")).expect("a directory"))
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    let all = names.len();
    names.dedup();
    assert_eq!((all, names.len()), (4999, 4999), "each name once");
    let target = fs::read_link(dir.join("link")).expect("a link");
    assert_eq!(target.to_string_lossy(), "t".repeat(3000));
    let mut value = vec![0; 4000];
    let len = rustix::fs::getxattr(dir.join("file-4"), "user.big", &mut value).expect("there");
    assert!(value[..len] == content(9, 2000), "the attribute");
    let short = rustix::fs::getxattr(dir.join("file-4"), "user.big", &mut [0; 10]);
    assert_eq!(short, Err(rustix::io::Errno::RANGE));
    let mut list = vec![0; 200];
    let len = rustix::fs::listxattr(dir.join("other"), &mut list).expect("there");
    assert_eq!(&list[..len], b"user.big\0");
    let said = must(
        "stat",
        &["-c", "%a %h", &dir.join("file-1").to_string_lossy()],
    );
    assert_eq!(said.trim(), "4750 1");
}

#[test]
fn what_is_written_over_the_ring_is_read_again() {
    for options in [
        "transport=uring",
        "transport=uring,writeback,max_write=131072,queue_depth=2",
    ] {
        let place = Place::new("ext4");
        let mut daemon = Daemon::start(&place, options);
        make_all_kinds(&place.dir());
        expect_all_kinds(&place.dir());
        unmount(VARVE, &place.at());
        assert!(daemon.ended().success());
        let words = daemon.words();
        assert!(words.contains("requests come over io_uring"), "{words}");
        place.check();
        // From the volume, and by both transports alike.
        for transport in ["uring", "dev"] {
            place.mount(&format!("transport={transport}"));
            expect_all_kinds(&place.dir());
            place.umount();
        }
    }
}

#[test]
fn the_device_can_be_asked_for() {
    let place = Place::new("ext4");
    let mut daemon = Daemon::start(&place, "transport=dev");
    fs::write(place.dir().join("file"), b"x").expect("room");
    unmount(VARVE, &place.at());
    assert!(daemon.ended().success());
    assert_eq!(daemon.words(), "");
}

/// A volume whose image lies on a file system that can be frozen.
#[test]
fn a_request_that_waits_for_the_medium_keeps_no_other_one() {
    let host = Place::foreign(&[]);
    host.mount_by_kernel();
    let place = Place::new("ext4");
    let image = host.dir().join("inner.img").to_string_lossy().to_string();
    must(VARVE, &["mkfs", "--fs", "ext4", "--size", "64", &image]);
    must(
        VARVE,
        &[
            "mount",
            &image,
            &place.at(),
            "-o",
            "transport=uring,attr_timeout=0",
        ],
    );
    let file = place.dir().join("file").to_string_lossy().to_string();
    fs::write(&file, b"x").expect("room");
    must("fsfreeze", &["-f", &host.at()]);
    let fsync = |_| {
        let mut command = Command::new("taskset");
        command.args(["-c", "0", "sync", &file]);
        command.spawn().expect("a program")
    };
    let mut waiting: Vec<_> = (0..3).map(fsync).collect();
    std::thread::sleep(Duration::from_millis(200));
    let (code, said) = run(
        "timeout",
        &["10", "taskset", "-c", "0", "stat", "-c", "%s", &file],
    );
    let none_ended = (waiting.iter_mut()).all(|one| one.try_wait().is_ok_and(|s| s.is_none()));
    must("fsfreeze", &["-u", &host.at()]);
    assert_eq!((code, said.trim()), (0, "1"), "while fsyncs waited");
    assert!(none_ended, "the fsyncs did wait");
    for one in &mut waiting {
        assert!(one.wait().expect("a child").success());
    }
    unmount(VARVE, &place.at());
    must("e2fsck", &["-fn", &image]);
    unmount("umount", &host.at());
}

/// Makes files and forces them, one after the other, until it fails or is told to stop; how many
/// were forced.
fn force_files(dir: &Path, name: &str, stop: &AtomicBool) -> usize {
    for i in 0.. {
        let file = File::create(dir.join(format!("{name}-{i}")));
        let forced = file.and_then(|file| {
            file.write_all_at(&content(i, 5000), 0)?;
            file.sync_all()
        });
        if forced.is_err() || stop.load(Ordering::Relaxed) {
            return if forced.is_ok() { i + 1 } else { i };
        }
    }
    0
}

/// Forces files from several threads, has `end` done in the middle, and answers how many of each
/// thread were forced.
fn ended_by(dir: &Path, end: impl FnOnce()) -> Vec<usize> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|n| (dir, &stop, format!("t{n}")))
            .map(|(dir, stop, name)| scope.spawn(move || force_files(dir, &name, stop)))
            .collect();
        std::thread::sleep(Duration::from_millis(700));
        end();
        std::thread::sleep(Duration::from_millis(100));
        stop.store(true, Ordering::Relaxed);
        let done = threads.into_iter().map(|t| t.join().expect("no panic"));
        done.collect()
    })
}

fn expect_forced(place: &Place, forced: &[usize]) {
    assert!(
        forced.iter().all(|n| *n > 0),
        "each was under way: {forced:?}"
    );
    // Where the mount had ended already, the last ones went into the folder below it.
    let bare = |n: usize, i: usize| place.dir().join(format!("t{n}-{i}")).exists();
    let below = |(n, count): (usize, &usize)| (0..*count).take_while(|i| !bare(n, *i)).count();
    let forced: Vec<usize> = forced.iter().enumerate().map(below).collect();
    assert!(forced.iter().all(|n| *n > 0), "before the end: {forced:?}");
    place.mount("transport=uring");
    for (n, count) in forced.iter().enumerate() {
        for i in 0..*count {
            let found = fs::read(place.dir().join(format!("t{n}-{i}")));
            assert!(
                found.is_ok_and(|f| f == content(i, 5000)),
                "t{n}-{i} of {count}"
            );
        }
    }
    place.umount();
    place.check();
}

#[test]
fn a_kill_in_the_middle_ends_all_requests_and_loses_nothing_forced() {
    let place = Place::new("ext4");
    let mut daemon = Daemon::start(&place, "transport=uring,scheme=emmc");
    let forced = ended_by(&place.dir(), || daemon.0.kill().expect("ours"));
    daemon.ended();
    must("umount", &["-l", &place.at()]);
    expect_forced(&place, &forced);
}

#[test]
fn a_broken_connection_in_the_middle_leaves_a_clean_volume() {
    let place = Place::new("ext4");
    let mut daemon = Daemon::start(&place, "transport=uring");
    let said = must("mountpoint", &["-d", &place.at()]);
    let minor = said.trim().split(':').nth(1).expect("a device").to_string();
    let abort = format!("/sys/fs/fuse/connections/{minor}/abort");
    if !Path::new(&abort).exists() {
        // Another test may do so at the same time.
        let _ = run(
            "mount",
            &["-t", "fusectl", "none", "/sys/fs/fuse/connections"],
        );
    }
    let forced = ended_by(&place.dir(), || fs::write(&abort, "1").expect("root"));
    must("umount", &["-l", &place.at()]);
    assert!(daemon.ended().success(), "{}", daemon.words());
    place.check();
    expect_forced(&place, &forced);
}

/// Lets calls of `io_uring_enter` in the daemon fail until it is dropped.
struct Failing(Child);

impl Failing {
    fn calls(daemon: &Daemon, which: &str) -> Failing {
        let child = Command::new("strace")
            .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=io_uring_enter"])
            .args(["-e", &format!("inject=io_uring_enter:error=EPERM{which}")])
            .args(["-p", &daemon.0.id().to_string()])
            .spawn()
            .expect("strace");
        Failing(child)
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        // It lets go of the daemon.
        let process = self.0.id().to_string();
        let _ = run("kill", &["-TERM", &process]);
        let _ = self.0.wait();
    }
}

/// turns-T1. Without the answer the program waits for ever.
#[test]
fn a_request_whose_answer_the_ring_does_not_take_fails_and_the_next_ones_do_not() {
    let place = Place::new("ext4");
    let mut daemon = Daemon::start(&place, "transport=uring,attr_timeout=0");
    let file = place.dir().join("file").to_string_lossy().to_string();
    fs::write(&file, b"x").expect("room");
    let failing = Failing::calls(&daemon, ":when=40");
    let script = format!("for i in $(seq 600); do stat -c %s {file}; done");
    let (code, said) = run("timeout", &["60", "sh", "-c", &script]);
    assert_ne!(code, 124, "a request is not answered: {said}");
    drop(failing);
    let failed = said.matches("Input/output error").count();
    assert!(failed > 0, "a call was to fail: {said}");
    assert_eq!(
        said.lines().filter(|line| *line == "1").count(),
        600 - failed
    );
    assert_eq!(fs::read(&file).expect("it is there"), b"x");
    place.umount();
    assert!(daemon.ended().success());
    let words = daemon.words();
    assert!(
        words.contains("a request failed with EIO in the ring"),
        "{words}"
    );
    place.check();
}

/// turns-T2.
#[test]
fn a_ring_that_fails_for_good_ends_the_mount_with_a_clean_volume() {
    let place = Place::new("ext4");
    let mut daemon = Daemon::start(&place, "transport=uring,scheme=emmc");
    let mut failing = None;
    let forced = ended_by(&place.dir(), || {
        failing = Some(Failing::calls(&daemon, ""));
        until("requests fail", || {
            fs::metadata(place.dir().join("t0-0")).is_err()
        });
    });
    assert!(!daemon.ended().success(), "nobody has asked for the end");
    drop(failing);
    let words = daemon.words();
    assert!(words.contains("the ring of requests is broken"), "{words}");
    assert!(words.contains("the volume is clean"), "{words}");
    let _ = run("umount", &["-l", &place.at()]);
    place.check();
    expect_forced(&place, &forced);
}

/// place-L1: what ends a broken connection touches nothing that somebody has mounted over it.
#[test]
fn the_end_of_a_broken_ring_leaves_what_lies_over_the_mount() {
    let place = Place::new("ext4");
    let (image, at) = (place.image(), place.at());
    let alone = "awk '/ fuse.varve /{print $2}' /proc/self/mounts | xargs -r umount -l";
    // In a namespace of mounts where connections are not shown.
    let script = format!(
        "{alone}
        umount -l /sys/fs/fuse/connections 2>/dev/null
        {VARVE} mount -f {image} {at} -o transport=uring 2>{at}.words & daemon=$!
        for i in $(seq 400); do mountpoint -q {at} && break; sleep 0.05; done
        echo x >{at}/ours; sync {at}/ours
        exec 7<{at}/ours
        mount -t tmpfs over {at} && echo y >{at}/theirs
        strace -f -qq -o /dev/null -e trace=io_uring_enter \
            -e inject=io_uring_enter:error=EPERM -p $daemon 2>/dev/null & failing=$!
        for i in $(seq 400); do
            stat -L /proc/self/fd/7 >/dev/null 2>&1 &
            grep -q 'ring of requests is broken' {at}.words && break; sleep 0.05
        done
        sleep 0.3
        cat {at}/theirs
        exec 7<&-
        kill -TERM $failing 2>/dev/null
        umount {at}; umount -l {at}; wait $daemon 2>/dev/null; true"
    );
    let line = ["120", "unshare", "-m", "sh", "-c", script.as_str()];
    let (code, said) = run("timeout", &line);
    let words = fs::read_to_string(format!("{at}.words")).expect("its words");
    assert_eq!((code, said.lines().next()), (0, Some("y")), "{said}{words}");
    assert!(words.contains("the mount ends"), "{words}");
    place.check();
}

/// first-F2, ring-Q1: a host that takes seven seconds over the first request has its ring all the
/// same, be the number of processors the kernel's own or somebody else's.
#[test]
fn a_slow_host_gets_its_ring() {
    let possible = "/sys/devices/system/cpu/possible";
    let alone = "awk '/ fuse.varve /{print $2}' /proc/self/mounts | xargs -r umount -l";
    for before in ["true", "cp $P $F && mount --bind $F $P"] {
        let place = Place::new("ext4");
        let (image, at) = (place.image(), place.at());
        let script = format!(
            "{alone}
            P={possible}; F={at}.file; {before} || exit 3
            strace -f -qq -o /dev/null -e trace=statfs -e inject=statfs:delay_enter=7000000 \
                {VARVE} mount -f {image} {at} -o transport=uring 2>{at}.words & traced=$!
            for i in $(seq 400); do
                kill -0 $traced || break
                grep -q 'requests come over io_uring' {at}.words && break; sleep 0.05
            done
            cat {at}.words
            echo x >{at}/file && {VARVE} umount {at} && wait $traced"
        );
        let line = ["100", "unshare", "-m", "sh", "-c", script.as_str()];
        let (code, said) = run_as_it_is("timeout", &line);
        assert_eq!(code, 0, "{before}: {said}");
        assert!(said.contains("requests come over"), "{before}: {said}");
        place.check();
    }
}

/// ring-Q1: the kernel waits for a queue of each processor that it counts, and answers nothing
/// until then.
#[test]
fn a_host_that_shows_fewer_processors_than_the_kernel_counts_gets_a_mount_that_answers() {
    let possible = "/sys/devices/system/cpu/possible";
    if fs::read_to_string(possible).expect("Linux").trim() == "0" {
        return;
    }
    let place = Place::new("ext4");
    let few = place.dir().with_extension("few");
    fs::write(&few, "0\n").expect("room");
    let mounted = |transport: &str, then: &str| {
        // A place where the mount is seen by nobody else, and ends with the last program in it.
        let script = format!(
            "mount --bind {} {possible} && timeout 60 {VARVE} mount {} {} -o transport={transport} && {then}",
            few.display(),
            place.image(),
            place.at()
        );
        // Mounts of other tests would be held here when they end.
        let alone = "awk '/ fuse.varve /{print $2}' /proc/self/mounts | xargs -r umount -l";
        let script = format!("{alone}\n{script}");
        let line = ["-m", "sh", "-c", script.as_str()];
        run("unshare", &line)
    };
    let at = place.at();
    let used =
        format!("timeout 20 sh -c 'echo x > {at}/file && cat {at}/file' && {VARVE} umount {at}");
    let (code, said) = mounted("auto", &used);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("it counts more processors"), "{said}");
    place.check();
    let (code, said) = mounted("uring", "true");
    assert_ne!(code, 0, "a ring was asked for: {said}");
    assert_ne!(code, 124, "it hangs: {said}");
    assert!(said.contains("it counts more processors"), "{said}");
    place.check();
    fs::remove_file(&few).expect("ours");
}

#[test]
fn a_signal_in_the_middle_leaves_a_clean_volume() {
    let place = Place::new("ext4");
    let mut daemon = Daemon::start(&place, "transport=uring");
    let process = daemon.0.id().to_string();
    let forced = ended_by(&place.dir(), || {
        must("kill", &["-TERM", &process]);
    });
    assert!(daemon.ended().success(), "{}", daemon.words());
    place.check();
    expect_forced(&place, &forced);
}

/// A remount is answered by a thread that is bound to a processor; the tasks of the volume, which
/// begin then, are not.
#[test]
fn a_remount_leaves_the_tasks_of_the_volume_on_all_processors() {
    let place = Place::new("ext4");
    let mut daemon = Daemon::start(&place, "transport=uring");
    let process = daemon.0.id();
    let masks = || {
        let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("the daemon");
        let status = |task: fs::DirEntry| {
            let path = task.path();
            let name = fs::read_to_string(path.join("comm")).ok()?;
            let status = fs::read_to_string(path.join("status")).ok()?;
            let mask = status
                .lines()
                .find(|l| l.starts_with("Cpus_allowed_list"))?;
            Some((name, mask.to_string()))
        };
        let all = tasks.filter_map(|task| status(task.expect("a task")));
        let mut masks: Vec<_> = all
            .filter(|(name, _)| !name.starts_with("fuse-ring"))
            .collect();
        masks.sort();
        masks
    };
    let before = masks();
    assert!(
        before.iter().all(|(_, mask)| *mask == before[0].1),
        "{before:?}"
    );
    must(VARVE, &["mount", "-o", "remount,commit=2", &place.at()]);
    let after = masks();
    assert!(
        after.iter().all(|(_, mask)| *mask == before[0].1),
        "{after:?}"
    );
    place.umount();
    assert!(daemon.ended().success(), "{}", daemon.words());
}

/// What a removed file gives back is there for the next one, though the kernel tells of its end
/// by another request, which a later write may overtake (ends-N1).
#[test]
fn a_removed_file_makes_room_at_once() {
    for transport in ["dev", "uring"] {
        let place = Place::new("ext4");
        place.mount(&format!("transport={transport}"));
        let at = place.dir();
        let fill = |name: &str| {
            let mut file = fs::File::create(at.join(name)).expect("a name");
            let mut written = 0;
            while let Ok(bytes @ 1..) = file.write(&[7; 1 << 17]) {
                written += bytes as u64;
            }
            written
        };
        let first = fill("f0");
        for round in 1..12 {
            fs::remove_file(at.join(format!("f{}", round - 1))).expect("it is there");
            let again = fill(&format!("f{round}"));
            assert!(
                again + (1 << 20) > first,
                "{transport}, round {round}: {again} of {first} bytes"
            );
        }
        place.umount();
        place.check();
    }
}

/// With too few descriptors there is a mount that answers, or none.
#[test]
fn a_ring_that_cannot_begin_leaves_no_mount_that_waits_for_it() {
    let place = Place::new("ext4");
    let (mut mounted, mut advised) = (0, 0);
    // What a caller leaves open counts too, so the number at which each step fails is not known.
    for files in (24..64).step_by(2) {
        let options = ["mount", &place.image(), &place.at(), "-o", "transport=auto"];
        let limit = format!("--nofile={files}");
        let (code, said) = run(
            "timeout",
            &[&["20", "prlimit", &limit, VARVE], &options[..]].concat(),
        );
        assert_ne!(
            code, 124,
            "with {files} descriptors the mount hangs: {said}"
        );
        let (answer, _) = run("timeout", &["10", "stat", &place.at()]);
        assert_ne!(
            answer, 124,
            "with {files} descriptors nothing is answered: {said}"
        );
        let up = answer == 0 && run("mountpoint", &[&place.at()]).0 == 0;
        match code == 0 && up {
            true => {
                unmount(VARVE, &place.at());
                mounted += 1;
            }
            // With very few the daemon ends at once, whatever the transport.
            false => drop(run("umount", &["-l", &place.at()])),
        }
        place.check();
        // Who asked for the ring alone is told what stands in its way.
        let only = [
            "mount",
            &place.image(),
            &place.at(),
            "-o",
            "transport=uring",
        ];
        let words = [&["20", "prlimit", &limit, VARVE], &only[..]].concat();
        let (code, said) = run("timeout", &words);
        match code {
            0 => drop(unmount(VARVE, &place.at())),
            _ if said.contains("io_uring") => {
                assert!(said.contains("`ulimit -n`"), "{files}: {said}");
                advised += 1;
            }
            _ => drop(run("umount", &["-l", &place.at()])),
        }
    }
    assert!(mounted > 0, "64 descriptors are enough");
    assert!(advised > 0, "a ring needs more than a mount without");
}
