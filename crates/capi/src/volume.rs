//! Mounting, and ending a mount.

use crate::callbacks::Gate;
use crate::disk::varve_disk;
use crate::error::{Failure, Outcome, guarded, varve_error};
use crate::text::{handle, place, words};
use facade::Volume;
use facade::raw::Errno;
use std::ffi::{c_char, c_int};
use std::sync::Arc;

/// A mounted volume. It is ended by varve_unmount, or by varve_abandon.
pub struct varve_volume {
    /// `None` behind a fault of the library in an unmount.
    volume: Option<Volume>,
    gate: Option<Arc<Gate>>,
}

impl varve_volume {
    /// The volume; fails behind a fault that ended it.
    pub(crate) fn mounted(&self) -> Outcome<&Volume> {
        let volume = self.volume.as_ref();
        volume.ok_or_else(|| {
            let text = "a fault in an unmount has ended the volume: varve_abandon frees it";
            Failure::new(Errno::Shutdown, text)
        })
    }
}

/// Space and inodes of a volume.
#[repr(C)]
pub struct varve_space {
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Bytes of the volume.
    pub bytes: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Inodes.
    pub inodes: u64,
    /// Inodes that are free.
    pub inodes_free: u64,
}

/// Lengths of a single write that is all there or not at all after a cut of power, in bytes.
#[repr(C)]
pub struct varve_atomic_unit {
    /// The shortest.
    pub min: u32,
    /// The longest.
    pub max: u32,
}

/// Mounts the file system on a disk, and recovers it if it was not unmounted. `options` may be
/// NULL, or those of `varve mount -o`: ro, commit=SECONDS, cache=SIZE, scheme=PRESET and others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_mount(
    disk: *const varve_disk,
    options: *const c_char,
    volume: *mut *mut varve_volume,
    error: *mut varve_error,
) -> c_int {
    guarded(error, || {
        // SAFETY: the caller passes null, or a disk, a text and a place.
        let (disk, options, out) = unsafe {
            let out = place(volume, "the volume")?;
            (handle(disk, "disk")?, words(options, "options")?, out)
        };
        let mounted = varve_volume {
            volume: Some(Volume::mount(&disk.disk, options)?),
            gate: disk.cut_off(),
        };
        *out = Box::into_raw(Box::new(mounted));
        Ok(0)
    })
}

/// Makes everything durable, marks the volume clean and ends it. On an error the volume stays:
/// close the files and directories after -EBUSY, and call it again; after another one it is shut
/// down, and varve_abandon ends it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_unmount(
    volume: *mut varve_volume,
    error: *mut varve_error,
) -> c_int {
    guarded(error, || {
        // SAFETY: the caller passes null, or a volume that nobody else uses.
        let mounted = unsafe { volume.as_mut() };
        let mounted = mounted.ok_or_else(|| Failure::invalid("volume is NULL"))?;
        mounted.mounted()?;
        let taken = mounted.volume.take();
        if let Err(not) = taken.expect("looked at above").unmount() {
            mounted.volume = Some(not.volume);
            return Err(not.error.into());
        }
        // SAFETY: it came from a box, and the caller does not use it again.
        drop(unsafe { Box::from_raw(volume) });
        Ok(0)
    })
}

/// Ends a volume as a cut of power would: what no sync has covered may be gone, nothing is written
/// to its disk any more, and its threads end. Its open files must not be used again, but for
/// varve_close. The functions of a device of the caller's are not called any more. NULL does
/// nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_abandon(volume: *mut varve_volume) {
    guarded(std::ptr::null_mut(), || {
        if !volume.is_null() {
            // SAFETY: it came from a box, and the caller does not use it again.
            let volume = unsafe { Box::from_raw(volume) };
            if let Some(gate) = &volume.gate {
                gate.close();
            }
            if let Some(mounted) = volume.volume {
                mounted.abandon();
            }
        }
        Ok(0)
    });
}

/// Makes everything on the volume durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_sync(volume: *const varve_volume, error: *mut varve_error) -> c_int {
    guarded(error, || {
        // SAFETY: the caller passes null, or a volume.
        let volume = unsafe { handle(volume, "volume") }?;
        volume.mounted()?.sync()?;
        Ok(0)
    })
}

/// Tells space and inodes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_statfs(
    volume: *const varve_volume,
    space: *mut varve_space,
    error: *mut varve_error,
) -> c_int {
    guarded(error, || {
        // SAFETY: the caller passes null, or a volume and a place.
        let (volume, out) = unsafe { (handle(volume, "volume")?, place(space, "the space")?) };
        let told = volume.mounted()?.space()?;
        *out = varve_space {
            block_bytes: told.block_bytes,
            bytes: told.bytes,
            free: told.free,
            inodes: told.inodes,
            inodes_free: told.inodes_free,
        };
        Ok(0)
    })
}

/// Tells the single writes that varve_write_atomic takes whatever the file looks like, as statx
/// tells stx_atomic_write_unit_min and _max: lengths from `min` to `max` that are powers of two, at
/// offsets that are multiples of them. Several parts together may be longer or shorter. -EOPNOTSUPP
/// if this mount has no atomic writes, or sets no bound to one write (f2fs).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_atomic_write_unit(
    volume: *const varve_volume,
    unit: *mut varve_atomic_unit,
    error: *mut varve_error,
) -> c_int {
    guarded(error, || {
        // SAFETY: the caller passes null, or a volume and a place.
        let (volume, out) = unsafe { (handle(volume, "volume")?, place(unit, "the unit")?) };
        let mounted = volume.mounted()?;
        let (min, max) = mounted.atomic_write_unit().ok_or_else(|| {
            let text = match mounted.has_atomic_writes() {
                true => "this file system sets no bound to an atomic write",
                false => "this mount has no atomic writes",
            };
            Failure::new(Errno::NotSup, text)
        })?;
        *out = varve_atomic_unit { min, max };
        Ok(0)
    })
}
