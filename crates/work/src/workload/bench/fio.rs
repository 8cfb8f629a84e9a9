//! One file under fio: `rw`, `bs`, `iodepth`, `rwmixread`, and the eight named cases of the F2FSJ
//! paper (section 5.3, talk: Seq_write to RanWR_R).
//!
//! - Calls here are synchronous, so a queue of `depth` requests is `depth` tasks of one job: each
//!   takes the next request of one sequence. Their CPU time is thus spread over cores, while fio
//!   spends it in one thread.
//! - Random places come in shuffled order, each once before any comes again (fio's random map). In
//!   sequential mixes reads and writes have a position each (fio: `last_pos` of a direction), both
//!   from the beginning.
//! - The file is laid out before (unless `fill=none`) and is in no cache when the run begins (fio:
//!   `invalidate=1`); requests go through the page cache (`direct=0`).
//! - At the end the file is fsynced within the measured time (`end_fsync=1`) unless `end=off`. The
//!   sync that `run` adds to every benchmark follows in any case.
//! - W1: two writes to one place are never under way together, so the content at the end is that of
//!   the last in the sequence: a round has at most as many requests as the file has places, its
//!   writes go to different ones, and it ends before the next round begins.

use super::super::values::{SpecError, number, size, size_text, switch};
use super::super::{Done, Told};
use super::jobs::Fill;
use super::{Bench, Sync, pattern};
use crate::RunError;
use base::Rng;
use rt::Mutex;
use std::fmt;
use std::sync::Arc;
use vfs::{FallocateMode, File, OpenFlags, Vfs};

base::words! {
    /// The directions of a run, in fio's words.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Rw: "kind" {
        /// Writes from beginning to end.
        Write => "write",
        /// Reads from beginning to end.
        Read => "read",
        /// Writes at random places.
        RandWrite => "randwrite",
        /// Reads at random places.
        RandRead => "randread",
        /// Reads and writes, each from beginning to end.
        Mixed => "rw",
        /// Reads and writes at random places.
        RandMixed => "randrw",
    }
}

base::words! {
    /// The named cases. Two cases of a mix are one run, of which each reports a half.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Case: "case" {
        /// Sequential writes of 1 MiB.
        SeqWrite => "Seq_write",
        /// Sequential reads of 1 MiB.
        SeqRead => "Seq_read",
        /// Random writes of 4 KiB.
        RandWrite => "Rand_write",
        /// Random reads of 4 KiB.
        RandRead => "Rand_read",
        /// The writes of a sequential mix.
        SeqMixWrites => "SeqWR_W",
        /// The reads of a sequential mix.
        SeqMixReads => "SeqWR_R",
        /// The writes of a random mix.
        RandMixWrites => "RanWR_W",
        /// The reads of a random mix.
        RandMixReads => "RanWR_R",
    }
}

impl Case {
    /// The direction of the case.
    pub const fn rw(self) -> Rw {
        match self {
            Case::SeqWrite => Rw::Write,
            Case::SeqRead => Rw::Read,
            Case::RandWrite => Rw::RandWrite,
            Case::RandRead => Rw::RandRead,
            Case::SeqMixWrites | Case::SeqMixReads => Rw::Mixed,
            Case::RandMixWrites | Case::RandMixReads => Rw::RandMixed,
        }
    }

    /// Bytes of a request.
    pub const fn request_bytes(self) -> u64 {
        self.rw().usual_bytes()
    }

    /// The kind of operation whose rate the case reports.
    pub const fn kind(self) -> &'static str {
        match self {
            Case::SeqWrite | Case::RandWrite | Case::SeqMixWrites | Case::RandMixWrites => WRITE,
            Case::SeqRead | Case::RandRead | Case::SeqMixReads | Case::RandMixReads => READ,
        }
    }
}

impl Rw {
    const fn random(self) -> bool {
        matches!(self, Rw::RandWrite | Rw::RandRead | Rw::RandMixed)
    }
    const fn reads(self) -> bool {
        !matches!(self, Rw::Write | Rw::RandWrite)
    }
    const fn writes(self) -> bool {
        !matches!(self, Rw::Read | Rw::RandRead)
    }
    /// Bytes of a request in the named cases. The paper publishes neither block size nor depth;
    /// these are the usual ones.
    const fn usual_bytes(self) -> u64 {
        if self.random() { 4 << 10 } else { 1 << 20 }
    }
}

/// Parameters of the program `fio`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FioSpec {
    /// The direction.
    pub rw: Rw,
    /// Bytes of a request.
    pub bs: u64,
    /// Most requests under way at a time.
    pub depth: u32,
    /// Bytes of the file.
    pub file: u64,
    /// For a mix: the number of reads in a hundred requests.
    pub mix: u32,
    /// Number of requests; 0: as many as there are places in the file.
    pub count: u64,
    /// How the file is laid out before.
    pub fill: Fill,
    /// Everything is synced at the end, within the measured time.
    pub end: bool,
}

const FILE_MAX: u64 = 16 << 30;
const SIZE_MAX: u64 = 64 << 20;
const COUNT_MAX: u64 = 100_000_000;
const DEPTH_MAX: u64 = 256;
/// Most places of a file, because the last write of each is kept.
const PLACES_MAX: u64 = 16 << 20;
const PATH: &str = "/fio.0";
const READ: &str = "read";
const WRITE: &str = "write";
/// Bytes by which the file is laid out and compared.
const CHUNK: u64 = 1 << 20;

impl Default for FioSpec {
    fn default() -> Self {
        FioSpec {
            rw: Rw::Write,
            bs: 4 << 10,
            depth: 32,
            file: 64 << 20,
            mix: 50,
            count: 0,
            fill: Fill::Write,
            end: true,
        }
    }
}

impl FioSpec {
    pub(super) const KEYS: &'static str = "case, rw, bs, depth, file, mix, count, fill, end";

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<bool, SpecError> {
        match name {
            "case" => {
                self.rw = value.parse::<Case>()?.rw();
                self.bs = self.rw.usual_bytes();
            }
            "rw" => self.rw = value.parse()?,
            "bs" => self.bs = size(value, 1..=SIZE_MAX)?,
            "depth" => self.depth = number(value, 1..=DEPTH_MAX)? as u32,
            "file" => self.file = size(value, 1..=FILE_MAX)?,
            "mix" => self.mix = number(value, 1..=99)? as u32,
            "count" => self.count = number(value, 0..=COUNT_MAX)?,
            "fill" => self.fill = value.parse()?,
            "end" => self.end = switch(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn check(&self) -> Result<(), SpecError> {
        let (file, bs) = (size_text(self.file), size_text(self.bs));
        let refused = |text| Err(SpecError::Together(text));
        if !self.file.is_multiple_of(self.bs) {
            return refused(format!("file={file} is no multiple of bs={bs}"));
        }
        if self.places() < self.depth.into() {
            let (places, depth) = (self.places(), self.depth);
            return refused(format!(
                "file={file} has {places} places of bs={bs}, fewer than depth={depth}"
            ));
        }
        if self.rw.reads() && self.fill != Fill::Write {
            let (rw, fill) = (self.rw.word(), self.fill.word());
            return refused(format!("rw={rw} reads, it wants fill=write, not {fill}"));
        }
        if self.places() > PLACES_MAX {
            let places = self.places();
            return refused(format!(
                "file={file} has {places} places of bs={bs}, more than {PLACES_MAX}"
            ));
        }
        Ok(())
    }

    fn places(&self) -> u64 {
        self.file / self.bs
    }

    pub(super) fn operations(&self) -> u64 {
        match self.count {
            0 => self.places(),
            count => count,
        }
    }

    /// Bytes of all requests; for a mix of both directions.
    pub(super) fn bytes(&self) -> u64 {
        self.operations() * self.bs
    }
}

impl fmt::Display for FioSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bs, file) = (size_text(self.bs), size_text(self.file));
        let (rw, depth, mix, count) = (self.rw.word(), self.depth, self.mix, self.count);
        write!(f, "fio:rw={rw},bs={bs},depth={depth},file={file},")?;
        let end = if self.end { "on" } else { "off" };
        write!(
            f,
            "mix={mix},count={count},fill={},end={end}",
            self.fill.word()
        )
    }
}

/// One request of the sequence.
#[derive(Clone, Copy, Debug)]
struct Request {
    place: u64,
    /// Number of the write; `None`: a read.
    version: Option<u64>,
}

/// The sequence of requests that all tasks take from.
struct Sequence {
    spec: FioSpec,
    rng: Rng,
    /// Places of this round that are still to come, last first.
    shuffled: Vec<u32>,
    /// The next places in order, of reads and of writes.
    next: [u64; 2],
    writes: u64,
    /// Requests that no task has taken yet.
    left: u64,
    /// Those of them that belong to this round.
    round: u64,
    /// Number of the last write at each place; 0: the place is as laid out.
    versions: Vec<u64>,
    failed: Option<RunError>,
}

impl Sequence {
    fn new(spec: &FioSpec, seed: u64) -> Sequence {
        Sequence {
            rng: Rng::named(seed, "workload/fio"),
            shuffled: Vec::new(),
            next: [0; 2],
            writes: 0,
            left: spec.operations(),
            round: 0,
            versions: vec![0; spec.places() as usize],
            failed: None,
            spec: spec.clone(),
        }
    }

    /// Begins a round of requests that may be under way together (W1); false: none are left.
    fn begin_round(&mut self) -> bool {
        let places = self.spec.places();
        self.round = self.left.min(places);
        if self.spec.rw.random() {
            self.shuffled = (0..places as u32).collect();
            for n in (1..self.shuffled.len()).rev() {
                let other = self.rng.below(n as u64 + 1) as usize;
                self.shuffled.swap(n, other);
            }
        }
        self.round > 0 && self.failed.is_none()
    }

    fn take(&mut self) -> Option<Request> {
        if self.round == 0 || self.failed.is_some() {
            return None;
        }
        (self.round, self.left) = (self.round - 1, self.left - 1);
        let write = match (self.spec.rw.reads(), self.spec.rw.writes()) {
            (true, true) => self.rng.below(100) >= self.spec.mix.into(),
            (_, write) => write,
        };
        let place = if self.spec.rw.random() {
            let place = self.shuffled.pop();
            place
                .expect("a round has no more requests than places")
                .into()
        } else {
            let next = &mut self.next[usize::from(write)];
            let place = *next;
            *next = (place + 1) % self.spec.places();
            place
        };
        let version = write.then(|| {
            self.writes += 1;
            self.versions[place as usize] = self.writes;
            self.writes
        });
        Some(Request { place, version })
    }
}

/// The content of `bytes` at `place` as write number `version` leaves it.
fn content(version: u64, place: u64, bytes: u64) -> Vec<u8> {
    pattern(version, place * bytes.next_multiple_of(4096), bytes)
}

pub(super) struct Fio {
    spec: FioSpec,
    vfs: Arc<Vfs>,
    file: Option<File>,
    sequence: Mutex<Sequence>,
}

/// Most messages under way from the tasks to the one that counts.
const CHANNEL: usize = 256;

impl Fio {
    pub(super) fn new(spec: &FioSpec, vfs: Arc<Vfs>, seed: u64) -> Fio {
        Fio {
            sequence: Mutex::named("fio sequence", Sequence::new(spec, seed)),
            spec: spec.clone(),
            vfs,
            file: None,
        }
    }

    fn file(&self) -> &File {
        self.file.as_ref().expect("prepare has opened it")
    }

    fn lay_out(&self, file: &File) -> Result<(), RunError> {
        match self.spec.fill {
            Fill::None => return Ok(()),
            Fill::Fallocate => {
                return Ok(file.fallocate(FallocateMode::Allocate, 0, self.spec.file)?);
            }
            Fill::Write => {}
        }
        let bs = self.spec.bs;
        let together = (CHUNK / bs).max(1);
        for first in (0..self.spec.places()).step_by(together as usize) {
            let places = first..(first + together).min(self.spec.places());
            let bytes: Vec<u8> = places.flat_map(|place| content(0, place, bs)).collect();
            file.write_at(first * bs, &bytes)?;
        }
        Ok(())
    }

    /// Body of one of `depth` tasks: it takes requests until none is left in this round.
    fn work(&self, told: &rt::Sender<Told>) {
        let mut buffer = vec![0; self.spec.bs as usize];
        loop {
            // This is a statement of its own, so that the lock is not held during the request.
            let taken = self.sequence.lock().take();
            let Some(request) = taken else {
                return;
            };
            let at = request.place * self.spec.bs;
            let bytes = request
                .version
                .map(|version| content(version, request.place, self.spec.bs));
            let start = rt::now();
            let result = match &bytes {
                Some(bytes) => self.file().write_at(at, bytes),
                None => self.file().read_at(at, &mut buffer),
            };
            let took = rt::now() - start;
            let failure = match result {
                Ok(n) if n as u64 == self.spec.bs => None,
                Ok(n) => Some(RunError::Check(format!(
                    "a request of {} bytes at {at} of {PATH} did {n}",
                    self.spec.bs
                ))),
                Err(e) => Some(e.into()),
            };
            if let Some(failure) = failure {
                self.sequence.lock().failed.get_or_insert(failure);
                return;
            }
            let kind = if bytes.is_some() { WRITE } else { READ };
            // The receiver outlives this task.
            let _ = told.send(Told::now(kind, took));
        }
    }
}

impl Bench for Fio {
    fn prepare(&mut self, sync: &Sync<'_>) -> Result<(), RunError> {
        let flags = OpenFlags::READ_WRITE | OpenFlags::CREATE;
        let file = self.vfs.open(PATH, flags, 0o644)?;
        let laid_out = self.lay_out(&file);
        self.file = Some(file);
        laid_out?;
        sync()?;
        self.vfs.drop_caches();
        Ok(())
    }

    fn run(&mut self, _: &Sync<'_>, done: &mut Done<'_>) -> Result<(), RunError> {
        let this = &*self;
        while this.sequence.lock().begin_round() {
            let (told, tell) = rt::channel_named("fio results", CHANNEL);
            rt::scope(|scope| {
                for n in 0..this.spec.depth {
                    let told = told.clone();
                    scope.spawn(&format!("fio {n}"), move || this.work(&told));
                }
                drop(told);
                tell.iter().for_each(&mut *done);
            });
        }
        let failed = this.sequence.lock().failed.take();
        failed.map_or(Ok(()), Err)?;
        match self.spec.end {
            true => Ok(self.file().fsync()?),
            false => Ok(()),
        }
    }

    fn check(&mut self) -> Result<(), RunError> {
        let file = self.file.take().expect("prepare has opened it");
        let versions = std::mem::take(&mut self.sequence.lock().versions);
        let compared = compare(&file, &self.spec, &versions);
        file.close()?;
        compared
    }
}

/// Checks that each place has the content of its last write, or that which was laid out.
fn compare(file: &File, spec: &FioSpec, versions: &[u64]) -> Result<(), RunError> {
    let bs = spec.bs;
    let together = (CHUNK / bs).max(1) as usize;
    let mut found = vec![0; together * bs as usize];
    for (chunk, versions) in versions.chunks(together).enumerate() {
        let first = (chunk * together) as u64;
        let length = file.read_at(first * bs, &mut found)?;
        for (n, &version) in versions.iter().enumerate() {
            let (place, at) = (first + n as u64, n * bs as usize);
            let wanted = match (version, spec.fill) {
                (0, Fill::None | Fill::Fallocate) => continue,
                _ => content(version, place, bs),
            };
            if length < at + bs as usize || found[at..at + bs as usize] != wanted[..] {
                return Err(RunError::Check(format!(
                    "the {bs} bytes at {} of {PATH} are not those of write {version}",
                    place * bs
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rt::{Sim, SimConfig};

    fn spec(text: &str) -> FioSpec {
        let mut spec = FioSpec::default();
        for item in text.split(',') {
            let (key, value) = item.split_once('=').unwrap();
            assert!(spec.set(key, value).unwrap(), "{item}");
        }
        spec.check().unwrap();
        spec
    }

    fn requests(text: &str) -> Vec<Request> {
        let mut sequence = Sequence::new(&spec(text), 1);
        let mut all = Vec::new();
        while sequence.begin_round() {
            all.extend(std::iter::from_fn(|| sequence.take()));
        }
        all
    }

    #[test]
    fn a_round_has_each_random_place_once_and_a_sequence_goes_on_where_it_was() {
        let all = requests("rw=randread,file=256k,count=96,depth=8");
        assert_eq!(all.len(), 96);
        let mut round: Vec<u64> = all[..64].iter().map(|r| r.place).collect();
        assert!(round.windows(2).any(|w| w[0] > w[1]), "not in order");
        round.sort_unstable();
        assert_eq!(round, (0..64).collect::<Vec<_>>());
        let all = requests("rw=write,file=256k,count=70,depth=8");
        assert_eq!(all[65].place, 1);
        assert!(all.iter().all(|r| r.version.is_some()));
    }

    #[test]
    fn a_mix_has_its_share_of_reads_and_a_position_for_each_direction() {
        let all = requests("rw=rw,file=4m,count=1000,mix=30");
        let reads: Vec<u64> = all
            .iter()
            .filter(|r| r.version.is_none())
            .map(|r| r.place)
            .collect();
        assert!((250..350).contains(&reads.len()), "{}", reads.len());
        assert_eq!(reads, (0..reads.len() as u64).collect::<Vec<_>>());
        let writes = all.iter().filter(|r| r.version.is_some());
        assert!(writes.enumerate().all(|(n, r)| r.place == n as u64));
    }

    #[test]
    fn wrong_content_is_found() {
        Sim::new(SimConfig::seeded(1)).run(|| {
            let vfs = Vfs::new(testkit::model::ModelFs::new());
            for place in [0, 17, 63] {
                let mut fio = Fio::new(&spec("rw=randrw,file=256k,depth=4"), vfs.clone(), 1);
                fio.prepare(&|| Ok(())).unwrap();
                let mut ops = 0;
                fio.run(&|| Ok(()), &mut |_| ops += 1).unwrap();
                assert_eq!(ops, 64);
                fio.file().write_at(place * 4096 + 4095, b"!").unwrap();
                let error = fio.check().unwrap_err().to_string();
                assert!(error.contains(&format!("at {}", place * 4096)), "{error}");
                vfs.unlink(PATH).unwrap();
            }
        });
    }
}
