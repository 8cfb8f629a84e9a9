//! Reads log blocks: with read-ahead where the log is read in order, and without where the wanted
//! blocks are known. The first [`KEPT`] blocks that are read in order are kept, so that a block
//! which two passes want crosses the bus once.

use crate::log_super::LogSuper;
use crate::{JournalError, LogBlock, LogPlace};
use base::{BlockSize, Bytes};
use block::{DevErrorKind, Queue};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Blocks read with one request at first: 128 KiB, as in Linux.
const WINDOW: u32 = 32;
/// Blocks read with one request at most: 512 KiB.
const WINDOW_MAX: u32 = 128;
/// Blocks read in a row for each block read ahead: so what is read behind the end of the log is a
/// small part of the log.
const ROW_PER_WINDOW: u32 = 8;
/// Unwanted blocks that are read to save a command: on an eMMC a command costs what eight blocks on
/// the bus do.
const GAP: u32 = 4;
/// Blocks kept, 32 MiB at most. Blocks beyond this number are not kept, and each pass that wants
/// one reads it again.
const KEPT: usize = 8192;

/// So many blocks as may be held at once, up to `blocks` and 32 MiB.
pub(super) fn held(blocks: usize, size: BlockSize) -> usize {
    blocks.min((32 << 20) / size.bytes())
}

/// A view of the log.
pub(crate) struct LogReader {
    queue: Arc<Queue>,
    place: LogPlace,
    /// One past the last block of the log.
    end: u32,
    /// The newest window: its first block, and contents from there on.
    first: u32,
    window: Vec<Bytes>,
    /// Blocks read in a row up to the end of the window.
    row: u32,
    /// Nothing is read ahead.
    sparse: bool,
    /// The first windows of all.
    kept: BTreeMap<u32, Bytes>,
    /// What the last [`LogReader::prefetch`] brought.
    ahead: BTreeMap<u32, Bytes>,
}

impl LogReader {
    pub fn new(queue: &Arc<Queue>, log: &LogSuper, sparse: bool) -> LogReader {
        LogReader {
            queue: queue.clone(),
            place: log.place.clone(),
            end: log.sb.blocks_count(),
            first: 0,
            window: Vec::new(),
            row: 0,
            sparse,
            kept: BTreeMap::new(),
            ahead: BTreeMap::new(),
        }
    }

    /// The content of a log block.
    pub fn read(&mut self, at: LogBlock) -> Result<Bytes, JournalError> {
        if let Some(block) = self.have(at) {
            return Ok(block.clone());
        }
        self.fill(at)?;
        Ok(self.window[0].clone())
    }

    fn have(&self, at: LogBlock) -> Option<&Bytes> {
        let in_window = at.0.checked_sub(self.first);
        in_window
            .and_then(|n| self.window.get(n as usize))
            .or_else(|| self.kept.get(&at.0))
            .or_else(|| self.ahead.get(&at.0))
    }

    /// Reads from `at` as far as the log is contiguous on the device.
    fn fill(&mut self, at: LogBlock) -> Result<(), JournalError> {
        let in_row = at.0 == self.first + self.window.len() as u32;
        self.row = if in_row { self.row } else { 0 };
        let end = self.end.min(at.0 + self.wanted());
        let count = self.contiguous(at.0, end);
        let place = &self.place;
        self.window = self
            .queue
            .read_blocks(place.lba(at), count, place.block_size())?;
        self.first = at.0;
        self.row = self.row.saturating_add(count as u32);
        for (n, block) in (at.0..).zip(&self.window) {
            if self.kept.len() >= held(KEPT, place.block_size()) {
                break;
            }
            self.kept.insert(n, block.clone());
        }
        Ok(())
    }

    /// Size of the next window.
    fn wanted(&self) -> u32 {
        if self.sparse {
            return 1;
        }
        let size = self.place.block_size();
        let transfer = self.queue.caps().max_transfer_sectors / size.sectors();
        let most = WINDOW_MAX.min(u32::try_from(transfer).unwrap_or(WINDOW_MAX));
        (self.row / ROW_PER_WINDOW).clamp(WINDOW, most.max(WINDOW))
    }

    /// How many blocks from `at` to before `end` lie side by side on the device.
    fn contiguous(&self, at: u32, end: u32) -> u64 {
        let place = &self.place;
        let home = place.block(LogBlock(at));
        let beside = |n: &u32| place.block(LogBlock(*n)) == home.plus((*n - at).into());
        (at..end).take_while(beside).count() as u64
    }

    /// Reads those of `wanted`, which ascends, that are not there yet, with few commands that are
    /// all at the device at once. What cannot be read is left to [`LogReader::read`], which says
    /// why.
    ///
    /// # Errors
    /// The power is lost.
    pub fn prefetch(&mut self, wanted: impl Iterator<Item = LogBlock>) -> Result<(), JournalError> {
        self.ahead.clear();
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for at in wanted {
            if self.have(at).is_some() {
                continue;
            }
            match runs.last_mut() {
                Some((from, end))
                    if at.0 - *end <= GAP
                        && at.0 - *from < WINDOW_MAX
                        && self.contiguous(*from, at.0 + 1) == u64::from(at.0 + 1 - *from) =>
                {
                    *end = at.0 + 1;
                }
                _ => runs.push((at.0, at.0 + 1)),
            }
        }
        let size = self.place.block_size();
        let request = |&(from, end): &(u32, u32)| {
            let lba = self.place.lba(LogBlock(from));
            (lba, size.sectors_of((end - from).into()))
        };
        let requests: Vec<_> = runs.iter().map(request).collect();
        for (&(from, _), answer) in runs.iter().zip(self.queue.read_many(&requests)) {
            match answer {
                Ok(bytes) => {
                    let blocks = (0..bytes.len() / size.bytes()).map(|n| n * size.bytes());
                    let blocks = blocks.map(|b| bytes.slice(b..b + size.bytes()));
                    self.ahead.extend((from..).zip(blocks));
                }
                Err(e) if e.kind == DevErrorKind::PowerLost => return Err(e.into()),
                Err(_) => {}
            }
        }
        Ok(())
    }
}
