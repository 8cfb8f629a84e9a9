//! Second opinions: checkers that nobody here wrote.

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
    // Debian keeps it out of an ordinary user's path.
    for program in ["e2fsck", "/usr/sbin/e2fsck", "/sbin/e2fsck"] {
        match Command::new(program)
            .arg(mode)
            .arg(image)
            .env("LC_ALL", "C")
            .output()
        {
            Ok(output) => return Ok(verdict(&output)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok(Verdict::NotInstalled)
}

/// e2fsck's exit code: 0 nothing, 1 (and 2: reboot) all repaired, anything else left or failed.
fn verdict(output: &Output) -> Verdict {
    let words = || {
        let text = [&output.stdout[..], &output.stderr[..]].concat();
        String::from_utf8_lossy(&text).into_owned()
    };
    match output.status.code() {
        Some(0) => Verdict::Clean,
        Some(1..=3) => Verdict::Repaired(words()),
        _ => Verdict::Findings(words()),
    }
}
