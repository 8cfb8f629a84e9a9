//! How long a device lives, as a short run predicts it, beside what the translation layer counted
//! over a run ten times as long.

use report::results::Run;
use report::wear::Basis;
use rig::{Config, Preset};
use rt::SimConfig;
use varve_work::RunConfig;
use varve_work::run::{run, run_in};

/// The profile as it is, blocks of 128 pages.
const CARD: &str = "emmc-odroid-xu4";

fn config(scheme: &str, device: &str, workload: &str) -> RunConfig {
    seeded(scheme, device, workload, 1)
}

fn seeded(scheme: &str, device: &str, workload: &str, seed: u64) -> RunConfig {
    let mut stack = Config::new(Preset::default(), device, 1);
    stack.set_scheme(scheme).unwrap();
    stack.bytes = 64 << 20;
    RunConfig {
        stack,
        workload: workload.into(),
        seed,
        recording: None,
    }
}

fn ran(scheme: &str, device: &str, workload: &str) -> Run {
    ran_by(&config(scheme, device, workload))
}

fn ran_by(config: &RunConfig) -> Run {
    match run(config, &mut |_, _| {}) {
        Ok(finished) => finished.run,
        Err(e) => panic!("{config:?}: {e}"),
    }
}

/// Erases that the layer counts over a run of which nothing is repeated.
fn counted(scheme: &str, device: &str, workload: &str) -> f64 {
    counted_by(&config(scheme, device, workload))
}

fn counted_by(config: &RunConfig) -> f64 {
    match run_in(config, SimConfig::seeded(config.seed)) {
        Ok(run) => run.flash.expect("the card has flash").erases as f64,
        Err(e) => panic!("{config:?}: {e}"),
    }
}

/// Ten times the erases that `short` predicts are those `counted` over a run ten times as long,
/// within 5 %.
fn agree(short: &Run, counted: f64) {
    let wear = short.wear.expect("the card has flash");
    let slc = wear.slc.map_or(0.0, |slc| slc.erases_due);
    let predicted = 10.0 * (wear.erases_due + slc);
    let off = predicted / counted - 1.0;
    let (scheme, device, workload) = (&short.scheme, &short.device.profile, &short.workload);
    assert!(
        off.abs() <= 0.05,
        "{scheme} on {device}, {workload}: {predicted} predicted ({:?}), {counted} counted",
        wear.basis
    );
}

#[test]
fn a_benchmark_on_a_device_that_was_written_over_predicts_the_erases_of_a_longer_one() {
    benchmarks_agree(&["jbd2"]);
}

#[test]
#[ignore = "long: cargo xtask test --long"]
fn a_benchmark_with_another_scheme_predicts_the_erases_of_a_longer_one() {
    benchmarks_agree(&["emmc"]);
}

fn benchmarks_agree(schemes: &[&str]) {
    for scheme in schemes {
        let of = |count: u32| format!("jobs:file=16m,warm=4000,count={count}");
        let short = ran(scheme, CARD, &of(1500));
        agree(&short, counted(scheme, CARD, &of(15_000)));
        // Writes to random places of a file are few of them in a short run.
        let wear = short.wear.unwrap();
        let (least, most) = wear.years_range.expect("another place costs more");
        assert!(least <= wear.years.unwrap() && wear.years.unwrap() < most);
        // The life that is told is what these erases use up of all that the blocks are rated for.
        let all = f64::from(wear.rated_erases) * f64::from(wear.blocks);
        let years = all / wear.erases_due * short.virtual_seconds / (365.25 * 86_400.0);
        assert!((wear.years.unwrap() / years - 1.0).abs() < 0.01, "{wear:?}");
    }
}

/// A fifth too few erases would be predicted by the pages that the short runs programmed.
#[test]
fn a_recording_on_a_volume_in_use_predicts_the_erases_of_a_longer_one() {
    recordings_agree(&[("jbd2", "chrome", 100), ("emmc", "facebook", 100)]);
}

#[test]
#[ignore = "long: cargo xtask test --long"]
fn more_recordings_on_a_volume_in_use_predict_the_erases_of_longer_ones() {
    recordings_agree(&[("jbd2", "facebook", 100), ("jbd2", "twitter", 300)]);
}

fn recordings_agree(of_each: &[(&str, &str, u32)]) {
    for &(scheme, app, seconds) in of_each {
        let of = |seconds| format!("app:{app},seconds={seconds},aged=50");
        let short = ran(scheme, CARD, &of(seconds));
        agree(&short, counted(scheme, CARD, &of(10 * seconds)));
    }
}

/// What a use makes and removes lies elsewhere each time. A repetition that began by removing and
/// making files anew predicted a fifth more or less, and so did a file system that went on to fresh
/// blocks for each small file.
#[test]
#[ignore = "a minute and more"]
fn a_recording_that_changes_which_files_there_are_predicts_the_erases_of_a_longer_one() {
    for (scheme, aged, seed) in [
        ("jbd2", 50, 1),
        ("jbd2", 50, 2),
        ("jbd2", 50, 3),
        ("jbd2", 20, 1),
        ("emmc", 50, 1),
        ("emmc", 20, 1),
        ("fast-commit+adaptive", 50, 1),
    ] {
        let of = |seconds| {
            let workload = format!("app:facebook,seconds={seconds},aged={aged}");
            seeded(scheme, CARD, &workload, seed)
        };
        agree(&ran_by(&of(300)), counted_by(&of(3000)));
    }
}

/// The map goes to blocks of its own, which wear at another rate than the others. What the layer
/// counted beyond the erases of blocks that carry data is the map's.
#[test]
fn the_erases_of_the_map_are_predicted_apart() {
    let of = |seconds| format!("app:facebook,seconds={seconds},aged=50");
    let (short, long) = (ran("jbd2", CARD, &of(300)), ran("jbd2", CARD, &of(3000)));
    let map = short.wear.unwrap().map.expect("it has a map");
    // Two areas of two blocks.
    assert_eq!(map.blocks, 4);
    let all = |run: &Run| run.flash.as_ref().expect("the card has flash").erases as f64;
    let data = |run: &Run| {
        let erased = run.erased.as_ref().expect("the card has flash");
        let sum = erased
            .blocks
            .iter()
            .map(|(erases, blocks)| u64::from(*erases) * blocks);
        sum.sum::<u64>() as f64
    };
    let counted = all(&long) - all(&short) - (data(&long) - data(&short));
    let predicted = 9.0 * map.erases_due;
    // An area is erased whole.
    assert!(
        counted > 8.0 && (predicted - counted).abs() <= 2.0,
        "{predicted} {counted}"
    );
}

#[test]
fn the_wear_of_a_device_with_an_slc_area_is_that_of_both_kinds_of_cells() {
    let card = "emmc-odroid-xu4,slc.on=true,slc.mib=16";
    let (short, long) = [300, 3000]
        .map(|seconds| format!("app:twitter,seconds={seconds},aged=50"))
        .into();
    let run = ran("jbd2", card, &short);
    agree(&run, counted("jbd2", card, &long));
    let slc = run.wear.unwrap().slc.unwrap();
    // Everything goes through the area, in blocks of half the pages.
    assert!(
        slc.erases_due > run.wear.unwrap().erases_due && slc.blocks == 16,
        "{slc:?}"
    );
    let (short, long) = [60, 600]
        .map(|seconds| format!("app:facebook,seconds={seconds}"))
        .into();
    let run = ran("emmc", "ufs-generic", &short);
    agree(&run, counted("emmc", "ufs-generic", &long));
}

#[test]
fn what_a_life_is_known_by_is_told() {
    let wear = |device: &str| ran("jbd2", device, "fsync:count=20").wear;
    assert_eq!(wear(CARD).unwrap().basis, Basis::Roomy);
    assert!(
        wear("emmc-odroid-xu4,slc.on=true,slc.mib=16")
            .unwrap()
            .slc
            .is_some()
    );
    assert_eq!(wear("loop-like"), None);
    // Of a run that nothing is repeated of the life is an upper bound.
    let alone = run_in(
        &config("jbd2", CARD, "fsync:count=20"),
        SimConfig::seeded(1),
    )
    .unwrap();
    let alone = alone.wear.unwrap();
    assert_eq!(alone.basis, Basis::AtMost);
    assert!(alone.life().unwrap().starts_with("at most"));
}
