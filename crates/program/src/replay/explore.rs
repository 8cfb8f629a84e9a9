//! Cuts all runs of a recording, and recovers what the cuts leave.

use super::BlockModel;
use super::carry::{Base, Tape};
use super::follow::{Follower, given_up};
use super::lost::lost;
use super::recover::{self, Recovered};
use super::runs::{Run, runs};
use super::steps::{Step, steps};
use crate::call::{Recording, What};
use crate::state::{Bound, Counts, ModelError, State};
use crate::tree::Tree;
use base::{Set, Time};
use blockdev::spec::{Bound as Cuts, Choice, Mode};
use blockdev::trace::Cursor;

/// Recoveries after which a simulation ends, so that what it found can be handed on.
const BATCH: usize = 128;
/// Places at which a write may be torn.
const TORN_MAX: u32 = 2;

/// Stands before the names of runs of the recording without what failed syncs gave up (replay-B8).
const GIVEN_UP: &str = "given-up/";

/// What an exploration has seen.
struct Explorer<'a> {
    base: Base,
    recording: &'a Recording,
    bound: &'a Bound,
    cuts: Cuts,
    /// How many runs there are of what is carried out.
    runs: usize,
    /// Most states that they may make together.
    left: u64,
    seen: Seen,
    counts: Counts,
    visit: &'a mut dyn FnMut(State) -> bool,
    stopped: bool,
}

/// Hashes with the number of acknowledgements at their cut (replay-B7).
#[derive(Default)]
struct Seen {
    images: Set<(u64, usize)>,
    trees: Set<(u64, usize)>,
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
        bound,
        runs: 1,
        left: bound.total_max,
        cuts: Cuts {
            mode: Mode::Bounded,
            subset_max: narrow(bound.parts_max as u64),
            torn_max: TORN_MAX,
            states_max: narrow(bound.states_max),
            prune: true,
        },
        seen: Seen::default(),
        counts: Counts::default(),
        visit,
        stopped: false,
    };
    let without = given_up(recording).map(|given_up| given_up.carried);
    let whole = Pass::of(recording, "", &explorer.base);
    let without = without.as_ref();
    let without = without.map(|carried| Pass::of(carried, GIVEN_UP, &explorer.base));
    let passes: Vec<Pass<'_>> = [Some(whole), without].into_iter().flatten().collect();
    for pass in &passes {
        // The states of both ways together are bounded: the second has what the first has left.
        explorer.left = bound.total_max.saturating_sub(explorer.counts.states);
        explorer.all(pass)?;
    }
    Ok(explorer.counts)
}

/// All runs of the recording, or of what is carried out in its place.
struct Pass<'a> {
    carried: &'a Recording,
    steps: Vec<Step>,
    runs: Vec<Run>,
    left_out: u64,
    /// Stands before the names of the runs.
    prefix: &'static str,
}

impl<'a> Pass<'a> {
    fn of(carried: &'a Recording, prefix: &'static str, base: &Base) -> Pass<'a> {
        let steps = steps(carried);
        let (runs, left_out) = runs(carried, &steps, base.model.habits());
        Pass {
            carried,
            steps,
            runs,
            left_out,
            prefix,
        }
    }
}

impl Explorer<'_> {
    fn all(&mut self, pass: &Pass<'_>) -> Result<(), ModelError> {
        self.counts.beyond += pass.left_out;
        self.runs = pass.runs.len();
        for run in &pass.runs {
            if self.stopped {
                break;
            }
            self.run(pass, run)?;
        }
        Ok(())
    }

    fn run(&mut self, pass: &Pass<'_>, run: &Run) -> Result<(), ModelError> {
        let prefix = pass.prefix;
        let tape = self.base.carry(pass.carried, &pass.steps, run)?;
        let model = self.base.model.clone();
        let mut follower = Follower::new(self.recording);
        let given = acknowledgements(self.recording, &tape);
        let moments = moments(&tape, &given);
        let bound = Bound {
            total_max: self.left,
            ..self.bound.clone()
        };
        let of_each = bound.of_each(moments.len().saturating_mul(self.runs));
        let cuts = Cuts {
            states_max: u32::try_from(of_each).unwrap_or(u32::MAX),
            ..self.cuts
        };
        let mut cutting = Cutting {
            given,
            name: format!("model={} run={prefix}{}", model.name, run.name),
            cursor: tape.trace.cursor(),
            tape: &tape,
            cuts: &cuts,
            seen: &mut self.seen,
            recovered: Recovered::new(&model),
            line: String::new(),
            beyond: 0,
        };
        let mut rest = moments.iter().enumerate().peekable();
        while rest.peek().is_some() && !self.stopped {
            let mut found = Vec::new();
            let until = cutting.recovered.done + BATCH;
            let done = recover::simulate(|| {
                while cutting.recovered.done < until
                    && let Some((nr, at)) = rest.next()
                {
                    model.ended()?;
                    self.counts.cuts += 1;
                    cutting.moment(nr, *at, &mut found)?;
                }
                Ok(())
            });
            let failed = |why: String| ModelError::Simulation(format!("{}: {why}", cutting.line));
            done.and_then(|done| done).map_err(failed)?;
            for (mut state, tree) in found {
                let full = follower.after(state.calls);
                state.lost = lost(self.recording, state.calls, full, &tree);
                state.tree = tree;
                self.counts.states += 1;
                if !(self.visit)(state) {
                    self.stopped = true;
                    break;
                }
            }
        }
        self.counts.beyond += cutting.beyond;
        Ok(())
    }
}

/// The cuts of one run.
struct Cutting<'a> {
    tape: &'a Tape,
    /// When each acknowledgement was given.
    given: Vec<Time>,
    /// Names model and run.
    name: String,
    cursor: Cursor<'a>,
    cuts: &'a Cuts,
    seen: &'a mut Seen,
    recovered: Recovered<'a>,
    /// Names the state that was recovered last.
    line: String,
    beyond: u64,
}

impl Cutting<'_> {
    /// Recovers what a cut at `at` leaves. States with a tree that is new are added to `found`, the
    /// tree beside them.
    fn moment(
        &mut self,
        nr: usize,
        at: Time,
        found: &mut Vec<(State, Tree)>,
    ) -> Result<(), String> {
        self.cursor.seek(at);
        let acknowledged = self.given.partition_point(|t| *t <= at);
        let (cursor, recovered, seen) = (&self.cursor, &mut self.recovered, &mut *self.seen);
        let mut failed = None;
        let line = &mut self.line;
        let mut look = |choice: &Choice| -> Result<(), String> {
            let hash = cursor.content_hash(choice);
            let hash = hash.expect("the cut names its own choices");
            if !seen.images.insert((hash, acknowledged)) {
                return Ok(());
            }
            *line = format!("{} moment={nr} choice={choice}", self.name);
            let (tree, hash) = recovered.tree(&cursor.image(choice))?;
            if seen.trees.insert((hash, acknowledged)) {
                let state = State {
                    tree: Tree::default(),
                    calls: calls(self.tape, at),
                    under_way: is_under_way(self.tape, at),
                    acknowledged,
                    lost: Vec::new(),
                    line: line.clone(),
                };
                found.push((state, tree.clone()));
            }
            Ok(())
        };
        let counted = cursor.each_choice(self.cuts, &mut |choice| {
            failed = look(&choice).err();
            failed.is_none()
        });
        self.beyond += counted.beyond;
        failed.map_or(Ok(()), Err)
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

/// Whether the last call that had begun had not ended.
fn is_under_way(tape: &Tape, at: Time) -> bool {
    let last = calls(tape, at).checked_sub(1).map(|last| tape.calls[last]);
    last.is_some_and(|(_, ended)| ended > at)
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
        Some(_) => {
            let given_up = given_up(recording);
            let given_up = given_up.ok_or_else(|| refused("no sync of the recording failed"))?;
            given_up.carried
        }
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
    let mut recovered = Recovered::new(&base.model);
    let tree = recover::simulate(|| recovered.tree(&image).map(|(tree, _)| tree.clone()));
    let tree = tree.and_then(|tree| tree).map_err(|e| refused(&e))?;
    let calls = calls(&tape, at);
    let mut follower = Follower::new(recording);
    Ok(State {
        lost: lost(recording, calls, follower.after(calls), &tree),
        tree,
        calls,
        under_way: is_under_way(&tape, at),
        acknowledged: given.partition_point(|t| *t <= at),
        line: line.into(),
    })
}
