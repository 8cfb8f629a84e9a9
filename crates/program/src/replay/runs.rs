//! The runs of a recording: what happens behind each of its steps besides the call (replay-B4).

use super::steps::{Sort, Step, epochs};
use crate::call::Recording;

/// Most runs of one kind.
pub const FAMILY_MAX: usize = 16;

/// What happens behind a step: write-back is started, then the timer of commits elapses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Then {
    /// All dirty data is written back.
    pub write: bool,
    /// The timer commits.
    pub commit: bool,
}

/// A run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// Its name in the table of replay-B4.
    pub name: String,
    /// For each step, what happens behind it.
    pub then: Vec<Then>,
    /// Draws how long the commands of the device take.
    pub seed: u64,
}

/// What a file system does that decides which runs a recording has.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// A sync of one changed file commits all metadata, as a journal does.
    pub commits_all: bool,
    /// The timer commits content, too (`data=journal`).
    pub commits_data: bool,
    /// A commit does not wait for write-back (`data=writeback`), so which of them is first is up to
    /// the device.
    pub races: bool,
}

/// Runs of which the device decides what they reach are repeated so many times, with other times of
/// its commands.
const RACES: u64 = 8;

/// How the steps of a recording lie in its epochs.
struct Steps<'a> {
    steps: &'a [Step],
    epochs: Vec<usize>,
    habits: Habits,
}

/// All runs, the plain ones first, and how many were left out.
pub fn runs(recording: &Recording, steps: &[Step], habits: Habits) -> (Vec<Run>, u64) {
    let steps = Steps {
        steps,
        epochs: epochs(recording, steps, habits.commits_all),
        habits,
    };
    let mut runs = vec![
        steps.run("quiet", |_| Then::default()),
        steps.run("commit", |n| steps.then(false, steps.commits(n))),
        steps.run("both", |n| {
            let changes = steps.changes(n);
            steps.then(changes, changes)
        }),
        steps.run("write", |n| steps.then(steps.changes(n), false)),
    ];
    let races = if habits.races { RACES } else { 0 };
    for seed in 1..races {
        let both = runs[2].clone();
        let name = format!("{}/{seed}", both.name);
        runs.push(Run { name, seed, ..both });
    }
    let plain = runs.len();
    let data = steps.ranks(|n| steps.steps[n].sort == Sort::Data);
    let (chosen, mut beyond) = spread(&data);
    for i in chosen {
        runs.push(steps.run(&format!("write@{i}"), |n| {
            let here = data[n] == Some(i);
            steps.then(here, here || steps.commits(n))
        }));
    }
    let changes = steps.ranks(|n| steps.changes(n));
    let (chosen, left) = spread(&changes);
    beyond += left;
    for i in chosen {
        runs.push(steps.run(&format!("commit@{i}+write"), |n| {
            steps.then(steps.changes(n), changes[n] == Some(i))
        }));
    }
    let metadata = steps.ranks(|n| steps.commits(n));
    let (chosen, left) = spread(&metadata);
    beyond += left;
    for i in chosen {
        let name = format!("commit@{i}>write");
        let mut committed = None;
        runs.push(steps.run(&name, |n| {
            let written = committed == Some(steps.epochs[n]) && steps.changes(n);
            let here = metadata[n] == Some(i);
            if here {
                committed = Some(steps.epochs[n]);
            }
            steps.then(written, here)
        }));
    }
    // Short recordings have runs of different kinds that are the same.
    let mut kept: Vec<Run> = Vec::new();
    for (n, run) in runs.into_iter().enumerate() {
        if n < plain || kept.iter().all(|k| k.then != run.then) {
            kept.push(run);
        }
    }
    (kept, beyond)
}

impl Steps<'_> {
    fn changes(&self, n: usize) -> bool {
        self.steps[n].sort != Sort::Nothing
    }

    /// Whether a commit behind the step could hold more than one before it.
    fn commits(&self, n: usize) -> bool {
        match self.steps[n].sort {
            Sort::Metadata => true,
            Sort::Data => self.habits.commits_data,
            Sort::Nothing => false,
        }
    }

    fn then(&self, write: bool, commit: bool) -> Then {
        Then { write, commit }
    }

    fn run(&self, name: &str, then: impl FnMut(usize) -> Then) -> Run {
        Run {
            name: name.into(),
            then: (0..self.steps.len()).map(then).collect(),
            seed: 0,
        }
    }

    /// The rank within its epoch of each step that `counts`.
    fn ranks(&self, counts: impl Fn(usize) -> bool) -> Vec<Option<usize>> {
        let (mut epoch, mut next) = (0, 0);
        let rank = |n: usize| {
            if self.epochs[n] != epoch {
                (epoch, next) = (self.epochs[n], 0);
            }
            counts(n).then(|| {
                next += 1;
                next - 1
            })
        };
        (0..self.steps.len()).map(rank).collect()
    }
}

/// At most [`FAMILY_MAX`] of the ranks, evenly, the first and the last among them; and how many are
/// left out.
fn spread(ranks: &[Option<usize>]) -> (Vec<usize>, u64) {
    let count = ranks.iter().flatten().max().map_or(0, |max| max + 1);
    if count <= FAMILY_MAX {
        return ((0..count).collect(), 0);
    }
    let chosen = (0..FAMILY_MAX).map(|i| i * (count - 1) / (FAMILY_MAX - 1));
    (chosen.collect(), (count - FAMILY_MAX) as u64)
}

#[cfg(test)]
mod tests {
    use super::super::steps::steps;
    use super::*;
    use crate::call::{Call, What, Who};
    use crate::tree::{NodeId, ROOT, Tree};

    const ORDERED: Habits = Habits {
        commits_all: true,
        commits_data: false,
        races: false,
    };

    fn recording(calls: Vec<What>) -> Recording {
        let call = |what| Call {
            who: Who::default(),
            what,
            path: String::new(),
            stack: Vec::new(),
        };
        Recording {
            start: Tree::default(),
            calls: calls.into_iter().map(call).collect(),
        }
    }

    /// Two writes and a change of names, and a sync of the file if asked for.
    fn calls(synced: bool, data_only: bool) -> Vec<What> {
        let node = NodeId(1);
        let write = |offset| What::Write {
            node,
            offset,
            data: vec![1; 10].into(),
            size_before: 100,
        };
        let mut calls = vec![
            write(0),
            write(10),
            What::Link {
                node,
                dir: ROOT,
                name: b"n".to_vec(),
            },
        ];
        calls.extend(synced.then_some(What::Sync {
            node,
            data_only,
            failed: None,
        }));
        calls
    }

    fn names(recording: &Recording, habits: Habits) -> (Vec<String>, u64) {
        let (runs, beyond) = runs(recording, &steps(recording), habits);
        (runs.into_iter().map(|run| run.name).collect(), beyond)
    }

    #[test]
    fn choices_are_made_in_each_epoch_at_once() {
        let once = recording(calls(true, false));
        let many = recording((0..20).flat_map(|_| calls(true, false)).collect());
        let (expected, beyond) = names(&once, ORDERED);
        assert_eq!(beyond, 0);
        assert!(expected.contains(&"write@1".into()) && !expected.contains(&"write@2".into()));
        let (found, beyond) = names(&many, ORDERED);
        assert_eq!((found.len(), beyond), (expected.len(), 0), "{found:?}");
        let (all, _) = runs(&many, &steps(&many), ORDERED);
        let run = all.iter().find(|run| run.name == "write@1").expect("it");
        let writes = run.then.iter().enumerate().filter(|(_, then)| then.write);
        let places: Vec<usize> = writes.map(|(n, _)| n).take(3).collect();
        assert_eq!(places, [1, 5, 9]);
    }

    #[test]
    fn without_syncs_there_is_one_epoch() {
        let f2fs = Habits {
            commits_all: false,
            ..ORDERED
        };
        let open = recording((0..20).flat_map(|_| calls(false, false)).collect());
        // The name is in another directory, and F2FS syncs the file alone.
        let names_open = recording((0..20).flat_map(|_| calls(true, false)).collect());
        // Of this file nothing but the time has changed, so an fdatasync commits nothing.
        let write = calls(false, false).swap_remove(0);
        let sync = What::Sync {
            node: NodeId(1),
            data_only: true,
            failed: None,
        };
        let times = (0..20).flat_map(|_| [write.clone(), sync.clone()]);
        let times = recording(times.collect());
        for (recording, habits, most) in [
            (&open, ORDERED, 40),
            (&names_open, f2fs, 40),
            (&times, ORDERED, 20),
        ] {
            let (found, beyond) = names(recording, habits);
            let once = found.iter().filter(|name| name.starts_with("write@"));
            assert_eq!(once.count(), FAMILY_MAX);
            assert!(beyond >= most - FAMILY_MAX as u64, "{beyond}");
            assert!(found.contains(&format!("write@{}", most - 1)), "the last");
        }
    }

    #[test]
    fn what_the_device_decides_is_repeated() {
        let races = Habits {
            races: true,
            ..ORDERED
        };
        let recording = recording(calls(true, false));
        let (plain, _) = names(&recording, ORDERED);
        let (found, _) = names(&recording, races);
        assert_eq!(found.len(), plain.len() + RACES as usize - 1);
    }
}
