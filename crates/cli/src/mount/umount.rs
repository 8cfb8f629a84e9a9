//! `varve umount`: takes a mount away and waits until its volume is clean.

use super::table::{self, Line};
use crate::args::UmountArgs;
use crate::failure::{Failure, failed};
use rig::{HostFile, HostOptions};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// How often is looked whether the volume is clean.
const PAUSE: Duration = Duration::from_millis(20);
/// Looks after which a word is due.
const LOOKS_SILENT: u32 = 100;

/// Runs it.
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
    take_away(&dir, flags).map_err(|e| of_dir(&e))?;
    let others = table::ours().map_err(failed)?;
    if args.lazy || others.iter().any(|other| other.device == line.device) {
        return Ok(());
    }
    wait_for(&line)?;
    match line.writable && is_left_dirty(&line.source) {
        true => Err(failed(format!(
            "{}: is unmounted, but could not be marked clean: what was synced is in its log; the next mount or `varve recover` recovers it",
            line.source.display()
        ))),
        false => Ok(()),
    }
}

/// Takes the mount away: by the system call, or by `fusermount3` for who may not.
fn take_away(dir: &Path, flags: UnmountFlags) -> Result<(), String> {
    match unmount(dir, flags) {
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

/// Waits for the process behind the mount: it holds a lock on the image until the volume is clean. Readers of the image may share it. Behind a
/// read-only mount nothing is written, so it is waited for only as long as other readers cannot be meant.
fn wait_for(line: &Line) -> Result<(), Failure> {
    let name = line.source.display();
    let Ok(file) = File::open(&line.source) else {
        return Ok(());
    };
    let how = match line.writable {
        true => FlockOperation::NonBlockingLockShared,
        false => FlockOperation::NonBlockingLockExclusive,
    };
    for looks in 1u32.. {
        match flock(&file, how) {
            Err(Errno::WOULDBLOCK) => {}
            // A lock ends with its file.
            _ => break,
        }
        if looks == LOOKS_SILENT && !line.writable {
            break;
        }
        if looks == LOOKS_SILENT {
            if let Some((pid, who)) = table::elsewhere(&line.device) {
                return Err(failed(format!(
                    "{name}: is taken away here, and still mounted in the mount namespace of process {pid} ({who}); its volume is clean when that one goes"
                )));
            }
            eprintln!("varve: {name}: waiting until everything is written");
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// True if the volume says that it was not unmounted. What cannot be found out, because somebody has it again or it begins somewhere inside of
/// the image, counts as none.
fn is_left_dirty(image: &Path) -> bool {
    HostFile::open(image, &HostOptions::read())
        .is_ok_and(|file| rig::fsck::was_left_dirty(&file).unwrap_or(false))
}

/// After a signal: at every place of the device what the kernel holds back is written, then the mount goes, at once or, with files open, when
/// they are closed. Nothing else that is mounted there meanwhile is touched.
///
/// # Errors
/// It is mounted nowhere in this namespace any more; the host refuses.
pub fn let_go(device: &str) -> Result<(), String> {
    let mut places = table::ours()?;
    places.retain(|line| line.device == device);
    if places.is_empty() {
        return Err("is not mounted any more where this process can see it".into());
    }
    for place in places.iter().rev() {
        if let Ok(open) = File::open(&place.at) {
            // A failure is told by the volume itself.
            let _ = rustix::fs::syncfs(&open);
        }
        if take_away(&place.at, UnmountFlags::empty()).is_err() {
            take_away(&place.at, UnmountFlags::DETACH)?;
        }
    }
    Ok(())
}

/// Takes a mount away that nobody uses.
///
/// # Errors
/// Somebody does; the host refuses.
pub fn let_go_unused(dir: &Path) -> Result<(), String> {
    take_away(dir, UnmountFlags::empty())
}
