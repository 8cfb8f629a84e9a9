//! Reading directories.

use crate::error::{Failure, fill, guarded, varve_error};
use crate::text::{handle, place, text};
use crate::volume::varve_volume;
use facade::raw::{DirEntry, File, OpenFlags};
use std::collections::VecDeque;
use std::ffi::{c_char, c_int};

/// Entries that are read at once.
const BATCH: usize = 32;

/// An open directory. It is ended by varve_closedir, before its volume is.
pub struct varve_dir {
    file: File,
    path: Vec<u8>,
    read: VecDeque<DirEntry>,
    next: u64,
    ended: bool,
}

/// An entry of a directory.
#[repr(C)]
pub struct varve_dirent {
    /// Inode number.
    pub ino: u64,
    /// The kind, as the upper bits of st_mode of Linux.
    pub mode: u32,
    /// The name, any bytes but / and zero.
    pub name: [c_char; 256],
}

/// Opens a directory to read it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_opendir(
    volume: *const varve_volume,
    path: *const c_char,
    dir: *mut *mut varve_dir,
    error: *mut varve_error,
) -> c_int {
    guarded(error, || {
        // SAFETY: the caller passes null, or a volume, a text and a place.
        let (volume, path, out) = unsafe {
            let out = place(dir, "the directory")?;
            (handle(volume, "volume")?, text(path, "path")?, out)
        };
        let flags = OpenFlags::READ | OpenFlags::DIRECTORY;
        let opened = volume.mounted()?.vfs().open(path, flags, 0);
        let dir = varve_dir {
            file: opened.map_err(Failure::of("opening", path))?,
            path: path.to_vec(),
            read: VecDeque::new(),
            next: 0,
            ended: false,
        };
        *out = Box::into_raw(Box::new(dir));
        Ok(0)
    })
}

/// The next entry, `.` and `..` among them. Answers 1, or 0 at the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_readdir(
    dir: *mut varve_dir,
    entry: *mut varve_dirent,
    error: *mut varve_error,
) -> c_int {
    guarded(error, || {
        // SAFETY: the caller passes null, or a directory and a place, which no other thread uses.
        let (dir, out) = unsafe { (place(dir, "dir")?, place(entry, "the entry")?) };
        if dir.read.is_empty() && !dir.ended {
            let read = dir.file.read_dir(dir.next, BATCH);
            dir.read = read.map_err(Failure::of("reading", &dir.path))?.into();
            match dir.read.back() {
                Some(last) => dir.next = last.next,
                None => dir.ended = true,
            }
        }
        let Some(next) = dir.read.pop_front() else {
            return Ok(0);
        };
        out.ino = u64::from(next.ino.0);
        out.mode = u32::from(next.kind.mode_bits());
        fill(&mut out.name, &next.name);
        Ok(1)
    })
}

/// Ends an open directory. NULL is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_closedir(dir: *mut varve_dir, error: *mut varve_error) -> c_int {
    guarded(error, || {
        if !dir.is_null() {
            // SAFETY: it came from a box, and the caller does not use it again.
            let dir = unsafe { Box::from_raw(dir) };
            dir.file
                .close()
                .map_err(Failure::of("closing", &dir.path))?;
        }
        Ok(0)
    })
}
