//! Converts between saved devices, image files and device models.

use crate::{RigError, write_image};
use base::{BLOCK_BYTES, Lba, SECTOR_BYTES, SECTORS_PER_BLOCK};
use blockdev::Model;
use ctrl::{AnyModel, SavedDevice};
use std::fs::{self, File, Permissions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::NamedTempFile;

fn host(path: &Path) -> impl Fn(io::Error) -> RigError {
    move |source| RigError::Image {
        path: path.display().to_string(),
        source,
    }
}

/// Reads a saved device from a file.
///
/// # Errors
/// The file cannot be read, or is no saved device.
pub fn read_device(path: &Path) -> Result<SavedDevice, RigError> {
    let bytes = fs::read(path).map_err(host(path))?;
    SavedDevice::from_bytes(&bytes).map_err(|source| RigError::State {
        path: path.display().to_string(),
        source,
    })
}

/// Saves a device in a file. The file appears, or is replaced, as a whole: after a failure the
/// former file is unchanged.
///
/// # Errors
/// There is such a file and `overwrite` is not set; the device is too large; what the host says.
pub fn write_device(device: &SavedDevice, path: &Path, overwrite: bool) -> Result<(), RigError> {
    check_absent(path, overwrite)?;
    let bytes = device.to_bytes().map_err(|source| RigError::State {
        path: path.display().to_string(),
        source,
    })?;
    replace(path, overwrite, |file| {
        file.write_all(&bytes).map_err(host(path))
    })
}

/// Like [`write_image`], but after a failure the former file is unchanged.
///
/// # Errors
/// There is such a file and `overwrite` is not set; what the host says.
pub fn write_image_whole(model: &AnyModel, path: &Path, overwrite: bool) -> Result<(), RigError> {
    check_absent(path, overwrite)?;
    replace(path, overwrite, |file| write_image(model, file.path()))
}

/// Copies the content of an image file to a device through its translation layer. Only blocks that
/// differ are written. Answers how many. Costs no virtual time.
///
/// # Errors
/// The file cannot be read, or has another size than the device; the device fails.
pub fn load_image_onto(path: &Path, model: &mut AnyModel) -> Result<u64, RigError> {
    let fail = host(path);
    let file = File::open(path).map_err(&fail)?;
    let bytes = file.metadata().map_err(&fail)?.len();
    let capacity = model.caps().sectors * SECTOR_BYTES as u64;
    if bytes != capacity {
        return Err(RigError::ImageSize {
            path: path.display().to_string(),
            what: format!(
                "it has {bytes} bytes, the device {capacity}; bring it to that size, or make a device of its size with `varve device new --size`"
            ),
        });
    }
    let mut file = BufReader::with_capacity(1 << 20, file);
    let mut block = vec![0; BLOCK_BYTES];
    let mut written = 0;
    for n in 0..capacity / BLOCK_BYTES as u64 {
        file.read_exact(&mut block).map_err(&fail)?;
        if model.visible(n)[..] != block[..] {
            model.load_logical(Lba(n * SECTORS_PER_BLOCK), block.clone().into())?;
            written += 1;
        }
    }
    Ok(written)
}

/// Writes a file by `fill`. It appears, or is replaced, as a whole: after a failure the former file
/// is unchanged.
///
/// # Errors
/// There is such a file and `overwrite` is not set; `fill` fails; what the host says.
pub fn write_whole(
    path: &Path,
    overwrite: bool,
    fill: impl FnOnce(&File) -> io::Result<()>,
) -> Result<(), RigError> {
    check_absent(path, overwrite)?;
    replace(path, overwrite, |file| {
        fill(file.as_file()).map_err(host(path))
    })
}

/// Refuses to replace a file unless told to, and what is no regular file in any case.
///
/// # Errors
/// That; what the host says.
pub fn check_absent(path: &Path, overwrite: bool) -> Result<(), RigError> {
    let exists = |what: &'static str| RigError::Exists {
        path: path.display().to_string(),
        what,
    };
    match path.symlink_metadata() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(host(path)(e)),
        Ok(meta) if !meta.is_file() => Err(exists("it is no regular file; choose another name")),
        Ok(_) if !overwrite => Err(exists("it exists; --force replaces it")),
        Ok(_) => Ok(()),
    }
}

/// Refuses a name under which [`write_whole`] could not make a file later.
///
/// # Errors
/// [`check_absent`] refuses it, or no file can be made in its folder.
pub fn check_writable(path: &Path, overwrite: bool) -> Result<(), RigError> {
    check_absent(path, overwrite)?;
    beside(path).map(drop).map_err(host(path))
}

/// A file without a final name in the folder of `path`.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let mut options = tempfile::Builder::new();
    options.prefix(".varve-").suffix(".part");
    // Less what the umask says.
    options.permissions(Permissions::from_mode(0o666));
    options.tempfile_in(folder_of(path))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Fills a file beside `path`, brings it to the disk and gives it that name.
fn replace(
    path: &Path,
    overwrite: bool,
    fill: impl FnOnce(&mut NamedTempFile) -> Result<(), RigError>,
) -> Result<(), RigError> {
    let mut file = beside(path).map_err(host(path))?;
    fill(&mut file)?;
    file.as_file().sync_all().map_err(host(path))?;
    let named = match overwrite {
        true => file.persist(path),
        false => file.persist_noclobber(path),
    };
    named.map_err(|e| host(path)(e.error))?;
    let folder = File::open(folder_of(path)).and_then(|folder| folder.sync_all());
    folder.map_err(host(path))
}
