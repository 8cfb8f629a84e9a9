//! The text of mount options (`key=value,...`), and the options that every file system has.

use crate::{AccessTimes, FsError};
use base::UnknownWord;
use base::size::{Bare, within};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

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

/// A word of an enum.
///
/// # Errors
/// What is allowed, if `value` is not.
pub fn word<T: FromStr<Err = UnknownWord>>(value: &str) -> Result<T, String> {
    value.parse().map_err(|e: UnknownWord| one_of(&e.valid))
}

/// A whole number.
///
/// # Errors
/// What is allowed, if `value` is not.
pub fn number<T>(value: &str, range: RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    let number = value.parse().ok().filter(|n| range.contains(n));
    let (least, most) = (range.start(), range.end());
    number.ok_or_else(|| format!("it may be a whole number from {least} to {most}"))
}

/// Bytes; what a number without a suffix counts says `bare`.
///
/// # Errors
/// What is allowed, if `value` is not.
pub fn size(value: &str, bare: Bare, range: RangeInclusive<u64>) -> Result<u64, String> {
    within(value, bare, range).map_err(|e| format!("it may be {e}"))
}

/// The number of a user or group; the largest number is not a valid one.
///
/// # Errors
/// What is allowed, if `value` is not.
pub fn id(value: &str) -> Result<u32, String> {
    number(value, 0..=u32::MAX - 1)
}

/// A switch, which is there or is not.
///
/// # Errors
/// It has a value.
pub fn switch(value: &str) -> Result<(), String> {
    match value {
        "" => Ok(()),
        _ => Err("it takes no value".into()),
    }
}

/// Says that a value is none of these.
pub fn one_of(words: &[&str]) -> String {
    match words {
        [only] => format!("it may be {only}"),
        [first @ .., last] => format!("it may be {} or {last}", first.join(", ")),
        [] => "it may have no value".into(),
    }
}

/// The refusal of an option whose value is not allowed; `allowed` says what is.
pub fn bad_value(item: &str, allowed: impl Display) -> FsError {
    FsError::options(format!("mount option `{item}`: {allowed}"))
}

/// The refusal of an option that does not exist; `there_are` names those that do.
pub fn unknown(item: &str, there_are: impl Display) -> FsError {
    FsError::options(format!(
        "mount option `{item}` is unknown; there are: {there_are}"
    ))
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
    /// `cache=SIZE`, in bytes; a bare number is MiB.
    pub cache_bytes: &'a mut usize,
}

/// Bounds of `cache=`.
const CACHE_BYTES: RangeInclusive<u64> = 1 << 20..=64 << 30;

impl Common<'_> {
    /// Sets the option; false if it is none of these.
    ///
    /// # Errors
    /// What is allowed as its value, if that is not.
    pub fn set(self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "ro" => *self.read_only = true,
            "rw" => *self.read_only = false,
            "discard" => *self.discard = true,
            "nodiscard" => *self.discard = false,
            "relatime" => *self.atime = AccessTimes::Relative,
            "strictatime" => *self.atime = AccessTimes::Strict,
            "noatime" => *self.atime = AccessTimes::Never,
            "cache" => {
                let bytes = size(value, Bare::Mib, CACHE_BYTES)?;
                *self.cache_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                return Ok(true);
            }
            _ => return Ok(false),
        }
        switch(value).map(|()| true)
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
            ["7", "4294967294", "4294967295", "", "root"].map(|text| id(text).ok()),
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
            common.set(key, value)
        };
        for known in ["rw", "ro", "discard", "nodiscard", "noatime", "cache=65536"] {
            assert_eq!(set(known), Ok(true), "{known}");
        }
        for other in ["data=ordered", ""] {
            assert_eq!(set(other), Ok(false), "{other}");
        }
        assert_eq!(set("ro=1"), Err("it takes no value".into()));
        for bad in ["cache=0", "cache=65537", "cache", "cache=1k", "cache=x"] {
            let why = set(bad).expect_err(bad);
            assert!(
                why.contains("number of MiB") && why.ends_with("from 1M to 64G"),
                "{why}"
            );
        }
        assert_eq!(
            (read_only, discard, cache_bytes),
            (true, false, 65536 << 20)
        );
        assert_eq!(atime, AccessTimes::Never);
    }

    #[test]
    fn a_cache_is_a_size() {
        for (item, bytes) in [
            ("16", 16 << 20),
            ("16M", 16 << 20),
            ("1024k", 1 << 20),
            ("2G", 2 << 30),
        ] {
            let (mut read_only, mut discard) = (false, false);
            let (mut atime, mut cache_bytes) = (AccessTimes::Relative, 0);
            let common = Common {
                read_only: &mut read_only,
                discard: &mut discard,
                atime: &mut atime,
                cache_bytes: &mut cache_bytes,
            };
            assert_eq!(common.set("cache", item), Ok(true));
            assert_eq!(cache_bytes, bytes, "{item}");
        }
    }

    #[test]
    fn words_are_told_as_a_sentence() {
        assert_eq!(one_of(&["a"]), "it may be a");
        assert_eq!(one_of(&["a", "b", "c"]), "it may be a, b or c");
    }
}
