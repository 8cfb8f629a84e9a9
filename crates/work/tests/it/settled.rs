//! Runs that begin settled.

use rig::{Config, Fs};
use rt::SimConfig;
use varve_work::RunConfig;
use varve_work::run::{run, run_in};

const FILES: u64 = 400;

/// The ring is applied often, so that what the preparation left would go home early in the run.
fn removals() -> RunConfig {
    let scheme: rig::Scheme = "f2fsj+ring=64".parse().expect("a scheme");
    let mut stack = Config::new(scheme, "nvme-980pro", 1);
    (stack.fs, stack.bytes) = (Fs::F2fs, 256 << 20);
    RunConfig {
        stack,
        workload: format!("fsync:op=unlink,count={FILES}"),
        seed: 1,
        recording: None,
    }
}

#[test]
fn a_settled_run_does_not_write_the_nodes_of_its_preparation() {
    let nodes = |run: report::results::Run| run.blocks.get("node").copied().unwrap_or(0);
    let settled = nodes(run_in(&removals(), SimConfig::seeded(1)).expect("runs"));
    let plain = nodes(run(&removals(), &mut |_, _| {}).expect("runs").run);
    assert!(
        plain > FILES / 2,
        "the preparation was left behind: {plain}"
    );
    assert!(settled < FILES / 4, "{settled} nodes");
}
