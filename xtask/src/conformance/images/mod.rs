//! The tests of e2fsprogs that are not about journals: the verdict of `varve fsck -n` on each
//! volume, compared with that of `e2fsck -fn`.
//!
//! ```text
//!  their script, with a program in place of e2fsck --a copy at each call--> states of the volume --> e2fsck -fn ---> verdict
//!                                                                                    +------------> varve fsck -n -> verdict
//! ```
//!
//! Tests `f_*` have damaged volumes and what e2fsck makes of them, `m_*` fresh volumes of mke2fs,
//! `r_*` volumes of resize2fs. A difference that has no row in `rows` fails the suite, and so does
//! a row without a difference. No row excuses a volume that Varve calls clean and e2fsck damaged.
//! The files of the package are unpacked under `target`, and stay there.

mod capture;
mod rows;
mod verdict;

use super::e2fsprogs::{fetch, fresh, name_of};
use crate::{Result, workspace};
use rows::{ROWS, SKIPPED};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use verdict::Verdict;

/// Tests in the package; fewer mean that they were not all found.
const TESTS: usize = 267;
/// Of a thousand tests `f_*` so many must have equal verdicts in all their states.
const SAME_PERMILLE: usize = 950;
/// Tests that run at the same time.
const WORKERS: usize = 2;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Folder with the unpacked source package [default: fetched with apt].
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
    /// Only the damaged volumes that come as files, each once; skipped by name without the source
    /// package.
    #[arg(long)]
    quick: bool,
    /// Only tests with this in their name.
    filter: Option<String>,
}

/// What was found of one state of a volume.
struct State {
    test: String,
    number: usize,
    theirs: Verdict,
    ours: Verdict,
    /// What both checkers printed.
    words: String,
}

/// What was found of all states.
#[derive(Default)]
struct Tally {
    states: Vec<State>,
    /// Tests whose script has left no volume, and those that could not be looked at.
    empty: Vec<String>,
    failures: Vec<String>,
}

/// Runs the suite.
pub fn run(args: &Args, varve: &Path) -> Result {
    let work = workspace::root().join("target/e2fsprogs");
    let source = match (&args.source, args.quick) {
        (Some(dir), _) => dir.clone(),
        (None, false) => fetch(&work)?,
        (None, true) => match fetch(&work) {
            Ok(dir) => dir,
            Err(why) => {
                println!("skipped: the source package of e2fsprogs is not to be had: {why}");
                return Ok(());
            }
        },
    };
    let all = tests_in(&source.join("tests"))?;
    let wanted = |name: &str| {
        let filter = args.filter.as_ref();
        filter.is_none_or(|f| name.contains(f.as_str()))
    };
    let mut tests: Vec<PathBuf> = all.into_iter().filter(|t| wanted(&name_of(t))).collect();
    if args.quick {
        tests.retain(|test| test.join("image.gz").exists() && !test.join("script").exists());
    }
    let dir = tempfile::tempdir_in(fresh(&work.join("run"))?).map_err(|e| e.to_string())?;
    let tally = judge_all(&tests, varve, dir.path(), args.quick);
    let complete = args.filter.is_none() && !args.quick;
    conclude(&tally, complete)
}

fn tests_in(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut tests: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    tests.retain(|path| {
        let name = name_of(path);
        ["f_", "m_", "r_"].iter().any(|p| name.starts_with(p))
    });
    tests.sort();
    match tests.len() {
        TESTS => Ok(tests),
        n => Err(format!(
            "{} holds {n} tests f_*, m_* and r_*, not {TESTS}",
            dir.display()
        )),
    }
}

fn judge_all(tests: &[PathBuf], varve: &Path, dir: &Path, quick: bool) -> Tally {
    let next = Mutex::new(tests.iter());
    let tally = Mutex::new(Tally::default());
    let work = || {
        loop {
            let test = next.lock().map(|mut tests| tests.next());
            let Ok(Some(test)) = test else { return };
            let outcome = judge(test, varve, &dir.join(name_of(test)), quick);
            let Ok(mut tally) = tally.lock() else { return };
            match outcome {
                Ok(states) if states.is_empty() => tally.empty.push(name_of(test)),
                Ok(states) => tally.states.extend(states),
                Err(why) => tally.failures.push(format!("{}: {why}", name_of(test))),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(work);
        }
    });
    let mut tally = tally.into_inner().unwrap_or_default();
    tally
        .states
        .sort_by(|a, b| (&a.test, a.number).cmp(&(&b.test, b.number)));
    tally.empty.sort();
    tally
}

/// Judges all states of one test.
fn judge(test: &Path, varve: &Path, place: &Path, quick: bool) -> Result<Vec<State>> {
    let name = name_of(test);
    if SKIPPED.iter().any(|(skipped, _)| *skipped == name) {
        return Ok(Vec::new());
    }
    fresh(place)?;
    let volumes = match quick {
        true => vec![capture::unpacked(test, place)?],
        false => capture::states(test, place)?,
    };
    let mut states = Vec::new();
    for (number, volume) in (1..).zip(volumes) {
        let (ours, our_words) = verdict::ours(varve, &volume)?;
        let (theirs, their_words) = verdict::theirs(&volume)?;
        let words = format!("  e2fsck: {their_words}\n  varve: {our_words}");
        states.push(State {
            test: name.clone(),
            number,
            theirs,
            ours,
            words,
        });
    }
    fs::remove_dir_all(place).map_err(|e| e.to_string())?;
    Ok(states)
}

/// Compares the differences with the rows, and prints them.
fn conclude(tally: &Tally, complete: bool) -> Result {
    let mut wrong = tally.failures.clone();
    let mut used = BTreeSet::new();
    let (mut tests, mut differing) = (BTreeSet::new(), BTreeSet::new());
    for state in &tally.states {
        let place = format!("{}/{}", state.test, state.number);
        tests.insert(&state.test);
        if state.theirs == state.ours {
            continue;
        }
        differing.insert(&state.test);
        let verdicts = format!("e2fsck {}, varve {}", state.theirs, state.ours);
        let row = ROWS.iter().position(|row| row.is_of(state));
        match row {
            Some(n) if !state.is_false_clean() => {
                used.insert(n);
                println!("{place}: {verdicts}: {}", ROWS[n].why);
            }
            _ => {
                println!("{place}: WRONG: {verdicts}\n{}", state.words);
                wrong.push(format!("{place} ({verdicts})"));
            }
        }
    }
    if complete {
        let idle = |n: &usize| !used.contains(n);
        for row in (0..ROWS.len()).filter(idle).map(|n| &ROWS[n]) {
            wrong.push(format!("{}: its row is of no difference", row.test));
        }
        empty_tests(tally, &mut wrong);
    }
    tell(tally, &tests, &differing);
    let of_f = |set: &BTreeSet<&String>| set.iter().filter(|t| t.starts_with("f_")).count();
    let (all, other) = (of_f(&tests), of_f(&differing));
    if all > 0 && (all - other) * 1000 < all * SAME_PERMILLE {
        wrong.push(format!(
            "the verdict is another on {other} of {all} tests f_*"
        ));
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("; ")),
    }
}

/// A test that leaves no volume fails the suite unless that is known: its script has changed.
fn empty_tests(tally: &Tally, wrong: &mut Vec<String>) {
    for name in &tally.empty {
        match SKIPPED.iter().find(|(skipped, _)| skipped == name) {
            Some((_, why)) => println!("{name}: skipped: {why}"),
            None => wrong.push(format!("{name}: its script left no volume")),
        }
    }
}

fn tell(tally: &Tally, tests: &BTreeSet<&String>, differing: &BTreeSet<&String>) {
    for prefix in ["f_", "m_", "r_"] {
        let of = |set: &BTreeSet<&String>| set.iter().filter(|t| t.starts_with(prefix)).count();
        let states = tally.states.iter().filter(|s| s.test.starts_with(prefix));
        let (count, same) = states.fold((0, 0), |(all, same), s| {
            (all + 1, same + usize::from(s.theirs == s.ours))
        });
        println!(
            "{prefix}*: {} of {} tests with the same verdict in all states; {same} of {count} states",
            of(tests) - of(differing),
            of(tests)
        );
    }
}

impl State {
    /// Varve calls the state clean, and e2fsck has found something.
    fn is_false_clean(&self) -> bool {
        self.ours == Verdict::Clean && self.theirs == Verdict::Damaged
    }
}
