//! Seeded mixes of operations as a workload, and their texts: `mix:tasks=3,ops=40,stress=swarm`,
//! and on volumes that are nearly full `mix:tasks=3,ops=40,stress=reuse,free=64`.

use super::error::TextError;
use super::head;
use super::script::FileScript;
use crate::Script;
use crate::ops::Stress;
use std::fmt;

/// A seeded mix of operations. The seed of the run decides which operations these are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MixSpec {
    /// Tasks that run at the same time.
    pub tasks: usize,
    /// Operations of each task.
    pub ops: usize,
    /// What they stress.
    pub stress: Stress,
    /// KiB that are free when the tasks begin; `None`: the volume is as mkfs made it.
    pub free: Option<u64>,
}

impl Default for MixSpec {
    fn default() -> MixSpec {
        MixSpec {
            tasks: 2,
            ops: 12,
            stress: Stress::Swarm,
            free: None,
        }
    }
}

/// Most operations of a task.
const OPS_MAX: usize = 10_000;
const TASKS_MAX: usize = super::script::TASKS_MAX;
/// Most KiB that may be left free: more than any volume of the explorer has.
const FREE_MAX: usize = 1 << 20;

fn word(stress: Stress) -> &'static str {
    match stress {
        Stress::Swarm => "swarm",
        Stress::Names => "names",
        Stress::Extents => "extents",
        Stress::Overwrite => "overwrite",
        Stress::Reuse => "reuse",
    }
}

impl MixSpec {
    /// Reads `tasks=3,ops=40,stress=swarm`; what is left out has its default.
    ///
    /// # Errors
    /// A key or value that does not exist, with those that do.
    pub fn parse(text: &str) -> Result<MixSpec, TextError> {
        let mut mix = MixSpec::default();
        let mut column = 1;
        for part in text.split(',') {
            let at = |what: String| TextError::at(1, column, what);
            if !part.trim().is_empty() {
                mix.set(part.trim()).map_err(at)?;
            }
            column += part.chars().count() + 1;
        }
        Ok(mix)
    }

    fn set(&mut self, part: &str) -> Result<(), String> {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let number = |max: usize| {
            let n = value.parse().ok().filter(|n| (1..=max).contains(n));
            n.ok_or_else(|| format!("`{}` is not a number from 1 to {max}", head(value)))
        };
        match key {
            "tasks" => self.tasks = number(TASKS_MAX)?,
            "ops" => self.ops = number(OPS_MAX)?,
            "free" => self.free = Some(number(FREE_MAX)? as u64),
            "stress" => {
                let found = Stress::ALL.into_iter().find(|s| word(*s) == value);
                self.stress = found.ok_or_else(|| {
                    let all = Stress::ALL.map(word).join(", ");
                    format!("`{}` is no stress; there is: {all}", head(value))
                })?;
            }
            _ => {
                return Err(format!(
                    "`mix` has no `{}`; it has: tasks, ops, stress, free",
                    head(key)
                ));
            }
        }
        Ok(())
    }

    /// The mix as the explorer runs it.
    pub fn script(&self) -> Script {
        Script::Mixed {
            tasks: self.tasks,
            ops: self.ops,
            stress: self.stress,
            free: self.free,
        }
    }

    /// The operations that a run with this seed draws; `None` if the room on the volume decides
    /// which of them are done.
    pub fn fixed(&self, seed: u64) -> Option<FileScript> {
        if self.free.is_some() {
            return None;
        }
        let tasks = (0..self.tasks)
            .map(|task| crate::run::drawn(task, self.ops, self.stress, seed).collect::<Vec<_>>());
        let script = FileScript::new(tasks.collect());
        Some(script.expect("a mix draws only what the model allows"))
    }
}

impl fmt::Display for MixSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stress = word(self.stress);
        write!(
            f,
            "mix:tasks={},ops={},stress={stress}",
            self.tasks, self.ops
        )?;
        match self.free {
            Some(kib) => write!(f, ",free={kib}"),
            None => Ok(()),
        }
    }
}
