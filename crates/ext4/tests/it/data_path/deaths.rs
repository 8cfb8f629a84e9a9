//! A process dies while the power stays on: the next mount replays a log of which parts are only in
//! the device's cache, and is cut while it writes home (journal-replay-P7).

use super::{Cut, Disks, MIB, Names, Tear, caps, judge, life_taking};
use base::{BlockNo, Mutant, Nanos, Rng};
use block::{BlockDevice, Caps, Class, Queue};
use blockdev::{Image, SpecDisk};
use fscore::FileSystem;
use rt::{Mutex, Outcome, Sim, SimConfig};
use std::ops::Range;
use std::sync::Arc;
use testkit::mutants::Seen;
use varve_ext4::MountOptions;

/// Size of the volumes, MiB.
const VOLUME_MIB: u64 = 16;

/// The state after a process died: what its devices hold durably, what reads of them show, and what
/// was promised.
struct Dead {
    home: (Image, Image),
    log: Option<(Image, Image)>,
    names: Names,
}

fn death(disks: &Disks, _: &mut Rng, names: Names) -> Dead {
    let both = |disk: &Arc<SpecDisk>| (disk.snapshot_lost(), disk.visible());
    Dead {
        home: both(&disks.home),
        log: disks.log.as_ref().map(both),
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

/// The promises of files of the host: they have no FUA, so what is written before its flush is in
/// the cache.
fn caps_of_files() -> Caps {
    Caps {
        fua: false,
        reliable_granule: None,
        ..caps(VOLUME_MIB * MIB, Tear::Blocks)
    }
}

/// Cuts the recovery after each death of these lives, and judges the cuts up to the first
/// violation.
pub fn cuts_of_recoveries(
    start: (&Image, Option<&Image>),
    options: &'static str,
    seeds: Range<u64>,
    mutant: Option<Mutant>,
) -> Seen {
    let caps = caps_of_files();
    let mut seen = Seen::default();
    for seed in seeds {
        let outcome = life_taking(seed, start, &caps, options, None, death);
        for (n, dead) in outcome.value.expect("deaths").into_iter().enumerate() {
            let names = dead.names.clone();
            let outcome = recovery(dead, &caps, options, (seed, mutant));
            seen.asked(mutant, &outcome);
            for (content, log) in outcome.value.expect("cuts") {
                let names = names.clone();
                let cut = Cut {
                    content,
                    log,
                    names,
                };
                seen.cuts += 1;
                if let Err(why) = judge(&cut, VOLUME_MIB * MIB, Tear::Blocks, options) {
                    seen.found = Some(format!("seed {seed}, death {n}: {why}"));
                    return seen;
                }
            }
        }
    }
    seen
}

/// Runs the mount after a death, and cuts it again and again until it is done.
fn recovery(
    dead: Dead,
    caps: &Caps,
    options: &'static str,
    (seed, mutant): (u64, Option<Mutant>),
) -> Outcome<Vec<(Image, Option<Image>)>> {
    let caps = caps.clone();
    let config = SimConfig {
        mutant,
        quiet: true,
        ..SimConfig::random(seed)
    };
    Sim::new(config).run(move || {
        let disks = Disks {
            home: left_behind(dead.home, &caps, seed),
            log: dead.log.map(|log| left_behind(log, &caps, !seed)),
        };
        let (mounting, busy) = (disks.clone(), Arc::new(Mutex::new(true)));
        let is_busy = busy.clone();
        let recovery = rt::spawn("recovery", move || {
            let options = MountOptions::parse(options).expect("options");
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
    })
}
