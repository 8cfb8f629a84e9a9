//! Deflated bytes, with what is needed to inflate them and to see that they are whole.

use super::sum;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};

/// What is known of deflated bytes: how many there are, how many they become, and the checksum of
/// the former.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(from = "(u64, u64, String)", into = "(u64, u64, String)")]
pub struct Part {
    /// Bytes.
    pub bytes: u64,
    /// Bytes when inflated.
    pub plain: u64,
    sum: String,
}

impl From<(u64, u64, String)> for Part {
    fn from((bytes, plain, sum): (u64, u64, String)) -> Part {
        Part { bytes, plain, sum }
    }
}

impl From<Part> for (u64, u64, String) {
    fn from(part: Part) -> (u64, u64, String) {
        (part.bytes, part.plain, part.sum)
    }
}

/// Deflating makes no more bytes of one than so many.
const INFLATES_MAX: u64 = 1032;

impl Part {
    /// Whether so many bytes can become so many.
    pub fn is_possible(&self) -> bool {
        self.plain <= self.bytes.saturating_mul(INFLATES_MAX)
    }

    /// Inflates.
    ///
    /// # Errors
    /// These are other bytes.
    pub fn inflated(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        if bytes.len() as u64 != self.bytes || checksum(bytes) != self.sum {
            return Err("a checksum is wrong".into());
        }
        let mut plain = Vec::new();
        // What says that it becomes more than it should takes no more memory for that.
        let read = ZlibDecoder::new(bytes).take(self.plain.saturating_add(1));
        let read = { read }.read_to_end(&mut plain);
        match read {
            Ok(length) if length as u64 == self.plain => Ok(plain),
            Ok(_) => Err("it has other bytes than its first line says".into()),
            Err(e) => Err(e.to_string()),
        }
    }
}

/// Deflates.
pub fn deflated(plain: &[u8]) -> (Part, Vec<u8>) {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain).expect("memory takes all bytes");
    let bytes = encoder.finish().expect("memory takes all bytes");
    let part = Part {
        bytes: bytes.len() as u64,
        plain: plain.len() as u64,
        sum: checksum(&bytes),
    };
    (part, bytes)
}

fn checksum(bytes: &[u8]) -> String {
    sum(bytes)[..32].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_deflated_is_inflated_and_anything_else_is_refused() {
        let plain = b"judged 34, judged 43, judged 34".repeat(100);
        let (part, bytes) = deflated(&plain);
        assert!(bytes.len() < plain.len() / 10, "{}", bytes.len());
        assert_eq!(part.inflated(&bytes).unwrap(), plain);
        for n in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[n] ^= 1;
            assert!(part.inflated(&changed).is_err(), "byte {n}");
        }
        assert!(part.inflated(&bytes[1..]).is_err());
        for plain in [part.plain - 1, part.plain + 1] {
            let other = Part {
                plain,
                ..part.clone()
            };
            let why = other.inflated(&bytes).unwrap_err();
            assert!(why.contains("other bytes"), "{why}");
        }
    }
}
