//! The file of an image: opened, or made if that is wished, and what it was before.
//!
//! - U1: an open that makes an image and then fails leaves the file as it was: not there, empty, or
//!   blank. An image that nobody asked to keep would be in the way of the next `create=`, with
//!   another size or another file system. The lock of the image is held until the file is what it
//!   was, so nobody else uses it meanwhile.
//! - U2: a process that had opened the file before it was removed gets its lock afterwards, and
//!   would write into a file without a name. So, under the lock, the path has to lead to the file
//!   to which it led before the open; otherwise the image is tried again, as one that is in use.

use crate::uri::Wish;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use varve::{Disk, Error, Format, Kind};

const EBUSY: i32 = 16;

/// What a file was before it was made an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Before {
    /// Not there.
    Missing,
    /// Without a byte.
    Empty,
    /// So many bytes that were never written.
    Blank(u64),
}

impl Before {
    /// Makes the file what it was (U1). The error of the open is told, and not one of this.
    pub fn restore(self, image: &Path) {
        let file = || File::options().write(true).open(image);
        let _ = match self {
            Before::Missing => std::fs::remove_file(image),
            Before::Empty => file().and_then(|file| file.set_len(0)),
            Before::Blank(bytes) => file().and_then(|file| {
                file.set_len(0)?;
                file.set_len(bytes)
            }),
        };
    }
}

/// The disk of an image, and what the file was if this call has made it.
///
/// # Errors
/// The host refuses; there is none, and none is wished.
pub fn disk(image: &Path, wish: &Wish) -> Result<(Disk, Option<Before>), Error> {
    disk_by(image, wish, |image| Disk::open(image))
}

/// `open` opens the image and locks it, and others may do something between the two.
fn disk_by(
    image: &Path,
    wish: &Wish,
    open: impl FnOnce(&Path) -> Result<Disk, Error>,
) -> Result<(Disk, Option<Before>), Error> {
    let file = identity(image);
    match open(image) {
        Err(e) if e.kind() == ErrorKind::NotFound => made(image, wish, e),
        Err(e) if wish.create.is_some() && is_empty(image) => made(image, wish, e),
        Err(e) if is_write_protected(&e) => Ok((Disk::open_read_only(image)?, None)),
        Err(e) => Err(e),
        // U2.
        Ok(_) if identity(image) != file => Err(Error::Host {
            text: format!("{}: is being replaced", image.display()),
            errno: EBUSY,
        }),
        Ok(disk) => Ok((disk, None)),
    }
}

/// Device and number of the file: it may have several names.
pub fn identity(image: &Path) -> Option<(u64, u64)> {
    let meta = image.metadata().ok()?;
    Some((meta.dev(), meta.ino()))
}

/// Makes the file system in a file that a process has left which ended before it could. `None`: it
/// is not such a file, or no image is wished.
///
/// # Errors
/// The host refuses, or there can be no such file system.
pub fn finished(image: &Path, disk: &Disk, wish: &Wish) -> Result<Option<Before>, Error> {
    match wish.create.filter(|&bytes| is_blank(image, bytes)) {
        None => Ok(None),
        Some(bytes) => format(image, disk, wish, Before::Blank(bytes)).map(Some),
    }
}

fn made(image: &Path, wish: &Wish, missing: Error) -> Result<(Disk, Option<Before>), Error> {
    let Some(bytes) = wish.create else {
        let text = format!("{missing}; the parameter create=SIZE, as in `&create=64M`, makes one");
        let errno = missing.errno();
        return Err(Error::Host { text, errno });
    };
    let before = match image.symlink_metadata() {
        Ok(_) => Before::Empty,
        Err(_) => Before::Missing,
    };
    let disk = Disk::create(image, bytes)?;
    let before = format(image, &disk, wish, before)?;
    Ok((disk, Some(before)))
}

/// Makes the file system. The disk was found without content under the lock, so what is in it is
/// from this call, unless somebody writes without a lock.
fn format(image: &Path, disk: &Disk, wish: &Wish, before: Before) -> Result<Before, Error> {
    let made = disk.format(&Format::new(wish.kind.unwrap_or(Kind::Ext4)));
    if made.as_ref().is_err_and(|e| !matches!(e, Error::HoldsData)) {
        before.restore(image);
    }
    made.map(|()| before)
}

/// Whether an image is a file without a byte.
fn is_empty(image: &Path) -> bool {
    image.metadata().is_ok_and(|m| m.is_file() && m.len() == 0)
}

/// Whether an image is a file of so many bytes that was never written.
fn is_blank(image: &Path, bytes: u64) -> bool {
    let Ok(file) = File::open(image) else {
        return false;
    };
    let is_file = file
        .metadata()
        .is_ok_and(|m| m.is_file() && m.len() == bytes);
    // ENXIO: there is no data behind the offset.
    let data = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0));
    is_file && data == Err(rustix::io::Errno::NXIO)
}

/// Whether an image that was to be made may be one that another process made at the same time: it
/// was too short when it was opened, or had content when it was made.
pub fn is_being_made(e: &Error, wish: &Wish) -> bool {
    let is_unfit =
        |errno: i32| std::io::Error::from_raw_os_error(errno).kind() == ErrorKind::InvalidInput;
    wish.create.is_some() && matches!(e, Error::Host { errno, .. } if is_unfit(*errno))
}

fn is_write_protected(e: &Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 16 << 20;

    fn image(folder: &Path, name: &str) -> std::path::PathBuf {
        let image = folder.join(name);
        let disk = Disk::create(&image, BYTES).unwrap();
        disk.format(&Format::new(Kind::Ext4)).unwrap();
        image
    }

    /// making-U2: the file that is opened has no name, or its name leads elsewhere, when this
    /// process gets the lock that the other one has held.
    #[test]
    fn an_image_that_was_taken_away_before_its_lock_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let wish = Wish {
            create: Some(BYTES),
            ..Wish::default()
        };
        let app = image(folder.path(), "app.img");
        let taken = |e: Result<(Disk, Option<Before>), Error>| {
            let e = e.map(drop).expect_err("a file without this name");
            assert_eq!(e.errno(), EBUSY, "{e}");
            assert!(e.to_string().contains("app.img: is being replaced"), "{e}");
        };
        // The open of the other process failed, and took away the image that it had made.
        taken(disk_by(&app, &wish, |path| {
            let disk = Disk::open(path)?;
            Before::Missing.restore(path);
            Ok(disk)
        }));
        assert!(
            !app.exists(),
            "nothing is made under a lock of another file"
        );
        // A third process has made the image by now.
        let app = image(folder.path(), "app.img");
        let another = image(folder.path(), "another.img");
        taken(disk_by(&app, &wish, |path| {
            let disk = Disk::open(path)?;
            std::fs::rename(&another, path).unwrap();
            Ok(disk)
        }));
        // As `images::acquire` does next.
        let (disk, made) = disk_by(&app, &wish, |path| Disk::open(path)).unwrap();
        assert_eq!((disk.bytes(), made), (BYTES, None));
    }
}
