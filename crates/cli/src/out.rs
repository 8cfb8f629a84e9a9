//! Where results go: standard output, and the output folder, which is checked before the run and
//! filled after it.

use crate::failure::{Failure, failed};
use base::plain;
use serde_json::Value;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Prints `text`. A reader that has closed the pipe, as `head` does, is no error.
pub fn say(text: &str) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(failed(format!("standard output: {e}"))),
        _ => Ok(()),
    }
}

/// Prints one JSON document, in which nothing drives a terminal.
pub fn say_json(value: &Value) -> Result<(), Failure> {
    say(&plain::json(&format!("{value:#}\n")))
}

/// A name in a JSON document: as it is where it is UTF-8, else [`plain::shown`].
pub fn name(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => plain::shown(bytes),
    }
}

/// A path of the host in a JSON document, as of [`name()`].
pub fn path(path: &Path) -> String {
    name(path.as_os_str().as_bytes())
}

/// Room for the results; images of runs lie in the folder for temporary files.
const BYTES_NEEDED: u64 = 1 << 20;

/// An output folder that can be written.
pub struct OutFolder(PathBuf);

impl OutFolder {
    /// Makes the folder if need be, and checks before the run that it can be written and has room.
    pub fn prepare(path: &Path) -> Result<OutFolder, Failure> {
        let name = path.display();
        let why =
            |what: &str, e: std::io::Error| failed(format!("output folder {name}: {what}: {e}"));
        fs::create_dir_all(path).map_err(|e| why("cannot be made", e))?;
        // Without a name: nothing is left of it, however this ends.
        tempfile::tempfile_in(path)
            .and_then(|mut probe| probe.write_all(b"probe"))
            .map_err(|e| why("cannot be written; choose another with --out", e))?;
        let room = rustix::fs::statvfs(path).map_err(|e| why("cannot be examined", e.into()))?;
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        if free < BYTES_NEEDED {
            let (free, needed) = (free >> 10, BYTES_NEEDED >> 10);
            return Err(failed(format!(
                "output folder {name}: {free} KiB free, {needed} KiB needed; make room or choose another with --out"
            )));
        }
        Ok(OutFolder(path.into()))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes one file: first beside it, then renamed, so that a full disk never leaves half of
    /// one.
    pub fn write(&self, name: &str, content: &str) -> Result<(), Failure> {
        let (target, part) = (self.0.join(name), self.0.join(format!(".{name}.part")));
        let written = fs::write(&part, content).and_then(|()| fs::rename(&part, &target));
        written.map_err(|e| {
            // The first error is the one to tell; a leftover part file is harmless.
            let _ = fs::remove_file(&part);
            unwritten(&target, &e)
        })
    }
}

/// Tells that a file of results could not be written, and what to do where the disk is full.
pub fn unwritten(path: &Path, e: &std::io::Error) -> Failure {
    let advice = match e.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "; make room there, then begin the same command again"
        }
        _ => "",
    };
    failed(format!("writing {}: {e}{advice}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_the_way_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        let failure = OutFolder::prepare(&file).err().unwrap().to_string();
        assert!(
            failure.contains("file") && failure.contains("output folder"),
            "{failure}"
        );
    }

    #[test]
    fn a_folder_is_made_and_filled() {
        let dir = tempfile::tempdir().unwrap();
        let out = OutFolder::prepare(&dir.path().join("a/b")).unwrap();
        out.write("results.json", "{}").unwrap();
        assert_eq!(
            fs::read_to_string(out.path().join("results.json")).unwrap(),
            "{}"
        );
        assert_eq!(fs::read_dir(out.path()).unwrap().count(), 1);
    }
}
