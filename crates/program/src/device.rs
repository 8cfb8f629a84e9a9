//! Model `device`: what is left without any power cut where the device refused calls.
//!
//! - D1: the moments are those right behind each refused call, at each acknowledgement behind the
//!   first of them, and at the end: there somebody may look at what the program has made of it.
//! - D2: at a moment there is the tree that the program sees. Where a sync had failed, there is
//!   also the one without what it gave up (call-C3): Linux takes those pages for clean, so it may
//!   drop them at any time, and then the file shows what the medium holds. No cut is needed for
//!   that.

use crate::apply::apply;
use crate::call::{Call, Recording, What};
use crate::replay::{GivenUp, given_up};
use crate::state::{Bound, Counts, GoOn, Model, ModelError, Part, State, acknowledged};
use crate::tree::Tree;
use base::Set;

/// Its name.
pub const NAME: &str = "device";
/// Begins the line of a state, with the number of its calls behind it.
const MOMENT: &str = "moment=";
/// Stands in the line of a state without what failed syncs gave up.
const GIVEN_UP: &str = "given-up";

/// The model.
#[derive(Clone, Default)]
pub struct Device {
    /// Asked at each moment; `None`: nobody ends it.
    go_on: Option<GoOn>,
}

impl Device {
    /// Makes the state of a line again.
    ///
    /// # Errors
    /// The line is none of this model and recording.
    pub fn again(&self, recording: &Recording, line: &str) -> Result<State, ModelError> {
        let wrong = || {
            ModelError::Simulation(format!(
                "`{line}` is no state of the recording: one is like `moment=7` or `moment=7 given-up`"
            ))
        };
        let mut words = line.split_whitespace();
        let moment = words.next().and_then(|word| word.strip_prefix(MOMENT));
        let calls: Option<usize> = moment.and_then(|nr| nr.parse().ok());
        let calls = calls.filter(|calls| *calls <= recording.calls.len());
        let calls = calls.ok_or_else(wrong)?;
        match words.next() {
            None => Ok(seen(recording, calls, tree(recording, calls))),
            Some(GIVEN_UP) => without(recording, calls).ok_or_else(wrong),
            Some(_) => Err(wrong()),
        }
    }
}

impl Model for Device {
    fn while_asked(&mut self, go_on: &GoOn) {
        self.go_on = Some(go_on.clone());
    }

    fn name(&self) -> String {
        NAME.into()
    }

    fn explore(
        &self,
        recording: &Recording,
        bound: &Bound,
        visit: &mut dyn FnMut(State) -> bool,
    ) -> Result<Counts, ModelError> {
        if !recording.has_failures() {
            return Err(ModelError::Simulation(
                "no call of the run has failed; --fail CALL=ERROR makes one fail".into(),
            ));
        }
        let mut counts = Counts::default();
        let mut trees: Set<(u64, usize)> = Set::default();
        let (mut live, mut done) = (recording.start.clone(), 0);
        for calls in moments(recording) {
            if self.go_on.as_ref().is_some_and(|go_on| !go_on()) {
                return Ok(counts);
            }
            counts.cuts += 1;
            for call in &recording.calls[done..calls] {
                apply(&mut live, &call.what);
            }
            done = calls;
            let whole = seen(recording, calls, live.clone());
            for state in [Some(whole), without(recording, calls)]
                .into_iter()
                .flatten()
            {
                if !trees.insert((state.tree.hash(), state.acknowledged)) {
                    continue;
                }
                if counts.states >= bound.total_max {
                    counts.beyond += 1;
                    continue;
                }
                counts.states += 1;
                if !visit(state) {
                    return Ok(counts);
                }
            }
        }
        Ok(counts)
    }
}

/// The moments, as numbers of calls that had ended (program-device-D1).
fn moments(recording: &Recording) -> Vec<usize> {
    let mut failed = false;
    let counts = |(index, call): (usize, &Call)| {
        let fails = call.what.failure().is_some();
        let promised = failed && matches!(call.what, What::Acknowledge(_));
        failed |= fails;
        (fails || promised).then_some(index + 1)
    };
    let calls = recording.calls.iter().enumerate();
    let mut moments: Vec<usize> = calls.filter_map(counts).collect();
    if moments.last() != Some(&recording.calls.len()) {
        moments.push(recording.calls.len());
    }
    moments
}

fn tree(recording: &Recording, calls: usize) -> Tree {
    let mut tree = recording.start.clone();
    for call in &recording.calls[..calls] {
        apply(&mut tree, &call.what);
    }
    tree
}

/// The state with a tree that lacks nothing.
fn seen(recording: &Recording, calls: usize, tree: Tree) -> State {
    State {
        tree,
        calls,
        under_way: false,
        acknowledged: acknowledged(recording, calls).len(),
        lost: Vec::new(),
        line: format!("{MOMENT}{calls}"),
    }
}

/// The state without what failed syncs gave up (program-device-D2); `None`: they gave nothing up.
fn without(recording: &Recording, calls: usize) -> Option<State> {
    let begun = Recording {
        start: recording.start.clone(),
        calls: recording.calls[..calls].to_vec(),
    };
    let GivenUp { carried, writes } = given_up(&begun)?;
    let lost = writes.into_iter().filter_map(|call| {
        let Call { what, path, .. } = &recording.calls[call];
        let What::Write { offset, data, .. } = what else {
            return None;
        };
        Some(Part {
            call,
            piece: 0,
            what: format!("{} bytes of {path} from {offset} on", data.len()),
        })
    });
    Some(State {
        lost: lost.collect(),
        line: format!("{MOMENT}{calls} {GIVEN_UP}"),
        ..seen(recording, calls, tree(&carried, calls))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::Tape;

    /// Saves twice, of which the second sync fails, and promises each.
    fn unsynced() -> Recording {
        let mut tape = Tape::with(&[("f", b"old")]);
        tape.write("f", 0, b"one");
        tape.sync("f");
        tape.ack("1");
        tape.write("f", 0, b"two");
        tape.sync("f");
        tape.ack("2");
        tape.create("g", b"more");
        let mut recording = tape.recording;
        let mut syncs = recording
            .calls
            .iter_mut()
            .filter_map(|call| match &mut call.what {
                What::Sync { failed, .. } => Some(failed),
                _ => None,
            });
        *syncs.nth(1).unwrap() = Some(5);
        recording
    }

    fn states(recording: &Recording) -> Vec<State> {
        let bound = Bound {
            states_max: 10,
            total_max: 100,
            parts_max: 1,
        };
        let mut states = Vec::new();
        let counts = Device::default().explore(recording, &bound, &mut |state| {
            states.push(state);
            true
        });
        assert_eq!(counts.unwrap().states, states.len() as u64);
        states
    }

    fn content(state: &State, path: &str) -> Option<String> {
        let node = state.tree.node(state.tree.find(path.as_bytes())?)?;
        Some(String::from_utf8(node.content()).unwrap())
    }

    #[test]
    fn d1_somebody_looks_behind_refusals_at_promises_and_at_the_end() {
        let recording = unsynced();
        let states = states(&recording);
        let lines: Vec<&str> = states.iter().map(|state| &*state.line).collect();
        let all = recording.calls.len();
        let (failed, promised) = (5, 6);
        let both = |at: usize| [format!("moment={at}"), format!("moment={at} given-up")];
        let expected: Vec<String> = [failed, promised, all].into_iter().flat_map(both).collect();
        assert_eq!(lines, expected);
        for state in &states {
            let again = Device::default().again(&recording, &state.line).unwrap();
            assert_eq!(again.tree.hash(), state.tree.hash());
            assert_eq!(again.acknowledged, state.acknowledged);
        }
    }

    #[test]
    fn d2_what_a_failed_sync_gave_up_is_there_or_not() {
        let states = states(&unsynced());
        let first: Vec<_> = states[..2].iter().map(|s| content(s, "f")).collect();
        assert_eq!(first, [Some("two".into()), Some("one".into())]);
        let [.., last] = &states[..] else {
            panic!("there are some")
        };
        assert_eq!(last.lost[0].what, "3 bytes of f from 0 on");
        assert_eq!(
            (content(last, "g"), last.acknowledged),
            (Some("more".into()), 2)
        );
    }

    #[test]
    fn without_a_failure_there_is_nothing_to_look_at() {
        let mut tape = Tape::with(&[("f", b"old")]);
        tape.write("f", 0, b"new");
        let bound = Bound {
            states_max: 1,
            total_max: 1,
            parts_max: 1,
        };
        let why = Device::default().explore(&tape.recording, &bound, &mut |_| true);
        assert!(why.unwrap_err().to_string().contains("--fail"));
        for line in ["moment=9", "moment=1 given-up", "moment=1 x", "1", ""] {
            assert!(
                Device::default().again(&tape.recording, line).is_err(),
                "{line}"
            );
        }
    }
}
