//! How long a device lives, as a short run predicts it, beside what the translation layer counted
//! over a run ten times as long.

use report::results::Run;
use rig::{Config, Preset};
use varve_work::RunConfig;
use varve_work::run::run;

/// The profile as it is, blocks of 128 pages: the layer leaves about a page of a block unwritten,
/// which counts for more where blocks are small.
const CARD: &str = "emmc-odroid-xu4";

fn ran(preset: Preset, device: &str, workload: &str) -> Run {
    let mut stack = Config::new(preset, device, 1);
    stack.bytes = 64 << 20;
    let config = RunConfig {
        stack,
        workload: workload.into(),
        seed: 1,
        recording: None,
    };
    match run(&config, &mut |_, _| {}) {
        Ok(finished) => finished.run,
        Err(e) => panic!("{preset} on {device}, {workload}: {e}"),
    }
}

/// Ten times the erases that `short` predicts are those that `long` counted, within 5 %. The short
/// run has to program its chips several times over.
fn agree(short: &Run, long: &Run) {
    let wear = short.wear.expect("the card has flash");
    let predicted = 10.0 * wear.erases_due;
    let counted = long.flash.as_ref().expect("the card has flash").erases as f64;
    assert!(counted > 200.0, "{counted} erases are too few to compare");
    let off = predicted / counted - 1.0;
    assert!(
        off.abs() <= 0.05,
        "{}: {predicted} predicted, {counted} counted, {} by the programs of the longer run",
        short.scheme,
        long.wear.map_or(0.0, |wear| wear.erases_due)
    );
    // The life that is told is what these erases use up of all that the blocks are rated for.
    let all = f64::from(wear.rated_erases) * f64::from(wear.blocks);
    let years = all / wear.erases_due * short.virtual_seconds / (365.25 * 86_400.0);
    assert!((wear.years.unwrap() / years - 1.0).abs() < 0.01, "{wear:?}");
}

#[test]
fn a_benchmark_on_a_device_that_was_written_over_predicts_the_erases_of_a_longer_one() {
    for preset in [Preset::Jbd2, Preset::Emmc] {
        let of = |count| {
            let workload = format!("jobs:file=16m,warm=4000,count={count}");
            ran(preset, CARD, &workload)
        };
        agree(&of(1500), &of(15_000));
    }
}

#[test]
fn a_device_without_one_kind_of_cells_has_no_life() {
    let wear = |device: &str| ran(Preset::Jbd2, device, "fsync:count=20").wear;
    assert!(wear(CARD).is_some());
    assert_eq!(wear("loop-like"), None);
    assert_eq!(wear("emmc-odroid-xu4,slc.on=true,slc.mib=16"), None);
}
