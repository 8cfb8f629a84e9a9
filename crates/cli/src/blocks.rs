//! `varve replay` of block requests: either on a translation layer that only counts (no content, no
//! times), under each policy, or on a device profile with its times.

use crate::args::ReplayArgs;
use crate::failure::{Failure, failed, usage};
use crate::out::{OutFolder, say};
use crate::shell;
use crate::table::{framed, to_the_right};
use rig::counting::Policy;
use serde_json::json;
use std::fmt::Write;
use work::blocktrace::counting::{self, CountingSpec, Fill, Shape};
use work::blocktrace::device::{self, DeviceSpec, Pace};
use work::blocktrace::fold::{Fold, Footprint};
use work::blocktrace::report::{Folded, Results, SCHEMA, Table, TraceWords, about};
use work::blocktrace::{self, BlockTrace, Format, stats};
use work::recording::Reading;

/// Sizes of a device that are accepted, MiB: up to 4 TiB.
const MIB_RANGE: std::ops::RangeInclusive<u64> = 16..=4 << 20;
/// Most times that a recording runs.
const PASSES_MAX: u32 = 1000;
const POLICIES: [&str; 4] = ["greedy", "cost-benefit", "d-choices", "fifo"];

/// The first option that is for block requests only.
pub fn given(args: &ReplayArgs) -> Option<&'static str> {
    let b = &args.blocks;
    [
        ("--fold", b.fold.is_some()),
        ("--fill", b.fill.is_some()),
        ("--passes", b.passes.is_some()),
        ("--policies", !b.policies.is_empty()),
        ("--ftl", b.ftl.is_some()),
    ]
    .into_iter()
    .find_map(|(name, given)| given.then_some(name))
}

/// What was asked for; judged before a long file is read.
struct Asked {
    fold: Fold,
    fill: Fill,
    passes: u32,
    pace: Pace,
    policies: Vec<Policy>,
    shape: Shape,
    mib: Option<u64>,
}

impl Asked {
    fn of(args: &ReplayArgs) -> Result<Asked, Failure> {
        let b = &args.blocks;
        let passes = b.passes.unwrap_or(1);
        if !(1..=PASSES_MAX).contains(&passes) {
            return Err(usage(format!(
                "--passes {passes}; it may be 1 to {PASSES_MAX}"
            )));
        }
        if let Some(mib) = args.on.size.filter(|mib| !MIB_RANGE.contains(mib)) {
            let (low, high) = (MIB_RANGE.start(), MIB_RANGE.end());
            return Err(usage(format!(
                "--size {mib} MiB; it may be {low} to {high}"
            )));
        }
        for (option, given) in [
            ("--schemes", !args.on.schemes.is_empty()),
            ("--journal", args.on.journal.is_some()),
            ("--aged", args.aged.is_some()),
            ("--scheduler", args.on.scheduler.is_some()),
            ("--writeback", args.on.writeback.is_some()),
        ] {
            if given {
                let why = "block requests run below any file system and journal";
                return Err(usage(format!("{option}: {why}")));
            }
        }
        let device = args.on.device.is_some();
        let counts = "a run without --device, which counts";
        for (option, given, wanted) in [
            ("--policies", !b.policies.is_empty(), !device),
            ("--ftl", b.ftl.is_some(), !device),
        ] {
            if given && !wanted {
                return Err(usage(format!("{option} is for {counts}")));
            }
        }
        for (option, given) in [
            ("--pace", args.pace.is_some()),
            ("--timing", args.on.timing.is_some()),
        ] {
            if given && !device {
                return Err(usage(format!(
                    "{option} is for a run with --device; {counts} has no time"
                )));
            }
        }
        let word = |text: &Option<String>| text.clone().unwrap_or_default();
        let policies = match b.policies.is_empty() {
            true => POLICIES.map(String::from).to_vec(),
            false => b.policies.clone(),
        };
        Ok(Asked {
            fold: b
                .fold
                .as_deref()
                .unwrap_or("compact")
                .parse()
                .map_err(usage)?,
            fill: b
                .fill
                .as_deref()
                .unwrap_or("footprint")
                .parse()
                .map_err(usage)?,
            passes,
            pace: args
                .pace
                .as_deref()
                .unwrap_or("recorded")
                .parse()
                .map_err(usage)?,
            policies: policies
                .iter()
                .map(|p| p.parse::<Policy>().map_err(usage))
                .collect::<Result<_, _>>()?,
            shape: word(&b.ftl).parse().map_err(usage)?,
            mib: args.on.size,
        })
    }
}

/// Reads the recording, then describes it or runs it.
pub fn replay(args: &ReplayArgs, format: Format) -> Result<(), Failure> {
    let asked = Asked::of(args)?;
    let trace = blocktrace::read(&args.file, Some(format), args.strict).map_err(failed)?;
    let footprint = Footprint::of(&trace).map_err(failed)?;
    let stats = stats::of(&trace, &footprint);
    let words = summary(&trace);
    if args.stats {
        if args.on.json {
            let all = json!({"schema": SCHEMA, "trace": TraceWords::of(&trace), "stats": stats});
            return say(&format!("{all:#}\n"));
        }
        say(&words)?;
        return print(&about(&stats));
    }
    let out = OutFolder::prepare(&args.on.out)?;
    match args.on.json {
        true => eprint!("{words}"),
        false => say(&words)?,
    }
    let bytes = asked.mib.map_or(footprint.roomy(), |mib| mib << 20);
    let results = Results {
        schema: SCHEMA,
        command: "replay",
        reproduce: reproduce(args, &asked, &trace, bytes),
        trace: TraceWords::of(&trace),
        stats,
        folded: Folded {
            fold: asked.fold.to_string(),
            bytes,
            fill: asked.fill.to_string(),
            passes: asked.passes,
            overlaps: work::blocktrace::fold::Folder::new(&footprint, asked.fold, bytes / 512)
                .overlaps(),
        },
        ftl: args.on.device.is_none().then(|| asked.shape.to_string()),
        counted: match args.on.device {
            None => counted(args, &asked, &trace, &footprint, bytes)?,
            Some(_) => Vec::new(),
        },
        device: match &args.on.device {
            Some(profile) => Some(timed(args, &asked, (&trace, &footprint), profile, bytes)?),
            None => None,
        },
    };
    out.write("trace.json", &results.to_json())?;
    out.write("index.html", &results.page())?;
    if args.on.json {
        return say(&results.to_json());
    }
    print(&results.about())?;
    for table in [results.policies(), results.latencies(), results.figures()]
        .iter()
        .flatten()
    {
        print(table)?;
    }
    let page = out.path().join("index.html");
    say(&format!(
        "{}\nreport: {}\nagain: {}\n",
        results.place(),
        page.display(),
        results.reproduce
    ))
}

fn counted(
    args: &ReplayArgs,
    asked: &Asked,
    trace: &BlockTrace,
    footprint: &Footprint,
    bytes: u64,
) -> Result<Vec<counting::CountingRun>, Failure> {
    let run = |policy: &Policy| {
        let spec = CountingSpec {
            bytes,
            shape: asked.shape,
            policy: *policy,
            seed: args.on.seed,
            fold: asked.fold,
            fill: asked.fill,
            passes: asked.passes,
        };
        counting::run(trace, footprint, &spec).map_err(failed)
    };
    asked.policies.iter().map(run).collect()
}

fn timed(
    args: &ReplayArgs,
    asked: &Asked,
    (trace, footprint): (&BlockTrace, &Footprint),
    profile: &str,
    bytes: u64,
) -> Result<device::DeviceRun, Failure> {
    let spec = DeviceSpec {
        profile: profile.into(),
        timing: args.on.timing.clone(),
        bytes,
        pace: asked.pace,
        fold: asked.fold,
        fill: asked.fill,
        passes: asked.passes,
    };
    device::run(trace, footprint, &spec).map_err(failed)
}

fn print((head, rows): &Table) -> Result<(), Failure> {
    let mut table = framed(head.clone());
    for row in rows {
        table.add_row(row.clone());
    }
    say(&format!("{}\n", to_the_right(table)))
}

/// The command line that makes the same again.
fn reproduce(args: &ReplayArgs, asked: &Asked, trace: &BlockTrace, bytes: u64) -> String {
    let mut text = format!(
        "varve replay {} --format {} --size {} --fold {} --fill {} --passes {}",
        shell::file(&trace.name),
        trace.format,
        bytes >> 20,
        asked.fold,
        asked.fill,
        asked.passes
    );
    match &args.on.device {
        Some(device) => {
            let device = shell::word(device);
            let _ = write!(text, " --device {device} --pace {}", asked.pace);
            if let Some(timing) = &args.on.timing {
                let _ = write!(text, " --timing {timing}");
            }
        }
        None => {
            let policies: Vec<String> = asked.policies.iter().map(Policy::to_string).collect();
            let policies = policies.join(",");
            let (seed, shape) = (args.on.seed, asked.shape);
            let _ = write!(text, " --policies {policies} --ftl {shape} --seed {seed}");
        }
    }
    text
}

/// What was read and what was left out, in a few lines.
fn summary(trace: &BlockTrace) -> String {
    let Reading {
        name,
        lines,
        left_out,
        faults,
        rules,
        ..
    } = &trace.reading;
    let mut text = format!(
        "{name}: {} ({lines} lines), {} requests to {} disks or files\n",
        trace.format,
        trace.requests.len(),
        trace.devices.len()
    );
    let counted = |all: &std::collections::BTreeMap<&'static str, u64>| {
        let words: Vec<String> = all.iter().map(|(why, n)| format!("{n} {why}")).collect();
        words.join(", ")
    };
    if !left_out.is_empty() {
        let _ = writeln!(text, "left out: {}", counted(left_out));
    }
    if !rules.is_empty() {
        let _ = writeln!(text, "rules: {}", counted(rules));
    }
    for (kind, lines) in faults {
        let _ = writeln!(
            text,
            "skipped: {} x {kind}, first in line {}: {}",
            lines.count, lines.line, lines.example
        );
    }
    text
}
