//! Recovery is measured from a log that needs it, and leaves what checkers pass.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use rig::{Config, Preset};
use varve_paper::emmc::recovery::{Checker, Recoveries, Recovery, RecoveryJob};
use work::RunConfig;

/// Few files, slowly: several commits in each phase.
const POSTMARK: &str = "files:count=160,transactions=80,min=1000,max=10240,pause=100000";

fn job(scheme: Preset, remounted: bool) -> RecoveryJob {
    let mut stack = Config::new(scheme, "emmc-odroid-xu4", 5);
    stack.bytes = 64 << 20;
    let run = RunConfig {
        stack,
        workload: POSTMARK.into(),
        seed: 5,
        recording: None,
    };
    RecoveryJob {
        run,
        cuts: 2,
        remounted,
        checked: true,
    }
}

fn recoveries(scheme: Preset, remounted: bool) -> Recoveries {
    let all = job(scheme, remounted).run().unwrap();
    if all.checker != Checker::E2fsck {
        eprintln!("skipped: e2fsck is not installed, varve fsck stands in");
    }
    for cut in &all.cuts {
        assert!(cut.findings.is_empty(), "{cut:?}");
    }
    all
}

fn of<'a>(all: &'a Recoveries, phase: &str) -> Vec<&'a Recovery> {
    let cuts: Vec<_> = all.cuts.iter().filter(|c| c.phase == phase).collect();
    assert_eq!(cuts.len(), 2, "{phase}");
    cuts
}

#[test]
fn a_cut_leaves_a_log_to_replay_and_a_mount_that_takes_longer_for_it() {
    for scheme in [Preset::Jbd2, Preset::Emmc, Preset::Adaptive] {
        let all = recoveries(scheme, false);
        assert_eq!(all.phases.len(), 3);
        for phase in ["create", "transactions", "delete"] {
            of(&all, phase);
        }
        for cut in of(&all, "transactions") {
            assert!(cut.transactions > 0 && cut.blocks_replayed > 0, "{cut:?}");
            assert!(cut.recovery_ms() > 1.0 && cut.kib_written > 0, "{cut:?}");
            let steps: f64 = cut.steps_ms.values().sum();
            assert!(0.0 < steps && steps <= cut.mount_ms, "{cut:?}");
        }
    }
}

/// Behind a remount the log of a coalition scheme has only changed bytes of blocks that were there
/// before.
#[test]
fn a_log_of_changes_reads_homes_with_fewer_commands_than_blocks() {
    let all = recoveries(Preset::Emmc, true);
    let cuts = of(&all, "transactions");
    let homes: u64 = cuts.iter().map(|c| c.home_reads).sum();
    let commands: u64 = cuts.iter().map(|c| c.home_read_commands).sum();
    assert!(homes > 0 && 0 < commands && commands < homes, "{cuts:?}");
}

#[test]
fn the_same_job_gives_the_same_recoveries() {
    let mut job = job(Preset::Emmc, false);
    job.checked = false;
    assert_eq!(job.run().unwrap(), job.run().unwrap());
}

#[test]
fn another_workload_has_no_phases() {
    let mut job = job(Preset::Jbd2, false);
    job.run.workload = "sqlite".into();
    let e = job.run().unwrap_err().to_string();
    assert!(e.contains("no phases") && e.contains("files:"), "{e}");
}
