//! The text of mount options (`key=value,...`), and the options that every file system has.

use crate::AccessTimes;

/// The items of a text; empty ones are left out.
pub fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
}

/// Key and value of an item; the value of a switch is empty.
pub fn split(item: &str) -> (&str, &str) {
    item.split_once('=').unwrap_or((item, ""))
}

/// The number of a user or group; the largest number is not a valid one.
pub fn id(value: &str) -> Option<u32> {
    value.parse().ok().filter(|&n| n != u32::MAX)
}

/// Where the options lie that every file system has.
#[derive(Debug)]
pub struct Common<'a> {
    /// `ro`, `rw`.
    pub read_only: &'a mut bool,
    /// `discard`, `nodiscard`.
    pub discard: &'a mut bool,
    /// `relatime`, `strictatime`, `noatime`.
    pub atime: &'a mut AccessTimes,
    /// `cache=MIB`, in bytes.
    pub cache_bytes: &'a mut usize,
}

impl Common<'_> {
    /// Sets the option; `None` if it is none of these, or its value is not valid.
    pub fn set(self, key: &str, value: &str) -> Option<()> {
        match (key, value) {
            ("ro", "") => *self.read_only = true,
            ("rw", "") => *self.read_only = false,
            ("discard", "") => *self.discard = true,
            ("nodiscard", "") => *self.discard = false,
            ("relatime", "") => *self.atime = AccessTimes::Relative,
            ("strictatime", "") => *self.atime = AccessTimes::Strict,
            ("noatime", "") => *self.atime = AccessTimes::Never,
            ("cache", mib) => {
                let mib = mib.parse().ok().filter(|mib| (1..=65536).contains(mib));
                *self.cache_bytes = mib.map(|mib: usize| mib << 20)?;
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_and_values() {
        let parts: Vec<_> = items(" ro, cache=16,,=x").map(split).collect();
        assert_eq!(parts, [("ro", ""), ("cache", "16"), ("", "x")]);
        assert_eq!(
            ["7", "4294967294", "4294967295", "", "root"].map(id),
            [Some(7), Some(u32::MAX - 1), None, None, None]
        );
    }

    #[test]
    fn what_all_have_is_set_or_refused() {
        let (mut read_only, mut discard) = (false, true);
        let (mut atime, mut cache_bytes) = (AccessTimes::Relative, 0);
        let mut set = |item| {
            let common = Common {
                read_only: &mut read_only,
                discard: &mut discard,
                atime: &mut atime,
                cache_bytes: &mut cache_bytes,
            };
            let (key, value) = split(item);
            common.set(key, value).is_some()
        };
        for known in ["rw", "ro", "discard", "nodiscard", "noatime", "cache=65536"] {
            assert!(set(known), "{known}");
        }
        for other in [
            "ro=1",
            "cache=0",
            "cache=65537",
            "cache",
            "data=ordered",
            "",
        ] {
            assert!(!set(other), "{other}");
        }
        assert_eq!(
            (read_only, discard, cache_bytes),
            (true, false, 65536 << 20)
        );
        assert_eq!(atime, AccessTimes::Never);
    }
}
