//! Many tasks that sync at once.

use rig::{Config, Fs};
use rt::SimConfig;
use varve_work::RunConfig;
use varve_work::run::run_in;

/// Flushes for each call of fsync, of processes that overwrite pages of files of their own.
fn flushes(processes: u32) -> f64 {
    let scheme: rig::Scheme = "f2fsj".parse().expect("a scheme");
    let mut stack = Config::new(scheme, "nvme-980pro", 1);
    (stack.fs, stack.bytes) = (Fs::F2fs, 256 << 20);
    let config = RunConfig {
        stack,
        workload: format!("jobs:procs={processes},file=256k,count=20"),
        seed: 1,
        recording: None,
    };
    let run = run_in(&config, SimConfig::seeded(1)).expect("runs");
    run.device.commands.flushes as f64 / f64::from(20 * processes)
}

/// Few calls of fsync need no flush for pages that they write in place. Many at once do, and some
/// of them share one, because non-volatile writes are programmed one by one.
#[test]
fn the_pages_of_many_fsyncs_share_a_flush() {
    for (processes, share) in [(1, false), (4, false), (48, true)] {
        let flushes = flushes(processes);
        // One more is that of the end.
        let wanted = match share {
            true => 0.1..1.0,
            false => 0.0..1.5 / f64::from(20 * processes),
        };
        assert!(wanted.contains(&flushes), "{processes}: {flushes}");
    }
}
