//! Epochs that are larger than the whole ring: many operations of the greatest size have passed the
//! size check before the first one ends.

use super::common::{disk, mount, volume};
use base::{BLOCK_BYTES, Ino, Nanos, Rng, Time};
use blockdev::spec::Bound;
use blockdev::{Image, Trace};
use fscore::{FileSystem, XattrMode};
use rt::{Sim, SimConfig};
use std::collections::BTreeMap;
use testkit::Brief;
use varve_f2fs::F2fs;

const TASKS: usize = 32;
/// The smallest there is.
const RING: u32 = 16;
/// Pages of a file, with a hole behind each, so that each is a record of its own.
const PAGES: u64 = 64;
/// An attribute of each file, of this many bytes, set in rounds 1 and 2: all of it is logged.
const ATTRIBUTE: usize = 3500;
/// All pages are written in rounds 1 and 2; in round 3 one.
const ROUNDS: u8 = 3;

/// When which round of a file was acknowledged.
type Story = BTreeMap<(Ino, u8), Time>;

struct Life {
    trace: Trace,
    story: Story,
    /// When round 1 began.
    begun: Time,
    by_pack: u64,
    in_ring: u64,
}

fn pages_of(round: u8) -> u64 {
    if round < ROUNDS { PAGES } else { 1 }
}

fn write_round(fs: &F2fs, ino: Ino, round: u8) {
    for page in 0..pages_of(round) {
        let at = page * 2 * BLOCK_BYTES as u64;
        fs.write(ino, at, &[round; BLOCK_BYTES]).expect("writes");
    }
}

fn live(seed: u64) -> Life {
    let outcome = Sim::new(SimConfig::random(seed)).run(move || {
        let disk = disk(RING, volume(RING), seed);
        // Commits in one round are too fast for an epoch to grow so large.
        let fs = mount(&disk, "mode=lfs,rounds=2");
        let files: Vec<Ino> = (0..TASKS)
            .map(|n| {
                let name = format!("{n}");
                fs.file(name)
            })
            .collect();
        fs.sync().expect("syncs");
        while disk.open_writes() > 0 {
            rt::sleep(Nanos::from_millis(1));
        }
        disk.record();
        let begun = rt::now();
        let story = rt::Mutex::new(Story::new());
        for round in 1..=ROUNDS {
            for &ino in &files {
                write_round(&fs, ino, round);
            }
            rt::scope(|s| {
                for &ino in &files {
                    let (fs, story) = (&fs, &story);
                    s.spawn(&format!("task of {ino}"), move || {
                        if round < ROUNDS {
                            fs.setxattr(ino, b"user.x", &[round; ATTRIBUTE], XattrMode::Any)
                                .expect("set");
                        }
                        fs.fsync(ino, false).expect("syncs");
                        story.lock().insert((ino, round), rt::now());
                    });
                }
            });
        }
        let trace = disk.take_trace().expect("recorded");
        let stats = fs.journal_stats().expect("a journal");
        fs.write_home_now().expect("applies");
        fs.check_home();
        fs.unmount().expect("unmounts");
        Life {
            trace,
            story: std::mem::take(&mut *story.lock()),
            begun,
            by_pack: stats.by_pack,
            in_ring: stats.commits() - stats.by_pack,
        }
    });
    if let Some(failure) = outcome.first_failure {
        panic!("seed {seed}: {failure} {}", outcome.replay);
    }
    outcome.value.expect("no failure")
}

/// What a mount of `left` finds, against what had been acknowledged before `at`.
fn judge(left: Image, story: &Story, at: Time) -> Result<(), String> {
    let story = story.clone();
    let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
        let fs = mount(&disk(RING, left, 1), "mode=lfs");
        let mut wrong = Ok(());
        for n in 0..TASKS {
            let ino = fs.lookup(fs.root(), format!("{n}").as_bytes());
            let ino = ino.expect("synced before");
            let acknowledged = |round: u8| story.get(&(ino, round)).is_some_and(|t| *t < at);
            let least = (1..ROUNDS).filter(|r| acknowledged(*r)).max().unwrap_or(0);
            let value = fs.getxattr(ino, b"user.x").unwrap_or_default();
            let first = value.first().copied().unwrap_or(0);
            if first < least || value.iter().any(|b| *b != first) {
                wrong = Err(format!(
                    "f2fs-journal-I7: inode {ino}: attribute of round {first}, and {least} was acknowledged"
                ));
            }
            let mut all = vec![0; 2 * PAGES as usize * BLOCK_BYTES];
            fs.read(ino, 0, &mut all).expect("reads");
            for page in 0..PAGES {
                let covers = |round: &u8| page < pages_of(*round) && acknowledged(*round);
                let least = (1..=ROUNDS).filter(covers).max().unwrap_or(0);
                let most = if page == 0 { ROUNDS } else { ROUNDS - 1 };
                let from = page as usize * 2 * BLOCK_BYTES;
                let (bytes, hole) = all[from..from + 2 * BLOCK_BYTES].split_at(BLOCK_BYTES);
                let whole = bytes.iter().all(|b| *b == bytes[0]) && hole.iter().all(|b| *b == 0);
                if !whole || !(least..=most).contains(&bytes[0]) {
                    let found = bytes[0];
                    wrong = Err(format!(
                        "f2fs-journal-I1, f2fs-journal-I7: inode {ino}, page {page}: {found}, whole {whole}, and {least} was acknowledged"
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

#[test]
fn an_epoch_larger_than_the_ring_is_committed_by_a_pack() {
    let mut states = 0;
    for seed in 0..3 {
        let life = live(seed);
        assert!(life.by_pack > 0, "seed {seed}: every epoch fits the ring");
        assert!(life.in_ring > 0, "seed {seed}: none does");
        let mut cursor = life.trace.cursor();
        let mut rng = Rng::named(seed, "cuts");
        let points = life.trace.cut_points();
        let points: Vec<Time> = points
            .iter()
            .copied()
            .filter(|t| *t >= life.begun)
            .collect();
        let mut cuts: Vec<Time> = (0..20)
            .map(|_| points[rng.below(points.len() as u64) as usize])
            .collect();
        cuts.sort_unstable();
        for at in cuts {
            states += 1;
            cursor.seek(at);
            let choices = cursor.choices(&Bound::default());
            let choice = &choices[rng.below(choices.len() as u64) as usize];
            let judged = judge(cursor.image(choice), &life.story, at);
            assert_eq!(judged, Ok(()), "seed {seed}, cut at {at:?}");
        }
    }
    assert_eq!(states, 60);
}
