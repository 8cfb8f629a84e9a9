//! The explorer's cuts of a modelled device: each program and erase of the chips, and moments of virtual time.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use rig::Adversary;
use varve_lab::crash::nand::{NandBound, NandExplored, aged_volume, explore, small_chips};
use varve_lab::crash::{CrashConfig, Script, Target, Volume, small_volume, subject};

fn setup(scheme: &str, adversary: Adversary, seed: u64) -> (CrashConfig, Volume) {
    let mut stack = small_volume(scheme.parse().unwrap(), small_chips(), 1);
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

#[test]
fn every_operation_of_the_chips_is_cut_under_every_preset() {
    for scheme in ["jbd2", "flush-ahead", "coalition", "emmc", "adaptive"] {
        let (config, volume) = setup(scheme, Adversary::Own, 3);
        let mix = subject::parse("mix").unwrap();
        let begun = std::time::Instant::now();
        let explored = explore(
            &config,
            &volume,
            mix.as_ref(),
            &NandBound::default(),
            &mut |_| {},
        )
        .unwrap();
        eprintln!("{scheme}: {} in {:?}", words(&explored), begun.elapsed());
        assert_eq!(explored.explored.failure, None);
        assert!(
            explored.explored.findings.is_empty(),
            "{:?}",
            explored.explored.findings
        );
    }
}
