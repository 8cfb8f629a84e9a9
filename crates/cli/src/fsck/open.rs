//! Opens an image or a device, and refuses one that is in use.

use rig::{HostFile, HostIo, HostOptions};
use std::path::Path;

/// Opens an image file or a block device, for writing if `write`; the error says why it cannot be
/// used. Requests run in the caller's thread, because these commands work step by step and often
/// inside a simulation.
pub fn open(path: &Path, write: bool) -> Result<HostFile, String> {
    let options = HostOptions {
        write,
        io: HostIo::Sync,
        ..HostOptions::default()
    };
    HostFile::open(path, &options).map_err(|e| e.to_string())
}
