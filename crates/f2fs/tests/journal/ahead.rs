//! Tasks that make files in one directory and sync them, so that an epoch is committed while the next one changes the same blocks; what cuts
//! leave has whole operations of whole epochs. Shared with the catalogue of mutants.
#![allow(dead_code, clippy::disallowed_methods)]

use super::common::{Mistake, disk, try_mount, volume};
use super::cuts::create;
use base::Nanos;
use blockdev::Image;
use fscore::FileSystem;
use rt::{Sim, SimConfig};

const RING: u32 = 256;
const TASKS: u64 = 3;
const ROUNDS: u64 = 8;

fn name(task: u64, round: u64) -> String {
    format!("file {round} of task {task}")
}

/// What a cut at some moments of a life leaves.
fn pictures(seed: u64, options: &str, mistake: &Mistake) -> Result<Vec<Image>, String> {
    let options = format!("jlow=5,{options}");
    let config = SimConfig {
        // Schedules decide here, not who is faster.
        cpu_percent: 0,
        ..SimConfig::random(seed)
    };
    let life = mistake.within(config).run(move || {
        let disk = disk(RING, volume(RING), seed);
        let fs = try_mount(&disk, &options).expect("mounts");
        let mut pictures = Vec::new();
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let fs = fs.clone();
                rt::spawn(&format!("task {task}"), move || {
                    for round in 0..ROUNDS {
                        let ino = create(&fs, &name(task, round));
                        fs.fsync(ino, false).expect("syncs");
                    }
                })
            })
            .collect();
        while tasks.iter().any(|task| !task.is_finished()) {
            pictures.push(disk.snapshot_lost());
            rt::sleep(Nanos(20_000));
        }
        tasks.into_iter().for_each(|t| t.join().expect("no panic"));
        pictures.push(disk.snapshot_lost());
        fs.unmount().expect("unmounts");
        pictures
    });
    mistake.asked(&life);
    match life.first_failure {
        Some(failure) => Err(format!("seed {seed}: {failure}")),
        None => Ok(life.value.expect("no failure")),
    }
}

/// Every name that is there leads to a file.
fn judge(seed: u64, options: &str, left: Image) -> Result<u64, String> {
    let options = options.to_string();
    let life = Sim::new(SimConfig::seeded(seed)).run(move || {
        let fs = try_mount(&disk(RING, left, seed), &options).map_err(|e| e.to_string())?;
        let mut there = 0;
        for (task, round) in (0..TASKS).flat_map(|t| (0..ROUNDS).map(move |r| (t, r))) {
            let name = name(task, round);
            let Ok(ino) = fs.lookup(fs.root(), name.as_bytes()) else {
                continue;
            };
            there += 1;
            fs.getattr(ino)
                .map_err(|e| format!("I7: {name:?} leads to inode {ino}: {e}"))?;
        }
        fs.unmount().map_err(|e| e.to_string())?;
        Ok(there)
    });
    match life.first_failure {
        Some(failure) => Err(failure.to_string()),
        None => life.value.expect("no failure"),
    }
}

/// Answers the number of pictures.
pub fn cuts_between_tasks(seed: u64, options: &str, mistake: &Mistake) -> Result<usize, String> {
    let pictures = pictures(seed, options, mistake)?;
    let (mut seen, all) = (0, pictures.len());
    for (n, left) in pictures.into_iter().enumerate() {
        let there = judge(seed, options, left).map_err(|e| format!("picture {n}: {e}"))?;
        if there < seen {
            return Err(format!("I7: {there} files in picture {n}, {seen} before"));
        }
        seen = there;
    }
    match seen == TASKS * ROUNDS {
        true => Ok(all),
        false => Err(format!("I7: {seen} files at the end")),
    }
}

#[test]
fn what_one_task_syncs_has_no_half_of_what_another_does() {
    for (seed, options) in [(1, ""), (2, "switch=open"), (3, "records=pages")] {
        let cuts = cuts_between_tasks(seed, options, &Mistake::default());
        assert!(cuts.as_ref().is_ok_and(|n| *n > 10), "{cuts:?}");
    }
}
