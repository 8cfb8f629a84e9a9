//! How the cells behave beyond the clean model: what a cut may leave, errors, wear, the order of
//! programs.
//!
//! All of it is off, and costs nothing, unless [`crate::Nand::set_cells`] is called. Like the
//! timing it is set anew at each power-up; its effects on a page are part of the medium.

use serde::Deserialize;

base::words! {
    /// How badly a power cut may leave the cells; each level adds to the one before. The table at
    /// the head of the crate has the details.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum FaultLevel: "fault level" {
        /// A page is old or uncorrectable; a page whose program was nearly over may be complete.
        #[default]
        L1 => "l1",
        /// In addition, torn pages can read well for a while, or show a good spare area beside lost
        /// data; an erase that was cut can look complete.
        L2 => "l2",
        /// In addition, earlier pages of the word line are lost, complete pages are marginal, the
        /// last programs before the cut too, and data and spare area fail independently of each
        /// other.
        L3 => "l3",
    }
}

/// What happens to a program of a page that lies before the one programmed last in its block
/// (nand-N2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageOrder {
    /// The program is refused, as multi-bit parts demand.
    #[default]
    Strict,
    /// The program is counted in [`crate::NandStats::backward`], because early single-bit parts
    /// only recommend the order.
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
    /// Corrected bits of a codeword from which on a page should be written anew: three quarters of
    /// the strength, rounded up (the default `bitflip_threshold` of Linux MTD).
    pub const fn threshold(&self) -> u32 {
        (self.strength * 3).div_ceil(4)
    }
}

/// The raw bit error rate:
/// `floor + per_cycle * cycles^exponent + per_read * reads + per_hour * hours`, per bit, where
/// reads are those of the block since its erase and hours those since its first program.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BitErrors {
    /// The rate of fresh cells.
    pub floor: f64,
    /// The factor of the erases that the block has behind it.
    pub per_cycle: f64,
    /// The exponent of the erases.
    pub cycle_exponent: f64,
    /// The rate added by each read of the block since its erase (read disturb).
    pub per_read: f64,
    /// The rate added by each hour since the block's first program (retention).
    pub per_hour: f64,
    /// What corrects them.
    pub ecc: Ecc,
    /// Reads of a block after which it should be written anew.
    pub reads_budget: u32,
}

/// How blocks fail: from some erase on, an erase or a program of a block fails for good. A Weibull
/// distribution gives that erase; [`crate::Geometry::endurance`] is its quantile of one in a
/// hundred.
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
    /// Seed of wear and bit errors.
    pub seed: u64,
}

impl Cells {
    /// Cells without errors and wear, whose cuts are of this level.
    pub fn at(level: FaultLevel) -> Cells {
        Cells {
            level,
            ..Cells::default()
        }
    }
    /// Checks these numbers.
    ///
    /// # Errors
    /// The first field with an impossible value, in words.
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
