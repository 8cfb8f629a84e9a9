//! Tests the harness itself, and that the kernel agrees with itself about each plan: what it wrote,
//! killed or not, reads the same again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use varve_guest::{Ending, Guest, LogWrites, Plan, Session, Tree};

/// What a script calls.
#[test]
fn in_the_guest() {
    varve_guest::hook();
}

fn guest() -> Guest {
    Guest::new(&["in_the_guest", "--exact", "--nocapture"]).expect("a scratch directory")
}

/// A fresh F2FS of `mib` MiB.
fn image(dir: &Path, mib: u64) -> PathBuf {
    let path = dir.join("image");
    fs::File::create(&path)
        .expect("an image")
        .set_len(mib << 20)
        .expect("its size");
    let done = Command::new("mkfs.f2fs")
        .arg("-q")
        .arg(&path)
        .output()
        .expect("mkfs.f2fs");
    assert!(done.status.success(), "{done:?}");
    path
}

fn fsck(image: &Path) {
    let done = Command::new("fsck.f2fs")
        .arg("--dry-run")
        .arg(image)
        .output()
        .expect("fsck.f2fs");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stdout)
    );
}

fn tree(guest: &Guest, name: &str) -> Tree {
    let text = fs::read_to_string(guest.scratch().join(name)).expect(name);
    text.parse().expect(name)
}

#[test]
fn status_output_and_failure_come_back() {
    let guest = guest();
    let outcome = guest
        .run("echo hello; uname -r; test ! -e nothing; exit 7")
        .expect("it boots");
    assert_eq!(outcome.ending, Ending::Exit(7));
    assert!(outcome.output.starts_with("hello\n"), "{}", outcome.output);
    let failed = guest.check("false; echo not here").expect_err("sh -e");
    assert!(failed.to_string().contains("Exit(1)"), "{failed}");
    assert!(
        guest.run("exit 0").expect("again").output.is_empty(),
        "nothing is left of the boots before"
    );
}

#[test]
fn a_guest_that_hangs_is_stopped() {
    let guest = guest().limit(std::time::Duration::from_secs(4));
    let error = guest.run("echo waiting; sleep 100").expect_err("too long");
    assert!(error.to_string().contains("not done in time"), "{error}");
    assert!(error.to_string().contains("waiting"), "{error}");
}

/// Every plan that leaves no open question, unmounted and read again.
#[test]
fn what_the_kernel_wrote_reads_the_same_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = image(dir.path(), 128);
    let guest = guest().disk(&image);
    guest
        .check(
            "guest load f2fs
         mount -t f2fs $DISK0 $MNT
         for plan in rich large acl change random; do guest plan $plan 5 $MNT; done
         guest tree $MNT before
         umount $MNT
         mount -t f2fs -o ro $DISK0 $MNT
         guest tree $MNT after
         umount $MNT",
        )
        .expect("the plans run");
    let (before, after) = (tree(&guest, "before"), tree(&guest, "after"));
    assert_eq!(before.differences(&after), [""; 0]);
    assert!(before.0.len() > 2000, "{} entries", before.0.len());
    let codes = fs::read_to_string(guest.scratch().join("random.codes")).expect("codes");
    let codes: Vec<&str> = codes.lines().collect();
    assert_eq!(
        codes.len(),
        Plan::named("random", 5).expect("known").ops.len()
    );
    assert!(
        codes.contains(&"0") && codes.contains(&"2"),
        "some go well, some do not"
    );
    fsck(&image);
}

/// Killed, it keeps what fsync promised, and loses files without a name.
#[test]
fn a_crash_leaves_a_dirty_image_that_the_kernel_recovers() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = image(dir.path(), 128);
    let guest = guest().disk(&image);
    guest
        .crash(
            "guest load f2fs
         mount -t f2fs $DISK0 $MNT
         guest plan fsync 1 $MNT
         guest plan-crash orphans 1 $MNT",
        )
        .expect("the plans run");
    guest
        .check(
            "guest load f2fs
         mount -t f2fs $DISK0 $MNT
         guest tree $MNT after
         umount $MNT",
        )
        .expect("it recovers");
    let after = tree(&guest, "after");
    for kept in [
        "/base/last",
        "/old/new0",
        "/old/renamed",
        "/o/1",
        "/o/after",
    ] {
        assert!(after.0.contains_key(kept), "{kept} of {:?}", after.0.keys());
    }
    assert!(!after.0.contains_key("/o/0"));
    fsck(&image);
}

/// Device mapper's log of writes, replayed whole and in part.
#[test]
fn a_log_of_writes_gives_images_of_any_moment() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = image(dir.path(), 64);
    let fresh = dir.path().join("fresh");
    fs::copy(&image, &fresh).expect("a copy");
    let log = dir.path().join("log");
    fs::File::create(&log)
        .expect("a log")
        .set_len(256 << 20)
        .expect("its size");
    let guest = guest().disk(&image).disk(&log);
    guest
        .check(
            "guest load f2fs
         guest load dm-log-writes
         size=$(cat /sys/block/$BLOCK0/size)
         dmsetup create --noudevsync log --table \"0 $size log-writes $DISK0 $DISK1\"
         mount -t f2fs /dev/dm-0 $MNT
         guest plan fsync 1 $MNT
         dmsetup message log 0 mark planned
         umount $MNT
         dmsetup remove log",
        )
        .expect("the plan runs");
    let log = LogWrites::open(&log).expect("a log");
    let planned = log.mark("planned").expect("the mark is there");
    let flushes = log.entries.iter().filter(|e| e.what.flush).count();
    assert!(
        flushes > 20,
        "fsync flushes: {flushes} of {}",
        log.entries.len()
    );

    // All of it gives the image; the part up to the mark an unclean one, which the kernel recovers.
    let whole = fs::File::options()
        .write(true)
        .open(&fresh)
        .expect("the fresh image");
    log.replay(0..planned, &whole).expect("replayed");
    let guest = self::guest().disk(&fresh).disk(&image);
    let part = "guest load f2fs
         mount -t f2fs $DISK0 $MNT
         guest tree $MNT part
         umount $MNT";
    guest.check(part).expect("it recovers");
    let part = tree(&guest, "part");
    // A write that no flush followed is logged after the mark: so an earlier file.
    assert!(part.0.contains_key("/old/new18"));
    fsck(&fresh);
    fs::write(&fresh, fs::read(&image).expect("the image")).expect("the same size");
    log.replay(planned..log.entries.len(), &whole)
        .expect("replayed");
    let same = fs::read(&fresh).expect("replayed") == fs::read(&image).expect("written");
    assert!(same, "what came last is there already");
}

/// One boot, many scripts: each has its own output and status, and what one leaves the next finds.
#[test]
fn a_session_runs_scripts_in_turn_in_one_boot() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = image(dir.path(), 64);
    let other = dir.path().join("other");
    fs::copy(&image, &other).expect("a copy");
    let mut session = Session::start(guest().disk(&image)).expect("it boots");
    let script = "guest load f2fs; mount -t f2fs $DISK0 $MNT; echo one >$MNT/a; umount $MNT";
    assert_eq!(session.run(script).expect("it runs"), (0, String::new()));
    let boot = "cat /proc/sys/kernel/random/boot_id";
    let first = session.run(&format!("{boot}; exit 3")).expect("it runs");
    let second = session
        .run(&format!("{boot}; false; echo no"))
        .expect("it runs");
    assert_eq!((first.0, second.0), (3, 1));
    assert_eq!(
        first.1, second.1,
        "no second boot, and nothing behind `false`"
    );
    // The host changes the disk while nothing has it open: no cache shows what was there before.
    fs::write(&image, fs::read(&other).expect("read")).expect("written");
    let look = "mount -t f2fs $DISK0 $MNT; ls $MNT; umount $MNT";
    assert_eq!(session.run(look).expect("it runs"), (0, String::new()));
}

#[test]
fn a_session_tells_of_a_guest_that_dies_or_hangs() {
    let limit = std::time::Duration::from_secs(3);
    let mut session = Session::start(guest().limit(limit)).expect("it boots");
    session.run("true").expect("it runs");
    let late = session.run("sleep 1000").expect_err("too long");
    assert!(late.to_string().contains("not done in time"), "{late}");
    let mut session = Session::start(guest()).expect("it boots");
    let dead = session.run("guest poweroff").expect_err("it is off");
    assert!(dead.to_string().contains("died"), "{dead}");
}
