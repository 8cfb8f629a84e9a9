//! Content of files and directories: read, write, write-back, truncate, fallocate, inline data,
//! atomic writes.
//!
//! Invariants:
//! - D1 a cached page whose place in the file is known has an address slot that is not NULL: its
//!   block is reserved or allocated, so write-back cannot run out of space;
//! - D2 mapping and size change together in one `Op`, so every checkpoint holds a state of the file
//!   that a reader could have seen. Data that a checkpoint maps has been written, or its write has
//!   failed and waits for the next fsync to be reported, before that checkpoint (`land_all`);
//! - D3 slots of pages whose writes are under way are neither freed nor moved: a task that does so
//!   holds `wb` and has waited for those writes first;
//! - D4 content that a checkpoint vouches for is overwritten in place only by a write to the same
//!   bytes of the file, never by an operation that moves or cuts content: such operations write out
//!   of place;
//! - D5 pages of an open atomic write are in no cache that write-back, cleaning or a checkpoint
//!   sees.

mod atomic;
mod dirpage;
mod extents;
mod fallocate;
mod inline;
mod landing;
mod placement;
mod read;
mod reserve;
mod seek;
mod sending;
mod shift;
mod truncate;
mod write;
mod writeback;

pub use extents::FileExtent;
pub use placement::InPlace;
pub(crate) use writeback::ALL;

use atomic::Pending;
use base::{BLOCK_BYTES, Bytes, Ino, Map};
use rt::Mutex;
use std::collections::BTreeSet;

/// Bytes of a block as an offset.
const BLOCK: u64 = BLOCK_BYTES as u64;
/// Pages handled in one `Op`: a checkpoint waits for no more, and no more blocks are taken between
/// two looks at the free segments.
const BATCH_PAGES: usize = ondisk::f2fs::BLOCKS_PER_SEG as usize;

static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// A page of zeros.
fn zero_page() -> Bytes {
    Bytes::from_static(&ZEROS)
}

/// Why pages are written back, which decides where they go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// All is synced, or a checkpoint needs them: as the policies say, in place or in the log of
    /// the file's temperature.
    Flush,
    /// They are old, or memory is short: as [`Flush`](Self::Flush), and nobody waits for it, so an
    /// I/O scheduler may let others pass (Linux: `WB_SYNC_NONE`).
    Background,
    /// An fsync of the file: as [`Flush`](Self::Flush), and if they are few they may go in place
    /// (`IPU_FSYNC`).
    Fsync,
    /// An operation has cut or moved content: out of place, in the log of the file's temperature,
    /// because the old content must survive a cut.
    Rewrite,
    /// Cleaning: out of place into the cold data log.
    Clean,
}

/// State of all content.
pub(crate) struct Content {
    /// Inodes with writes of data under way.
    flying: Mutex<BTreeSet<Ino>>,
    /// Atomic writes that are open.
    atomic: Mutex<Map<Ino, Pending>>,
    stats: Mutex<DataStats>,
}

/// Pages that write-back has sent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DataStats {
    /// Pages written over the block that held them.
    pub in_place: u64,
    /// Pages written to a new block of the hot, warm, cold data log.
    pub out_of_place: [u64; 3],
    /// Blocks of directories among these pages.
    pub dentry: u64,
}

impl Content {
    /// Nothing under way.
    pub fn new() -> Content {
        Content {
            flying: Mutex::named("f2fs flying", BTreeSet::new()),
            atomic: Mutex::named("f2fs atomic writes", Map::default()),
            stats: Mutex::named("f2fs data stats", DataStats::default()),
        }
    }
}
