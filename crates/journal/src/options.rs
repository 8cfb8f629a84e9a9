//! Options of a running journal: scheme, sizes, times, and which thread commits.

use crate::{Preset, Scheme};
use base::{BlockSize, Nanos};

/// Options of a running journal.
#[derive(Clone, Debug)]
pub struct Options {
    /// The scheme; `None`: no journal.
    pub scheme: Option<Scheme>,
    /// A running transaction is committed when it is this old (ext4 `commit=`); `None`: only on
    /// demand.
    pub commit_interval: Option<Nanos>,
    /// Committed blocks are written home when the oldest of them has waited this long (Linux
    /// `dirty_expire_centisecs`); `None`: only by checkpoints.
    pub writeback_expire: Option<Nanos>,
    /// How often write-back looks for such blocks (Linux `dirty_writeback_centisecs`); `None`: at
    /// the moment at which one is old enough.
    pub writeback_interval: Option<Nanos>,
    /// The file system has more than 32 bits of block numbers (ext4 feature `64bit`).
    pub features_64bit: bool,
    /// Write checksums v3 (ext4 feature `metadata_csum`); otherwise none.
    pub checksum_v3: bool,
    /// Size of the blocks of the file system. A log brings its own.
    pub block_size: BlockSize,
    /// Clean metadata blocks beyond this number are dropped from the cache.
    pub cache_blocks: usize,
    /// A task that waits for a commit runs it in its own thread if no commit is under way
    /// (`turn.rs`), instead of waking the commit task.
    pub commit_by_caller: bool,
}

impl Default for Options {
    /// The defaults of Linux and of mke2fs.
    fn default() -> Options {
        Options {
            scheme: Preset::Jbd2.scheme(),
            commit_interval: Some(Nanos::from_secs(5)),
            writeback_expire: Some(Nanos::from_secs(30)),
            writeback_interval: None,
            features_64bit: true,
            checksum_v3: true,
            block_size: BlockSize::KIB4,
            cache_blocks: 16384,
            commit_by_caller: false,
        }
    }
}
