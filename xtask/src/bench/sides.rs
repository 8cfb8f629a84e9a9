//! The sides of a benchmark: what mounts one image by turns.

use crate::Result;
use crate::sh::sh;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time within which a mount has to appear.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);

/// A program that mounts, and the way in which it reaches the image.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Side {
    /// fuse2fs without options.
    Fuse2fs,
    /// fuse2fs with large write requests, which its libfuse2 does not ask for by itself.
    Fuse2fsBig,
    /// The kernel's ext4 on a loop device that uses the page cache of the host.
    Kernel,
    /// The kernel's ext4 on a loop device with `losetup --direct-io=on`.
    KernelDirect,
    /// The kernel's ext4 with fast commits, on a loop device that uses the page cache of the host.
    KernelFast,
    /// Varve with preset `jbd2`.
    Jbd2,
    /// Varve with preset `jbd2`, and the host file opened for direct I/O.
    Jbd2Direct,
    /// Varve with preset `emmc`.
    Emmc,
    /// Varve with preset `emmc`, and the host file opened for direct I/O.
    EmmcDirect,
    /// Varve with preset `jbd2`, requests over io_uring.
    Jbd2Uring,
    /// Varve with preset `emmc`, requests over io_uring.
    EmmcUring,
    /// Varve with fast commits in the order of `adaptive`.
    Fast,
    /// Varve with fast commits in the order of `adaptive`, requests over io_uring.
    FastUring,
    /// Varve's F2FS as Linux has it: an fsync writes nodes, and checkpoints are 60 s apart.
    F2fs,
    /// Varve's F2FS with its journal.
    F2fsj,
}

/// What a side has in its image.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Image {
    Ext4,
    /// With room for fast commits in its journal.
    Ext4Fast,
    F2fs,
    /// With room for the journal.
    F2fsj,
}

impl Side {
    /// All sides, in the order of a round.
    pub const ALL: [Side; 15] = [
        Side::Fuse2fs,
        Side::Fuse2fsBig,
        Side::Kernel,
        Side::KernelDirect,
        Side::KernelFast,
        Side::Jbd2,
        Side::Jbd2Direct,
        Side::Emmc,
        Side::EmmcDirect,
        Side::Jbd2Uring,
        Side::EmmcUring,
        Side::Fast,
        Side::FastUring,
        Side::F2fs,
        Side::F2fsj,
    ];

    /// Its name in tables and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Side::Fuse2fs => "fuse2fs",
            Side::Fuse2fsBig => "fuse2fs-big",
            Side::Kernel => "kernel",
            Side::KernelDirect => "kernel-direct",
            Side::KernelFast => "kernel-fast",
            Side::Jbd2 => "jbd2",
            Side::Jbd2Direct => "jbd2-direct",
            Side::Emmc => "emmc",
            Side::EmmcDirect => "emmc-direct",
            Side::Jbd2Uring => "jbd2-uring",
            Side::EmmcUring => "emmc-uring",
            Side::Fast => "fast",
            Side::FastUring => "fast-uring",
            Side::F2fs => "f2fs",
            Side::F2fsj => "f2fsj",
        }
    }

    /// Whether its requests come over io_uring.
    pub const fn over_io_uring(self) -> bool {
        matches!(self, Side::Jbd2Uring | Side::EmmcUring | Side::FastUring)
    }

    const fn image(self) -> Image {
        match self {
            Side::F2fs => Image::F2fs,
            Side::F2fsj => Image::F2fsj,
            Side::KernelFast | Side::Fast | Side::FastUring => Image::Ext4Fast,
            _ => Image::Ext4,
        }
    }

    /// The options of Varve; `None` for another program.
    const fn varve_options(self) -> Option<&'static str> {
        match self {
            Side::Jbd2 => Some("scheme=jbd2"),
            Side::Jbd2Direct => Some("scheme=jbd2,direct"),
            Side::Emmc => Some("scheme=emmc"),
            Side::EmmcDirect => Some("scheme=emmc,direct"),
            Side::Jbd2Uring => Some("scheme=jbd2"),
            Side::EmmcUring => Some("scheme=emmc"),
            Side::Fast | Side::FastUring => Some("scheme=fast-commit+adaptive"),
            Side::F2fs => Some("scheme=checkpoint-60"),
            Side::F2fsj => Some("scheme=f2fsj"),
            Side::Fuse2fs
            | Side::Fuse2fsBig
            | Side::Kernel
            | Side::KernelDirect
            | Side::KernelFast => None,
        }
    }
}

/// The image that all sides share, so that all write the same places of one disk, and the place
/// where it is mounted.
pub struct Ground {
    /// The program `varve`.
    pub varve: PathBuf,
    /// More options for every mount of Varve.
    pub options: Option<String>,
    image: PathBuf,
    at: PathBuf,
    /// The image may have holes, which formatting must not fill.
    sparse: bool,
}

impl Ground {
    /// Makes the image in `folder`: `bytes` zeros that are allocated, so that no side waits for the
    /// host to allocate them.
    pub fn new(
        varve: PathBuf,
        options: Option<String>,
        folder: &Path,
        bytes: u64,
    ) -> Result<Ground> {
        let (image, at) = (folder.join("bench.img"), folder.join("mnt"));
        let host = |e: std::io::Error| format!("{}: {e}", image.display());
        fs::create_dir_all(&at).map_err(host)?;
        let file = fs::File::create(&image).map_err(host)?;
        let zeros = vec![0; 1 << 20];
        for _ in 0..bytes >> 20 {
            std::io::Write::write_all(&mut &file, &zeros).map_err(host)?;
        }
        file.sync_all().map_err(host)?;
        Ok(Ground {
            varve,
            options,
            image,
            at,
            sparse: false,
        })
    }

    /// Makes the image in `folder` with `bytes` that are not allocated: for volumes larger than the
    /// disk.
    pub fn sparse(
        varve: PathBuf,
        options: Option<String>,
        folder: &Path,
        bytes: u64,
    ) -> Result<Ground> {
        let mut ground = Ground::new(varve, options, folder, 0)?;
        ground.sparse = true;
        let host = |e: std::io::Error| format!("{}: {e}", ground.image.display());
        let file = fs::File::options().write(true).open(&ground.image);
        file.and_then(|file| file.set_len(bytes)).map_err(host)?;
        Ok(ground)
    }

    /// The image.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// Makes the empty file system that `side` needs. The blocks of the image stay allocated.
    pub fn format(&self, side: Side) -> Result {
        let image = self.image.to_string_lossy();
        let varve = |journal: &[&str]| {
            let fixed = ["mkfs", "--force", "--fs", "f2fs"];
            let args = [&fixed[..], journal, &[&image]].concat();
            sh(&self.varve.to_string_lossy(), &args).map(drop)
        };
        let ext4 = |features: &[&str]| {
            let how = match self.sparse {
                false => "nodiscard,lazy_itable_init=0,lazy_journal_init=0",
                true => "lazy_itable_init=1,lazy_journal_init=1",
            };
            let fixed = ["-q", "-F", "-t", "ext4", "-b", "4096", "-E", how];
            let args = [&fixed[..], features, &[&image]].concat();
            sh("mke2fs", &args).map(drop)
        };
        match side.image() {
            Image::Ext4 => ext4(&[]),
            Image::Ext4Fast => ext4(&["-O", "fast_commit"]),
            Image::F2fs => varve(&[]),
            Image::F2fsj => varve(&["-J", "default"]),
        }
    }

    /// Fails if the checker that is not ours finds anything in the image. `fsck.f2fs` refuses one
    /// with a journal, so `varve fsck` looks at that.
    pub fn check(&self, side: Side) -> Result {
        let image = self.image.to_string_lossy();
        match side.image() {
            Image::Ext4 | Image::Ext4Fast => sh("e2fsck", &["-fn", &image]),
            Image::F2fs => sh("fsck.f2fs", &["--dry-run", &image]),
            Image::F2fsj => sh(&self.varve.to_string_lossy(), &["fsck", "-n", &image]),
        }
        .map(drop)
    }

    /// Mounts the image.
    pub fn mount(&self, side: Side) -> Result<Mount<'_>> {
        let (image, at) = (self.image.to_string_lossy(), self.at.to_string_lossy());
        let mut mount = Mount {
            ground: self,
            side,
            child: None,
            device: None,
            gone: false,
        };
        match (side, side.varve_options()) {
            (_, Some(options)) => {
                let transport = if side.over_io_uring() { "uring" } else { "dev" };
                let mut options = format!("allow_other,transport={transport},{options}");
                if let Some(more) = &self.options {
                    options = format!("{options},{more}");
                }
                let mut command = Command::new(&self.varve);
                command.args(["mount", "-f", &image, &at, "-o", &options]);
                mount.serve(command)?;
            }
            (Side::Kernel | Side::KernelDirect | Side::KernelFast, _) => {
                let direct = match side {
                    Side::KernelDirect => "--direct-io=on",
                    _ => "--direct-io=off",
                };
                let device = sh("losetup", &["-f", "--show", direct, &image])?;
                mount.device = Some(device.clone());
                sh("mount", &["-t", "ext4", &device, &at])?;
            }
            _ => {
                let options = match side {
                    Side::Fuse2fsBig => "allow_other,big_writes",
                    _ => "allow_other",
                };
                let mut command = Command::new("fuse2fs");
                command.args(["-f", &image, &at, "-o", options]);
                mount.serve(command)?;
            }
        }
        Ok(mount)
    }

    fn is_mounted(&self) -> Result<bool> {
        let table = "/proc/self/mountinfo";
        let text = fs::read_to_string(table).map_err(|e| format!("{table}: {e}"))?;
        let at = self.at.to_string_lossy();
        Ok(text.lines().any(|l| l.split(' ').nth(4) == Some(&*at)))
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // The image is large, and nothing in it is worth keeping.
        let _ = fs::remove_file(&self.image);
    }
}

/// A mount; a dropped one is taken away without a look at the result.
pub struct Mount<'g> {
    ground: &'g Ground,
    side: Side,
    child: Option<Child>,
    device: Option<String>,
    gone: bool,
}

impl Mount<'_> {
    /// The root of the mount.
    pub fn dir(&self) -> &Path {
        &self.ground.at
    }

    /// The process that serves it; `None` for the kernel.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Starts the program that serves the mount, in the foreground. A scheduler may share the
    /// processor among sessions, so all sides run in the session of the benchmark.
    fn serve(&mut self, mut command: Command) -> Result {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("{}: {e}", command.get_program().display()))?;
        self.child = Some(child);
        let start = Instant::now();
        while !self.ground.is_mounted()? {
            if let Some(child) = &mut self.child
                && let Ok(Some(status)) = child.try_wait()
            {
                return Err(format!("ended before its mount was up ({status})"));
            }
            if start.elapsed() > PATIENCE {
                return Err("its mount does not appear".into());
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Unmounts, and waits until everything is in the image.
    pub fn end(mut self) -> Result {
        self.gone = true;
        self.take_away()
    }

    fn take_away(&mut self) -> Result {
        let at = self.ground.at.to_string_lossy();
        if self.side.varve_options().is_some() {
            let varve = self.ground.varve.to_string_lossy();
            sh(&varve, &["umount", &at])?;
        } else {
            sh("umount", &[&at])?;
        }
        if let Some(mut child) = self.child.take() {
            let status = child.wait().map_err(|e| format!("its process: {e}"))?;
            if !status.success() {
                return Err(format!("its process ended badly ({status})"));
            }
        }
        match self.device.take() {
            Some(device) => sh("losetup", &["-d", &device]).map(drop),
            None => Ok(()),
        }
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        if self.gone || self.take_away().is_ok() {
            return;
        }
        // Best effort: the error that led here is reported elsewhere.
        let _ = sh("umount", &["-l", &self.ground.at.to_string_lossy()]);
        if let Some(device) = &self.device {
            let _ = sh("losetup", &["-d", device]);
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
