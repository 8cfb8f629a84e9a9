//! Opening an image that nobody else uses.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Two blocks: less holds no superblock and descriptors.
const BYTES_MIN: u64 = 8192;

/// Opens an image file, to write if `write`; else says why it cannot be used.
pub fn open(path: &Path, write: bool) -> Result<File, String> {
    let bad = |what: String| format!("{}: {what}", path.display());
    let meta = fs::metadata(path).map_err(|e| bad(e.to_string()))?;
    if meta.is_dir() {
        return Err(bad("is a directory; name an image file".into()));
    }
    if !meta.is_file() {
        return Err(bad(
            "is no regular file; copy the device to one first".into()
        ));
    }
    if meta.len() < BYTES_MIN {
        return Err(bad(format!(
            "{} bytes are too short for a file system",
            meta.len()
        )));
    }
    if let Some(user) = user_of(&meta) {
        return Err(bad(format!(
            "is in use by {user}; unmount and detach it first"
        )));
    }
    let file = File::options().read(true).write(write).open(path);
    let file = file.map_err(|e| bad(format!("cannot be opened: {e}")))?;
    if write {
        file.try_lock()
            .map_err(|e| bad(format!("is in use by another program: {e}")))?;
    }
    Ok(file)
}

/// The loop device that has this file, if there is one.
fn user_of(image: &fs::Metadata) -> Option<String> {
    for device in fs::read_dir("/sys/block").ok()?.flatten() {
        let backing = device.path().join("loop/backing_file");
        let Ok(name) = fs::read_to_string(backing) else {
            continue;
        };
        let same = |other: fs::Metadata| (other.dev(), other.ino()) == (image.dev(), image.ino());
        if fs::metadata(name.trim_end_matches('\n')).is_ok_and(same) {
            return Some(format!("/dev/{}", device.file_name().to_string_lossy()));
        }
    }
    None
}
