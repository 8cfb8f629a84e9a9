//! Mounting, and ending a mount.

use crate::callbacks::Gate;
use crate::disk::varve_disk;
use crate::error::{Failure, guarded, varve_error};
use crate::text::{handle, place, words};
use facade::{Error, Volume};
use std::ffi::{c_char, c_int};
use std::sync::Arc;

/// A mounted volume. It is ended by varve_unmount, or by varve_abandon.
pub struct varve_volume {
    pub(crate) volume: Volume,
    gate: Option<Arc<Gate>>,
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

/// Mounts the file system on a disk, and recovers it if it was not unmounted. `options` may be
/// NULL, or those of `varve mount -o`: ro, commit=SECONDS, cache=MIB, scheme=PRESET and others.
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
            volume: Volume::mount(&disk.disk, options)?,
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
        if volume.is_null() {
            return Err(Failure::invalid("volume is NULL"));
        }
        // SAFETY: it came from a box; on an error a box stands at the same place again.
        let taken = unsafe { std::ptr::read(volume) };
        match taken.volume.unmount() {
            Ok(()) => {
                // SAFETY: the content was taken out; what is left is memory of that layout.
                drop(unsafe {
                    Box::from_raw(volume.cast::<std::mem::MaybeUninit<varve_volume>>())
                });
                Ok(0)
            }
            Err(not) => {
                let gate = taken.gate;
                let failure = Failure::from(not.error);
                let again = varve_volume {
                    volume: not.volume,
                    gate,
                };
                // SAFETY: the place is the caller's box, whose content was taken out.
                unsafe { std::ptr::write(volume, again) };
                Err(failure)
            }
        }
    })
}

/// Ends a volume as a cut of power would: what no sync has covered may be gone. Its open files must
/// not be used again. The functions of a device of the caller's are not called any more. NULL does
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
            volume.volume.abandon();
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
        volume.volume.sync()?;
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
        let told = volume.volume.space().map_err(|e: Error| Failure::from(e))?;
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
