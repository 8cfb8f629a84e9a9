//! A program of a user, or a file system of a kernel, under power cuts: what it writes to an image
//! is recorded, and the image is judged as each power cut would leave it.
//!
//! ```text
//! image --RecordedDevice--(a mount: the caller's business)--> program --,
//! log of dm-log-writes --read_log---------------------------------+--> Recorded
//! Kernel: image --dm-log-writes in a guest--> file system --------'       |
//!                                                                     explore
//!   HostCourt: a command, or recovery and e2fsck or fsck.f2fs  <--states--+--> Explored
//!   Kernel: the guest mounts, checks and unmounts; then fsck   <----------'
//! ```
//!
//! - P1: of each content every number of acknowledgements that it is a state of is judged once: a
//!   content may keep what was acknowledged before one cut, and not what was before a later one.
//! - P2: a cut counts as done only when all its states are judged.

mod court;
mod device;
mod kernel;
mod log;
mod room;
mod tape;

pub use court::{Court, HostCourt, Judge, State, Verdict};
pub use device::RecordedDevice;
pub use kernel::{Broken, Kernel, KernelPlan, Tried, in_guest, knows};
pub use log::{read_log, write_log};
pub use room::Room;
pub use tape::{Ack, Recorded};

use crate::CrashError;
use base::{Bytes, Map};
use blockdev::spec::{Bound, Choice, Mode};
use blockdev::trace::{Cursor, What};
use blockdev::{Image, Trace};
use court::StateFile;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const BLOCK: u64 = base::BLOCK_BYTES as u64;

/// What an exploration found.
#[derive(Clone, Default, Debug)]
pub struct Explored {
    /// Writes and discards of the program.
    pub writes: u64,
    /// Syncs of the program.
    pub flushes: u64,
    /// Acknowledgements.
    pub acks: u64,
    /// Cuts whose states were all judged.
    pub cuts: u64,
    /// Cuts of the whole run, with those that were not judged.
    pub cuts_all: u64,
    /// States that were judged; each content counts once.
    pub states: u64,
    /// Of them, those that were recovered first.
    pub recovered: u64,
    /// Of them, those that are damaged.
    pub bad: u64,
    /// Cuts behind a sync whose only state is damaged.
    pub bad_synced: u64,
    /// States that the bound selects and a limit leaves out.
    pub beyond: u64,
    /// The first damaged state.
    pub first: Option<Bad>,
}

/// A damaged state.
#[derive(Clone, Debug)]
pub struct Bad {
    /// Number of commands that had begun at the cut.
    pub step: usize,
    /// What became of the writes that were not durable.
    pub choice: Choice,
    /// Why it is bad.
    pub why: String,
    /// The image that the cut left.
    pub image: Image,
}

/// Reads an image file. A hole is zeros; all other content takes its size from `room`.
///
/// # Errors
/// The host cannot read it; it is no regular file, or has no whole number of blocks of 4096 bytes;
/// its content does not fit into the room.
pub fn load(path: &Path, room: &mut Room) -> Result<(Image, u64), CrashError> {
    let host = |source: io::Error| CrashError::Host {
        doing: format!("reading {}", path.display()),
        source,
    };
    let file = File::open(path).map_err(host)?;
    let meta = file.metadata().map_err(host)?;
    let bytes = meta.len();
    if !meta.is_file() || !bytes.is_multiple_of(BLOCK) {
        let why = "a regular file of whole blocks of 4096 bytes is needed; copy the device or file to one";
        return Err(host(io::Error::new(io::ErrorKind::InvalidInput, why)));
    }
    let mut image = Image::new();
    let mut block = vec![0; BLOCK as usize];
    for n in 0..bytes / BLOCK {
        file.read_exact_at(&mut block, n * BLOCK).map_err(host)?;
        if !base::bytes::is_zero(&block) {
            if !room.take(BLOCK) {
                let what = format!(
                    "the content of {} from byte {} on",
                    path.display(),
                    n * BLOCK
                );
                return Err(room.error(what));
            }
            image.set_block(n, Bytes::copy_from_slice(&block));
        }
    }
    Ok((image, bytes))
}

/// Writes an image as a file of `bytes` bytes.
///
/// # Errors
/// The host cannot write it.
pub fn save(image: &Image, bytes: u64, path: &Path) -> Result<(), CrashError> {
    let mut file = StateFile::new(path.to_path_buf(), bytes)?;
    file.set(image)
}

/// Cuts the run at each moment that counts, and has the states judged that `bound` selects. Each
/// time that the court has judged, `progress` is called with the cuts done and all cuts; false ends
/// the exploration, and what was judged last does not count.
///
/// # Errors
/// The host fails, or a judge cannot be run.
pub fn explore(
    recorded: &Recorded,
    bound: &Bound,
    court: &mut dyn Court,
    progress: &dyn Fn(usize, usize) -> bool,
) -> Result<Explored, CrashError> {
    let trace = &recorded.trace;
    let owed: Vec<base::Time> = recorded.acks.iter().map(|ack| ack.at).collect();
    let points = cut_points(trace, bound, &owed);
    let mut search = Search::new(recorded, points.len(), court, progress);
    let mut cursor = trace.cursor();
    for (nr, &at) in points.iter().enumerate() {
        cursor.seek(at);
        let (choices, beyond) = choices(&cursor, bound);
        search.explored.beyond += beyond;
        let step = trace.steps.partition_point(|step| step.start < at);
        let last = &trace.steps[step - 1];
        let synced = matches!(last.what, What::Flush) && last.end <= at;
        let acked = recorded.acked(at);
        for choice in choices {
            let image = cursor.image(&choice);
            let key = (image.content_hash(), acked);
            if synced {
                search.synced.push(key);
            }
            let open = Open {
                step,
                choice,
                image,
                key,
            };
            if !search.add(open, nr)? {
                return Ok(search.done());
            }
        }
        if search.open.is_empty() {
            search.explored.cuts = nr as u64 + 1;
        }
    }
    if search.judge(points.len())? {
        search.explored.cuts = points.len() as u64;
    }
    Ok(search.done())
}

/// What a state is a state of: its content, and how much was acknowledged (P1).
type Key = (u64, usize);

/// A state that waits to be judged.
struct Open {
    step: usize,
    choice: Choice,
    image: Image,
    key: Key,
}

/// An exploration under way: states wait until the court takes them.
struct Search<'a> {
    recorded: &'a Recorded,
    court: &'a mut dyn Court,
    progress: &'a dyn Fn(usize, usize) -> bool,
    explored: Explored,
    /// Whether a state is bad; those that wait count as good.
    judged: Map<Key, bool>,
    open: Vec<Open>,
    /// The states of cuts right behind a sync.
    synced: Vec<Key>,
}

impl<'a> Search<'a> {
    fn new(
        recorded: &'a Recorded,
        cuts: usize,
        court: &'a mut dyn Court,
        progress: &'a dyn Fn(usize, usize) -> bool,
    ) -> Search<'a> {
        let mut explored = Explored {
            cuts_all: cuts as u64,
            acks: recorded.acks.len() as u64,
            ..Explored::default()
        };
        for step in &recorded.trace.steps {
            match step.what {
                What::Flush | What::Barrier => explored.flushes += 1,
                _ => explored.writes += 1,
            }
        }
        Search {
            recorded,
            court,
            progress,
            explored,
            judged: Map::default(),
            open: Vec::new(),
            synced: Vec::new(),
        }
    }

    /// Takes a state of cut `nr`; false if the exploration is to end.
    fn add(&mut self, open: Open, nr: usize) -> Result<bool, CrashError> {
        if self.judged.contains_key(&open.key) {
            return Ok(true);
        }
        self.judged.insert(open.key, false);
        self.open.push(open);
        match self.open.len() >= self.court.bench() {
            true => self.judge(nr),
            false => Ok(true),
        }
    }

    /// Has the states judged that wait; `nr` cuts have no others.
    fn judge(&mut self, nr: usize) -> Result<bool, CrashError> {
        let open = std::mem::take(&mut self.open);
        let states: Vec<State<'_>> = open
            .iter()
            .map(|open| State {
                image: &open.image,
                acked: &self.recorded.acks[..open.key.1],
            })
            .collect();
        let verdicts = match states.is_empty() {
            true => Ok(Vec::new()),
            false => self.court.judge(&states),
        };
        // A signal that ends the exploration may have ended the judge, so its answers are void.
        if !open.is_empty() && !(self.progress)(nr, self.explored.cuts_all as usize) {
            return Ok(false);
        }
        let verdicts = verdicts?;
        assert_eq!(verdicts.len(), open.len(), "P1: each state has a verdict");
        for (open, verdict) in open.into_iter().zip(verdicts) {
            self.explored.states += 1;
            self.explored.recovered += u64::from(verdict.recovered);
            let Some(why) = verdict.bad else { continue };
            self.judged.insert(open.key, true);
            self.explored.bad += 1;
            self.explored.first.get_or_insert_with(|| Bad {
                step: open.step,
                choice: open.choice,
                why,
                image: open.image,
            });
        }
        // P2: the cuts before the one whose states were just judged have none that wait.
        self.explored.cuts = nr as u64;
        Ok(true)
    }

    fn done(self) -> Explored {
        let bad = |key: &&Key| self.judged.get(*key) == Some(&true);
        let bad_synced = self.synced.iter().filter(bad).count() as u64;
        Explored {
            bad_synced,
            ..self.explored
        }
    }
}

/// The states of a cut that are judged, and how many a limit leaves out.
fn choices(cursor: &Cursor<'_>, bound: &Bound) -> (Vec<Choice>, u64) {
    if bound.mode == Mode::Linear {
        // Its other prefixes are the states of earlier cuts.
        return (vec![Choice::Newest], 0);
    }
    let mut all = Vec::new();
    let counted = cursor.each_choice(bound, &mut |choice| {
        all.push(choice);
        true
    });
    (all, counted.beyond)
}

/// The moments to cut at. In order, the cut behind each write gives one state. In other modes the
/// states of a cut are among those of a later one, up to the end of the next sync.
/// `owed` are the moments at which something is acknowledged.
fn cut_points(trace: &Trace, bound: &Bound, owed: &[base::Time]) -> Vec<base::Time> {
    match bound.mode {
        Mode::Linear => trace.steps.iter().map(|step| step.end).collect(),
        _ => trace.maximal_cut_points(owed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serve::file::{DEVICE, OneFile};
    use std::sync::Arc;
    use vfs::FileSystem;

    /// Writes of one block each, with a sync behind those whose number is in `syncs`.
    fn tape(writes: &[u64], syncs: &[usize]) -> Recorded {
        let device = RecordedDevice::new(Image::new(), 1 << 20, Room::new(1 << 20));
        let device = OneFile::new(Arc::new(device));
        for (nr, &block) in writes.iter().enumerate() {
            device
                .write(DEVICE, block * BLOCK, &[nr as u8 + 1; 4096])
                .unwrap();
            if syncs.contains(&nr) {
                device.fsync(DEVICE, true).unwrap();
            }
        }
        device.recorded().unwrap()
    }

    fn court(recorded: &Recorded, command: &str, folder: &Path) -> HostCourt {
        let judge = Judge::Command(command.into());
        HostCourt::new(judge, &recorded.trace, 1 << 20, folder).unwrap()
    }

    fn explored(recorded: &Recorded, mode: Mode, command: &str) -> Explored {
        let folder = tempfile::tempdir().unwrap();
        let bound = Bound {
            mode,
            torn_max: 0,
            prune: false,
            ..Bound::default()
        };
        let mut court = court(recorded, command, folder.path());
        explore(recorded, &bound, &mut court, &|_, _| true).unwrap()
    }

    /// Byte `at` of the state, as a number.
    fn byte(at: u64) -> String {
        format!("$(od -An -tu1 -j{at} -N1 $VARVE_STATE)")
    }

    #[test]
    fn prefixes_in_order_and_subsets_of_what_is_open() {
        let trace = tape(&[1, 2, 3], &[0]);
        // The second block never shows without the first one: that was synced.
        let synced = format!("test {} -eq 1 -o {} -eq 0", byte(4096), byte(8192));
        assert_eq!(explored(&trace, Mode::Bounded, &synced).bad, 0);
        // The third may show without the second, but not where a cut leaves a prefix.
        let order = format!("test {} -eq 2 -o {} -eq 0", byte(8192), byte(12288));
        let in_order = explored(&trace, Mode::Linear, &order);
        assert_eq!((in_order.writes, in_order.flushes), (3, 1));
        assert_eq!((in_order.states, in_order.bad), (3, 0));
        let any = explored(&trace, Mode::Bounded, &order);
        assert_eq!(any.bad, 1);
        let bad = any.first.expect("a bad state");
        assert_eq!((bad.image.block(2)[0], bad.image.block(3)[0]), (0, 3));
    }

    #[test]
    fn who_is_told_to_stop_keeps_what_is_complete() {
        let trace = tape(&[1, 2, 3], &[0, 1]);
        let folder = tempfile::tempdir().unwrap();
        let mut court = court(&trace, "true", folder.path());
        let go_on = |cuts: usize, _| cuts < 2;
        let bound = Bound::default();
        let whole = explore(&trace, &bound, &mut court, &|_, _| true).unwrap();
        let part = explore(&trace, &bound, &mut court, &go_on).unwrap();
        assert_eq!((whole.cuts, part.cuts), (whole.cuts_all, 2));
        assert!(part.cuts_all == whole.cuts_all && part.states < whole.states);
    }

    #[test]
    fn an_image_is_a_regular_file_of_whole_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        for bytes in [3 * BLOCK - 1024, 3 * BLOCK] {
            let file = File::create(&path).unwrap();
            file.set_len(bytes).unwrap();
            file.write_all_at(&[1; 100], 5000).unwrap();
            let loaded = load(&path, &mut Room::new(1 << 20));
            match bytes.is_multiple_of(BLOCK) {
                true => {
                    let (image, bytes) = loaded.unwrap();
                    assert_eq!((bytes, image.block(1)[904]), (3 * BLOCK, 1));
                    assert!(image.is_zero(0) && image.is_zero(2));
                }
                false => {
                    let why = loaded.unwrap_err().to_string();
                    assert!(why.contains("whole blocks of 4096 bytes"), "{why}");
                }
            }
        }
        let why = load(Path::new("/dev/zero"), &mut Room::new(1 << 20));
        let why = why.unwrap_err().to_string();
        assert!(why.contains("a regular file"), "{why}");
    }

    #[test]
    fn a_state_goes_to_its_file_whole() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = StateFile::new(folder.path().join("f"), 1 << 20).unwrap();
        let mut image = Image::new();
        image.set_block(3, vec![5; 4096].into());
        image.set_block(9, vec![6; 4096].into());
        file.set(&image).unwrap();
        image.set_block(3, vec![0; 4096].into());
        image.set_block(4, vec![7; 4096].into());
        for forget in [false, true] {
            if forget {
                file.forget();
            }
            file.set(&image).unwrap();
            let (read, bytes) = load(file.path(), &mut Room::new(8192)).unwrap();
            assert_eq!((read, bytes), (image.clone(), 1 << 20));
        }
        let why = load(file.path(), &mut Room::new(8191))
            .unwrap_err()
            .to_string();
        assert!(
            why.contains("from byte 36864 on") && why.contains("--memory"),
            "{why}"
        );
    }

    /// Judges many states at a time: a state is bad if its first byte of block 2 is missing.
    struct Bench(usize, std::cell::RefCell<Vec<usize>>);

    impl Court for Bench {
        fn bench(&self) -> usize {
            self.0
        }
        fn judge(&mut self, states: &[State<'_>]) -> Result<Vec<Verdict>, CrashError> {
            self.1.borrow_mut().push(states.len());
            let verdict = |state: &State<'_>| Verdict {
                recovered: false,
                bad: state.image.is_zero(2).then(|| "no block 2".into()),
            };
            Ok(states.iter().map(verdict).collect())
        }
    }

    #[test]
    fn p2_a_bench_of_states_finds_what_one_state_at_a_time_finds() {
        let recorded = tape(&[1, 2, 3, 4, 5, 6], &[1, 3]);
        let bound = Bound::default();
        let run = |width: usize, last: usize| {
            let mut bench = Bench(width, std::cell::RefCell::default());
            let go_on = |cuts: usize, _| cuts < last;
            let explored = explore(&recorded, &bound, &mut bench, &go_on).unwrap();
            (explored, bench.1.into_inner())
        };
        let (one, turns) = run(1, usize::MAX);
        assert!(one.bad > 0 && turns.iter().all(|n| *n == 1));
        assert_eq!((one.cuts, turns.len() as u64), (one.cuts_all, one.states));
        let (many, turns) = run(7, usize::MAX);
        let (full, last) = turns.split_at(turns.len() - 1);
        assert!(full.iter().all(|n| *n == 7) && (1..=7).contains(&last[0]));
        let counts = |e: &Explored| (e.cuts, e.states, e.bad, e.bad_synced, e.beyond);
        assert_eq!(counts(&many), counts(&one));
        assert_eq!(many.first.unwrap().step, one.first.unwrap().step);
        // P2: what waits when the exploration ends has no done cut.
        let (part, turns) = run(7, 1);
        assert!(part.cuts <= 1 && part.states == 7 * (turns.len() as u64 - 1));
    }

    #[test]
    fn p1_a_content_is_judged_anew_where_more_is_owed() {
        let mut tape = tape::Tape::new(
            Image::new(),
            tape::disk_caps(1 << 20, true),
            Room::new(1 << 20),
        );
        let block = |n: u8| Some(Bytes::from(vec![n; 4096]));
        let normal = blockdev::spec::Kind::Normal;
        tape.write(base::Lba(8), 8, normal, block(1)).unwrap();
        tape.flush().unwrap();
        tape.ack("first".into()).unwrap();
        tape.write(base::Lba(16), 8, normal, block(2)).unwrap();
        tape.ack("second, too early".into()).unwrap();
        tape.flush().unwrap();
        let recorded = tape.recorded("a test").unwrap();
        let kept = format!(
            "n=$(wc -l <$VARVE_ACKED); test $n -lt 1 -o {} -eq 1 && test $n -lt 2 -o {} -eq 2",
            byte(4096),
            byte(8192)
        );
        let found = explored(&recorded, Mode::Bounded, &kept);
        // The state with the first block only is good before the second acknowledgement, and bad
        // behind it.
        assert_eq!((found.acks, found.bad), (2, 1), "{found:?}");
        let bad = found.first.expect("a bad state");
        assert!(bad.image.is_zero(2) && !bad.image.is_zero(1));
    }
}
