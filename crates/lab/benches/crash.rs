//! Crash states per second and core: one run, all its cuts within a bound, each distinct state recovered, mounted and judged.
//!
//! `judge` is the rate of recovery, mount and oracle alone; `all` counts the run, the making of the states and their hashes too.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use rig::{Bound, Mode};
use std::time::{Duration, Instant};
use varve_lab::crash::cells::Cell;
use varve_lab::crash::check::{CheckOptions, Checker};
use varve_lab::crash::traced::trace;
use varve_lab::crash::{CrashConfig, Script, Target, Volume, small_volume, subject};

const SCHEMES: [&str; 6] = [
    "jbd2",
    "flush-ahead",
    "coalition",
    "emmc",
    "adaptive",
    "none",
];

fn main() {
    // `cargo test --benches` asks whether it builds, no more.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    println!(
        "{:<12} {:<8} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "scheme", "workload", "points", "states", "distinct", "findings", "judge/s", "all/s"
    );
    for scheme in SCHEMES {
        for workload in ["mix"] {
            measure(scheme, workload, CheckOptions::default());
        }
    }
}

fn measure(scheme: &str, workload: &str, options: CheckOptions) {
    let mut stack = small_volume(scheme.parse().expect("a scheme"), "emmc-odroid-xu4", 1);
    stack.journal_blocks = Some(1024);
    let target = Target::Spec(Cell::all()[0].caps(stack.bytes));
    let volume = Volume::new(&stack, &target).expect("a volume");
    let bound = Bound {
        mode: Mode::Random(64),
        ..Bound::default()
    };
    let (mut points, mut enumerated, mut judged, mut findings) = (0u64, 0u64, 0u64, 0u64);
    let (mut judging, begun) = (Duration::ZERO, Instant::now());
    let mut seed = 0;
    while begun.elapsed() < Duration::from_secs(2) {
        seed += 1;
        let config = CrashConfig::new(
            stack.clone(),
            target.clone(),
            seed,
            Script::Fixed(Vec::new()),
            0,
        );
        let subject = subject::parse(workload).expect("a workload");
        let mut traced = trace(&config, &volume, subject.as_ref()).expect("a run");
        let checker = Checker::with(&config, &volume, options);
        let mut cursor = traced.trace.cursor();
        let mut seen = base::Set::default();
        for at in traced.trace.cut_points() {
            if at <= traced.began {
                continue;
            }
            cursor.seek(at);
            traced.oracle.advance(at);
            points += 1;
            let mut fresh = Vec::new();
            for choice in cursor.choices(&bound) {
                enumerated += 1;
                let image = cursor.image(&choice);
                if seen.insert((image.content_hash(), traced.oracle.epoch())) {
                    fresh.push(image);
                }
            }
            let clock = Instant::now();
            let mut each = |_, judgement: varve_lab::crash::Judgement| {
                judged += 1;
                if !judgement.violations.is_empty() {
                    findings += 1;
                    if findings < 3 {
                        println!("{:?}", judgement.violations);
                    }
                }
                true
            };
            checker
                .check(traced.oracle.as_ref(), &fresh, &mut each)
                .expect("judged");
            judging += clock.elapsed();
        }
    }
    let all = begun.elapsed();
    println!(
        "{scheme:<12} {workload:<8} {points:>7} {enumerated:>9} {judged:>9} {findings:>9} {:>9.0} {:>9.0}",
        judged as f64 / judging.as_secs_f64(),
        judged as f64 / all.as_secs_f64()
    );
}
