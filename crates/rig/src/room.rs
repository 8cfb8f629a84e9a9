//! Computes the space that a new volume has for files, without making the volume.

use crate::{Config, Fs, RigError};
use ext4::mkfs::Geometry;
use ondisk::f2fs::BLOCKS_PER_SEG;

/// Blocks and inodes of a new volume that files and directories may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Blocks of 4 KiB: for F2FS including those for nodes, for ext4 without inode tables and
    /// journal.
    pub blocks: u64,
    /// Number of inodes; for F2FS as many as there are blocks.
    pub inodes: u64,
}

/// The root of F2FS with its block of names; of ext4 the root and `lost+found`.
const TAKEN: u64 = 8;
/// Inodes of ext4 that are taken or reserved.
const INODES_TAKEN: u64 = 11;

impl Config {
    /// Computes what the volume of this configuration has for files.
    ///
    /// # Errors
    /// A size that is not possible.
    pub fn room(&self) -> Result<Room, RigError> {
        Ok(match self.fs {
            Fs::Ext4 | Fs::Ext3 => {
                let geometry = Geometry::new(&self.mkfs_options())?;
                Room {
                    blocks: (geometry.blocks - geometry.overhead()).saturating_sub(TAKEN),
                    inodes: u64::from(geometry.inodes()).saturating_sub(INODES_TAKEN),
                }
            }
            Fs::F2fs => {
                let layout = f2fs::mkfs::Layout::new(&self.f2fs_mkfs_options())?;
                let segments = layout.segments_main - layout.overprov_segments;
                let blocks = u64::from(segments) * u64::from(BLOCKS_PER_SEG);
                let blocks = blocks.saturating_sub(TAKEN);
                Room {
                    blocks,
                    inodes: blocks,
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stack;
    use blockdev::Clock;
    use rt::{Sim, SimConfig};

    #[test]
    fn it_is_what_a_mounted_volume_says_is_free() {
        for (fs, scheme) in [
            (Fs::Ext4, "jbd2"),
            (Fs::F2fs, "checkpoint-60"),
            (Fs::F2fs, "f2fsj+ring=1024"),
        ] {
            for mib in [64, 200, 1024] {
                let mut config = Config::new(crate::Preset::default(), "loop-like", 1);
                (config.fs, config.bytes) = (fs, mib << 20);
                config.set_scheme(scheme).unwrap();
                let room = config.room().unwrap();
                let stat = Sim::new(SimConfig::seeded(1)).run(|| {
                    let model = config.format().unwrap();
                    let stack = Stack::mount(model, &config, Clock::Runtime).unwrap();
                    let stat = stack.vfs.statfs().unwrap();
                    stack.unmount().unwrap();
                    stat
                });
                let stat = stat.unwrap();
                let near = |a: u64, b: u64| a <= b && b - a <= 2 * TAKEN;
                assert!(
                    near(room.blocks, stat.blocks_free),
                    "{scheme} {mib}: {room:?} {stat:?}"
                );
                assert!(
                    fs == Fs::F2fs || near(room.inodes, stat.inodes_free),
                    "{room:?} {stat:?}"
                );
            }
        }
    }
}
