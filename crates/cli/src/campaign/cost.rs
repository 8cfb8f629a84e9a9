//! What a job costs, roughly, in seconds on one core: enough to size the tasks of a cluster. What
//! is left is told by what was measured (`status`).

use super::task::Task;
use crate::worker;
use crash::plan;
use work::workload::Workload;

/// Seconds of a start and an end of a simulation, with the check of its image.
const RUN: f64 = 0.03;
/// Seconds of a transaction of SQLite on a modelled device.
const TRANSACTION: f64 = 250e-6;
/// Seconds of a run of another kind, and of a job of a paper.
const OTHER: f64 = 1.0;
/// Seconds of a case at the block seam, and of one at the chips.
const CASE: f64 = 0.02;
const CHIPS: f64 = 1.0;

/// Seconds on one core.
pub fn of(task: &Task) -> f64 {
    let text = task.text().get();
    match task {
        Task::Compare(_) => serde_json::from_str(text).map_or(OTHER, |job: worker::Job| run(&job)),
        Task::Crash(_) => serde_json::from_str(text).map_or(CASE, |job: plan::Job| {
            let seconds = match job.case.device.starts_with("spec:") {
                true => CASE,
                false => CHIPS,
            };
            seconds * f64::from(1 + job.reach.nested)
        }),
        Task::Paper(_) | Task::Program(_) => OTHER,
    }
}

fn run(job: &worker::Job) -> f64 {
    match job.config.workload.parse() {
        Ok(Workload::Sqlite(spec)) => {
            let rows = [spec.prefill, spec.inserts, spec.updates, spec.deletes];
            RUN + TRANSACTION * rows.iter().map(|n| f64::from(*n)).sum::<f64>()
        }
        _ => OTHER,
    }
}
