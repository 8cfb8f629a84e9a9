//! How long a device lives under a workload: what its chips are rated for, over what the measured
//! part programmed.
//!
//! Erases are predicted from programs and not counted, because a short run on a fresh device
//! programs free blocks and erases none; in the long run each block is erased once for each time
//! that its pages were programmed. The prediction takes three things as they are in the measured
//! part or better: the rate goes on day and night, collection copies no more than it did, and
//! erases are spread evenly over the blocks.

use crate::best::best;
use crate::metrics::round;
use crate::results::{Flash, Run};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const YEAR_SECONDS: f64 = 365.25 * 86_400.0;
const UNIT_BYTES: f64 = 4096.0;

/// The chips of a device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rated {
    /// Erases that each block is rated for.
    pub erases: u32,
    /// Number of blocks.
    pub blocks: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
}

/// Wear by the measured part, and the life of the device if it goes on like that.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Wear {
    /// Erases that each block is rated for: `nand.endurance` of the profile.
    pub rated_erases: u32,
    /// Blocks of the chips.
    pub blocks: u32,
    /// Erases that the programs of the measured part come to, in the long run.
    pub erases_due: f64,
    /// Years until all rated erases are used; absent if nothing was programmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub years: Option<f64>,
    /// Operations until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ops: Option<f64>,
    /// What the host writes to the flash until then (TBW), 10^12 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_tb: Option<f64>,
}

impl Wear {
    /// The wear by `ops` operations in `seconds`, which did `flash` to chips that are `rated`.
    pub fn of(rated: Rated, flash: &Flash, seconds: f64, ops: u64) -> Wear {
        let due = flash.programs as f64 / f64::from(rated.pages_per_block);
        let total = f64::from(rated.erases) * f64::from(rated.blocks);
        let until = |amount: f64| (due > 0.0).then(|| round(amount * total / due));
        Wear {
            rated_erases: rated.erases,
            blocks: rated.blocks,
            erases_due: round(due),
            years: until(seconds / YEAR_SECONDS),
            ops: until(ops as f64),
            host_tb: until(flash.host_pages as f64 * UNIT_BYTES / 1e12),
        }
    }
}

/// How evenly the blocks of a device have been erased since it was new.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Erased {
    /// Fewest erases of a block.
    pub least: u32,
    /// Erases of all blocks by their number.
    pub mean: f64,
    /// Most erases of a block.
    pub most: u32,
    /// Number of blocks with so many erases.
    pub blocks: BTreeMap<u32, u64>,
}

impl Erased {
    /// Of blocks with these erases; `None` if there are none.
    pub fn of(erases: &[u32]) -> Option<Erased> {
        let (least, most) = (*erases.iter().min()?, *erases.iter().max()?);
        let sum: u64 = erases.iter().map(|n| u64::from(*n)).sum();
        let mut blocks = BTreeMap::new();
        for n in erases {
            *blocks.entry(*n).or_default() += 1;
        }
        Some(Erased {
            least,
            mean: round(sum as f64 / erases.len() as f64),
            most,
            blocks,
        })
    }
    /// As `0 / 1.25 / 4`.
    pub fn words(&self) -> String {
        format!("{} / {:.2} / {}", self.least, self.mean, self.most)
    }
}

/// The life of the device under a run, as `6.1 years`; `-` where there is none to tell.
pub fn life(run: &Run) -> String {
    let years = run.wear.and_then(|wear| wear.years);
    years.map_or("-".into(), span)
}

fn span(years: f64) -> String {
    let days = years * 365.25;
    match (years, days) {
        (y, _) if y >= 1.0 => format!("{y:.1} years"),
        (_, d) if d >= 1.0 => format!("{d:.1} days"),
        (_, d) => format!("{:.1} hours", d * 24.0),
    }
}

/// The life of the device in a sentence: under the first run and under the one with a journal that
/// wears it least.
/// `None` where no run says how long it lives.
pub fn sentence(runs: &[Run]) -> Option<String> {
    let lives = |run: &Run| run.wear.and_then(|wear| wear.years);
    let first = runs.iter().find(|run| lives(run).is_some())?;
    let wear = first.wear?;
    let name = |run: &Run| format!("{} with {}/{}", life(run), run.fs, run.scheme);
    let best = best(runs, lives);
    let longest = best.map(|best| best.safe);
    let longest = longest.filter(|run| lives(run) > lives(first));
    let most = longest.map_or(String::new(), |run| format!(" and in {}", name(run)));
    let beside = best.map_or(String::new(), |best| best.beside(life));
    Some(format!(
        "At the rate of this run, day and night, the device is worn out (each of its {} blocks erased {} times) in {}{most}. \
         At a tenth of the rate, or of ten times the size, it lives ten times as long.{beside}",
        wear.blocks,
        wear.rated_erases,
        name(first)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn life_is_rated_erases_over_erases_due() {
        let rated = Rated {
            erases: 3000,
            blocks: 100,
            pages_per_block: 128,
        };
        let flash = Flash {
            programs: 1280,
            host_pages: 2560,
            ..Flash::default()
        };
        // 10 erases in an hour of 300000: 30000 hours.
        let wear = Wear::of(rated, &flash, 3600.0, 50);
        assert_eq!(wear.erases_due, 10.0);
        assert!((wear.years.unwrap() - 30_000.0 / 24.0 / 365.25).abs() < 1e-5);
        assert_eq!(wear.ops, Some(1_500_000.0));
        assert!((wear.host_tb.unwrap() - 2560.0 * 4096.0 * 30_000.0 / 1e12).abs() < 1e-6);
        let idle = Wear::of(rated, &Flash::default(), 3600.0, 50);
        assert_eq!((idle.years, idle.ops, idle.host_tb), (None, None, None));
    }

    #[test]
    fn the_longest_life_is_that_of_a_scheme_with_a_journal() {
        let run = |scheme: &str, years: f64| {
            let mut run = crate::page::some_run(scheme);
            run.wear = Some(Wear {
                years: Some(years),
                ..Wear::default()
            });
            run
        };
        let runs = [run("jbd2", 2.0), run("emmc", 3.0), run("none", 4.0)];
        let told = sentence(&runs).expect("a life");
        assert!(
            told.contains("in 2.0 years with ext4/jbd2 and in 3.0 years with ext4/emmc. ")
                && told.ends_with(" ext4/none has 4.0 years, and keeps nothing at a power cut."),
            "{told}"
        );
        let told = sentence(&runs[..1]).expect("a life");
        assert!(told.ends_with("ten times as long."), "{told}");
    }

    #[test]
    fn erases_are_counted_by_block() {
        let erased = Erased::of(&[0, 2, 2, 4]).unwrap();
        assert_eq!(erased.words(), "0 / 2.00 / 4");
        assert_eq!(erased.blocks, [(0, 1), (2, 2), (4, 1)].into());
        assert_eq!(Erased::of(&[]), None);
    }

    #[test]
    fn spans_are_told_in_the_unit_that_one_would_use() {
        assert_eq!(span(6.14), "6.1 years");
        assert_eq!(span(2.0 / 365.25), "2.0 days");
        assert_eq!(span(1.0 / 365.25 / 48.0), "0.5 hours");
    }
}
