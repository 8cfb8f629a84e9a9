//! Reading blocks: an error becomes a finding.

use super::finding::{Finding, Findings, Kind};
use base::{BLOCK_BYTES, BlockNo, Bytes};

/// Reads blocks of the file system.
pub(super) struct Reader<'a> {
    read: &'a dyn Fn(BlockNo) -> Result<Bytes, String>,
    /// Blocks of 4 KiB of the device.
    device_blocks: u64,
    block_bytes: usize,
}

impl<'a> Reader<'a> {
    /// In blocks of 4 KiB.
    pub fn new(read: &'a dyn Fn(BlockNo) -> Result<Bytes, String>, blocks: u64) -> Reader<'a> {
        Reader {
            read,
            device_blocks: blocks,
            block_bytes: BLOCK_BYTES,
        }
    }

    /// The same device in blocks of 1024, 2048 or 4096 bytes.
    pub fn in_blocks_of(&self, bytes: usize) -> Reader<'a> {
        Reader {
            block_bytes: bytes,
            ..*self
        }
    }

    /// Blocks of the device.
    pub fn blocks(&self) -> u64 {
        self.device_blocks * self.ratio()
    }

    fn ratio(&self) -> u64 {
        (BLOCK_BYTES / self.block_bytes) as u64
    }

    /// The content of a block; `None`, with a finding, if it cannot be read.
    pub fn block(&self, block: u64, found: &mut Findings) -> Option<Bytes> {
        let why = if block >= self.blocks() {
            let blocks = self.blocks();
            format!("lies behind the end of the device ({blocks} blocks)")
        } else {
            match (self.read)(BlockNo(block / self.ratio())) {
                Ok(bytes) if bytes.len() == BLOCK_BYTES => {
                    let at = (block % self.ratio()) as usize * self.block_bytes;
                    return Some(bytes.slice(at..at + self.block_bytes));
                }
                Ok(bytes) => format!("{} bytes instead of {BLOCK_BYTES}", bytes.len()),
                Err(why) => why,
            }
        };
        found.add(Finding::new(Kind::Unreadable, why).block(block));
        None
    }
}
