//! A program of a user under power cuts: what it writes to an image is recorded, and the image is
//! judged as each power cut would leave it.
//!
//! ```text
//! image --RecordedDevice--(a mount: the caller's business)--> program
//!           `--trace--> explore --states of each cut--> recover --> judge --> Explored
//! ```
//!
//! A command of the user (`--judge`) decides of each image as the cut left it. Without one nothing
//! is known of the program and of its promises, so a state is bad if the file system in it cannot
//! be recovered, or if `e2fsck` or `fsck.f2fs` finds damage afterwards. That asks less than the
//! oracles of the other subjects do.

mod device;
mod room;

pub use device::RecordedDevice;
pub use room::Room;

use crate::CrashError;
use base::{BlockNo, Bytes, Map};
use blockdev::spec::{Bound, Choice, Mode};
use blockdev::trace::{Cursor, What};
use blockdev::{BlockDevice, Caps, Image, OverlayDisk, Trace};
use rig::Fs;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use work::fsck::Verdict;

const BLOCK: u64 = base::BLOCK_BYTES as u64;

/// What decides whether a recovered image is whole.
#[derive(Clone, Debug)]
pub enum Judge {
    /// Varve's recovery, if a log or a list of orphans waits for it, and then `e2fsck -fn` or
    /// `fsck.f2fs`.
    Checker,
    /// This shell command, called with the image as the cut left it in `$VARVE_STATE`. It ends with
    /// 0 if all is well, and may change the file.
    Command(String),
}

/// What an exploration found.
#[derive(Clone, Default, Debug)]
pub struct Explored {
    /// Writes and discards of the program.
    pub writes: u64,
    /// Syncs of the program.
    pub flushes: u64,
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

/// Cuts the run at each moment that counts, and judges the states that `bound` selects. `folder`
/// takes the image that is judged. After each state `progress` is called with the cuts done and all
/// cuts; false ends the exploration, and that state does not count.
///
/// # Errors
/// The host fails, or a judge cannot be run.
pub fn explore(
    trace: &Trace,
    bytes: u64,
    bound: &Bound,
    judge: &Judge,
    folder: &Path,
    progress: &dyn Fn(usize, usize) -> bool,
) -> Result<Explored, CrashError> {
    let mut explored = Explored::default();
    for step in &trace.steps {
        match step.what {
            What::Flush | What::Barrier => explored.flushes += 1,
            _ => explored.writes += 1,
        }
    }
    // Whether a state is bad, by the hash of its content.
    let mut judged: Map<u64, bool> = Map::default();
    let mut court = Court {
        judge,
        caps: &trace.caps,
        kind: kind_of(&trace.start),
        file: StateFile::new(folder.join("state.img"), bytes)?,
    };
    let points = cut_points(trace, bound);
    explored.cuts_all = points.len() as u64;
    let mut cursor = trace.cursor();
    for (nr, &at) in points.iter().enumerate() {
        cursor.seek(at);
        let (choices, beyond) = choices(&cursor, bound);
        explored.beyond += beyond;
        let begun = trace.steps.partition_point(|step| step.start < at);
        let last = &trace.steps[begun - 1];
        let synced = matches!(last.what, What::Flush) && last.end <= at;
        for choice in choices {
            let image = cursor.image(&choice);
            let hash = image.content_hash();
            if let Some(&bad) = judged.get(&hash) {
                explored.bad_synced += u64::from(bad && synced);
                continue;
            }
            let word = court.judge(&image);
            // A signal that ends the exploration may have ended the judge, so its answer is void.
            if !progress(nr, points.len()) {
                return Ok(explored);
            }
            let (recovered, bad) = word?;
            explored.states += 1;
            judged.insert(hash, bad.is_some());
            explored.recovered += u64::from(recovered);
            let Some(why) = bad else { continue };
            explored.bad += 1;
            explored.bad_synced += u64::from(synced);
            explored.first.get_or_insert_with(|| Bad {
                step: begun,
                choice,
                why,
                image,
            });
        }
        explored.cuts += 1;
    }
    Ok(explored)
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
fn cut_points(trace: &Trace, bound: &Bound) -> Vec<base::Time> {
    match bound.mode {
        Mode::Linear => trace.steps.iter().map(|step| step.end).collect(),
        _ => trace.maximal_cut_points(&[]),
    }
}

fn kind_of(image: &Image) -> Option<Fs> {
    let head = [image.block(0), image.block(1)].concat();
    rig::kind_of_head(&head)
}

/// Recovers states and asks the judge.
struct Court<'a> {
    judge: &'a Judge,
    caps: &'a Caps,
    kind: Option<Fs>,
    file: StateFile,
}

impl Court<'_> {
    /// Answers whether the state had to be recovered, and why it is bad, if it is.
    fn judge(&mut self, image: &Image) -> Result<(bool, Option<String>), CrashError> {
        let command = match self.judge {
            Judge::Command(command) => command,
            Judge::Checker => return self.check(image),
        };
        self.file.set(image)?;
        let mut shell = Command::new("sh");
        shell
            .args(["-c", command])
            .env("VARVE_STATE", &self.file.path);
        let output = shell.output().map_err(|source| CrashError::Host {
            doing: format!("running {command}"),
            source,
        })?;
        // The command may have changed the file that it judged.
        self.file.forget();
        let words = [output.stdout, output.stderr].concat();
        let words = String::from_utf8_lossy(&words).into_owned();
        let bad = !output.status.success();
        Ok((false, bad.then(|| format!("{}: {words}", output.status))))
    }

    fn check(&mut self, image: &Image) -> Result<(bool, Option<String>), CrashError> {
        let Some(kind) = self.kind else {
            let what = "the image holds no ext4, ext3 or F2FS: say --judge COMMAND";
            return Err(CrashError::Check(what.into()));
        };
        let blocks = self.file.bytes / BLOCK;
        let read = |n: BlockNo| Ok::<Bytes, String>(image.block(n.0));
        let report = rig::fsck::check(kind, &read, blocks, 1);
        let mut image = image.clone();
        if report.needs_recovery {
            let disk = OverlayDisk::new(self.caps.clone(), image);
            let device: Arc<dyn BlockDevice> = disk.clone();
            let now = rig::WallTime { secs: 0, nanos: 0 };
            match rig::fsck::recover_device(kind, &device, now) {
                Ok(None) => image = disk.image(),
                Ok(Some(why)) | Err(why) => {
                    return Ok((true, Some(format!("recovery refused: {why}"))));
                }
            }
        }
        self.file.set(&image)?;
        let verdict = work::fsck::check(kind, &self.file.path);
        let verdict = verdict.map_err(|source| CrashError::Host {
            doing: format!("running {}", work::fsck::checker(kind)),
            source,
        })?;
        let bad = match verdict {
            Verdict::Clean => None,
            Verdict::Repaired(words) | Verdict::Findings(words) => Some(words),
            Verdict::NotInstalled => {
                let what = format!("{} is not installed", work::fsck::checker(kind));
                return Err(CrashError::Check(what));
            }
        };
        Ok((report.needs_recovery, bad))
    }
}

/// A file that holds one state after the other; only what differs is written.
struct StateFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// What the file holds; `None` if a judge may have changed it.
    holds: Option<Image>,
}

impl StateFile {
    fn new(path: PathBuf, bytes: u64) -> Result<StateFile, CrashError> {
        let made = File::create(&path).and_then(|file| file.set_len(bytes).map(|()| file));
        let file = made.map_err(|source| CrashError::Host {
            doing: format!("making {}", path.display()),
            source,
        })?;
        Ok(StateFile {
            path,
            file,
            bytes,
            holds: Some(Image::new()),
        })
    }

    fn forget(&mut self) {
        self.holds = None;
    }

    fn set(&mut self, image: &Image) -> Result<(), CrashError> {
        self.write(image).map_err(|source| CrashError::Host {
            doing: format!("writing {}", self.path.display()),
            source,
        })?;
        self.holds = Some(image.clone());
        Ok(())
    }

    fn write(&mut self, image: &Image) -> io::Result<()> {
        let Some(held) = self.holds.take() else {
            self.file.set_len(0)?;
            self.file.set_len(self.bytes)?;
            return self.write_from(&Image::new(), image);
        };
        self.write_from(&held, image)
    }

    fn write_from(&self, held: &Image, image: &Image) -> io::Result<()> {
        for (n, bytes) in image.blocks() {
            if held.print(n) != image.print(n) {
                self.file.write_all_at(&bytes, n * BLOCK)?;
            }
        }
        for (n, _) in held.blocks() {
            if image.is_zero(n) {
                self.file.write_all_at(&[0; BLOCK as usize], n * BLOCK)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serve::file::{DEVICE, OneFile};
    use vfs::FileSystem;

    /// Writes of one block each, with a sync behind those whose number is in `syncs`.
    fn tape(writes: &[u64], syncs: &[usize]) -> Trace {
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
        device.trace()
    }

    fn explored(trace: &Trace, mode: Mode, command: &str) -> Explored {
        let folder = tempfile::tempdir().unwrap();
        let bound = Bound {
            mode,
            torn_max: 0,
            prune: false,
            ..Bound::default()
        };
        let judge = Judge::Command(command.into());
        explore(trace, 1 << 20, &bound, &judge, folder.path(), &|_, _| true).unwrap()
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
        let judge = Judge::Command("true".into());
        let go_on = |cuts: usize, _| cuts < 2;
        let bound = Bound::default();
        let whole = explore(&trace, 1 << 20, &bound, &judge, folder.path(), &|_, _| true).unwrap();
        let part = explore(&trace, 1 << 20, &bound, &judge, folder.path(), &go_on).unwrap();
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
            let (read, bytes) = load(&file.path, &mut Room::new(8192)).unwrap();
            assert_eq!((read, bytes), (image.clone(), 1 << 20));
        }
        let why = load(&file.path, &mut Room::new(8191))
            .unwrap_err()
            .to_string();
        assert!(
            why.contains("from byte 36864 on") && why.contains("--memory"),
            "{why}"
        );
    }
}
