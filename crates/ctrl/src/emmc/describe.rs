//! EXT_CSD in words: name and meaning of the fields that matter for this card (JESD84-B51 7.4).

use super::ext_csd::{ExtCsd, field};
use base::bytes::get_le32;
use serde::Serialize;

/// A field of EXT_CSD.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FieldText {
    /// Offset of its first byte.
    pub byte: usize,
    /// Its name in the standard.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// What that value means.
    pub meaning: String,
}

/// First byte, number of bytes, name.
const FIELDS: [(usize, usize, &str); 66] = [
    (field::CMDQ_MODE_EN, 1, "CMDQ_MODE_EN"),
    (field::BARRIER_CTRL, 1, "BARRIER_CTRL"),
    (field::FLUSH_CACHE, 1, "FLUSH_CACHE"),
    (field::CACHE_CTRL, 1, "CACHE_CTRL"),
    (field::POWER_OFF_NOTIFICATION, 1, "POWER_OFF_NOTIFICATION"),
    (field::PACKED_FAILURE_INDEX, 1, "PACKED_FAILURE_INDEX"),
    (field::PACKED_COMMAND_STATUS, 1, "PACKED_COMMAND_STATUS"),
    (37, 1, "CONTEXT_CONF"),
    (field::EXCEPTION_EVENTS_STATUS, 2, "EXCEPTION_EVENTS_STATUS"),
    (field::EXCEPTION_EVENTS_CTRL, 2, "EXCEPTION_EVENTS_CTRL"),
    (field::DATA_SECTOR_SIZE, 1, "DATA_SECTOR_SIZE"),
    (field::USE_NATIVE_SECTOR, 1, "USE_NATIVE_SECTOR"),
    (field::NATIVE_SECTOR_SIZE, 1, "NATIVE_SECTOR_SIZE"),
    (134, 1, "SEC_BAD_BLK_MGMNT"),
    (155, 1, "PARTITION_SETTING_COMPLETED"),
    (156, 1, "PARTITIONS_ATTRIBUTE"),
    (160, 1, "PARTITIONING_SUPPORT"),
    (field::HPI_MGMT, 1, "HPI_MGMT"),
    (162, 1, "RST_n_FUNCTION"),
    (field::BKOPS_EN, 1, "BKOPS_EN"),
    (field::BKOPS_START, 1, "BKOPS_START"),
    (165, 1, "SANITIZE_START"),
    (field::WR_REL_PARAM, 1, "WR_REL_PARAM"),
    (field::WR_REL_SET, 1, "WR_REL_SET"),
    (171, 1, "USER_WP"),
    (173, 1, "BOOT_WP"),
    (field::ERASE_GROUP_DEF, 1, "ERASE_GROUP_DEF"),
    (field::PARTITION_CONFIG, 1, "PARTITION_CONFIG"),
    (field::BUS_WIDTH, 1, "BUS_WIDTH"),
    (184, 1, "STROBE_SUPPORT"),
    (field::HS_TIMING, 1, "HS_TIMING"),
    (field::EXT_CSD_REV, 1, "EXT_CSD_REV"),
    (field::OUT_OF_INTERRUPT_TIME, 1, "OUT_OF_INTERRUPT_TIME"),
    (field::PARTITION_SWITCH_TIME, 1, "PARTITION_SWITCH_TIME"),
    (field::SEC_COUNT, 4, "SEC_COUNT"),
    (field::S_A_TIMEOUT, 1, "S_A_TIMEOUT"),
    (field::HC_WP_GRP_SIZE, 1, "HC_WP_GRP_SIZE"),
    (field::REL_WR_SEC_C, 1, "REL_WR_SEC_C"),
    (field::ERASE_TIMEOUT_MULT, 1, "ERASE_TIMEOUT_MULT"),
    (field::HC_ERASE_GRP_SIZE, 1, "HC_ERASE_GRP_SIZE"),
    (field::SEC_FEATURE_SUPPORT, 1, "SEC_FEATURE_SUPPORT"),
    (field::CACHE_FLUSH_POLICY, 1, "CACHE_FLUSH_POLICY"),
    (242, 4, "CORRECTLY_PRG_SECTORS_NUM"),
    (field::BKOPS_STATUS, 1, "BKOPS_STATUS"),
    (field::POWER_OFF_LONG_TIME, 1, "POWER_OFF_LONG_TIME"),
    (field::GENERIC_CMD6_TIME, 1, "GENERIC_CMD6_TIME"),
    (field::CACHE_SIZE, 4, "CACHE_SIZE"),
    (264, 1, "OPTIMAL_TRIM_UNIT_SIZE"),
    (field::OPTIMAL_WRITE_SIZE, 1, "OPTIMAL_WRITE_SIZE"),
    (field::OPTIMAL_READ_SIZE, 1, "OPTIMAL_READ_SIZE"),
    (field::PRE_EOL_INFO, 1, "PRE_EOL_INFO"),
    (field::LIFE_TIME_EST_A, 1, "DEVICE_LIFE_TIME_EST_TYP_A"),
    (field::LIFE_TIME_EST_B, 1, "DEVICE_LIFE_TIME_EST_TYP_B"),
    (307, 1, "CMDQ_DEPTH"),
    (308, 1, "CMDQ_SUPPORT"),
    (field::BARRIER_SUPPORT, 1, "BARRIER_SUPPORT"),
    (495, 1, "LARGE_UNIT_SIZE_M1"),
    (496, 1, "CONTEXT_CAPABILITIES"),
    (497, 1, "TAG_RES_SIZE"),
    (498, 1, "TAG_UNIT_SIZE"),
    (499, 1, "DATA_TAG_SUPPORT"),
    (field::MAX_PACKED_WRITES, 1, "MAX_PACKED_WRITES"),
    (field::MAX_PACKED_READS, 1, "MAX_PACKED_READS"),
    (field::BKOPS_SUPPORT, 1, "BKOPS_SUPPORT"),
    (field::HPI_FEATURES, 1, "HPI_FEATURES"),
    (504, 1, "S_CMD_SET"),
];

impl ExtCsd {
    /// The fields in words, ascending.
    pub fn describe(&self) -> Vec<FieldText> {
        let raw = self.bytes();
        let field = |&(byte, bytes, name): &(usize, usize, &'static str)| {
            let value = match bytes {
                4 => u64::from(get_le32(raw, byte)),
                2 => u64::from(raw[byte]) | u64::from(raw[byte + 1]) << 8,
                _ => u64::from(raw[byte]),
            };
            FieldText {
                byte,
                name,
                value,
                meaning: meaning(byte, value),
            }
        };
        FIELDS.iter().map(field).collect()
    }
}

fn on_off(value: u64) -> String {
    (if value & 1 == 1 { "on" } else { "off" }).into()
}

fn supported(value: u64) -> String {
    (if value & 1 == 1 { "supported" } else { "no" }).into()
}

fn tens_of_ms(value: u64) -> String {
    format!("{} ms", value * 10)
}

fn version(value: u64) -> String {
    match value {
        5 => "version 4.41".into(),
        6 => "version 4.5".into(),
        7 => "version 5.0".into(),
        8 => "version 5.1".into(),
        _ => String::new(),
    }
}

fn sector(value: u64) -> String {
    (if value == 0 { "512 bytes" } else { "4 KiB" }).into()
}

/// The names of the bits that are set.
fn bits(value: u64, names: &[(u64, &str)]) -> String {
    let set = names.iter().filter(|(bit, _)| value >> bit & 1 == 1);
    let set: Vec<&str> = set.map(|(_, name)| *name).collect();
    if set.is_empty() {
        "none".into()
    } else {
        set.join(", ")
    }
}

fn meaning(byte: usize, value: u64) -> String {
    const EVENTS: [(u64, &str); 2] = [
        (0, "urgent background operations"),
        (3, "packed command failed"),
    ];
    match byte {
        field::CMDQ_MODE_EN
        | field::BARRIER_CTRL
        | field::CACHE_CTRL
        | field::USE_NATIVE_SECTOR => on_off(value),
        field::BARRIER_SUPPORT | field::BKOPS_SUPPORT | field::HPI_FEATURES | 308 | 499 => {
            supported(value)
        }
        field::DATA_SECTOR_SIZE | field::NATIVE_SECTOR_SIZE => sector(value),
        field::PACKED_COMMAND_STATUS => bits(value, &[(0, "error"), (1, "entry in byte 35")]),
        field::EXCEPTION_EVENTS_STATUS | field::EXCEPTION_EVENTS_CTRL => bits(value, &EVENTS),
        field::BKOPS_EN => bits(value, &[(0, "by the host"), (1, "by the card")]),
        field::WR_REL_PARAM => bits(
            value,
            &[
                (0, "WR_REL_SET can be written"),
                (2, "reliable writes of any length"),
            ],
        ),
        field::WR_REL_SET if value & 1 == 1 => "stored data is safe at a power cut".into(),
        field::WR_REL_SET => "stored data is at risk at a power cut".into(),
        field::PARTITION_CONFIG if value & 7 == 0 => "user area".into(),
        field::EXT_CSD_REV => version(value),
        field::OUT_OF_INTERRUPT_TIME
        | field::PARTITION_SWITCH_TIME
        | field::POWER_OFF_LONG_TIME
        | field::GENERIC_CMD6_TIME => tens_of_ms(value),
        field::SEC_COUNT => format!("{} MiB", value / 2048),
        field::S_A_TIMEOUT => format!("{} ms", (1u64 << value.min(23)) / 10_000),
        field::HC_WP_GRP_SIZE => format!("{value} erase groups"),
        field::REL_WR_SEC_C => format!("{value} sectors in a legacy reliable write"),
        field::ERASE_TIMEOUT_MULT => format!("{} ms", value * 300),
        field::HC_ERASE_GRP_SIZE => format!("{} KiB", value * 512),
        field::SEC_FEATURE_SUPPORT => {
            bits(value, &[(0, "secure erase"), (4, "TRIM"), (6, "sanitize")])
        }
        field::CACHE_FLUSH_POLICY if value & 1 == 1 => "first in, first out".into(),
        field::CACHE_FLUSH_POLICY => "any order".into(),
        field::BKOPS_STATUS => [
            "not needed",
            "not critical",
            "performance suffers",
            "critical",
        ][value as usize & 3]
            .into(),
        field::CACHE_SIZE if value == 0 => "no cache".into(),
        field::CACHE_SIZE => format!("{value} KiB"),
        field::OPTIMAL_WRITE_SIZE | field::OPTIMAL_READ_SIZE => format!("{} KiB", value * 4),
        field::PRE_EOL_INFO if value == 1 => "spare blocks are normal".into(),
        field::LIFE_TIME_EST_A | field::LIFE_TIME_EST_B if value > 0 => {
            format!("{} to {} % used", (value - 1) * 10, value * 10)
        }
        field::MAX_PACKED_WRITES | field::MAX_PACKED_READS if value > 0 => {
            format!("{value} entries in a packed command")
        }
        field::MAX_PACKED_WRITES | field::MAX_PACKED_READS => "no packed commands".into(),
        _ => String::new(),
    }
}
