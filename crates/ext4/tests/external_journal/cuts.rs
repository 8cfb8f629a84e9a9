//! Both devices are cut at the same moment, each with losses of its own: every promise of fsync is kept, every volume is whole.

use crate::data_path::{
    Cut, Disks, MIB, Names, Tear, caps, judge, life_beside, life_taking, new_pair,
};
use base::{BlockNo, Mutant, Nanos, Rng};
use block::{BlockDevice, Caps, Class, Queue};
use blockdev::{Image, SpecDisk};
use fscore::FileSystem;
use rt::{Mutex, Sim, SimConfig};
use std::ops::Range;
use std::sync::Arc;
use varve_ext4::MountOptions;

/// Cuts of these lives, judged.
pub fn explore(
    seeds: Range<u64>,
    mib: u64,
    tear: Tear,
    options: &str,
    mut judge: impl FnMut(&Cut) -> Result<(), String>,
) {
    let (home, log) = new_pair(mib);
    let mut judged = 0;
    for seed in seeds {
        let start = (&home, Some(&log));
        let outcome = life_beside(seed, start, (mib * MIB, tear), options, None);
        let failure = &outcome.first_failure;
        assert!(failure.is_none(), "{failure:?} {}", outcome.replay);
        for (n, cut) in outcome.value.expect("cuts").iter().enumerate() {
            if let Err(why) = judge(cut) {
                panic!("seed {seed}, cut {n}, {tear:?}, {options:?}: {why}");
            }
            judged += 1;
        }
    }
    assert!(judged > 50, "only {judged} cuts");
    println!("{judged} cuts, {options}");
}

fn ours(seeds: Range<u64>, mib: u64, tear: Tear, options: &str) {
    let judge = |cut: &Cut| judge(cut, mib * MIB, tear, options);
    explore(seeds, mib, tear, options, judge);
}

#[test]
fn ordered() {
    ours(0..12, 16, Tear::Blocks, "scheme=jbd2");
    ours(12..16, 16, Tear::Blocks, "scheme=jbd2,discard");
}

/// As the command line mounts.
#[test]
fn commits_by_callers() {
    let options = "scheme=jbd2,small=64,commit-by=caller";
    ours(20..28, 16, Tear::Blocks, options);
}

#[test]
fn flushed_ahead() {
    ours(30..38, 16, Tear::Blocks, "scheme=flush-ahead");
}

#[test]
fn journaled_data() {
    ours(40..46, 16, Tear::Blocks, "scheme=jbd2,data=journal");
}

#[test]
fn reliable_homes() {
    ours(50..54, 16, Tear::Blocks, "scheme=jbd2,home=copy-reliable");
}

/// Sectors of cached writes in flight may be garbage; with one group the torn superblock has no backup.
#[test]
fn torn_sectors() {
    ours(60..66, 16, Tear::Sectors, "scheme=jbd2");
    ours(66..70, 144, Tear::Sectors, "scheme=jbd2");
}

/// By hand, e.g. `FROM=1000 SEEDS=200 OPTIONS=scheme=jbd2`.
#[test]
#[ignore = "as many seeds as asked for"]
fn many() {
    let number = |key| std::env::var(key).ok().and_then(|s| s.parse().ok());
    let from = number("FROM").unwrap_or(1000);
    let options = std::env::var("OPTIONS").unwrap_or_else(|_| "scheme=jbd2".into());
    let to = from + number("SEEDS").unwrap_or(100);
    ours(from..to, 16, Tear::Blocks, &options);
}

/// A process that died: what its devices hold for good, what they show, and what it had promised.
struct Dead {
    home: (Image, Image),
    log: (Image, Image),
    names: Names,
}

fn death(disks: &Disks, _: &mut Rng, names: Names) -> Dead {
    let both = |disk: &SpecDisk| (disk.snapshot_lost(), disk.visible());
    Dead {
        home: both(&disks.home),
        log: both(disks.log.as_ref().expect("an external journal")),
        names,
    }
}

/// A device with what a dead process has left in its cache.
fn left_behind((durable, visible): (Image, Image), caps: &Caps, seed: u64) -> Arc<SpecDisk> {
    let disk = SpecDisk::from_image(caps.clone(), durable.clone(), seed);
    let queue = Queue::new(disk.clone() as Arc<dyn BlockDevice>);
    for (n, bytes) in visible.blocks() {
        if durable.block(n) != bytes {
            let lba = BlockNo(n).lba();
            queue.write(lba, Class::Home, bytes).expect("cached");
        }
    }
    disk
}

/// As files of the host: no FUA, so that what is written before its flush is in the cache.
fn caps_of_files() -> Caps {
    Caps {
        fua: false,
        reliable_granule: None,
        ..caps(16 * MIB, Tear::Blocks)
    }
}

/// The process dies, the power stays: the next mount replays a log of which parts are in the cache of its device only, and is cut while
/// it writes home (L7). How many cuts were judged, and what the first violation was.
pub fn cuts_of_recoveries(seeds: Range<u64>, mutant: Option<Mutant>) -> (u64, u64, Option<String>) {
    let (home, log) = new_pair(16);
    let caps = caps_of_files();
    let (mut judged, mut reached) = (0, 0);
    for seed in seeds {
        let start = (&home, Some(&log));
        let outcome = life_taking(seed, start, &caps, "scheme=jbd2", None, death);
        for (n, dead) in outcome.value.expect("deaths").into_iter().enumerate() {
            let Dead { home, log, names } = dead;
            let caps = caps.clone();
            let config = SimConfig {
                mutant,
                quiet: true,
                ..SimConfig::random(seed)
            };
            let outcome = Sim::new(config).run(move || {
                let disks = Disks {
                    home: left_behind(home, &caps, seed),
                    log: Some(left_behind(log, &caps, !seed)),
                };
                let (mounting, busy) = (disks.clone(), Arc::new(Mutex::new(true)));
                let is_busy = busy.clone();
                let recovery = rt::spawn("recovery", move || {
                    let options = MountOptions::parse("scheme=jbd2").expect("options");
                    let fs = mounting.mount(options).expect("recovers");
                    *busy.lock() = false;
                    fs.unmount().expect("unmounts");
                });
                let mut cuts = Vec::new();
                let mut rng = Rng::named(seed, "cuts of a recovery");
                while *is_busy.lock() {
                    rt::sleep(Nanos(rng.below(700_000)));
                    cuts.push(disks.cut(&mut rng));
                }
                recovery.join().expect("no panic");
                cuts
            });
            reached += mutant.map_or(0, |m| outcome.reached.get(&m).copied().unwrap_or(0));
            for (content, log) in outcome.value.expect("cuts") {
                let names = names.clone();
                let cut = Cut {
                    content,
                    log,
                    names,
                };
                judged += 1;
                if let Err(why) = judge(&cut, 16 * MIB, Tear::Blocks, "scheme=jbd2") {
                    return (
                        judged,
                        reached,
                        Some(format!("seed {seed}, death {n}: {why}")),
                    );
                }
            }
        }
    }
    (judged, reached, None)
}

#[test]
fn recovery_of_what_is_in_the_cache_of_the_log() {
    let (judged, _, found) = cuts_of_recoveries(100..102, None);
    assert_eq!(found, None);
    assert!(judged > 100, "only {judged} cuts");
    println!("{judged} cuts of recoveries");
}
