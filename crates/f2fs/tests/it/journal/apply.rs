//! Apply: committed epochs are written home while operations run, and a mount finds the state after
//! a whole epoch.

use super::SCHEME;
use super::applied::{Player, acknowledged_beside_applies, cuts_of_an_apply, tree};
use super::common::{Mistake, disk, fsck, mount, sim, volume};
use base::BLOCK_BYTES;
use block::Queue;
use blockdev::Image;
use fscore::FileSystem;
use rt::{Sim, SimConfig};
use std::collections::BTreeMap;
use testkit::Brief;
use varve_f2fs::{F2fs, MountOptions};

const RING: u32 = 1024;

/// What is left after an unmount is a plain F2FS with this content.
fn assert_left(ring: u32, left: &Image, expected: &BTreeMap<String, Vec<u8>>) {
    fsck(ring, left);
    sim(1, || {
        let disk = disk(ring, left.clone(), 1);
        let fs = mount(&disk, "");
        let found = tree(&fs);
        for (path, content) in expected {
            assert!(found.get(path) == Some(content), "{path} differs");
        }
        assert_eq!(found.len(), expected.len());
        fs.unmount().expect("unmounts");
    });
}

#[test]
fn one_task_and_applies_between_its_operations() {
    for (seed, more) in [1, 2, 3].map(|seed| (seed, "fast-forward=on")) {
        let (left, expected) = sim(seed, || {
            let disk = disk(RING, volume(RING), seed);
            let fs = mount(&disk, more);
            let mut player = Player::new(&fs, seed, 'a');
            for n in 0..400 {
                player.step();
                if n % 40 == 39 {
                    fs.write_home_now().expect("applies");
                    fs.check();
                    fs.check_home();
                }
            }
            let expected = tree(&fs);
            fs.unmount().expect("unmounts");
            let stats = fs.applies();
            assert!(
                stats.applies() >= 10 && stats.fast_forwarded > 0,
                "{stats:?}"
            );
            (disk.visible(), expected)
        });
        assert_left(RING, &left, &expected);
    }
}

/// Operations go on while applies run; then everything is applied, and home and live agree.
fn race(
    config: SimConfig,
    seed: u64,
    ring: u32,
    more: &str,
) -> (Image, BTreeMap<String, Vec<u8>>, varve_f2fs::ApplyStats) {
    let outcome = Sim::new(config).run(|| {
        let disk = disk(ring, volume(ring), seed);
        let fs = mount(&disk, more);
        let tasks: Vec<_> = (0..3)
            .map(|n| {
                let fs = fs.clone();
                rt::spawn("player", move || {
                    let mark = char::from(b'a' + n as u8 % 2);
                    let mut player = Player::new(&fs, seed * 10 + n, mark);
                    for _ in 0..120 {
                        player.step();
                    }
                })
            })
            .collect();
        let applier = {
            let fs = fs.clone();
            rt::spawn("applier", move || {
                for n in 0..30 {
                    rt::sleep(base::Nanos::from_micros(200 + 37 * n));
                    fs.write_home_now().expect("applies");
                }
            })
        };
        tasks
            .into_iter()
            .chain([applier])
            .for_each(|t| t.join().expect("no panic"));
        fs.sync().expect("syncs");
        fs.write_home_now().expect("applies");
        fs.check();
        fs.check_home();
        let expected = tree(&fs);
        fs.unmount().expect("unmounts");
        (disk.visible(), expected, fs.applies())
    });
    if let Some(failure) = outcome.first_failure {
        panic!("seed {seed}: {failure} {}", outcome.replay);
    }
    outcome.value.expect("no failure")
}

#[test]
fn operations_race_with_applies() {
    let mut patched = 0;
    for seed in 1..=4 {
        let (left, expected, stats) = race(SimConfig::random(seed), seed, RING, "");
        assert_left(RING, &left, &expected);
        patched += stats.patched;
    }
    assert!(patched > 0, "no node was changed while it was applied");
}

#[test]
fn operations_race_with_applies_that_redo_everything_and_in_tiny_rings() {
    for (seed, ring, more) in [
        (21, RING, "fast-forward=off"),
        (22, 16, "fast-forward=on"),
        (23, 64, "fast-forward=on"),
    ] {
        let (left, expected, stats) = race(SimConfig::random(seed), seed, ring, more);
        assert_left(ring, &left, &expected);
        let forwarded = stats.fast_forwarded;
        assert_eq!(forwarded > 0, more.ends_with("on"), "{stats:?}");
    }
}

/// One node write for three epochs; a node that a later epoch has changed is made from home and
/// records.
#[test]
fn nodes_that_nobody_changed_since_go_home_once() {
    sim(1, || {
        let disk = disk(RING, volume(RING), 1);
        let fs = mount(&disk, "commit=300,fast-forward=on");
        let ino = fs.make(fs.root(), "f").expect("a file");
        fs.write_home_now().expect("applies");
        let before = fs.applies();
        for n in 0..3 {
            fs.write(ino, n * 8192, &[n as u8; 5000]).expect("writes");
            fs.fsync(ino, false).expect("a commit");
        }
        fs.write_home_now().expect("applies");
        let after = fs.applies();
        assert_eq!(after.epochs - before.epochs, 3);
        assert_eq!(after.node_blocks - before.node_blocks, 1, "{after:?}");
        assert_eq!(after.fast_forwarded - before.fast_forwarded, 1);
        assert!(after.records_saved - before.records_saved >= 3);
        fs.check_home();
        fs.write_home_now().expect("nothing to do");
        assert_eq!(fs.applies().applies(), after.applies());
        assert_eq!(fs.applies().unnecessary, after.unnecessary + 1);
        fs.unmount().expect("unmounts");
    });
}

/// hazards-F61: what an epoch has freed is not written before that epoch is applied, and comes back
/// then.
#[test]
fn freed_blocks_come_back_with_the_apply() {
    sim(1, || {
        let disk = disk(RING, volume(RING), 1);
        let fs = mount(&disk, "commit=300,mode=lfs");
        let ino = fs.make(fs.root(), "f").expect("a file");
        fs.write(ino, 0, &vec![1; 300 * BLOCK_BYTES])
            .expect("writes");
        fs.fsync(ino, false).expect("a commit");
        fs.write_home_now().expect("applies");
        let released = fs.applies().released;
        fs.write(ino, 0, &vec![2; 300 * BLOCK_BYTES])
            .expect("writes");
        fs.fsync(ino, false).expect("a commit");
        // Back at this point by a cut: the ring has the new blocks, the pack the old ones; both are
        // as they were written.
        let (pack, ring) = (disk.snapshot_lost(), tree(&fs));
        fs.write_home_now().expect("applies");
        assert!(
            fs.applies().released >= released + 300,
            "{:?}",
            fs.applies()
        );
        fs.check_home();
        fs.unmount().expect("unmounts");
        let again = super::common::disk(RING, pack, 2);
        let fs = mount(&again, "");
        assert_eq!(tree(&fs), ring, "f2fs-journal-I7");
        fs.unmount().expect("unmounts");
    });
}

/// Dirty nodes do not grow beyond their threshold, whichever task has to apply.
#[test]
fn dirty_nodes_are_bounded_without_any_task() {
    sim(1, || {
        let disk = disk(RING, volume(RING), 1);
        let mut options = MountOptions::parse(SCHEME).expect("valid");
        options.timers = false;
        options.checkpoint.triggers.cached_nat_max = 0;
        options.checkpoint.triggers.dirty_node_segments = 1;
        let fs = F2fs::mount(Queue::new(disk.clone()), options).expect("mounts");
        for n in 0..1500 {
            fs.make(fs.root(), format!("f{n}")).expect("a file");
        }
        assert!(fs.applies().applies() > 0, "{:?}", fs.applies());
        fs.unmount().expect("unmounts");
    });
}

/// f2fs-journal-I7 at cuts inside of an apply.
#[test]
fn a_cut_inside_an_apply_loses_nothing_that_was_committed() {
    let mut cuts = 0;
    for seed in 1..=3 {
        cuts +=
            cuts_of_an_apply(seed, RING, &Mistake::default()).unwrap_or_else(|why| panic!("{why}"));
    }
    assert!(cuts > 30, "{cuts} cuts");
}

#[test]
fn what_is_acknowledged_beside_an_apply_is_kept() {
    for seed in 1..=2 {
        let kept = acknowledged_beside_applies(seed, &Mistake::default());
        assert_eq!(kept, Ok(()));
    }
}
