//! Sizes on the command line, read by [`base::size`]. What a number without a suffix counts depends
//! on the option.

use base::size::{Bare, parse};

const MIB: u64 = 1 << 20;

/// Bytes; a bare number is MiB.
pub fn bytes(text: &str) -> Result<u64, String> {
    parse(text, Bare::Mib).map_err(|e| format!("`{text}` is no size: {e}"))
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
    let bytes = parse(text, Bare::Bytes).map_err(|e| format!("`{text}` is no size: {e}"))?;
    u32::try_from(bytes).map_err(|_| format!("`{text}` is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_is_what_the_option_says() {
        assert_eq!(bytes("512"), Ok(512 << 20));
        assert_eq!(bytes("512M"), Ok(512 << 20));
        assert_eq!(bytes("1441k"), Ok(1441 << 10));
        assert_eq!(bytes("2G"), bytes("2048"));
        assert_eq!(mib("1t"), Ok(1 << 20));
        assert_eq!(mib32("2048k"), Ok(2));
        assert_eq!(block("4k"), Ok(4096));
        assert_eq!(block("1024"), Ok(1024));
        assert!(bytes("5MB").unwrap_err().contains("is no size"));
        assert!(block("").unwrap_err().contains("number of bytes"));
        assert!(mib("1k").unwrap_err().contains("whole number of MiB"));
        assert!(mib_not_zero("0").unwrap_err().contains("at least 1 MiB"));
        assert!(mib32("5000T").unwrap_err().contains("too large"));
    }
}
