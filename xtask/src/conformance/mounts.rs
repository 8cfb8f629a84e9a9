//! Two mounts of one kind of file system: the kernel's on a loop device, and Varve's beside it.

use crate::Result;
use crate::sh::sh;
use std::fs;
use std::path::{Path, PathBuf};

/// File systems that are mounted.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Fs {
    Ext4,
    F2fs,
}

impl Fs {
    /// Its name for mount(8).
    pub fn name(self) -> &'static str {
        match self {
            Fs::Ext4 => "ext4",
            Fs::F2fs => "f2fs",
        }
    }

    /// Whether the running kernel has it.
    pub fn in_kernel(self) -> bool {
        let list = fs::read_to_string("/proc/filesystems").unwrap_or_default();
        list.split_whitespace().any(|word| word == self.name())
    }

    pub fn make(self, image: &str) -> Result {
        match self {
            Fs::Ext4 => sh("mke2fs", &["-q", "-F", "-t", "ext4", "-b", "4096", image]),
            Fs::F2fs => sh("mkfs.f2fs", &["-q", "-f", image]),
        }
        .map(drop)
    }

    /// Fails if the checker of this file system finds anything in the image.
    fn check(self, image: &str) -> Result {
        match self {
            Fs::Ext4 => sh("e2fsck", &["-fn", image]),
            Fs::F2fs => sh("fsck.f2fs", &["--dry-run", image]),
        }
        .map(drop)
    }
}

/// What mounts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By<'a> {
    Kernel,
    /// This program `varve`, with these options.
    Varve(&'a Path, &'a str),
}

/// A mount; a dropped one is taken away without a look at the result.
pub struct Mount<'a> {
    fs: Fs,
    by: By<'a>,
    image: PathBuf,
    pub dir: PathBuf,
    gone: bool,
}

impl<'a> Mount<'a> {
    /// Makes an image of `mib` MiB in `folder` and mounts it.
    pub fn new(folder: &Path, fs: Fs, by: By<'a>, mib: u64) -> Result<Mount<'a>> {
        let name = if by == By::Kernel { "kernel" } else { "varve" };
        let image = folder.join(format!("{name}.img"));
        let dir = folder.join(name);
        let host = |e: std::io::Error| format!("{}: {e}", image.display());
        let file = fs::File::create(&image).map_err(host)?;
        file.set_len(mib << 20).map_err(host)?;
        fs::create_dir_all(&dir).map_err(host)?;
        let (path, at) = (image.to_string_lossy(), dir.to_string_lossy());
        fs.make(&path)?;
        match by {
            By::Kernel => sh("mount", &["-t", fs.name(), "-o", "loop", &path, &at])?,
            By::Varve(varve, options) => {
                let options = format!("allow_other,{options}");
                let options = options.trim_end_matches(',');
                let varve = varve.to_string_lossy();
                sh(&varve, &["mount", &path, &at, "-o", options])?
            }
        };
        Ok(Mount {
            fs,
            by,
            image,
            dir,
            gone: false,
        })
    }

    /// Unmounts. The volume has to be clean, and its checker must find nothing.
    pub fn end(mut self) -> Result {
        self.gone = true;
        self.unmount()?;
        self.fs.check(&self.image.to_string_lossy())
    }

    fn unmount(&self) -> Result {
        let at = self.dir.to_string_lossy();
        match self.by {
            By::Kernel => sh("umount", &[&at]),
            By::Varve(varve, _) => sh(&varve.to_string_lossy(), &["umount", &at]),
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
