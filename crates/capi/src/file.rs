//! Open files, and what `stat` tells.

use crate::error::{Failure, Outcome, guarded, varve_error};
use crate::text::{handle, place, text};
use crate::volume::varve_volume;
use base::Bytes;
use facade::raw::{Attr, Errno, File, OpenFlags};
use std::ffi::{c_char, c_int, c_void};

/// An open file. It is ended by varve_close, before its volume is.
pub struct varve_file {
    file: File,
    path: Vec<u8>,
}

/// Open to read.
pub const VARVE_READ: u32 = 1;
/// Open to write.
pub const VARVE_WRITE: u32 = 2;
/// Make the file if there is none.
pub const VARVE_CREATE: u32 = 4;
/// With VARVE_CREATE: -EEXIST if the name exists.
pub const VARVE_EXCL: u32 = 8;
/// Cut the file to size 0.
pub const VARVE_TRUNC: u32 = 16;
/// Each varve_pwrite goes to the end of the file, whatever its offset.
pub const VARVE_APPEND: u32 = 32;
/// Each write is durable when it returns.
pub const VARVE_SYNC: u32 = 64;

/// What varve_stat, varve_lstat and varve_fstat tell of an inode.
#[repr(C)]
pub struct varve_attr {
    /// Inode number.
    pub ino: u64,
    /// Size in bytes.
    pub size: u64,
    /// Allocated space in units of 512 bytes.
    pub blocks: u64,
    /// Kind and permission bits, as st_mode of Linux.
    pub mode: u32,
    /// Hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last access, seconds since 1970.
    pub atime: i64,
    /// Last change of the content, seconds since 1970.
    pub mtime: i64,
    /// Last change of the inode, seconds since 1970.
    pub ctime: i64,
    /// Nanoseconds of these times.
    pub atime_ns: u32,
    /// Nanoseconds of mtime.
    pub mtime_ns: u32,
    /// Nanoseconds of ctime.
    pub ctime_ns: u32,
}

impl From<Attr> for varve_attr {
    fn from(attr: Attr) -> varve_attr {
        varve_attr {
            ino: u64::from(attr.ino.0),
            size: attr.size,
            blocks: attr.sectors,
            mode: u32::from(attr.kind.mode_bits() | attr.perm),
            nlink: attr.nlink,
            uid: attr.uid,
            gid: attr.gid,
            atime: attr.atime.secs,
            mtime: attr.mtime.secs,
            ctime: attr.ctime.secs,
            atime_ns: attr.atime.nanos,
            mtime_ns: attr.mtime.nanos,
            ctime_ns: attr.ctime.nanos,
        }
    }
}

fn flags_of(flags: u32) -> Outcome<OpenFlags> {
    let known = [
        (VARVE_READ, OpenFlags::READ),
        (VARVE_WRITE, OpenFlags::WRITE),
        (VARVE_CREATE, OpenFlags::CREATE),
        (VARVE_EXCL, OpenFlags::EXCL),
        (VARVE_TRUNC, OpenFlags::TRUNC),
        (VARVE_APPEND, OpenFlags::APPEND),
        (VARVE_SYNC, OpenFlags::SYNC),
    ];
    let unknown = known.iter().fold(flags, |left, (bit, _)| left & !bit);
    if unknown != 0 {
        let text = format!("flags {unknown:#x} of varve_open are unknown");
        return Err(Failure::invalid(text));
    }
    let set = known.iter().filter(|(bit, _)| flags & bit != 0);
    Ok(set.fold(OpenFlags::NONE, |all, (_, flag)| all | *flag))
}

/// Opens the file at `path`. `flags` are VARVE_READ and others, joined with |; `mode` are the
/// permission bits of a file that is made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_open(
    volume: *const varve_volume,
    path: *const c_char,
    flags: u32,
    mode: u32,
    file: *mut *mut varve_file,
    error: *mut varve_error,
) -> c_int {
    guarded(error, || {
        // SAFETY: the caller passes null, or a volume, a text and a place.
        let (volume, path, out) = unsafe {
            let out = place(file, "the file")?;
            (handle(volume, "volume")?, text(path, "path")?, out)
        };
        let opened = volume
            .mounted()?
            .vfs()
            .open(path, flags_of(flags)?, (mode & 0o7777) as u16);
        let file = opened.map_err(Failure::of("opening", path))?;
        let path = path.to_vec();
        *out = Box::into_raw(Box::new(varve_file { file, path }));
        Ok(0)
    })
}

/// Ends an open file; nothing becomes durable by it. The file has ended in any case; an error says
/// that a write failed of which nobody was told. NULL is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_close(file: *mut varve_file, error: *mut varve_error) -> c_int {
    guarded(error, || {
        if !file.is_null() {
            // SAFETY: it came from a box, and the caller does not use it again.
            let open = unsafe { Box::from_raw(file) };
            open.file
                .close()
                .map_err(Failure::of("closing", &open.path))?;
        }
        Ok(0)
    })
}

/// Reads at most `bytes` bytes at `offset`. Answers how many; 0 at the end of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_pread(
    file: *const varve_file,
    data: *mut c_void,
    bytes: usize,
    offset: u64,
    error: *mut varve_error,
) -> c_int {
    guarded(error, || {
        // SAFETY: the caller passes null, or a file.
        let open = unsafe { handle(file, "file") }?;
        let bytes = bytes.min(c_int::MAX as usize);
        if data.is_null() && bytes > 0 {
            return Err(Failure::invalid("data is NULL"));
        }
        if bytes == 0 {
            return Ok(0);
        }
        // SAFETY: the caller passes a place of that many bytes; zeros make it initialised.
        let buf = unsafe {
            data.cast::<u8>().write_bytes(0, bytes);
            std::slice::from_raw_parts_mut(data.cast::<u8>(), bytes)
        };
        let read = open.file.read_at(offset, buf);
        Ok(read.map_err(Failure::of("reading", &open.path))? as c_int)
    })
}

/// Writes at most `bytes` bytes at `offset`. Answers how many, which is fewer only if there are
/// more than an int holds, or space runs out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_pwrite(
    file: *const varve_file,
    data: *const c_void,
    bytes: usize,
    offset: u64,
    error: *mut varve_error,
) -> c_int {
    guarded(error, || {
        // SAFETY: the caller passes null, or a file.
        let open = unsafe { handle(file, "file") }?;
        let bytes = bytes.min(c_int::MAX as usize);
        if data.is_null() && bytes > 0 {
            return Err(Failure::invalid("data is NULL"));
        }
        let data: &[u8] = match bytes {
            0 => &[],
            // SAFETY: the caller passes that many bytes.
            _ => unsafe { std::slice::from_raw_parts(data.cast::<u8>(), bytes) },
        };
        let written = match open.file.flags().has(OpenFlags::APPEND) {
            true => open.file.append(data).map(|(_, n)| n),
            false => open.file.write_at(offset, data),
        };
        Ok(written.map_err(Failure::of("writing", &open.path))? as c_int)
    })
}

/// A part of an atomic write.
#[repr(C)]
pub struct varve_part {
    /// Where it is written, in bytes from the beginning of the file.
    pub offset: u64,
    /// What is written.
    pub data: *const c_void,
    /// Bytes of it.
    pub bytes: usize,
}

/// Writes all parts, so that after a cut of power either all of them are there or none is, and no
/// reader sees one alone; durable behind varve_fdatasync. Where parts overlap, the later one
/// counts. Nothing has changed behind -EINVAL, -EBADF, -EOPNOTSUPP (this mount has no atomic
/// writes), -EFBIG (more than one transaction holds) and -ENOSPC.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_write_atomic(
    file: *const varve_file,
    parts: *const varve_part,
    count: usize,
    error: *mut varve_error,
) -> c_int {
    guarded(error, || {
        // SAFETY: the caller passes null, or a file.
        let open = unsafe { handle(file, "file") }?;
        if parts.is_null() && count > 0 {
            return Err(Failure::invalid("parts is NULL"));
        }
        if count > PARTS_MAX {
            return Err(too_large());
        }
        let parts: &[varve_part] = match count {
            0 => &[],
            // SAFETY: the caller passes that many parts.
            _ => unsafe { std::slice::from_raw_parts(parts, count) },
        };
        // Before anything is copied.
        let bytes = parts
            .iter()
            .try_fold(0_usize, |sum, part| sum.checked_add(part.bytes));
        if bytes.is_none_or(|bytes| bytes > ATOMIC_BYTES_MAX) {
            return Err(too_large());
        }
        let parts = parts.iter().map(part).collect::<Outcome<Vec<_>>>()?;
        let written = open.file.write_atomic(&parts);
        written.map_err(Failure::of("writing", &open.path))?;
        Ok(0)
    })
}

/// More than any log holds.
const ATOMIC_BYTES_MAX: usize = c_int::MAX as usize;
/// So many parts take as much memory.
const PARTS_MAX: usize = ATOMIC_BYTES_MAX / size_of::<varve_part>();

fn too_large() -> Failure {
    let text = "the parts are more than a transaction holds: write fewer at a time";
    Failure::new(Errno::FBig, text)
}

/// The offset and a copy of the data of a part whose fields are the caller's.
fn part(part: &varve_part) -> Outcome<(u64, Bytes)> {
    let data = match (part.data.is_null(), part.bytes) {
        (_, 0) => Bytes::new(),
        (true, _) => return Err(Failure::invalid("data of a part is NULL")),
        // SAFETY: the caller passes that many bytes.
        (false, n) => unsafe {
            Bytes::copy_from_slice(std::slice::from_raw_parts(part.data.cast::<u8>(), n))
        },
    };
    Ok((part.offset, data))
}

/// Makes content and metadata of a file durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_fsync(file: *const varve_file, error: *mut varve_error) -> c_int {
    guarded(error, || {
        // SAFETY: the caller passes null, or a file.
        let open = unsafe { handle(file, "file") }?;
        open.file
            .fsync()
            .map_err(Failure::of("syncing", &open.path))?;
        Ok(0)
    })
}

/// Makes the content of a file durable, and of its metadata what is needed to read it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_fdatasync(
    file: *const varve_file,
    error: *mut varve_error,
) -> c_int {
    guarded(error, || {
        // SAFETY: the caller passes null, or a file.
        let open = unsafe { handle(file, "file") }?;
        open.file
            .fdatasync()
            .map_err(Failure::of("syncing", &open.path))?;
        Ok(0)
    })
}

/// Cuts a file, or extends it with zeros.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_ftruncate(
    file: *const varve_file,
    bytes: u64,
    error: *mut varve_error,
) -> c_int {
    guarded(error, || {
        // SAFETY: the caller passes null, or a file.
        let open = unsafe { handle(file, "file") }?;
        open.file
            .truncate(bytes)
            .map_err(Failure::of("truncating", &open.path))?;
        Ok(0)
    })
}

/// Tells of an open file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_fstat(
    file: *const varve_file,
    stat: *mut varve_attr,
    error: *mut varve_error,
) -> c_int {
    guarded(error, || {
        // SAFETY: the caller passes null, or a file and a place.
        let (open, out) = unsafe { (handle(file, "file")?, place(stat, "the stat")?) };
        *out = open
            .file
            .stat()
            .map_err(Failure::of("looking at", &open.path))?
            .into();
        Ok(0)
    })
}
