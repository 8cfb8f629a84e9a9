//! Several tasks on a volume without room: the last blocks go to one of them, no task gets another
//! error than ENOSPC, and acknowledged data is there.

use crate::crowd::{MODES, shared, together};
use rt::{Sim, SimConfig};
use varve_ext4::mkfs::Kind;

#[test]
fn on_threads() {
    for (seed, (kind, options)) in MODES.into_iter().enumerate() {
        let refused = together(kind, options, seed as u64, 1200);
        assert!(
            refused > 20,
            "{kind:?}, {options}: refused {refused} times only"
        );
    }
}

fn simulated(kind: Kind, seed: u64, options: &str, steps: usize) {
    let outcome = Sim::new(SimConfig::random(seed)).run(|| together(kind, options, seed, steps));
    let failure = &outcome.first_failure;
    assert!(
        failure.is_none(),
        "{options}: {failure:?}; replay: {}",
        outcome.replay
    );
}

#[test]
fn in_random_order() {
    for (seed, (kind, options)) in MODES.into_iter().enumerate() {
        simulated(kind, seed as u64, options, 500);
    }
}

#[test]
fn who_fits_is_never_refused() {
    for (seed, (kind, options)) in MODES.into_iter().enumerate() {
        if kind == Kind::Ext3 {
            continue;
        }
        shared(options, seed as u64, 40);
        // 17: with `flush-ahead`, another task gives blocks back between a refusal and the look at
        // what is left.
        for seed in [0, 1, 2, 17] {
            let outcome = Sim::new(SimConfig::random(seed)).run(|| shared(options, seed, 6));
            let failure = &outcome.first_failure;
            assert!(failure.is_none(), "{options}: {failure:?}");
        }
    }
}

#[test]
#[ignore = "minutes: 40 seeds in each mode, and threads"]
fn for_long() {
    for seed in 100..140 {
        for (kind, options) in MODES {
            simulated(kind, seed, options, 1000);
            together(kind, options, seed, 2500);
        }
    }
}
