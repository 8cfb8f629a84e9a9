//! Hash maps whose layout is the same in every run. Iterate a `BTreeMap` where the order reaches
//! the outside.

use std::hash::{BuildHasherDefault, Hasher};

/// Hash map with a fixed hasher.
#[allow(clippy::disallowed_types)]
pub type Map<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<FixedHasher>>;
/// Hash set with a fixed hasher.
#[allow(clippy::disallowed_types)]
pub type Set<K> = std::collections::HashSet<K, BuildHasherDefault<FixedHasher>>;

/// FNV-1a with a final mix (Murmur3's 64-bit finaliser): fixed over processes, machines and Rust
/// versions.
#[derive(Clone, Copy)]
pub struct FixedHasher(u64);

const FNV_OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01B3;

impl Default for FixedHasher {
    fn default() -> Self {
        FixedHasher(FNV_OFFSET)
    }
}

impl Hasher for FixedHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.0 = (self.0 ^ u64::from(b)).wrapping_mul(FNV_PRIME);
        }
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(23) ^ n).wrapping_mul(FNV_PRIME);
    }
    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
    fn finish(&self) -> u64 {
        mix(self.0)
    }
}

/// Murmur3's 64-bit finaliser: spreads every input bit over the whole word.
pub fn mix(mut h: u64) -> u64 {
    h = (h ^ (h >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    h = (h ^ (h >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    h ^ (h >> 33)
}

/// A 64-bit fingerprint of `data`: FNV-1a, mixed. Not cryptographic; for stream names and trace
/// hashes.
pub fn fingerprint(data: &[u8]) -> u64 {
    let mut h = FixedHasher::default();
    h.write(data);
    h.finish()
}
