//! Subjects by their text: the workloads of `varve crash`.

use super::files::FileOracle;
use super::ops::Stress;
use super::oracle::{Oracle, Subject};
use super::run::run_tasks;
use super::{CrashConfig, Script};
use crate::RunError;
use rig::{Data, Mounted};
use rt::Mutex;
use std::sync::Arc;

/// Tasks that work on files.
pub struct Files {
    /// What they do.
    pub script: Script,
}

impl Subject for Files {
    fn run(
        &self,
        config: &CrashConfig,
        mounted: &Mounted,
    ) -> (Box<dyn Oracle>, Result<(), RunError>) {
        let logs = Arc::new(Mutex::named("crash logs", Vec::new()));
        let outcome = run_tasks(config, &self.script, mounted, &logs);
        let logs = std::mem::take(&mut *logs.lock());
        let garbles = config.stack.data != Data::Journal;
        (Box::new(FileOracle::new(logs, garbles)), outcome)
    }
}

/// The subject that a text names.
///
/// # Errors
/// What is wrong with the text, by line and column.
pub fn parse(text: &str) -> Result<Box<dyn Subject>, RunError> {
    let script = match text {
        "mix" => Script::Mixed {
            tasks: 2,
            ops: 12,
            stress: Stress::Swarm,
        },
        _ => {
            return Err(RunError::Check(format!(
                "workload `{text}`, line 1, column 1: unknown; there is: mix"
            )));
        }
    };
    Ok(Box::new(Files { script }))
}

/// The workloads that a text stands for: one, or many for `ace:`.
///
/// # Errors
/// As [`parse`].
pub fn expand(text: &str) -> Result<Vec<String>, RunError> {
    parse(text).map(|_| vec![text.into()])
}
