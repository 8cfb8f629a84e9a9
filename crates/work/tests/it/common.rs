//! What the tests over all schemes share.

use report::results::Run;
use rig::{Config, Preset};
use varve_work::RunConfig;
use varve_work::run::run;

/// The eMMC with each order in which a packed write may become durable.
pub const DEVICES: [(&str, &str); 2] = [
    ("prefix", "emmc-odroid-xu4"),
    ("any-subset", "emmc-odroid-xu4,card.pack_order=any-subset"),
];

/// Runs one workload on one preset, without timers: only the workload decides what happens.
pub fn measured(preset: Preset, device: &str, timing: &str, workload: &str, mib: u64) -> Run {
    let mut stack = Config::new(preset, device, 1);
    stack.timing = Some(timing.into());
    stack.bytes = mib << 20;
    stack.timers = false;
    let config = RunConfig {
        stack,
        workload: workload.into(),
        seed: 1,
        recording: None,
    };
    match run(&config, &mut |_, _| {}) {
        Ok(finished) => finished.run,
        Err(e) => panic!("{preset} on {device}, {timing}, {workload}: {e}"),
    }
}
