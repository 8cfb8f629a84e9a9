//! Crash states per second and core: runs, all their cuts within a bound, each distinct state
//! recovered, mounted and judged.
//!
//! Rates are of processor time of one thread. `judge` is recovery, mount and oracle alone, `fsck`
//! the same with `varve fsck` of every state, `all` counts the run, the making of the states and
//! their hashes too (without fsck).
//!
//! `cargo bench -p varve-crash --bench crash [-- SCHEME...]`
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

use blockdev::Image;
use blockdev::spec::{Bound, Mode};
use varve_crash::cells::Cell;
use varve_crash::check::{CheckOptions, Checker};
use varve_crash::oracle::Oracle;
use varve_crash::traced::trace;
use varve_crash::{CrashConfig, Script, Target, Volume, subject, tiny_volume};

const SCHEMES: [&str; 6] = [
    "jbd2",
    "flush-ahead",
    "coalition",
    "coalition-paper",
    "emmc",
    "adaptive",
];
const WORKLOADS: [(&str, &str); 3] = [
    ("mix", "mix"),
    ("create_delete", "known:create_delete"),
    ("rename_root", "known:rename_root_to_sub"),
];
/// States judged for one line, at least, if seeds of the workload give so many.
const STATES: u64 = 10_000;
const SEEDS: u64 = 40;

fn main() {
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    // A test of all benches asks whether they run, no more.
    let short = std::env::args().any(|a| a == "--test");
    println!(
        "{:<15} {:<13} {:>6} {:>10} {:>8} {:>9} {:>9} {:>8} {:>5} {:>8} {:>8} {:>8}",
        "scheme",
        "workload",
        "cuts",
        "enumerated",
        "pruned",
        "beyond",
        "equal",
        "judged",
        "bad",
        "judge/s",
        "fsck/s",
        "all/s"
    );
    for scheme in SCHEMES {
        for (name, workload) in WORKLOADS {
            if asked.is_empty() || asked.iter().any(|a| a == scheme) {
                line(scheme, name, workload, if short { 1 } else { STATES });
            }
        }
    }
}

#[derive(Default)]
struct Sums {
    cuts: u64,
    enumerated: u64,
    pruned: u64,
    beyond: u64,
    equal: u64,
    judged: u64,
    bad: u64,
    /// Nanoseconds of processor time.
    judging: u64,
    checking: u64,
    all: u64,
}

fn line(scheme: &str, name: &str, workload: &str, states: u64) {
    let mut sums = Sums::default();
    let mut seed = 0;
    while sums.judged < states && seed < SEEDS {
        seed += 1;
        run(scheme, workload, seed, &mut sums);
    }
    let rate = |n: u64, ns: u64| n as f64 * 1e9 / ns.max(1) as f64;
    println!(
        "{scheme:<15} {name:<13} {:>6} {:>10} {:>8} {:>9} {:>9} {:>8} {:>5} {:>8.0} {:>8.0} {:>8.0}",
        sums.cuts,
        sums.enumerated,
        sums.pruned,
        sums.beyond,
        sums.equal,
        sums.judged,
        sums.bad,
        rate(sums.judged, sums.judging),
        rate(sums.judged, sums.checking),
        rate(sums.judged, sums.all),
    );
}

fn run(scheme: &str, workload: &str, seed: u64, sums: &mut Sums) {
    let stack = tiny_volume(scheme.parse().expect("a scheme"), 1);
    let target = Target::Spec(Cell::all()[0].caps(stack.bytes));
    let volume = Volume::new(&stack, &target).expect("a volume");
    let bound = Bound {
        mode: Mode::Bounded,
        states_max: 400,
        ..Bound::default()
    };
    let none = Script::Fixed(Vec::new());
    let config = CrashConfig::new(stack, target, seed, none, 0);
    let subject = subject::parse(workload).expect("a workload");
    let begun = processor_time();
    let mut traced = trace(&config, &volume, subject.as_ref()).expect("a run");
    assert_eq!(traced.failure, None);
    let checker = |fsck| {
        Checker::with(
            &config,
            &volume,
            CheckOptions {
                deep_one_in: 0,
                fsck,
            },
        )
    };
    let (plain, fsck) = (checker(false), checker(true));
    let mut cursor = traced.trace.cursor();
    let mut seen = base::Set::default();
    let mut not_counted = 0;
    for at in traced.trace.cut_points() {
        if at <= traced.began {
            continue;
        }
        cursor.seek(at);
        traced.oracle.advance(at);
        sums.cuts += 1;
        let epoch = traced.oracle.epoch();
        let mut fresh = Vec::new();
        let counted = cursor.each_choice(&bound, &mut |choice| {
            let hash = cursor.content_hash(&choice).expect("its own choice");
            match seen.insert((hash, epoch)) {
                true => fresh.push(cursor.image(&choice)),
                false => sums.equal += 1,
            }
            true
        });
        sums.enumerated += counted.enumerated;
        sums.pruned += counted.pruned;
        sums.beyond += counted.beyond;
        let oracle = traced.oracle.as_ref();
        sums.judged += fresh.len() as u64;
        sums.judging += timed(|| sums.bad += bad(&plain, oracle, &fresh));
        let checking = timed(|| sums.bad += bad(&fsck, oracle, &fresh));
        sums.checking += checking;
        not_counted += checking;
    }
    sums.all += processor_time() - begun - not_counted;
}

/// States with violations; the first one is shown.
fn bad(checker: &Checker<'_>, oracle: &dyn Oracle, states: &[Image]) -> u64 {
    let mut bad = 0;
    let mut each = |_, judgement: varve_crash::Judgement| {
        if let (0, Some(first)) = (bad, judgement.violations.first()) {
            println!("{first}");
        }
        bad += u64::from(!judgement.violations.is_empty());
        true
    };
    checker.check(oracle, states, &mut each).expect("judged");
    bad
}

fn timed(f: impl FnOnce()) -> u64 {
    let begun = processor_time();
    f();
    processor_time() - begun
}

/// Time that this thread has run, ns (Linux, `/proc/thread-self/schedstat`).
fn processor_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let first = text.split_whitespace().next().expect("three numbers");
    first.parse().expect("a number")
}
