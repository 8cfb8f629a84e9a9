//! Runs the jobs of a file: a task for each copy of a job, and in it one for each request under
//! way, since calls are synchronous here.
//!
//! - Files that a job reads, or overwrites, are laid out before, and are in no cache when the run
//!   begins; others are allocated, unless `fallocate=none`.
//! - The content of a place depends on the file and the place alone, and differs from what was laid
//!   out. So requests of several jobs to one file may overlap, and the end is compared exactly.

use super::parse::{Each, Job, Way};
use super::{FioJobsSpec, JobFile};
use crate::RunError;
use crate::workload::bench::{Bench, Sync};
use crate::workload::{Done, Told, fsync};
use base::{BLOCK_BYTES, Nanos, Rng};
use rt::{Mutex, Sender};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vfs::{FallocateMode, File, OpenFlags, Vfs};

const READ: &str = "read";
const WRITE: &str = "write";
const FSYNC: &str = "fsync";
const SECTOR: u64 = 512;
const BLOCK: u64 = BLOCK_BYTES as u64;
/// Bytes by which a file is laid out and compared.
const CHUNK: u64 = 1 << 20;
/// Most messages under way from the tasks to the one that counts.
const CHANNEL: usize = 256;

/// What a file should hold.
struct Content {
    number: u64,
    path: String,
    bytes: u64,
    laid_out: bool,
    /// It is allocated before, unless it is laid out.
    allocated: bool,
    /// One bit for each sector that was written.
    written: Mutex<Vec<u64>>,
}

impl Content {
    /// What is at `at` when the sectors there are written (`true`) or laid out.
    fn bytes(&self, written: bool, at: u64, bytes: u64) -> Vec<u8> {
        let first = at / BLOCK;
        let last = (at + bytes).div_ceil(BLOCK);
        let seed = |block: u64| (self.number << 40) ^ (u64::from(written) << 39) ^ block;
        let all = (first..last).flat_map(|block| fsync::content(seed(block), BLOCK));
        let skipped = (at - first * BLOCK) as usize;
        all.skip(skipped).take(bytes as usize).collect()
    }

    fn note(&self, at: u64, bytes: u64) {
        let mut written = self.written.lock();
        for sector in at / SECTOR..(at + bytes) / SECTOR {
            written[(sector / 64) as usize] |= 1 << (sector % 64);
        }
    }
}

/// One copy of a job.
struct Copy {
    job: Job,
    name: String,
    files: Vec<(File, Arc<Content>)>,
    sequence: Mutex<Sequence>,
}

/// Jobs on a mounted file system.
pub struct FioJobs {
    spec: FioJobsSpec,
    vfs: Arc<Vfs>,
    seed: u64,
    /// The copies that run together, phase after phase.
    phases: Vec<Vec<Copy>>,
    contents: BTreeMap<String, Arc<Content>>,
    written: AtomicU64,
    assumed: Vec<String>,
}

impl FioJobs {
    /// The jobs of `spec`, not yet prepared.
    pub fn new(spec: &FioJobsSpec, vfs: Arc<Vfs>, seed: u64) -> FioJobs {
        FioJobs {
            spec: spec.clone(),
            vfs,
            seed,
            phases: Vec::new(),
            contents: BTreeMap::new(),
            written: AtomicU64::new(0),
            assumed: Vec::new(),
        }
    }

    /// Refuses a volume that cannot hold the files.
    fn has_room(&self, bytes: u64) -> Result<(), RunError> {
        let stat = self.vfs.statfs()?;
        let free = stat.blocks_free.saturating_mul(stat.block_bytes.into());
        if bytes <= free {
            return Ok(());
        }
        let (needed, free) = (bytes >> 20, free >> 20);
        Err(RunError::Recording(format!(
            "{}: its files take {needed} MiB, the volume has {free} MiB; choose a larger one with --size",
            self.spec
        )))
    }

    /// All files by path, each as large and as laid out as some job wants it.
    fn plan(&mut self, file: &JobFile) -> Result<(), RunError> {
        let mut wanted: BTreeMap<String, (u64, bool, bool)> = BTreeMap::new();
        for job in &file.jobs {
            for path in (0..job.copies).flat_map(|copy| paths(job, copy)) {
                let entry = wanted.entry(path).or_default();
                entry.0 = entry.0.max(job.size / job.files);
                entry.1 |= job.way.reads || job.overwrite;
                entry.2 |= job.allocate;
            }
        }
        self.has_room(wanted.values().map(|(bytes, ..)| bytes).sum())?;
        let contents = (0..).zip(wanted).map(|(number, (path, wanted))| {
            let (bytes, laid_out, allocated) = wanted;
            let sectors = bytes.div_ceil(SECTOR).div_ceil(64) as usize;
            let content = Content {
                number,
                path: path.clone(),
                bytes,
                laid_out,
                allocated,
                written: Mutex::named("fio sectors", vec![0; sectors]),
            };
            (path, Arc::new(content))
        });
        self.contents = contents.collect();
        Ok(())
    }

    fn lay_out(&self, content: &Content) -> Result<(), RunError> {
        let flags = OpenFlags::READ_WRITE | OpenFlags::CREATE;
        let file = self.vfs.open(&content.path, flags, 0o644)?;
        let filled = match (content.laid_out, content.allocated) {
            (true, _) => (0..content.bytes)
                .step_by(CHUNK as usize)
                .try_for_each(|at| {
                    let part = CHUNK.min(content.bytes - at);
                    let all = content.bytes(false, at, part);
                    file.write_at(at, &all).map(drop)
                }),
            (false, true) => file.fallocate(FallocateMode::Allocate, 0, content.bytes),
            (false, false) => Ok(()),
        };
        file.close()?;
        Ok(filled?)
    }

    fn open(&self, job: &Job, copy: u64) -> Result<Copy, RunError> {
        let flags = match job.each {
            Each::No => OpenFlags::READ_WRITE,
            Each::Data => OpenFlags::READ_WRITE | OpenFlags::DSYNC,
            Each::All => OpenFlags::READ_WRITE | OpenFlags::SYNC,
        };
        let mut files = Vec::new();
        for path in paths(job, copy) {
            let content = self.contents.get(&path);
            let content = content.expect("every path was planned").clone();
            files.push((self.vfs.open(&path, flags, 0o644)?, content));
        }
        let name = format!("{}.{copy}", job.name);
        Ok(Copy {
            files,
            sequence: Mutex::named("fio sequence", Sequence::new(job, self.seed, &name)),
            name,
            job: job.clone(),
        })
    }
}

/// The files of one copy of a job, named as fio names them.
fn paths(job: &Job, copy: u64) -> Vec<String> {
    if let Some(name) = &job.file {
        return vec![format!("/{name}")];
    }
    let name: String = job
        .name
        .chars()
        .map(|c| if c == '/' { '_' } else { c })
        .collect();
    let name: String = name.chars().take(60).collect();
    (0..job.files)
        .map(|file| format!("/{name}.{copy}.{file}"))
        .collect()
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    write: bool,
    file: usize,
    at: u64,
    bytes: u64,
    /// A sync follows: of all (`false`), or of data only.
    sync: Option<bool>,
}

/// The requests of one copy, taken by all its tasks.
struct Sequence {
    way: Way,
    block: [u64; 2],
    files: u64,
    /// Bytes of one file.
    each: u64,
    reads: u64,
    any_place: bool,
    syncs: [u64; 2],
    rng: Rng,
    /// Places of this loop that are still to come, last first.
    shuffled: Vec<u32>,
    next: [u64; 2],
    writes: u64,
    /// Bytes that may still be moved; `None`: until the time is over.
    left: Option<u64>,
    failed: Option<RunError>,
}

impl Sequence {
    fn new(job: &Job, seed: u64, name: &str) -> Sequence {
        Sequence {
            way: job.way,
            block: job.block,
            files: job.files,
            each: job.size / job.files,
            reads: job.reads,
            any_place: job.any_place
                || (job.way.reads && job.way.writes && job.block[0] != job.block[1]),
            syncs: [job.fsync, job.fdatasync],
            rng: Rng::named(seed, &format!("workload/fiojobs/{name}")),
            shuffled: Vec::new(),
            next: [0; 2],
            writes: 0,
            left: (!job.time_based).then(|| job.io.saturating_mul(job.loops)),
            failed: None,
        }
    }

    fn take(&mut self) -> Option<Request> {
        if self.failed.is_some() || self.left == Some(0) {
            return None;
        }
        let write = match (self.way.reads, self.way.writes) {
            (true, true) => self.rng.below(100) >= self.reads,
            (_, write) => write,
        };
        let direction = usize::from(write);
        let bytes = self.block[direction];
        let places = self.each / bytes * self.files;
        let place = match (self.way.random, self.any_place) {
            (false, _) => {
                let place = self.next[direction];
                self.next[direction] = (place + 1) % places;
                place
            }
            (true, true) => self.rng.below(places),
            (true, false) => self.shuffled(places),
        };
        self.left = self.left.map(|left| left.saturating_sub(bytes));
        let mut sync = None;
        if write {
            self.writes += 1;
            let due = |every: u64| every > 0 && self.writes.is_multiple_of(every);
            sync = due(self.syncs[1]).then_some(true);
            sync = due(self.syncs[0]).then_some(false).or(sync);
        }
        Some(Request {
            write,
            file: (place % self.files) as usize,
            at: place / self.files * bytes,
            bytes,
            sync,
        })
    }

    fn shuffled(&mut self, places: u64) -> u64 {
        if self.shuffled.is_empty() {
            self.shuffled = (0..places as u32).collect();
            for n in (1..self.shuffled.len()).rev() {
                let other = self.rng.below(n as u64 + 1) as usize;
                self.shuffled.swap(n, other);
            }
        }
        self.shuffled.pop().map_or(0, u64::from)
    }
}

impl Copy {
    /// The whole copy, in its own task.
    fn run(&self, told: &Sender<Told>, written: &AtomicU64) {
        if self.job.delay > Nanos::ZERO {
            rt::sleep(self.job.delay);
        }
        let end = self.job.runtime.map(|time| rt::now() + time);
        let work = || self.work(end, told, written);
        match self.job.depth {
            1 => work(),
            depth => rt::scope(|scope| {
                for n in 0..depth {
                    scope.spawn(&format!("fio {} {n}", self.name), work);
                }
            }),
        }
        if self.job.end_fsync || self.job.close_fsync {
            for (file, _) in &self.files {
                let start = rt::now();
                let synced = file.fsync().map_err(RunError::from);
                if self.told(told, FSYNC, start, synced).is_none() {
                    return;
                }
            }
        }
    }

    /// Takes requests until none is left or the time is over.
    fn work(&self, end: Option<base::Time>, told: &Sender<Told>, written: &AtomicU64) {
        let mut buffer = Vec::new();
        while end.is_none_or(|end| rt::now() < end) {
            // This is a statement of its own, so that the lock is not held during the request.
            let taken = self.sequence.lock().take();
            let Some(request) = taken else {
                return;
            };
            if self.request(&request, &mut buffer, told, written).is_none() {
                return;
            }
            if self.job.think > Nanos::ZERO {
                rt::sleep(self.job.think);
            }
        }
    }

    fn request(
        &self,
        request: &Request,
        buffer: &mut Vec<u8>,
        told: &Sender<Told>,
        written: &AtomicU64,
    ) -> Option<()> {
        let (file, content) = &self.files[request.file];
        let Request { at, bytes, .. } = *request;
        let (start, kind, moved);
        if request.write {
            let all = content.bytes(true, at, bytes);
            content.note(at, bytes);
            written.fetch_add(bytes, Ordering::Relaxed);
            (start, kind) = (rt::now(), WRITE);
            moved = file.write_at(at, &all);
        } else {
            buffer.resize(bytes as usize, 0);
            (start, kind) = (rt::now(), READ);
            moved = file.read_at(at, buffer);
        }
        let moved = match moved {
            Ok(n) if n as u64 == bytes => Ok(()),
            Ok(n) => Err(RunError::Check(format!(
                "a {kind} of {bytes} bytes at {at} of {} did {n}",
                content.path
            ))),
            Err(e) => Err(e.into()),
        };
        self.told(told, kind, start, moved)?;
        if let Some(data_only) = request.sync {
            let start = rt::now();
            let synced = match data_only {
                true => file.fdatasync(),
                false => file.fsync(),
            };
            self.told(told, FSYNC, start, synced.map_err(RunError::from))?;
        }
        Some(())
    }

    /// Tells the end of a call; `None`: it failed, and the copy ends.
    fn told(
        &self,
        told: &Sender<Told>,
        kind: &'static str,
        start: base::Time,
        result: Result<(), RunError>,
    ) -> Option<()> {
        match result {
            Ok(()) => {
                // The receiver outlives this task.
                let _ = told.send(Told::now(kind, rt::now() - start));
                Some(())
            }
            Err(e) => {
                self.sequence.lock().failed.get_or_insert(e);
                None
            }
        }
    }
}

impl Bench for FioJobs {
    fn prepare(&mut self, sync: &Sync<'_>) -> Result<(), RunError> {
        let file = self.spec.jobs()?;
        self.plan(&file)?;
        for content in self.contents.values() {
            self.lay_out(content)?;
        }
        for job in &file.jobs {
            if job.waits || self.phases.is_empty() {
                self.phases.push(Vec::new());
            }
            for copy in 0..job.copies {
                let copy = self.open(job, copy)?;
                self.phases.last_mut().expect("one was pushed").push(copy);
            }
        }
        self.assumed = file.assumed;
        sync()?;
        self.vfs.drop_caches();
        Ok(())
    }

    fn run(&mut self, _: &Sync<'_>, done: &mut Done<'_>) -> Result<(), RunError> {
        for phase in &self.phases {
            let (told, tell) = rt::channel_named("fio results", CHANNEL);
            let written = &self.written;
            rt::scope(|scope| {
                for copy in phase {
                    let told = told.clone();
                    scope.spawn(&format!("fio {}", copy.name), move || {
                        copy.run(&told, written)
                    });
                }
                drop(told);
                tell.iter().for_each(&mut *done);
            });
            for copy in phase {
                let failed = copy.sequence.lock().failed.take();
                failed.map_or(Ok(()), Err)?;
            }
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), RunError> {
        let copies = std::mem::take(&mut self.phases).into_iter().flatten();
        for (file, _) in copies.flat_map(|copy| copy.files) {
            file.close()?;
        }
        self.contents
            .values()
            .try_for_each(|content| compare(&self.vfs, content))
    }

    fn written(&self) -> Option<u64> {
        Some(self.written.load(Ordering::Relaxed))
    }

    fn notes(&self) -> Vec<String> {
        self.assumed.clone()
    }
}

/// Checks that each sector has what was written there last, or what was laid out.
fn compare(vfs: &Arc<Vfs>, content: &Content) -> Result<(), RunError> {
    let file = vfs.open(&content.path, OpenFlags::READ, 0)?;
    let compared = compare_file(&file, content);
    file.close()?;
    compared
}

fn compare_file(file: &File, content: &Content) -> Result<(), RunError> {
    let written = content.written.lock();
    let mut found = vec![0; CHUNK as usize];
    for from in (0..content.bytes).step_by(CHUNK as usize) {
        let length = file.read_at(from, &mut found)? as u64;
        let part = CHUNK.min(content.bytes - from) / SECTOR * SECTOR;
        let both = [false, true].map(|state| content.bytes(state, from, part));
        for at in (0..part).step_by(SECTOR as usize) {
            let sector = (from + at) / SECTOR;
            let is_written = written[(sector / 64) as usize] >> (sector % 64) & 1 == 1;
            if !is_written && !content.laid_out {
                continue;
            }
            let range = at as usize..(at + SECTOR) as usize;
            let wanted = &both[usize::from(is_written)][range.clone()];
            if at + SECTOR > length || found[range] != *wanted {
                let (path, at) = (&content.path, from + at);
                return Err(RunError::Check(format!(
                    "the 512 bytes at {at} of {path} are not those that were written"
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;
    use rt::{Sim, SimConfig};
    use std::io::Write;

    fn sequence(text: &str) -> (Vec<Request>, Sequence) {
        let file = parse(text).unwrap();
        let mut sequence = Sequence::new(&file.jobs[0], 1, "a.0");
        let all = std::iter::from_fn(|| sequence.take())
            .take(10_000)
            .collect();
        (all, sequence)
    }

    #[test]
    fn requests_go_over_all_files_and_are_synced_as_asked() {
        let (all, _) =
            sequence("[a]\nrw=write\nsize=64k\nnrfiles=2\nfsync=4\nfdatasync=3\nloops=2\n");
        assert_eq!(all.len(), 32);
        assert_eq!((all[1].file, all[1].at), (1, 0));
        assert_eq!((all[2].file, all[2].at), (0, 4096));
        assert_eq!((all[2].sync, all[3].sync), (Some(true), Some(false)));
        assert_eq!(all[11].sync, Some(false), "both are due: fsync holds");
        assert_eq!(
            all[16],
            Request {
                sync: all[16].sync,
                ..all[0]
            },
            "the second loop"
        );
    }

    #[test]
    fn random_places_come_once_each_unless_asked_otherwise() {
        let places = |text: &str| {
            let mut all: Vec<u64> = sequence(text).0.iter().map(|r| r.at).collect();
            all.sort_unstable();
            all.dedup();
            all.len()
        };
        assert_eq!(places("[a]\nrw=randwrite\nsize=256k\n"), 64);
        let some = places("[a]\nrw=randwrite\nsize=256k\nnorandommap\n");
        assert!(some < 60, "{some} of 64");
    }

    /// What was done, how long it took, the bytes written, and whether the content is right;
    /// `spoil` changes a byte behind the back of the jobs.
    fn run(text: &str, spoil: bool) -> (Vec<&'static str>, Nanos, u64, Result<(), RunError>) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let spec = FioJobsSpec::of_file(file.path()).unwrap();
        let config = SimConfig {
            cpu_percent: 0,
            ..SimConfig::seeded(1)
        };
        let sim = Sim::new(config);
        sim.run(|| {
            let vfs = Vfs::new(testkit::model::ModelFs::new());
            let mut jobs = FioJobs::new(&spec, vfs.clone(), 1);
            let sync = || Ok(());
            jobs.prepare(&sync).unwrap();
            let (mut kinds, start) = (Vec::new(), rt::now());
            jobs.run(&sync, &mut |told| kinds.push(told.kind)).unwrap();
            let took = rt::now() - start;
            if spoil {
                let file = vfs.open("/a.0.0", OpenFlags::READ_WRITE, 0).unwrap();
                file.write_at(4097, b"!").unwrap();
                file.close().unwrap();
            }
            let checked = jobs.check();
            assert_eq!(vfs.open_files(), 0);
            (kinds, took, jobs.written().unwrap(), checked)
        })
        .unwrap()
    }

    #[test]
    fn jobs_run_in_their_phases_and_their_content_is_compared() {
        let text = "[a]\nrw=write\nsize=16k\nthinktime=10ms\nnumjobs=2\nend_fsync=1\n\
                    [b]\nstonewall\nrw=read\nsize=8k\nstartdelay=1\n";
        let (kinds, took, written, checked) = run(text, false);
        let first: Vec<_> = kinds[..10].iter().filter(|k| **k != WRITE).collect();
        assert_eq!(
            first,
            [&FSYNC, &FSYNC],
            "two copies, each synced at its end"
        );
        assert_eq!(kinds[10..], [READ, READ]);
        assert_eq!(took, Nanos::from_millis(40 + 1000));
        assert_eq!(written, 32 << 10);
        checked.unwrap();
        let (.., checked) = run(text, true);
        let e = checked.unwrap_err().to_string();
        assert!(e.contains("at 4096 of /a.0.0"), "{e}");
    }

    #[test]
    fn a_timed_job_goes_on_until_its_time_is_over() {
        let text = "[a]\nrw=randrw\nsize=16k\nioengine=libaio\niodepth=2\nthinktime=10ms\n\
                    runtime=1\ntime_based\n";
        let (kinds, took, ..) = run(text, false);
        assert_eq!(took, Nanos::from_secs(1));
        assert_eq!(kinds.len(), 200, "two tasks, each a request in 10 ms");
        assert!(kinds.contains(&READ) && kinds.contains(&WRITE));
    }
}
