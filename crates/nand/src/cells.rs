//! How the cells behave beyond the clean model: what a cut may leave, errors, wear, the order of programs.
//!
//! All of it is off unless [`crate::Nand::set_cells`] is called, and costs nothing then. Like the timing it is told at each
//! power-up; what it has done to a page is part of the medium.

use serde::Deserialize;

/// How bad a power cut is; each level adds to the one before. The table at the head of the crate has the rows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultLevel {
    /// A page is old or uncorrectable, or complete at the very end.
    #[default]
    L1,
    /// And torn pages can read as good for a while, or show a good spare area beside lost data; an erase that was cut can look
    /// complete.
    L2,
    /// And earlier pages of the word line are lost, complete pages are marginal, the last programs before the cut too, and data
    /// and spare area fail apart from each other.
    L3,
}

impl FaultLevel {
    /// All levels, the mildest first.
    pub const ALL: [FaultLevel; 3] = [FaultLevel::L1, FaultLevel::L2, FaultLevel::L3];

    /// The level called `l1`, `l2` or `l3`.
    pub fn named(name: &str) -> Option<FaultLevel> {
        match name {
            "l1" => Some(FaultLevel::L1),
            "l2" => Some(FaultLevel::L2),
            "l3" => Some(FaultLevel::L3),
            _ => None,
        }
    }
}

/// What happens to a program that goes back in its block (nand-N2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageOrder {
    /// Refused, as multi-bit parts demand.
    #[default]
    Strict,
    /// Counted in [`crate::NandStats::backward`]: early single-bit parts only recommend the order.
    Warn,
}

/// The error correction beside each codeword.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ecc {
    /// Data bytes of a codeword.
    pub codeword_bytes: u32,
    /// Flipped bits of a codeword that it corrects.
    pub strength: u32,
}

impl Ecc {
    /// Corrected bits of a codeword from which on a page should be written anew: three quarters of the strength, rounded up
    /// (the default `bitflip_threshold` of Linux MTD).
    pub const fn threshold(&self) -> u32 {
        (self.strength * 3).div_ceil(4)
    }
}

/// The raw bit error rate: `floor + per_cycle * cycles^exponent + per_read * reads + per_hour * hours`, per bit, where reads are
/// those of the block since its erase and hours those since its first program.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BitErrors {
    /// Of fresh cells.
    pub floor: f64,
    /// Of each erase behind the block.
    pub per_cycle: f64,
    /// The power of the erases.
    pub cycle_exponent: f64,
    /// Of each read of the block since its erase (read disturb).
    pub per_read: f64,
    /// Of each hour since the block's first program (retention).
    pub per_hour: f64,
    /// What corrects them.
    pub ecc: Ecc,
    /// Reads of a block after which it should be written anew.
    pub reads_budget: u32,
}

/// How blocks fail: an erase or a program of block b fails for good from the erase on that a Weibull distribution gives it, of
/// which [`crate::Geometry::endurance`] is the quantile of one in a hundred.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wear {
    /// Shape of the distribution: above 1 old blocks fail more often than young ones.
    pub shape: f64,
}

/// The behaviour of a chip set's cells.
#[derive(Clone, Copy, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cells {
    /// What a power cut may do.
    pub level: FaultLevel,
    /// Whether pages of a block must ascend.
    pub order: PageOrder,
    /// Bit errors; `None`: what is written reads well.
    pub errors: Option<BitErrors>,
    /// Wear-out; `None`: each block fails between its rating and a quarter more.
    pub wear: Option<Wear>,
    /// Number that wear and bit errors derive from.
    pub seed: u64,
}

impl Cells {
    /// Cells that behave well but for cuts of this level.
    pub fn at(level: FaultLevel) -> Cells {
        Cells {
            level,
            ..Cells::default()
        }
    }
    /// What is wrong with these numbers, if anything.
    ///
    /// # Errors
    /// The first field that makes no sense, in words.
    pub fn check(&self) -> Result<(), String> {
        let wrong = |name: &str, value: f64, range: &std::ops::RangeInclusive<f64>| {
            let (min, max) = (range.start(), range.end());
            Err(format!("{name} = {value}; it may be {min} to {max}"))
        };
        if let Some(e) = &self.errors {
            for (name, value, range) in [
                ("errors.floor", e.floor, 0.0..=0.1),
                ("errors.per_cycle", e.per_cycle, 0.0..=0.1),
                ("errors.cycle_exponent", e.cycle_exponent, 0.0..=8.0),
                ("errors.per_read", e.per_read, 0.0..=0.1),
                ("errors.per_hour", e.per_hour, 0.0..=0.1),
                (
                    "errors.ecc.codeword_bytes",
                    e.ecc.codeword_bytes.into(),
                    128.0..=65536.0,
                ),
                ("errors.ecc.strength", e.ecc.strength.into(), 1.0..=1024.0),
                ("errors.reads_budget", e.reads_budget.into(), 1.0..=4e9),
            ] {
                if !range.contains(&value) {
                    return wrong(name, value, &range);
                }
            }
        }
        match &self.wear {
            Some(wear) if !(1.0..=64.0).contains(&wear.shape) => {
                wrong("wear.shape", wear.shape, &(1.0..=64.0))
            }
            _ => Ok(()),
        }
    }
}
