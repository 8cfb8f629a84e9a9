//! Opens an image or a device, and refuses one that is in use.

use rig::{HostFile, HostIo, HostOptions};
use std::path::Path;

/// Opens an image file or a block device, to write if `write`; else says why it cannot be used. What these commands do is done step by
/// step, and often inside of a simulation: in the thread of the caller.
pub fn open(path: &Path, write: bool) -> Result<HostFile, String> {
    let options = HostOptions {
        write,
        io: HostIo::Sync,
        ..HostOptions::default()
    };
    HostFile::open(path, &options).map_err(|e| e.to_string())
}
