//! Reading and writing integers at byte offsets. `get_*` panics when the range lies outside the
//! slice, so callers check the length of an untrusted structure once, then read its fields.

macro_rules! codec {
    ($get:ident, $put:ident, $ty:ty, $from:ident, $to:ident, $what:literal) => {
        #[doc = concat!("Reads a ", $what, " at byte offset `at`.")]
        #[inline]
        pub fn $get(buf: &[u8], at: usize) -> $ty {
            let mut raw = [0; size_of::<$ty>()];
            raw.copy_from_slice(&buf[at..at + size_of::<$ty>()]);
            <$ty>::$from(raw)
        }
        #[doc = concat!("Writes a ", $what, " at byte offset `at`.")]
        #[inline]
        pub fn $put(buf: &mut [u8], at: usize, value: $ty) {
            buf[at..at + size_of::<$ty>()].copy_from_slice(&value.$to());
        }
    };
}

codec! { get_le16, put_le16, u16, from_le_bytes, to_le_bytes, "little-endian 16-bit integer" }
codec! { get_le32, put_le32, u32, from_le_bytes, to_le_bytes, "little-endian 32-bit integer" }
codec! { get_le64, put_le64, u64, from_le_bytes, to_le_bytes, "little-endian 64-bit integer" }
codec! { get_be16, put_be16, u16, from_be_bytes, to_be_bytes, "big-endian 16-bit integer" }
codec! { get_be32, put_be32, u32, from_be_bytes, to_be_bytes, "big-endian 32-bit integer" }
codec! { get_be64, put_be64, u64, from_be_bytes, to_be_bytes, "big-endian 64-bit integer" }

/// True if every byte is zero.
pub fn is_zero(buf: &[u8]) -> bool {
    // A fold over a chunk becomes a few vector instructions, a search for the first other byte does
    // not.
    let (chunks, rest) = buf.as_chunks::<64>();
    let zero = |bytes: &[u8]| bytes.iter().fold(0, |all, &b| all | b) == 0;
    chunks.iter().all(|chunk| zero(chunk)) && zero(rest)
}

#[cfg(test)]
mod tests {
    use super::is_zero;

    #[test]
    fn one_byte_anywhere() {
        for len in [0, 1, 63, 64, 65, 200] {
            let mut buf = vec![0; len];
            assert!(is_zero(&buf));
            for n in 0..len {
                buf[n] = 0x80;
                assert!(!is_zero(&buf), "{n} of {len}");
                buf[n] = 0;
            }
        }
    }
}
