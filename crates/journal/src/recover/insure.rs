//! Insurance: full images of the blocks that the log knows by deltas only, before recovery
//! overwrites them on a device whose home writes may be torn.
//!
//! A log written under the rule full-first never needs insurance. A device image that was moved
//! does, say from an eMMC with reliable writes to a file: there a second cut, during recovery,
//! would tear a home that no log record could repair (hazards-H11). The images become one more
//! transaction, which gets the number of the transaction that the cut tore.
//!
//! - Q1: recovery looks for that transaction at one particular block. This block is first
//!   overwritten so that it begins no transaction; then images and further parts are written and
//!   non-volatile; then this block itself. So a cut leaves either no such transaction or all of it,
//!   and never parts of the torn one with the same number.
//! - Q2: its images are what the log leads to: with or without it, recovery has the same result.

use super::replay::Images;
use super::scan::Scanned;
use crate::log_super::LogSuper;
use crate::{JournalError, LogBlock};
use base::Bytes;
use block::{Class, Queue};
use ondisk::jbd2::{
    COALITION_HEADER_BYTES, CoalitionRecord, CoalitionWriter, escape, full_image_checksum,
    needs_escape,
};
use std::ops::Range;
use std::sync::Arc;

/// Refuses if the ring has no room for full images of so many blocks.
pub(crate) fn check_room(
    log: &LogSuper,
    scanned: &Scanned,
    images: usize,
) -> Result<(), JournalError> {
    let room = log.sb.log_end() - log.sb.first() - scanned.blocks_used;
    let block = log.place.block_size().bytes();
    let parts = images.div_ceil((block - COALITION_HEADER_BYTES) / 16);
    if (images + parts) as u64 <= u64::from(room) {
        return Ok(());
    }
    Err(JournalError::Incompatible(format!(
        "a power cut during this recovery could not be repaired: home writes of this device may be torn, and {images} \
         blocks are known by their changes only, with {room} blocks of log left to save them; recover on a device with \
         reliable writes, as the one it comes from"
    )))
}

/// Logs full images of these blocks behind the complete transactions. [`check_room`] has said that
/// they fit.
pub(crate) fn insure(
    queue: &Arc<Queue>,
    log: &LogSuper,
    scanned: &Scanned,
    images: &Images,
) -> Result<(), JournalError> {
    let (format, tid) = (log.sb.format(), scanned.end);
    let mut writer = CoalitionWriter::new(&format, tid);
    let mut logged: Vec<Bytes> = Vec::with_capacity(images.len());
    for (home, image) in images {
        let escaped = needs_escape(image);
        let mut bytes = image.to_vec();
        if escaped {
            escape(&mut bytes);
        }
        let crc = full_image_checksum(&format, tid, &bytes);
        writer.push(CoalitionRecord::Full {
            block: *home,
            escaped,
            crc,
        });
        logged.push(bytes.into());
    }
    let now = rt::wall();
    let time = (u64::try_from(now.secs).unwrap_or(0), now.nanos).max(scanned.last_commit);
    let parts = writer.finish(time, true, &logged);
    let blocks: Vec<(Class, Bytes)> = parts
        .into_iter()
        .map(|p| (Class::Coalition, p.into()))
        .chain(logged.into_iter().map(|i| (Class::JournalMetadata, i)))
        .collect();
    write(queue, log, scanned.end_at, &blocks)
}

/// Q1.
fn write(
    queue: &Arc<Queue>,
    log: &LogSuper,
    start: LogBlock,
    blocks: &[(Class, Bytes)],
) -> Result<(), JournalError> {
    let writer = InRing { queue, log, start };
    writer.clear(&[0])?;
    writer.put(blocks, 1..blocks.len())?;
    writer.put(blocks, 0..1)
}

/// Writes blocks of a transaction that recovery adds to the ring, from `start` on.
pub(super) struct InRing<'a> {
    pub queue: &'a Arc<Queue>,
    pub log: &'a LogSuper,
    pub start: LogBlock,
}

impl InRing<'_> {
    fn lba(&self, n: usize) -> base::Lba {
        let sb = &self.log.sb;
        let len = sb.log_end() - sb.first();
        let at = sb.first() + (self.start.0 - sb.first() + n as u32) % len;
        self.log.place.lba(LogBlock(at))
    }

    /// Makes these blocks, by number, ones that say nothing.
    pub fn clear(&self, which: &[usize]) -> Result<(), JournalError> {
        let none: Bytes = vec![0; self.log.place.block_size().bytes()].into();
        let mut plug = self.queue.plug();
        for &n in which {
            plug.write_fua(self.lba(n), Class::JournalMetadata, none.clone());
        }
        Ok(plug.submit().wait()?)
    }

    /// Writes some of the blocks; they are non-volatile when it returns.
    pub fn put(&self, blocks: &[(Class, Bytes)], which: Range<usize>) -> Result<(), JournalError> {
        let mut plug = self.queue.plug();
        for n in which {
            let (class, bytes) = &blocks[n];
            plug.write_fua(self.lba(n), *class, bytes.clone());
        }
        Ok(plug.submit().wait()?)
    }
}
