//! The tools that work on images, as a user runs them: what they read, which files they write, what
//! they print, how they exit.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod extract;
mod json;
mod look;
mod signals;

use crate::program::{self, run, text};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Standard error of a command that has to end with this code.
fn fails(dir: &Path, line: &str, code: i32) -> String {
    let out = run(dir, line);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(code), "{line}: {said}");
    said
}

/// A tool of the host with these words; `None`, said aloud, where it is not installed.
fn tool(dir: &Path, line: &str) -> Option<Output> {
    let mut words = line.split_whitespace();
    let mut command = program::tool(words.next().unwrap());
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
    let said = program::words(&out);
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
