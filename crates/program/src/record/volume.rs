//! The volume that programs run on: a new ext4 in memory.

use blockdev::Image;
use rig::{Config, FileSystem, Preset, RigError};
use std::sync::Arc;
use vfs::WritebackPolicy;

/// Makes and mounts an empty ext4 of `bytes` bytes, whose root belongs to `owner`. Its memory grows
/// with what is written to it. No task of its own writes: what is recorded are the calls of
/// programs, and those do not depend on when a file system writes back.
///
/// # Errors
/// The size is not possible.
pub fn volume(bytes: u64, owner: (u32, u32)) -> Result<Arc<dyn FileSystem>, RigError> {
    let config = Config {
        bytes,
        ..Config::new(Preset::Jbd2, "emmc-odroid-xu4", 1)
    };
    let mut image = Image::new();
    for (n, content) in config.fresh_volume()?.blocks {
        image.set_block(n.0, content);
    }
    let device = Arc::new(image.to_ram(bytes));
    let options = config.mount_options().timers(None, None).discard(true);
    let mounted = rig::Mounted::on(device, options, WritebackPolicy::default())?;
    let fs = mounted.fs.seam();
    // A new directory of a program's has none.
    fs.rmdir(fs.root(), b"lost+found")?;
    let set = rig::SetAttr {
        uid: Some(owner.0),
        gid: Some(owner.1),
        ..rig::SetAttr::default()
    };
    fs.setattr(fs.root(), &set)?;
    Ok(fs)
}
