//! Four tasks write, rename, and sync, under schedules that look for trouble. After a cut the
//! volume is mounted again, and must have what was acknowledged: f2fs-journal-I1, f2fs-journal-I7,
//! and on a small ring f2fs-journal-I8.

use super::common::{disk, mount, volume};
use base::{BLOCK_BYTES, Ino, Rng, Time};
use blockdev::spec::Bound;
use blockdev::{Image, Trace};
use fscore::{FileSystem, RenameMode};
use rt::{Policy, Sim, SimConfig};
use std::collections::BTreeMap;
use testkit::Brief;

const TASKS: u64 = 4;
const STEPS: u64 = 24;
const FILES: usize = 2;

/// Something that happened to a file, in the order of its task.
#[derive(Clone, PartialEq, Debug)]
enum Event {
    /// Page `0` was written with this byte.
    Wrote(u8),
    /// It has this name, or is about to have it.
    Named(String),
    /// All before it was acknowledged then.
    Synced(Time),
}

type Story = BTreeMap<Ino, Vec<Event>>;

fn task(fs: &varve_f2fs::F2fs, dirs: [Ino; 2], n: u64, seed: u64, story: &rt::Mutex<Story>) {
    let mut rng = Rng::named(seed, &format!("task {n}"));
    let mut files: Vec<(Ino, usize, String, u8)> = Vec::new();
    let note = |ino: Ino, event| story.lock().entry(ino).or_default().push(event);
    for step in 0..STEPS {
        if files.len() < FILES {
            let (at, name) = (rng.below(2) as usize, format!("{n} {step}"));
            let ino = fs.make(dirs[at], &name).expect("a file");
            note(ino, Event::Named(name.clone()));
            files.push((ino, at, name, 0));
            continue;
        }
        let which = rng.below(FILES as u64) as usize;
        let (ino, at, name, pages) = &mut files[which];
        match rng.below(6) {
            0 | 1 => {
                let fill = (n * 64 + step + 1) as u8;
                note(*ino, Event::Wrote(fill));
                let offset = u64::from(*pages) * BLOCK_BYTES as u64;
                fs.write(*ino, offset, &[fill; BLOCK_BYTES])
                    .expect("writes");
                *pages += 1;
            }
            2 | 3 => {
                let (to, new) = (rng.below(2) as usize, format!("{n} {step}"));
                note(*ino, Event::Named(new.clone()));
                let (from, into) = (dirs[*at], dirs[to]);
                fs.rename(
                    from,
                    name.as_bytes(),
                    into,
                    new.as_bytes(),
                    RenameMode::Replace,
                )
                .expect("renames");
                (*at, *name) = (to, new);
            }
            4 => {
                fs.fsync(*ino, false).expect("syncs");
                note(*ino, Event::Synced(rt::now()));
            }
            _ => {
                fs.fsync(dirs[*at], false).expect("syncs");
            }
        }
    }
}

fn life(seed: u64, policy: Policy, ring: u32) -> (Trace, Story) {
    let config = SimConfig {
        policy,
        ..SimConfig::random(seed)
    };
    let outcome = Sim::new(config).run(move || {
        let disk = disk(ring, volume(ring), seed);
        let fs = mount(&disk, "mode=lfs");
        let dirs = [b"a", b"b"].map(|name| fs.dir(name));
        fs.sync().expect("syncs");
        while disk.open_writes() > 0 {
            rt::sleep(base::Nanos::from_millis(1));
        }
        disk.record();
        let story = rt::Mutex::new(Story::new());
        rt::scope(|s| {
            for n in 0..TASKS {
                let (fs, story) = (&fs, &story);
                s.spawn(&format!("task {n}"), move || task(fs, dirs, n, seed, story));
            }
        });
        let trace = disk.take_trace().expect("recorded");
        fs.unmount().expect("unmounts");
        let story = std::mem::take(&mut *story.lock());
        (trace, story)
    });
    if let Some(failure) = outcome.first_failure {
        panic!("seed {seed}, ring {ring}: {failure} {}", outcome.replay);
    }
    outcome.value.expect("no failure")
}

/// What a mount of `left` finds, against what had been acknowledged before `at`.
fn judge(ring: u32, left: Image, story: &Story, at: Time) -> Result<(), String> {
    let story = story.clone();
    let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
        let fs = mount(&disk(ring, left, 1), "mode=lfs");
        let mut names = BTreeMap::new();
        for dir in [b"a", b"b"] {
            let dir = fs.find(dir);
            for entry in fs.readdir(dir, 0, 1000).expect("reads") {
                names.insert(entry.ino, String::from_utf8(entry.name).expect("ascii"));
            }
        }
        let mut wrong = Ok(());
        for (ino, events) in &story {
            let acknowledged = |e: &Event| matches!(e, Event::Synced(then) if *then < at);
            let Some(synced) = events.iter().rposition(acknowledged) else {
                continue;
            };
            let named = |e: &Event| match e {
                Event::Named(name) => Some(name.clone()),
                _ => None,
            };
            let last = events[..synced].iter().rev().find_map(named);
            let mut may = events[synced..].iter().filter_map(named).chain(last);
            let found = names.get(ino);
            if !found.is_some_and(|found| may.any(|name| name == *found)) {
                wrong = Err(format!(
                    "f2fs-journal-I7: inode {ino} is called {found:?}: {events:?}"
                ));
                break;
            }
            let fills = events[..synced].iter().filter_map(|e| match e {
                Event::Wrote(fill) => Some(*fill),
                _ => None,
            });
            for (page, fill) in fills.enumerate() {
                let mut bytes = vec![0; BLOCK_BYTES];
                let read = fs.read(*ino, (page * BLOCK_BYTES) as u64, &mut bytes);
                if read.as_ref().ok() != Some(&BLOCK_BYTES) || bytes.iter().any(|&b| b != fill) {
                    wrong = Err(format!(
                        "f2fs-journal-I1, f2fs-journal-I7: inode {ino}, page {page}: {read:?}"
                    ));
                }
            }
        }
        fs.unmount().expect("unmounts");
        wrong
    });
    match outcome.first_failure {
        Some(failure) => Err(format!("{failure}")),
        None => outcome.value.expect("no failure"),
    }
}

fn attack(seeds: std::ops::Range<u64>, ring: u32) {
    let mut states = 0;
    for seed in seeds {
        let policy = match seed % 2 {
            0 => Policy::Pct {
                depth: 3,
                points: 20_000,
            },
            _ => SimConfig::random(seed).policy,
        };
        let (trace, story) = life(seed, policy, ring);
        let mut cursor = trace.cursor();
        let mut rng = Rng::named(seed, "cuts");
        let points = trace.cut_points();
        let each = (points.len() / 12).max(1);
        for at in points.iter().skip(seed as usize % each).step_by(each) {
            cursor.seek(*at);
            let choices = cursor.choices(&Bound::default());
            let choice = &choices[rng.below(choices.len() as u64) as usize];
            let judged = judge(ring, cursor.image(choice), &story, *at);
            assert_eq!(judged, Ok(()), "seed {seed}, ring {ring}, cut at {at:?}");
            states += 1;
        }
    }
    assert!(states > 50, "ring {ring}: {states} cuts");
}

#[test]
fn what_was_acknowledged_survives_any_cut() {
    attack(0..8, 1024);
}

#[test]
fn what_was_acknowledged_survives_any_cut_on_a_tiny_ring() {
    attack(100..108, 16);
}
