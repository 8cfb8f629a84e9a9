//! Directories in memory: a model-based random test, an independent walk over the structure,
//! damage, and `e2fsck`.

mod cookies;
mod hostile;
mod image;
mod memory;
mod model;
mod structure;

/// Masks the hash so that names collide, if the seed is one that [`memory`] made for that.
pub(super) fn coarse(seed: [u32; 4], hash: ondisk::ext4::DirHash) -> ondisk::ext4::DirHash {
    let [a, b, c, mask] = seed;
    if [a, b, c] != [memory::COARSE; 3] {
        return hash;
    }
    ondisk::ext4::DirHash {
        major: hash.major & mask,
        minor: hash.minor & 0xFF,
    }
}
