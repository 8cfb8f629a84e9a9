//! Operations on paths.

use crate::error::{Failure, guarded, varve_error};
use crate::file::varve_attr;
use crate::text::{handle, place, text};
use crate::volume::varve_volume;
use facade::raw::{FsError, RenameMode, SetAttr, Vfs};
use std::ffi::{c_char, c_int};
use std::sync::Arc;

/// Does something with a path.
fn at(
    volume: *const varve_volume,
    path: *const c_char,
    error: *mut varve_error,
    doing: &str,
    f: impl FnOnce(&Arc<Vfs>, &[u8]) -> Result<(), FsError>,
) -> c_int {
    guarded(error, || {
        // SAFETY: the caller passes null, or a volume and a text.
        let (volume, path) = unsafe { (handle(volume, "volume")?, text(path, "path")?) };
        f(volume.mounted()?.vfs(), path).map_err(Failure::of(doing, path))?;
        Ok(0)
    })
}

/// Does something with two paths.
fn between(
    volume: *const varve_volume,
    (from, to): (*const c_char, *const c_char),
    error: *mut varve_error,
    doing: &str,
    f: impl FnOnce(&Arc<Vfs>, &[u8], &[u8]) -> Result<(), FsError>,
) -> c_int {
    guarded(error, || {
        // SAFETY: the caller passes null, or a volume and texts.
        let (volume, from, to) = unsafe {
            let volume = handle(volume, "volume")?;
            (
                volume,
                text(from, "the first path")?,
                text(to, "the second path")?,
            )
        };
        let both = [from, b" and ", to].concat();
        f(volume.mounted()?.vfs(), from, to).map_err(Failure::of(doing, &both))?;
        Ok(0)
    })
}

/// Tells of the inode at `path`, symbolic links followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_stat(
    volume: *const varve_volume,
    path: *const c_char,
    stat: *mut varve_attr,
    error: *mut varve_error,
) -> c_int {
    guarded(error, || {
        // SAFETY: the caller passes null, or a volume, a text and a place.
        let (volume, path, out) = unsafe {
            let out = place(stat, "the stat")?;
            (handle(volume, "volume")?, text(path, "path")?, out)
        };
        let attr = volume.mounted()?.vfs().stat(path);
        *out = attr.map_err(Failure::of("looking at", path))?.into();
        Ok(0)
    })
}

/// Tells of the inode at `path`; of a symbolic link itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_lstat(
    volume: *const varve_volume,
    path: *const c_char,
    stat: *mut varve_attr,
    error: *mut varve_error,
) -> c_int {
    guarded(error, || {
        // SAFETY: the caller passes null, or a volume, a text and a place.
        let (volume, path, out) = unsafe {
            let out = place(stat, "the stat")?;
            (handle(volume, "volume")?, text(path, "path")?, out)
        };
        let attr = volume.mounted()?.vfs().lstat(path);
        *out = attr.map_err(Failure::of("looking at", path))?.into();
        Ok(0)
    })
}

/// Makes a directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_mkdir(
    volume: *const varve_volume,
    path: *const c_char,
    mode: u32,
    error: *mut varve_error,
) -> c_int {
    at(volume, path, error, "making", |vfs, path| {
        vfs.mkdir(path, (mode & 0o7777) as u16).map(drop)
    })
}

/// Removes an empty directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_rmdir(
    volume: *const varve_volume,
    path: *const c_char,
    error: *mut varve_error,
) -> c_int {
    at(volume, path, error, "removing", |vfs, path| vfs.rmdir(path))
}

/// Removes a name that is no directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_unlink(
    volume: *const varve_volume,
    path: *const c_char,
    error: *mut varve_error,
) -> c_int {
    at(volume, path, error, "removing", |vfs, path| {
        vfs.unlink(path)
    })
}

/// Renames, and replaces what has the new name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_rename(
    volume: *const varve_volume,
    from: *const c_char,
    to: *const c_char,
    error: *mut varve_error,
) -> c_int {
    between(volume, (from, to), error, "renaming", |vfs, from, to| {
        vfs.rename(from, to, RenameMode::Replace)
    })
}

/// Gives a file another name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_link(
    volume: *const varve_volume,
    old: *const c_char,
    new_name: *const c_char,
    error: *mut varve_error,
) -> c_int {
    between(
        volume,
        (old, new_name),
        error,
        "linking",
        |vfs, old, new| vfs.link(old, new).map(drop),
    )
}

/// Makes a symbolic link at `path` that leads to `target`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_symlink(
    volume: *const varve_volume,
    target: *const c_char,
    path: *const c_char,
    error: *mut varve_error,
) -> c_int {
    between(
        volume,
        (target, path),
        error,
        "linking",
        |vfs, target, path| vfs.symlink(target, path).map(drop),
    )
}

/// Copies where a symbolic link leads to `target`, which has `bytes` bytes, and ends it with a
/// zero. Answers its length; -ERANGE if there is no room for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_readlink(
    volume: *const varve_volume,
    path: *const c_char,
    target: *mut c_char,
    bytes: usize,
    error: *mut varve_error,
) -> c_int {
    guarded(error, || {
        // SAFETY: the caller passes null, or a volume and a text.
        let (volume, path) = unsafe { (handle(volume, "volume")?, text(path, "path")?) };
        let read = volume.mounted()?.vfs().readlink(path);
        let read = read.map_err(Failure::of("reading", path))?;
        if target.is_null() || read.len() >= bytes {
            let text = format!("the target has {} bytes and a zero", read.len());
            return Err(Failure::new(facade::raw::Errno::Range, text));
        }
        // SAFETY: the caller passes a place of `bytes` bytes, which are enough.
        unsafe {
            std::ptr::copy_nonoverlapping(read.as_ptr().cast(), target, read.len());
            *target.add(read.len()) = 0;
        }
        Ok(read.len() as c_int)
    })
}

/// Changes the permission bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_chmod(
    volume: *const varve_volume,
    path: *const c_char,
    mode: u32,
    error: *mut varve_error,
) -> c_int {
    let set = SetAttr {
        perm: Some((mode & 0o7777) as u16),
        ..SetAttr::default()
    };
    at(volume, path, error, "changing", |vfs, path| {
        vfs.set_attr(path, &set).map(drop)
    })
}

/// Changes owner and group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_chown(
    volume: *const varve_volume,
    path: *const c_char,
    uid: u32,
    gid: u32,
    error: *mut varve_error,
) -> c_int {
    let set = SetAttr {
        uid: Some(uid),
        gid: Some(gid),
        ..SetAttr::default()
    };
    at(volume, path, error, "changing", |vfs, path| {
        vfs.set_attr(path, &set).map(drop)
    })
}

/// Makes the names in a directory durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_sync_dir(
    volume: *const varve_volume,
    path: *const c_char,
    error: *mut varve_error,
) -> c_int {
    at(volume, path, error, "syncing", |vfs, path| {
        vfs.sync_dir(path)
    })
}
