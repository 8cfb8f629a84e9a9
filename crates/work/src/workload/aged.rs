//! How a volume is aged before a workload: the parameters, and what follows from them and the size
//! of the device alone. [`aging`](super::aging) does it.

use super::values::{SpecError, number};
use base::BLOCK_BYTES;
use std::fmt;

/// How a volume is aged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aged {
    /// Share of the device that files take in the end, percent, counting an inode of 4 KiB for
    /// each; 0 switches aging off.
    pub percent: u32,
    /// Bytes that are written once the volume is full, as percent of the device.
    pub overwrites: u32,
}

impl Default for Aged {
    fn default() -> Self {
        Aged {
            percent: 0,
            overwrites: 100,
        }
    }
}

const PERCENT_MAX: u64 = 95;
const OVERWRITES_MAX: u64 = 10_000;
pub(super) const BLOCK: u64 = BLOCK_BYTES as u64;

impl Aged {
    /// Sets one parameter; false if the key is neither `aged` nor `overwrites`.
    ///
    /// # Errors
    /// The value is not valid.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, SpecError> {
        match name {
            "aged" => {
                let digits = value.strip_suffix('%').unwrap_or(value);
                self.percent = number(digits, 0..=PERCENT_MAX)? as u32;
            }
            "overwrites" => {
                let digits = value.strip_suffix('%').unwrap_or(value);
                self.overwrites = number(digits, 0..=OVERWRITES_MAX)? as u32;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Checks that the parameters fit together.
    ///
    /// # Errors
    /// `overwrites` is given without `aged`.
    pub fn check(&self) -> Result<(), SpecError> {
        if self.percent == 0 && *self != Aged::default() {
            let what = "overwrites= says how a volume is aged: it wants aged=PERCENT";
            return Err(SpecError::Together(what.into()));
        }
        Ok(())
    }

    /// Blocks of content and inodes that files take on a device of `bytes`.
    pub fn blocks(&self, bytes: u64) -> u64 {
        bytes / BLOCK * u64::from(self.percent) / 100
    }

    /// Most files that there are at a time, and the number of directories.
    pub fn names(&self, bytes: u64) -> (u64, u64) {
        // Twice what the mean size gives, as ages and sizes are drawn.
        let (weights, sum) = SIZES
            .iter()
            .fold((0, 0), |(weights, sum), (weight, blocks)| {
                let weight = u64::from(*weight);
                (weights + weight, sum + weight * (blocks + 1))
            });
        let mean = sum / weights;
        let dirs = dirs(bytes).len() as u64;
        (2 * self.blocks(bytes) / mean + 16, dirs)
    }
}

impl fmt::Display for Aged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "aged={}%,overwrites={}%", self.percent, self.overwrites)
    }
}

/// Sizes of files as (weight, blocks of 4 KiB): the mean is 22 blocks, 88 KiB.
pub(super) const SIZES: [(u32, u64); 11] = [
    (350, 1),
    (150, 2),
    (140, 4),
    (120, 8),
    (90, 16),
    (60, 32),
    (40, 64),
    (25, 128),
    (15, 256),
    (7, 512),
    (3, 1024),
];
/// Weight of the depth of a file's directory.
pub(super) const DEPTHS: [u32; 4] = [10, 30, 40, 20];
const ROOT: &str = "/aged";

/// The directories on a device of `bytes`, parents first: a tree of three levels below the root, as
/// wide as the device is large.
pub(super) fn dirs(bytes: u64) -> Vec<String> {
    let width = ((bytes >> 27) + 2).min(8);
    let mut all = vec![String::from(ROOT)];
    let mut above = 0..1;
    for _ in 1..DEPTHS.len() {
        let first = all.len();
        for parent in above {
            (0..width).for_each(|n| all.push(format!("{}/d{n}", all[parent])));
        }
        above = first..all.len();
    }
    all
}
