//! Lives whose files are appended to, written over and synced, mounted after every cut: each file
//! is as a sync left it, or a later one, and an epoch is there as a whole. Used by tests and by the
//! catalogue of mutants.
#![allow(dead_code, clippy::disallowed_methods)]

use super::common::{Mistake, caps, disk, mount, volume};
use super::cuts::RING;
use base::{BLOCK_BYTES, Ino, Mutant, Nanos, Time};
use blockdev::spec::Bound;
use blockdev::{Caps, Image, PackOrder, Packed, SpecDisk, Trace};
use fscore::FileSystem;
use rt::SimConfig;
use std::collections::BTreeMap;
use testkit::Brief;
use varve_f2fs::F2fs;

/// Tasks, each with a file of its own.
const TASKS: usize = 2;
/// Steps of each.
const STEPS: usize = 9;

/// A sync of one task: the step before it is in its file.
#[derive(Clone, Copy)]
struct Step {
    task: usize,
    /// Steps that its file holds then.
    steps: usize,
    begun: Time,
    done: Time,
}

/// A recorded life.
pub struct Life {
    trace: Trace,
    steps: Vec<Step>,
}

/// Pages of the file of a task after so many steps. A step adds a page, or writes over the last
/// one.
fn pages(task: usize, steps: usize) -> Vec<u8> {
    let mut pages = Vec::new();
    for step in 0..steps {
        if pages.is_empty() || step.is_multiple_of(3) {
            pages.push(0);
        }
        *pages.last_mut().expect("just made") = (task * 100 + step + 1) as u8;
    }
    pages
}

fn name(task: usize) -> String {
    format!("f{task}")
}

/// A file that a step makes beside, in the same epoch or an earlier one.
fn beside(task: usize, step: usize) -> String {
    format!("n{task} {step}")
}

fn step(fs: &F2fs, task: usize, ino: Ino, step: usize) -> Step {
    let begun = rt::now();
    let after = pages(task, step + 1);
    let page = after.len() - 1;
    let at = (page * BLOCK_BYTES) as u64;
    fs.write(ino, at, &[after[page]; BLOCK_BYTES])
        .expect("writes");
    let new = fs.file(beside(task, step));
    if step.is_multiple_of(2) {
        fs.write(new, 0, &[after[page]; 2 * BLOCK_BYTES])
            .expect("writes");
        fs.fsync(new, false).expect("syncs");
    }
    fs.fsync(ino, step % 3 == 1).expect("syncs");
    Step {
        task,
        steps: step + 1,
        begun,
        done: rt::now(),
    }
}

/// What a device promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Device {
    /// FUA, blocks of 4 KiB that are old or new.
    Blocks,
    /// FUA, sectors of 512 bytes that are old or new.
    Sectors,
    /// FUA, blocks of 4 KiB, anything in those that were being written.
    Garbage,
    /// Packs of non-volatile writes, of which a cut leaves a prefix, or any subset; anything in
    /// sectors that were being written.
    Packs(PackOrder),
    /// No FUA: a commit is one round with a flush (f2fs-commit-K9) where it is one group
    /// (f2fs-commit-K11) on the others.
    Flushes,
}

/// Those on which a commit is one group.
pub const GROUPING: [Device; 5] = [
    Device::Blocks,
    Device::Sectors,
    Device::Garbage,
    Device::Packs(PackOrder::Prefix),
    Device::Packs(PackOrder::AnySubset),
];

impl Device {
    /// A page that is written in place is old or new after a cut only where a block is: on other
    /// devices all pages get new blocks.
    fn options(self) -> &'static str {
        match self {
            Device::Blocks | Device::Flushes => "ipu_policy=1",
            Device::Sectors | Device::Garbage | Device::Packs(_) => "mode=lfs",
        }
    }

    fn caps(self) -> Caps {
        let caps = caps(RING);
        let of = |sector: u32, whole: bool| Caps {
            sector_bytes: sector,
            reliable_granule: Some(sector),
            tear_granule: whole.then_some(sector),
            atomic_write_bytes: 0,
            ..caps.clone()
        };
        match self {
            Device::Blocks => caps,
            Device::Sectors => of(512, true),
            Device::Garbage => of(4096, false),
            Device::Packs(order) => Caps {
                packed: Some(Packed {
                    order,
                    writes_max: 63,
                }),
                ..of(512, false)
            },
            Device::Flushes => Caps { fua: false, ..caps },
        }
    }
}

/// Lives it.
///
/// # Panics
/// If it fails.
pub fn follow(seed: u64, options: &str, device: Device, mistake: &Mistake) -> Life {
    let outcome = mistake.within(SimConfig::random(seed)).run(|| {
        let disk = SpecDisk::from_image(device.caps(), volume(RING), seed);
        let fs = mount(&disk, &format!("rounds=1,{options}"));
        let files: Vec<Ino> = (0..TASKS).map(|task| fs.file(name(task))).collect();
        fs.sync().expect("syncs");
        while disk.open_writes() > 0 {
            rt::sleep(Nanos::from_millis(1));
        }
        disk.record();
        let steps = rt::Mutex::new(Vec::new());
        rt::scope(|s| {
            for (task, &ino) in files.iter().enumerate() {
                let (fs, steps) = (&fs, &steps);
                s.spawn(&format!("task {task}"), move || {
                    for n in 0..STEPS {
                        let done = step(fs, task, ino, n);
                        steps.lock().push(done);
                    }
                });
            }
        });
        rt::sleep(Nanos::from_millis(5));
        let trace = disk.take_trace().expect("recorded");
        fs.unmount().expect("unmounts");
        let steps = std::mem::take(&mut *steps.lock());
        (trace, steps)
    });
    if let Some(failure) = outcome.first_failure {
        panic!("seed {seed}: {failure} {}", outcome.replay);
    }
    mistake.asked(&outcome);
    let (trace, steps) = outcome.value.expect("no failure");
    Life { trace, steps }
}

/// What a mount finds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The case of the ring.
    pub case: char,
    /// Each file of the root with its bytes.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// Each file of the root with its bytes.
///
/// # Panics
/// If one cannot be read.
pub fn files(fs: &F2fs) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let names = (0..TASKS).map(name);
    let beside = (0..TASKS).flat_map(|t| (0..STEPS).map(move |s| beside(t, s)));
    for name in names.chain(beside) {
        let ino = match fs.lookup(fs.root(), name.as_bytes()) {
            Ok(ino) => ino,
            Err(e) if e.errno() == fscore::Errno::NoEnt => continue,
            Err(e) => panic!("{name}: {e}"),
        };
        let size = fs
            .getattr(ino)
            .unwrap_or_else(|e| panic!("{name}: {e}"))
            .size;
        let mut bytes = vec![0; size as usize];
        let read = fs.read(ino, 0, &mut bytes);
        let read = read.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(read, bytes.len(), "{name}");
        found.insert(name, bytes);
    }
    found
}

/// Mounts what a cut left.
///
/// # Errors
/// What the mount says, or the check of what it finds.
pub fn mounted(image: &Image, mistake: &Mistake) -> Result<Found, String> {
    let outcome = mistake.within(SimConfig::seeded(1)).run(|| {
        let disk = disk(RING, image.clone(), 1);
        let fs = mount(&disk, "");
        fs.check();
        let report = fs.journal_recovery().expect("a journal").clone();
        assert!(!report.miscounted, "counts of the volume: {report:?}");
        let files = files(&fs);
        fs.unmount().expect("unmounts");
        let case = report.case;
        Found { case, files }
    });
    mistake.asked(&outcome);
    match outcome.first_failure {
        Some(failure) => Err(failure.to_string()),
        None => Ok(outcome.value.expect("no failure")),
    }
}

/// Calls `each` with some of the states of some of the cuts, until it answers false.
fn each_state(life: &Life, most: usize, mut each: impl FnMut(Time, Image) -> bool) {
    let changes: Vec<Time> = life.steps.iter().map(|s| s.done).collect();
    let points: Vec<Time> = life.trace.maximal_cut_points(&changes);
    let stride = (points.len() * 12 / most).max(1);
    let mut cursor = life.trace.cursor();
    for at in points.into_iter().step_by(stride) {
        cursor.seek(at);
        let bound = Bound {
            states_max: 12,
            ..Bound::default()
        };
        for choice in cursor.choices(&bound) {
            if !each(at, cursor.image(&choice)) {
                return;
            }
        }
    }
}

/// Some states of which a mount says one of these cases.
pub fn states(life: &Life, most: usize, cases: &[char]) -> Vec<Image> {
    let mut found = Vec::new();
    each_state(life, 400, |_, image| {
        let case = mounted(&image, &Mistake::default()).map(|found| found.case);
        if case.is_ok_and(|case| cases.contains(&case)) {
            found.push(image);
        }
        found.len() < most
    });
    found
}

/// What the states of a life came to.
pub struct Judged {
    /// States by the case of their ring.
    pub cases: BTreeMap<char, u64>,
    /// The first that breaks a promise.
    pub wrong: Option<String>,
}

/// About `most` states of all cuts, mounted with a mistake or none.
pub fn judge(life: &Life, mistake: &Mistake, most: usize) -> Judged {
    let mut judged = Judged {
        cases: BTreeMap::new(),
        wrong: None,
    };
    each_state(life, most, |at, image| {
        let verdict = mounted(&image, mistake).and_then(|found| {
            *judged.cases.entry(found.case).or_insert(0) += 1;
            as_promised(life, at, &found)
        });
        judged.wrong = verdict.err().map(|why| format!("{at:?}: {why}"));
        judged.wrong.is_none()
    });
    judged
}

fn as_promised(life: &Life, at: Time, found: &Found) -> Result<(), String> {
    for task in 0..TASKS {
        let mine = || life.steps.iter().filter(move |s| s.task == task);
        let synced = mine().filter(|s| s.done < at).map(|s| s.steps).max();
        let begun = mine().filter(|s| s.begun <= at).map(|s| s.steps).max();
        let (synced, begun) = (synced.unwrap_or(0), begun.unwrap_or(0));
        let bytes = &found.files[&name(task)];
        let holds = |steps: usize| {
            let pages = pages(task, steps);
            let expected = pages.iter().flat_map(|&fill| [fill; BLOCK_BYTES]);
            bytes.iter().copied().eq(expected)
        };
        if !(synced..=begun).any(holds) {
            let fills: Vec<u8> = bytes.chunks(BLOCK_BYTES).map(|b| b[0]).collect();
            return Err(format!(
                "f2fs-journal-I7: file {task} has pages {fills:?} in case {}; {synced} steps were synced, {begun} begun",
                found.case
            ));
        }
        for step in (0..synced).filter(|step| step.is_multiple_of(2)) {
            let fill = *pages(task, step + 1).last().expect("a page");
            let bytes = found.files.get(&beside(task, step));
            if bytes.is_none_or(|b| *b != [fill; 2 * BLOCK_BYTES]) {
                return Err(format!(
                    "f2fs-journal-I7: what file {task} had beside it at step {step} was synced, and is lost"
                ));
            }
        }
    }
    Ok(())
}

/// Lives on such a device in which a mistake has to show, made while they are lived, or in
/// recovery: how many were lived, how often its guard was reached, and what was found.
///
/// # Panics
/// The code with its guard fails.
pub fn noticed(
    mutant: Mutant,
    in_recovery: bool,
    device: Device,
    lives: u64,
) -> Option<(u64, u64, String)> {
    let none = Mistake::default();
    let options = device.options();
    let clean = judge(&follow(0, options, device, &none), &none, 100);
    assert_eq!(clean.wrong, None, "{device:?}: the code with its guard");
    let wrong = Mistake::of(mutant);
    let (living, recovering) = match in_recovery {
        true => (&none, &wrong),
        false => (&wrong, &none),
    };
    for seed in 0..lives {
        let life = follow(seed, options, device, living);
        if let Some(found) = judge(&life, recovering, 400).wrong {
            return Some((seed + 1, wrong.reached(), found));
        }
    }
    None
}
