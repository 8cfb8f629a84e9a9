//! An inode that is about to be made: its kind, its mode, its owner, and what it holds from the
//! start.

use crate::acl::{Acl, NewAcls};
use crate::{Creds, Errno, FileKind};

const MODE_SETGID: u16 = 0o2000;

/// The attributes of an inode to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewInode {
    /// Its kind.
    pub kind: FileKind,
    /// The low 12 bits of its mode, before the umask.
    pub perm: u16,
    /// Device number of a device file (Linux encoding).
    pub rdev: u32,
    /// Owner, group and umask.
    pub creds: Creds,
}

/// What a new inode holds from the start.
#[derive(Clone, Copy, Debug)]
pub enum NewContent<'a> {
    /// Nothing.
    Nothing,
    /// `.` and `..`.
    Dots,
    /// The target of a symbolic link.
    Target(&'a [u8]),
}

impl NewInode {
    /// A file, a device, a pipe or a socket.
    ///
    /// # Errors
    /// EINVAL for directories and symbolic links, which have operations of their own.
    pub fn node(kind: FileKind, perm: u16, rdev: u32, creds: Creds) -> Result<NewInode, Errno> {
        match kind {
            FileKind::Dir | FileKind::Symlink => Err(Errno::Inval),
            _ => Ok(NewInode {
                rdev,
                ..NewInode::plain(kind, perm, creds)
            }),
        }
    }
    /// A directory.
    pub const fn dir(perm: u16, creds: Creds) -> NewInode {
        NewInode::plain(FileKind::Dir, perm, creds)
    }
    /// A symbolic link, whose mode no umask limits.
    pub const fn symlink(creds: Creds) -> NewInode {
        NewInode::plain(FileKind::Symlink, 0o777, creds)
    }
    /// A whiteout, which takes the place of a name for an overlay: a character device 0:0 without
    /// permissions.
    pub const fn whiteout(creds: Creds) -> NewInode {
        NewInode::plain(FileKind::Char, 0, creds)
    }
    /// An inode that is no device.
    pub const fn plain(kind: FileKind, perm: u16, creds: Creds) -> NewInode {
        NewInode {
            kind,
            perm,
            rdev: 0,
            creds,
        }
    }

    /// The inode with the permissions that the default ACL of its directory leaves it, and its
    /// ACLs; without a default ACL the umask decides.
    pub fn inherit(self, default: Option<Acl>) -> (NewInode, NewAcls) {
        let (perm, acls) = NewAcls::inherit(default, self.kind, self.perm, &self.creds);
        let creds = Creds {
            umask: 0,
            ..self.creds
        };
        (
            NewInode {
                perm,
                creds,
                ..self
            },
            acls,
        )
    }

    /// The inode in a directory of this mode and group: the set-group-ID bit gives the group, and
    /// to a directory itself.
    #[must_use]
    pub fn in_dir(mut self, mode: u16, gid: u32) -> NewInode {
        if mode & MODE_SETGID != 0 {
            self.creds.gid = gid;
            if self.kind == FileKind::Dir {
                self.perm |= MODE_SETGID;
            }
        }
        self
    }

    /// Type and permissions as in `st_mode`.
    pub fn mode(&self) -> u16 {
        let perm = match self.kind {
            FileKind::Symlink => self.perm,
            _ => self.creds.masked(self.perm),
        };
        self.kind.mode_bits() | perm & 0o7777
    }

    /// Links from the start: a directory's `.` counts.
    pub fn links(&self) -> u16 {
        match self.kind {
            FileKind::Dir => 2,
            _ => 1,
        }
    }

    /// Major and minor number of a device: Linux's `dev_t` in user space has 12 bits major at bit
    /// 8, and the minor in bits 0 to 7 and 20 to 31.
    pub fn device(&self) -> Option<(u32, u32)> {
        let minor = (self.rdev & 0xFF) | ((self.rdev >> 12) & 0xF_FF00);
        let device = matches!(self.kind, FileKind::Char | FileKind::Block);
        device.then_some(((self.rdev >> 8) & 0xFFF, minor))
    }
}

/// The number of a device as [`Attr::rdev`](crate::Attr::rdev) has it.
pub fn rdev((major, minor): (u32, u32)) -> u32 {
    (minor & 0xFF) | (major << 8) | ((minor & 0xF_FF00) << 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDS: Creds = Creds {
        uid: 5,
        gid: 6,
        umask: 0o027,
    };

    #[test]
    fn modes_and_groups() {
        let file = NewInode::plain(FileKind::File, 0o4666, CREDS);
        assert_eq!(file.mode(), 0o104_640);
        assert_eq!(NewInode::symlink(CREDS).mode(), 0o120_777);
        let dir = NewInode::dir(0o777, CREDS);
        assert_eq!((dir.in_dir(0o755, 9), dir.links()), (dir, 2));
        let inside = dir.in_dir(0o2755, 9);
        assert_eq!((inside.mode(), inside.creds.gid), (0o042_750, 9));
        let inside = file.in_dir(0o2755, 9);
        assert_eq!((inside.mode(), inside.creds.gid), (0o104_640, 9));
        let (inherits, acls) = file.inherit(None);
        assert!(acls.is_empty() && inherits.mode() == file.mode());
    }

    #[test]
    fn device_numbers() {
        let node = |kind, number| NewInode::node(kind, 0, number, CREDS);
        let device = node(FileKind::Block, 0xABC1_2345).expect("a device");
        assert_eq!(device.device(), Some((0x123, 0xA_BC45)));
        assert_eq!(rdev((0x123, 0xA_BC45)), 0xABC1_2345);
        assert_eq!(node(FileKind::Fifo, 7).map(|new| new.device()), Ok(None));
        assert_eq!(node(FileKind::Dir, 0), Err(Errno::Inval));
    }
}
