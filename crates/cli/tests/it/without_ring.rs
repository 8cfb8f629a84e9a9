//! `varve mount` where the host has no ring for it: with `transport=auto` it works through
//! `/dev/fuse` and says why, with `transport=uring` it is refused with the reason. Needs root, FUSE
//! and the host's switch for FUSE over io_uring, which its suite turns on. No other suite with a
//! ring runs beside it.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

use crate::mount::place::{Place, VARVE, must, unmount};
use std::fs;
use std::path::Path;
use std::process::Command;

const ENABLED: &str = "/sys/module/fuse/parameters/enable_uring";
const FORBIDDEN: &str = "/proc/sys/kernel/io_uring_disabled";

/// One test at a time, because the switches are those of the whole host.
fn alone() -> fs::File {
    let file = fs::File::open(ENABLED).expect("a kernel with FUSE over io_uring");
    file.lock().expect("a lock");
    file
}

/// A switch of the host, which is as it was when this is dropped.
struct Turned {
    switch: &'static str,
    before: String,
}

impl Turned {
    fn to(switch: &'static str, value: &str) -> Turned {
        let before = fs::read_to_string(switch).expect(switch);
        fs::write(switch, value).expect("root");
        Turned { switch, before }
    }
}

impl Drop for Turned {
    fn drop(&mut self) {
        fs::write(self.switch, self.before.trim()).expect("root");
    }
}

/// What `varve mount` said, and whether it ended well.
fn mounted(place: &Place, options: &str, filter: &[&str]) -> (bool, String) {
    let mut command = Command::new("timeout");
    command.arg("60").args(filter);
    command.args([VARVE, "mount", &place.image(), &place.at(), "-o", options]);
    let output = command.output().expect("a program");
    let said = String::from_utf8_lossy(&output.stderr).to_string();
    (output.status.success(), said)
}

/// On such a host `auto` gives a mount that works and tells of `why`, and `uring` gives none.
fn falls_back(why: &str, more: &str, filter: &[&str]) {
    let place = Place::new("ext4");
    let file = place.dir().join("file");
    let (good, said) = mounted(&place, &format!("transport=auto{more}"), filter);
    assert!(good, "{said}");
    let words = "requests come through /dev/fuse, not over io_uring: ";
    assert_eq!(said.matches(words).count(), 1, "{said}");
    assert!(said.contains(why), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    fs::write(&file, "content").expect("a mount that works");
    assert_eq!(fs::read(&file).expect("it is there"), b"content");
    unmount(VARVE, &place.at());
    place.check();
    let (good, said) = mounted(&place, &format!("transport=uring{more}"), filter);
    assert!(!good, "{said}");
    assert!(
        said.contains(why) && said.contains("transport=auto"),
        "{said}"
    );
    assert!(!file.exists(), "there is no mount");
    place.check();
}

/// Runs the rest of its line behind a filter of system calls that answers the making of rings with
/// an error: load the number of the call; unless it is 425 (`io_uring_setup`), step over one;
/// answer the error; let all else pass.
const FILTER: &str = "
import ctypes, os, struct, sys
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x50000 | int(sys.argv[1])), (0x06, 0, 0, 0x7fff0000)]
program = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *step) for step in steps))
call = ctypes.CDLL(None).prctl
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
assert call(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
assert call(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, struct.pack('H6xQ', len(steps), ctypes.addressof(program))) == 0
os.execvp(sys.argv[2], sys.argv[2:])";

#[test]
fn a_filter_of_system_calls_leaves_a_mount_through_the_device() {
    let _alone = alone();
    falls_back(
        "a filter of system calls forbids it",
        "",
        &["python3", "-c", FILTER, "1"],
    );
    falls_back(
        "a filter of system calls hides it",
        "",
        &["python3", "-c", FILTER, "38"],
    );
}

#[test]
fn a_host_that_forbids_io_uring_leaves_a_mount_through_the_device() {
    let _alone = alone();
    if !Path::new(FORBIDDEN).exists() {
        return;
    }
    let _turned = Turned::to(FORBIDDEN, "2");
    falls_back("kernel.io_uring_disabled=2", "", &[]);
}

#[test]
fn a_kernel_that_does_not_offer_the_ring_leaves_a_mount_through_the_device() {
    let _alone = alone();
    let _turned = Turned::to(ENABLED, "N");
    let why = "the kernel does not offer it; `echo Y > /sys/module/fuse/parameters/enable_uring`";
    falls_back(why, "", &[]);
}

#[test]
fn options_that_rule_the_ring_out_are_named() {
    let _alone = alone();
    let why = "max_write=65536 is too little for it, 131072 is the least";
    falls_back(why, ",max_write=64k", &[]);
}

/// Without the right to lock memory the rings count against its limit (Linux 6.14 and later).
#[test]
fn a_limit_of_locked_memory_leaves_a_mount_through_the_device() {
    let _alone = alone();
    let place = Place::new("ext4");
    let (image, at) = (place.image(), place.at());
    let line = ["--bounding-set=-ipc_lock", "prlimit", "--memlock=0", VARVE];
    let mount = ["mount", &image, &at, "-o", "transport=auto"];
    let mut command = Command::new("setpriv");
    let output = command.args(line).args(mount).output().expect("setpriv");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("`ulimit -l`, is too low"), "{said}");
    fs::write(place.dir().join("file"), "content").expect("a mount that works");
    unmount(VARVE, &at);
    place.check();
}

/// ring-Q1: a host that shows more processors than the kernel counts costs no threads for them.
#[test]
fn a_host_that_shows_too_many_processors_gets_a_mount_and_no_thread_for_each() {
    let _alone = alone();
    let possible = "/sys/devices/system/cpu/possible";
    let alone = "awk '/ fuse.varve /{print $2}' /proc/self/mounts | xargs -r umount -l";
    for (shown, why) in [
        ("0-2999", "it cannot be registered"),
        ("0-70000", "no number of processors"),
        ("0-4294967295", "no number of processors"),
    ] {
        let place = Place::new("ext4");
        let (image, at) = (place.image(), place.at());
        let script = format!(
            "{alone}
            echo {shown} >{at}.file && mount --bind {at}.file {possible} || exit 3
            strace -f -qq -o {at}.calls -e trace=clone,clone3 \
                {VARVE} mount -f {image} {at} -o transport=auto 2>{at}.words & traced=$!
            for i in $(seq 400); do
                kill -0 $traced || break
                grep -q 'requests come' {at}.words && break; sleep 0.05
            done
            cat {at}.words
            echo x >{at}/file && {VARVE} umount {at} && wait $traced"
        );
        let line = ["100", "unshare", "-m", "sh", "-c", script.as_str()];
        let said = must("timeout", &line);
        assert!(said.contains(why), "{shown}: {said}");
        let calls = fs::read_to_string(format!("{at}.calls")).expect("its calls");
        let threads = calls.lines().filter(|line| line.contains("clone")).count();
        assert!(threads < 300, "{shown}: {threads} threads");
        place.check();
    }
}
