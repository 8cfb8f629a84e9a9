//! Checksums of the on-disk formats: CRC32C and CRC-16, as raw registers.

/// CRC32C as a raw register: no inversion before or after, as JBD2 and ext4 use it
/// (`crc32c(~0, ...)` in kernel terms is `crc32c(!0, ...)` here).
pub fn crc32c(seed: u32, data: &[u8]) -> u32 {
    !::crc32c::crc32c_append(!seed, data)
}

/// CRC-16 (polynomial 0xA001, reflected) of ext4 group descriptors with feature `uninit_bg`
/// (`gdt_csum`).
pub fn crc16(seed: u16, data: &[u8]) -> u16 {
    data.iter().fold(seed, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte), |c, _| {
            if c & 1 != 0 {
                (c >> 1) ^ 0xA001
            } else {
                c >> 1
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_values() {
        // Catalogue values: CRC-32C("123456789") = E3069283 (inverted), CRC-16/ARC = BB3D.
        assert_eq!(!crc32c(!0, b"123456789"), 0xE306_9283);
        assert_eq!(crc16(0, b"123456789"), 0xBB3D);
    }

    #[test]
    fn crc32c_chains() {
        assert_eq!(
            crc32c(crc32c(7, b"1234"), b"56789"),
            crc32c(7, b"123456789")
        );
    }
}
