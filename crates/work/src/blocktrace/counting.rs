//! Runs a recording of block requests on a translation layer that only counts: how much each policy
//! of garbage collection programs, copies and erases. The layer keeps no data, so large recordings
//! fit. It has no time either, so requests come in their order, and each policy sees the same ones.
//!
//! - C1: units are 4 KiB; a read or write counts for every unit that it touches, a discard for the
//!   units that lie wholly in it.
//! - C2: first the device is filled ([`Fill`]), then the requests before the mark run. Neither is
//!   in any figure but the erase counts of blocks and the share of units that hold data at the end.
//! - C3: a flush, and the end of a FUA write, program the rows that are being filled, as the
//!   contract of the layer wants it.

use super::fold::{Fold, Folder, Footprint};
use super::{BlockTrace, Op, Request};
use crate::RunError;
use base::SECTORS_PER_BLOCK;
use report::metrics::round;
use rig::counting::{
    Config, Counting, FtlError, FtlStats, Geometry, Housekeeping, Pairing, Policy,
};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// What is written before the recording runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fill {
    /// Nothing.
    None,
    /// Each unit that the recording touches, once, in order of address.
    #[default]
    Footprint,
    /// Each unit of the device, once, in order of address.
    All,
}

impl fmt::Display for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fill::None => "none",
            Fill::Footprint => "footprint",
            Fill::All => "all",
        })
    }
}

impl FromStr for Fill {
    type Err = String;
    fn from_str(text: &str) -> Result<Fill, String> {
        match text {
            "none" => Ok(Fill::None),
            "footprint" => Ok(Fill::Footprint),
            "all" => Ok(Fill::All),
            _ => Err(format!(
                "`{text}` is no way to fill a device; there is: none, footprint, all"
            )),
        }
    }
}

/// The chips and the layer, in text form `KEY=VALUE,...`; each field names its key.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shape {
    /// Bytes of a NAND page: `page`.
    pub page: u32,
    /// Pages of an erase block: `pages`.
    pub pages: u32,
    /// Number of dies: `dies`.
    pub dies: u32,
    /// Erase blocks of the host that are open at a time: `lanes`.
    pub lanes: u32,
    /// Over-provisioning as a share of the size: `spare`.
    pub spare: f64,
    /// Static wear levelling begins at this difference of erase counts; 0 switches it off: `wear`.
    pub wear: u32,
    /// Erases that a block stands: `endurance`.
    pub endurance: u32,
}

impl Default for Shape {
    /// Chips like the TLC of a phone: pages of 16 KiB, blocks of 4 MiB, two dies, 7 % spare.
    fn default() -> Shape {
        Shape {
            page: 16384,
            pages: 256,
            dies: 2,
            lanes: 2,
            spare: 0.07,
            wear: 0,
            endurance: 3000,
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape {
            page,
            pages,
            dies,
            lanes,
            spare,
            wear,
            endurance,
        } = self;
        write!(
            f,
            "page={page},pages={pages},dies={dies},lanes={lanes},spare={spare},wear={wear},endurance={endurance}"
        )
    }
}

impl FromStr for Shape {
    type Err = String;
    fn from_str(text: &str) -> Result<Shape, String> {
        let mut shape = Shape::default();
        for item in text.split(',').filter(|item| !item.is_empty()) {
            shape.set(item)?;
        }
        Ok(shape)
    }
}

impl Shape {
    fn set(&mut self, item: &str) -> Result<(), String> {
        let bad = |why: &str| format!("`{item}`: {why}");
        let (key, value) = item
            .split_once('=')
            .ok_or_else(|| bad("KEY=VALUE is wanted"))?;
        if key == "spare" {
            let spare: f64 = value.parse().map_err(|_| bad("a number is wanted"))?;
            if !(0.01..=10.0).contains(&spare) {
                return Err(bad("it may be 0.01 to 10"));
            }
            self.spare = spare;
            return Ok(());
        }
        let number: u32 = value.parse().map_err(|_| bad("a number is wanted"))?;
        let (field, range) = match key {
            "page" => (&mut self.page, 512..=65_536),
            "pages" => (&mut self.pages, 8..=4096),
            "dies" => (&mut self.dies, 1..=256),
            "lanes" => (&mut self.lanes, 1..=256),
            "wear" => (&mut self.wear, 0..=1_000_000),
            "endurance" => (&mut self.endurance, 1..=10_000_000),
            _ => {
                return Err(bad(
                    "there is: page, pages, dies, lanes, spare, wear, endurance",
                ));
            }
        };
        if !range.contains(&number) {
            let (low, high) = (range.start(), range.end());
            return Err(bad(&format!("it may be {low} to {high}")));
        }
        if key == "page" && !number.is_power_of_two() {
            return Err(bad("it is a power of two"));
        }
        *field = number;
        Ok(())
    }

    /// A layer of `bytes` bytes with these chips.
    fn device(&self, bytes: u64, policy: Policy, seed: u64) -> Result<Counting, String> {
        let config = Config {
            unit_bytes: 4096,
            units: bytes / 4096,
            lanes: self.lanes,
            gc_slack: 2,
            checkpoint_blocks: 64,
            slc: None,
            housekeeping: Housekeeping {
                policy,
                seed,
                wear_threshold: self.wear,
                ..Housekeeping::PLAIN
            },
        };
        let one = Geometry {
            channels: 1,
            dies_per_channel: self.dies,
            planes: 1,
            blocks_per_plane: 1,
            pages_per_block: self.pages,
            page_bytes: self.page,
            spare_bytes: self.page / 64,
            nop: 1,
            endurance: self.endurance,
            pairing: Pairing::None,
        };
        let blocks = config
            .blocks_needed(&one, self.spare)
            .div_ceil(self.dies.into());
        let blocks_per_plane = u32::try_from(blocks).map_err(|_| "too many erase blocks")?;
        let geometry = Geometry {
            blocks_per_plane,
            ..one
        };
        Counting::new(config, geometry).map_err(|e: FtlError| e.to_string())
    }
}

/// What one run of [`run`] is made of.
#[derive(Clone, PartialEq, Debug)]
pub struct CountingSpec {
    /// Size of the device as the host sees it, bytes.
    pub bytes: u64,
    /// Chips and layer.
    pub shape: Shape,
    /// How victims are chosen.
    pub policy: Policy,
    /// Seed of a policy that chooses victims at random.
    pub seed: u64,
    /// How addresses are folded.
    pub fold: Fold,
    /// What is written before the recording.
    pub fill: Fill,
    /// How often the recording runs.
    pub passes: u32,
}

/// The figures of one run: of all passes, without what came before the mark (C2).
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CountingRun {
    /// How victims were chosen.
    pub policy: String,
    /// Requests of the recording.
    pub requests: u64,
    /// Units of 4 KiB that the host wrote.
    pub host_units: u64,
    /// Units that the host read, written before or not.
    pub read_units: u64,
    /// Units that the host discarded.
    pub discarded_units: u64,
    /// Flushes, and ends of FUA writes.
    pub flushes: u64,
    /// Units copied by garbage collection.
    pub gc_units: u64,
    /// Units copied by static wear levelling.
    pub wear_units: u64,
    /// Places for units that were programmed empty, because a flush did not wait.
    pub padded_units: u64,
    /// NAND pages programmed.
    pub programs: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Bytes programmed over bytes that the host wrote; absent without writes.
    pub write_amplification: Option<f64>,
    /// Write amplification of each pass.
    pub amplification_by_pass: Vec<Option<f64>>,
    /// Fewest erases of a block since the device was new, filling included.
    pub erases_min: u32,
    /// Mean erases of a block, counted likewise.
    pub erases_mean: f64,
    /// Most erases of a block, counted likewise.
    pub erases_max: u32,
    /// Standard deviation of the erases of a block.
    pub erases_stddev: f64,
    /// Units that hold data at the end, as a share of the size that the host sees.
    pub utilisation: f64,
    /// Memory of the layer's tables, bytes.
    pub memory_bytes: u64,
}

struct Runner<'a> {
    ftl: Counting,
    folder: Folder<'a>,
    read_units: u64,
    discarded_units: u64,
    flushes: u64,
    requests: u64,
    slots_per_page: f64,
}

/// Runs `trace` on a layer that counts.
///
/// # Errors
/// No device has such a shape, or garbage collection finds nothing left to collect.
pub fn run(
    trace: &BlockTrace,
    footprint: &Footprint,
    spec: &CountingSpec,
) -> Result<CountingRun, RunError> {
    let ftl = spec.shape.device(spec.bytes, spec.policy, spec.seed);
    let ftl = ftl.map_err(|why| RunError::Recording(format!("no such device: {why}")))?;
    let units = spec.bytes / 4096;
    let mut runner = Runner {
        ftl,
        folder: Folder::new(footprint, spec.fold, units * SECTORS_PER_BLOCK),
        read_units: 0,
        discarded_units: 0,
        flushes: 0,
        requests: 0,
        slots_per_page: f64::from(spec.shape.page) / 4096.0,
    };
    let filled = match spec.fill {
        Fill::None => 0,
        Fill::Footprint => runner.folder.used().div_ceil(SECTORS_PER_BLOCK),
        Fill::All => units,
    };
    for unit in 0..filled as u32 {
        runner.ftl.write(unit).map_err(failed)?;
    }
    let (before, after) = trace.requests.split_at(trace.preparing);
    before.iter().try_for_each(|r| runner.request(r))?;
    // C2: the counts of the filling and of what stands before the mark are dropped.
    (runner.read_units, runner.discarded_units) = (0, 0);
    (runner.flushes, runner.requests) = (0, 0);
    let began = runner.ftl.stats();
    let mut last = began;
    let mut by_pass = Vec::with_capacity(spec.passes as usize);
    for _ in 0..spec.passes {
        after.iter().try_for_each(|r| runner.request(r))?;
        let now = runner.ftl.stats();
        by_pass.push(runner.amplification(&last, &now));
        last = now;
    }
    Ok(runner.figures(spec, &began, &last, by_pass, units))
}

fn failed(e: FtlError) -> RunError {
    RunError::Check(format!("the translation layer: {e}"))
}

impl Runner<'_> {
    fn request(&mut self, r: &Request) -> Result<(), RunError> {
        let Runner {
            ftl,
            folder,
            read_units,
            discarded_units,
            ..
        } = self;
        let mut outcome = Ok(());
        folder.place(r, |at, n| {
            // C1: the first and the last unit count whole, however little of them is touched.
            let touched = at / SECTORS_PER_BLOCK..(at + n).div_ceil(SECTORS_PER_BLOCK);
            // A unit of which only a part is discarded keeps the rest.
            let whole = at.div_ceil(SECTORS_PER_BLOCK)..(at + n) / SECTORS_PER_BLOCK;
            let mut all = || match r.op {
                Op::Write => touched.clone().try_for_each(|unit| ftl.write(unit as u32)),
                Op::Read => touched.clone().try_for_each(|unit| {
                    *read_units += 1;
                    ftl.read(unit as u32).map(drop)
                }),
                Op::Discard => whole.clone().try_for_each(|unit| {
                    *discarded_units += 1;
                    ftl.trim(unit as u32)
                }),
                Op::Flush => Ok(()),
            };
            if outcome.is_ok() {
                outcome = all();
            }
        });
        if outcome.is_ok() && (r.op == Op::Flush || r.fua) {
            self.flushes += 1;
            outcome = self.ftl.flush();
        }
        self.requests += 1;
        outcome.map_err(failed)
    }

    fn amplification(&self, then: &FtlStats, now: &FtlStats) -> Option<f64> {
        let host = now.host_units - then.host_units;
        let programs = (now.programs - then.programs) as f64;
        (host > 0).then(|| round(programs * self.slots_per_page / host as f64))
    }

    fn figures(
        &self,
        spec: &CountingSpec,
        then: &FtlStats,
        now: &FtlStats,
        amplification_by_pass: Vec<Option<f64>>,
        units: u64,
    ) -> CountingRun {
        let wear = self.ftl.wear_report();
        CountingRun {
            policy: spec.policy.to_string(),
            requests: self.requests,
            host_units: now.host_units - then.host_units,
            read_units: self.read_units,
            discarded_units: self.discarded_units,
            flushes: self.flushes,
            gc_units: now.gc_units - then.gc_units,
            wear_units: now.wear_units - then.wear_units,
            padded_units: now.padded - then.padded,
            programs: now.programs - then.programs,
            erases: now.erases - then.erases,
            write_amplification: self.amplification(then, now),
            amplification_by_pass,
            erases_min: wear.min,
            erases_mean: round(wear.mean),
            erases_max: wear.max,
            erases_stddev: round(wear.stddev),
            utilisation: round(self.ftl.mapped_units() as f64 / units.max(1) as f64),
            memory_bytes: self.ftl.memory_bytes(),
        }
    }
}
