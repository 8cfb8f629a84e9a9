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
//! - L2 looking makes no request: nobody may answer requests of the mount at that time;
//! - L3 the number of a connection is given to another mount when ours has gone. So whoever ends it
//!   by its number opens the switch of that number first, and then asks our own device whether the
//!   connection is there still: as long as it is, the number is ours, and a switch that is open
//!   stays with its connection (Linux, `fs/fuse/control.c`).

use crate::source::is_gone;
use rustix::fs::{AtFlags, CWD, OFlags, StatxFlags, openat, statx};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, UnmountFlags, fsconfig_create, fsmount, fsopen,
    unmount,
};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

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
    /// What its requests come through; none: the host had no descriptor left.
    requests: Option<Arc<OwnedFd>>,
}

impl Place {
    /// Of what has been mounted on `dir` just now, whose path has no links, and whose requests come
    /// through `requests`.
    pub fn of(dir: PathBuf, requests: Option<OwnedFd>) -> Place {
        Place {
            device: device_on(&dir),
            dir,
            requests: requests.map(Arc::new),
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
    /// mounted may where connections are shown, and as the superuser may anywhere (L3); else by the
    /// path. True also if it has ended before. False: the host allows none of them.
    pub fn end_connection(&self) -> bool {
        let shown = || File::options().write(true).open(self.switch());
        let unseen = || switch_unseen(self.minor().ok_or(io::ErrorKind::NotFound)?);
        if self.ended_by(shown) || self.ended_by(unseen) || self.is_over() {
            return true;
        }
        // Forcing ends the connection, whether the mount is in use or not.
        let forced = || unmount(&self.dir, UnmountFlags::FORCE | UnmountFlags::NOFOLLOW);
        self.is_on_top() && matches!(forced(), Ok(()) | Err(Errno::BUSY))
    }

    /// Whether the connection has ended; false if that cannot be found out.
    fn is_over(&self) -> bool {
        self.requests.as_deref().is_some_and(is_gone)
    }

    /// Ends the connection by its switch. False: there is none to open, or it is not known to be
    /// ours (L3).
    fn ended_by(&self, switch: impl FnOnce() -> io::Result<File>) -> bool {
        let Ok(mut switch) = switch() else {
            return false;
        };
        let is_ours = self.requests.is_some() && !self.is_over();
        is_ours && switch.write_all(b"1").is_ok()
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

/// The switch of the connection of this number, over a mount of the kernel's connections that is
/// attached nowhere, so that nobody sees it.
fn switch_unseen(minor: &str) -> io::Result<File> {
    let context = fsopen(CONNECTIONS_TYPE, FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let all = fsmount(
        &context,
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::empty(),
    )?;
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let path = format!("{minor}/abort");
    let switch = openat(&all, path, flags, rustix::fs::Mode::empty())?;
    Ok(File::from(switch))
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
            requests: None,
        };
        assert!(place(device_on(Path::new("/proc")).as_deref()).is_on_top());
        assert!(!place(Some("0:999999")).is_on_top());
        assert!(!place(None).is_on_top());
    }
    /// L3. A switch is used only while the connection that it belongs to is known to be ours.
    #[test]
    fn the_switch_of_another_connection_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let switch = folder.path().join("abort");
        let pressed = |requests: Option<OwnedFd>| {
            std::fs::write(&switch, "").expect("a file");
            let place = Place {
                dir: "/proc".into(),
                device: None,
                requests: requests.map(Arc::new),
            };
            let done = place.ended_by(|| File::options().write(true).open(&switch));
            (done, std::fs::read(&switch).expect("a file").len())
        };
        let (reader, writer) = io::pipe().expect("a pipe");
        let ours = OwnedFd::from(writer.try_clone().expect("a descriptor"));
        assert_eq!(pressed(Some(ours)), (true, 1), "L3: it is there still");
        assert_eq!(pressed(None), (false, 0), "L3: whose it is is not known");
        // What is left of a pipe without a reader shows an error, as the device of an ended
        // connection does.
        drop(reader);
        assert_eq!(pressed(Some(writer.into())), (false, 0), "L3: it has gone");
    }
}
