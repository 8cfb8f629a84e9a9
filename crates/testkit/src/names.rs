//! Names at random for directories without regard to case.

use base::Rng;

/// A name of several scripts, with marks in any order, ignorable characters, and bytes that are
/// no UTF-8.
pub fn wild_name(rng: &mut Rng) -> Vec<u8> {
    let mut name = Vec::new();
    for _ in 0..1 + rng.below(9) {
        let code = match rng.below(12) {
            0..=3 => 0x41 + rng.below(58) as u32,
            4 | 5 => 0xC0 + rng.below(0x180) as u32,
            6 => 0x300 + rng.below(0x70) as u32,
            7 => 0x370 + rng.below(0x200) as u32,
            8 => 0xAC00 + rng.below(0x2BA4) as u32,
            9 => 0x1E00 + rng.below(0x200) as u32,
            10 => [0x200D, 0xFE0F, 0xAD, 0x34F, 0xFFF0][rng.below(5) as usize],
            _ => {
                name.push(0x80 | rng.next_u64() as u8);
                continue;
            }
        };
        if let Some(c) = char::from_u32(code) {
            name.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    name.retain(|&b| b != 0 && b != b'/');
    if name.is_empty() || name == b"." || name == b".." {
        name = b"x".to_vec();
    }
    name
}
