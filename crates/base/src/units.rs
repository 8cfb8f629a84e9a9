//! Addresses and units: one newtype per address space, so that the compiler keeps them apart.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// Bytes in a device sector, the unit of [`Lba`].
pub const SECTOR_BYTES: usize = 512;
/// Bytes in a 4 KiB block, the unit of [`BlockNo`] and of all traffic figures.
pub const BLOCK_BYTES: usize = 4096;
/// Sectors in a 4 KiB block.
pub const SECTORS_PER_BLOCK: u64 = (BLOCK_BYTES / SECTOR_BYTES) as u64;
const _: () = assert!(BLOCK_BYTES.is_multiple_of(SECTOR_BYTES));

/// Bytes in a block of one volume: a power of two from 1024 to 65536. On a volume of other blocks
/// than those of 4 KiB a [`BlockNo`] counts the volume's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockSize(u32);

impl BlockSize {
    /// 4 KiB: the size that all figures of traffic are in.
    pub const KIB4: BlockSize = BlockSize(BLOCK_BYTES as u32);

    /// 64 KiB: the largest blocks of ext4.
    pub const MAX: BlockSize = BlockSize(64 << 10);
    /// All sizes, ascending.
    pub const ALL: [BlockSize; 7] = {
        let mut all = [BlockSize(1024); 7];
        let mut n = 0;
        while n < all.len() {
            all[n] = BlockSize(1024 << n);
            n += 1;
        }
        all
    };

    /// This size, if it is one that is supported.
    pub const fn new(bytes: u32) -> Option<BlockSize> {
        match bytes {
            1024..=65536 if bytes.is_power_of_two() => Some(BlockSize(bytes)),
            _ => None,
        }
    }
    /// Bytes in a block.
    pub const fn bytes(self) -> usize {
        self.0 as usize
    }
    /// Sectors in a block.
    pub const fn sectors(self) -> u64 {
        (self.0 as usize / SECTOR_BYTES) as u64
    }
    /// Sectors in so many blocks.
    pub const fn sectors_of(self, blocks: u64) -> u64 {
        blocks * self.sectors()
    }
    /// First sector of a block.
    pub const fn lba(self, block: BlockNo) -> Lba {
        Lba(block.0 * self.sectors())
    }
}

impl Default for BlockSize {
    fn default() -> BlockSize {
        BlockSize::KIB4
    }
}

macro_rules! newtype {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub $int);
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

newtype! {
    /// A device address in 512-byte sectors.
    Lba(u64)
}
newtype! {
    /// A file-system block number (4 KiB blocks).
    BlockNo(u64)
}
newtype! {
    /// An inode number.
    Ino(u32)
}
newtype! {
    /// A journal transaction number. Wraps at 2^32; compare with [`Tid::geq`] (JBD2 `tid_geq`),
    /// never with `<`. `Ord` is derived for use as a map key only.
    Tid(u32)
}
newtype! {
    /// A point in time, nanoseconds since the start of the simulation (or of the process in the
    /// real world).
    Time(u64)
}
newtype! {
    /// A span of time in nanoseconds.
    Nanos(u64)
}

impl Lba {
    /// The address `sectors` further on.
    pub const fn plus(self, sectors: u64) -> Lba {
        Lba(self.0 + sectors)
    }
}

impl BlockNo {
    /// First sector of this 4 KiB block.
    pub const fn lba(self) -> Lba {
        Lba(self.0 * SECTORS_PER_BLOCK)
    }
    /// The block number `n` further on.
    pub const fn plus(self, n: u64) -> BlockNo {
        BlockNo(self.0 + n)
    }
}

impl Tid {
    /// The next transaction number, with wrap.
    pub const fn next(self) -> Tid {
        Tid(self.0.wrapping_add(1))
    }
    /// The previous transaction number, with wrap.
    pub const fn prev(self) -> Tid {
        Tid(self.0.wrapping_sub(1))
    }
    /// `self >= other` in the circular order of JBD2.
    pub const fn geq(self, other: Tid) -> bool {
        self.0.wrapping_sub(other.0) as i32 >= 0
    }
    /// `self > other` in the circular order of JBD2.
    pub const fn gt(self, other: Tid) -> bool {
        self.0.wrapping_sub(other.0) as i32 > 0
    }
}

impl Nanos {
    /// No time at all.
    pub const ZERO: Nanos = Nanos(0);
    /// `n` microseconds.
    pub const fn from_micros(n: u64) -> Nanos {
        Nanos(n * 1_000)
    }
    /// `n` milliseconds.
    pub const fn from_millis(n: u64) -> Nanos {
        Nanos(n * 1_000_000)
    }
    /// `n` seconds.
    pub const fn from_secs(n: u64) -> Nanos {
        Nanos(n * 1_000_000_000)
    }
}

impl Add<Nanos> for Time {
    type Output = Time;
    fn add(self, d: Nanos) -> Time {
        Time(self.0.saturating_add(d.0))
    }
}
impl AddAssign<Nanos> for Time {
    fn add_assign(&mut self, d: Nanos) {
        *self = *self + d;
    }
}
impl Sub<Time> for Time {
    type Output = Nanos;
    /// Time from `earlier` to `self`; zero if `earlier` is later.
    fn sub(self, earlier: Time) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}
impl Add for Nanos {
    type Output = Nanos;
    fn add(self, d: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(d.0))
    }
}
impl AddAssign for Nanos {
    fn add_assign(&mut self, d: Nanos) {
        *self = *self + d;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tid_order_wraps() {
        assert!(Tid(0).gt(Tid(u32::MAX)));
        assert!(Tid(5).geq(Tid(5)) && !Tid(5).gt(Tid(5)));
        assert!(!Tid(u32::MAX).geq(Tid(0)));
        assert_eq!(Tid(u32::MAX).next(), Tid(0));
    }

    #[test]
    fn sizes_of_blocks() {
        for size in BlockSize::ALL {
            let bytes = size.bytes() as u32;
            assert_eq!(BlockSize::new(bytes), Some(size));
            assert_eq!(size.lba(BlockNo(6)), Lba(6 * u64::from(bytes) / 512));
            assert_eq!(size.sectors_of(3), size.lba(BlockNo(3)).0);
        }
        assert_eq!(BlockSize::ALL.last(), Some(&BlockSize::MAX));
        assert_eq!(BlockSize::KIB4.lba(BlockNo(3)), BlockNo(3).lba());
        assert!(
            [0, 512, 1000, 12288, 131_072]
                .into_iter()
                .all(|n| BlockSize::new(n).is_none())
        );
    }

    #[test]
    fn block_to_sector() {
        assert_eq!(BlockNo(3).lba(), Lba(24));
    }
}
