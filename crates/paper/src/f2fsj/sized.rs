//! Operations on names with fewer objects than in the rest of the report, for parts that need many
//! runs. The ring is smaller in proportion, down to the smallest ([`ring`]).

use super::Plan;
use super::measure::{BenchJob, Host, Measured};
use super::names::Op;
use super::scale::{DEVICE, VOLUME, ring};
use super::system::{Size, System};
use work::RunConfig;

/// Number of objects in the paper's runs.
const PAPER_OBJECTS: f64 = 4e6;

/// By which factor the objects are fewer than in the paper; a run is about as much shorter.
pub(super) fn fewer(objects: u32) -> f64 {
    PAPER_OBJECTS / f64::from(objects)
}

/// The job of an operation with this many objects; `more` has further keys of the workload.
pub(super) fn job(
    plan: &Plan,
    system: System,
    op: Op,
    (objects, more): (u32, &str),
    cores: usize,
) -> BenchJob {
    let size = Size {
        bytes: VOLUME,
        ring: ring(objects),
    };
    BenchJob {
        run: RunConfig {
            stack: system.stack(DEVICE, size, plan.seed),
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
