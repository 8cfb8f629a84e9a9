//! What a mount lacks. The kernel refuses most of that by itself, so that no recorder sees the
//! call: after a command has failed, the mount is asked for each.

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, ftruncate, ioctl_ficlone, open};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Bytes of the file that is asked with: two blocks.
const BYTES: u64 = 8192;
/// Its name.
const NAME: &str = ".varve-asked";

/// Makes a call with a file of the mount.
type Ask<'a> = dyn Fn(&OwnedFd) -> Result<(), Errno> + 'a;

/// Calls that the mount at `dir` does not have, in words. It leaves a file there.
pub fn lacks(dir: &Path) -> Vec<&'static str> {
    let moves = |flags| move |file: &OwnedFd| fallocate(file, flags, 0, BYTES / 2);
    let clones = |file: &OwnedFd| {
        let other = open(dir.join(format!("{NAME}-2")), write(), mode())?;
        ioctl_ficlone(&other, file)
    };
    let unnamed = |_: &OwnedFd| open(dir, OFlags::TMPFILE | OFlags::RDWR, mode()).map(drop);
    let asked: [(&str, &Ask<'_>); 4] = [
        (
            "fallocate(FALLOC_FL_COLLAPSE_RANGE)",
            &moves(FallocateFlags::COLLAPSE_RANGE),
        ),
        (
            "fallocate(FALLOC_FL_INSERT_RANGE)",
            &moves(FallocateFlags::INSERT_RANGE),
        ),
        ("open(O_TMPFILE)", &unnamed),
        ("ioctl(FICLONE), a reflink", &clones),
    ];
    let Ok(file) = open(dir.join(NAME), write(), mode()) else {
        return Vec::new();
    };
    if ftruncate(&file, BYTES).is_err() {
        return Vec::new();
    }
    let is_refused = |done: Result<(), Errno>| {
        matches!(
            done,
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY | Errno::ISDIR)
        )
    };
    let refused = asked.iter().filter(|(_, ask)| is_refused(ask(&file)));
    refused.map(|(name, _)| *name).collect()
}

fn write() -> OFlags {
    OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC
}

fn mode() -> Mode {
    Mode::RUSR | Mode::WUSR
}
