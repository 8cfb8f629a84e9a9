//! The proof that a mutant is noticed, for the catalogues of `cargo xtask mutants`.
//! docs/design/testing.md says what the printed line means.
#![allow(clippy::disallowed_macros)] // The lines are what `cargo xtask mutants` reads.

use base::Mutant;
use rt::{Outcome, Sim, SimConfig};

/// What the cuts of some histories showed.
#[derive(Default, Debug)]
pub struct Seen {
    /// Cuts that were judged.
    pub cuts: u64,
    /// How often the guard was asked for.
    pub reached: u64,
    /// The first violation.
    pub found: Option<String>,
}

impl Seen {
    /// Counts how often a run asked for the guard of `mutant`.
    pub fn asked<T>(&mut self, mutant: Option<Mutant>, run: &Outcome<T>) {
        let asked = mutant.and_then(|m| run.reached.get(&m).copied());
        self.reached += asked.unwrap_or(0);
    }
}

/// Runs a history for each seed, and judges its cuts, until one is a violation or `most` are
/// judged.
///
/// # Panics
/// If a history yields neither cuts nor a failure.
pub fn cuts_of<C>(
    mutant: Option<Mutant>,
    (seeds, most): (impl IntoIterator<Item = u64>, u64),
    history: impl Fn(u64) -> Outcome<Vec<C>>,
    judge: impl Fn(&C) -> Result<(), String>,
) -> Seen {
    let mut seen = Seen::default();
    for seed in seeds {
        let outcome = history(seed);
        seen.asked(mutant, &outcome);
        if let Some(failure) = outcome.first_failure {
            seen.found = Some(format!("seed {seed}: {failure}"));
            return seen;
        }
        for (n, cut) in outcome.value.expect("cuts").iter().enumerate() {
            seen.cuts += 1;
            if let Err(why) = judge(cut) {
                seen.found = Some(format!("seed {seed}, cut {n}: {why}"));
                return seen;
            }
        }
        if seen.cuts >= most {
            return seen;
        }
    }
    seen
}

/// Proves what the catalogue says of `mutant`, and prints its line: the code with its guard shows
/// nothing, and without it a cut is a violation.
///
/// # Panics
/// If it is not so.
pub fn caught(mutant: Mutant, workload: &str, explore: impl Fn(Option<Mutant>) -> Seen) {
    let broken = explore(Some(mutant));
    let clean = explore(None);
    prove(mutant, workload, broken, &clean);
}

/// As [`caught`], of two runs that were made.
///
/// # Panics
/// If they do not prove it.
pub fn prove(mutant: Mutant, workload: &str, broken: Seen, clean: &Seen) {
    assert_eq!(clean.found, None, "the code with its guard");
    let Seen { cuts, reached, .. } = broken;
    let found = broken.found;
    let found = found.unwrap_or_else(|| panic!("{mutant}: not noticed in {cuts} cuts"));
    say(
        mutant,
        workload,
        ("file system", cuts, clean.cuts),
        reached,
        &found,
    );
}

/// Prints the line of a mutant: the property that was violated after how many cuts, of how many
/// that the code with its guard passed, how often the guard was asked for, and what was found.
///
/// # Panics
/// If the guard was never asked for.
pub fn say(
    mutant: Mutant,
    workload: &str,
    (property, after, clean): (&str, u64, u64),
    reached: u64,
    found: &str,
) {
    assert!(reached > 0, "{mutant}: no one asked for its guard");
    println!("{mutant}: {found}");
    println!("mutant|{mutant}|{workload}|{reached}|{property}|{after}|{clean}");
}

/// Proves what the catalogue says of a mutant that does damage while the power stays on: within
/// `seeds` random schedules `run` fails with it, and without it does not.
///
/// # Panics
/// If it is not so.
pub fn missed(mutant: Mutant, workload: &str, seeds: u64, run: impl Fn(u64)) {
    let under = |mutant: Option<Mutant>, seed: u64| {
        let config = SimConfig {
            mutant,
            quiet: mutant.is_some(),
            ..SimConfig::random(seed)
        };
        Sim::new(config).run(|| run(seed))
    };
    let mut seen = Seen::default();
    for seed in 0..seeds {
        let broken = under(Some(mutant), seed);
        seen.asked(Some(mutant), &broken);
        let Some(found) = broken.first_failure else {
            continue;
        };
        let clean = under(None, seed).first_failure;
        assert!(clean.is_none(), "the code with its guard: {clean:?}");
        let found = format!("seed {seed}: {found}");
        return say(
            mutant,
            workload,
            ("no cut", seed + 1, 1),
            seen.reached,
            &found,
        );
    }
    let reached = seen.reached;
    panic!("{mutant}: not noticed by {seeds} runs, reached {reached} times");
}
