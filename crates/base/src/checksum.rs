//! Checksums of the on-disk formats: CRC32C and CRC-16, as raw registers.

/// CRC32C as a raw register: no inversion before or after, as JBD2 and ext4 use it
/// (`crc32c(~0, ...)` in kernel terms is `crc32c(!0, ...)` here).
pub fn crc32c(seed: u32, data: &[u8]) -> u32 {
    !::crc32c::crc32c_append(!seed, data)
}

/// What a CRC32C changes by (exclusive or) where `new` replaces `old` and `after` bytes follow.
/// Registers of equally long data differ by the register of their difference that began with 0;
/// bytes before the difference leave that 0, and each byte behind it multiplies by x^8.
///
/// # Panics
/// If the two differ in length.
pub fn crc32c_change(old: &[u8], new: &[u8], after: usize) -> u32 {
    assert_eq!(old.len(), new.len(), "a replacement has the same length");
    let mut change = 0;
    let mut difference = [0; 64];
    for (old, new) in old.chunks(difference.len()).zip(new.chunks(64)) {
        let pairs = old.iter().zip(new);
        difference
            .iter_mut()
            .zip(pairs)
            .for_each(|(d, (a, b))| *d = a ^ b);
        change = crc32c(change, &difference[..old.len()]);
    }
    times_bytes(change, after)
}

/// A register after so many bytes of zero.
fn times_bytes(mut register: u32, bytes: usize) -> u32 {
    let mut left = bytes;
    while left > 0 {
        let step = left.min(BYTE_POWERS.len() - 1);
        register = multiply(register, BYTE_POWERS[step]);
        left -= step;
    }
    register
}

/// The polynomial of CRC32C, reflected: the highest power is the lowest bit.
const POLYNOMIAL: u32 = 0x82F6_3B78;
/// x^0 in a reflected register.
const ONE: u32 = 1 << 31;
/// x^(8 n) by n, up to the bytes of a block of 4 KiB.
static BYTE_POWERS: [u32; 4097] = byte_powers();

const fn byte_powers() -> [u32; 4097] {
    let mut powers = [ONE; 4097];
    let mut n = 1;
    while n < powers.len() {
        let mut power = powers[n - 1];
        let mut bit = 0;
        while bit < 8 {
            power = times_x(power);
            bit += 1;
        }
        powers[n] = power;
        n += 1;
    }
    powers
}

const fn times_x(a: u32) -> u32 {
    // The mask is all ones where the power 31 becomes 32.
    (a >> 1) ^ (POLYNOMIAL & (a & 1).wrapping_neg())
}

/// What four bits, which x^4 moves out of a register, add to the rest.
static REDUCED: [u32; 16] = reduced();

const fn reduced() -> [u32; 16] {
    let mut all = [0; 16];
    let mut n = 0;
    while n < all.len() {
        all[n] = times_x(times_x(times_x(times_x(n as u32))));
        n += 1;
    }
    all
}

/// The product of two polynomials modulo that of CRC32C, by four bits of `a` at a time.
fn multiply(a: u32, b: u32) -> u32 {
    let mut multiples = [0; 16];
    (multiples[8], multiples[4]) = (b, times_x(b));
    multiples[2] = times_x(multiples[4]);
    multiples[1] = times_x(multiples[2]);
    for n in 3..16usize {
        multiples[n] = multiples[n & (n - 1)] ^ multiples[n & n.wrapping_neg()];
    }
    // The highest powers first, which are the lowest bits.
    (0..8).fold(0, |product, n| {
        let times_x4 = product >> 4 ^ REDUCED[product as usize & 15];
        times_x4 ^ multiples[(a >> (4 * n)) as usize & 15]
    })
}

/// [`crc32c()`] of `data`, whose zeros at the end cost next to nothing.
pub fn crc32c_sparse(seed: u32, data: &[u8]) -> u32 {
    let blank = data
        .rchunks(64)
        .take_while(|chunk| crate::bytes::is_zero(chunk));
    let zeros: usize = blank.map(<[u8]>::len).sum();
    times_bytes(crc32c(seed, &data[..data.len() - zeros]), zeros)
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
    fn a_change_is_that_of_the_whole() {
        let old: Vec<u8> = (0..10_000u32).map(|n| ((n * n) >> 3) as u8).collect();
        for (at, len) in [
            (0, 10_000),
            (0, 1),
            (9_999, 1),
            (5_000, 37),
            (1, 0),
            (5_903, 1),
            (5_904, 1),
        ] {
            let mut new = old.clone();
            new[at..at + len]
                .iter_mut()
                .for_each(|b| *b = b.wrapping_mul(7) ^ 0x55);
            let change = crc32c_change(&old[at..at + len], &new[at..at + len], 10_000 - at - len);
            assert_eq!(crc32c(77, &old) ^ change, crc32c(77, &new), "{at} {len}");
        }
    }

    #[test]
    fn zeros_at_the_end_count() {
        for zeros in [0, 1, 63, 64, 65, 200, 4084, 9000] {
            let mut data: Vec<u8> = (1..100).collect();
            data.resize(99 + zeros, 0);
            assert_eq!(crc32c_sparse(3, &data), crc32c(3, &data), "{zeros}");
            data.fill(0);
            assert_eq!(crc32c_sparse(3, &data), crc32c(3, &data), "{zeros}");
        }
        assert_eq!(crc32c_sparse(3, &[]), 3);
    }

    #[test]
    fn crc32c_chains() {
        assert_eq!(
            crc32c(crc32c(7, b"1234"), b"56789"),
            crc32c(7, b"123456789")
        );
    }
}
