//! Locks an image or a block device, and finds out what else uses it.
//!
//! A writer excludes all others: it takes `flock` exclusively, and opens a device with `O_EXCL`,
//! which the kernel refuses if the device is mounted, part of another device, or open that way. It
//! also locks the file of a loop device. A reader shares the lock with other readers; it is refused
//! while a writer has the image, or while the kernel may write, by a loop device or a mount that is
//! not read-only.
//!
//! The lock is advisory: programs that take none (`e2fsck`, `dd`) and a loop device made later are
//! not kept out.

use super::options::HostError;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A program that looks at new devices (udev) may hold a device's lock for a moment, so taking it
/// is tried this often.
const TRIES: u32 = 10;
const PAUSE: base::Nanos = base::Nanos::from_millis(50);
/// Type of Varve's own mounts in the table of mounts. They are skipped there: each holds the lock
/// of its image, which is more exact, because a mount that is being remounted has released it.
const OWN: &str = "fuse.varve";

/// Locks `file` for this open file description; the lock ends with it, or by [`unlock`].
pub(super) fn lock(
    path: &Path,
    file: &File,
    meta: &Metadata,
    write: bool,
) -> Result<(), HostError> {
    let how = match write {
        true => FlockOperation::NonBlockingLockExclusive,
        false => FlockOperation::NonBlockingLockShared,
    };
    let tries = if is_device(meta) { TRIES } else { 1 };
    for left in (0..tries).rev() {
        match flock(file, how) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if left > 0 => rt::sleep(PAUSE),
            Err(Errno::WOULDBLOCK) => break,
            Err(e) => return Err(HostError::host(path, "cannot be locked")(e.into())),
        }
    }
    let who = holder(meta).unwrap_or_else(|| "another program".into());
    let why = match write {
        true => "which has it open",
        false => "which writes to it",
    };
    Err(HostError::in_use(
        path,
        format!("{who}, {why}; end it first"),
    ))
}

/// The number is compared and nothing else, so it changes no run.
#[allow(clippy::disallowed_methods)]
pub(super) fn this_process() -> u32 {
    std::process::id()
}

/// Ends the lock of `file`, also for processes that have a copy of the descriptor.
pub(super) fn unlock(file: &File) {
    // It ends with the last descriptor if this fails.
    let _ = flock(file, FlockOperation::Unlock);
}

/// Refuses an image or device that the kernel uses.
pub(super) fn refuse_used_by_kernel(
    path: &Path,
    meta: &Metadata,
    write: bool,
) -> Result<(), HostError> {
    let user = match is_device(meta) {
        true => mounted(meta.rdev(), write),
        false => looped(meta, write),
    };
    match user {
        Some(user) => Err(HostError::in_use(path, user)),
        None => Ok(()),
    }
}

/// The error for a refused `O_EXCL`.
pub(super) fn claimed(path: &Path, rdev: u64) -> HostError {
    let user = mounted(rdev, true)
        .or_else(|| held(rdev))
        .unwrap_or_else(|| "the kernel or another program, which has claimed it".into());
    HostError::in_use(path, user)
}

/// The file of a loop device, if `meta` is one and its file can be found.
pub(super) fn backing_file(meta: &Metadata) -> Option<PathBuf> {
    let (major, minor) = numbers(meta.rdev());
    let name = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/loop/backing_file"));
    Some(PathBuf::from(name.ok()?.trim_end_matches('\n')))
}

pub(super) fn is_device(meta: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    meta.file_type().is_block_device()
}

/// True for a block device that takes no writes. The kernel lets it be opened for writing all the
/// same, and refuses each write.
pub(super) fn is_write_protected(meta: &Metadata) -> bool {
    let (major, minor) = numbers(meta.rdev());
    let word = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/ro"));
    is_device(meta) && word.is_ok_and(|word| word.trim_end() == "1")
}

pub(super) fn numbers(device: u64) -> (u32, u32) {
    (rustix::fs::major(device), rustix::fs::minor(device))
}

/// The loop device that uses this file, if there is one (for a reader: one that may write).
fn looped(image: &Metadata, write: bool) -> Option<String> {
    // The order of the names does not matter, because any user will do.
    #[allow(clippy::disallowed_methods)]
    let devices = fs::read_dir("/sys/block").ok()?;
    for device in devices.flatten() {
        let name = device.file_name();
        let at = device.path();
        let Ok(backing) = fs::read_to_string(at.join("loop/backing_file")) else {
            continue;
        };
        let same = |other: Metadata| (other.dev(), other.ino()) == (image.dev(), image.ino());
        if !fs::metadata(backing.trim_end_matches('\n')).is_ok_and(same) {
            continue;
        }
        let read_only = fs::read_to_string(at.join("ro")).is_ok_and(|ro| ro.trim() == "1");
        if write || !read_only {
            let name = name.to_string_lossy();
            return Some(format!("/dev/{name}; unmount and detach it first"));
        }
    }
    None
}

/// Where a device is mounted (for a reader: where it is mounted for writing).
fn mounted(rdev: u64, write: bool) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| mount_of(line, rdev, write))
}

/// proc_pid_mountinfo(5):
/// `ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAGS]... - TYPE SOURCE SUPER-OPTIONS`.
fn mount_of(line: &str, rdev: u64, write: bool) -> Option<String> {
    let (mount, of_super) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(2);
    let (device, point) = (mount.next()?, mount.nth(1)?);
    let mut of_super = of_super.split(' ');
    if of_super.next()? == OWN {
        return None;
    }
    let (source, options) = (of_super.next()?, of_super.next()?);
    let (major, minor) = numbers(rdev);
    // Some file systems show a device number of their own there.
    let by_source = || {
        let there = source.starts_with('/').then(|| fs::metadata(source).ok());
        there
            .flatten()
            .is_some_and(|m| is_device(&m) && m.rdev() == rdev)
    };
    if device != format!("{major}:{minor}") && !by_source() {
        return None;
    }
    let may_write = options.split(',').next() != Some("ro");
    (write || may_write).then(|| format!("a mount at {point}; unmount it first"))
}

/// The device that is built on this one, if there is one.
fn held(rdev: u64) -> Option<String> {
    let (major, minor) = numbers(rdev);
    #[allow(clippy::disallowed_methods)]
    let mut holders = fs::read_dir(format!("/sys/dev/block/{major}:{minor}/holders")).ok()?;
    let name = holders.next()?.ok()?.file_name();
    let name = name.to_string_lossy();
    Some(format!("/dev/{name}, which is made of it"))
}

/// The process that holds the lock, from `/proc/locks`:
/// `1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE START END`.
fn holder(meta: &Metadata) -> Option<String> {
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let (major, minor) = numbers(meta.dev());
    let place = format!("{major:02x}:{minor:02x}:{}", meta.ino());
    let line = locks
        .lines()
        .find(|line| line.contains("FLOCK") && line.split_whitespace().any(|word| word == place))?;
    let pid: u32 = line.split_whitespace().nth(4)?.parse().ok()?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm"));
    let name = name.map_or_else(|_| "a program".into(), |n| format!("`{}`", n.trim()));
    Some(format!("{name} (process {pid})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{HostFile, HostOptions};

    #[test]
    fn a_mount_is_found_by_its_numbers_and_a_reader_passes_one_that_only_reads() {
        let rdev = rustix::fs::makedev(259, 3);
        let line =
            |options| format!("36 35 259:3 / /mnt/a rw,noatime shared:1 - ext4 none {options}");
        let found = mount_of(&line("rw,errors=remount-ro"), rdev, false).unwrap();
        assert!(found.contains("/mnt/a"), "{found}");
        assert_eq!(mount_of(&line("ro"), rdev, false), None);
        assert!(mount_of(&line("ro"), rdev, true).is_some());
        assert_eq!(
            mount_of(&line("rw"), rustix::fs::makedev(259, 4), true),
            None
        );
        let own = line("rw").replace("ext4", OWN);
        assert_eq!(mount_of(&own, rdev, true), None, "it has a lock of its own");
        for short in ["", "36 35 259:3", "36 35 259:3 / /mnt - ", " - "] {
            assert_eq!(mount_of(short, rdev, true), None);
        }
    }

    #[test]
    fn an_image_that_was_made_or_removed_before_the_lock_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let options = HostOptions::write();
        let in_use = |made: Result<HostFile, HostError>| {
            assert!(matches!(made.err(), Some(HostError::InUse { .. })));
        };
        in_use(HostFile::created(&path, 1 << 20, &options, || {
            fs::write(&path, [7; 100]).unwrap();
        }));
        assert_eq!(fs::read(&path).unwrap(), [7; 100]);
        fs::remove_file(&path).unwrap();
        in_use(HostFile::created(&path, 1 << 20, &options, || {
            fs::remove_file(&path).unwrap();
        }));
        in_use(HostFile::created(&path, 1 << 20, &options, || {
            fs::remove_file(&path).unwrap();
            fs::write(&path, []).unwrap();
        }));
        HostFile::create(&path, 1 << 20, &options).unwrap();
    }

    /// A forked process has such a copy, and may live on for long.
    #[test]
    fn a_copy_of_the_descriptor_does_not_keep_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let options = HostOptions::write();
        let device = HostFile::create(&path, 1 << 20, &options).unwrap();
        let copy = device.place.file.try_clone().unwrap();
        let refused = HostFile::open(&path, &options).err().unwrap().to_string();
        assert!(refused.contains("which has it open"), "{refused}");
        drop(device);
        HostFile::open(&path, &options).unwrap();
        drop(copy);
    }
}
