//! The properties of a card, apart from its chips and its timing.

use blockdev::PackOrder;
use serde::Deserialize;

/// Which side starts garbage collection in addition to that which writes force.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bkops {
    /// No side: BKOPS_SUPPORT is 0.
    Off,
    /// The host, when the card says that it is urgent (BKOPS_EN bit 0).
    Manual,
    /// The card, when it is idle (BKOPS_EN bit 1).
    Auto,
}

/// What a card is, apart from its chips.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CardConfig {
    /// Volatile write cache, KiB (CACHE_SIZE); 0: none.
    pub cache_kib: u32,
    /// CACHE_FLUSH_POLICY: true if the cache is written back in the order of arrival, else in an
    /// order that the card chooses.
    pub cache_fifo: bool,
    /// EN_REL_WR: reliable writes of any length.
    pub en_rel_wr: bool,
    /// REL_WR_SEC_C: sectors of a legacy reliable write, where EN_REL_WR is 0. With 4 KiB sectors,
    /// one such sector is allowed in any case.
    pub rel_wr_sec_c: u32,
    /// WR_REL_SET: a cut does not damage content that is not being written.
    pub wr_rel_set: bool,
    /// Largest transfer the host asks for in one command, KiB.
    pub max_transfer_kib: u32,
    /// The host switches the cache on at power-up, as Linux does.
    pub cache_on: bool,
    /// MAX_PACKED_WRITES: entries of a packed write; 0: none. 63 fit a header of 512 bytes.
    pub max_packed_writes: u32,
    /// What a cut inside a packed write leaves.
    pub pack_order: PackOrder,
    /// BARRIER_SUPPORT: cached writes can be ordered without a flush.
    pub barrier: bool,
    /// NATIVE_SECTOR_SIZE in use, bytes: 512 or 4096.
    pub native_sector: u32,
    /// Background operations.
    pub bkops: Bkops,
}

impl CardConfig {
    /// Checks these values.
    ///
    /// # Errors
    /// The first field with an impossible value, and the possible ones.
    pub fn check(&self) -> Result<(), String> {
        let fields = [
            ("cache_kib", self.cache_kib, 4, 1 << 20, true),
            ("rel_wr_sec_c", self.rel_wr_sec_c, 1, 255, false),
            ("max_transfer_kib", self.max_transfer_kib, 4, 32764, false),
            ("max_packed_writes", self.max_packed_writes, 3, 255, true),
        ];
        for (name, value, min, max, zero) in fields {
            let allowed = (min..=max).contains(&value) || (zero && value == 0);
            if !allowed {
                let none = if zero { ", or 0 for none" } else { "" };
                return Err(format!("{name} = {value}; it may be {min} to {max}{none}"));
            }
        }
        for (name, value) in [
            ("cache_kib", self.cache_kib),
            ("max_transfer_kib", self.max_transfer_kib),
        ] {
            if !value.is_multiple_of(4) {
                return Err(format!("{name} = {value}; it must be a multiple of 4"));
            }
        }
        if !matches!(self.native_sector, 512 | 4096) {
            let value = self.native_sector;
            return Err(format!("native_sector = {value}; it may be 512 or 4096"));
        }
        if self.barrier && self.cache_kib == 0 {
            return Err("barrier = true; it must be false without a cache (cache_kib = 0)".into());
        }
        Ok(())
    }
}
