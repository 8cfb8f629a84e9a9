//! `varve crash --dir --backtrace`: stacks of programs in several languages, of libraries, and of
//! programs on the volume itself. Needs compilers of C and Rust.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::{Room, ended_by_itself};
use crate::program::words;
use std::fs;
use std::process::Command;
use std::time::Duration;

/// Replaces a file, with a buffer on the stack and a call by a pointer.
const STORE_C: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static int put(int fd, const char *text) {
    return write(fd, text, strlen(text)) > 0;
}
static int store(int (*how)(int, const char *)) {
    char text[3000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    int fd = open("new", O_CREAT | O_WRONLY, 0644);
    int done = how(fd, text);
    close(fd);
    return rename("new", "old") == 0 && done;
}
int main(void) { return !store(put); }
"#;

const STORE_RS: &str = r#"
use std::io::Write;
fn put(file: &mut std::fs::File) {
    file.write_all(b"content").unwrap();
}
fn store() {
    put(&mut std::fs::File::create("new").unwrap());
    std::fs::rename("new", "old").unwrap();
}
fn main() {
    std::thread::spawn(store).join().unwrap();
}
"#;

/// The recorded calls with their innermost frames, of a program that this compiler makes.
fn calls_of(room: &Room, compile: &[&str], source: &str, file: &str) -> Vec<String> {
    fs::write(room.path().join(file), source).expect("room");
    let mut compiler = Command::new(compile[0]);
    compiler
        .args(&compile[1..])
        .args(["-g", "-o", "store", file]);
    let made = compiler.current_dir(room.path()).output();
    let made = made.expect("a compiler");
    assert!(made.status.success(), "{}", words(&made));
    let program = room.path().join("store");
    room.calls(&[
        "--run",
        program.to_str().expect("a plain name"),
        "--backtrace",
    ])
}

#[test]
fn the_stack_of_a_program_is_told_where_a_call_matters() {
    let room = Room::new();
    for level in ["-O0", "-O2", "-fno-omit-frame-pointer"] {
        let calls = calls_of(&room, &["cc", level, "-fno-inline"], STORE_C, "store.c");
        let wanted = [
            "creat(new, 0644)  at store (store.c:13)",
            "write(new, 2999 bytes at 0)  at put (store.c:7)",
            "rename(new, old)  at store (store.c:16)",
        ];
        assert_eq!(calls, wanted, "{level}");
    }
    let program = room.path().join("store");
    let run = program.to_str().expect("a plain name");
    let options = ["--run", run, "--setup", "echo > old", "--backtrace"];
    let judge = ["--judge", "same-or-old=old", "--model", "posix"];
    let frames = [
        "at put (store.c:7)\n",
        "at store (store.c:14)\n",
        "at main (store.c:18)\n",
    ];
    let sentence = ["thread ", ", at put (store.c:7))"];
    room.told(
        &[&options[..], &judge].concat(),
        1,
        &[&frames[..], &sentence].concat(),
    );

    let calls = calls_of(&room, &["rustc", "--edition", "2024"], STORE_RS, "store.rs");
    let wanted = [
        "creat(new, 0644)  at store::store (store.rs:7)",
        "write(new, 7 bytes at 0)  at store::put (store.rs:4)",
        "rename(new, old)  at store::store (store.rs:8)",
    ];
    assert_eq!(calls, wanted);
}

#[test]
fn a_program_on_the_volume_has_no_stack_and_that_is_said() {
    let room = Room::new();
    let options = [
        "--setup",
        "cp $(command -v touch) own",
        "--run",
        "./own new",
        "--show",
    ];
    let out = room.run(&[&options[..], &["--backtrace"]].concat());
    let said = words(&out);
    assert!(
        out.status.success() && said.contains("creat(new, 0644)"),
        "{said}"
    );
    assert!(said.contains("  at "), "the library has its frame: {said}");
}

/// Makes files until all threads of the mount have answered, and more when the host asks for the
/// attributes of this very program again, after a second.
const WAITING_C: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
static void make(int from, int to) {
    for (char name[16]; from < to; from++) {
        snprintf(name, sizeof name, "f%d", from);
        close(open(name, O_CREAT | O_WRONLY, 0644));
    }
}
int main(void) {
    make(0, 40);
    usleep(1500000);
    make(40, 45);
}
"#;

#[test]
fn a_program_on_the_volume_that_runs_for_seconds_is_read_without_a_hang() {
    let room = Room::new();
    fs::write(room.path().join("own.c"), WAITING_C).expect("room");
    let made = Command::new("cc")
        .args(["-o", "own", "own.c"])
        .current_dir(room.path())
        .output();
    assert!(made.is_ok_and(|made| made.status.success()), "a compiler");
    let setup = format!("cp '{}' own", room.path().join("own").display());
    let options = ["--setup", &setup, "--run", "./own", "--show"];
    let running = room.start(&[&options[..], &["--backtrace", "--timeout", "20"]].concat());
    let out = ended_by_itself(running, Duration::from_secs(60));
    let said = words(&out);
    assert!(out.status.success(), "{said}");
    assert!(said.contains("creat(f44, 0644)"), "{said}");
    room.is_left_clean();
}

/// Writes, and then once more from a library that was not there at the first write.
const LATE_C: &str = r#"
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>
int main(int count, char **args) {
    int fd = open("f", O_CREAT | O_WRONLY, 0644);
    write(fd, "one", 3);
    void *library = dlopen(args[count - 1], RTLD_NOW);
    int (*late)(int) = library ? (int (*)(int))dlsym(library, "late") : 0;
    return late ? !late(fd) : 1;
}
"#;

const LATE_LIBRARY_C: &str =
    "#include <unistd.h>\nint late(int fd) {\n    return write(fd, \"two\", 3) == 3;\n}\n";

#[test]
fn a_library_that_comes_later_has_its_frames() {
    let room = Room::new();
    let made = |options: &[&str], file: &str, source: &str| {
        fs::write(room.path().join(file), source).expect("room");
        let mut compiler = Command::new("cc");
        compiler.args(["-g", "-O0"]).args(options).arg(file);
        let made = compiler.args(["-ldl"]).current_dir(room.path()).output();
        let made = made.expect("a compiler");
        assert!(made.status.success(), "{}", words(&made));
    };
    made(&["-o", "store"], "main.c", LATE_C);
    made(
        &["-shared", "-fPIC", "-o", "liblate.so"],
        "late.c",
        LATE_LIBRARY_C,
    );
    let here = room.path().display();
    let calls = room.calls(&[
        "--run",
        &format!("'{here}/store' '{here}/liblate.so'"),
        "--backtrace",
    ]);
    let wanted = [
        "creat(f, 0644)  at main (main.c:6)",
        "write(f, 3 bytes at 0)  at main (main.c:7)",
        "write(f, 3 bytes at 3)  at late (late.c:3)",
    ];
    assert_eq!(calls, wanted);
}
