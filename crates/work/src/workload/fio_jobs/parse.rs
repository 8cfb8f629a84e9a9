//! Reads the job files of fio: sections of `option=value`, of which `[global]` holds defaults for
//! the jobs behind it.
//!
//! An option that changes what is measured and that is not known here is named with what was
//! assumed in its place ([`JobFile::assumed`]); options that only shape fio's own output are not.

use super::options;
use base::Nanos;
use std::collections::BTreeMap;

/// Longest file, bytes.
pub const TEXT_MAX: usize = 1 << 20;
/// Most tasks of a file: of all jobs, their copies and requests under way.
const TASKS_MAX: u64 = 1024;
/// Most files of one copy of a job.
const FILES_MAX: u64 = 10_000;
const BYTES_MAX: u64 = 1 << 40;
/// Most files of all jobs and their copies, because all are open.
const ALL_FILES_MAX: u64 = 65_536;
/// Most options of a section with the defaults that it inherits.
const OPTIONS_MAX: usize = 500;
/// Longest time.
const DAY: Nanos = Nanos::from_secs(86_400);
/// Most places of one copy of a job, because each is kept.
const PLACES_MAX: u64 = 16 << 20;
const SECTOR: u64 = 512;

/// What a job does to its files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Way {
    /// It reads.
    pub reads: bool,
    /// It writes.
    pub writes: bool,
    /// Places come in random order.
    pub random: bool,
}

/// How each write of a job is synced by its open (`sync=`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Each {
    /// Not at all.
    #[default]
    No,
    /// `O_DSYNC`.
    Data,
    /// `O_SYNC`.
    All,
}

/// One job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// The name of its section.
    pub name: String,
    /// What it does.
    pub way: Way,
    /// Bytes of a read and of a write.
    pub block: [u64; 2],
    /// Bytes of all files of one copy.
    pub size: u64,
    /// Bytes that are moved in one loop; `size` unless `io_size` says otherwise.
    pub io: u64,
    /// How often it goes over its files.
    pub loops: u64,
    /// Files of one copy.
    pub files: u64,
    /// The name of the only file, if the job names one.
    pub file: Option<String>,
    /// Copies of the job.
    pub copies: u64,
    /// Requests under way in one copy.
    pub depth: u64,
    /// An fsync follows so many writes; 0: none.
    pub fsync: u64,
    /// An fdatasync follows so many writes; 0: none.
    pub fdatasync: u64,
    /// How each write is synced.
    pub each: Each,
    /// An fsync ends the job, within the measured time.
    pub end_fsync: bool,
    /// Each file is synced when it is closed.
    pub close_fsync: bool,
    /// Reads in a hundred requests of a mix.
    pub reads: u64,
    /// The job ends after this time.
    pub runtime: Option<Nanos>,
    /// It goes on until `runtime`, however often it has gone over its files.
    pub time_based: bool,
    /// Places of a random job may come again before all have come.
    pub any_place: bool,
    /// Files to write are laid out before.
    pub overwrite: bool,
    /// Files to write are allocated before.
    pub allocate: bool,
    /// Pause behind each request.
    pub think: Nanos,
    /// It begins so much later.
    pub delay: Nanos,
    /// It begins when all jobs before it have ended.
    pub waits: bool,
}

/// The jobs of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobFile {
    /// The jobs, in the order of the file.
    pub jobs: Vec<Job>,
    /// Options that are not known, each with what was assumed.
    pub assumed: Vec<String>,
}

/// True for a text with a section and an `rw` or `readwrite` in it.
pub fn is_jobs(text: &str) -> bool {
    let mut section = false;
    for line in text.lines().map(str::trim) {
        section |= line.starts_with('[') && line.ends_with(']');
        let option = line.split(['=', ':']).next().unwrap_or("").trim();
        if section && matches!(option, "rw" | "readwrite") && line.contains('=') {
            return true;
        }
    }
    false
}

type Options = BTreeMap<String, (usize, String)>;

/// Parses a job file; the error names the line.
pub fn parse(text: &str) -> Result<JobFile, String> {
    let mut global = Options::new();
    let mut sections: Vec<(usize, String, Options)> = Vec::new();
    let mut in_global = None;
    for (n, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if line.starts_with('[') && !line.ends_with(']') {
            return Err(format!(
                "line {n}: the head of a section is cut off: {line}"
            ));
        }
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            in_global = Some(name == "global");
            if name != "global" {
                if sections.len() as u64 == TASKS_MAX {
                    return Err(format!("line {n}: more than {TASKS_MAX} jobs"));
                }
                sections.push((n, name.into(), global.clone()));
            }
            continue;
        }
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name.trim(), plain(value)),
            None => (line, "1"),
        };
        let wrong = |why: &str| Err(format!("line {n}: {why}: {line}"));
        if name.starts_with("include") {
            return wrong("other job files are not read");
        }
        if value.contains("${") || value.contains("$ncpus") {
            return wrong("variables are not known here; write the value");
        }
        let options = match (in_global, sections.last_mut()) {
            (Some(true), _) => &mut global,
            (Some(false), Some((_, _, options))) => options,
            _ => return wrong("an option before the first section"),
        };
        options.insert(name.into(), (n, value.into()));
        if options.len() > OPTIONS_MAX {
            return wrong("more options than there are in fio");
        }
    }
    if sections.is_empty() {
        return Err("there is no job in it, only [global]".into());
    }
    let mut file = JobFile {
        jobs: Vec::new(),
        assumed: Vec::new(),
    };
    for (line, name, options) in sections {
        let job = Reader {
            name: &name,
            options: &options,
        };
        let job = job
            .job(&mut file.assumed)
            .map_err(|e| format!("job {name} (line {line}): {e}"))?;
        file.jobs.push(job);
    }
    file.assumed.sort();
    file.assumed.dedup();
    let files: u64 = file.jobs.iter().map(|job| job.copies * job.files).sum();
    if files > ALL_FILES_MAX {
        return Err(format!(
            "{files} files (numjobs times nrfiles); at most {ALL_FILES_MAX}"
        ));
    }
    let tasks: u64 = file.jobs.iter().map(|job| job.copies * job.depth).sum();
    match tasks <= TASKS_MAX {
        true => Ok(file),
        false => Err(format!(
            "{tasks} tasks (numjobs times iodepth); at most {TASKS_MAX}"
        )),
    }
}

/// A value without the remark behind it.
fn plain(value: &str) -> &str {
    let end = value.find(" #").or(value.find(" ;")).or(value.find("\t#"));
    value[..end.unwrap_or(value.len())].trim().trim_matches('"')
}

/// The options of one job.
struct Reader<'a> {
    name: &'a str,
    options: &'a Options,
}

impl Reader<'_> {
    /// The value of the option under any of its names.
    fn get(&self, names: &[&str]) -> Option<&str> {
        let found = names.iter().filter_map(|name| self.options.get(*name));
        // The later line holds, as in fio.
        found
            .max_by_key(|(line, _)| *line)
            .map(|(_, value)| value.as_str())
    }

    fn number(&self, names: &[&str], usual: u64, most: u64) -> Result<u64, String> {
        match self.get(names) {
            None => Ok(usual),
            Some(value) => number(names[0], value, most),
        }
    }

    fn on(&self, names: &[&str]) -> Result<bool, String> {
        Ok(self.number(names, 0, u64::MAX)? != 0)
    }

    fn bytes(&self, names: &[&str], usual: u64) -> Result<u64, String> {
        match self.get(names) {
            None => Ok(usual),
            Some(value) => self.size(names[0], value),
        }
    }

    fn time(&self, names: &[&str], unit: Nanos) -> Result<Nanos, String> {
        match self.get(names) {
            None => Ok(Nanos::ZERO),
            Some(value) => time(names[0], value, unit),
        }
    }

    fn job(&self, assumed: &mut Vec<String>) -> Result<Job, String> {
        let way = way(self.get(&["rw", "readwrite"]).unwrap_or("read"))?;
        let block = self.block()?;
        let (files, file) = self.files()?;
        let size = match self.get(&["size"]) {
            Some(text) => self.size("size", text)?,
            None => match self.bytes(&["filesize"], 0)? {
                0 => return Err("it has no size".into()),
                each => each
                    .checked_mul(files)
                    .filter(|b| *b <= BYTES_MAX)
                    .ok_or("size too large")?,
            },
        };
        let largest = block[0].max(block[1]);
        if size / files < largest {
            return Err(format!(
                "a file of {} bytes is smaller than bs={largest}",
                size / files
            ));
        }
        let places = size / block[0].min(block[1]);
        if places > PLACES_MAX {
            return Err(format!("{places} places of bs; at most {PLACES_MAX}"));
        }
        let seconds = Nanos::from_secs(1);
        let runtime =
            Some(self.time(&["runtime", "timeout"], seconds)?).filter(|t| *t > Nanos::ZERO);
        let time_based = self.on(&["time_based"])?;
        if time_based && runtime.is_none() {
            return Err("time_based needs runtime".into());
        }
        let given = self.options.iter();
        options::assume(given.map(|(name, (_, value))| (&**name, &**value)), assumed);
        Ok(Job {
            name: self.name.into(),
            way,
            block,
            size,
            io: match self.bytes(&["io_size", "io_limit"], size)? {
                0 => size,
                io => io,
            },
            loops: self.number(&["loops"], 1, 1_000_000)?.max(1),
            files,
            file,
            copies: self.number(&["numjobs"], 1, TASKS_MAX)?.max(1),
            depth: self.depth()?,
            fsync: self.number(&["fsync"], 0, u64::MAX)?,
            fdatasync: self.number(&["fdatasync"], 0, u64::MAX)?,
            each: self.each()?,
            end_fsync: self.on(&["end_fsync"])?,
            close_fsync: self.on(&["fsync_on_close"])?,
            reads: self.share()?,
            runtime,
            time_based,
            any_place: self.on(&["norandommap"])?,
            overwrite: self.on(&["overwrite"])?,
            allocate: !matches!(
                self.get(&["fallocate"]),
                Some("none" | "0" | "keep" | "truncate")
            ),
            think: self.time(&["thinktime"], Nanos::from_micros(1))?,
            delay: self.time(&["startdelay"], seconds)?,
            waits: self.on(&["stonewall"])? || self.on(&["wait_for_previous"])?,
        })
    }

    /// A size, by the units of `kb_base`.
    fn size(&self, name: &str, text: &str) -> Result<u64, String> {
        match self.get(&["kb_base"]).unwrap_or("1024") {
            "1024" => bytes(name, text, 1024),
            "1000" => bytes(name, text, 1000),
            other => Err(format!("kb_base={other}: it may be 1024 or 1000")),
        }
    }

    fn block(&self) -> Result<[u64; 2], String> {
        let text = self.get(&["bs", "blocksize"]).unwrap_or("4k");
        let mut parts = text.split(',');
        let read = self.size("bs", parts.next().unwrap_or(""))?;
        let write = match parts.next().filter(|text| !text.is_empty()) {
            Some(text) => self.size("bs", text)?,
            None => read,
        };
        let legal = |b: u64| b > 0 && b.is_multiple_of(SECTOR) && b <= 64 << 20;
        match legal(read) && legal(write) {
            true => Ok([read, write]),
            false => Err(format!(
                "bs={text}: it may be a multiple of 512 bytes up to 64 MiB"
            )),
        }
    }

    fn files(&self) -> Result<(u64, Option<String>), String> {
        let files = self.number(&["nrfiles"], 1, FILES_MAX)?.max(1);
        let Some(name) = self.get(&["filename"]) else {
            return Ok((files, None));
        };
        if name.starts_with("/dev/") {
            return Err(format!("filename={name}: a device; jobs run on files here"));
        }
        if name.contains(':') || files > 1 {
            return Err(format!(
                "filename={name}: one file with a name of its own is known here"
            ));
        }
        let last = name.rsplit('/').next().unwrap_or(name);
        match last.is_empty() || last.len() > 255 {
            true => Err(format!("filename={name}: no name of a file")),
            false => Ok((1, Some(last.into()))),
        }
    }

    /// Requests under way: `iodepth`, but one for engines whose calls are synchronous, as in fio.
    fn depth(&self) -> Result<u64, String> {
        let depth = self.number(&["iodepth"], 1, TASKS_MAX)?.max(1);
        match self.get(&["ioengine"]).unwrap_or("psync") {
            "libaio" | "io_uring" | "posixaio" => Ok(depth),
            "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" => Ok(1),
            other => Err(format!(
                "ioengine={other}: known are sync, psync, vsync, pvsync, pvsync2, libaio, io_uring, posixaio"
            )),
        }
    }

    fn each(&self) -> Result<Each, String> {
        match self.get(&["sync"]).unwrap_or("0") {
            "0" | "none" => Ok(Each::No),
            "dsync" => Ok(Each::Data),
            "1" | "sync" => Ok(Each::All),
            other => Err(format!("sync={other}: known are none, dsync, sync")),
        }
    }

    fn share(&self) -> Result<u64, String> {
        match self.get(&["rwmixwrite"]) {
            Some(text) => Ok(100 - number("rwmixwrite", text, 100)?),
            None => self.number(&["rwmixread"], 50, 100),
        }
    }
}

fn way(text: &str) -> Result<Way, String> {
    let (kind, offset) = text
        .split_once(':')
        .map_or((text, None), |(k, o)| (k, Some(o)));
    let (reads, writes, random) = match kind {
        "read" => (true, false, false),
        "write" => (false, true, false),
        "randread" => (true, false, true),
        "randwrite" => (false, true, true),
        "rw" | "readwrite" => (true, true, false),
        "randrw" => (true, true, true),
        other => {
            return Err(format!(
                "rw={other}: known are read, write, randread, randwrite, rw, randrw"
            ));
        }
    };
    match offset {
        Some(offset) => Err(format!(
            "rw={kind}:{offset}: offsets behind rw are not known here"
        )),
        None => Ok(Way {
            reads,
            writes,
            random,
        }),
    }
}

fn number(name: &str, text: &str, most: u64) -> Result<u64, String> {
    let value = text.trim().parse::<u64>();
    let value = value.map_err(|_| format!("{name}={text}: no number"))?;
    match value <= most {
        true => Ok(value),
        false => Err(format!("{name}={text}: at most {most}")),
    }
}

/// A size as fio writes it: `4k`, `1g`. Units without an `i` are powers of `base`, which is 1024 by
/// default, and those with one (`KiB`) are powers of the other base, as fio has it so that old job
/// files keep their sizes (fio's `kb_base`).
fn bytes(name: &str, text: &str, base: u64) -> Result<u64, String> {
    let text = text.trim();
    if text.ends_with('%') {
        return Err(format!(
            "{name}={text}: a share of the volume; write a size, as 64m"
        ));
    }
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let unit = text[digits..].to_ascii_lowercase();
    let unit = unit.trim_end_matches('b');
    let (unit, base) = match unit.strip_suffix('i') {
        Some(unit) => (unit, if base == 1024 { 1000 } else { 1024 }),
        None => (unit, base),
    };
    let power = match unit {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return Err(format!("{name}={text}: no size (k, m, g)")),
    };
    let value = text[..digits]
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(base.pow(power)));
    let value = value.ok_or_else(|| format!("{name}={text}: no size"))?;
    match value <= BYTES_MAX {
        true => Ok(value),
        false => Err(format!("{name}={text}: at most 1t")),
    }
}

/// A time as fio writes it: `30`, `30s`, `5m`, `100ms`, `50us`.
fn time(name: &str, text: &str, unit: Nanos) -> Result<Nanos, String> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let unit = match &text[digits..] {
        "" => unit,
        "us" => Nanos::from_micros(1),
        "ms" => Nanos::from_millis(1),
        "s" => Nanos::from_secs(1),
        "m" => Nanos::from_secs(60),
        "h" => Nanos::from_secs(3600),
        _ => return Err(format!("{name}={text}: no time (us, ms, s, m, h)")),
    };
    let count = text[..digits].parse::<u64>();
    let count = count.map_err(|_| format!("{name}={text}: no time"))?;
    match unit.0.checked_mul(count).filter(|t| *t <= DAY.0) {
        Some(time) => Ok(Nanos(time)),
        None => Err(format!("{name}={text}: at most a day")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A file with every kind of line, for damage.
    const WHOLE: &str = "; a remark\n[global]\nioengine=libaio\niodepth=8\nsize=64m # all\n\
         [log]\nrw=write\nbs=4k\nfsync=1\nnumjobs=2\nnrfiles=3\nio_size=1g\n\
         [db]\nstonewall\nrw=randrw\nbs=8k,16k\nrwmixwrite=30\nruntime=1m\ntime_based\n\
         thinktime=50\nsync=dsync\nfilename=/data/one.db\ndirect=1\n";

    /// The line that an error names.
    fn line_of(error: &str) -> Option<usize> {
        let behind = error.strip_prefix("line ");
        let number = behind.or_else(|| error.split_once("(line ").map(|(_, rest)| rest))?;
        number
            .split(|c: char| !c.is_ascii_digit())
            .next()?
            .parse()
            .ok()
    }

    /// What a section says, and how fio's option for the access is spelled.
    #[derive(Clone, Debug)]
    struct Said {
        access: &'static str,
        block_kib: u64,
        size_mib: u64,
        copies: u64,
        depth: u64,
        fsync: u64,
        waits: bool,
    }

    impl Said {
        fn text(&self, name: usize) -> String {
            let Said {
                access,
                block_kib,
                size_mib,
                copies,
                depth,
                fsync,
                ..
            } = self;
            let waits = if self.waits { "stonewall\n" } else { "" };
            format!(
                "[job {name}]\n{waits}rw={access}\nbs={block_kib}k\nsize={size_mib}m\nnumjobs={copies}\n\
                 ioengine=libaio\niodepth={depth}\nfsync={fsync}\n"
            )
        }
    }

    fn said() -> impl Strategy<Value = Said> {
        let access = prop::sample::select(vec!["write", "randwrite"]);
        let numbers = (0u32..6, 1u64..64, 1u64..5, 1u64..33, 0u64..9);
        (access, numbers, any::<bool>()).prop_map(
            |(access, (block, size_mib, copies, depth, fsync), waits)| Said {
                access,
                block_kib: 4 << block,
                size_mib,
                copies,
                depth,
                fsync,
                waits,
            },
        )
    }

    /// fio's own units, which are not those of IEC 80000-13 unless `kb_base` says so.
    #[test]
    fn units_are_those_of_fio() {
        let size = |text: &str, base| bytes("size", text, base);
        for (text, old, new) in [
            ("4k", 4096, 4000),
            ("4KB", 4096, 4000),
            ("4KiB", 4000, 4096),
            ("1mi", 1_000_000, 1 << 20),
            ("1g", 1 << 30, 1_000_000_000),
            ("512", 512, 512),
        ] {
            let both = (size(text, 1024), size(text, 1000));
            assert_eq!(both, (Ok(old), Ok(new)), "{text}");
        }
        let job = |more: &str| parse(&format!("[a]\nrw=write\nsize=64k\n{more}"));
        assert_eq!(job("kb_base=1000\nbs=1KiB").unwrap().jobs[0].block[0], 1024);
        let refused = job("bs=4KiB").unwrap_err();
        assert!(refused.contains("multiple of 512"), "{refused}");
        let refused = job("kb_base=7").unwrap_err();
        assert!(refused.contains("1024 or 1000"), "{refused}");
        let cut = job("[b\nrw=read").unwrap_err();
        assert!(cut.starts_with("line 4: the head"), "{cut}");
        let named = job("exitall\nfile_service_type=random").unwrap().assumed;
        assert_eq!(named.len(), 2, "{named:?}");
    }

    proptest! {
        /// Each job has what its own section says, and nothing of another's.
        #[test]
        fn options_are_read_as_written(all in prop::collection::vec(said(), 1..6)) {
            let text: String = (0..).zip(&all).map(|(n, said)| said.text(n)).collect();
            let file = parse(&text).map_err(TestCaseError::fail)?;
            prop_assert_eq!(file.jobs.len(), all.len());
            for (n, (job, said)) in file.jobs.iter().zip(&all).enumerate() {
                prop_assert_eq!(&job.name, &format!("job {n}"));
                prop_assert!(job.way.writes && !job.way.reads);
                prop_assert_eq!(job.way.random, said.access == "randwrite");
                prop_assert_eq!(job.block, [said.block_kib << 10; 2]);
                prop_assert_eq!(job.size, said.size_mib << 20);
                prop_assert_eq!((job.copies, job.depth), (said.copies, said.depth));
                prop_assert_eq!((job.fsync, job.waits), (said.fsync, said.waits));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// Whatever the bytes, the file is refused in words, or its jobs are within the bounds
        /// that the engine relies on.
        #[test]
        fn damaged_files_are_read_or_refused(
            damage in proptest::collection::vec(
                (any::<usize>(), "[ -~\n]{0,4}|[0-9]{1,21}|=|\\[x\\]\n|\u{e9}", any::<bool>()), 0..8)
        ) {
            let mut text: Vec<char> = WHOLE.chars().collect();
            for (at, piece, replaces) in damage {
                let at = at % (text.len() + 1);
                let length = piece.chars().count();
                let end = if replaces { (at + length).min(text.len()) } else { at };
                text.splice(at..end, piece.chars());
            }
            let text: String = text.into_iter().collect();
            match parse(&text) {
                Err(e) => {
                    let lines = 1..=text.lines().count();
                    prop_assert!(!e.is_empty());
                    prop_assert!(line_of(&e).is_none_or(|n| lines.contains(&n)), "{}", e);
                }
                Ok(file) => {
                    prop_assert!(!file.jobs.is_empty());
                    for job in &file.jobs {
                        prop_assert!(job.block.iter().all(|b| *b > 0 && b % SECTOR == 0));
                        prop_assert!(job.files > 0 && job.copies > 0 && job.depth > 0);
                        prop_assert!(job.loops > 0 && job.reads <= 100);
                        prop_assert!(job.size / job.files >= job.block[0].max(job.block[1]));
                        prop_assert!(job.io > 0 && job.io <= BYTES_MAX);
                        prop_assert!(!job.time_based || job.runtime.is_some());
                    }
                }
            }
        }
    }

    #[test]
    fn batches_and_errors_are_assumed_by_name() {
        let head = "[a]\nrw=read\nsize=1m\n";
        for (option, words) in [
            ("iodepth_batch=8", "one by one"),
            ("iodepth_batch_complete_max=4", "one by one"),
            ("iodepth_low=2", "as soon as one has ended"),
            ("continue_on_error=all", "first error fails"),
        ] {
            let file = parse(&format!("{head}{option}\n")).unwrap();
            let [assumed] = &file.assumed[..] else {
                panic!("{option}: {:?}", file.assumed);
            };
            assert!(
                assumed.starts_with(option) && assumed.contains(words),
                "{assumed}"
            );
        }
        let file = parse(&format!("{head}iodepth_batch=1\ncontinue_on_error=none\n")).unwrap();
        assert!(file.assumed.is_empty(), "{:?}", file.assumed);
    }

    #[test]
    fn sections_inherit_and_options_have_units() {
        let file = parse(
            "; a remark\n[global]\nioengine=libaio\niodepth=8\nsize=64m # all\nrw=randwrite\n\
             [log]\nrw=write\nbs=4k\nfsync=1\nnumjobs=2\nioengine=sync\n\
             [db]\nstonewall\nreadwrite=randrw\nbs=8k,16k\nrwmixwrite=30\nruntime=1m\ntime_based\n\
             thinktime=50\nsync=dsync\nfilename=/data/one.db\n",
        )
        .unwrap();
        let [log, db] = &file.jobs[..] else {
            panic!("two jobs");
        };
        assert!(log.way.writes && !log.way.random && !log.way.reads);
        assert_eq!(
            (log.depth, log.copies, log.fsync, log.size),
            (1, 2, 1, 64 << 20)
        );
        assert_eq!((db.block, db.depth, db.reads), ([8192, 16384], 8, 70));
        assert_eq!(db.runtime, Some(Nanos::from_secs(60)));
        assert_eq!(db.think, Nanos::from_micros(50));
        assert!(db.time_based && db.waits && db.each == Each::Data);
        assert_eq!(db.file.as_deref(), Some("one.db"));
        assert!(file.assumed.is_empty(), "{:?}", file.assumed);
    }

    #[test]
    fn what_is_not_known_is_named() {
        let file = parse("[a]\nrw=read\nsize=1m\ndirect=1\nfrobnicate=7\nrate=0\n").unwrap();
        assert_eq!(file.assumed.len(), 2, "{:?}", file.assumed);
        assert!(file.assumed[0].starts_with("direct=1: requests go through"));
        assert!(file.assumed[1].starts_with("frobnicate=7"));
        for (text, words) in [
            ("[global]\nrw=read\n", "no job"),
            ("rw=read\n", "line 1: an option before"),
            ("[a]\nrw=read\n", "job a (line 1): it has no size"),
            ("[a]\nrw=trim\nsize=1m\n", "known are read"),
            ("[a]\nrw=read:4k\nsize=1m\n", "offsets behind rw"),
            ("[a]\nsize=10%\n", "share of the volume"),
            ("[a]\nsize=1x\n", "no size"),
            ("[a]\nsize=2t\n", "at most 1t"),
            ("[a]\nsize=4k\nbs=8k\n", "smaller than bs"),
            ("[a]\nsize=1m\nbs=100\n", "multiple of 512"),
            ("[a]\nsize=1m\nioengine=splice\n", "ioengine=splice"),
            ("[a]\nsize=1m\ntime_based=1\n", "needs runtime"),
            ("[a]\nsize=${SIZE}\n", "line 2: variables"),
            (
                "[a]\nsize=1m\nnumjobs=1000\nioengine=libaio\niodepth=9\n",
                "9000 tasks",
            ),
            ("[a]\nsize=64m\nnumjobs=99\nnrfiles=999\n", "98901 files"),
            ("[a]\nsize=1m\nfilename=/dev/sda\n", "a device"),
            ("[a]\nsize=1m\nruntime=3y\n", "no time"),
            ("[a]\nsize=1m\nsync=7\n", "known are none"),
            ("[a]\nsize=1m\ninclude other\n", "not read"),
        ] {
            let e = parse(text).unwrap_err();
            assert!(e.contains(words), "{text}: {e}");
        }
        let sections: String = (0..2000).map(|n| format!("[{n}]\nsize=1m\n")).collect();
        assert!(
            parse(&sections)
                .unwrap_err()
                .contains("more than 1024 jobs")
        );
        let options: String = (0..600).map(|n| format!("o{n}=1\n")).collect();
        let e = parse(&format!("[a]\n{options}")).unwrap_err();
        assert!(e.contains("line 502: more options"), "{e}");
        let whole = parse("[a]\nsize=1m\nio_size=0\n").unwrap();
        assert_eq!(whole.jobs[0].io, 1 << 20);
        assert!(is_jobs("[a]\nrw=read\n") && !is_jobs("rw=read\n") && !is_jobs("[a]\nb=c\n"));
    }
}
