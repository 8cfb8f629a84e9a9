//! Sets owner, attributes, permissions and times of files that were extracted to the host.
//!
//! - **R1** No other user can use a file before it has its content, its owner and its attributes:
//!   it is created accessible for its owner alone, and the permissions are set last.
//! - **R2** A file keeps set-user-ID and set-group-ID only if it belongs to the owner that the
//!   image names. Otherwise any user who runs the file would execute code of the image's maker with
//!   the rights of the user who extracted it. The same is true of capabilities.
//! - **R3** Nothing here follows a symbolic link (host-H1).

use crate::args::KeepArgs;
use rig::{Attr, FileKind, FileSystem, WallTime};
use rustix::fs as unix;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

const SET_IDS: u16 = 0o6000;
/// Capabilities of a program: rights, as set-user-ID gives them.
const CAPABILITY: &[u8] = b"security.capability";

/// Which properties of files are kept.
#[derive(Clone, Copy)]
pub struct Rules {
    /// Owners are set.
    pub owner: bool,
    /// Set-user-ID and set-group-ID may be kept where the owner is set.
    superuser: bool,
    /// Permission bits that are taken away.
    umask: u16,
    /// Character and block devices are made.
    pub devices: bool,
}

impl Rules {
    /// By the options, and by the calling user: as with tar, permissions are those of the image for
    /// the superuser, and otherwise less the umask.
    pub fn of(args: &KeepArgs) -> Rules {
        let superuser = rustix::process::geteuid().is_root();
        let exact = (superuser || args.same_permissions) && !args.no_same_permissions;
        // There is no way to ask for it alone. No other thread makes files meanwhile.
        let umask = rustix::process::umask(unix::Mode::from_raw_mode(0o077));
        rustix::process::umask(umask);
        Rules {
            owner: !args.no_same_owner,
            superuser,
            umask: if exact {
                0
            } else {
                umask.as_raw_mode() as u16 & 0o777
            },
            devices: !args.no_devices,
        }
    }

    /// R2: the permissions of a file; `owned`: it belongs to whom the image says.
    fn permissions(self, attr: &Attr, owned: bool) -> u16 {
        let kept = attr.perm & !self.umask;
        match owned && self.superuser {
            true => kept,
            false => kept & !SET_IDS,
        }
    }
}

/// Properties that a file lost in the extraction.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct Lost {
    /// Properties that the host refused.
    pub refused: Vec<&'static str>,
    /// Set-user-ID or set-group-ID, or capabilities, by R2.
    pub rights: bool,
}

/// A file of the host, and how it can be changed.
pub enum Target<'a> {
    /// By an open descriptor.
    Open(BorrowedFd<'a>),
    /// By its name in an open directory: for files that cannot be opened, or not without a side
    /// effect.
    Named(BorrowedFd<'a>, &'a OsStr),
}

impl Target<'_> {
    fn chown(&self, attr: &Attr) -> io::Result<()> {
        let uid = rustix::process::Uid::from_raw(attr.uid);
        let gid = rustix::process::Gid::from_raw(attr.gid);
        let flags = unix::AtFlags::SYMLINK_NOFOLLOW;
        match self {
            Target::Open(fd) => unix::fchown(fd, Some(uid), Some(gid))?,
            Target::Named(dir, name) => unix::chownat(dir, *name, Some(uid), Some(gid), flags)?,
        }
        Ok(())
    }

    fn chmod(&self, mode: u16) -> io::Result<()> {
        let raw = unix::Mode::from_raw_mode(mode.into());
        match self {
            Target::Open(fd) => Ok(unix::fchmod(fd, raw)?),
            Target::Named(dir, name) => {
                // No call changes the mode by name and leaves links alone: by way of a descriptor
                // that can do nothing else.
                let flags = unix::OFlags::PATH | unix::OFlags::NOFOLLOW | unix::OFlags::CLOEXEC;
                let fd = unix::openat(dir, *name, flags, unix::Mode::empty())?;
                // R3.
                if unix::FileType::from_raw_mode(unix::fstat(&fd)?.st_mode).is_symlink() {
                    return Err(io::Error::other("a link has taken its place meanwhile"));
                }
                let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
                fs::set_permissions(path, fs::Permissions::from_mode(mode.into()))
            }
        }
    }

    fn set_attribute(&self, name: &OsStr, value: &[u8]) -> io::Result<()> {
        let flags = unix::XattrFlags::empty();
        match self {
            Target::Open(fd) => Ok(unix::fsetxattr(fd, name, value, flags)?),
            Target::Named(dir, file) => {
                let mut path = format!("/proc/self/fd/{}/", dir.as_raw_fd()).into_bytes();
                path.extend_from_slice(file.as_bytes());
                let path = OsStr::from_bytes(&path);
                Ok(unix::lsetxattr(path, name, value, flags)?)
            }
        }
    }

    fn set_times(&self, attr: &Attr) -> io::Result<()> {
        let time = |t: WallTime| unix::Timespec {
            tv_sec: t.secs,
            tv_nsec: i64::from(t.nanos),
        };
        let times = unix::Timestamps {
            last_access: time(attr.atime),
            last_modification: time(attr.mtime),
        };
        let flags = unix::AtFlags::SYMLINK_NOFOLLOW;
        match self {
            Target::Open(fd) => unix::futimens(fd.as_fd(), &times)?,
            Target::Named(dir, name) => unix::utimensat(dir, *name, &times, flags)?,
        }
        Ok(())
    }
}

/// Gives a file the properties that the image says, as far as the host and the rules allow.
pub fn dress(fs: &dyn FileSystem, attr: &Attr, target: &Target<'_>, rules: Rules) -> Lost {
    let mut lost = Lost::default();
    // A change of the owner takes rights away, so it comes first; permissions come behind the
    // attributes (R1), for an ACL brings some.
    let owned = rules.owner && target.chown(attr).is_ok();
    if rules.owner && !owned {
        lost.refused.push("owners");
    }
    let keeps_rights = owned && rules.superuser;
    for name in fs.listxattr(attr.ino).unwrap_or_default() {
        if name == CAPABILITY && !keeps_rights {
            lost.rights = true;
            continue;
        }
        let set = fs.getxattr(attr.ino, &name).is_ok_and(|value| {
            let name = OsStr::from_bytes(&name);
            target.set_attribute(name, &value).is_ok()
        });
        if !set {
            lost.refused.push("extended attributes");
        }
    }
    if attr.kind != FileKind::Symlink {
        let mode = rules.permissions(attr, owned);
        lost.rights |= attr.perm & SET_IDS & !mode != 0;
        if target.chmod(mode).is_err() {
            lost.refused.push("permissions");
        }
    }
    if target.set_times(attr).is_err() {
        lost.refused.push("times");
    }
    lost
}
