//! Crash states of a modelled device per second and core: before, inside and after each program and
//! erase of its chips, each distinct state with the recovery of the translation layer, of the
//! journal, a mount, and the model oracle. The run itself and the making of the states are in the
//! time; making and ageing the volume, once for all runs, is not.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

use blockdev::Adversary;
use std::time::{Duration, Instant};
use varve_crash::nand::{NandBound, aged_volume, explore, small_chips};
use varve_crash::{CrashConfig, Script, Target, small_volume, subject};

const SCHEMES: [&str; 6] = [
    "jbd2",
    "flush-ahead",
    "coalition",
    "emmc",
    "adaptive",
    "none",
];
const SPAN: Duration = Duration::from_secs(3);

fn main() {
    // `cargo test --benches` asks whether it builds, no more.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    println!(
        "{:<12} {:<9} {:>4} {:>7} {:>10} {:>12} {:>7} {:>8} {:>9} {:>9}",
        "scheme",
        "adversary",
        "runs",
        "points",
        "enumerated",
        "deduplicated",
        "pruned",
        "judged",
        "findings",
        "states/s"
    );
    for scheme in SCHEMES {
        measure(scheme, Adversary::Own);
    }
}

fn measure(scheme: &str, adversary: Adversary) {
    let mut stack = small_volume(scheme.parse().expect("a scheme"), small_chips(), 1);
    stack.bytes = 32 << 20;
    stack.journal_blocks = Some(1024);
    let target = Target::Profile(adversary);
    let volume = aged_volume(&stack, adversary, 1).expect("a volume");
    let bound = NandBound {
        places: 5,
        seeds: 8,
        ..NandBound::default()
    };
    let (mut runs, mut points, mut enumerated, mut equal) = (0u64, 0u64, 0u64, 0u64);
    let (mut pruned, mut judged, mut findings) = (0u64, 0u64, 0u64);
    let begun = Instant::now();
    while begun.elapsed() < SPAN {
        runs += 1;
        let script = Script::Fixed(Vec::new());
        let config = CrashConfig::new(stack.clone(), target.clone(), runs, script, 0);
        let mix = subject::parse("mix").expect("a workload");
        let found = explore(&config, &volume, mix.as_ref(), &bound, &mut |_| {}).expect("a run");
        let e = found.explored;
        points += e.points;
        enumerated += e.enumerated;
        equal += e.deduplicated;
        pruned += e.pruned;
        judged += e.judged;
        findings += e.violations;
        if let Some(f) = e.findings.first() {
            println!("{scheme}, seed {runs}, {}: {:?}", f.state, f.violations);
        }
    }
    let rate = judged as f64 / begun.elapsed().as_secs_f64();
    println!(
        "{scheme:<12} {:<9} {runs:>4} {points:>7} {enumerated:>10} {equal:>12} {pruned:>7} {judged:>8} {findings:>9} {rate:>9.0}",
        format!("{adversary:?}").to_lowercase()
    );
}
