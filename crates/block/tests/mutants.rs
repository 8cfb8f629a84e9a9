//! The catalogue of `cargo xtask mutants` for the ordered plug: each guard, removed, is noticed
//! within 200 cuts, and the code with its guards passes the same cuts. docs/design/testing.md says
//! what a line means.

#[path = "it/plug.rs"]
mod plug;

use base::Mutant;
use blockdev::{Caps, PackOrder};
use plug::{packed, run};
use rt::SimConfig;

/// Cuts within which a mutant has to be noticed.
const CUTS: u64 = 200;

/// Proves what the catalogue says of `mutant`, and says it.
fn noticed(mutant: Mutant, workload: &str, caps: &Caps) {
    let (mut cuts, mut clean, mut reached) = (0, 0, 0);
    for seed in 0.. {
        assert!(
            cuts < CUTS,
            "{mutant}: not noticed, reached {reached} times"
        );
        let whole = run(caps.clone(), seed, SimConfig::random(seed));
        clean += whole
            .value
            .expect("it ran to its end")
            .unwrap_or_else(|(_, why)| panic!("the code with its guard, seed {seed}: {why}"));
        let config = SimConfig {
            mutant: Some(mutant),
            ..SimConfig::random(seed)
        };
        let broken = run(caps.clone(), seed, config);
        reached += broken.reached.get(&mutant).copied().unwrap_or(0);
        match broken.value.expect("it ran to its end") {
            Ok(judged) => cuts += judged,
            Err((judged, why)) => {
                assert!(reached > 0, "{mutant}: no one asked for its guard");
                cuts += judged;
                println!("{mutant}: seed {seed}: {why}");
                println!("mutant|{mutant}|{workload}|{reached}|order of groups|{cuts}|{clean}");
                return;
            }
        }
    }
}

/// hazards-H8.
#[test]
fn pack_twice() {
    let caps = packed(PackOrder::Prefix, 60);
    noticed(Mutant::PackTwice, "ordered plug, prefix", &caps);
}

/// hazards-H20.
#[test]
fn pack_any_subset() {
    let caps = packed(PackOrder::AnySubset, 60);
    noticed(Mutant::PackAnySubset, "ordered plug, any subset", &caps);
}
