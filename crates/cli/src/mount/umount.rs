//! `varve umount`: removes a mount and waits until its volume is clean.

use super::table::{self, Line};
use super::verdict::Question;
use crate::args::UmountArgs;
use crate::failure::{Failure, failed, tell};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::fs::File;
use std::path::Path;
use std::process::Command;

/// Runs `varve umount`.
pub fn umount(args: &UmountArgs) -> Result<(), Failure> {
    let dir = args.dir.canonicalize();
    let dir = dir.map_err(|e| failed(format!("{}: {e}", args.dir.display())))?;
    let of_dir = |e: &str| failed(format!("{}: {e}", dir.display()));
    let line = table::on(&dir).map_err(failed)?;
    let line = line.ok_or_else(|| of_dir("nothing of varve is mounted there"))?;
    let flags = match args.lazy {
        true => UnmountFlags::DETACH,
        false => UnmountFlags::empty(),
    };
    let question = Question::ask(&line.device);
    take_away_ours(&line, flags).map_err(|e| of_dir(&e))?;
    let others = table::ours().map_err(failed)?;
    if args.lazy || others.iter().any(|other| other.device == line.device) {
        return Ok(());
    }
    let image = line.source.display();
    match question {
        Some(question) => question
            .wait(|| be_patient(&line))
            .map_err(|e| failed(format!("{image}: is unmounted, and not clean: {e}"))),
        None => {
            tell(format!(
                "{image}: the process behind the mount cannot be asked from here; `varve info` says whether the volume is clean"
            ));
            Ok(())
        }
    }
}

/// What is said when the end takes long; an error: it cannot be waited for.
fn be_patient(line: &Line) -> Result<(), String> {
    if let Some((pid, who)) = table::elsewhere(&line.device) {
        return Err(format!(
            "it is still mounted in the mount namespace of process {pid} ({who}), and will be clean when that one goes"
        ));
    }
    let image = line.source.display();
    tell(format!("{image}: waiting until everything is written"));
    Ok(())
}

/// Removes this mount, and none that lies over it.
fn take_away_ours(line: &Line, flags: UnmountFlags) -> Result<(), String> {
    match fuse::device_on(&line.at).as_ref() == Some(&line.device) {
        true => take_away(&line.at, flags),
        false => Err("another file system is mounted over it".into()),
    }
}

/// Removes what is mounted there: by the system call, or by `fusermount3` if the caller has no
/// right to it. A symbolic link is no mount: somebody may have put it where one was.
fn take_away(dir: &Path, flags: UnmountFlags) -> Result<(), String> {
    match unmount(dir, flags | UnmountFlags::NOFOLLOW) {
        Ok(()) => return Ok(()),
        Err(Errno::PERM) => {}
        Err(e) => return Err(e.to_string()),
    }
    let mut command = Command::new("fusermount3");
    command.arg("-u");
    if flags.contains(UnmountFlags::DETACH) {
        command.arg("-z");
    }
    let output = command.arg("--").arg(dir).output();
    let output = output.map_err(|e| format!("fusermount3: {e}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr)
            .trim_end()
            .to_string()),
    }
}

/// Removes the mount after a signal. At every place of the device what the kernel holds back is
/// written; then the mount is removed, at once or, if files are open, when they are closed. Other
/// mounts that have taken the place meanwhile are left alone.
///
/// # Errors
/// The device is not mounted in this namespace any more; the host refuses.
pub fn let_go(device: &str) -> Result<(), String> {
    let mut places = table::ours()?;
    places.retain(|line| line.device == device);
    if places.is_empty() {
        return Err("is not mounted any more where this process can see it".into());
    }
    let mut refused = Ok(());
    for place in places.iter().rev() {
        // What others have mounted over it is none of our business, and may not answer.
        let ours = fuse::device_on(&place.at).as_deref() == Some(device);
        if let Some(open) = ours.then(|| File::open(&place.at).ok()).flatten() {
            // The volume itself reports a failure.
            let _ = rustix::fs::syncfs(&open);
        }
        if take_away_ours(place, UnmountFlags::empty()).is_err() {
            refused = refused.and(take_away_ours(place, UnmountFlags::DETACH));
        }
    }
    refused
}

/// Removes a mount that no process uses.
///
/// # Errors
/// A process uses it; the host refuses.
pub fn let_go_unused(dir: &Path) -> Result<(), String> {
    take_away(dir, UnmountFlags::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only who follows a link to itself is told that there are too many links.
    #[test]
    fn a_link_is_not_followed_to_what_it_leads_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&link, &link).expect("a link");
        let said = take_away(&link, UnmountFlags::empty()).expect_err("no mount");
        assert_ne!(said, Errno::LOOP.to_string());
    }
}
