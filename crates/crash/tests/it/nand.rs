//! The explorer's cuts of a modelled device: each program and erase of the chips, and moments of
//! virtual time.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use blockdev::Adversary;
use rig::Cause;
use std::collections::BTreeMap;
use varve_crash::nand::{NandBound, NandExplored, NandPath, aged_volume, explore, small_chips};
use varve_crash::{CrashConfig, Script, Target, Volume, small_volume, subject};

fn setup(scheme: &str, adversary: Adversary, seed: u64) -> (CrashConfig, Volume) {
    setup_on(scheme, small_chips(), adversary, seed)
}

fn setup_on(scheme: &str, device: &str, adversary: Adversary, seed: u64) -> (CrashConfig, Volume) {
    let mut stack = small_volume(scheme.parse().unwrap(), device, 1);
    stack.bytes = 32 << 20;
    stack.journal_blocks = Some(1024);
    let volume = aged_volume(&stack, adversary, 1).unwrap();
    let target = Target::Profile(adversary);
    let config = CrashConfig::new(stack, target, seed, Script::Fixed(Vec::new()), 0);
    (config, volume)
}

fn words(explored: &NandExplored) -> String {
    let e = &explored.explored;
    format!(
        "{} enumerated, {} equal, {} beyond, {} judged ({} nested), {} findings, failure {:?}\n{}",
        e.enumerated,
        e.deduplicated,
        e.beyond,
        e.judged,
        e.nested,
        e.findings.len(),
        e.failure,
        explored.census.lines().join("\n")
    )
}

/// Every cut of one small mix; answers what was cut.
fn exhaust(scheme: &str) -> NandExplored {
    let (config, volume) = setup(scheme, Adversary::Own, 3);
    let mix = subject::parse("mix").unwrap();
    let bound = NandBound::default();
    let found = explore(&config, &volume, mix.as_ref(), &bound, &mut |_| {}).unwrap();
    eprintln!("{scheme}: {}", words(&found));
    assert_eq!(found.explored.failure, None);
    assert_eq!(found.explored.beyond, 0);
    found
}

#[test]
fn every_operation_of_the_chips_is_cut_under_every_preset() {
    let mut inside: BTreeMap<(Cause, bool), u64> = BTreeMap::new();
    for scheme in ["jbd2", "flush-ahead", "coalition", "emmc", "adaptive"] {
        let found = exhaust(scheme);
        let e = &found.explored;
        assert!(e.findings.is_empty(), "{scheme}: {:?}", e.findings);
        assert!(e.judged > 50, "{scheme}: {e:?}");
        for ((cause, erase, part), n) in found.census.0 {
            if part == "inside" {
                *inside.entry((cause, erase)).or_default() += n;
            }
        }
    }
    // The aged device collects, erases, and writes its map while the mix runs.
    for key in [
        (Cause::Host, false),
        (Cause::Host, true),
        (Cause::Collection, false),
        (Cause::Collection, true),
        (Cause::Map, false),
        (Cause::Map, true),
    ] {
        assert!(
            inside.get(&key).is_some_and(|n| *n >= 10),
            "{key:?}: {inside:?}"
        );
    }
}

/// Without a journal the same cuts show damage: the judge sees through chips, map and mount.
#[test]
fn without_a_journal_the_cuts_show_damage() {
    let found = exhaust("none").explored;
    assert!(found.violations > 10, "{found:?}");
    let ids: Result<Vec<NandPath>, _> = found.findings.iter().map(|f| f.state.parse()).collect();
    assert_eq!(ids.unwrap().len(), found.findings.len());
}

/// The write area of cells with one bit each: its folding is cut too.
#[test]
fn folding_of_the_slc_area_is_cut() {
    let slc = format!("{},slc.on=true,slc.mib=1", small_chips());
    let (config, volume) = setup_on("emmc", &slc, Adversary::Own, 4);
    let mix = subject::parse("mix").unwrap();
    let bound = NandBound::default();
    let found = explore(&config, &volume, mix.as_ref(), &bound, &mut |_| {}).unwrap();
    eprintln!("slc: {}", words(&found));
    assert_eq!(found.explored.failure, None);
    assert!(
        found.explored.findings.is_empty(),
        "{:?}",
        found.explored.findings
    );
    assert!(found.census.inside(Cause::Fold, false) > 0);
}
