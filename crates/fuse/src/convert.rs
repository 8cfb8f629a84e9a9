//! Conversion between the values of crate `fuser` and ours.
// Times of this protocol library are those of std; no clock is read here.
#![allow(clippy::disallowed_types)]

use crate::server::OpenMode;
use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use rt::WallTime;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vfs::{Creds, FallocateMode, FileKind, RenameMode, TimeSet};

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

/// The time that a caller asks for. For times before 1970 the library counts nanoseconds from the
/// second towards the past; the kernel counts them forwards, as is usual.
fn asked_time(time: SystemTime) -> WallTime {
    let (secs, nanos) = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => (since.as_secs() as i64, since.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            let secs = (before.as_secs() as i64).wrapping_neg();
            (secs, before.subsec_nanos())
        }
    };
    WallTime { secs, nanos }
}

pub(crate) fn time_set(time: TimeOrNow) -> TimeSet {
    match time {
        TimeOrNow::Now => TimeSet::Now,
        TimeOrNow::SpecificTime(time) => TimeSet::To(asked_time(time)),
    }
}

/// How a file is opened with these flags. On a mount with `sync` the kernel says of each write that
/// it is synchronous, and says nothing of an allocation or a copy.
pub(crate) fn open_mode(flags: i32, sync: bool) -> OpenMode {
    let has = |flag: i32| flags & flag == flag;
    OpenMode {
        write: flags & libc::O_ACCMODE != libc::O_RDONLY,
        truncate: has(libc::O_TRUNC),
        append: has(libc::O_APPEND),
        sync: sync || has(libc::O_SYNC),
        data_sync: has(libc::O_DSYNC),
        direct: has(libc::O_DIRECT),
        no_access_time: has(libc::O_NOATIME),
    }
}

/// What a rename with these flags (`RENAME_*`) does; `owner` is that of a whiteout.
pub(crate) fn rename_mode(flags: u32, owner: Creds) -> Option<RenameMode> {
    const WHITEOUT_NO_REPLACE: u32 = libc::RENAME_WHITEOUT | libc::RENAME_NOREPLACE;
    match flags {
        0 => Some(RenameMode::Replace),
        libc::RENAME_NOREPLACE => Some(RenameMode::NoReplace),
        libc::RENAME_EXCHANGE => Some(RenameMode::Exchange),
        libc::RENAME_WHITEOUT => Some(RenameMode::Whiteout(owner)),
        WHITEOUT_NO_REPLACE => Some(RenameMode::WhiteoutNoReplace(owner)),
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

/// Attributes of a name whose inode is not known.
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
    fn times_before_1970() {
        for (secs, nanos) in [
            (0i64, 0),
            (5, 7),
            (-1, 999_999_999),
            (-86_400, 0),
            (1 << 33, 1),
        ] {
            // As the library decodes what the kernel has sent.
            let asked = match secs < 0 {
                true => UNIX_EPOCH - Duration::new(secs.unsigned_abs(), nanos),
                false => UNIX_EPOCH + Duration::new(secs.unsigned_abs(), nanos),
            };
            assert_eq!(asked_time(asked), WallTime { secs, nanos });
        }
        let answer = system_time(WallTime { secs: -1, nanos: 5 });
        assert_eq!(answer, UNIX_EPOCH - Duration::new(0, 999_999_995));
    }

    #[test]
    fn what_a_mode_does_not_name_is_refused() {
        assert_eq!(fallocate_mode(libc::FALLOC_FL_PUNCH_HOLE), None);
        let both = libc::RENAME_NOREPLACE | libc::RENAME_EXCHANGE;
        assert_eq!(rename_mode(both, Creds::default()), None);
        let both = libc::RENAME_WHITEOUT | libc::RENAME_EXCHANGE;
        assert_eq!(rename_mode(both, Creds::default()), None);
        let mode = open_mode(libc::O_WRONLY | libc::O_DSYNC | libc::O_APPEND, false);
        assert_eq!(
            (mode.sync, mode.data_sync, mode.append),
            (false, true, true)
        );
        assert!(open_mode(libc::O_SYNC, false).data_sync);
        assert!(open_mode(libc::O_RDWR, true).sync);
    }
}
