//! Operations on names with fewer objects than in the rest of the report, for parts that need many
//! runs. The ring is smaller in proportion, down to the smallest, and intervals are shorter
//! ([`size`]).

use super::Plan;
use super::measure::{BenchJob, Host, Measured};
use super::names::Op;
use super::scale::{DEVICE, size};
use super::system::System;
use work::RunConfig;

/// The job of an operation with this many objects; `more` has further keys of the workload.
pub(super) fn job(
    plan: &Plan,
    system: System,
    op: Op,
    (objects, more): (u32, &str),
    cores: usize,
) -> BenchJob {
    BenchJob {
        run: RunConfig {
            stack: system.stack(DEVICE, size(objects), plan.seed),
            workload: op.workload(objects) + more,
            seed: plan.seed,
            recording: None,
        },
        host: Host::cores(cores),
    }
}

/// Operations of a run per second.
pub(super) fn rate(found: &Measured) -> f64 {
    match found.seconds {
        s if s > 0.0 => found.ops as f64 / s,
        _ => 0.0,
    }
}

/// The gain of `a` over `b`; `None` if `b` is 0.
pub(super) fn gain(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b - 1.0)
}
