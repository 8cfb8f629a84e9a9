//! Times in inodes: 32 bits of seconds, and in large inodes 32 more of which two extend the
//! seconds.
//!
//! The extra word holds nanoseconds in its upper 30 bits and the *epoch* in the lower two: seconds
//! are the signed 32-bit value plus epoch times 2^32. That reaches from 1901 to 2446.

/// A time stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Timestamp {
    /// Seconds since 1970; negative before.
    pub secs: i64,
    /// Nanoseconds below one second.
    pub nanos: u32,
}

impl Timestamp {
    /// Earliest time an inode can hold.
    pub const MIN_SECS: i64 = i32::MIN as i64;
    /// Latest time an inode with extra fields can hold: in the year 2446.
    pub const MAX_SECS: i64 = i32::MAX as i64 + (3 << 32);

    /// From the words of an inode; `extra` is `None` in old inodes.
    pub(super) fn decode(low: u32, extra: Option<u32>) -> Timestamp {
        let secs = i64::from(low as i32);
        match extra {
            None => Timestamp { secs, nanos: 0 },
            Some(extra) => Timestamp {
                secs: secs + (i64::from(extra & 3) << 32),
                // A damaged word may hold up to 2^30 - 1.
                nanos: (extra >> 2).min(999_999_999),
            },
        }
    }

    /// The words of an inode with extra fields. Times out of range become the nearest possible one.
    pub(super) fn encode(self) -> (u32, u32) {
        let secs = self.secs.clamp(Self::MIN_SECS, Self::MAX_SECS);
        let low = secs as i32;
        let epoch = ((secs - i64::from(low)) >> 32) as u32 & 3;
        (low as u32, self.nanos << 2 | epoch)
    }

    /// The word of an inode without extra fields: seconds only, clamped to 32 bits.
    pub(super) fn encode_old(self) -> u32 {
        self.secs.clamp(i32::MIN.into(), i32::MAX.into()) as i32 as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_the_kernel_documentation() {
        // Epoch bits, sign bit and the dates they give: filesystems/ext4/inodes.rst.
        let cases: [(i64, u32, u32); 6] = [
            (-0x8000_0000, 0x8000_0000, 0),
            (-1, 0xFFFF_FFFF, 0),
            (0x7FFF_FFFF, 0x7FFF_FFFF, 0),
            (0x8000_0000, 0x8000_0000, 1),
            (0x1_7FFF_FFFF, 0x7FFF_FFFF, 1),
            (0x3_7FFF_FFFF, 0x7FFF_FFFF, 3),
        ];
        for (secs, low, epoch) in cases {
            let t = Timestamp { secs, nanos: 5 };
            assert_eq!(t.encode(), (low, 5 << 2 | epoch), "{secs}");
            assert_eq!(Timestamp::decode(low, Some(5 << 2 | epoch)), t);
        }
    }

    #[test]
    fn out_of_range_is_clamped() {
        let late = Timestamp {
            secs: i64::MAX,
            nanos: 0,
        };
        let (low, extra) = late.encode();
        assert_eq!(
            Timestamp::decode(low, Some(extra)).secs,
            Timestamp::MAX_SECS
        );
        assert_eq!(late.encode_old(), 0x7FFF_FFFF);
        assert_eq!(Timestamp::decode(0, Some(u32::MAX)).nanos, 999_999_999);
    }
}
