//! Two mounts of ext4: the kernel's on a loop device, and Varve's.

use super::sh;
use crate::Result;
use std::fs;
use std::path::{Path, PathBuf};

/// Who mounts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By<'a> {
    Kernel,
    /// With these options.
    Varve(&'a str),
}

/// A mount; dropping it takes it away without a look at the result.
pub struct Mount<'a> {
    by: By<'a>,
    image: PathBuf,
    pub dir: PathBuf,
    gone: bool,
}

/// The program, freshly built.
pub fn build_varve() -> Result {
    sh(
        "cargo",
        &[
            "build",
            "--quiet",
            "--locked",
            "-p",
            "varve-cli",
            "--bin",
            "varve",
        ],
    )
    .map(drop)
}

fn varve() -> String {
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into());
    format!("{target}/debug/varve")
}

impl<'a> Mount<'a> {
    /// Makes an image of `mib` MiB in `folder` and mounts it.
    pub fn new(folder: &Path, by: By<'a>, mib: u64) -> Result<Mount<'a>> {
        let name = if by == By::Kernel { "kernel" } else { "varve" };
        let image = folder.join(format!("{name}.img"));
        let dir = folder.join(name);
        let host = |e: std::io::Error| format!("{}: {e}", image.display());
        let file = fs::File::create(&image).map_err(host)?;
        file.set_len(mib << 20).map_err(host)?;
        fs::create_dir_all(&dir).map_err(host)?;
        let (path, at) = (image.to_string_lossy(), dir.to_string_lossy());
        sh("mke2fs", &["-q", "-F", "-t", "ext4", "-b", "4096", &path])?;
        match by {
            By::Kernel => sh("mount", &["-o", "loop", &path, &at])?,
            By::Varve(options) => {
                let options = format!("allow_other,{options}");
                sh(
                    &varve(),
                    &["mount", &path, &at, "-o", options.trim_end_matches(',')],
                )?
            }
        };
        Ok(Mount {
            by,
            image,
            dir,
            gone: false,
        })
    }

    /// Unmounts; the volume has to be clean, and `e2fsck` content with it.
    pub fn end(mut self) -> Result {
        self.gone = true;
        self.unmount()?;
        sh("e2fsck", &["-fn", &self.image.to_string_lossy()]).map(drop)
    }

    fn unmount(&self) -> Result {
        let at = self.dir.to_string_lossy();
        match self.by {
            By::Kernel => sh("umount", &[&at]),
            By::Varve(_) => sh(&varve(), &["umount", &at]),
        }
        .map(drop)
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        if !self.gone && self.unmount().is_err() {
            let _ = sh("umount", &["-l", &self.dir.to_string_lossy()]);
        }
    }
}
