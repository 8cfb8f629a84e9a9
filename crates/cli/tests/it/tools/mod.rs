//! The tools that work on images, as a user runs them: what they read, which files they write, what
//! they print, how they exit.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod extract;
mod look;
mod signals;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// The program as built, in `dir`.
fn varve(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
    command.current_dir(dir);
    command
}

/// Runs it with the words of `line`.
fn run(dir: &Path, line: &str) -> Output {
    let mut command = varve(dir);
    let out = command.args(line.split_whitespace()).output();
    out.expect("the program starts")
}

/// Standard output of a command that has to succeed, and to say nothing else.
fn good(dir: &Path, line: &str) -> String {
    let out = run(dir, line);
    let said = text(&out.stderr);
    assert!(out.status.success() && said.is_empty(), "{line}: {said}");
    text(&out.stdout)
}

/// Standard error of a command that has to end with this code.
fn fails(dir: &Path, line: &str, code: i32) -> String {
    let out = run(dir, line);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(code), "{line}: {said}");
    said
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// A tool of the host with these words; `None`, said aloud, where it is not installed.
fn tool(dir: &Path, line: &str) -> Option<Output> {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    match command.args(words).current_dir(dir).output() {
        Ok(out) => Some(out),
        Err(e) => {
            eprintln!("skipped: {line}: {e}");
            None
        }
    }
}

/// The same, where it has to succeed; true if it ran.
fn made(dir: &Path, line: &str) -> bool {
    let Some(out) = tool(dir, line) else {
        return false;
    };
    let said = text(&[&out.stdout[..], &out.stderr[..]].concat());
    assert!(out.status.success(), "{line}: {said}");
    true
}

/// An empty image file of so many MiB.
fn empty(dir: &Path, name: &str, mib: u64) -> PathBuf {
    let path = dir.join(name);
    File::create(&path).unwrap().set_len(mib << 20).unwrap();
    path
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
