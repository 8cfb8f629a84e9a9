//! Reads blocks, and turns errors into findings.

use super::{Finding, FindingKind, Findings};
use base::{BLOCK_BYTES, BlockNo, Bytes};

/// Reads blocks of a file system. A block that cannot be read becomes a finding.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    read: &'a dyn Fn(BlockNo) -> Result<Bytes, String>,
    /// Bytes of the device.
    device_bytes: u64,
    block_bytes: usize,
}

impl<'a> Reader<'a> {
    /// Makes a reader in blocks of 4 KiB, of a device of `blocks` such blocks and a tail shorter
    /// than one.
    pub fn new(
        read: &'a dyn Fn(BlockNo) -> Result<Bytes, String>,
        blocks: u64,
        tail: usize,
    ) -> Reader<'a> {
        Reader {
            read,
            device_bytes: blocks * BLOCK_BYTES as u64 + tail as u64,
            block_bytes: BLOCK_BYTES,
        }
    }

    /// A reader of this device in blocks of 1 to 64 KiB.
    pub fn in_blocks_of(&self, bytes: usize) -> Reader<'a> {
        Reader {
            block_bytes: bytes,
            ..*self
        }
    }

    /// Whole blocks of the device.
    pub fn blocks(&self) -> u64 {
        self.device_bytes / self.block_bytes as u64
    }

    /// The content of a block; `None`, with a finding, if it cannot be read.
    pub fn block<K: FindingKind>(
        &self,
        block: impl Into<u64>,
        found: &mut Findings<K>,
    ) -> Option<Bytes> {
        let block = block.into();
        match self.try_block(block) {
            Ok(bytes) => Some(bytes),
            Err(why) => {
                found.add(Finding::new(K::UNREADABLE, why).block(block));
                None
            }
        }
    }

    /// The content of a block.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn try_block(&self, block: impl Into<u64>) -> Result<Bytes, String> {
        let block = block.into();
        if block >= self.blocks() {
            let blocks = self.blocks();
            return Err(format!(
                "lies behind the end of the device ({blocks} blocks)"
            ));
        }
        let at = block * self.block_bytes as u64;
        let first = at / BLOCK_BYTES as u64;
        if self.block_bytes <= BLOCK_BYTES {
            let from = (at % BLOCK_BYTES as u64) as usize;
            return Ok(self.whole(first)?.slice(from..from + self.block_bytes));
        }
        let mut bytes = Vec::with_capacity(self.block_bytes);
        for n in 0..(self.block_bytes / BLOCK_BYTES) as u64 {
            bytes.extend_from_slice(&self.whole(first + n)?);
        }
        Ok(bytes.into())
    }

    fn whole(&self, block: u64) -> Result<Bytes, String> {
        let bytes = (self.read)(BlockNo(block))?;
        match bytes.len() {
            BLOCK_BYTES => Ok(bytes),
            other => Err(format!("{other} bytes instead of {BLOCK_BYTES}")),
        }
    }
}
