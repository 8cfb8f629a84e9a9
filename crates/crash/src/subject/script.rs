//! Lists of operations as a workload, one list for each task. A script is checked against the model
//! when it is made, so that a run cannot fail by the script.

use super::error::TextError;
use super::text;
use crate::Script;
use crate::model::State;
use crate::ops::Op;
use std::fmt;

/// Lists of operations that are possible one after the other, one list for each task.
///
/// A script is possible if the model of the file system ([`State`]) allows each operation where it
/// stands; no other script can be made. Its text ([`fmt::Display`]) reads back as an equal script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileScript {
    tasks: Vec<Vec<Op>>,
}

/// An operation of a script: the task, and the index in its list, both from 0.
pub type Place = (usize, usize);

/// Most tasks of a script.
pub const TASKS_MAX: usize = 64;
/// Most operations of a script, all tasks together.
pub const OPS_MAX: usize = 100_000;

impl FileScript {
    /// Reads a text: operations divided by `;` or line ends, tasks divided by `|`.
    ///
    /// # Errors
    /// The first thing that is wrong, with line and column: the syntax, or an operation that is not
    /// possible where it stands.
    pub fn parse(text: &str) -> Result<FileScript, TextError> {
        text::parse(text).map(|tasks| FileScript { tasks })
    }

    /// Makes a script of these lists.
    ///
    /// # Errors
    /// The first operation that is not possible where it stands, and why.
    pub fn new(tasks: Vec<Vec<Op>>) -> Result<FileScript, (Place, String)> {
        for (number, ops) in tasks.iter().enumerate() {
            let mut state = begun(number);
            for (at, op) in ops.iter().enumerate() {
                if !state.allows(op) {
                    return Err(((number, at), text::why_not(&state, op)));
                }
                state.apply(op);
            }
        }
        Ok(FileScript { tasks })
    }

    /// The lists, one for each task.
    pub fn tasks(&self) -> &[Vec<Op>] {
        &self.tasks
    }

    /// Number of operations of all tasks.
    pub fn ops(&self) -> usize {
        self.tasks.iter().map(Vec::len).sum()
    }

    /// The places of all operations, task by task.
    pub fn places(&self) -> Vec<Place> {
        let tasks = self.tasks.iter().enumerate();
        tasks
            .flat_map(|(task, ops)| (0..ops.len()).map(move |at| (task, at)))
            .collect()
    }

    /// The script without these operations; `None` if another one is not possible then.
    pub fn without(&self, drop: &[Place]) -> Option<FileScript> {
        FileScript::new(self.kept(drop)).ok()
    }

    /// The script without these operations and without every later one that is not possible then.
    pub fn repaired(&self, drop: &[Place]) -> FileScript {
        let lists = self.kept(drop).into_iter().enumerate();
        let tasks = lists.map(|(number, ops)| {
            let mut state = begun(number);
            let possible = |op: &Op| {
                let allowed = state.allows(op);
                if allowed {
                    state.apply(op);
                }
                allowed
            };
            ops.into_iter().filter(possible).collect()
        });
        FileScript {
            tasks: tasks.collect(),
        }
    }

    fn kept(&self, drop: &[Place]) -> Vec<Vec<Op>> {
        let tasks = self.tasks.iter().enumerate();
        let kept = tasks.map(|(task, ops)| {
            let ops = ops.iter().enumerate();
            let kept = ops.filter(|(at, _)| !drop.contains(&(task, *at)));
            kept.map(|(_, op)| op.clone()).collect()
        });
        kept.collect()
    }

    /// The script as the explorer runs it.
    pub fn script(&self) -> Script {
        Script::Fixed(self.tasks.clone())
    }
}

impl fmt::Display for FileScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, ops) in self.tasks.iter().enumerate() {
            if number > 0 {
                f.write_str(" | ")?;
            }
            for (at, op) in ops.iter().enumerate() {
                if at > 0 {
                    f.write_str("; ")?;
                }
                text::write_op(f, op)?;
            }
        }
        Ok(())
    }
}

/// The model of a task whose directory exists.
pub(super) fn begun(task: usize) -> State {
    let mut state = State::new(task);
    state.apply(&Op::Mkdir(String::new()));
    state
}
