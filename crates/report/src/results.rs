//! The layout of `results.json`: what a comparison found. It has no wall time, date, host or path,
//! so the same seed gives the same bytes.

use crate::causes::Causes;
use crate::energy::Joules;
use crate::metrics::{CdfPoint, LatencySummary, round};
use crate::over_time::OverTime;
use crate::wear::{Erased, Wear};
use base::Nanos;
use blockdev::{DeviceStats, ProgramsByCause, TransparentStats};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the layout of `results.json`.
pub const SCHEMA: u32 = 1;

/// The content of `results.json`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Results {
    /// Version of this layout: [`SCHEMA`].
    pub schema: u32,
    /// Name of the subcommand that made it.
    pub command: String,
    /// The seed of every random stream.
    pub seed: u64,
    /// Name of the device profile, with its changes.
    pub profile: String,
    /// The command line that makes the same runs again.
    pub reproduce: String,
    /// Why the comparison ended early and how much of it was complete; absent if all of it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// One entry per file system and scheme, in the order of the command line.
    pub runs: Vec<Run>,
}

/// The figures of one workload on one file system with one scheme.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Name of the file system.
    pub fs: String,
    /// Name of the journaling scheme.
    pub scheme: String,
    /// The device: its profile and the host commands it got.
    pub device: Device,
    /// Timing set of the device profile.
    pub timing: String,
    /// Text of the workload, with all its parameters.
    pub workload: String,
    /// Virtual time of the measured part, seconds.
    pub virtual_seconds: f64,
    /// Operations of the workload; for SQLite transactions.
    pub ops: u64,
    /// Operations per virtual second.
    pub ops_per_s: f64,
    /// Number and rate by kind of operation; a rate is over the time of the operations of its kind.
    pub ops_by_kind: BTreeMap<String, Kind>,
    /// Latencies in virtual microseconds.
    pub latency_us: LatencyTable,
    /// 4 KiB blocks written by class; classes without traffic are left out.
    pub blocks: BTreeMap<String, u64>,
    /// Journal blocks as a share of all blocks written.
    pub journal_block_ratio: f64,
    /// Flash operations; absent for a device without flash below.
    pub flash: Option<Flash>,
    /// Wear and life; absent for a device without flash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wear: Option<Wear>,
    /// How often the blocks were erased since the device was new; absent without flash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erased: Option<Erased>,
    /// Energy of the storage device in the measured part, an estimate from a model, joules; absent
    /// if the profile does not say what the device takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<Joules>,
    /// For a recording: which files, calls and processes caused the bytes written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causes: Option<Causes>,
    /// Commits of the journal: of whole transactions, and fast ones.
    pub commits: u64,
    /// Mean microseconds of each part of an fsync; the parts add up to the mean fsync.
    pub fsync_us: BTreeMap<String, f64>,
    /// Virtual time that tasks spent waiting, by cause, microseconds.
    pub waits_us: BTreeMap<String, f64>,
    /// Beginning and end of each phase, seconds since the beginning of the measured part; empty for
    /// a workload without phases.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub phases_s: BTreeMap<String, (f64, f64)>,
    /// How long calls took over the measured part, and what journal and device did meanwhile;
    /// absent if nothing was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_time: Option<OverTime>,
    /// Blocks that came home by REMAP instead of a write (`home=remap`).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub remapped_blocks: u64,
    /// Those of `remapped_blocks` that the device copied.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub remap_copies: u64,
    /// For a benchmark: 10^6 bytes of file content written per virtual second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mb_per_s: Option<f64>,
    /// Remarks beside the figures: why the run ended, what of its model was ignored, that a scheme
    /// with fast commits could make only full ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Fingerprint of the schedule and of every traced event.
    pub trace_hash: String,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Number and rate of the operations of one kind.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Kind {
    /// Number of operations.
    pub ops: u64,
    /// Operations per second of the virtual time that they took.
    pub ops_per_s: f64,
}

impl Kind {
    /// The figures of `ops` operations that took `span` in sum.
    pub fn of((ops, span): (u64, Nanos)) -> Kind {
        let seconds = span.0 as f64 / 1e9;
        let ops_per_s = if span.0 == 0 {
            0.0
        } else {
            round(ops as f64 / seconds)
        };
        Kind { ops, ops_per_s }
    }
}

/// Latencies of operations and of syncs.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LatencyTable {
    /// Latency of an operation of the workload.
    pub op: LatencySummary,
    /// Latency of an fsync or fdatasync.
    pub fsync: LatencySummary,
    /// Cumulative distribution of the fsyncs, for the plot.
    pub fsync_cdf: Vec<CdfPoint>,
}

/// The device and the host commands it got during the measured part.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// Name of the device profile.
    pub profile: String,
    /// Number of commands of each kind; in the file they stand beside `profile`.
    #[serde(flatten)]
    pub commands: DeviceStats,
}

/// What happened on the flash during the measured part.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Flash {
    /// 4 KiB units the host wrote.
    pub host_pages: u64,
    /// NAND page reads.
    #[serde(default)]
    pub reads: u64,
    /// NAND page programs.
    pub programs: u64,
    /// NAND block erases.
    pub erases: u64,
    /// 4 KiB units copied by garbage collection.
    pub gc_copies: u64,
    /// 4 KiB units copied out of the pseudo-SLC write area.
    #[serde(default)]
    pub slc_folds: u64,
    /// NAND page programs that hold the map.
    pub map_programs: u64,
    /// 4 KiB units whose home shares a page with its source by a REMAP command.
    #[serde(default)]
    pub remapped_units: u64,
    /// 4 KiB units that were copied for a REMAP command.
    #[serde(default)]
    pub copied_units: u64,
    /// 4 KiB units of zeros that were not programmed.
    #[serde(default)]
    pub zero_units: u64,
    /// NAND page programs by cause.
    #[serde(default)]
    pub programs_by_cause: ProgramsByCause,
    /// What transparent remapping did; all 0 where it is off.
    #[serde(default)]
    pub transparent: TransparentStats,
    /// Bytes programmed over bytes the host wrote.
    pub write_amplification: f64,
}

/// The content of `results.json` of a campaign with several comparisons.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Comparisons {
    /// Version of this layout: [`SCHEMA`].
    pub schema: u32,
    /// `campaign`.
    pub command: String,
    /// Each comparison as `varve compare` has it, in the order of the plan.
    pub comparisons: Vec<Results>,
}

impl Results {
    /// The bytes of `results.json`.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data serialises");
        text.push('\n');
        text
    }
}
