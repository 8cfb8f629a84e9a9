//! Decides where a page is written: in place, or to a log, and to which log.
//!
//! The rules are those of Linux (`ipu_policy`, `min_ipu_util`, `min_fsync_blocks`, `min_hot_blocks`
//! in Documentation/ABI/testing/sysfs-fs-f2fs; "Write-hint Policy" and `active_logs` in
//! Documentation/filesystems/f2fs.rst).

use super::Why;
use base::Mutant;
use ondisk::f2fs::{Advise, Geometry, Log};

/// Main area up to which a volume is small: 16 GiB in segments.
const SMALL_VOLUME_SEGMENTS: u32 = 16 * 512;
/// In place by utilization: above so many percent (`min_ipu_util`).
const UTILIZATION_MIN: u64 = 70;
/// An fsync of at most so many dirty pages writes in place (`min_fsync_blocks`).
pub(super) const FSYNC_PAGES_MAX: usize = 8;
/// A file with at most so many dirty pages goes to the hot log (`min_hot_blocks`).
pub(super) const HOT_PAGES_MAX: usize = 16;

/// When file data may be overwritten where it lies (`ipu_policy`, a set of bits as in sysfs).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct InPlace(pub u8);

impl InPlace {
    /// Never, except for files that are cold by name.
    pub const NEVER: InPlace = InPlace(0);
    /// Always.
    pub const FORCE: InPlace = InPlace(1);
    /// While free segments are few.
    pub const SSR: InPlace = InPlace(1 << 1);
    /// While the volume is more than 70 % full.
    pub const UTIL: InPlace = InPlace(1 << 2);
    /// While both conditions hold: few free segments, and more than 70 % full.
    pub const SSR_UTIL: InPlace = InPlace(1 << 3);
    /// Pages of an fsync, if they are few.
    pub const FSYNC: InPlace = InPlace(1 << 4);

    /// The kernel's choice for a volume.
    pub fn for_volume(geo: &Geometry, lfs: bool) -> InPlace {
        match () {
            () if lfs => InPlace::NEVER,
            () if geo.segments_main <= SMALL_VOLUME_SEGMENTS => InPlace::FORCE,
            () => InPlace::FSYNC,
        }
    }

    /// True if all of `other` is in it.
    pub const fn has(self, other: InPlace) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What counts for the pages of one file in one batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub why: Why,
    pub dir: bool,
    pub atomic: bool,
    pub advise: Advise,
    /// At most [`FSYNC_PAGES_MAX`] pages are dirty.
    pub few: bool,
    /// At most [`HOT_PAGES_MAX`] pages are dirty.
    pub small: bool,
    /// `mode=lfs`, or `checkpoint=disable`: what the last checkpoint knows must stay as it is.
    pub lfs: bool,
    pub policy: InPlace,
    pub short_of_segments: bool,
    /// Percent of the users' blocks in use.
    pub utilization: u64,
    /// The transaction that maps what goes out of place may have its checksums.
    pub summed: bool,
}

impl Facts {
    /// Whether a block that is mapped may be overwritten.
    pub fn in_place(&self) -> bool {
        let fresh = self.why == Why::Rewrite && !rt::mutant(Mutant::F2fsCutInPlace);
        if self.lfs || self.dir || self.atomic || fresh || self.why == Why::Clean {
            return false;
        }
        let full = self.utilization > UTILIZATION_MIN;
        self.advise.has(Advise::COLD)
            || self.policy.has(InPlace::FORCE)
            || self.policy.has(InPlace::SSR) && self.short_of_segments
            || self.policy.has(InPlace::UTIL) && full
            || self.policy.has(InPlace::SSR_UTIL) && self.short_of_segments && full
            || self.policy.has(InPlace::FSYNC) && self.why == Why::Fsync && self.few
    }

    /// The log for what goes out of place.
    pub fn log(&self) -> Log {
        if self.why == Why::Clean {
            Log::ColdData
        } else if self.dir {
            Log::HotData
        } else if self.advise.has(Advise::COLD) {
            Log::ColdData
        } else if self.atomic || self.small || self.advise.has(Advise::HOT) {
            Log::HotData
        } else {
            Log::WarmData
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Facts = Facts {
        why: Why::Flush,
        dir: false,
        atomic: false,
        advise: Advise(0),
        few: true,
        small: false,
        lfs: false,
        policy: InPlace::FORCE,
        short_of_segments: false,
        utilization: 50,
        summed: false,
    };

    #[test]
    fn some_pages_never_go_in_place() {
        assert!(PLAIN.in_place());
        for (why, facts) in [
            ("mode=lfs", Facts { lfs: true, ..PLAIN }),
            ("directory", Facts { dir: true, ..PLAIN }),
            (
                "atomic write",
                Facts {
                    atomic: true,
                    ..PLAIN
                },
            ),
            (
                "moved or cut",
                Facts {
                    why: Why::Rewrite,
                    ..PLAIN
                },
            ),
            (
                "cleaning",
                Facts {
                    why: Why::Clean,
                    ..PLAIN
                },
            ),
            (
                "no policy",
                Facts {
                    policy: InPlace::NEVER,
                    ..PLAIN
                },
            ),
        ] {
            assert!(!facts.in_place(), "file-D4: {why}");
        }
    }

    #[test]
    fn policies_look_at_what_they_name() {
        let with = |policy, short, utilization| Facts {
            policy,
            short_of_segments: short,
            utilization,
            ..PLAIN
        };
        for (policy, short, utilization, expected) in [
            (InPlace::SSR, true, 0, true),
            (InPlace::SSR, false, 99, false),
            (InPlace::UTIL, false, 71, true),
            (InPlace::UTIL, true, 70, false),
            (InPlace::SSR_UTIL, true, 71, true),
            (InPlace::SSR_UTIL, true, 70, false),
            (InPlace::SSR_UTIL, false, 71, false),
            (InPlace::FSYNC, true, 99, false),
        ] {
            let facts = with(policy, short, utilization);
            assert_eq!(facts.in_place(), expected, "{facts:?}");
        }
        let sync = Facts {
            why: Why::Fsync,
            policy: InPlace::FSYNC,
            ..PLAIN
        };
        assert!(sync.in_place());
        assert!(!Facts { few: false, ..sync }.in_place());
        let cold = Facts {
            advise: Advise::COLD,
            policy: InPlace::NEVER,
            ..PLAIN
        };
        assert!(cold.in_place(), "files cold by name are overwritten");
    }

    #[test]
    fn temperature() {
        let advise = |advise| Facts { advise, ..PLAIN };
        assert_eq!(PLAIN.log(), Log::WarmData);
        assert_eq!(advise(Advise::COLD).log(), Log::ColdData);
        assert_eq!(advise(Advise::HOT).log(), Log::HotData);
        assert_eq!(
            Facts {
                small: true,
                ..PLAIN
            }
            .log(),
            Log::HotData
        );
        assert_eq!(Facts { dir: true, ..PLAIN }.log(), Log::HotData);
        assert_eq!(
            Facts {
                atomic: true,
                ..PLAIN
            }
            .log(),
            Log::HotData
        );
        let cold = Why::Clean;
        assert_eq!(
            Facts {
                why: cold,
                dir: true,
                ..PLAIN
            }
            .log(),
            Log::ColdData
        );
    }
}
