//! Every system begins a measured run settled, and so the runs are compared alike; what the
//! preparation took is told beside.

use super::measure::{BenchJob, Host, Measured};
use super::scale::{CORES, DEVICE};
use super::system::{Size, System};
use rig::Config;
use work::RunConfig;

const SYSTEMS: [System; 4] = [
    System::Checkpoint60,
    System::PageJournal,
    System::F2fsj,
    System::Ext4,
];

const SIZE: Size = Size {
    bytes: 1 << 30,
    ring: 4 << 20,
    shorter: 1,
};

fn of(stack: Config, workload: &str) -> BenchJob {
    BenchJob {
        run: RunConfig {
            stack,
            workload: workload.into(),
            seed: 1,
            recording: None,
        },
        host: Host::cores(CORES),
    }
}

fn run(system: System, workload: &str) -> Measured {
    let job = of(system.stack(DEVICE, SIZE, 1), workload);
    job.run_synced().expect("a run")
}

/// A run that changes nothing writes nothing, even where it ends with everything brought home: what
/// the preparation made was at home before.
#[test]
fn nothing_of_the_preparation_goes_home_in_the_measured_run() {
    for system in SYSTEMS {
        let found = run(system, "meta:op=stat,count=600,size=4k,width=100");
        assert!(found.blocks.is_empty(), "{system:?}: {:?}", found.blocks);
        assert_eq!(found.checkpoints.packs, 0, "{system:?}");
        let home = found.journal.map_or(0, |journal| journal.home_blocks);
        assert_eq!(home, 0, "{system:?}");
    }
}

/// The preparation of a removal is a run of the making, without the checkpoint that brings it home.
#[test]
fn the_preparation_is_what_the_making_takes() {
    for system in SYSTEMS {
        let made = run(system, "meta:op=mkdir,count=600,width=100");
        let removed = run(system, "meta:op=rmdir,count=600,width=100");
        // The run of the making ends with the sync, which the preparation leaves out.
        let making = made.latency_us.mean * 600e-6;
        let before = removed.preparation;
        let times = before.seconds / making;
        assert!((0.9..1.3).contains(&times), "{system:?}: {times}");
        assert_eq!(before.checkpoints_s, 0.0, "{system:?}");
        let whole = removed.with_preparation();
        assert_eq!(whole.seconds, before.seconds + removed.seconds);
        let journals = matches!(system, System::PageJournal | System::F2fsj);
        assert_eq!(before.journal_s > 0.0, journals, "{system:?}");
    }
}

/// Removing a directory reads its block, which has to be in memory as the paper's objects are; as
/// much is there as the stack says, on ext4 too.
#[test]
fn memory_holds_the_metadata_of_ext4() {
    let median = |mib: Option<u32>| {
        let mut stack = System::Ext4.stack(DEVICE, SIZE, 1);
        stack.cache_mib = mib.or(stack.cache_mib);
        let found = of(stack, "meta:op=rmdir,count=6000,width=100");
        found.run().expect("a run").latency_us.p50
    };
    let (held, read) = (median(None), median(Some(4)));
    assert!(read > held + 30.0, "{read} us, {held} us from memory");
}
