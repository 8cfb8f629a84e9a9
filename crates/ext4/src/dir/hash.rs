//! Hashes of names: legacy, half MD4 and TEA, each with signed or unsigned characters.

use super::layout::{HashKind, NameHash};

/// The largest major hash; the value above it means "end of directory" to the kernel's readdir.
const MAJOR_MAX: u32 = 0xFFFF_FFFC;

/// The hash of `name`.
pub(super) fn name_hash(kind: HashKind, seed: [u32; 4], name: &[u8]) -> NameHash {
    let words: Words = if kind.is_unsigned() { |b| u32::from(b) } else { |b| b as i8 as u32 };
    let state = if seed == [0; 4] { MD4_START } else { seed };
    let (major, minor) = match kind {
        HashKind::Legacy | HashKind::LegacyUnsigned => (legacy(name, words), 0),
        HashKind::HalfMd4 | HashKind::HalfMd4Unsigned => half_md4_of(state, name, words),
        HashKind::Tea | HashKind::TeaUnsigned => tea_of(state, name, words),
    };
    NameHash { major: (major & !1).min(MAJOR_MAX), minor }
}

type Words = fn(u8) -> u32;

const MD4_START: [u32; 4] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476];

fn legacy(name: &[u8], word: Words) -> u32 {
    let (mut last, mut before) = (0x12A3_FE2D_u32, 0x37AB_E8F9_u32);
    for &byte in name {
        let mut next = before.wrapping_add(last ^ word(byte).wrapping_mul(7_152_373));
        if next & 0x8000_0000 != 0 {
            next = next.wrapping_sub(0x7FFF_FFFF);
        }
        before = last;
        last = next;
    }
    last << 1
}

/// The head of `name` as big-endian words, filled up with its length in each byte.
fn words_of<const N: usize>(name: &[u8], word: Words) -> [u32; N] {
    let fill = name.len() as u32 * 0x0101_0101;
    let mut out = [fill; N];
    for (slot, chunk) in out.iter_mut().zip(name.chunks(4)) {
        *slot = chunk.iter().fold(fill, |value, &byte| word(byte).wrapping_add(value << 8));
    }
    out
}

fn half_md4_of(mut state: [u32; 4], name: &[u8], word: Words) -> (u32, u32) {
    let mut rest = name;
    while !rest.is_empty() {
        half_md4(&mut state, words_of::<8>(rest, word));
        rest = &rest[rest.len().min(32)..];
    }
    (state[1], state[2])
}

/// MD4 with eight instead of sixteen words.
fn half_md4(state: &mut [u32; 4], input: [u32; 8]) {
    type Mix = fn(u32, u32, u32) -> u32;
    const ROUNDS: [(Mix, u32, [u32; 4], [usize; 8]); 3] = [
        (|x, y, z| z ^ (x & (y ^ z)), 0, [3, 7, 11, 19], [0, 1, 2, 3, 4, 5, 6, 7]),
        (|x, y, z| (x & y).wrapping_add((x ^ y) & z), 0x5A82_7999, [3, 5, 9, 13], [1, 3, 5, 7, 0, 2, 4, 6]),
        (|x, y, z| x ^ y ^ z, 0x6ED9_EBA1, [3, 9, 11, 15], [3, 7, 2, 6, 1, 5, 0, 4]),
    ];
    let [mut a, mut b, mut c, mut d] = *state;
    for (mix, constant, shifts, order) in ROUNDS {
        for (step, word) in order.into_iter().enumerate() {
            let sum = a.wrapping_add(mix(b, c, d)).wrapping_add(input[word]).wrapping_add(constant);
            (a, b, c, d) = (d, sum.rotate_left(shifts[step % 4]), b, c);
        }
    }
    for (slot, value) in state.iter_mut().zip([a, b, c, d]) {
        *slot = slot.wrapping_add(value);
    }
}

fn tea_of(mut state: [u32; 4], name: &[u8], word: Words) -> (u32, u32) {
    let mut rest = name;
    while !rest.is_empty() {
        tea(&mut state, words_of::<4>(rest, word));
        rest = &rest[rest.len().min(16)..];
    }
    (state[0], state[1])
}

/// Sixteen rounds of the Tiny Encryption Algorithm, the name being the key.
fn tea(state: &mut [u32; 4], key: [u32; 4]) {
    let (mut x, mut y, mut sum) = (state[0], state[1], 0u32);
    let mix = |v: u32, k0: u32, k1: u32, sum: u32| {
        (v << 4).wrapping_add(k0) ^ v.wrapping_add(sum) ^ (v >> 5).wrapping_add(k1)
    };
    for _ in 0..16 {
        sum = sum.wrapping_add(0x9E37_79B9);
        x = x.wrapping_add(mix(y, key[0], key[1], sum));
        y = y.wrapping_add(mix(x, key[2], key[3], sum));
    }
    state[0] = state[0].wrapping_add(x);
    state[1] = state[1].wrapping_add(y);
}
