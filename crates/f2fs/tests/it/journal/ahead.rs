//! Tasks that make files in one directory and sync them, so that an epoch is committed while the
//! next one changes the same blocks; after a cut there are whole operations of whole epochs. Also
//! used by the catalogue of mutants.
#![allow(dead_code, clippy::disallowed_methods)]

use super::common::{Mistake, disk, try_mount, volume};
use base::Nanos;
use blockdev::Image;
use fscore::{Errno, FileSystem};
use rt::{Sim, SimConfig};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use testkit::Brief;
use varve_f2fs::F2fs;

const RING: u32 = 256;
const TASKS: u64 = 3;
const ROUNDS: u64 = 8;
/// The task that makes names all the time and syncs nothing: whatever an epoch waits for, the next
/// one changes the directory meanwhile.
const RESTLESS: u64 = TASKS;

fn name(task: u64, round: u64) -> String {
    format!("file {round} of task {task}")
}

/// What a cut at some moments of a life leaves, and how many names the restless task made.
fn pictures(seed: u64, options: &str, mistake: &Mistake) -> Result<(Vec<Image>, u64), String> {
    let options = format!("jlow=5,{options}");
    let config = SimConfig {
        // Schedules decide here, not which task is faster.
        cpu_percent: 0,
        ..SimConfig::random(seed)
    };
    let life = mistake.within(config).run(move || {
        let disk = disk(RING, volume(RING), seed);
        let fs = try_mount(&disk, &options).expect("mounts");
        let stop = Arc::new(AtomicBool::new(false));
        let mut pictures = Vec::new();
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let fs = fs.clone();
                rt::spawn(&format!("task {task}"), move || {
                    for round in 0..ROUNDS {
                        let ino = fs.file(name(task, round));
                        // An epoch waits for its data while the next one is open.
                        fs.write(ino, 0, &[1; 4096]).expect("writes");
                        fs.fsync(ino, false).expect("syncs");
                    }
                })
            })
            .collect();
        let restless = {
            let (fs, stop) = (fs.clone(), stop.clone());
            rt::spawn("restless", move || {
                let mut round = 0;
                while !stop.load(Relaxed) {
                    fs.file(name(RESTLESS, round));
                    round += 1;
                    rt::sleep(Nanos(50_000));
                }
                round
            })
        };
        while tasks.iter().any(|task| !task.is_finished()) {
            pictures.push(disk.snapshot_lost());
            rt::sleep(Nanos(20_000));
        }
        tasks.into_iter().for_each(|t| t.join().expect("no panic"));
        stop.store(true, Relaxed);
        let made = restless.join().expect("no panic");
        pictures.push(disk.snapshot_lost());
        fs.unmount().expect("unmounts");
        (pictures, made)
    });
    mistake.asked(&life);
    match life.first_failure {
        Some(failure) => Err(format!("seed {seed}: {failure}")),
        None => Ok(life.value.expect("no failure")),
    }
}

/// Every name that is there leads to a file. Answers how many files that are synced are there.
fn there(fs: &F2fs, restless: u64) -> Result<u64, String> {
    let mut there = 0;
    let synced = (0..TASKS).flat_map(|t| (0..ROUNDS).map(move |r| (t, r)));
    let unsynced = (0..restless).map(|r| (RESTLESS, r));
    for (task, round) in synced.chain(unsynced) {
        let name = name(task, round);
        let ino = match fs.lookup(fs.root(), name.as_bytes()) {
            Ok(ino) => ino,
            Err(e) if e.errno() == Errno::NoEnt => continue,
            Err(e) => return Err(format!("f2fs-journal-I7: {name:?}: {e}")),
        };
        there += u64::from(task != RESTLESS);
        fs.getattr(ino)
            .map_err(|e| format!("f2fs-journal-I7: {name:?} leads to inode {ino}: {e}"))?;
    }
    Ok(there)
}

/// Judges what a cut leaves.
fn judge(seed: u64, options: &str, left: Image, restless: u64) -> Result<u64, String> {
    let options = options.to_string();
    let life = Sim::new(SimConfig::seeded(seed)).run(move || {
        let fs = try_mount(&disk(RING, left, seed), &options).map_err(|e| e.to_string())?;
        let there = there(&fs, restless);
        let unmounted = fs.unmount().map_err(|e| e.to_string());
        there.and_then(|there| unmounted.map(|()| there))
    });
    match life.first_failure {
        Some(failure) => Err(failure.to_string()),
        None => life.value.expect("no failure"),
    }
}

/// Answers the number of pictures.
pub fn cuts_between_tasks(seed: u64, options: &str, mistake: &Mistake) -> Result<usize, String> {
    let (pictures, restless) = pictures(seed, options, mistake)?;
    let (mut seen, all) = (0, pictures.len());
    for (n, left) in pictures.into_iter().enumerate() {
        let there =
            judge(seed, options, left, restless).map_err(|e| format!("picture {n}: {e}"))?;
        if there < seen {
            return Err(format!(
                "f2fs-journal-I7: {there} files in picture {n}, {seen} before"
            ));
        }
        seen = there;
    }
    match seen == TASKS * ROUNDS {
        true => Ok(all),
        false => Err(format!("f2fs-journal-I7: {seen} files at the end")),
    }
}

#[test]
fn what_one_task_syncs_has_no_half_of_what_another_does() {
    for (seed, options) in [(1, ""), (2, "switch=open"), (3, "records=pages")] {
        let cuts = cuts_between_tasks(seed, options, &Mistake::default());
        assert!(cuts.as_ref().is_ok_and(|n| *n > 10), "{cuts:?}");
    }
}
