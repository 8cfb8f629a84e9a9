//! Buffers that are aligned for direct I/O.

use base::{BLOCK_BYTES, Bytes};
use rt::Page;
use std::ops::{Deref, DerefMut};

/// Bytes at an address that is a multiple of a power of two.
pub(super) struct Aligned {
    bytes: Vec<u8>,
    from: usize,
    len: usize,
}

impl Aligned {
    /// `len` zeros.
    pub fn new(len: usize, align: usize) -> Aligned {
        let bytes = vec![0; len + align - 1];
        let from = start(&bytes, align);
        Aligned { bytes, from, len }
    }
    /// `len` bytes in memory that was used before, if it is large enough; the content is arbitrary.
    pub fn reuse(bytes: Vec<u8>, len: usize, align: usize) -> Aligned {
        if bytes.len() < len + align - 1 {
            return Aligned::new(len, align);
        }
        let from = start(&bytes, align);
        Aligned { bytes, from, len }
    }
    /// The memory, to be used again.
    pub fn into_memory(self) -> Vec<u8> {
        self.bytes
    }
}

/// Where the aligned bytes begin. This stays right when the vector is moved, because its bytes do
/// not move.
fn start(bytes: &[u8], align: usize) -> usize {
    (bytes.as_ptr() as usize).next_multiple_of(align) - bytes.as_ptr() as usize
}

impl Deref for Aligned {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[self.from..self.from + self.len]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..self.from + self.len]
    }
}

impl AsRef<[u8]> for Aligned {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// The buffer for one block of a read: memory that a cache can keep and drop without that of its
/// neighbours.
pub(super) enum Block {
    /// A whole block.
    Page(Page),
    /// Less than a block, or aligned to more than a page.
    Other(Aligned),
}

impl Block {
    /// Buffers for `len` bytes, one for each block, the last one perhaps shorter; the content is
    /// arbitrary.
    pub fn many(len: usize, align: usize) -> Vec<Block> {
        let whole = match align <= Page::BYTES {
            true => len / BLOCK_BYTES,
            false => 0,
        };
        let mut blocks: Vec<Block> = Page::many(whole).into_iter().map(Block::Page).collect();
        let others = (whole * BLOCK_BYTES..len).step_by(BLOCK_BYTES);
        let other = |at| Block::Other(Aligned::new(BLOCK_BYTES.min(len - at), align));
        blocks.extend(others.map(other));
        blocks
    }
    pub fn into_bytes(self) -> Bytes {
        match self {
            Block::Page(page) => page.into_bytes(),
            Block::Other(bytes) => Bytes::from_owner(bytes),
        }
    }
}

impl Deref for Block {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Block::Page(page) => page,
            Block::Other(bytes) => bytes,
        }
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Block::Page(page) => page,
            Block::Other(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_are_pages_and_a_part_is_as_long_as_it_is() {
        for (len, align, pages) in [
            (8192, 1, 2),
            (9216, 512, 2),
            (1024, 4096, 0),
            (8192, 8192, 0),
        ] {
            let mut blocks = Block::many(len, align);
            blocks.iter_mut().for_each(|b| b.fill(1));
            assert!(
                blocks
                    .iter()
                    .all(|b| b.as_ptr().addr().is_multiple_of(align))
            );
            let whole = blocks.iter().filter(|b| matches!(b, Block::Page(_)));
            assert_eq!(whole.count(), pages);
            let bytes: Vec<Bytes> = blocks.into_iter().map(Block::into_bytes).collect();
            assert_eq!(bytes.iter().map(Bytes::len).sum::<usize>(), len);
        }
    }

    #[test]
    fn addresses_are_multiples() {
        for align in [1, 512, 4096] {
            let mut buf = Aligned::new(3 * 512, align);
            buf[1535] = 7;
            assert!(buf.as_ptr().addr().is_multiple_of(align) && buf.len() == 1536);
            let again = Aligned::reuse(buf.into_memory(), 512, align);
            assert!(again.as_ptr().addr().is_multiple_of(align) && again.len() == 512);
        }
    }
}
