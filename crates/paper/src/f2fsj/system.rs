//! What is compared: F2FS with its checkpoints, with a journal of pages, with F2FSJ and with F2FSJ
//! less one of its ideas; and ext4.

use rig::{Config, F2fsPreset, F2fsScheme, Fs, Ideas, Preset, Scheme};

/// A file system and how it is kept consistent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum System {
    /// Stock F2FS: a checkpoint each 60 s, or when too much is dirty.
    Checkpoint60,
    /// Each second.
    Checkpoint1,
    /// A task in the background writes one each 5 s: what the released prototype really is.
    Checkpoint5Bg,
    /// F2FS with a journal as JBD2 is.
    PageJournal,
    /// F2FSJ.
    F2fsj,
    /// F2FSJ less some of its ideas, or a journal of pages with some of them.
    With(Ideas),
    /// ext4 with JBD2, `data=ordered`.
    Ext4,
}

/// The ideas by their names in the paper's Fig 16, in its order.
pub const IDEAS: [&str; 4] = [
    "change-only journaling",
    "per-inode lists",
    "plane decoupling",
    "fast-forward apply",
];

/// These of [`IDEAS`], the others not.
pub const fn ideas(has: [bool; 4]) -> Ideas {
    Ideas {
        change_records: has[0],
        inode_lists: has[1],
        planes: has[2],
        fast_forward: has[3],
    }
}

/// How large a volume is, and its journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Bytes of the volume.
    pub bytes: u64,
    /// Bytes of the journal of F2FS; ext4 has four times as many (paper, section 5.1: 256 MiB and 1
    /// GiB).
    pub ring: u64,
}

/// As the paper's machines, whose 64 GB hold all that their 4 million objects are, this holds all
/// that ours are.
const MEMORY_MIB: u32 = 4096;

const BLOCK: u64 = base::BLOCK_BYTES as u64;

impl System {
    /// Its name in tables.
    pub fn name(self) -> String {
        match self {
            System::Ext4 => "ext4".into(),
            other => other.scheme(None).to_string(),
        }
    }

    /// Its scheme; `ring`: bytes of the journal of F2FS.
    pub fn scheme(self, ring: Option<u64>) -> Scheme {
        let preset = match self {
            System::Ext4 => return Preset::Jbd2.into(),
            System::Checkpoint60 => F2fsPreset::Checkpoint60,
            System::Checkpoint1 => F2fsPreset::Checkpoint1,
            System::Checkpoint5Bg => F2fsPreset::Checkpoint5Bg,
            System::PageJournal => F2fsPreset::PageJournal,
            System::F2fsj | System::With(_) => F2fsPreset::F2fsj,
        };
        let mut scheme = F2fsScheme::of(preset);
        if let System::With(ideas) = self {
            scheme.ideas = ideas;
        }
        if preset.journal().is_some() {
            scheme.ring = ring.map(|bytes| (bytes / BLOCK) as u32);
        }
        Scheme::F2fs(scheme)
    }

    /// A stack with it.
    pub fn stack(self, device: &str, size: Size, seed: u64) -> Config {
        let mut stack = Config::new(self.scheme(Some(size.ring)), device, seed);
        stack.bytes = size.bytes;
        stack.cache_mib = Some(MEMORY_MIB);
        stack.fs = match self {
            System::Ext4 => Fs::Ext4,
            _ => Fs::F2fs,
        };
        if self == System::Ext4 {
            stack.journal_blocks = Some((4 * size.ring / BLOCK) as u32);
        }
        stack
    }
}
