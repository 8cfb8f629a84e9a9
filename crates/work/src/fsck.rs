//! Second opinions: checkers that nobody here wrote.

use rig::Fs;
use std::io;
use std::path::Path;
use std::process::{Command, Output};

/// What an outside checker says of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It finds nothing.
    Clean,
    /// It repaired what it found (never of a check that only looks).
    Repaired(String),
    /// It finds something: its own words.
    Findings(String),
    /// It is not installed.
    NotInstalled,
}

/// The words of the check of [`check`].
pub const fn checker(fs: Fs) -> &'static str {
    match fs {
        Fs::Ext4 | Fs::Ext3 => "e2fsck -fn",
        Fs::F2fs => "fsck.f2fs --dry-run",
    }
}

/// A full check that changes nothing, by the checker of this kind of file system.
///
/// # Errors
/// When it is installed and cannot be run.
pub fn check(fs: Fs, image: &Path) -> io::Result<Verdict> {
    match fs {
        Fs::Ext4 | Fs::Ext3 => e2fsck_check(image),
        Fs::F2fs => f2fs_check(image),
    }
}

/// Runs `fsck.f2fs --dry-run`. It ends with 0 also where it found something, and says so in its
/// report.
fn f2fs_check(image: &Path) -> io::Result<Verdict> {
    let Some(output) = run(
        &["fsck.f2fs", "/usr/sbin/fsck.f2fs", "/sbin/fsck.f2fs"],
        "--dry-run",
        image,
    )?
    else {
        return Ok(Verdict::NotInstalled);
    };
    let text = words(&output);
    let bad = ["[Fail]", "[ASSERT]", "[FIX]"];
    let clean =
        output.status.success() && text.contains("[FSCK]") && !bad.iter().any(|b| text.contains(b));
    Ok(if clean {
        Verdict::Clean
    } else {
        Verdict::Findings(text)
    })
}

/// Runs `e2fsck -fn`: a full check that changes nothing.
///
/// # Errors
/// When it is installed and cannot be run.
pub fn e2fsck_check(image: &Path) -> io::Result<Verdict> {
    e2fsck("-fn", image)
}

/// Runs `e2fsck -fy`: replays the journal and repairs.
///
/// # Errors
/// When it is installed and cannot be run.
pub fn e2fsck_repair(image: &Path) -> io::Result<Verdict> {
    e2fsck("-fy", image)
}

fn e2fsck(mode: &str, image: &Path) -> io::Result<Verdict> {
    let programs = ["e2fsck", "/usr/sbin/e2fsck", "/sbin/e2fsck"];
    Ok(run(&programs, mode, image)?.map_or(Verdict::NotInstalled, |output| verdict(&output)))
}

/// Debian keeps checkers out of an ordinary user's path.
fn run(programs: &[&str], mode: &str, image: &Path) -> io::Result<Option<Output>> {
    for program in programs {
        let mut command = Command::new(program);
        match command.arg(mode).arg(image).env("LC_ALL", "C").output() {
            Ok(output) => return Ok(Some(output)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok(None)
}

fn words(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// e2fsck's exit code: 0 nothing, 1 (and 2: reboot) all repaired, anything else left or failed.
fn verdict(output: &Output) -> Verdict {
    match output.status.code() {
        Some(0) => Verdict::Clean,
        Some(1..=3) => Verdict::Repaired(words(output)),
        _ => Verdict::Findings(words(output)),
    }
}
