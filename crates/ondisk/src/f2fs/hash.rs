//! The hash of a name in a directory.
//!
//! The Tiny Encryption Algorithm (Wheeler and Needham), 16 cycles, with the name as key: the name
//! is cut into pieces of 16 bytes, packed big-endian into four words and padded with its remaining
//! length. It starts from the first words of MD4; the first word of the state is the hash. Names
//! `.` and `..` have hash 0.

/// The hash of `name`, as stored in its directory entry.
pub fn dentry_hash(name: &[u8]) -> u32 {
    match name {
        b"." | b".." => 0,
        _ => folded_hash(name),
    }
}

/// The hash of a name that folds to `folded`, in a directory without regard to case. A name may
/// fold to a dot and be none of the two.
pub fn folded_hash(folded: &[u8]) -> u32 {
    let mut state = [0x6745_2301_u32, 0xEFCD_AB89];
    let mut rest = folded;
    // One turn at least, so that the empty name has a hash too.
    loop {
        state = tea(state, &key(rest));
        if rest.len() <= 16 {
            return state[0];
        }
        rest = &rest[16..];
    }
}

/// The first 16 bytes of `rest` as words, filled up with the length of `rest` in every byte.
fn key(rest: &[u8]) -> [u32; 4] {
    let pad = (rest.len() as u32 & 0xFF) * 0x0101_0101;
    let mut words = [pad; 4];
    for (word, bytes) in words.iter_mut().zip(rest.chunks(4)) {
        *word = bytes.iter().fold(pad, |w, &b| w << 8 | u32::from(b));
    }
    words
}

fn tea(state: [u32; 2], key: &[u32; 4]) -> [u32; 2] {
    const DELTA: u32 = 0x9E37_79B9;
    let [mut left, mut right] = state;
    let half = |v: u32, sum: u32, k0: u32, k1: u32| {
        (v << 4).wrapping_add(k0) ^ v.wrapping_add(sum) ^ (v >> 5).wrapping_add(k1)
    };
    let mut sum = 0u32;
    for _ in 0..16 {
        sum = sum.wrapping_add(DELTA);
        left = left.wrapping_add(half(right, sum, key[0], key[1]));
        right = right.wrapping_add(half(left, sum, key[2], key[3]));
    }
    [state[0].wrapping_add(left), state[1].wrapping_add(right)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_have_none() {
        assert_eq!((dentry_hash(b"."), dentry_hash(b"..")), (0, 0));
        assert_ne!(dentry_hash(b"..."), 0);
    }
}
