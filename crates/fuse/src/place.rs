//! The directory that a file system is mounted on, and taking away what is mounted there without
//! touching anything else.
//!
//! A path leads to whatever was mounted there last, so each call by path could hit a file system
//! of somebody else:
//!
//! - L1 before each call by path the device number of what the path leads to is compared with that
//!   of our mount; a mount that others hide stays where it is. Symbolic links at the end of a path
//!   are not followed. Between the look and the call somebody may mount something yet: Linux has no
//!   call that unmounts what a descriptor leads to;
//! - L2 looking makes no request: nobody may answer requests of the mount at that time.

use rustix::fs::{AtFlags, CWD, OFlags, StatxFlags, openat, statx};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, UnmountFlags, fsconfig_create, fsmount, fsopen,
    unmount,
};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the kernel shows its connections, if that is mounted.
const CONNECTIONS: &str = "/sys/fs/fuse/connections";
/// The file system that shows them.
const CONNECTIONS_TYPE: &str = "fusectl";

/// `MAJOR:MINOR` of the file system that the path `dir` leads to now, as the table of mounts has it
/// (L2).
pub fn device_on(dir: &Path) -> Option<String> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT | AtFlags::SYMLINK_NOFOLLOW;
    let found = statx(CWD, dir, flags, StatxFlags::empty()).ok()?;
    Some(format!("{}:{}", found.stx_dev_major, found.stx_dev_minor))
}

/// A directory with a mount of ours.
#[derive(Clone)]
pub(crate) struct Place {
    dir: PathBuf,
    device: Option<String>,
}

impl Place {
    /// Of what has been mounted on `dir` just now, whose path has no links.
    pub fn of(dir: PathBuf) -> Place {
        Place {
            device: device_on(&dir),
            dir,
        }
    }

    /// Makes a request to the mount, and waits for the answer, whatever it is.
    pub fn ask(&self) {
        let _ = rustix::fs::statfs(&self.dir);
    }

    /// `MAJOR:MINOR` of the mount.
    pub fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// Whether the path leads to our mount, and not to another one over it (L1).
    pub fn is_on_top(&self) -> bool {
        self.device.is_some() && device_on(&self.dir) == self.device
    }

    /// Where whoever has mounted can end the connection.
    pub fn switch(&self) -> String {
        format!("{CONNECTIONS}/{}/abort", self.minor().unwrap_or("?"))
    }

    fn minor(&self) -> Option<&str> {
        self.device()?.split(':').nth(1)
    }

    /// Ends the connection, so that the kernel answers all requests: by its number, as whoever has
    /// mounted may where connections are shown, and as the superuser may anywhere; else by the
    /// path. False: the host allows none of them.
    pub fn end_connection(&self) -> bool {
        if std::fs::write(self.switch(), "1").is_ok() {
            return true;
        }
        if self
            .minor()
            .is_some_and(|minor| abort_unseen(minor).is_ok())
        {
            return true;
        }
        // Forcing ends the connection, whether the mount is in use or not.
        let forced = || unmount(&self.dir, UnmountFlags::FORCE | UnmountFlags::NOFOLLOW);
        self.is_on_top() && matches!(forced(), Ok(()) | Err(Errno::BUSY))
    }

    /// Takes the mount out of the table of mounts, also while somebody waits in it.
    pub fn take_away(&self) {
        if !self.is_on_top() {
            return;
        }
        let lazily = unmount(&self.dir, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        if lazily == Err(Errno::PERM) {
            // Who is not root has mounted by it, too.
            let line = ["-u", "-z", "--"];
            let _ = Command::new("fusermount3")
                .args(line)
                .arg(&self.dir)
                .output();
        }
    }
}

/// Ends the connection of this number over a mount of the kernel's connections that is attached
/// nowhere, so that nobody sees it.
fn abort_unseen(minor: &str) -> std::io::Result<()> {
    let context = fsopen(CONNECTIONS_TYPE, FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let all = fsmount(
        &context,
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::empty(),
    )?;
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let switch = openat(
        &all,
        format!("{minor}/abort"),
        flags,
        rustix::fs::Mode::empty(),
    )?;
    File::from(switch).write_all(b"1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_of_a_directory_is_that_of_the_table_of_mounts() {
        let table = std::fs::read_to_string("/proc/self/mountinfo").expect("Linux");
        let of_proc = (table.lines().rev())
            .map(|line| line.split(' ').collect::<Vec<_>>())
            .find(|words| words[4] == "/proc")
            .expect("procfs");
        assert_eq!(device_on(Path::new("/proc")).as_deref(), Some(of_proc[2]));
        assert_eq!(device_on(Path::new("/nowhere/at/all")), None);
    }

    /// L1. The path of a place leads to another file system than the one that was mounted there.
    #[test]
    fn what_lies_over_a_mount_is_not_taken_for_it() {
        let place = |device: Option<&str>| Place {
            dir: "/proc".into(),
            device: device.map(String::from),
        };
        assert!(place(device_on(Path::new("/proc")).as_deref()).is_on_top());
        assert!(!place(Some("0:999999")).is_on_top());
        assert!(!place(None).is_on_top());
    }
}
