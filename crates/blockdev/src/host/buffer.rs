//! Buffers whose address suits direct I/O.

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
    /// The same on memory used before, if that is large enough; the content is arbitrary.
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

/// A vector does not move its bytes: the place stays right.
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

#[cfg(test)]
mod tests {
    use super::*;

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
