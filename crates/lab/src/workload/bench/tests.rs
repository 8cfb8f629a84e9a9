//! Each benchmark, run and checked on a small volume.

use crate::results::Run;
use crate::{RunConfig, run};
use rig::{Config, Preset};

fn ran(scheme: &str, workload: &str) -> Run {
    let mut stack = Config::new(Preset::default(), "loop-like", 3);
    stack.set_scheme(scheme).unwrap();
    stack.bytes = 64 << 20;
    stack.timers = false;
    let config = RunConfig {
        stack,
        workload: workload.into(),
        seed: 3,
        recording: None,
    };
    run::run(&config, &mut |_, _| {}).unwrap().run
}

fn blocks(run: &Run, class: &str) -> u64 {
    run.blocks.get(class).copied().unwrap_or(0)
}

#[test]
fn bonnie_writes_its_file_once_in_each_phase_and_char_is_block() {
    let phase = |phase: &str| ran("jbd2", &format!("bonnie:phase={phase},mib=2"));
    let (char, block, rewrite) = (phase("char"), phase("block"), phase("rewrite"));
    assert_eq!(char.blocks, block.blocks, "putc goes through 4 KiB");
    for run in [&char, &block, &rewrite] {
        assert_eq!((run.ops, blocks(run, "data")), (512, 512));
        let mb = 2.097152 / run.virtual_seconds;
        assert!((run.mb_per_s.unwrap() / mb - 1.0).abs() < 1e-4);
    }
    let metadata = |run| blocks(run, "journal_metadata");
    assert!(metadata(&rewrite) < metadata(&block), "nothing to allocate");
    assert!(block.ops_by_kind.contains_key("write"));
}

#[test]
fn everything_is_home_at_the_end_and_that_is_measured() {
    let run = ran(
        "jbd2+data=journal",
        "jobs:file=128k,every=0,order=sequential,fill=none",
    );
    assert_eq!(blocks(&run, "journal_data"), 32);
    assert_eq!(blocks(&run, "data"), 32, "each once more at home");
    assert_eq!(
        blocks(&run, "home"),
        blocks(&run, "journal_metadata"),
        "one transaction, so nothing superseded"
    );
}

#[test]
fn iozone_forces_each_record() {
    let run = ran("jbd2", "iozone:op=both,file=256k,record=16k");
    assert_eq!((run.ops, blocks(&run, "data")), (32, 128));
    assert_eq!(run.ops_by_kind["write"].ops, 16);
    assert_eq!(run.ops_by_kind["rewrite"].ops, 16);
    let commits = |op: &str| ran("jbd2", &format!("iozone:op={op},file=256k,record=16k")).commits;
    assert!(commits("write") >= 16 && commits("rewrite") < commits("write"));
}

#[test]
fn jobs_write_each_place_once_if_shuffled_and_sync_as_told() {
    let text = "jobs:procs=3,file=256k,every=4,order=shuffled,fill=fallocate";
    let run = ran("jbd2+data=journal", text);
    assert_eq!((run.ops, blocks(&run, "journal_data")), (192, 192));
    assert!(
        run.commits <= 3 * 16 && run.commits >= 16,
        "{}",
        run.commits
    );
    let random = ran("jbd2", "jobs:file=256k,count=200,warm=50,every=0");
    assert_eq!(random.ops, 200);
    assert!(blocks(&random, "data") <= 64, "one write-back at the end");
}

#[test]
fn small_files_and_trees_come_and_go() {
    let run = ran("jbd2", "small:count=40,every=10,unlink=15");
    assert_eq!(blocks(&run, "data"), 40);
    assert_eq!(run.commits, 5, "four syncs, and one of the removals");
    let run = ran("jbd2", "churn:rounds=3,dirs=2,files=5,size=5k");
    assert_eq!(run.ops, 2 * 3 * (1 + 2 + 10));
    assert_eq!(blocks(&run, "data"), 3 * 10 * 2);
}

#[test]
fn one_operation_on_names_many_times() {
    for op in ["mkdir", "rmdir", "create", "unlink"] {
        let run = ran("jbd2", &format!("meta:op={op},count=250,width=6"));
        assert_eq!(run.ops, 250);
        assert_eq!(run.ops_by_kind.keys().collect::<Vec<_>>(), [op]);
    }
    let run = ran("jbd2", "meta:op=create,count=10,size=0");
    assert_eq!(blocks(&run, "data"), 0);
}
