//! Between the values of crate `fuser` and ours.
// Times of this protocol library are those of std; no clock is read here.
#![allow(clippy::disallowed_types)]

use crate::server::OpenMode;
use fuser::{FileAttr, FileType, INodeNo, RenameFlags, TimeOrNow};
use rt::WallTime;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vfs::{FallocateMode, FileKind, RenameMode, TimeSet};

/// Unit of `st_blksize`, bytes.
pub(crate) const BLOCK_BYTES: u32 = 4096;

pub(crate) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Dir => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Char => FileType::CharDevice,
        FileKind::Block => FileType::BlockDevice,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
    }
}

pub(crate) fn system_time(time: WallTime) -> SystemTime {
    let secs = Duration::from_secs(time.secs.unsigned_abs());
    let start = match time.secs < 0 {
        true => UNIX_EPOCH.checked_sub(secs),
        false => UNIX_EPOCH.checked_add(secs),
    };
    start.unwrap_or(UNIX_EPOCH) + Duration::from_nanos(time.nanos.into())
}

pub(crate) fn wall_time(time: SystemTime) -> WallTime {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => WallTime {
            secs: since.as_secs() as i64,
            nanos: since.subsec_nanos(),
        },
        Err(before) => {
            let before = before.duration();
            let (secs, nanos) = (before.as_secs() as i64, before.subsec_nanos());
            match nanos {
                0 => WallTime { secs: -secs, nanos },
                _ => WallTime {
                    secs: -secs - 1,
                    nanos: 1_000_000_000 - nanos,
                },
            }
        }
    }
}

pub(crate) fn time_set(time: TimeOrNow) -> TimeSet {
    match time {
        TimeOrNow::Now => TimeSet::Now,
        TimeOrNow::SpecificTime(time) => TimeSet::To(wall_time(time)),
    }
}

pub(crate) fn open_mode(flags: i32) -> OpenMode {
    let has = |flag: i32| flags & flag == flag;
    OpenMode {
        write: flags & libc::O_ACCMODE != libc::O_RDONLY,
        truncate: has(libc::O_TRUNC),
        append: has(libc::O_APPEND),
        sync: has(libc::O_SYNC),
        data_sync: has(libc::O_DSYNC),
    }
}

pub(crate) fn rename_mode(flags: RenameFlags) -> Option<RenameMode> {
    match flags {
        f if f.is_empty() => Some(RenameMode::Replace),
        RenameFlags::RENAME_NOREPLACE => Some(RenameMode::NoReplace),
        RenameFlags::RENAME_EXCHANGE => Some(RenameMode::Exchange),
        _ => None,
    }
}

pub(crate) fn fallocate_mode(mode: i32) -> Option<FallocateMode> {
    const ZERO_KEEP: i32 = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;
    const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    match mode {
        0 => Some(FallocateMode::Allocate),
        libc::FALLOC_FL_KEEP_SIZE => Some(FallocateMode::KeepSize),
        PUNCH => Some(FallocateMode::PunchHole),
        libc::FALLOC_FL_ZERO_RANGE => Some(FallocateMode::ZeroRange),
        ZERO_KEEP => Some(FallocateMode::ZeroRangeKeepSize),
        _ => None,
    }
}

/// Attributes of a name whose inode is not told.
pub(crate) fn unknown(ino: u64, kind: FileKind) -> FileAttr {
    FileAttr {
        ino: INodeNo(ino),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: file_type(kind),
        perm: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_come_back() {
        for (secs, nanos) in [
            (0, 0),
            (5, 7),
            (-1, 999_999_999),
            (-86_400, 0),
            (1 << 33, 1),
        ] {
            let time = WallTime { secs, nanos };
            assert_eq!(wall_time(system_time(time)), time);
        }
    }

    #[test]
    fn what_a_mode_does_not_name_is_refused() {
        assert_eq!(fallocate_mode(libc::FALLOC_FL_PUNCH_HOLE), None);
        let both = RenameFlags::RENAME_NOREPLACE | RenameFlags::RENAME_EXCHANGE;
        assert_eq!(rename_mode(both), None);
        let mode = open_mode(libc::O_WRONLY | libc::O_DSYNC | libc::O_APPEND);
        assert_eq!(
            (mode.sync, mode.data_sync, mode.append),
            (false, true, true)
        );
        assert!(open_mode(libc::O_SYNC).data_sync);
    }
}
