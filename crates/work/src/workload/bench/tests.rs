//! Each benchmark, run and checked on a small volume.

use super::MetaOp;
use crate::workload::Workload;
use crate::{RunConfig, run};
use report::results::Run;
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
fn every_benchmark_takes_an_aged_volume() {
    let benchmarks = [
        "bonnie:phase=char",
        "meta:op=mkdir",
        "filebench:varmail",
        "tree:op=cp",
    ];
    for benchmark in benchmarks {
        let text = format!("{benchmark},aged=50,overwrites=200");
        let workload: Workload = text.parse().expect("a workload");
        assert!(workload.to_string().contains("aged=50"), "{workload}");
    }
}

/// Other workloads do, too: a volume that cannot become as full as asked fails each of them.
#[test]
fn every_workload_ages_its_volume() {
    for workload in [
        "fsync:op=append,count=3",
        "sqlite:insert=3,update=0,delete=0",
        "files:count=3,transactions=3",
        "app:gmail,seconds=1,pace=none",
    ] {
        let run = |percent: u32| {
            let mut stack = Config::new(rig::F2fsPreset::F2fsj, "nvme-980pro", 1);
            (stack.fs, stack.bytes) = (rig::Fs::F2fs, 128 << 20);
            let config = RunConfig {
                stack,
                workload: format!("{workload},aged={percent},overwrites=10"),
                seed: 1,
                recording: None,
            };
            run::run(&config, &mut |_, _| {}).map(|finished| finished.run.ops)
        };
        assert!(run(20).expect("room") > 0, "{workload}");
        let full = run(95).expect_err("no room");
        let full = full.to_string();
        assert!(full.contains("95 % full"), "{workload}: {full}");
    }
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
    for op in MetaOp::ALL.map(MetaOp::word) {
        let run = ran("jbd2", &format!("meta:op={op},count=250,width=6"));
        assert_eq!(run.ops, 250);
        assert_eq!(run.ops_by_kind.keys().collect::<Vec<_>>(), [op]);
    }
    for op in ["create", "unlink", "copy"] {
        let run = ran("jbd2", &format!("meta:op={op},count=10,size=0"));
        assert_eq!(blocks(&run, "data"), 0, "{op} of empty files");
    }
}

#[test]
fn a_copy_writes_what_it_reads() {
    let run = ran("jbd2", "meta:op=copy,count=30,size=10k,width=4");
    assert_eq!(blocks(&run, "data"), 90, "the sources are home before");
    let bytes = 30.0 * 10.0 * 1024.0 / 1e6 / run.virtual_seconds;
    assert!((run.mb_per_s.unwrap() / bytes - 1.0).abs() < 1e-3);
}

#[test]
fn processes_share_the_objects_and_each_is_done_once() {
    let text = "meta:op=create,count=250,width=6";
    let (one, four) = (ran("jbd2", text), ran("jbd2", &format!("{text},procs=4")));
    assert_eq!(four.ops, 250);
    assert_eq!(blocks(&one, "data"), blocks(&four, "data"));
    for op in MetaOp::ALL.map(MetaOp::word) {
        let run = ran("jbd2", &format!("meta:op={op},count=50,width=6,procs=7"));
        assert_eq!(run.ops, 50, "{op}");
    }
}

#[test]
fn between_two_rounds_what_was_done_is_undone() {
    let run = ran("jbd2", "meta:op=mkdir,count=20,rounds=3,procs=2");
    let of = |kind: &str| run.ops_by_kind.get(kind).map(|k| k.ops);
    assert_eq!(
        (of("mkdir"), of("rmdir"), run.ops),
        (Some(60), Some(40), 100)
    );
    let run = ran("jbd2", "meta:op=stat,count=20,rounds=3");
    assert_eq!(run.ops, 60, "nothing to undo");
    let text = "meta:op=rmdir,count=20,size=4k,width=100,procs=2,rounds=3";
    assert_eq!(text.parse::<Workload>().unwrap().to_string(), text);
}

#[test]
fn fio_reads_from_the_device_what_it_has_laid_out() {
    let run = ran("jbd2", "fio:case=Seq_read,file=40m");
    assert_eq!((run.ops, run.ops_by_kind["read"].ops), (40, 40));
    let reads = run.device.commands.reads;
    assert!(reads >= 40, "the cache was dropped: {reads} reads");
    let run = ran("jbd2", "fio:case=Rand_write,file=1m,depth=16");
    assert_eq!((run.ops, blocks(&run, "data")), (256, 256));
    let run = ran("jbd2", "fio:case=SeqWR_R,file=40m");
    assert_eq!(
        run.ops_by_kind["read"].ops + run.ops_by_kind["write"].ops,
        40
    );
}
