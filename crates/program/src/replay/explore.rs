//! Cuts all runs of a recording, and recovers what the cuts leave.

use super::BlockModel;
use super::carry::{Base, Tape};
use super::follow::Follower;
use super::lost::lost;
use super::recover;
use super::runs::{Run, runs};
use super::steps::{Step, steps};
use crate::call::{Recording, What};
use crate::state::{Bound, Counts, ModelError, State};
use base::{Set, Time};
use blockdev::Image;
use blockdev::spec::{Bound as Cuts, Mode};
use rig::Data;

/// Images that are recovered in one simulation.
const BATCH: usize = 64;
/// Places at which a write may be torn.
const TORN_MAX: u32 = 2;

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
    let steps = steps(recording);
    let commits_data = model.stack.data == Data::Journal;
    let (runs, left_out) = runs(recording, &steps, model.commits_all(), commits_data);
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
        counts: Counts {
            beyond: left_out,
            ..Counts::default()
        },
        visit,
        stopped: false,
    };
    for run in &runs {
        explorer.run(&steps, run)?;
        if explorer.stopped {
            break;
        }
    }
    Ok(explorer.counts)
}

impl Explorer<'_> {
    fn run(&mut self, steps: &[Step], run: &Run) -> Result<(), ModelError> {
        let tape = self.base.carry(self.recording, steps, run)?;
        let acknowledged = self.acknowledgements(&tape);
        let mut follower = Follower::new(self.recording);
        let mut cursor = tape.trace.cursor();
        for (nr, at) in moments(&tape, &acknowledged).into_iter().enumerate() {
            cursor.seek(at);
            self.counts.cuts += 1;
            let given = acknowledged.partition_point(|t| *t <= at);
            let calls = tape.calls.partition_point(|(begun, _)| *begun < at);
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
                            "model={} run={} moment={nr} choice={choice}",
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

    /// When each acknowledgement was given.
    fn acknowledgements(&self, tape: &Tape) -> Vec<Time> {
        let calls = self.recording.calls.iter().zip(&tape.calls);
        let given = calls.filter(|(call, _)| matches!(call.what, What::Acknowledge(_)));
        given.map(|(_, (_, ended))| *ended).collect()
    }

    /// Recovers what waits, and hands it on.
    fn settle(&mut self, follower: &mut Follower<'_>) -> Result<(), ModelError> {
        let found = std::mem::take(&mut self.waiting);
        let images: Vec<Image> = found.iter().map(|found| found.image.clone()).collect();
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
