//! The program `varve` as it was built: runs of it, and what it says.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// The program, to be started.
pub fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_varve"))
}

/// Runs it to its end.
pub fn varve(args: &[&str]) -> Output {
    command().args(args).output().expect("the program starts")
}

/// Runs a command on an image: exit code and words.
pub fn on_image(args: &[&str], image: &Path) -> (i32, String) {
    let out = command().args(args).arg(image).output();
    let out = out.expect("the program starts");
    (out.status.code().unwrap_or(-1), words(&out))
}

/// The program as built, in `dir`.
pub fn varve_in(dir: &Path) -> Command {
    let mut command = command();
    command.current_dir(dir);
    command
}

/// Runs it in `dir` with the words of `line`: images and paths in it are relative to that.
pub fn run(dir: impl AsRef<Path>, line: &str) -> Output {
    let mut command = varve_in(dir.as_ref());
    let out = command.args(line.split_whitespace()).output();
    out.expect("the program starts")
}

/// Standard output of a command that has to succeed, and to say nothing else.
pub fn good(dir: impl AsRef<Path>, line: &str) -> String {
    let out = run(dir, line);
    let said = text(&out.stderr);
    assert!(out.status.success() && said.is_empty(), "{line}: {said}");
    text(&out.stdout)
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// All that a program said.
pub fn words(out: &Output) -> String {
    text(&[&out.stdout[..], &out.stderr[..]].concat())
}

/// The words of a run that has to end with this code, and to say this.
pub fn told((code, said): (i32, String), wanted: i32, words: &str) -> String {
    assert!(code == wanted && said.contains(words), "{code}: {said}");
    said
}

pub fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A program of another package, which may lie outside of a user's PATH.
pub fn tool(name: &str) -> Command {
    let mut command = Command::new(name);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
}
