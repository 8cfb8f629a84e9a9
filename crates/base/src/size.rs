//! Sizes as people write them: in options of the command line, of a mount, of a URI, of the C
//! interface and of workloads.
//!
//! There is one reader for all of them, so that `16M` means the same everywhere. A size is a whole
//! number with a suffix `k`, `M`, `G` or `T` (powers of 1024, in either case), or without one. What
//! a number without a suffix counts is older than the suffixes and differs between options, so each
//! reader says it.

use std::fmt;
use std::ops::RangeInclusive;

/// What a number without a suffix counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bare {
    /// Bytes.
    Bytes,
    /// KiB.
    Kib,
    /// MiB.
    Mib,
}

impl Bare {
    /// So many bytes.
    const fn bytes(self) -> u64 {
        match self {
            Bare::Bytes => 1,
            Bare::Kib => 1 << 10,
            Bare::Mib => 1 << 20,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Bare::Bytes => "bytes",
            Bare::Kib => "KiB",
            Bare::Mib => "MiB",
        }
    }
}

/// A text that is no size, or a size that is not allowed here. Its text says what would be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrongSize {
    bare: Bare,
    /// `None`: any below 2^64 bytes.
    range: Option<RangeInclusive<u64>>,
}

impl fmt::Display for WrongSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = self.bare.word();
        write!(
            f,
            "a whole number of {unit}, or one with k, M, G or T behind it (powers of 1024), "
        )?;
        match &self.range {
            None => f.write_str("below 2^64 bytes"),
            Some(range) => write!(f, "from {} to {}", text(*range.start()), text(*range.end())),
        }
    }
}

impl std::error::Error for WrongSize {}

/// The bytes that `text` says.
///
/// # Errors
/// It is no size, or has more than 64 bits.
pub fn parse(text: &str, bare: Bare) -> Result<u64, WrongSize> {
    read(text, bare).ok_or(WrongSize { bare, range: None })
}

/// The bytes that `text` says, if the range has them.
///
/// # Errors
/// It is no size, or one outside of the range.
pub fn within(text: &str, bare: Bare, range: RangeInclusive<u64>) -> Result<u64, WrongSize> {
    let bytes = read(text, bare).filter(|bytes| range.contains(bytes));
    bytes.ok_or(WrongSize {
        bare,
        range: Some(range),
    })
}

/// The shortest text of a size: `64M`, `1536k`, `512`.
pub fn text(bytes: u64) -> String {
    let units = [(40, "T"), (30, "G"), (20, "M"), (10, "k")];
    let fits = |(shift, _): &(u32, &str)| bytes > 0 && bytes.is_multiple_of(1 << shift);
    match units.into_iter().find(fits) {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

fn read(text: &str, bare: Bare) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "" => bare.bytes(),
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        "t" | "T" => 1 << 40,
        _ => return None,
    };
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| plain)?;
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_powers_of_1024_and_a_bare_number_is_what_the_reader_says() {
        assert_eq!(parse("512", Bare::Mib), Ok(512 << 20));
        assert_eq!(parse("512", Bare::Kib), Ok(512 << 10));
        assert_eq!(parse("512", Bare::Bytes), Ok(512));
        for bare in [Bare::Bytes, Bare::Kib, Bare::Mib] {
            assert_eq!(parse("1441k", bare), Ok(1441 << 10));
            assert_eq!(parse("2G", bare), parse("2048m", bare));
            assert_eq!(parse("1t", bare), Ok(1 << 40));
            assert_eq!(parse("0", bare), Ok(0));
        }
    }

    #[test]
    fn what_is_no_size_is_told_what_would_be() {
        for bad in [
            "",
            "M",
            "-1",
            "+1",
            "1.5G",
            "5MB",
            "1 M",
            " 1",
            "99999999999999G",
            "99999999999999999999",
            "\u{661}",
        ] {
            let why = parse(bad, Bare::Mib).unwrap_err().to_string();
            assert!(why.contains("whole number of MiB"), "{bad}: {why}");
        }
    }

    #[test]
    fn a_range_is_named_with_its_ends() {
        let small = |text| within(text, Bare::Kib, 0..=64 << 10);
        assert_eq!(small("64"), Ok(65536));
        assert_eq!(small("64k"), Ok(65536));
        assert_eq!(small("65536"), small("65"));
        let why = small("65").unwrap_err().to_string();
        assert!(why.ends_with("from 0 to 64k"), "{why}");
    }

    #[test]
    fn the_shortest_text_is_read_as_the_same() {
        for (bytes, shortest) in [
            (0, "0"),
            (511, "511"),
            (1536 << 10, "1536k"),
            (64 << 20, "64M"),
            (3 << 30, "3G"),
            (1 << 40, "1T"),
        ] {
            assert_eq!(text(bytes), shortest);
            assert_eq!(parse(shortest, Bare::Bytes), Ok(bytes));
        }
    }
}
