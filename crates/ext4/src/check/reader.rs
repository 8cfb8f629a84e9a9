//! Reading blocks: an error becomes a finding.

use super::finding::{Finding, Findings, Kind};
use base::{BLOCK_BYTES, BlockNo, Bytes};

/// Reads blocks of the device.
pub(super) struct Reader<'a> {
    read: &'a dyn Fn(BlockNo) -> Result<Bytes, String>,
    blocks: u64,
}

impl<'a> Reader<'a> {
    pub fn new(read: &'a dyn Fn(BlockNo) -> Result<Bytes, String>, blocks: u64) -> Reader<'a> {
        Reader { read, blocks }
    }

    /// Blocks of the device.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The content of a block; `None`, with a finding, if it cannot be read.
    pub fn block(&self, block: u64, found: &mut Findings) -> Option<Bytes> {
        let why = if block >= self.blocks {
            format!("lies behind the end of the device ({} blocks)", self.blocks)
        } else {
            match (self.read)(BlockNo(block)) {
                Ok(bytes) if bytes.len() == BLOCK_BYTES => return Some(bytes),
                Ok(bytes) => format!("{} bytes instead of {BLOCK_BYTES}", bytes.len()),
                Err(why) => why,
            }
        };
        found.add(Finding::new(Kind::Unreadable, why).block(block));
        None
    }
}
