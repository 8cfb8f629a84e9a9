//! The checksum of F2FS: CRC-32 (polynomial 0x04C11DB7, reflected 0xEDB88320) as a raw register, no
//! inversion before or after. Volume structures start it from the magic number of the superblock.

/// Start value of the checksums of volume structures: the magic number.
pub const CRC_SEED: u32 = 0xF2F5_2010;

const POLY: u32 = 0xEDB8_8320;
const SLICES: usize = 8;

static TABLES: [[u32; 256]; SLICES] = tables();

const fn tables() -> [[u32; 256]; SLICES] {
    let mut t = [[0u32; 256]; SLICES];
    let mut n = 0;
    while n < 256 {
        let mut crc = n as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 {
                (crc >> 1) ^ POLY
            } else {
                crc >> 1
            };
            bit += 1;
        }
        t[0][n] = crc;
        n += 1;
    }
    let mut slice = 1;
    while slice < SLICES {
        let mut n = 0;
        while n < 256 {
            let before = t[slice - 1][n];
            t[slice][n] = (before >> 8) ^ t[0][(before & 0xFF) as usize];
            n += 1;
        }
        slice += 1;
    }
    t
}

/// Continues the register `seed` over `data` (`f2fs_chksum`); chains:
/// `crc(crc(s, a), b) == crc(s, ab)`.
pub fn crc(seed: u32, data: &[u8]) -> u32 {
    let (words, rest) = data.as_chunks::<SLICES>();
    let mut reg = seed;
    for word in words {
        let low = reg ^ u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        reg = TABLES[7][(low & 0xFF) as usize]
            ^ TABLES[6][(low >> 8 & 0xFF) as usize]
            ^ TABLES[5][(low >> 16 & 0xFF) as usize]
            ^ TABLES[4][(low >> 24) as usize]
            ^ TABLES[3][usize::from(word[4])]
            ^ TABLES[2][usize::from(word[5])]
            ^ TABLES[1][usize::from(word[6])]
            ^ TABLES[0][usize::from(word[7])];
    }
    rest.iter().fold(reg, |reg, &byte| {
        (reg >> 8) ^ TABLES[0][((reg ^ u32::from(byte)) & 0xFF) as usize]
    })
}

/// The checksum of a volume structure (`f2fs_crc32`): from [`CRC_SEED`].
pub fn crc_f2fs(data: &[u8]) -> u32 {
    crc(CRC_SEED, data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_value_of_the_catalogue() {
        // CRC-32/ISO-HDLC("123456789") = CBF43926, inverted at both ends.
        assert_eq!(!crc(!0, b"123456789"), 0xCBF4_3926);
        assert_eq!(crc(crc(7, b"12345678901"), b"23"), crc(7, b"1234567890123"));
    }
}
