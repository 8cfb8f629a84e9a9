//! Bit maps of F2FS, in two orders.
//!
//! Valid maps of segments and version bitmaps count from the highest bit of a byte: bit `i` is bit
//! `7 - i % 8` of byte `i / 8`. Bitmaps of directory blocks and NAT bits count from the lowest
//! (`_le`). A bit beyond the map is 0 and cannot be set.

/// Bit `i` of a map that counts from the highest bit.
pub fn test_bit(map: &[u8], i: usize) -> bool {
    map.get(i / 8)
        .is_some_and(|byte| byte & (0x80 >> (i % 8)) != 0)
}
/// Sets bit `i`; says what it was.
pub fn set_bit(map: &mut [u8], i: usize) -> bool {
    change(map, i, 0x80 >> (i % 8), true)
}
/// Clears bit `i`; says what it was.
pub fn clear_bit(map: &mut [u8], i: usize) -> bool {
    change(map, i, 0x80 >> (i % 8), false)
}
/// Bit `i` of a map that counts from the lowest bit.
pub fn test_bit_le(map: &[u8], i: usize) -> bool {
    map.get(i / 8)
        .is_some_and(|byte| byte & (1 << (i % 8)) != 0)
}
/// Sets bit `i`, counted from the lowest; says what it was.
pub fn set_bit_le(map: &mut [u8], i: usize) -> bool {
    change(map, i, 1 << (i % 8), true)
}
/// Clears bit `i`, counted from the lowest; says what it was.
pub fn clear_bit_le(map: &mut [u8], i: usize) -> bool {
    change(map, i, 1 << (i % 8), false)
}
/// Bits that are set.
pub fn count_bits(map: &[u8]) -> u32 {
    let (words, rest) = map.as_chunks::<8>();
    let words: u32 = words
        .iter()
        .map(|w| u64::from_le_bytes(*w).count_ones())
        .sum();
    words + rest.iter().map(|byte| byte.count_ones()).sum::<u32>()
}

fn change(map: &mut [u8], i: usize, mask: u8, on: bool) -> bool {
    let Some(byte) = map.get_mut(i / 8) else {
        return false;
    };
    let was = *byte & mask != 0;
    *byte = if on { *byte | mask } else { *byte & !mask };
    was
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders() {
        let mut map = [0; 2];
        assert!(!set_bit(&mut map, 0) && !set_bit(&mut map, 9));
        assert_eq!(map, [0x80, 0x40]);
        assert!(test_bit(&map, 9) && !test_bit(&map, 8));
        assert!(clear_bit(&mut map, 9) && !clear_bit(&mut map, 9));
        assert!(!set_bit_le(&mut map, 9) && test_bit_le(&map, 9));
        assert_eq!((map, count_bits(&map)), ([0x80, 2], 2));
        assert!(clear_bit_le(&mut map, 9));
    }

    #[test]
    fn beyond_the_map() {
        let mut map = [0xFF];
        assert!(!test_bit(&map, 8) && !test_bit_le(&map, 8) && !test_bit(&map, usize::MAX));
        assert!(!set_bit(&mut map, 8) && !clear_bit_le(&mut map, 8));
        assert_eq!((map, count_bits(&[0xFF; 9])), ([0xFF], 72));
    }
}
