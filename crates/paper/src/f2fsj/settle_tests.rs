//! Every system begins a measured run settled, and so the runs are compared alike.

use super::measure::{BenchJob, Host};
use super::scale::{CORES, DEVICE};
use super::system::{Size, System};
use work::RunConfig;

const SYSTEMS: [System; 4] = [
    System::Checkpoint60,
    System::PageJournal,
    System::F2fsj,
    System::Ext4,
];

/// A run that changes nothing writes nothing, even where it ends with everything brought home: what
/// the preparation made was at home before.
#[test]
fn nothing_of_the_preparation_goes_home_in_the_measured_run() {
    for system in SYSTEMS {
        let size = Size {
            bytes: 1 << 30,
            ring: 4 << 20,
            shorter: 1,
        };
        let job = BenchJob {
            run: RunConfig {
                stack: system.stack(DEVICE, size, 1),
                workload: "meta:op=stat,count=600,size=4k,width=100".into(),
                seed: 1,
                recording: None,
            },
            host: Host::cores(CORES),
        };
        let found = job.run_synced().expect("a run");
        assert!(found.blocks.is_empty(), "{system:?}: {:?}", found.blocks);
        assert_eq!(found.checkpoints.packs, 0, "{system:?}");
        let home = found.journal.map_or(0, |journal| journal.home_blocks);
        assert_eq!(home, 0, "{system:?}");
    }
}
