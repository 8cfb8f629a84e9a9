//! `cargo xtask crosscheck ext4-traffic`: does Varve's ext4 write what the kernel's writes?
//!
//! Both sides have an ext4 of 1 GiB with 4 KiB blocks and no timers, and insert single rows with
//! one bundled SQLite and synchronous=FULL; the connection stays open while the figures are read.
//! The kernel sits on a buffered loop device, which has a volatile cache and no FUA, so each FUA
//! commit becomes a second flush. Varve runs on the profile `loop-like`.

use super::loop_mount::LoopMount;
use crate::Result;
use crate::host_sqlite::HostSqlite;
use crate::test::build;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(clap::Args)]
pub struct Args {
    /// Transactions per mode
    #[arg(long, default_value_t = 300)]
    transactions: u32,
    /// Kernel runs per mode
    #[arg(long, default_value_t = 3)]
    repeats: u32,
    /// This program instead of one that is built from the workspace
    #[arg(long)]
    varve: Option<PathBuf>,
}

/// SQLite's journal modes, and how far Varve may be off in each, as a fraction.
type Modes = [(&'static str, f64); 4];
const MODES: Modes = [
    ("delete", 0.10),
    ("truncate", 0.10),
    ("persist", 0.10),
    ("wal", 0.15),
];
/// The same with fast commits.
const FAST_MODES: Modes = [
    ("delete", 0.05),
    ("truncate", 0.05),
    ("persist", 0.05),
    ("wal", 0.05),
];
/// Schemes of Varve, with the features of the kernel's volume.
const SCHEMES: [(&str, &[&str], Modes); 2] = [
    ("jbd2", &[], MODES),
    ("fast-commit", &["fast_commit"], FAST_MODES),
];
const MIB: u64 = 1024;

/// Figures for one transaction.
#[derive(Clone, Copy)]
pub struct Traffic {
    pub blocks: f64,
    pub commands: f64,
    pub flushes: f64,
}

pub fn run(args: &Args) -> Result {
    let varve = match &args.varve {
        Some(path) => path.clone(),
        None => build::binary("varve")?,
    };
    println!(
        "{:<24}{:>26}{:>26}{:>10}",
        "scheme, mode", "kernel blk/cmd/flush", "varve blk/cmd/flush", "within"
    );
    let mut off = Vec::new();
    for (scheme, features, modes) in SCHEMES {
        for (mode, tolerance) in modes {
            let spec = format!(
                "sqlite:insert={},update=0,delete=0,journal={mode},synchronous=full",
                args.transactions
            );
            let on_kernel = || kernel(&varve, (&spec, features), args.transactions);
            let kernel = repeat(args.repeats, on_kernel)?;
            let ours = ours(&varve, &["--schemes", scheme], &spec)?;
            let near = |a: f64, b: f64| (a - b).abs() <= tolerance * b.max(0.01);
            let within = near(ours.blocks, kernel.blocks) && near(ours.flushes, kernel.flushes);
            let name = format!("{scheme}, {mode}");
            println!(
                "{name:<24}{}{}{:>10}",
                show(kernel),
                show(ours),
                if within { "yes" } else { "NO" }
            );
            if !within {
                off.push(name);
            }
        }
    }
    match off.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "traffic differs by more than the tolerance in: {}",
            off.join(", ")
        )),
    }
}

fn show(t: Traffic) -> String {
    format!(
        "{:>26}",
        format!("{:.2} / {:.2} / {:.2}", t.blocks, t.commands, t.flushes)
    )
}

/// The mean of several runs.
fn repeat(times: u32, one: impl Fn() -> Result<Traffic>) -> Result<Traffic> {
    let mut sum = Traffic {
        blocks: 0.0,
        commands: 0.0,
        flushes: 0.0,
    };
    for _ in 0..times.max(1) {
        let t = one()?;
        sum.blocks += t.blocks;
        sum.commands += t.commands;
        sum.flushes += t.flushes;
    }
    let n = f64::from(times.max(1));
    Ok(Traffic {
        blocks: sum.blocks / n,
        commands: sum.commands / n,
        flushes: sum.flushes / n,
    })
}

/// The kernel's figures, with SQLite's own file layer on the loop mount of a volume with these
/// features.
fn kernel(varve: &Path, (spec, features): (&str, &[&str]), transactions: u32) -> Result<Traffic> {
    let folder = tempfile::tempdir().map_err(|e| format!("temporary folder: {e}"))?;
    let mount = LoopMount::new(folder.path(), MIB, features)?;
    let mut host = HostSqlite::start(varve, &mount.dir.join("test.db"), spec)?;
    let before = mount.figures()?;
    host.go()?;
    let after = mount.figures()?;
    host.end()?;
    let n = f64::from(transactions);
    Ok(Traffic {
        blocks: (after.sectors_written - before.sectors_written) as f64 / 8.0 / n,
        commands: (after.writes - before.writes) as f64 / n,
        flushes: (after.flushes - before.flushes) as f64 / n,
    })
}

/// The results of one run of `varve compare` without timers on a volume of `mib` MiB.
pub fn results(varve: &Path, kind: &[&str], mib: u64, spec: &str) -> Result<serde_json::Value> {
    let out = tempfile::tempdir().map_err(|e| format!("temporary folder: {e}"))?;
    let output = Command::new(varve)
        .args(["compare", "--json", "--timers", "off"])
        .args(kind)
        .args(["--size", &mib.to_string(), "--workload", spec, "--out"])
        .arg(out.path())
        .output()
        .map_err(|e| format!("{}: {e}", varve.display()))?;
    if !output.status.success() {
        return Err(format!(
            "varve compare failed: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| format!("results of varve compare: {e}"))
}

/// Varve's figures, from its `results.json`.
pub fn ours(varve: &Path, kind: &[&str], spec: &str) -> Result<Traffic> {
    let kind = [&["--device", "loop-like"], kind].concat();
    let results = results(varve, &kind, MIB, spec)?;
    let run = &results["runs"][0];
    let number = |v: &serde_json::Value| v.as_f64().ok_or("results of varve compare lack a figure");
    let ops = number(&run["ops"])?;
    let blocks = run["blocks"]
        .as_object()
        .ok_or("results of varve compare lack `blocks`")?;
    let mut total = 0.0;
    for count in blocks.values() {
        total += number(count)?;
    }
    Ok(Traffic {
        blocks: total / ops,
        commands: number(&run["device"]["writes"])? / ops,
        flushes: number(&run["device"]["flushes"])? / ops,
    })
}
