//! Images mounted by the running kernel.
#![allow(dead_code, missing_docs, clippy::disallowed_methods)]

use super::{Image, tool};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// An image mounted by the kernel.
pub struct Mounted {
    pub point: PathBuf,
}

impl Mounted {
    /// Mounts the image; `None`, with a message, where that is not possible.
    pub fn new(image: &Image) -> Option<Mounted> {
        Mounted::unless_refused(image)
            .unwrap_or_else(|why| panic!("the kernel refuses the image: {why}"))
    }

    /// As [`Mounted::new`], with options of the mount.
    pub fn with(image: &Image, options: &str) -> Option<Mounted> {
        Mounted::tried(image, &format!("loop,{options}"))
            .unwrap_or_else(|why| panic!("the kernel refuses the image: {why}"))
    }

    /// As [`Mounted::new`], for an image that the kernel may refuse: then the error is the kernel's
    /// message.
    pub fn unless_refused(image: &Image) -> Result<Option<Mounted>, String> {
        Mounted::tried(image, "loop")
    }

    fn tried(image: &Image, options: &str) -> Result<Option<Mounted>, String> {
        let point = image.dir.path().join("mnt");
        fs::create_dir_all(&point).expect("a mount point");
        let out = tool("mount")
            .args(["-o", options])
            .arg(&image.path)
            .arg(&point)
            .output();
        match out {
            Ok(out) if out.status.success() => Ok(Some(Mounted { point })),
            Ok(out) => {
                let why = String::from_utf8_lossy(&out.stderr).into_owned();
                if !not_allowed(&why) {
                    return Err(why);
                }
                eprintln!("skipped: no loop mount: {why}");
                Ok(None)
            }
            Err(e) => {
                eprintln!("skipped: no mount: {e}");
                Ok(None)
            }
        }
    }

    pub fn unmount(self) {
        self.try_unmount().expect("unmounted");
    }

    /// A test that runs beside this one and starts a program holds copies of this process's files
    /// for a moment, so "busy" may pass.
    fn try_unmount(&self) -> Result<(), String> {
        let mut last = String::new();
        for _ in 0..100 {
            let out = tool("umount").arg(&self.point).output().expect("umount");
            last = String::from_utf8_lossy(&out.stderr).into_owned();
            if out.status.success() || last.contains("not mounted") {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(last)
    }
}

impl Drop for Mounted {
    /// Unmounts if the test failed, so that nothing stays mounted.
    fn drop(&mut self) {
        let _ = self.try_unmount();
    }
}

/// True if `mount` failed because of missing rights or the environment, not because of the image.
fn not_allowed(why: &str) -> bool {
    ["superuser", "only root", "loop device", "permission denied"]
        .iter()
        .any(|words| why.to_lowercase().contains(words))
}
