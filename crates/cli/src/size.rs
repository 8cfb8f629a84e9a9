//! Sizes on the command line: a number with a suffix k, M, G or T (powers of 1024). What a number
//! without a suffix counts depends on the option.

const MIB: u64 = 1 << 20;

/// Bytes; a bare number is MiB.
pub fn bytes(text: &str) -> Result<u64, String> {
    parse(text, MIB).ok_or_else(|| wrong(text, "MiB"))
}

/// Parses a size of whole MiB; a bare number is MiB.
pub fn mib(text: &str) -> Result<u64, String> {
    match bytes(text)? {
        bytes if bytes % MIB != 0 => Err(format!("`{text}` is no whole number of MiB")),
        bytes => Ok(bytes / MIB),
    }
}

/// Whole MiB, at least one.
pub fn mib_not_zero(text: &str) -> Result<u64, String> {
    match mib(text)? {
        0 => Err(format!("`{text}`: at least 1 MiB is needed")),
        mib => Ok(mib),
    }
}

/// Whole MiB, as many as fit into 32 bits.
pub fn mib32(text: &str) -> Result<u32, String> {
    u32::try_from(mib(text)?).map_err(|_| format!("`{text}` is too large"))
}

/// Bytes of a block; a bare number is bytes.
pub fn block(text: &str) -> Result<u32, String> {
    let bytes = parse(text, 1).ok_or_else(|| wrong(text, "bytes"))?;
    u32::try_from(bytes).map_err(|_| format!("`{text}` is too large"))
}

fn wrong(text: &str, unit: &str) -> String {
    format!(
        "`{text}` is no size: a whole number of {unit}, or one with k, M, G or T behind it (powers of 1024), below 2^64 bytes"
    )
}

fn parse(text: &str, bare: u64) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "" => bare,
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
    fn suffixes_are_binary_and_bare_numbers_stay_what_they_were() {
        assert_eq!(bytes("512"), Ok(512 << 20));
        assert_eq!(bytes("512M"), Ok(512 << 20));
        assert_eq!(bytes("1441k"), Ok(1441 << 10));
        assert_eq!(bytes("2G"), bytes("2048"));
        assert_eq!(mib("1t"), Ok(1 << 20));
        assert_eq!(mib32("2048k"), Ok(2));
        assert_eq!(block("4k"), Ok(4096));
        assert_eq!(block("1024"), Ok(1024));
        for bad in [
            "",
            "M",
            "-1",
            "+1",
            "1.5G",
            "5MB",
            "1 M",
            "99999999999999G",
            "\u{661}",
        ] {
            assert!(bytes(bad).unwrap_err().contains("is no size"), "{bad}");
        }
        assert!(mib("1k").unwrap_err().contains("whole number of MiB"));
        assert!(mib_not_zero("0").unwrap_err().contains("at least 1 MiB"));
        assert!(mib32("5000T").unwrap_err().contains("too large"));
    }
}
