//! How much F2FSJ logs, compared with a journal of pages for the same operations.

use super::measure::{BenchJob, Host, Measured};
use super::names::Op;
use super::scale::{CORES, DEVICE};
use super::system::{Size, System};
use base::BLOCK_BYTES;
use work::RunConfig;

/// Number of objects, with a ring in which the page journal has several epochs of them.
const OBJECTS: u32 = 3000;
const RING: u64 = 4 << 20;

fn run(system: System, op: Op) -> Measured {
    let size = Size {
        bytes: 1 << 30,
        ring: RING,
        shorter: 1,
    };
    let job = BenchJob {
        run: RunConfig {
            stack: system.stack(DEVICE, size, 1),
            workload: op.workload(OBJECTS),
            seed: 1,
            recording: None,
        },
        host: Host::cores(CORES),
    };
    job.run_synced().expect("a run")
}

/// Bytes that go into the ring per operation.
fn per_op(measured: &Measured) -> f64 {
    let journal = measured.journal.as_ref().expect("a journal");
    assert_eq!(journal.by_pack, 0, "all of it is in the ring: {journal:?}");
    (journal.blocks * BLOCK_BYTES as u64) as f64 / measured.ops as f64
}

/// The aim: F2FSJ logs at most a quarter of what a journal of pages does where files and
/// directories are made. Where they are removed, neither logs anything of the nodes that are gone,
/// so both logs hold little more than the fact.
#[test]
fn records_are_at_most_a_quarter_of_pages_where_names_are_made() {
    for op in Op::FOUR {
        let (records, pages) = (run(System::F2fsj, op), run(System::PageJournal, op));
        let (a, b) = (per_op(&records), per_op(&pages));
        let journal = pages.journal.as_ref().expect("a journal");
        let bound = match op {
            Op::Mkdir | Op::Create4k => b / 4.0,
            _ => b,
        };
        assert!(a > 0.0 && a <= bound, "{}: {a} and {b}", op.word());
        let has = |kind| journal.pages.get(kind).is_some_and(|n| *n > 0);
        let data = matches!(op, Op::Create4k | Op::Unlink4k);
        assert!(has("nat") && (has("sit") || !data), "{:?}", journal.pages);
    }
}
