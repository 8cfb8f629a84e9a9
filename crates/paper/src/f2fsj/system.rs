//! The systems that are compared: F2FS with its checkpoints, with a journal of pages, with F2FSJ
//! and with F2FSJ less some of its ideas; and ext4.

use super::scale::VOLUME;
use rig::{Config, F2fsPreset, F2fsScheme, Fs, Ideas, Preset, Scheme};

/// A file system and how it is kept consistent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum System {
    /// Stock F2FS: a checkpoint each 60 s, or when too much is dirty.
    Checkpoint60,
    /// Stock F2FS with a checkpoint each second.
    Checkpoint1,
    /// F2FS with a checkpoint each 5 s by a background task, as in the released prototype.
    Checkpoint5Bg,
    /// F2FS with a journal like JBD2.
    PageJournal,
    /// F2FSJ.
    F2fsj,
    /// F2FSJ less some of its ideas, or a journal of pages with some of them.
    With(Ideas),
    /// ext4 with JBD2, `data=ordered`.
    Ext4,
}

/// The names of the ideas in Fig 16 of the paper, in its order.
pub const IDEAS: [&str; 4] = [
    "change-only journaling",
    "per-inode lists",
    "plane decoupling",
    "fast-forward apply",
];

/// The set of those ideas of [`IDEAS`] for which `has` is true.
pub const fn ideas(has: [bool; 4]) -> Ideas {
    Ideas {
        change_records: has[0],
        inode_lists: has[1],
        planes: has[2],
        fast_forward: has[3],
    }
}

/// The size of a volume and of its journal, and the length of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Bytes of the volume.
    pub bytes: u64,
    /// Bytes of the journal of F2FS; that of ext4 is four times as large (paper, section 5.1: 256
    /// MiB and 1 GiB).
    pub ring: u64,
    /// By which factor intervals are shorter than Linux's and the paper's
    /// ([`shorter`](super::scale::shorter)).
    pub shorter: u32,
}

/// Memory of the caches for a volume of [`VOLUME`] or less, MiB; with a larger one it is as much
/// more. It holds all that our objects are, as the 64 GB of the paper's machines hold all that
/// their 4 million objects are.
const MEMORY_MIB: u32 = 4096;
/// Memory of the paper's PC, MiB: 64 GB (section 5.1, and the talk's page on the experiment's
/// setup). Linux's defaults for the flusher are a tenth and a fifth of what is available
/// (Documentation/admin-guide/sysctl/vm.rst).
const HOST_MIB: u32 = 64 << 10;
/// The same of its board: 16 GB (section 5.7).
pub const BOARD_MIB: u32 = 16 << 10;

const BLOCK: u64 = base::BLOCK_BYTES as u64;

impl Size {
    /// The size with intervals as published, for a run that stands for no longer one.
    pub fn unscaled(self) -> Size {
        Size { shorter: 1, ..self }
    }
}

impl System {
    /// The system's name in tables.
    pub fn name(self) -> String {
        match self {
            System::Ext4 => "ext4".into(),
            other => other.scheme(None).to_string(),
        }
    }

    /// The scheme of the system; `ring` is the size of the journal of F2FS in bytes.
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

    /// A stack with the system.
    pub fn stack(self, device: &str, size: Size, seed: u64) -> Config {
        let mut stack = Config::new(self.scheme(Some(size.ring)), device, seed);
        stack.bytes = size.bytes;
        stack.cache_mib = Some(MEMORY_MIB * size.bytes.div_ceil(VOLUME).max(1) as u32);
        stack.host_mib = Some(HOST_MIB);
        stack.shorter = (size.shorter > 1).then_some(size.shorter);
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
