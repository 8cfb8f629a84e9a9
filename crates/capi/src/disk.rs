//! Disks: opened, formatted, closed.

use crate::VARVE_ABI_VERSION;
use crate::callbacks::{Callbacks, Gate, varve_device};
use crate::error::{Failure, Outcome, guarded, varve_error};
use crate::text::{handle, place, text, words};
use base::size::Bare;
use facade::raw::{Errno, options as option};
use facade::{Disk, Format, Kind};
use std::ffi::{OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// A disk that can hold a volume. It is ended by varve_disk_close.
pub struct varve_disk {
    pub(crate) disk: Disk,
    gate: Option<Arc<Gate>>,
}

fn check_abi(abi: u32) -> Outcome {
    match abi {
        VARVE_ABI_VERSION => Ok(()),
        other => Err(Failure::invalid(format!(
            "the program was compiled with varve.h of version {other}, and this library has \
             version {VARVE_ABI_VERSION}: compile it with the header of this library"
        ))),
    }
}

fn give(out: *mut *mut varve_disk, disk: Disk, gate: Option<Arc<Gate>>) -> Outcome<c_int> {
    // SAFETY: the caller passes null, or a place for a disk.
    let out = unsafe { place(out, "the disk") }?;
    *out = Box::into_raw(Box::new(varve_disk { disk, gate }));
    Ok(0)
}

/// A path of the host.
///
/// # Safety
/// As [`text`].
unsafe fn host_path<'a>(path: *const c_char) -> Outcome<&'a Path> {
    // SAFETY: as this function demands.
    let bytes = unsafe { text(path, "path") }?;
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// Opens an image file or a block device of the host; with `read_only` nothing is ever written to
/// it. It stays locked until it is closed. Use the macro varve_disk_open, which passes `abi`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_disk_open_abi(
    abi: u32,
    path: *const c_char,
    read_only: bool,
    disk: *mut *mut varve_disk,
    error: *mut varve_error,
) -> c_int {
    guarded(error, || {
        check_abi(abi)?;
        // SAFETY: the caller passes null, or a text.
        let path = unsafe { host_path(path) }?;
        let opened = match read_only {
            true => Disk::open_read_only(path),
            false => Disk::open(path),
        };
        give(disk, opened?, None)
    })
}

/// Makes an image file of `bytes` zeros, or uses an empty one. Use the macro varve_disk_create,
/// which passes `abi`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_disk_create_abi(
    abi: u32,
    path: *const c_char,
    bytes: u64,
    disk: *mut *mut varve_disk,
    error: *mut varve_error,
) -> c_int {
    guarded(error, || {
        check_abi(abi)?;
        // SAFETY: the caller passes null, or a text.
        let path = unsafe { host_path(path) }?;
        give(disk, Disk::create(path, bytes)?, None)
    })
}

/// A disk of `bytes` zeros in memory. Use the macro varve_disk_ram, which passes `abi`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_disk_ram_abi(
    abi: u32,
    bytes: u64,
    disk: *mut *mut varve_disk,
    error: *mut varve_error,
) -> c_int {
    guarded(error, || {
        check_abi(abi)?;
        give(disk, Disk::ram(bytes)?, None)
    })
}

/// A device of the caller's, whose description is copied. Its first and last 4096 bytes are read,
/// so that one that lies about its size is found here. Use the macro varve_disk_device, which
/// passes `abi`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_disk_device_abi(
    abi: u32,
    device: *const varve_device,
    disk: *mut *mut varve_disk,
    error: *mut varve_error,
) -> c_int {
    guarded(error, || {
        check_abi(abi)?;
        // SAFETY: the caller passes null, or a device.
        let device = unsafe { handle(device, "device") }?;
        let (callbacks, gate) = Callbacks::new(*device)?;
        give(disk, Disk::device(callbacks)?, Some(gate))
    })
}

/// The size of a disk in bytes; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_disk_bytes(disk: *const varve_disk) -> u64 {
    // SAFETY: the caller passes null, or a disk.
    unsafe { disk.as_ref() }.map_or(0, |disk| disk.disk.bytes())
}

/// Makes a file system: `kind` is ext4, ext3 or f2fs. `options` may be NULL, or several of these
/// with commas between: label=TEXT, journal=SIZE (0: none), block=SIZE, seed=NUMBER, force (writes
/// over data). A size is a number of bytes, or one with k, M, G or T behind it (powers of 1024).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_mkfs(
    disk: *const varve_disk,
    kind: *const c_char,
    options: *const c_char,
    error: *mut varve_error,
) -> c_int {
    guarded(error, || {
        // SAFETY: the caller passes null, or a disk and texts.
        let (disk, kind, options) = unsafe {
            let options = words(options, "options")?;
            (handle(disk, "disk")?, words(kind, "kind")?, options)
        };
        disk.disk.format(&format(kind, options)?)?;
        Ok(0)
    })
}

fn format(kind: &str, options: &str) -> Outcome<Format> {
    let kind = match kind {
        "ext4" => Kind::Ext4,
        "ext3" => Kind::Ext3,
        "f2fs" => Kind::F2fs,
        other => {
            let text = format!("kind `{other}`; there are: ext4, ext3, f2fs");
            return Err(Failure::invalid(text));
        }
    };
    let mut format = Format::new(kind);
    for item in options.split(',').filter(|item| !item.is_empty()) {
        let (key, value) = item.split_once('=').unwrap_or((item, ""));
        let wrong = |allowed: String| Failure::invalid(format!("the option `{item}`: {allowed}"));
        let size = || {
            let bytes = base::size::parse(value, Bare::Bytes);
            bytes.map_err(|e| wrong(format!("it may be {e}")))
        };
        format = match key {
            "label" => format.label(value),
            "journal" => format.journal_bytes(size()?),
            "block" => format.block_bytes(u32::try_from(size()?).unwrap_or(u32::MAX)),
            "seed" => format.seed(option::number(value, 0..=u64::MAX).map_err(wrong)?),
            "force" => {
                option::switch(value).map_err(wrong)?;
                format.overwrite(true)
            }
            _ => {
                let text = format!(
                    "the option `{item}` is unknown; there are: label=TEXT, journal=SIZE, \
                     block=SIZE, seed=NUMBER, force"
                );
                return Err(Failure::invalid(text));
            }
        };
    }
    Ok(format)
}

/// Ends a disk; -EBUSY while a volume on it is mounted, and then it stays open. The functions of a
/// device are not called any more when it returns 0. NULL is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_disk_close(disk: *mut varve_disk, error: *mut varve_error) -> c_int {
    guarded(error, || {
        // SAFETY: the caller passes null, or a disk.
        match unsafe { disk.as_ref() } {
            None => return Ok(0),
            Some(open) if open.disk.is_mounted() => {
                let text = "a volume on the disk is mounted: unmount or abandon it first";
                return Err(Failure::new(Errno::Busy, text));
            }
            Some(_) => {}
        }
        // SAFETY: it came from a box, and the caller does not use it again.
        drop(unsafe { Box::from_raw(disk) });
        Ok(0)
    })
}

impl varve_disk {
    /// Lets nothing reach the device of the caller's any more.
    pub(crate) fn cut_off(&self) -> Option<Arc<Gate>> {
        self.gate.clone()
    }
}

impl Drop for varve_disk {
    /// Forgets the caller's functions: no I/O.
    fn drop(&mut self) {
        if let Some(gate) = &self.gate {
            gate.close();
        }
    }
}
