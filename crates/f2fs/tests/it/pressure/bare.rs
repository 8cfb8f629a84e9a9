//! Explains pages that a cut inside an fsync may damage: the one case in which a page may hold what
//! its block held before.
//!
//! With `fsync_mode=posix` (as in Linux) the nodes of an fsync follow its data without a flush
//! between, so a cache may keep the nodes and lose the data: roll-forward then maps blocks with old
//! content (sync-Y5, docs/use/guarantees.md). No other wrong page is excused. [`Bare::explains`]
//! asks the record of the device for all of these:
//!
//! - B1: the cut fell into an fsync of this file that wrote no checkpoint, and the page was written
//!   since its last sync;
//! - B2: what was written to the block is what the page must or may hold, and no flush covers that
//!   write;
//! - B3: that write had completed when a node of the file with the mark of fsync was sent (sync-Y1,
//!   hazards-H30), before the cut.

use base::Time;
use block::Class;
use blockdev::{Step, Trace};
use std::sync::Arc;

/// What was under way at a cut.
#[derive(Clone)]
pub struct Bare {
    /// The file under fsync.
    pub file: usize,
    /// When the power was cut.
    pub at: Time,
    /// What the device did.
    pub trace: Arc<Trace>,
}

impl Bare {
    /// Whether a page of the file, in this block, may hold old content; `is_page` says what it was
    /// given since its last sync.
    pub fn explains(&self, ino: u64, block: u64, is_page: impl Fn(&[u8]) -> bool) -> bool {
        let steps = || self.trace.steps.iter().filter(|s| s.start <= self.at);
        // B2: the last one that began before the cut.
        let Some(data) = steps().rfind(|s| content(s, block).is_some()) else {
            return false;
        };
        let flushed = |s: &Step| s.writes().is_empty() && s.start >= data.end && s.end <= self.at;
        content(data, block).is_some_and(|b| is_page(&b))
            && !steps().any(flushed)
            && steps().any(|s| s.start >= data.end && marks(s, ino))
    }
}

/// What a command wrote to this block.
fn content(step: &Step, block: u64) -> Option<Vec<u8>> {
    let sector = block * 8;
    let write = step
        .writes()
        .iter()
        .find(|w| w.lba.0 <= sector && sector < w.lba.0 + w.sectors)?;
    let all = write.new.concat();
    let at = (sector - write.lba.0) as usize * 512;
    all.get(at..at + 4096).map(<[u8]>::to_vec)
}

/// B3: it wrote a node of this file with the mark.
fn marks(step: &Step, ino: u64) -> bool {
    step.classes.contains(&Class::Node)
        && step.writes().iter().any(|w| {
            let all = w.new.concat();
            all.chunks_exact(4096).any(|block| {
                let footer = ondisk::f2fs::footer(block);
                u64::from(footer.ino.0) == ino && footer.is_fsync()
            })
        })
}
