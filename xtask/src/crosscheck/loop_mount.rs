//! A fresh ext4 on a loop device that the running kernel mounts with all timers off, and the
//! counters of its device.

use crate::Result;
use crate::sh::sh;
use std::fs;
use std::path::{Path, PathBuf};

/// The timer that writes back dirty pages (vm.dirty_writeback_centisecs); 0 turns it off.
const WRITEBACK_TIMER: &str = "/proc/sys/vm/dirty_writeback_centisecs";

/// The mount; dropping it takes everything away again.
pub struct LoopMount {
    device: String,
    pub dir: PathBuf,
    timer: String,
}

/// Counters of a block device (Documentation/admin-guide/iostats.rst).
#[derive(Clone, Copy)]
pub struct BlockFigures {
    pub writes: u64,
    pub sectors_written: u64,
    pub flushes: u64,
}

impl LoopMount {
    /// Makes an image of `mib` MiB with these features besides the usual ones (`mke2fs -O`) in
    /// `folder`, and mounts it.
    pub fn new(folder: &Path, mib: u64, features: &[&str]) -> Result<LoopMount> {
        let image = folder.join("kernel.img");
        let file = fs::File::create(&image).map_err(|e| format!("{}: {e}", image.display()))?;
        file.set_len(mib << 20)
            .map_err(|e| format!("{}: {e}", image.display()))?;
        let init = "lazy_itable_init=0,lazy_journal_init=0";
        let path = image.to_string_lossy();
        let mut arguments = vec!["-q", "-t", "ext4", "-b", "4096", "-E", init];
        features
            .iter()
            .for_each(|feature| arguments.extend(["-O", feature]));
        arguments.push(&path);
        sh("mke2fs", &arguments)?;
        let device = sh("losetup", &["-f", "--show", &path])?;
        let dir = folder.join("mnt");
        let timer =
            fs::read_to_string(WRITEBACK_TIMER).map_err(|e| format!("{WRITEBACK_TIMER}: {e}"))?;
        let mount = LoopMount { device, dir, timer };
        fs::write(WRITEBACK_TIMER, "0").map_err(|e| format!("{WRITEBACK_TIMER}: {e}"))?;
        fs::create_dir_all(&mount.dir).map_err(|e| format!("{}: {e}", mount.dir.display()))?;
        sh(
            "mount",
            &[
                "-o",
                "commit=600",
                &mount.device,
                &mount.dir.to_string_lossy(),
            ],
        )?;
        Ok(mount)
    }

    /// The counters of the device now.
    pub fn figures(&self) -> Result<BlockFigures> {
        let name = self.device.trim_start_matches("/dev/");
        let path = format!("/sys/block/{name}/stat");
        let text = fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
        let numbers: Vec<u64> = text
            .split_whitespace()
            .filter_map(|n| n.parse().ok())
            .collect();
        let field = |n: usize| {
            numbers
                .get(n)
                .copied()
                .ok_or_else(|| format!("{path} has no field {n}"))
        };
        Ok(BlockFigures {
            writes: field(4)?,
            sectors_written: field(6)?,
            flushes: field(15)?,
        })
    }
}

impl Drop for LoopMount {
    fn drop(&mut self) {
        // Best effort: what does not exist any more need not be taken away.
        let _ = sh("umount", &[&self.dir.to_string_lossy()]);
        let _ = sh("losetup", &["-d", &self.device]);
        let _ = fs::write(WRITEBACK_TIMER, self.timer.trim());
    }
}
