//! The EXT_CSD register of a real eMMC: what it says for certain, so that it need not be fitted.
//!
//! Linux shows it as hexadecimal text in `/sys/kernel/debug/mmcN/mmcN:ADDRESS/ext_csd`, for root.
//! Bytes are those of JESD84-B51 7.4.

use crate::fit::Given;
use ctrl::emmc::{FieldText, field};
use toml::Value;

/// Bytes of the register.
const BYTES: usize = 512;

/// The register, as the card told it.
#[derive(Clone, Debug)]
pub struct ExtCsd(ctrl::emmc::ExtCsd);

/// A field in words.
pub type Register = FieldText;

impl ExtCsd {
    /// From the hexadecimal text that Linux shows.
    ///
    /// # Errors
    /// Not 512 bytes, or not hexadecimal; in words.
    pub fn from_hex(text: &str) -> Result<ExtCsd, String> {
        let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        if digits.len() != BYTES * 2 {
            let found = digits.len();
            return Err(format!(
                "an EXT_CSD has {BYTES} bytes, {} hexadecimal digits; here are {found} characters",
                BYTES * 2
            ));
        }
        let digit = |at: usize| {
            let c = char::from(digits[at]);
            c.to_digit(16)
                .ok_or_else(|| format!("character {at} is `{c}`, no hexadecimal digit"))
        };
        let byte = |i: usize| Ok((digit(i * 2)? << 4 | digit(i * 2 + 1)?) as u8);
        let raw: Result<Vec<u8>, String> = (0..BYTES).map(byte).collect();
        Ok(ExtCsd(ctrl::emmc::ExtCsd::from_bytes(raw?)))
    }
    /// Its fields in words, ascending.
    pub fn registers(&self) -> Vec<Register> {
        self.0.describe()
    }
    /// The fields of an `emmc` profile that it decides.
    pub fn given(&self) -> Vec<Given> {
        let get = |at| self.0.get(at);
        let u32_at = |at: usize| (0..4).fold(0, |sum, i| sum | i64::from(get(at + i)) << (8 * i));
        let bit = |at, bit: u8| Value::Boolean(get(at) >> bit & 1 == 1);
        let cache = u32_at(field::CACHE_SIZE);
        let packed = match i64::from(get(field::MAX_PACKED_WRITES)) {
            // A profile has either none or at least three.
            n @ 3.. => n,
            _ => 0,
        };
        let native = match get(field::DATA_SECTOR_SIZE) {
            0 => 512,
            _ => 4096,
        };
        let all = [
            (
                "cache_kib",
                Value::Integer(cache / 4 * 4),
                "CACHE_SIZE",
                field::CACHE_SIZE,
            ),
            (
                "cache_fifo",
                bit(field::CACHE_FLUSH_POLICY, 0),
                "CACHE_FLUSH_POLICY",
                field::CACHE_FLUSH_POLICY,
            ),
            (
                "en_rel_wr",
                bit(field::WR_REL_PARAM, 2),
                "EN_REL_WR",
                field::WR_REL_PARAM,
            ),
            (
                "wr_rel_set",
                bit(field::WR_REL_SET, 0),
                "WR_REL_SET",
                field::WR_REL_SET,
            ),
            (
                "max_packed_writes",
                Value::Integer(packed),
                "MAX_PACKED_WRITES",
                field::MAX_PACKED_WRITES,
            ),
            (
                "rel_wr_sec_c",
                Value::Integer(i64::from(get(field::REL_WR_SEC_C)).max(1)),
                "REL_WR_SEC_C",
                field::REL_WR_SEC_C,
            ),
            (
                "barrier",
                Value::Boolean(cache > 0 && get(field::BARRIER_SUPPORT) & 1 == 1),
                "BARRIER_SUPPORT",
                field::BARRIER_SUPPORT,
            ),
            (
                "native_sector",
                Value::Integer(native),
                "DATA_SECTOR_SIZE",
                field::DATA_SECTOR_SIZE,
            ),
        ];
        let given = all.map(|(name, value, register, byte)| Given {
            field: format!("card.{name}"),
            value,
            from: format!("EXT_CSD byte {byte}, {register}"),
        });
        given.to_vec()
    }
}
