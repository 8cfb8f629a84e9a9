//! What runs beside a workload does something, ends with it, and is refused where it does not fit.

use crate::{RunConfig, RunError, run};
use report::results::Run;
use rig::{Config, Preset};

const FOREGROUND: &str = "fsync:op=append,count=60";

fn beside(text: &str, mib: u64) -> Result<Run, RunError> {
    let mut stack = Config::new(Preset::default(), "emmc-odroid-xu4", 1);
    stack.bytes = mib << 20;
    let workload = match text {
        "" => FOREGROUND.into(),
        text => format!("{FOREGROUND},beside={text}"),
    };
    let config = RunConfig {
        stack,
        workload,
        seed: 1,
        recording: None,
    };
    Ok(run::run(&config, &mut |_, _| {})?.run)
}

fn blocks(run: &Run, class: &str) -> u64 {
    run.blocks.get(class).copied().unwrap_or_default()
}

#[test]
fn fdtree_puts_its_metadata_into_the_commits_of_others_and_no_operations() {
    let alone = beside("", 256).unwrap();
    let tree = beside("fdtree", 256).unwrap();
    assert_eq!(alone.ops, 60);
    assert_eq!(
        (tree.ops, &tree.ops_by_kind.keys().collect::<Vec<_>>()),
        (60, &alone.ops_by_kind.keys().collect::<Vec<_>>()),
        "its operations are not the workload's"
    );
    let (less, more) = (
        blocks(&alone, "journal_metadata"),
        blocks(&tree, "journal_metadata"),
    );
    assert!(
        more > less + 60,
        "{more} blocks of metadata, {less} without"
    );
    // Its data is never synced, and the limit on dirty pages is far away.
    assert_eq!(blocks(&tree, "data"), blocks(&alone, "data"));
    let slower = beside("fdtree+process=20000", 256).unwrap();
    assert!(
        blocks(&slower, "journal_metadata") < more,
        "a slower shell makes less"
    );
}

#[test]
fn the_writer_is_held_at_the_speed_of_the_device_and_nobody_waits_for_all_of_it() {
    let alone = beside("", 512).unwrap();
    let writer = beside("writer+file=48m", 512).unwrap();
    assert_eq!(writer.ops, 60);
    let data = blocks(&writer, "data") - blocks(&alone, "data");
    let rate = data as f64 / 256.0 / writer.virtual_seconds;
    assert!(
        (10.0..60.0).contains(&rate),
        "{data} blocks in {} s are {rate} MiB a second",
        writer.virtual_seconds
    );
    assert!(
        writer.latency_us.fsync.mean > 2.0 * alone.latency_us.fsync.mean,
        "it is in the way"
    );
    assert!(
        writer.latency_us.fsync.max < 200_000.0,
        "an fsync took {} us: the whole cache was sent at once",
        writer.latency_us.fsync.max
    );
}

#[test]
fn what_does_not_fit_on_the_volume_is_refused_before_the_measured_part() {
    for (text, right) in [
        ("fdtree+levels=4+dirs=10+files=10", "fewer levels"),
        ("fdtree+levels=16+dirs=1000", "fewer levels"),
        ("writer+file=4096m", "smaller file"),
    ] {
        let e = beside(text, 64).expect_err("there is no room").to_string();
        assert!(e.contains(text.split('+').next().unwrap()), "{text}: {e}");
        assert!(e.contains(right) && e.contains("larger volume"), "{e}");
    }
}

#[test]
fn the_writer_with_a_rate_is_refused_where_its_file_does_not_fit() {
    let mut stack = Config::new(Preset::default(), "emmc-odroid-xu4", 1);
    stack.bytes = 16 << 20;
    let config = RunConfig {
        stack,
        workload: format!("{FOREGROUND},writer=100"),
        seed: 1,
        recording: None,
    };
    let refused = run::run(&config, &mut |_, _| {}).map(drop).unwrap_err();
    let words = refused.to_string();
    assert!(matches!(refused, RunError::Room(_)), "{words}");
    assert!(words.contains("writer= needs 16 MiB") && words.contains("larger volume"));
}

#[test]
fn the_tree_is_that_of_the_script() {
    let tree = super::Fdtree::default();
    assert_eq!(tree.directories(), 781);
    let default_of_the_script = super::Fdtree {
        dirs: 10,
        files: 10,
        ..tree
    };
    assert_eq!(default_of_the_script.directories(), 11_111);
    let flat = super::Fdtree { levels: 0, ..tree };
    assert_eq!(flat.directories(), 1);
}
