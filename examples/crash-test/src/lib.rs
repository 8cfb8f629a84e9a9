//! A file that is replaced as a whole, rightly and wrongly.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Replaces the content of `file`, so that it is old or new whenever the power goes, and new once
/// this has returned.
pub fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    let part = file.with_extension("part");
    let mut new = File::create(&part)?;
    new.write_all(content)?;
    new.sync_data()?;
    fs::rename(&part, file)?;
    // The new name is durable with its directory.
    File::open(file.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// The same without syncs, as many programs do it.
pub fn replace_hastily(file: &Path, content: &[u8]) -> io::Result<()> {
    let part = file.with_extension("part");
    fs::write(&part, content)?;
    fs::rename(&part, file)
}
