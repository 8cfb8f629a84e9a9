//! The explorer end to end: one run, all its cuts, one oracle.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use rig::{Fs, Scheduler};
use std::process::Command;
use varve_crash::campaign::{BATCH, Explored, Look, Reach, explore, judge};
use varve_crash::case::{Case, Volumes};
use varve_crash::ops::Op;
use varve_crash::plan::PRESETS;
use varve_crash::subject::Files;
use varve_crash::{Script, Volume};

fn case(scheme: &str, workload: &str, seed: u64) -> Case {
    Case {
        scheme: scheme.into(),
        device: "spec:emmc".into(),
        workload: workload.into(),
        seed,
        scheduler: None,
        mutant: None,
    }
}

const REACH: Reach = Reach {
    mode: Look::Bounded,
    draws: 0,
    moments: 0,
    subset_max: 2,
    torn_max: 2,
    states_max: 256,
    prune: true,
    fsck: true,
    deep_one_in: 32,
    nested: 1,
    nested_one_in: 8,
};
/// A part of the states at each cut, for what has a long form.
const SHORT: Reach = Reach {
    states_max: 32,
    nested_one_in: 16,
    ..REACH
};

#[test]
fn a_small_mix_keeps_its_promises_under_every_preset() {
    let mut volumes = Volumes::default();
    for scheme in PRESETS {
        let setup = case(scheme, "mix", 3).setup(&mut volumes).unwrap();
        let explored = explore(&setup, &REACH, BATCH, &mut |_| {}).unwrap();
        assert_eq!(explored.failure, None);
        assert!(
            explored.judged > 20 && explored.nested > 0,
            "{scheme}: {explored:?}"
        );
        assert!(
            explored.findings.is_empty(),
            "{scheme}: {:?}",
            explored.findings
        );
    }
}

/// Blocks of 8 to 64 KiB, of which a device writes parts: a cut leaves some of them old (place-B1
/// to place-B7). The positive control shows that the oracle sees files in such blocks.
#[test]
fn large_blocks_keep_their_promises_under_every_preset() {
    let mut volumes = Volumes::default();
    let reach = Reach {
        states_max: 48,
        ..REACH
    };
    let sizes = [8192, 16_384, 32_768, 65_536];
    let remaps = [("jftl", 4096), ("jftl-paper", 4096), ("jftl", 65_536)];
    let stock = PRESETS.iter().map(|scheme| (*scheme, None));
    let remapped = remaps.map(|(scheme, granule)| (scheme, Some(granule)));
    for (n, (scheme, granule)) in stock.chain(remapped).enumerate() {
        let block = sizes[n % sizes.len()];
        let remap = granule.map(|g| format!(",remap={g}")).unwrap_or_default();
        let case = Case {
            device: format!("spec:emmc,block={block}{remap}"),
            ..case(scheme, "mix", 3)
        };
        let setup = case.setup(&mut volumes).unwrap();
        assert_eq!(setup.volume.config().block_bytes, Some(block));
        let explored = explore(&setup, &reach, BATCH, &mut |_| {}).unwrap();
        assert_eq!(explored.failure, None);
        assert!(explored.judged > 20, "{case}: {explored:?}");
        assert!(
            explored.findings.is_empty(),
            "{case}: {:?}",
            explored.findings
        );
    }
    let control = Case {
        device: "spec:emmc,block=65536".into(),
        ..case("none", "mix", 3)
    };
    let setup = control.setup(&mut volumes).unwrap();
    let explored = explore(&setup, &reach, BATCH, &mut |_| {}).unwrap();
    assert!(explored.violations > 0, "the control shows no damage");
}

/// Where case does not count, each name is asked for in another spelling than it was made in
/// (casefold-N1), and a cut leaves no more than elsewhere.
#[test]
fn names_in_any_spelling_keep_their_promises() {
    let mut volumes = Volumes::default();
    let folded = |scheme: &str, seed| Case {
        device: "spec:emmc,names=folded".into(),
        ..case(scheme, "mix:tasks=2,ops=12,stress=names", seed)
    };
    for scheme in [
        "jbd2",
        "fast-commit",
        "emmc-paper",
        "f2fsj",
        "checkpoint-60",
    ] {
        let case = folded(scheme, 3);
        let setup = case.setup(&mut volumes).unwrap();
        assert!(setup.volume.config().casefold);
        let explored = explore(&setup, &SHORT, BATCH, &mut |_| {}).unwrap();
        assert_eq!(explored.failure, None, "{case}");
        assert!(explored.judged > 20, "{case}: {explored:?}");
        let findings = &explored.findings;
        assert!(findings.is_empty(), "{case}: {findings:?}");
    }
    let setup = folded("none", 3).setup(&mut volumes).unwrap();
    let explored = explore(&setup, &SHORT, BATCH, &mut |_| {}).unwrap();
    assert!(explored.violations > 0, "the control shows no damage");
}

/// An F2FS has blocks of 4 KiB, and no others are made in silence.
#[test]
fn an_f2fs_with_other_blocks_is_refused_by_name() {
    let case = Case {
        device: "spec:emmc,block=16384".into(),
        ..case("checkpoint-60", "mix", 3)
    };
    let why = case.setup(&mut Volumes::default()).err().expect("refused");
    assert!(why.to_string().contains("an F2FS has blocks of 4096 bytes"));
}

/// Cases share volumes that are equal, so what a case shows does not depend on those before it.
#[test]
fn a_case_is_the_same_whatever_ran_before() {
    let script = "script:create a; fsync a; write a 0+4k; fsync a; write a 4k+4k; fsync a";
    let cuts = |scheme: &str, volumes: &mut Volumes| {
        let setup = case(scheme, script, 3).setup(volumes).unwrap();
        let explored = explore(&setup, &REACH, BATCH, &mut |_| {}).unwrap();
        (explored.points, explored.judged)
    };
    let mut shared = Volumes::default();
    for scheme in PRESETS {
        let alone = cuts(scheme, &mut Volumes::default());
        assert_eq!(cuts(scheme, &mut shared), alone, "{scheme}");
    }
    let [jbd2, fast] = ["jbd2", "fast-commit"].map(|scheme| cuts(scheme, &mut shared));
    assert_ne!(jbd2, fast, "fast commits are made");
}

/// A scheduler changes the run, and with it the cuts, but not what a cut may leave: the same rules
/// judge it. `none` is the run without a scheduler, cut by cut.
#[test]
fn a_small_mix_keeps_its_promises_under_every_scheduler() {
    under_every_scheduler(&SHORT);
}

#[test]
#[ignore = "a minute: up to 256 states of each cut"]
fn a_small_mix_keeps_its_promises_under_every_scheduler_for_long() {
    under_every_scheduler(&REACH);
}

fn under_every_scheduler(reach: &Reach) {
    let mut volumes = Volumes::default();
    let mut explored = |scheme: &str, scheduler| {
        let mut case = case(scheme, "mix:tasks=3,ops=12,stress=swarm", 1);
        case.scheduler = scheduler;
        let setup = case.setup(&mut volumes).unwrap();
        explore(&setup, reach, BATCH, &mut |_| {}).unwrap()
    };
    for scheme in ["jbd2", "emmc-paper", "f2fsj"] {
        let plain = explored(scheme, None);
        for scheduler in Scheduler::ALL {
            let found = explored(scheme, Some(scheduler));
            assert_eq!(found.failure, None, "{scheme}, {scheduler}");
            assert!(
                found.judged > 20 && found.nested > 0,
                "{scheme}, {scheduler}"
            );
            assert!(
                found.findings.is_empty(),
                "{scheme}, {scheduler}: {:?}",
                found.findings
            );
            let counts = |e: &Explored| (e.points, e.enumerated, e.judged);
            let same = counts(&found) == counts(&plain);
            assert_eq!(same, scheduler == Scheduler::None, "{scheme}, {scheduler}");
        }
    }
    let control = explored("none", Some(Scheduler::Cfq310));
    assert!(control.violations > 0, "the explorer sees");
}

/// Block maps, and a log whose end only transaction numbers tell, on a device that does its worst.
#[test]
fn a_small_mix_keeps_its_promises_on_ext3() {
    let reach = Reach {
        states_max: 48,
        deep_one_in: 64,
        nested_one_in: 32,
        ..REACH
    };
    let mut volumes = Volumes::default();
    let mut setup = case("jbd2", "mix", 3).setup(&mut volumes).unwrap();
    setup.config.stack.fs = Fs::Ext3;
    setup.volume = Volume::new(&setup.config.stack, &setup.config.target).unwrap();
    let explored = explore(&setup, &reach, BATCH, &mut |_| {}).unwrap();
    assert_eq!(explored.failure, None);
    assert!(explored.judged > 20, "{explored:?}");
    assert!(explored.findings.is_empty(), "{:?}", explored.findings);
}

/// Open files lose their names and others are cut short, by tasks that change the same blocks of
/// the orphan file; recovery is cut, too.
#[test]
fn orphans_in_the_orphan_file_keep_the_promises() {
    with_orphans(&SHORT);
}

#[test]
#[ignore = "half a minute: up to 256 states of each cut"]
fn orphans_in_the_orphan_file_keep_the_promises_for_long() {
    with_orphans(&REACH);
}

fn with_orphans(reach: &Reach) {
    let task = |n: u64| {
        let path = |k: u64| format!("/t{n}f{k}");
        let round = |k: u64| {
            let write = Op::Write {
                path: path(k),
                offset: 0,
                len: 40 * 512,
            };
            let (cut, end) = (3 * 512 * k, Op::Unlink(path(k)));
            let truncate = Op::Truncate {
                path: path(k),
                size: cut,
            };
            let hold = Op::Hold(path(k));
            let sync = Op::Fsync(path(k));
            let then = Op::Create(path(k + 10));
            let sync_then = Op::Fsync(path(k + 10));
            let create = Op::Create(path(k));
            [create, write, sync, truncate, hold, end, then, sync_then]
        };
        (0..2).flat_map(round).collect::<Vec<_>>()
    };
    let mut volumes = Volumes::default();
    for scheme in ["jbd2", "emmc", "jbd2+data=journal"] {
        let mut setup = case(scheme, "mix", 3).setup(&mut volumes).unwrap();
        let Some(volume) = with_orphan_file(&setup.volume) else {
            return;
        };
        setup.volume = volume;
        setup.subject = Box::new(Files {
            script: Script::Fixed((0..3).map(task).collect()),
        });
        let explored = explore(&setup, reach, BATCH, &mut |_| {}).unwrap();
        assert_eq!(explored.failure, None);
        assert!(
            explored.judged > 100 && explored.nested > 0,
            "{scheme}: {explored:?}"
        );
        assert!(
            explored.findings.is_empty(),
            "{scheme}: {:?}",
            explored.findings
        );
    }
}

/// The volume with an orphan file of e2fsprogs; `None`, said aloud, where that is not installed.
fn with_orphan_file(volume: &Volume) -> Option<Volume> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let disk = volume.fresh(0).unwrap();
    disk.write_image(volume.config().bytes, &path).unwrap();
    let tune2fs = Command::new("tune2fs")
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .args(["-O", "orphan_file"])
        .arg(&path)
        .output();
    match tune2fs {
        Ok(done) => assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        ),
        Err(e) => {
            eprintln!("skipped: tune2fs: {e}");
            return None;
        }
    }
    Some(volume.continued(&volume.load(&path).unwrap()))
}

#[test]
fn the_positive_control_shows_damage_and_each_finding_can_be_made_again() {
    let setup = case("none", "mix", 3)
        .setup(&mut Volumes::default())
        .unwrap();
    let explored = explore(&setup, &REACH, BATCH, &mut |_| {}).unwrap();
    assert!(!explored.findings.is_empty(), "the explorer is blind");
    for finding in explored.findings.iter().take(3) {
        let id = finding.state.parse().unwrap();
        let (state, again) = judge(&setup, &id).unwrap();
        assert_eq!(again.violations, finding.violations, "{id}");
        assert_eq!(state.oracle.story(), finding.story, "{id}");
    }
}

#[test]
fn the_size_of_a_batch_does_not_show() {
    let setup = case("emmc", "mix", 1)
        .setup(&mut Volumes::default())
        .unwrap();
    let [small, whole] = [7, BATCH].map(|batch| {
        let explored = explore(&setup, &REACH, batch, &mut |_| {}).unwrap();
        format!("{explored:?}")
    });
    assert_eq!(small, whole);
}
