//! Blocks filled with one byte cost no memory: every such block is a slice of one static table.

use crate::collections::mix;
use crate::units::{BLOCK_BYTES, BlockSize};
use bytes::Bytes;

static FILLS: [[u8; BLOCK_BYTES]; 256] = table();

/// The largest block of zeros, which no program file holds.
static ZEROS: [u8; BlockSize::MAX.bytes()] = [0; BlockSize::MAX.bytes()];

const fn table() -> [[u8; BLOCK_BYTES]; 256] {
    let mut t = [[0; BLOCK_BYTES]; 256];
    let mut i = 0;
    while i < 256 {
        t[i] = [i as u8; BLOCK_BYTES];
        i += 1;
    }
    t
}

/// `len` bytes of value `byte`; without allocation up to 4096, of zeros up to 65536.
pub fn filled(byte: u8, len: usize) -> Bytes {
    let table: &'static [u8] = match byte {
        0 => &ZEROS,
        _ => &FILLS[usize::from(byte)],
    };
    match table.get(..len) {
        Some(slice) => Bytes::from_static(slice),
        None => vec![byte; len].into(),
    }
}

/// `len` zero bytes; without allocation up to 65536.
pub fn zeros(len: usize) -> Bytes {
    filled(0, len)
}

/// `len` zero bytes, at most the largest block ([`BlockSize::MAX`]).
///
/// # Panics
/// If there are more.
pub fn zero_bytes(len: usize) -> &'static [u8] {
    &ZEROS[..len]
}

/// The one byte that fills all of `data`, if there is one and `data` is not empty.
pub fn uniform(data: &[u8]) -> Option<u8> {
    let (&first, rest) = data.split_first()?;
    (rest.first().is_none_or(|&b| b == first) && *rest == data[..data.len() - 1]).then_some(first)
}

/// `data`, out of the static table if it is uniform and fits in a block.
pub fn compact(data: Bytes) -> Bytes {
    match uniform(&data) {
        Some(byte) if data.len() <= BLOCK_BYTES => filled(byte, data.len()),
        _ => data,
    }
}

/// A digest of `data`, eight bytes at a time; 0 for all-zero content. Not cryptographic.
pub fn fingerprint(data: &[u8]) -> u64 {
    if data.is_empty() || uniform(data) == Some(0) {
        return 0;
    }
    let mut words = data.chunks_exact(8);
    let mut h = words
        .by_ref()
        .fold(data.len() as u64 ^ 0x9E37_79B9_7F4A_7C15, |h, w| {
            let mut raw = [0; 8];
            raw.copy_from_slice(w);
            (h.rotate_left(29) ^ u64::from_le_bytes(raw)).wrapping_mul(0xD6E8_FEB8_6659_FD93)
        });
    for &b in words.remainder() {
        h = (h.rotate_left(29) ^ u64::from(b)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    }
    mix(h).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_blocks_share_the_table() {
        let a = compact(vec![0x5A; 4096].into());
        let b = compact(vec![0x5A; 512].into());
        assert_eq!(a.as_ptr(), b.as_ptr());
        assert_eq!((a.len(), b.len()), (4096, 512));
        let mixed: Bytes = [vec![1; 4095], vec![2]].concat().into();
        assert_eq!(compact(mixed.clone()).as_ptr(), mixed.as_ptr());
        assert_eq!(filled(3, 5000).len(), 5000);
    }

    #[test]
    fn fingerprints_tell_contents_apart() {
        assert_eq!(fingerprint(&[0; 4096]), 0);
        assert_eq!(fingerprint(&[]), 0);
        let mut x = vec![0; 4096];
        x[4095] = 1;
        let mut y = vec![0; 4096];
        y[4094] = 1;
        assert!(fingerprint(&x) != 0 && fingerprint(&x) != fingerprint(&y));
        assert_ne!(fingerprint(&[7; 4096]), fingerprint(&[8; 4096]));
    }
}
