//! `varve crash --dir`: programs on a real FUSE mount, what is recorded of them, and ends that
//! leave nothing behind. Needs FUSE and python3: its suite says so.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod ends;
mod guards;
mod outcomes;
mod shares;
mod stacks;

use crate::program::{command, folder, text, words};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A folder for a test, with the temporary files of the runs in it.
struct Room(TempDir);

impl Room {
    fn new() -> Room {
        let room = Room(folder());
        fs::create_dir(room.0.path().join("tmp")).expect("a folder");
        room
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn crash(&self, options: &[&str]) -> Command {
        let mut varve = command();
        varve
            .args(["crash", "--dir"])
            .args(options)
            .env("TMPDIR", self.path().join("tmp"))
            .current_dir(self.path());
        varve
    }

    fn run(&self, options: &[&str]) -> Output {
        let out = self.crash(options).output();
        self.is_left_clean();
        out.expect("the program starts")
    }

    fn start(&self, options: &[&str]) -> Child {
        let mut varve = self.crash(options);
        varve.stdin(Stdio::null()).stdout(Stdio::piped());
        varve
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts")
    }

    /// The recorded calls, a line each, without number and caller.
    fn calls(&self, options: &[&str]) -> Vec<String> {
        let out = self.run(&[options, &["--show"]].concat());
        assert!(out.status.success(), "{}", words(&out));
        let line = |line: &str| line.split_once("  ").map(|(_, rest)| rest.to_string());
        let calls: Option<Vec<String>> = text(&out.stdout).lines().map(line).collect();
        let calls = calls.expect("number, caller, call");
        let call = |line: &String| {
            let (_, call) = line.split_once(' ').expect("a call behind its caller");
            call.trim().to_string()
        };
        calls.iter().map(call).collect()
    }

    /// No mount, no temporary file.
    fn is_left_clean(&self) {
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("a table of mounts");
        let own = self.path().to_str().expect("a plain name");
        assert!(!mounts.contains(own), "{mounts}");
        let mut left = fs::read_dir(self.path().join("tmp")).expect("it is there");
        let left = left
            .next()
            .map(|entry| entry.expect("it can be read").path());
        assert_eq!(left, None);
    }

    fn told(&self, options: &[&str], code: i32, wanted: &[&str]) {
        let out = self.run(options);
        let said = words(&out);
        assert_eq!(out.status.code(), Some(code), "{said}");
        for word in wanted {
            assert!(said.contains(word), "no `{word}` in: {said}");
        }
    }
}

fn at(calls: &[String], wanted: &str) -> usize {
    let found = calls.iter().position(|call| call.starts_with(wanted));
    found.unwrap_or_else(|| panic!("no {wanted} in {calls:#?}"))
}

fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// What a run said that ends by itself; one that does not is killed.
fn ended_by_itself(mut running: Child, patience: Duration) -> Output {
    let since = Instant::now();
    while running.try_wait().expect("it can be waited for").is_none() {
        if since.elapsed() > patience {
            running.kill().expect("it runs");
            panic!("it has not ended within {patience:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    running.wait_with_output().expect("its words")
}

/// Asks a run to end, which it has to do in time; what it said.
fn ended(running: Child, signal: Signal) -> String {
    let pid = Pid::from_child(&running);
    kill_process(pid, signal).expect("it runs");
    let since = Instant::now();
    let out = running.wait_with_output().expect("it ends");
    let said = words(&out);
    assert_eq!(out.status.code(), Some(128 + signal.as_raw()), "{said}");
    assert!(since.elapsed() < Duration::from_secs(20), "{said}");
    said
}

/// Waits until a file is there, and answers the number in it.
fn number_in(file: &Path) -> i32 {
    let since = Instant::now();
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        if text.ends_with('\n') {
            return text.trim().parse().expect("a number");
        }
        assert!(
            since.elapsed() < Duration::from_secs(30),
            "{}",
            file.display()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

const WAYS: &str = r#"
import fcntl, mmap, os, socket, subprocess, threading
fd = os.open("db.tmp", os.O_CREAT | os.O_WRONLY, 0o644)
os.write(fd, b"x" * 5000)
os.fsync(fd)
os.close(fd)
os.rename("db.tmp", "db")
with open(os.environ["VARVE_ACKS"], "w") as acks:
    acks.write("stored\n")
dir = os.open(".", os.O_RDONLY)
os.fsync(dir)
print("printed", flush=True)
with open("mapped", "w+b") as file:
    file.truncate(8192)
    pages = mmap.mmap(file.fileno(), 8192)
    pages[5000:5003] = b"abc"
    pages.flush()
thread = threading.Thread(target=lambda: open("of-thread", "w").write("t"))
thread.start()
thread.join()
with open("locked", "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    other = subprocess.run("flock -n locked true; echo $? > of-shell", shell=True)
    fcntl.flock(file, fcntl.LOCK_UN)
subprocess.run("dd if=/dev/zero of=direct bs=4096 count=2 oflag=direct 2>/dev/null", shell=True, check=True)
assert open("of-shell").read() == "1\n"
fd = os.open("synchronous", os.O_CREAT | os.O_WRONLY | os.O_DSYNC)
os.write(fd, b"sync")
fd = os.open("by-flags", os.O_CREAT | os.O_WRONLY)
os.pwritev(fd, [b"data"], 0, os.RWF_DSYNC)
os.pwritev(fd, [b"file"], 4, os.RWF_SYNC)
os.link("db", "other")
os.symlink("db", "link")
os.mkdir("dir", 0o700)
os.chmod("dir", 0o750)
os.setxattr("db", "user.key", b"value")
os.truncate("db", 100)
os.unlink("other")
client = socket.socket(socket.AF_UNIX)
client.connect(os.environ["VARVE_ACK_SOCKET"])
client.sendall(b"by socket\n")
assert client.recv(10) == b"ok\n"
os.rename("mapped", "dir/mapped")
assert sorted(os.listdir(".")) == ["by-flags", "db", "dir", "direct", "link", "locked", "of-shell", "of-thread", "synchronous"]
assert os.getcwd() == os.environ["VARVE_DIR"]
"#;

#[test]
fn what_programs_do_is_recorded_in_its_order() {
    let room = Room::new();
    let script = room.path().join("ways.py");
    fs::write(&script, WAYS).expect("room");
    let varve = env!("CARGO_BIN_EXE_varve");
    let run = format!(
        "python3 {} && {varve} ack 'by command' && printf unended > $VARVE_ACKS",
        script.display()
    );
    let calls = room.calls(&["--run", &run, "--acks", "stdout"]);
    let begin = [
        "creat(db.tmp, 0644)",
        "write(db.tmp, 5000 bytes at 0)",
        "fsync(db.tmp)",
        "rename(db.tmp, db)",
        "acknowledged: stored",
        "fsync(.)",
        "acknowledged: printed",
        "creat(mapped, 0644)",
        "truncate(mapped, 8192)",
    ];
    assert_eq!(calls[..begin.len()], begin);
    let mapped = at(&calls, "write(mapped, 4096 bytes at 4096)");
    assert!(mapped < at(&calls, "fdatasync(mapped)") || mapped < at(&calls, "fsync(mapped)"));
    for call in [
        "write(of-thread, 1 bytes at 0)",
        "write(direct, 4096 bytes at 4096)",
        "link(db, other)",
        // From here on the file goes by the last name that it was given.
        "symlink(link) -> db",
        "mkdir(dir, 0700)",
        "chmod(dir, 0750)",
        "setxattr(other, user.key, 5 bytes)",
        "truncate(other, 100)",
        "unlink(other)",
        "rename(mapped, dir/mapped)",
    ] {
        at(&calls, call);
    }
    let written = at(&calls, "write(synchronous");
    assert!(
        calls[written + 1].starts_with("fdatasync(synchronous)"),
        "{calls:#?}"
    );
    assert!(
        calls[written + 2].starts_with("creat(by-flags"),
        "record-R6: one sync: {calls:#?}"
    );
    let by_flags = [
        "write(by-flags, 4 bytes at 0)",
        "fdatasync(by-flags)",
        "write(by-flags, 4 bytes at 4)",
        "fsync(by-flags)",
    ];
    assert_eq!(calls[written + 3..][..4], by_flags, "record-R6: {calls:#?}");
    assert!(calls[written + 7].starts_with("link("), "{calls:#?}");
    let socket = at(&calls, "acknowledged: by socket");
    assert!(at(&calls, "unlink(other)") < socket, "call-C2");
    assert!(socket < at(&calls, "rename(mapped"), "call-C2");
    let ends = ["acknowledged: by command", "acknowledged: unended"];
    assert_eq!(calls[calls.len() - 2..], ends);
}

#[test]
fn callers_are_named_with_process_and_thread() {
    let room = Room::new();
    let run = "echo a > a; python3 -c 'import threading as t; x = t.Thread(target=lambda: open(\"b\", \"w\").write(\"b\")); x.start(); x.join()'";
    let out = room.run(&["--run", run, "--show"]);
    let list = text(&out.stdout);
    let caller = |call: &str| {
        let line = list.lines().find(|line| line.ends_with(call));
        let line = line.unwrap_or_else(|| panic!("no {call} in {list}"));
        line.split_whitespace()
            .nth(1)
            .expect("a caller")
            .to_string()
    };
    let shell = caller("write(a, 2 bytes at 0)");
    assert!(shell.starts_with("sh[") && !shell.contains('/'), "{shell}");
    let thread = caller("write(b, 1 bytes at 0)");
    assert!(
        thread.starts_with("python3[") && thread.contains('/'),
        "{thread}"
    );
}

#[test]
fn what_is_there_before_is_no_call() {
    let room = Room::new();
    let from = room.path().join("from");
    fs::create_dir_all(from.join("d")).expect("a folder");
    fs::write(from.join("d/f"), "content").expect("room");
    symlink("d/f", from.join("s")).expect("a link");
    let run = "cat d/f setup > both && cat s >> both";
    let calls = room.calls(&[
        "--from",
        "from",
        "--setup",
        "echo from setup > setup",
        "--run",
        run,
    ]);
    let expected = [
        "creat(both, 0644)",
        "write(both, 7 bytes at 0)",
        "write(both, 11 bytes at 7)",
        "write(both, 7 bytes at 18)",
    ];
    assert_eq!(calls, expected);
}

#[test]
fn calls_fail_where_it_was_asked_for() {
    let room = Room::new();
    let script = "import os\nfd = os.open('f', os.O_CREAT | os.O_RDWR)\nfor n in range(3):\n    os.write(fd, b'x')\n    try:\n        os.fsync(fd)\n    except OSError as e:\n        open('failed', 'w').write(str(e.errno))\n";
    fs::write(room.path().join("sync.py"), script).expect("room");
    let run = format!("python3 {}/sync.py; exit 3", room.path().display());
    let calls = room.calls(&["--run", &run, "--fail", "fsync=EIO@2"]);
    let syncs: Vec<&String> = calls.iter().filter(|c| c.starts_with("fsync(f)")).collect();
    assert_eq!(syncs, ["fsync(f)", "fsync(f) = EIO", "fsync(f)"]);
    let failed = at(&calls, "fsync(f) = EIO");
    assert_eq!(
        calls[failed + 2],
        "write(failed, 1 bytes at 0)",
        "what comes then"
    );

    let out = room.run(&[
        "--run",
        "echo a > a; echo b > b 2>/dev/null || echo refused >&2",
        "--fail",
        "write=ENOSPC@1:b",
        "--fail",
        "rename=EIO@1",
        "--show",
    ]);
    let said = words(&out);
    assert!(
        said.contains("refused") && said.contains("write(a, 2 bytes at 0)"),
        "{said}"
    );
    let failed = "write(b, 2 bytes at 0) = ENOSPC";
    assert!(
        said.contains(failed) && !said.contains("write(b, 2 bytes at 0)\n"),
        "{said}"
    );
    assert!(
        said.contains("rename=EIO@1: no such call was made"),
        "{said}"
    );
}

#[test]
fn a_fault_that_never_came_about_is_no_success() {
    let room = Room::new();
    let run = [
        "--run",
        "echo a > a",
        "--check",
        "true",
        "--fail",
        "fsync=EIO@9",
    ];
    let no_call = "--fail fsync=EIO@9: no such call was made";
    room.told(&run, 3, &[no_call, "--show"]);
    let json = fs::read_to_string(room.path().join("varve-crash/results.json"));
    assert!(json.expect("the results").contains(no_call));
}

/// FUSE is told of neither; a shell script has no other.
#[test]
fn syncs_of_everything_are_seen() {
    let room = Room::new();
    let run = [
        "--run",
        "echo a > a; sync; echo b > b; sync -f b; sync -f /",
    ];
    if words(&room.run(&[&run[..], &["--show"]].concat())).contains("were not seen") {
        return eprintln!(
            "skipped: this host lets no filter of system calls be put over a command"
        );
    }
    let calls = room.calls(&run);
    let syncs = calls
        .iter()
        .filter(|call| call.starts_with("sync("))
        .count();
    assert_eq!(syncs, 2, "{calls:#?}");
    assert!(at(&calls, "write(a") < at(&calls, "sync("), "{calls:#?}");
    let run = "printf 0123456789 > new; sync; mv new kept; sync; echo saved";
    let judge = "test -z \"$(cat $VARVE_ACKED)\" || test -s \"$VARVE_DIR/kept\"";
    room.told(
        &["--run", run, "--acks", "stdout", "--check", judge],
        0,
        &["holds"],
    );
}

#[test]
fn a_full_volume_is_told() {
    let room = Room::new();
    let run = ["--run", "head -c 30000000 /dev/zero > f", "--size", "16"];
    room.told(&run, 3, &["the volume was full", "16 MiB", "--size"]);
}

#[test]
fn a_recording_is_kept_and_taken_again() {
    let room = Room::new();
    let first = room.calls(&["--run", "echo a > a; mv a b; sync b", "--keep", "kept"]);
    assert_eq!(first.len(), 4);
    assert_eq!(room.calls(&["--recording", "kept"]), first);
    let mut bytes = fs::read(room.path().join("kept")).expect("it is there");
    bytes.truncate(bytes.len() / 2);
    fs::write(room.path().join("half"), bytes).expect("room");
    room.told(&["--recording", "half", "--show"], 3, &["half: is damaged"]);
    fs::write(room.path().join("text"), "some text").expect("room");
    room.told(
        &["--recording", "text", "--show"],
        3,
        &["text: is no recording"],
    );
    room.told(
        &["--recording", "none", "--show"],
        3,
        &["none: No such file"],
    );
}

#[test]
fn the_mount_appears_where_it_is_wanted() {
    let room = Room::new();
    fs::create_dir(room.path().join("here")).expect("a folder");
    let run = "pwd; findmnt -no FSTYPE . || true";
    for name in ["here", "new"] {
        let mut varve = command();
        varve.args(["crash", "--run", run, "--show", "--dir", name]);
        varve
            .env("TMPDIR", room.path().join("tmp"))
            .current_dir(room.path());
        let said = words(&varve.output().expect("the program starts"));
        let wanted = room.path().canonicalize().expect("it is there").join(name);
        assert!(said.contains(&*wanted.to_string_lossy()), "{said}");
        room.is_left_clean();
    }
    assert!(room.path().join("here").is_dir(), "it is the user's");
    assert!(!room.path().join("new").exists());
    fs::write(room.path().join("here/file"), "").expect("room");
    let mut varve = command();
    varve
        .args(["crash", "--run", run, "--dir", "here"])
        .current_dir(room.path());
    let out = varve.output().expect("the program starts");
    assert!(
        words(&out).contains("here: is not empty"),
        "{}",
        words(&out)
    );
}

#[test]
fn what_cannot_be_is_told_with_what_to_do() {
    let room = Room::new();
    let from = room.path().join("from");
    fs::create_dir(&from).expect("a folder");
    room.told(
        &["--run", "exit 7"],
        3,
        &["exit status: 7", "nothing was judged", "--allow-failure"],
    );
    room.told(
        &["--run", "true", "--setup", "false"],
        3,
        &["--setup", "exit status: 1"],
    );
    room.told(&[], 2, &["--run COMMAND"]);
    room.told(&["--run", "true", "--image", "x"], 2, &["--image"]);
    room.told(
        &["--run", "true", "--fail", "fsink=EIO"],
        2,
        &["fdatasync", "fsync=EIO@3"],
    );
    room.told(
        &["--run", "true", "--judge", "nobody"],
        2,
        &["nobody", "same-or-old"],
    );
    room.told(
        &["--run", "true", "--model", "nothing"],
        2,
        &["nothing", "posix"],
    );
    room.told(
        &["--run", "true", "--from", "none"],
        3,
        &["none: is no directory"],
    );
    let run = "head -c 9M /dev/zero | tr '\\0' x > f";
    room.told(&["--run", run, "--memory", "4"], 3, &["--memory"]);
    let run = "head -c 40M /dev/zero > f 2>&1 || echo it is full";
    room.told(
        &["--run", run, "--size", "16", "--show"],
        0,
        &["it is full"],
    );

    fs::write(from.join("big"), vec![1; 20 << 20]).expect("room");
    room.told(
        &["--run", "true", "--from", "from", "--size", "16"],
        3,
        &["--size", "no space"],
    );
    fs::remove_file(from.join("big")).expect("it is there");
    let made = Command::new("mkfifo").arg(from.join("pipe")).status();
    assert!(made.expect("mkfifo starts").success());
    let wanted = ["pipe: is neither file, directory nor symbolic link"];
    room.told(&["--run", "true", "--from", "from"], 3, &wanted);
}

#[test]
fn a_hung_command_leaves_nothing() {
    let room = Room::new();
    // It does not end when it is asked to, and neither does what it has put into the background.
    let run = format!(
        "trap '' TERM; (trap '' TERM; setsid sleep 300) & echo $$ > {}/pid; sleep 300",
        room.path().display()
    );
    room.told(
        &["--run", &run, "--timeout", "1"],
        3,
        &["within 1 s", "--timeout"],
    );
    assert!(!is_alive(number_in(&room.path().join("pid"))));
    let sleeping = Command::new("pgrep").args(["-f", "^sleep 300$"]).output();
    let sleeping = sleeping.expect("pgrep starts");
    for pid in text(&sleeping.stdout).lines() {
        let cwd = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        assert!(!cwd.starts_with(room.path()), "{pid} in {}", cwd.display());
    }
    let out = room.run(&[
        "--run",
        "echo a > a; sleep 300",
        "--timeout",
        "1",
        "--allow-failure",
        "--show",
    ]);
    let said = words(&out);
    assert!(
        out.status.success() && said.contains("write(a, 2 bytes"),
        "{said}"
    );
}

#[test]
fn a_signal_leaves_nothing() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let room = Room::new();
        let run = format!(
            "echo a > a; echo $$ > {}/pid; sleep 300",
            room.path().display()
        );
        let running = room.start(&["--run", &run]);
        let pid = number_in(&room.path().join("pid"));
        let said = ended(running, signal);
        assert!(said.contains("nothing was judged"), "{said}");
        assert!(!is_alive(pid), "{signal:?}");
        room.is_left_clean();
    }
}

#[test]
fn a_daemon_that_stays_is_named_and_ended() {
    let room = Room::new();
    let run = format!(
        "setsid sh -c 'echo $$ > {}/pid; exec sleep 300' </dev/null >/dev/null 2>&1 & sleep 0.3; echo a > a",
        room.path().display()
    );
    room.told(
        &["--run", &run, "--show", "--timeout", "2"],
        0,
        &["has left processes", "sleep (", "write(a"],
    );
    assert!(!is_alive(number_in(&room.path().join("pid"))));
}

const REPLACE: &str = r#"
import os, sys
for n in (1, 2):
    with open("new", "w") as file:
        file.write("version %d\n" % n * 20)
        file.flush()
        if "sync" in sys.argv:
            os.fsync(file.fileno())
    os.rename("new", "data")
    if "sync" in sys.argv:
        os.fsync(os.open(".", os.O_RDONLY))
    print("saved", n, flush=True)
"#;

/// The command that saves two versions, with the syncs that it takes or without.
fn replace(room: &Room, how: &str) -> String {
    let script = room.path().join("replace.py");
    fs::write(&script, REPLACE).expect("room");
    format!("python3 {} {how}", script.display())
}

const JUDGED: [&str; 4] = ["--acks", "stdout", "--judge", "same-or-old=data"];

#[test]
fn a_file_that_is_replaced_without_syncs_is_found_and_mended() {
    let room = Room::new();
    let run = replace(&room, "");
    let options = [&["--run", run.as_str(), "--suggest"], &JUDGED[..]].concat();
    let out = room.run(&options);
    let said = text(&out.stdout);
    assert_eq!(out.status.code(), Some(1), "{}", words(&out));
    for word in [
        "no fdatasync(new) comes before `rename(new, data)`",
        "no fsync(.) comes before the acknowledgement of `saved 1`",
        "mend: add before `rename(new, data)`",
        "cost on emmc-odroid-xu4: ",
        " with the added syncs, ",
        "posix",
        "ext4",
        "f2fs",
    ] {
        assert!(said.contains(word), "no `{word}` in {said}");
    }
    let results = room.path().join("varve-crash");
    for name in [
        "results.json",
        "junit.xml",
        "index.html",
        "recording",
        "finding-1/after",
    ] {
        assert!(results.join(name).exists(), "{name}");
    }
    let again = said
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("again"));
    let state = again.and_then(|line| line.split("--state ").nth(1));
    let state = state
        .expect("a line that makes it again")
        .trim_matches('\'');
    let recording = ["--recording", "varve-crash/recording", "--state", state];
    let options = [&recording[..], &JUDGED[2..], &["--out", "again"]].concat();
    room.told(&options, 1, &["bad: data "]);

    let run = replace(&room, "sync");
    let out = room.run(&[&["--run", run.as_str()], &JUDGED[..]].concat());
    assert!(out.status.success(), "{}", words(&out));
}

#[test]
fn lint_needs_no_judge_and_json_is_alone() {
    let room = Room::new();
    let run = replace(&room, "");
    room.told(
        &["--run", &run, "--acks", "stdout", "--lint"],
        1,
        &["fdatasync(new) lacks", "not everything was synced"],
    );
    let run = replace(&room, "sync");
    room.told(
        &["--run", &run, "--acks", "stdout", "--lint"],
        0,
        &["everything was synced"],
    );
    let run = format!("{run}; echo more");
    let out = room.run(&["--run", &run, "--json", "--model", "posix", "--runs", "1"]);
    let whole: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON alone");
    assert_eq!(whole["models"][0]["name"], "posix");
    assert!(
        text(&out.stderr).contains("more"),
        "what the command prints"
    );
}

#[test]
fn a_signal_while_trees_are_judged_keeps_what_is_known() {
    let room = Room::new();
    let run = replace(&room, "");
    let check = format!("echo 1 > {}/begun; sleep 0.2", room.path().display());
    let running = room.start(&["--run", &run, "--check", &check, "--jobs", "1"]);
    number_in(&room.path().join("begun"));
    // The trees before and after the run are judged first.
    std::thread::sleep(Duration::from_millis(1500));
    let said = ended(running, Signal::INT);
    assert!(said.contains("INCOMPLETE"), "{said}");
    assert!(said.contains("marked as incomplete"), "{said}");
    let results = fs::read_to_string(room.path().join("varve-crash/results.json"));
    assert!(results.expect("it is there").contains("incomplete"));
    room.is_left_clean();
}
