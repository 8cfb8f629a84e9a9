//! A journal with `home=remap` whose device fails.

use super::*;
use crate::Preset;
use base::Nanos;
use block::{Caps, RemapCaps};
use blockdev::SpecDisk;
use rt::{Sim, SimConfig};

/// One pair a command, so that a list is cut into many.
fn remapping(blocks: u64) -> Caps {
    Caps {
        remap: Some(RemapCaps {
            granule: 4096,
            pairs_max: 1,
        }),
        ..CrashDisk::new(blocks, BTreeMap::new()).caps()
    }
}

/// True if a checkpoint has met the end of the device in the REMAPs that it sends in place of the
/// commit task: then the journal is aborted, as after any other home write that fails. Otherwise
/// the rest of its list would count as under way for ever, and a commit that frees one of these
/// blocks would wait for it.
fn a_checkpoint_fails(seed: u64) -> bool {
    let outcome = Sim::new(SimConfig::seeded(seed)).run(move || {
        let content: blockdev::Image = BTreeMap::from([(1, empty_log(32))]).into_iter().collect();
        let disk = SpecDisk::from_image(remapping(60), content, seed);
        let queue = Queue::new(disk.clone() as Arc<dyn BlockDevice>);
        let rig = Rig {
            log_queue: queue.clone(),
            queue,
            disk: Arc::new(CrashDisk::new(60, BTreeMap::new())),
            place: place(60, 32),
        };
        let options = Options {
            scheme: Preset::Jftl.scheme(),
            ..quiet()
        };
        let journal = rig.start(options);
        let checkpoints: Vec<_> = (0..3)
            .map(|_| {
                let journal = journal.clone();
                rt::spawn("checkpoint", move || {
                    while journal.checkpoint_all().is_ok() {
                        rt::sleep(Nanos::from_micros(1));
                    }
                    // Asked before another task can fail.
                    journal.aborted()
                })
            })
            .collect();
        let cut = {
            let disk = disk.clone();
            rt::spawn("cut", move || {
                rt::sleep(Nanos::from_micros(5_000 + 97 * seed));
                disk.power_off(seed);
            })
        };
        let first = rig.first();
        while let Ok(mut handle) = journal.start(4) {
            let created = (0..4).try_for_each(|n| handle.create(first.plus(n), filled(7)));
            let done = created.and(handle.finish());
            if done.and_then(|tid| journal.commit(tid)).is_err() {
                break;
            }
        }
        cut.join().expect("no panic");
        let whys = checkpoints.into_iter().map(|c| c.join().expect("no panic"));
        let whys: Vec<Option<String>> = whys.collect();
        let whys: Option<Vec<String>> = whys.into_iter().collect();
        let whys = whys
            .unwrap_or_else(|| panic!("seed {seed}: a checkpoint has failed, the journal goes on"));
        let failed = whys[0].contains("REMAP");
        crash(&journal);
        failed
    });
    outcome.unwrap()
}

#[test]
fn a_device_that_goes_away_in_a_checkpoint_aborts_the_journal() {
    let failed = (0..16).filter(|seed| a_checkpoint_fails(*seed)).count();
    assert!(failed > 0, "no checkpoint came before the commit task");
}
