//! Escaping: a logged block that begins with the magic number would look like a control block to
//! recovery, so its first four bytes are zeroed in the log and its tag says so.

use super::MAGIC;
use base::bytes::put_be32;

/// True if this block must be escaped in the log.
pub fn needs_escape(home: &[u8]) -> bool {
    home.starts_with(&MAGIC.to_be_bytes())
}

/// Turns a home image that [needs escaping](needs_escape) into its log image.
pub fn escape(image: &mut [u8]) {
    put_be32(image, 0, 0);
}

/// Turns the log image of an escaped block back into its home image.
pub fn unescape(image: &mut [u8]) {
    put_be32(image, 0, MAGIC);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let home = [0xC0, 0x3B, 0x39, 0x98, 5];
        assert!(needs_escape(&home) && !needs_escape(&home[1..]) && !needs_escape(&home[..3]));
        let mut image = home;
        escape(&mut image);
        assert_eq!(image, [0, 0, 0, 0, 5]);
        unescape(&mut image);
        assert_eq!(image, home);
    }
}
