//! Second opinions on an image: e2fsck and `fsck.f2fs`. They share no code with this project, so a
//! misreading of a format that our own writer and reader have in common shows here.

use crate::RunError;
use rig::{AnyModel, Fs};
use std::io;
use std::path::Path;
use std::process::{Command, Output};

/// What an outside checker says of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It has no complaint.
    Clean,
    /// It found damage and repaired all of it (only from [`e2fsck_repair`]).
    Repaired(String),
    /// It found damage that is still there; its own words.
    Findings(String),
    /// It is not installed.
    NotInstalled,
}

/// The command line of [`check`], for reports.
pub const fn checker(fs: Fs) -> &'static str {
    match fs {
        Fs::Ext4 | Fs::Ext3 => "e2fsck -fn",
        Fs::F2fs => "fsck.f2fs --dry-run",
    }
}

/// Runs the checker of this kind of file system so that it checks all and changes nothing.
///
/// # Errors
/// The checker is installed but cannot be run.
pub fn check(fs: Fs, image: &Path) -> io::Result<Verdict> {
    match fs {
        Fs::Ext4 | Fs::Ext3 => e2fsck_check(image),
        Fs::F2fs => f2fs_check(image),
    }
}

/// Runs `fsck.f2fs --dry-run`. Its exit code is 0 even with findings, so its report is searched.
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
/// It is installed but cannot be run.
pub fn e2fsck_check(image: &Path) -> io::Result<Verdict> {
    e2fsck("-fn", image)
}

/// Runs `e2fsck -fy`: it replays the journal and repairs.
///
/// # Errors
/// It is installed but cannot be run.
pub fn e2fsck_repair(image: &Path) -> io::Result<Verdict> {
    e2fsck("-fy", image)
}

fn e2fsck(mode: &str, image: &Path) -> io::Result<Verdict> {
    let programs = ["e2fsck", "/usr/sbin/e2fsck", "/sbin/e2fsck"];
    Ok(run(&programs, mode, image)?.map_or(Verdict::NotInstalled, |output| verdict(&output)))
}

/// Runs the first of `programs` that exists: Debian keeps checkers out of an ordinary user's path,
/// so full paths are tried, too. `None`: none is installed.
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

/// What e2fsck's exit code means: 0 nothing found, 1 or 2 (reboot) all repaired, anything else
/// damage left or a failure.
fn verdict(output: &Output) -> Verdict {
    match output.status.code() {
        Some(0) => Verdict::Clean,
        Some(1..=3) => Verdict::Repaired(words(output)),
        _ => Verdict::Findings(words(output)),
    }
}

/// Writes the image of a finished run to `folder` and has the checker of its file system look at it
/// ([`check`]).
///
/// # Errors
/// The image cannot be written, or the checker cannot be run.
pub fn second_opinion(fs: Fs, model: &AnyModel, folder: &Path) -> Result<Verdict, RunError> {
    let image = folder.join("image");
    rig::write_image(model, &image)?;
    let verdict = check(fs, &image);
    let host = |source| RunError::Host {
        doing: format!("running {}", checker(fs)),
        source,
    };
    let verdict = verdict.map_err(host)?;
    // The folder's owner sweeps what stays behind; the image is large, so it goes at once.
    std::fs::remove_file(&image).map_err(|source| RunError::Host {
        doing: "removing the image".into(),
        source,
    })?;
    Ok(verdict)
}
