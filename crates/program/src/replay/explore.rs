//! Cuts all runs of a recording, and recovers what the cuts leave.

use super::BlockModel;
use super::carry::{Base, Tape};
use super::follow::{Follower, given_up};
use super::lost::lost;
use super::recover;
use super::runs::{Run, runs};
use super::steps::{Step, steps};
use crate::call::{Recording, What};
use crate::state::{Bound, Counts, ModelError, State};
use base::{Set, Time};
use blockdev::Image;
use blockdev::spec::{Bound as Cuts, Mode};

/// Images that are recovered in one simulation.
const BATCH: usize = 64;
/// Places at which a write may be torn.
const TORN_MAX: u32 = 2;

/// Stands before the names of runs of the recording without what failed syncs gave up (replay-B9).
const GIVEN_UP: &str = "given-up/";

/// An image that waits for its recovery.
struct Found {
    image: Image,
    calls: usize,
    acknowledged: usize,
    line: String,
}

/// What an exploration has seen.
struct Explorer<'a> {
    base: Base,
    recording: &'a Recording,
    cuts: Cuts,
    /// Images and trees with the number of acknowledgements at their cut (replay-B7).
    images: Set<(u64, usize)>,
    trees: Set<(u64, usize)>,
    waiting: Vec<Found>,
    counts: Counts,
    visit: &'a mut dyn FnMut(State) -> bool,
    stopped: bool,
}

/// Explores a recording.
///
/// # Errors
/// The file system of the model refuses a call, or fails.
pub fn explore(
    model: &BlockModel,
    recording: &Recording,
    bound: &Bound,
    visit: &mut dyn FnMut(State) -> bool,
) -> Result<Counts, ModelError> {
    let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let mut explorer = Explorer {
        base: Base::new(model, recording)?,
        recording,
        cuts: Cuts {
            mode: Mode::Bounded,
            subset_max: narrow(bound.parts_max as u64),
            torn_max: TORN_MAX,
            states_max: narrow(bound.states_max),
            prune: true,
        },
        images: Set::default(),
        trees: Set::default(),
        waiting: Vec::new(),
        counts: Counts::default(),
        visit,
        stopped: false,
    };
    explorer.all(recording, "")?;
    if let Some(without) = given_up(recording) {
        explorer.all(&without, GIVEN_UP)?;
    }
    Ok(explorer.counts)
}

/// Makes the state of a line again.
///
/// # Errors
/// The line is none of this model and recording, or the file system fails.
pub fn again(model: &BlockModel, recording: &Recording, line: &str) -> Result<State, ModelError> {
    let refused = |why: &str| ModelError::Simulation(format!("`{line}`: {why}"));
    let field = |key: &str| {
        let mut words = line.split_whitespace();
        let value = words.find_map(|word| word.strip_prefix(key));
        value.ok_or_else(|| refused(&format!("there is no `{key}` in it")))
    };
    if field("model=")? != model.name {
        return Err(refused("it is of another model"));
    }
    let name = field("run=")?;
    let carried = match name.strip_prefix(GIVEN_UP) {
        Some(_) => given_up(recording).ok_or_else(|| refused("no sync of the recording failed"))?,
        None => recording.clone(),
    };
    let steps = steps(&carried);
    let (runs, _) = runs(&carried, &steps, model.habits());
    let mut runs = runs.iter();
    let run = runs.find(|run| run.name == name.trim_start_matches(GIVEN_UP));
    let run = run.ok_or_else(|| refused("the recording has no such run"))?;
    let base = Base::new(model, recording)?;
    let tape = base.carry(&carried, &steps, run)?;
    let given = acknowledgements(recording, &tape);
    let nr: Option<usize> = field("moment=")?.parse().ok();
    let moment = nr.and_then(|nr| moments(&tape, &given).get(nr).copied());
    let at = moment.ok_or_else(|| refused("the run has no such moment"))?;
    let mut cursor = tape.trace.cursor();
    cursor.seek(at);
    let choice = field("choice=")?.parse();
    let image = choice.and_then(|choice| cursor.state(&choice));
    let image = image.map_err(|e| refused(&e.to_string()))?;
    let (mut trees, why) = recover::trees(&base.model, &[image]);
    let tree = trees
        .pop()
        .ok_or_else(|| refused(&why.unwrap_or_default()))?;
    let calls = calls(&tape, at);
    let mut follower = Follower::new(recording);
    Ok(State {
        lost: lost(recording, calls, follower.after(calls), &tree),
        tree,
        calls,
        acknowledged: given.partition_point(|t| *t <= at),
        line: line.into(),
    })
}

impl Explorer<'_> {
    /// All runs of the recording, or of what is carried out in its place.
    /// `prefix` stands before the names of the runs.
    fn all(&mut self, carried: &Recording, prefix: &str) -> Result<(), ModelError> {
        let steps = steps(carried);
        let (runs, left_out) = runs(carried, &steps, self.base.model.habits());
        self.counts.beyond += left_out;
        for run in &runs {
            if self.stopped {
                break;
            }
            self.run(carried, &steps, run, prefix)?;
        }
        Ok(())
    }

    fn run(
        &mut self,
        carried: &Recording,
        steps: &[Step],
        run: &Run,
        prefix: &str,
    ) -> Result<(), ModelError> {
        #[cfg(test)]
        let b = std::time::Instant::now();
        let tape = self.base.carry(carried, steps, run)?;
        #[cfg(test)]
        super::tests::RUNS.fetch_add(
            b.elapsed().as_micros() as u64,
            std::sync::atomic::Ordering::Relaxed,
        );
        let acknowledged = acknowledgements(self.recording, &tape);
        let mut follower = Follower::new(self.recording);
        let mut cursor = tape.trace.cursor();
        for (nr, at) in moments(&tape, &acknowledged).into_iter().enumerate() {
            cursor.seek(at);
            self.counts.cuts += 1;
            let given = acknowledged.partition_point(|t| *t <= at);
            let calls = calls(&tape, at);
            let (images, waiting) = (&mut self.images, &mut self.waiting);
            let counted = cursor.each_choice(&self.cuts, &mut |choice| {
                let hash = cursor.content_hash(&choice);
                let hash = hash.expect("the cut names its own choices");
                if images.insert((hash, given)) {
                    waiting.push(Found {
                        image: cursor.image(&choice),
                        calls,
                        acknowledged: given,
                        line: format!(
                            "model={} run={prefix}{} moment={nr} choice={choice}",
                            self.base.model.name, run.name
                        ),
                    });
                }
                true
            });
            self.counts.beyond += counted.beyond;
            while self.waiting.len() >= BATCH {
                let rest = self.waiting.split_off(BATCH);
                self.settle(&mut follower)?;
                self.waiting = rest;
                if self.stopped {
                    return Ok(());
                }
            }
        }
        self.settle(&mut follower)
    }

    /// Recovers what waits, and hands it on.
    fn settle(&mut self, follower: &mut Follower<'_>) -> Result<(), ModelError> {
        let found = std::mem::take(&mut self.waiting);
        let images: Vec<Image> = found.iter().map(|found| found.image.clone()).collect();
        #[cfg(test)]
        super::tests::RECOVERED
            .fetch_add(images.len() as u64, std::sync::atomic::Ordering::Relaxed);
        let (trees, why) = recover::trees(&self.base.model, &images);
        if let Some(why) = why {
            let line = &found[trees.len()].line;
            return Err(ModelError::Simulation(format!("{line}: {why}")));
        }
        for (found, tree) in found.into_iter().zip(trees) {
            if !self.trees.insert((tree.hash(), found.acknowledged)) {
                continue;
            }
            self.counts.states += 1;
            let full = follower.after(found.calls);
            let state = State {
                lost: lost(self.recording, found.calls, full, &tree),
                tree,
                calls: found.calls,
                acknowledged: found.acknowledged,
                line: found.line,
            };
            if !(self.visit)(state) {
                self.stopped = true;
                return Ok(());
            }
        }
        Ok(())
    }
}

/// When each acknowledgement was given.
fn acknowledgements(recording: &Recording, tape: &Tape) -> Vec<Time> {
    let calls = recording.calls.iter().zip(&tape.calls);
    let given = calls.filter(|(call, _)| matches!(call.what, What::Acknowledge(_)));
    given.map(|(_, (_, ended))| *ended).collect()
}

/// Number of calls that had begun.
fn calls(tape: &Tape, at: Time) -> usize {
    tape.calls.partition_point(|(begun, _)| *begun < at)
}

/// The moments to cut at (replay-B6).
fn moments(tape: &Tape, acknowledged: &[Time]) -> Vec<Time> {
    let mut changes = acknowledged.to_vec();
    changes.push(tape.ended);
    let mut moments = tape.trace.maximal_cut_points(&changes);
    moments.extend(changes);
    moments.retain(|at| tape.began < *at && *at <= tape.ended);
    moments.sort_unstable();
    moments.dedup();
    moments
}
