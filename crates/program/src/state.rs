//! What a cut may leave, and what a judge says of it.

use crate::call::Recording;
use crate::tree::Tree;
use std::fmt;
use std::sync::Arc;

/// A piece of a call that is durable or lost as one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Part {
    /// Index of the call in the recording.
    pub call: usize,
    /// Index of the piece in the call, in the order of the model.
    pub piece: usize,
    /// What is lost with it, in words: `4096 bytes of db.tmp from 0 on`, `the name db`.
    pub what: String,
}

/// A tree that a cut may leave.
#[derive(Clone, Debug)]
pub struct State {
    /// The tree.
    pub tree: Tree,
    /// Number of calls that had begun, all of them ended but perhaps the last.
    pub calls: usize,
    /// The last of them had not ended.
    pub under_way: bool,
    /// Number of acknowledgements that the user had got; their texts are those of [`acknowledged`].
    pub acknowledged: usize,
    /// Parts of calls before the cut that are not in the tree, ascending. Empty where a model
    /// cannot tell.
    pub lost: Vec<Part>,
    /// How the model would make this state again.
    pub line: String,
}

/// The texts that had been acknowledged when `calls` calls had ended.
pub fn acknowledged(recording: &Recording, calls: usize) -> Vec<&str> {
    let ended = recording.calls.iter().take(calls);
    let texts = ended.filter_map(|call| match &call.what {
        crate::call::What::Acknowledge(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// How far an exploration goes.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Most states of one cut; those that it leaves out are counted.
    pub states_max: u64,
    /// Most states of all cuts of a model together, dealt to the cuts in equal parts of at least
    /// [`STATES_MIN`]: a program of thousands of calls has thousands of cuts.
    pub total_max: u64,
    /// Most parts that are lost, or kept, alone.
    pub parts_max: usize,
}

/// States that each cut may have, however many cuts there are.
pub const STATES_MIN: u64 = 16;

impl Bound {
    /// Most states of one of `cuts` cuts.
    pub fn of_each(&self, cuts: usize) -> u64 {
        let part = self.total_max / cuts.max(1) as u64;
        self.states_max.min(part.max(STATES_MIN))
    }
}

/// What an exploration of one model made.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Moments of a cut.
    pub cuts: u64,
    /// States that were visited.
    pub states: u64,
    /// States that the bound names and its limit left out.
    pub beyond: u64,
}

/// Asked now and then by what takes long: false ends it.
pub type GoOn = Arc<dyn Fn() -> bool + Send + Sync>;

/// What a file system may leave of a recording.
pub trait Model: Send + Sync {
    /// Its name, as `--model` takes it.
    fn name(&self) -> String;

    /// Lets it be ended between two states, too. A model that makes its states at once needs that
    /// not.
    fn while_asked(&mut self, _go_on: &GoOn) {}

    /// Calls `visit` with each state of each cut within `bound`, until that answers false.
    ///
    /// # Errors
    /// The model cannot follow the recording.
    fn explore(
        &self,
        recording: &Recording,
        bound: &Bound,
        visit: &mut dyn FnMut(State) -> bool,
    ) -> Result<Counts, ModelError>;
}

/// Why a model gave up.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The recording does something that the model does not know.
    #[error("call {call}: {why}")]
    Call {
        /// Index of the call.
        call: usize,
        /// What it is.
        why: String,
    },
    /// The simulation failed.
    #[error("{0}")]
    Simulation(String),
}

/// What a judge says of a state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Nothing is wrong.
    Good,
    /// It is not what the program promised, and why.
    Bad(String),
}

/// Decides whether a state is one that the program's user may find. Judges that are processes have
/// one of these in each worker thread.
pub trait Judge: Send {
    /// Judges a tree, knowing what had been acknowledged, in order.
    ///
    /// # Errors
    /// The judge itself failed: it cannot be run, hangs, prints what is no verdict.
    fn judge(&mut self, tree: &Tree, acknowledged: &[&str]) -> Result<Verdict, JudgeError>;
}

/// A judge that gave no verdict, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct JudgeError(pub String);

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}
