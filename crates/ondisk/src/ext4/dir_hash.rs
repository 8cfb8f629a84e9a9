//! Hashes of names for the directory index.
//!
//! Three hashes, each in two flavours that differ in how a byte above 127 is taken: as a signed or
//! as an unsigned character (the machine that made the volume decided; `s_flags` remembers).
//!
//! - *legacy*: a simple multiplicative hash.
//! - *half MD4*: MD4's compression function (RFC 1320) with eight message words and eight steps in
//!   each of its three rounds.
//! - *TEA*: the Tiny Encryption Algorithm (Wheeler and Needham), 16 cycles, with the name as key.
//!
//! For the latter two the name is cut into pieces of 32 (half MD4) or 16 (TEA) bytes, packed
//! big-endian into words and padded with its remaining length. Every hash has bit 0 cleared: the
//! index uses that bit for collisions.

/// Number of a hash as stored in superblock and index root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashVersion {
    /// Legacy, signed characters.
    Legacy,
    /// Half MD4, signed characters.
    HalfMd4,
    /// TEA, signed characters.
    Tea,
    /// Legacy, unsigned characters.
    LegacyUnsigned,
    /// Half MD4, unsigned characters.
    HalfMd4Unsigned,
    /// TEA, unsigned characters.
    TeaUnsigned,
}

impl HashVersion {
    const ALL: [HashVersion; 6] = [
        HashVersion::Legacy,
        HashVersion::HalfMd4,
        HashVersion::Tea,
        HashVersion::LegacyUnsigned,
        HashVersion::HalfMd4Unsigned,
        HashVersion::TeaUnsigned,
    ];
    /// The number on disk.
    pub const fn code(self) -> u8 {
        self as u8
    }
    /// The hash with this number. 6 (SipHash, for encrypted names without case) is not known here.
    pub fn from_code(code: u8) -> Option<HashVersion> {
        Self::ALL.get(usize::from(code)).copied()
    }
    /// The flavour to use: an index root stores 0 to 2, and the flags of the superblock say whether
    /// that means unsigned.
    #[must_use]
    pub fn with_unsigned(self, unsigned: bool) -> HashVersion {
        Self::ALL[usize::from(self.code() % 3 + if unsigned { 3 } else { 0 })]
    }
    fn is_unsigned(self) -> bool {
        self.code() >= 3
    }
}

/// The two parts of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirHash {
    /// The part that the index uses; bit 0 is clear.
    pub major: u32,
    /// Orders names with equal major part (readdir positions).
    pub minor: u32,
}

/// Largest major hash; it means "end of directory", so no name has it.
const END_OF_DIR: u32 = 0x7FFF_FFFF << 1;

/// The hash of a name. `seed` is `s_hash_seed`; all zero means the constants of the algorithm.
pub fn dir_hash(version: HashVersion, seed: &[u32; 4], name: &[u8]) -> DirHash {
    let unsigned = version.is_unsigned();
    let start = if *seed == [0; 4] { MD4_START } else { *seed };
    let (major, minor) = match version {
        HashVersion::Legacy | HashVersion::LegacyUnsigned => (legacy(name, unsigned), 0),
        HashVersion::HalfMd4 | HashVersion::HalfMd4Unsigned => {
            let state = fold_pieces(start, name, unsigned, half_md4);
            (state[1], state[2])
        }
        HashVersion::Tea | HashVersion::TeaUnsigned => {
            let state = fold_pieces(start, name, unsigned, tea);
            (state[0], state[1])
        }
    };
    let major = match major & !1 {
        END_OF_DIR => END_OF_DIR - 2,
        hash => hash,
    };
    DirHash { major, minor }
}

fn character(byte: u8, unsigned: bool) -> u32 {
    if unsigned {
        byte.into()
    } else {
        byte as i8 as u32
    }
}

fn legacy(name: &[u8], unsigned: bool) -> u32 {
    let (mut now, mut before) = (0x12A3_FE2D_u32, 0x37AB_E8F9_u32);
    for &byte in name {
        let mixed = now ^ character(byte, unsigned).wrapping_mul(7_152_373);
        let next = before.wrapping_add(mixed);
        before = now;
        now = if next & 0x8000_0000 != 0 {
            next.wrapping_sub(0x7FFF_FFFF)
        } else {
            next
        };
    }
    now << 1
}

/// Runs `mix` over the pieces of a name.
fn fold_pieces<const WORDS: usize>(
    start: [u32; 4],
    name: &[u8],
    unsigned: bool,
    mix: fn([u32; 4], &[u32; WORDS]) -> [u32; 4],
) -> [u32; 4] {
    let mut state = start;
    for at in (0..name.len()).step_by(WORDS * 4) {
        state = mix(state, &pack(&name[at..], unsigned));
    }
    state
}

/// The first `4 * WORDS` bytes of `rest` as words, filled up with the length of `rest` in every
/// byte.
fn pack<const WORDS: usize>(rest: &[u8], unsigned: bool) -> [u32; WORDS] {
    let len = rest.len() as u32;
    let pad = (len | len << 8) | (len | len << 8) << 16;
    let mut words = [pad; WORDS];
    for (word, bytes) in words.iter_mut().zip(rest.chunks(4)) {
        *word = bytes.iter().fold(pad, |w, &byte| {
            character(byte, unsigned).wrapping_add(w << 8)
        });
    }
    words
}

/// Start values of MD4 (RFC 1320, section 3.3).
const MD4_START: [u32; 4] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476];
/// Constants of MD4's second and third round: the square roots of 2 and 3.
const MD4_ROUND2: u32 = 0x5A82_7999;
const MD4_ROUND3: u32 = 0x6ED9_EBA1;

fn half_md4(state: [u32; 4], words: &[u32; 8]) -> [u32; 4] {
    // One round: eight steps, words in `order`, shifts in turn; the registers rotate a <- d <- c <-
    // b.
    let round = |state: [u32; 4],
                 order: [usize; 8],
                 shifts: [u32; 4],
                 constant: u32,
                 f: fn(u32, u32, u32) -> u32| {
        let [mut a, mut b, mut c, mut d] = state;
        for (step, &word) in order.iter().enumerate() {
            let sum = a
                .wrapping_add(f(b, c, d))
                .wrapping_add(words[word])
                .wrapping_add(constant);
            let mixed = sum.rotate_left(shifts[step % 4]);
            (a, b, c, d) = (d, mixed, b, c);
        }
        [a, b, c, d]
    };
    let choose = |x: u32, y: u32, z: u32| (x & y) | (!x & z);
    let majority = |x: u32, y: u32, z: u32| (x & y) | (x & z) | (y & z);
    let parity = |x: u32, y: u32, z: u32| x ^ y ^ z;

    let mut s = round(state, [0, 1, 2, 3, 4, 5, 6, 7], [3, 7, 11, 19], 0, choose);
    s = round(
        s,
        [1, 3, 5, 7, 0, 2, 4, 6],
        [3, 5, 9, 13],
        MD4_ROUND2,
        majority,
    );
    s = round(
        s,
        [3, 7, 2, 6, 1, 5, 0, 4],
        [3, 9, 11, 15],
        MD4_ROUND3,
        parity,
    );
    std::array::from_fn(|n| state[n].wrapping_add(s[n]))
}

fn tea(state: [u32; 4], key: &[u32; 4]) -> [u32; 4] {
    const DELTA: u32 = 0x9E37_79B9;
    let [mut left, mut right, ..] = state;
    let mut sum = 0u32;
    let half = |v: u32, sum: u32, k0: u32, k1: u32| {
        (v << 4).wrapping_add(k0) ^ v.wrapping_add(sum) ^ (v >> 5).wrapping_add(k1)
    };
    for _ in 0..16 {
        sum = sum.wrapping_add(DELTA);
        left = left.wrapping_add(half(right, sum, key[0], key[1]));
        right = right.wrapping_add(half(left, sum, key[2], key[3]));
    }
    [
        state[0].wrapping_add(left),
        state[1].wrapping_add(right),
        state[2],
        state[3],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEED: [u32; 4] = [0x1111_1111, 0x3333_2222, 0x5555_4444, 0x5555_5555];

    /// Name, and what `dx_hash -h VERSION -s SEED NAME` of debugfs 1.47 prints for versions 0 to 5;
    /// of the versions that use the seed first with [`SEED`], then without.
    type Row = (&'static str, [(u32, u32); 10]);
    const ROWS: [Row; 8] = [
        (
            "a",
            [
                (0xe74b53e2, 0x0),
                (0x61ab28ce, 0x4ffe6d79),
                (0xd5fa7d7a, 0xacb48187),
                (0xc60ef7d0, 0xf8261194),
                (0x6d0ea4c0, 0xc18922df),
                (0xe74b53e2, 0x0),
                (0x61ab28ce, 0x4ffe6d79),
                (0xd5fa7d7a, 0xacb48187),
                (0xc60ef7d0, 0xf8261194),
                (0x6d0ea4c0, 0xc18922df),
            ],
        ),
        (
            "lost+found",
            [
                (0x5e2aba24, 0x0),
                (0x10e09910, 0x2ceaef16),
                (0x591de422, 0x6ffc56e0),
                (0x66d30396, 0xdab5f5fe),
                (0x2dbf9e80, 0xbfebee4f),
                (0x5e2aba24, 0x0),
                (0x10e09910, 0x2ceaef16),
                (0x591de422, 0x6ffc56e0),
                (0x66d30396, 0xdab5f5fe),
                (0x2dbf9e80, 0xbfebee4f),
            ],
        ),
        (
            "file-000123.txt",
            [
                (0x93c7ed3a, 0x0),
                (0x1f683896, 0x42e800e0),
                (0x36d8e880, 0xfa8e0c79),
                (0x2e6324e, 0xef42db6),
                (0x233a7c58, 0x2f16419),
                (0x93c7ed3a, 0x0),
                (0x1f683896, 0x42e800e0),
                (0x36d8e880, 0xfa8e0c79),
                (0x2e6324e, 0xef42db6),
                (0x233a7c58, 0x2f16419),
            ],
        ),
        (
            "0123456789abcdef0123456789abcdef",
            [
                (0x6d4a15ee, 0x0),
                (0xc8f8c286, 0x3f0c16af),
                (0x36184620, 0xc959df59),
                (0xeab2d754, 0x4a575350),
                (0xcbe95e3c, 0x17627589),
                (0x6d4a15ee, 0x0),
                (0xc8f8c286, 0x3f0c16af),
                (0x36184620, 0xc959df59),
                (0xeab2d754, 0x4a575350),
                (0xcbe95e3c, 0x17627589),
            ],
        ),
        (
            "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
            [
                (0x3ecde316, 0x0),
                (0x6c974d2, 0x211e64e7),
                (0x28870694, 0xbf0d64ec),
                (0xaa2d5f78, 0x5703e164),
                (0x6617f474, 0x55a671dc),
                (0x3ecde316, 0x0),
                (0x6c974d2, 0x211e64e7),
                (0x28870694, 0xbf0d64ec),
                (0xaa2d5f78, 0x5703e164),
                (0x6617f474, 0x55a671dc),
            ],
        ),
        (
            "n\u{e4}me\u{fc}\u{df}",
            [
                (0xec922480, 0x0),
                (0x91d72bc6, 0x5cac8bab),
                (0x391b0b12, 0x3154cad3),
                (0xe75e4d50, 0xba0bfa10),
                (0x7d31b7a0, 0x32b0a0d9),
                (0x8418fa7e, 0x0),
                (0x46493cdc, 0xe044e276),
                (0x4e9eda40, 0xa406fd7),
                (0xda9291c2, 0xf33ed767),
                (0xea7dd2b6, 0x773fbfb),
            ],
        ),
        (
            "\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}",
            [
                (0xf8091b3e, 0x0),
                (0xbaa331a, 0x90228610),
                (0x1b66b5a0, 0xe9dc0629),
                (0xcfc1e56a, 0x6e9cd3e0),
                (0xcf1d87f0, 0x96340525),
                (0x628fbd00, 0x0),
                (0xfaa5d91e, 0x2f981f95),
                (0x48a71a5c, 0x3b89e4d),
                (0x706c5ee0, 0x877f955a),
                (0x63de07bc, 0xcf6cb1bc),
            ],
        ),
        (
            "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
            xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
            xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            [
                (0x30557da6, 0x0),
                (0xe3e9f30a, 0xb2795e2),
                (0x2aa7169e, 0x655f9d9c),
                (0xf429e082, 0xe79860c8),
                (0x6c4c00ee, 0xeafdb6b),
                (0x30557da6, 0x0),
                (0xe3e9f30a, 0xb2795e2),
                (0x2aa7169e, 0x655f9d9c),
                (0xf429e082, 0xe79860c8),
                (0x6c4c00ee, 0xeafdb6b),
            ],
        ),
    ];

    #[test]
    fn debugfs_agrees() {
        for (name, expected) in ROWS {
            let mut got = Vec::new();
            for code in 0..6 {
                let version = HashVersion::from_code(code).expect("known");
                for seed in [SEED, [0; 4]] {
                    if code % 3 != 0 || seed == SEED {
                        let hash = dir_hash(version, &seed, name.as_bytes());
                        got.push((hash.major, hash.minor));
                    }
                }
            }
            assert_eq!(got, expected, "{name}");
        }
    }

    #[test]
    fn flavour_follows_the_superblock() {
        assert_eq!(
            HashVersion::HalfMd4.with_unsigned(true),
            HashVersion::HalfMd4Unsigned
        );
        assert_eq!(
            HashVersion::TeaUnsigned.with_unsigned(false),
            HashVersion::Tea
        );
        assert_eq!(HashVersion::from_code(6), None);
    }

    proptest! {
        #[test]
        fn any_name_has_an_even_hash(name in proptest::collection::vec(any::<u8>(), 0..300), code in 0u8..6) {
            let version = HashVersion::from_code(code).expect("known");
            let hash = dir_hash(version, &SEED, &name);
            prop_assert!(hash.major & 1 == 0 && hash.major < END_OF_DIR);
        }
    }
}
