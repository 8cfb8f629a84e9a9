//! Lives that follow each other on one ring: each begins with what a cut of the one before has
//! left, finds everything that was acknowledged, and changes it (resume-G1 to resume-G7).

use super::SCHEME;
use super::common::{disk, fsck, mount, volume};
use base::{BLOCK_BYTES, Ino, Rng, Time};
use blockdev::spec::Bound;
use blockdev::{Image, Trace};
use fscore::{FileSystem, RenameMode};
use rt::{Sim, SimConfig};
use std::collections::BTreeMap;
use testkit::Brief;
use varve_f2fs::F2fs;

const TASKS: u64 = 3;
const STEPS: u64 = 14;
/// Files of a task.
const FILES: usize = 2;
const LIVES: u64 = 6;
/// Pages of a file at most.
const PAGES: u64 = 5;

/// Something that happened to a file, in the order of its task.
#[derive(Clone, PartialEq, Debug)]
enum Event {
    /// A page was written with this byte.
    Wrote(u64, u8),
    /// It has this name, or is about to have it.
    Named(String),
    /// It is about to lose its name.
    Removed,
    /// All before it was acknowledged then.
    Synced(Time),
}

type Story = BTreeMap<Ino, Vec<Event>>;

/// A file as a mount finds it.
#[derive(Clone, Debug)]
struct Found {
    ino: Ino,
    name: String,
    pages: Vec<Vec<u8>>,
}

fn files(fs: &F2fs) -> Vec<Found> {
    let entries = fs.readdir(fs.root(), 0, 1000).expect("reads");
    let names = entries
        .into_iter()
        .filter(|entry| !entry.name.starts_with(b"."));
    let found = names.map(|entry| {
        let size = fs.getattr(entry.ino).expect("attributes").size;
        let page = |at: u64| {
            let mut page = vec![0; BLOCK_BYTES];
            let read = fs.read(entry.ino, at * BLOCK_BYTES as u64, &mut page);
            page.truncate(read.expect("reads"));
            page
        };
        Found {
            ino: entry.ino,
            name: String::from_utf8(entry.name).expect("ascii"),
            pages: (0..size.div_ceil(BLOCK_BYTES as u64)).map(page).collect(),
        }
    });
    found.collect()
}

/// Whether what was acknowledged before `at` is there.
fn judge(found: &[Found], story: &Story, at: Time) -> Result<(), String> {
    for (ino, events) in story {
        let acknowledged = |e: &Event| matches!(e, Event::Synced(then) if *then < at);
        let Some(synced) = events.iter().rposition(acknowledged) else {
            continue;
        };
        let Some(file) = found.iter().find(|file| file.ino == *ino) else {
            match events.contains(&Event::Removed) {
                true => continue,
                false => return Err(format!("inode {ino} is gone: {events:?}")),
            }
        };
        let named = |e: &Event| matches!(e, Event::Named(name) if *name == file.name);
        let last = events[..synced]
            .iter()
            .rposition(|e| matches!(e, Event::Named(_)));
        if !events[last.unwrap_or(0)..].iter().any(named) {
            return Err(format!("inode {ino} is called {}: {events:?}", file.name));
        }
        for page in 0..PAGES {
            let fill = |e: &Event| match e {
                Event::Wrote(of, fill) if *of == page => Some(*fill),
                _ => None,
            };
            let Some(last) = events[..synced].iter().rev().find_map(fill) else {
                continue;
            };
            let mut may = events[synced..].iter().filter_map(fill).chain([last]);
            let is = file.pages.get(page as usize);
            if !may.any(|fill| is.is_some_and(|is| **is == [fill; BLOCK_BYTES])) {
                let is = is.map(|is| (is.len(), is.first()));
                return Err(format!("inode {ino}, page {page} is {is:?}: {events:?}"));
            }
        }
    }
    Ok(())
}

/// What a file holds is what the next life begins with.
fn story_of(found: &[Found]) -> Story {
    let events = |file: &Found| {
        let mut events = vec![Event::Named(file.name.clone())];
        for (n, page) in (0..).zip(&file.pages) {
            // A page may be a hole in part where nobody has synced it.
            if page.len() == BLOCK_BYTES && page.iter().all(|b| *b == page[0]) {
                events.push(Event::Wrote(n, page[0]));
            }
        }
        events.push(Event::Synced(Time(0)));
        (file.ino, events)
    };
    found.iter().map(events).collect()
}

fn task(fs: &F2fs, mut mine: Vec<(Ino, String)>, seed: (u64, u64, u64), story: &rt::Mutex<Story>) {
    let (seed, life, n) = seed;
    let mut rng = Rng::named(seed, &format!("life {life}, task {n}"));
    let root = fs.root();
    let note = |ino: Ino, event| story.lock().entry(ino).or_default().push(event);
    for step in 0..STEPS {
        let new = format!("{life} {n} {step}");
        if mine.len() < FILES {
            let ino = fs.make(root, &new).expect("a file");
            // The number may have been another file's.
            story.lock().insert(ino, vec![Event::Named(new.clone())]);
            mine.push((ino, new));
            continue;
        }
        let which = rng.below(mine.len() as u64) as usize;
        let (ino, name) = mine[which].clone();
        match rng.below(8) {
            0..=2 => {
                let (page, fill) = (rng.below(PAGES), 1 + rng.below(255) as u8);
                note(ino, Event::Wrote(page, fill));
                let written = fs.write(ino, page * BLOCK_BYTES as u64, &[fill; BLOCK_BYTES]);
                written.expect("writes");
            }
            3 => {
                note(ino, Event::Named(new.clone()));
                let (from, to) = (name.as_bytes(), new.as_bytes());
                let moved = fs.rename(root, from, root, to, RenameMode::Replace);
                moved.expect("renames");
                mine[which].1 = new;
            }
            4 => {
                note(ino, Event::Removed);
                fs.unlink(root, name.as_bytes()).expect("unlinks");
                mine.remove(which);
            }
            5 | 6 => {
                fs.fsync(ino, false).expect("syncs");
                note(ino, Event::Synced(rt::now()));
            }
            _ => fs.fsync(root, false).expect("syncs"),
        }
    }
}

/// What a life has left for the next one.
struct Left {
    trace: Trace,
    story: Story,
    /// Epochs that its mount left in the ring.
    kept: u64,
    end: Image,
}

/// Mounts `image`, finds what `before` says of the time up to `cut`, and goes on.
fn life(
    image: Image,
    (before, cut): (Story, Time),
    seed: (u64, u64),
    more: &str,
    ring: u32,
) -> Left {
    let more = more.to_string();
    let outcome = Sim::new(SimConfig::random(seed.0 * 100 + seed.1)).run(move || {
        let (seed, life) = seed;
        let disk = disk(ring, image, seed);
        disk.record();
        let fs = mount(&disk, &more);
        let report = fs.journal_recovery();
        let kept = report.map_or(0, |report| report.kept);
        let found = files(&fs);
        judge(&found, &before, cut).unwrap_or_else(|e| panic!("life {life}: {e}"));
        let story = rt::Mutex::new(story_of(&found));
        rt::scope(|s| {
            for n in 0..TASKS {
                let (fs, story) = (&fs, &story);
                let mine = found.iter().skip(n as usize).step_by(TASKS as usize);
                let mine = mine.map(|file| (file.ino, file.name.clone())).collect();
                s.spawn(&format!("task {n}"), move || {
                    task(fs, mine, (seed, life, n), story)
                });
            }
        });
        let trace = disk.take_trace().expect("recorded");
        fs.check();
        fs.unmount().expect("unmounts");
        let story = std::mem::take(&mut *story.lock());
        let end = disk.visible();
        Left {
            trace,
            story,
            kept,
            end,
        }
    });
    if let Some(failure) = outcome.first_failure {
        panic!("seed {seed:?}, ring {ring}: {failure} {}", outcome.replay);
    }
    outcome.value.expect("no failure")
}

fn chain(seeds: std::ops::Range<u64>, more: &str, ring: u32) {
    let mut kept = 0;
    for seed in seeds.clone() {
        let mut rng = Rng::named(seed, "cuts");
        let (mut image, mut before) = (volume(ring), (Story::new(), Time(0)));
        for n in 0..LIVES {
            let left = life(image, before, (seed, n), more, ring);
            kept += u64::from(left.kept > 0);
            fsck(ring, &left.end);
            let points = left.trace.cut_points();
            let at = points[rng.below(points.len() as u64) as usize];
            let mut cursor = left.trace.cursor();
            cursor.seek(at);
            let choices = cursor.choices(&Bound::default());
            let choice = &choices[rng.below(choices.len() as u64) as usize];
            image = cursor.image(choice);
            before = (left.story, at);
        }
    }
    let lives = (seeds.end - seeds.start) * LIVES;
    if SCHEME == "scheme=f2fsj" {
        assert!(
            3 * kept > lives,
            "ring {ring}: {kept} of {lives} rings went on"
        );
    }
}

/// `VARVE_SEEDS`, or as many.
#[allow(clippy::disallowed_methods)]
fn seeds(usual: u64) -> u64 {
    let asked = std::env::var("VARVE_SEEDS").ok();
    asked.map_or(usual, |n| n.parse().expect("VARVE_SEEDS: a number"))
}

#[test]
fn lives_follow_each_other_on_one_ring() {
    chain(0..seeds(3), "mode=lfs", 256);
}

#[test]
fn lives_follow_each_other_with_writes_in_place() {
    chain(10_000..10_000 + seeds(3), "ipu_policy=1", 256);
}

#[test]
fn lives_follow_each_other_on_a_tiny_ring() {
    chain(20_000..20_000 + seeds(2), "ipu_policy=1", 16);
}

#[test]
#[ignore = "a minute: 24 chains of each kind"]
fn lives_follow_each_other_for_long() {
    chain(3..27, "mode=lfs", 256);
    chain(10_003..10_027, "ipu_policy=1", 256);
    chain(20_002..20_026, "ipu_policy=1", 16);
}
