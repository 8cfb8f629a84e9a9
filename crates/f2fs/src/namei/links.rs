//! Link counts, and the parent and name that an inode keeps of itself.

use super::Inode;
use base::Ino;
use fscore::{Errno, FsResult};
use ondisk::f2fs::{Advise, InodeName, LINKS_MAX, Nid};

/// `dir` can count one more subdirectory.
pub(super) fn check_subdirs(dir: &Inode) -> FsResult<()> {
    match dir.core().fields.links {
        LINKS_MAX => Err(Errno::MLink.into()),
        _ => Ok(()),
    }
}

/// A subdirectory came. The inode is put by the caller, here and below.
pub(super) fn subdir_came(dir: &Inode) {
    dir.core().fields.links += 1;
}

/// A subdirectory went.
pub(super) fn subdir_went(dir: &Inode) {
    let mut core = dir.core();
    // A count that was too low is damage, but no reason to call a directory removed.
    if core.fields.links > 2 {
        core.fields.links -= 1;
    }
}

/// The inode is known as `name` in `parent` now (namei-R4).
pub(super) fn renamed(inode: &Inode, parent: Ino, name: &[u8]) {
    let mut core = inode.core();
    core.touch(false);
    core.changed();
    core.needs_checkpoint = true;
    let f = &mut core.fields;
    if f.links > 1 && !f.is_dir() {
        f.advise = f.advise | Advise::LOST_PINO;
    } else {
        f.pino = Nid(parent.0);
        f.name = InodeName::new(name).unwrap_or_default();
        f.advise = f.advise.without(Advise::LOST_PINO);
    }
}
