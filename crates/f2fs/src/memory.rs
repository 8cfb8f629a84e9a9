//! The memory that a mounted volume uses, computed from what its tables hold: the bytes of blocks,
//! maps and records, without the overhead of allocator and hash tables.

use crate::F2fs;
use base::BLOCK_BYTES;

/// Bytes in memory, by part.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Memory {
    /// Node blocks.
    pub nodes: u64,
    /// Pages of files and directories.
    pub pages: u64,
    /// NAT: changed entries, entries of the pack's NAT journal, cached blocks, bitmaps of free
    /// numbers.
    pub nat: u64,
    /// SIT: maps and counts of all segments, summaries of open and closed ones.
    pub segments: u64,
    /// Inodes, without the blocks above.
    pub inodes: u64,
    /// F2FSJ: records of epochs that are not collected.
    pub journal_lists: u64,
    /// F2FSJ: groups of records that are committed and not applied.
    pub journal_kept: u64,
}

impl Memory {
    /// Name and bytes of each part, in the order of reports.
    pub const fn parts(&self) -> [(&'static str, u64); 7] {
        [
            ("nodes", self.nodes),
            ("pages", self.pages),
            ("nat", self.nat),
            ("segments", self.segments),
            ("inodes", self.inodes),
            ("journal-lists", self.journal_lists),
            ("journal-kept", self.journal_kept),
        ]
    }

    /// The sum of all parts.
    pub fn total(&self) -> u64 {
        self.parts().iter().map(|(_, bytes)| bytes).sum()
    }
}

impl F2fs {
    /// What the volume holds in memory now.
    pub fn memory(&self) -> Memory {
        let (lists, kept) = match &self.journal {
            Some(journal) => journal.memory(),
            None => (0, 0),
        };
        Memory {
            nodes: self.nodes.len() * BLOCK_BYTES as u64,
            pages: self.pages.cached_pages() * BLOCK_BYTES as u64,
            nat: self.nat.memory(),
            segments: self.segs.memory(),
            inodes: self.inodes.memory(),
            journal_lists: lists,
            journal_kept: kept,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mkfs::{self, DeviceContent, JournalSize, Options};
    use crate::{JournalOptions, MountOptions};
    use blockdev::Ram;
    use fscore::{Creds, FileKind, FileSystem};
    use std::sync::Arc;

    #[test]
    fn what_is_made_is_counted_where_it_is_held() {
        const BYTES: u64 = 256 << 20;
        let time = rt::WallTime {
            secs: 1_700_000_000,
            nanos: 0,
        };
        let queue = block::Queue::new(Arc::new(Ram::new(BYTES)));
        let options = Options {
            journal: Some(JournalSize::Bytes(16 << 20)),
            ..Options::new(BYTES, [3; 16], time)
        };
        let plan = mkfs::plan(&options).expect("a volume");
        plan.write(&queue, DeviceContent::Zeros).expect("written");
        let options = MountOptions {
            timers: false,
            journal: Some(JournalOptions::default()),
            ..MountOptions::default()
        };
        let fs = F2fs::mount(queue, options).expect("mounts");
        let before = fs.memory();
        assert!(before.segments > 0);
        for n in 0..50 {
            let name = format!("file {n}");
            let creds = Creds {
                uid: 0,
                gid: 0,
                umask: 0,
            };
            let made = fs.create(fs.root(), name.as_bytes(), FileKind::File, 0o644, 0, creds);
            let ino = made.expect("room").ino;
            fs.write(ino, 0, &[7; 8192]).expect("room");
        }
        let made = fs.memory();
        let block = BLOCK_BYTES as u64;
        assert!(made.nodes >= before.nodes + 50 * block, "{made:?}");
        assert!(made.pages >= before.pages + 100 * block, "{made:?}");
        assert!(made.nat > before.nat && made.inodes > before.inodes);
        assert!(made.journal_lists > 50 * 20, "{made:?}");
        assert_eq!(made.journal_kept, 0);
        fs.sync().expect("durable");
        let synced = fs.memory();
        assert_eq!(synced.journal_lists, 0, "{synced:?}");
        assert!(synced.journal_kept > 0, "{synced:?}");
        let sum: u64 = synced.parts().iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(synced.total(), sum);
        fs.unmount().expect("unmounts");
    }
}
