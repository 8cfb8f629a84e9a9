//! The CRC-32 of v1 checksums: polynomial 0x04C11DB7, most significant bit first, raw register.

/// Continues the CRC-32 register `crc` over `data`. A v1 commit checksum starts from `!0` and runs
/// over every descriptor and logged block of the transaction in log order.
pub fn crc32_be(crc: u32, data: &[u8]) -> u32 {
    data.iter().fold(crc, |crc, &byte| {
        (0..8).fold(crc ^ (u32::from(byte) << 24), |c, _| {
            if c & 0x8000_0000 != 0 {
                (c << 1) ^ 0x04C1_1DB7
            } else {
                c << 1
            }
        })
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn catalogue_value() {
        // CRC-32/MPEG-2, the catalogue's name of this variant with start value !0 and no final
        // inversion.
        assert_eq!(super::crc32_be(!0, b"123456789"), 0x0376_E6E7);
    }
}
