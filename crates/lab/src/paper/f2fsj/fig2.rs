//! Fig 2 and section 2.3: what the checkpoints of stock F2FS cost on four operations on names.

use super::checkpoints::{CheckpointJob, Checkpointed};
use super::job::Job;
use super::{Plan, published};
use crate::paper::study::{Outcomes, outcome};
use crate::paper::{Row, Section, number};
use crate::{RunConfig, RunError};
use rig::{Config, F2fsPreset, Fs};

/// The paper's drive.
const DEVICE: &str = "nvme-980pro";
/// A volume of 4 GiB: the paper's is the whole drive, of which the test fills a part as well.
const BYTES: u64 = 4 << 30;
/// Percent of the table of CPU costs.
const CPU: [u32; 3] = [50, 100, 200];

/// Name in the paper, and the workload.
const OPS: [(&str, &str); 4] = [
    ("mkdir", "op=mkdir"),
    ("rmdir", "op=rmdir"),
    ("create-4KB", "op=create,size=4k"),
    ("unlink-4KB", "op=unlink,size=4k"),
];

fn job(plan: &Plan, op: &str, preset: F2fsPreset, cpu_percent: u32) -> Job {
    let count = if plan.quick { 6_000 } else { 150_000 };
    let mut stack = Config::new(preset, DEVICE, plan.seed);
    (stack.fs, stack.bytes) = (Fs::F2fs, BYTES);
    Job::Checkpoints(CheckpointJob {
        run: RunConfig {
            stack,
            workload: format!("meta:{op},count={count},width=100"),
            seed: plan.seed,
            recording: None,
        },
        cpu_percent,
    })
}

/// Each operation with each share of the CPU costs, and with an interval of 1 s.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let of = |(_, op): &(&str, &str)| {
        let mut all = CPU
            .map(|cpu| job(plan, op, F2fsPreset::Checkpoint60, cpu))
            .to_vec();
        all.push(job(plan, op, F2fsPreset::Checkpoint1, 100));
        all
    };
    OPS.iter().flat_map(of).collect()
}

/// The section.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes<Checkpointed>) -> Result<Section, RunError> {
    let published = published();
    let (mut shares, mut worst, mut more) = (Vec::new(), Vec::new(), Vec::new());
    let mut lines = Vec::new();
    let mut p90 = 0.0_f64;
    for (name, op) in OPS {
        let of = |preset, cpu| outcome(outcomes, &job(plan, op, preset, cpu));
        let stock = of(F2fsPreset::Checkpoint60, 100)?;
        let item = format!("{name}: checkpoints, part of the run time");
        let row = Row::judged(published.get("Fig 2a", &item, None), stock.share);
        shares.push(row.because(WHY_SHARE));
        let item = format!("{name}: worst latency");
        worst.push(Row::judged(
            published.get("Fig 2b", &item, None),
            stock.worst_ms,
        ));
        p90 = p90.max(stock.p90_ms);
        let item = format!("{name}: run time with an interval of 1 s over 60 s, more");
        let second = of(F2fsPreset::Checkpoint1, 100)?;
        let gain = second.seconds / stock.seconds - 1.0;
        more.push(Row::judged(published.get("Fig 2d", &item, None), gain));
        for cpu in CPU {
            lines.push(line(name, cpu, of(F2fsPreset::Checkpoint60, cpu)?));
        }
    }
    let item = "P90 of operations that met a checkpoint, largest of the four";
    worst.push(Row::judged(published.get("Fig 2b", item, None), p90));
    let head = [
        "operation",
        "CPU costs",
        "operations",
        "seconds",
        "checkpoints",
        "share",
        "worst (ms)",
        "P90 met (ms)",
        "median (us)",
    ];
    Ok(Section {
        title: "Fig 2: checkpoints of stock F2FS".into(),
        words: WORDS.map(String::from).into(),
        rows: [shares, worst, more].concat(),
        tables: vec![(
            "Each operation at half, the whole and twice the CPU costs of the table".into(),
            head.map(String::from).into(),
            lines,
        )],
        plots: Vec::new(),
    })
}

fn line(name: &str, cpu: u32, found: &Checkpointed) -> Vec<String> {
    vec![
        name.into(),
        format!("{cpu} %"),
        found.ops.to_string(),
        number(found.seconds),
        found.checkpoints.to_string(),
        number(found.share),
        number(found.worst_ms),
        number(found.p90_ms),
        number(found.median_us),
    ]
}

const WHY_SHARE: &str = "the parts: a checkpoint writes what its trigger let gather (8 segments of dirty nodes), at the bandwidth of the drive; an \
                         operation costs what the table of CPU costs says of this code, without system calls, page cache of the kernel and the \
                         benchmark's own work, all of which make the operations longer and the share smaller; removals make \
    few nodes dirty, so with so few objects no count triggers a checkpoint, and the run is shorter than the interval of 60 s";

const WORDS: [&str; 3] = [
    "One process, 100 entries a directory, fewer objects than the paper's 4 million; checkpoints are triggered by counts (dirty nodes, dirty NAT \
     entries), so the share of what makes objects does not depend on their number once there are a few of them; removals need more. Shares are of the time from the first to the \
     last operation; inside a checkpoint counts from its first block to the end of its commit.",
    "CPU costs are measured on this code (crates/f2fs/src/cost.rs, `cargo xtask calibrate-cpu`) and charged in virtual time; the table shows what half \
     and twice of them give.",
    "As many operations as there were checkpoints count as having met one: the slowest. With one process it is the one that writes it.",
];
