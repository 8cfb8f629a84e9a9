//! What every [`FileSystem`] must answer: a table of cases, each on a fresh file system, seen
//! through [`Vfs`].
//!
//! The model is the reference; `ext4` and `f2fs` run the same cases, so that programs find one
//! behaviour on all of them. A case panics with what it expected; cases of fallocate and of atomic
//! writes pass where a file system has none. No case asks whether a read moves the access time,
//! because mount options decide about that, and none needs a full device ([`full`](crate::full)
//! does).

mod atomic;
mod attributes;
mod content;
mod directories;
mod fallocates;
mod links;
mod renames;
mod walks;
mod xattrs;

use std::fmt::Debug;
use std::sync::Arc;
use vfs::{Errno, File, FileSystem, FsError, FsResult, OpenFlags, Vfs};

/// One case: its name, and what it does with a fresh mount.
pub type Case = (&'static str, fn(&Arc<Vfs>));

/// Every case, by subject.
pub fn cases() -> Vec<Case> {
    [
        walks::CASES,
        content::CASES,
        directories::CASES,
        links::CASES,
        renames::CASES,
        attributes::CASES,
        xattrs::CASES,
        fallocates::CASES,
        atomic::CASES,
    ]
    .concat()
}

/// Runs all cases. Each gets a fresh and empty file system from `make`, and unmounts it.
///
/// # Panics
/// The first case that fails panics with its name and expectation.
pub fn run(make: impl Fn() -> Arc<dyn FileSystem>) {
    for case in cases() {
        run_case(case, &make);
    }
}

/// Runs one case on a file system from `make`.
///
/// # Panics
/// The case fails; it panics with its name and expectation.
pub fn run_case((name, case): Case, make: impl Fn() -> Arc<dyn FileSystem>) {
    let vfs = Vfs::new(make());
    case(&vfs);
    assert_eq!(vfs.leaked_files(), 0, "{name}: files left open");
    assert_eq!(vfs.release_errors(), 0, "{name}: failed releases");
    vfs.unmount()
        .unwrap_or_else(|e| panic!("{name}: unmount failed: {e}"));
    fails(vfs.stat("/"), Errno::Shutdown, "stat after unmount");
}

#[track_caller]
fn fails<T: Debug>(result: FsResult<T>, errno: Errno, what: &str) {
    match result {
        Err(FsError::Posix(got)) if got == errno => {}
        other => panic!("{what}: expected {errno:?}, got {other:?}"),
    }
}

#[track_caller]
fn ok<T>(result: FsResult<T>, what: &str) -> T {
    result.unwrap_or_else(|error| panic!("{what}: expected success, got {error:?}"))
}

/// Like [`ok`], for calls whose answer does not matter.
#[track_caller]
fn done<T>(result: FsResult<T>, what: &str) {
    ok(result, what);
}

/// Opens a file, and makes it if it does not exist.
#[track_caller]
fn open(vfs: &Arc<Vfs>, path: &str) -> File {
    let flags = OpenFlags::READ_WRITE | OpenFlags::CREATE;
    ok(vfs.open(path, flags, 0o644), path)
}

/// Makes a file with this content.
#[track_caller]
fn write_file(vfs: &Arc<Vfs>, path: &str, content: &[u8]) {
    let file = open(vfs, path);
    assert_eq!(ok(file.write_at(0, content), path), content.len());
    ok(file.close(), path);
}

/// The whole content of an open file.
#[track_caller]
fn content(file: &File) -> Vec<u8> {
    let size = ok(file.stat(), "stat").size;
    let mut buf = vec![0xAA; size as usize + 1];
    let n = ok(file.read_at(0, &mut buf), "read");
    assert_eq!(n as u64, size, "a read ends at the end of the file only");
    buf.truncate(n);
    buf
}

#[track_caller]
fn read_file(vfs: &Arc<Vfs>, path: &str) -> Vec<u8> {
    let file = ok(vfs.open(path, OpenFlags::READ, 0), path);
    let bytes = content(&file);
    ok(file.close(), path);
    bytes
}

/// Names in a directory without `.` and `..`, sorted.
#[track_caller]
fn names(vfs: &Vfs, path: &str) -> Vec<String> {
    let mut names: Vec<String> = ok(vfs.readdir(path), path)
        .into_iter()
        .map(|e| String::from_utf8(e.name).expect("the suite uses ASCII names"))
        .filter(|name| name != "." && name != "..")
        .collect();
    names.sort();
    names
}

/// Lets more time pass than the tick of a file system's time stamps (Linux: up to 10 ms, at
/// HZ=100).
fn tick() {
    rt::sleep(base::Nanos::from_millis(12));
}
