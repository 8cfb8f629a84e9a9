//! The place that is measured: a file of our own in a folder, or what is given to be written over.

use super::host::Disk;
use crate::failure::{Failure, failed, usage};
use rig::{BlockDevice, HostFile, HostOptions};
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use tempfile::TempDir;

/// The smallest area: all sizes fit, and reads rarely meet.
const AREA_MIN: u64 = 16 << 20;
/// File systems in memory: statfs(2).
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58F6];

/// An open place.
pub struct Place {
    /// What is measured.
    pub file: HostFile,
    /// The device below it, if there is a single one.
    pub disk: Option<Disk>,
    /// True for a whole block device: nothing between us and it.
    pub is_device: bool,
    /// Bytes that are written and read.
    pub area: u64,
    /// The folder that goes with us.
    _own: Option<TempDir>,
}

impl Place {
    /// True if a durable write reaches the device as one command (FUA): the kernel hands it on for
    /// overwritten blocks of a file, too, where the device has it.
    pub fn durable_is_one_command(&self) -> bool {
        let through_a_file = || !self.is_device && self.disk.as_ref().is_some_and(Disk::has_fua);
        !self.file.caps().fua_flushes || through_a_file()
    }
}

/// Opens `path` for measuring `size` bytes at its begin.
///
/// # Errors
/// It is not there, in use, in memory or too short; or it holds content and `write` is false.
pub fn open(path: &Path, size: u64, write: bool) -> Result<Place, Failure> {
    let shown = path.display();
    let meta = fs::metadata(path).map_err(|e| {
        usage(format!(
            "{shown}: {e}; name a folder on the card, an existing file, or a block device"
        ))
    })?;
    if size < AREA_MIN {
        return Err(usage(format!(
            "--size: at least {} MiB are needed",
            AREA_MIN >> 20
        )));
    }
    let (file, own) = match meta.is_dir() {
        true => {
            let (file, own) = file_of_our_own(path, size)?;
            (file, Some(own))
        }
        false if !write => {
            return Err(usage(format!(
                "{shown}: its first {} MiB would be written over and their content lost; say --write if that is \
                 meant, or name a folder on the card, where a file of its own is made and removed",
                size >> 20
            )));
        }
        false => (
            HostFile::open(path, &options(size, &meta)).map_err(failed)?,
            None,
        ),
    };
    let area = file.bytes().min(size) / 4096 * 4096;
    if area < AREA_MIN {
        return Err(failed(format!(
            "{shown}: {} KiB are too short; {} MiB are needed",
            area >> 10,
            AREA_MIN >> 20
        )));
    }
    refuse_memory(path, &file)?;
    Ok(Place {
        file,
        disk: Disk::below(&meta),
        is_device: meta.file_type().is_block_device(),
        area,
        _own: own,
    })
}

/// A window of `size` bytes, or less where the file is shorter. The length of a block device is not
/// known before it is open.
fn options(size: u64, meta: &fs::Metadata) -> HostOptions {
    HostOptions {
        direct: true,
        size: (meta.is_file() && meta.len() > size).then_some(size),
        ..HostOptions::write()
    }
}

fn file_of_our_own(folder: &Path, size: u64) -> Result<(HostFile, TempDir), Failure> {
    let shown = folder.display();
    let room = rustix::fs::statvfs(folder).map_err(|e| failed(format!("{shown}: {e}")))?;
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    if free < size + size / 16 {
        return Err(failed(format!(
            "{shown}: {} MiB free, {} MiB needed; make room or choose less with --size",
            free >> 20,
            (size + size / 16) >> 20
        )));
    }
    let own = tempfile::Builder::new()
        .prefix(".varve-calibrate-")
        .tempdir_in(folder);
    let own = own.map_err(|e| failed(format!("{shown}: {e}")))?;
    let options = HostOptions {
        direct: true,
        ..HostOptions::write()
    };
    let file = HostFile::create(own.path().join("file"), size, &options).map_err(failed)?;
    Ok((file, own))
}

/// Refuses what never reaches a device.
fn refuse_memory(path: &Path, file: &HostFile) -> Result<(), Failure> {
    let shown = path.display();
    let found = rustix::fs::statfs(file.path()).map_err(|e| failed(format!("{shown}: {e}")))?;
    let in_memory = !fs::metadata(path).is_ok_and(|m| m.file_type().is_block_device())
        && IN_MEMORY.contains(&(found.f_type as u64));
    if in_memory {
        return Err(usage(format!(
            "{shown} is in memory; name a folder on the card"
        )));
    }
    if !file.is_direct() {
        return Err(failed(format!(
            "{shown}: the file system allows no direct I/O, so only the memory of the host could be measured; \
             name another folder, or the block device with --write"
        )));
    }
    Ok(())
}
