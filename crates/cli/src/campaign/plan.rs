//! The file of a plan: a head, then each command line with the jobs that it asks for, one a line,
//! and an end that says whether all of it is there. A device of a file of its own stands in it as a
//! whole, before the first job that names it, so that every host judges the same device.
//!
//! It is read line by line, so a plan may be larger than memory. Nobody may act on a line before
//! the whole file was read once: only its end shows whether it was changed.

use super::store::{Store, sum};
use super::task::{Input, Task};
use crate::failure::{Failure, failed, usage};
use flate2::bufread::MultiGzDecoder;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

/// Version of the layout.
const VERSION: u32 = 2;
/// How the line of a command line begins.
const CELL: &str = "{\"cell\":";

/// The first line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Head {
    /// Version of the layout.
    pub version: u32,
    /// Identity of the program whose jobs these are.
    pub build: String,
    /// `compare`, `crash` or `paper`.
    pub command: String,
}

/// A job as it is planned.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Planned {
    /// Its number in the plan, from 1.
    pub number: u64,
    /// Its id.
    pub id: String,
    /// Seconds that it takes on one core, roughly.
    pub cost: f64,
    /// The files that it reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Input>,
    /// What to run.
    pub task: Task,
}

/// The last line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct End {
    jobs: u64,
    sum: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Plan(Head),
    Cell(Vec<String>),
    Profile(Profile),
    Job(Box<Planned>),
    End(End),
}

/// The text of a profile that jobs name by its file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Profile {
    /// The file, as the jobs name it.
    #[serde(flatten)]
    pub of: Input,
    /// Its content.
    pub text: String,
}

/// What stands between head and end.
pub enum Entry {
    /// The options of a command line; the jobs that follow are those that it asks for.
    Cell(Vec<String>),
    /// A job.
    Job(Box<Planned>),
}

/// Writes a plan.
pub struct Writer<W: Write> {
    out: W,
    hasher: blake3::Hasher,
    head: Head,
    profiles: BTreeMap<PathBuf, String>,
    jobs: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a plan of jobs of `command` for this build.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin(out: W, build: String, command: &str) -> Result<Writer<W>, Failure> {
        let head = Head {
            version: VERSION,
            build,
            command: command.into(),
        };
        let mut writer = Writer {
            out,
            hasher: blake3::Hasher::new(),
            head: head.clone(),
            profiles: BTreeMap::new(),
            jobs: 0,
        };
        writer.line(&Line::Plan(head))?;
        Ok(writer)
    }

    /// A command line; its jobs follow.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn cell(&mut self, words: Vec<String>) -> Result<(), Failure> {
        self.line(&Line::Cell(words))
    }

    /// The next job, and its id.
    ///
    /// # Errors
    /// A file that it names cannot be read; it cannot be written.
    pub fn job(&mut self, task: Task, cost: f64) -> Result<String, Failure> {
        let inputs = task.inputs()?;
        for input in inputs.iter().filter(|input| input.profile) {
            self.profile(input)?;
        }
        let id = task.id(&self.head.build, &inputs)?;
        self.jobs += 1;
        self.line(&Line::Job(Box::new(Planned {
            number: self.jobs,
            id: id.clone(),
            cost,
            inputs,
            task,
        })))?;
        Ok(id)
    }

    /// Writes the text of a profile, once.
    fn profile(&mut self, input: &Input) -> Result<(), Failure> {
        let name = input.path.display();
        match self.profiles.get(&input.path) {
            Some(sum) if *sum == input.sum => return Ok(()),
            Some(_) => return Err(failed(format!("{name} was changed while it was planned"))),
            None => {}
        }
        let text = std::fs::read_to_string(&input.path);
        let text = text.map_err(|e| failed(format!("{name}: {e}")))?;
        self.profiles.insert(input.path.clone(), input.sum.clone());
        self.line(&Line::Profile(Profile {
            of: input.clone(),
            text,
        }))
    }

    /// Ends the plan: the number of its jobs.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn end(mut self) -> Result<u64, Failure> {
        let sum = self.hasher.finalize().to_hex().to_string();
        let jobs = self.jobs;
        self.line(&Line::End(End { jobs, sum }))?;
        self.out.flush().map_err(unwritten)?;
        Ok(jobs)
    }

    fn line(&mut self, line: &Line) -> Result<(), Failure> {
        let mut text = serde_json::to_string(line).expect("plain data serialises");
        text.push('\n');
        self.hasher.update(text.as_bytes());
        self.out.write_all(text.as_bytes()).map_err(unwritten)
    }
}

fn unwritten(e: std::io::Error) -> Failure {
    failed(format!("writing the plan: {e}"))
}

/// A plan in a file.
pub struct Plan {
    path: PathBuf,
    /// Its first line.
    pub head: Head,
    /// The profiles that [`each`](Self::each) came by, by the names of their files.
    profiles: RefCell<BTreeMap<PathBuf, Profile>>,
}

impl Plan {
    /// Reads the head.
    ///
    /// # Errors
    /// The file cannot be read, or is no plan.
    pub fn open(path: &Path) -> Result<Plan, Failure> {
        let mut plan = Plan {
            path: path.into(),
            head: Head {
                version: VERSION,
                build: String::new(),
                command: String::new(),
            },
            profiles: RefCell::default(),
        };
        let first = plan.lines()?.next();
        let (_, text) = first.ok_or_else(|| plan.wrong(1, "it is empty"))??;
        match serde_json::from_str(&text) {
            Ok(Line::Plan(head)) if head.version == VERSION => plan.head = head,
            Ok(Line::Plan(head)) => {
                let version = head.version;
                let why = format!("it has version {version}, this program reads {VERSION}");
                return Err(plan.wrong(1, &why));
            }
            _ => {
                return Err(plan.wrong(
                    1,
                    "it is no plan; `varve campaign plan SPEC > FILE` makes one",
                ));
            }
        }
        Ok(plan)
    }

    /// Refuses the plan of another program, whose results would be others.
    ///
    /// # Errors
    /// It is of another.
    pub fn of_this_build(&self, build: &str) -> Result<(), Failure> {
        match self.head.build == build {
            true => Ok(()),
            false => Err(usage(format!(
                "{}: it was made by another program (build {}) than this one (build {build}); use that program on every host, or plan anew",
                self.path.display(),
                self.head.build
            ))),
        }
    }

    /// Goes through all commands and jobs in their order. Nothing may be done with them before this
    /// has returned once without an error.
    ///
    /// # Errors
    /// The plan was changed or cut off, or cannot be read; those of `each`.
    pub fn each(&self, mut each: impl FnMut(Entry) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut hasher = blake3::Hasher::new();
        let (mut jobs, mut ended) = (0, false);
        for line in self.lines()? {
            let (number, text) = line?;
            if ended {
                return Err(self.wrong(number, "it stands behind the end of the plan"));
            }
            let line = serde_json::from_str(&text);
            let line = line.map_err(|e| self.wrong(number, &format!("it cannot be read: {e}")))?;
            match line {
                Line::Plan(_) if number == 1 => {}
                Line::Plan(_) => return Err(self.wrong(number, "another plan begins here")),
                Line::Cell(words) => each(Entry::Cell(words))?,
                Line::Profile(profile) => self.carries(number, profile)?,
                Line::Job(job) => {
                    jobs += 1;
                    self.check(number, jobs, &job)?;
                    each(Entry::Job(job))?;
                }
                Line::End(end) => {
                    let sum = hasher.finalize().to_hex().to_string();
                    if end != (End { jobs, sum }) {
                        return Err(self.wrong(
                            number,
                            "lines above were changed, added or removed; plan anew",
                        ));
                    }
                    ended = true;
                }
            }
            hasher.update(text.as_bytes());
            hasher.update(b"\n");
        }
        match ended {
            true => Ok(()),
            false => Err(usage(format!(
                "{}: its end is missing; plan anew",
                self.path.display()
            ))),
        }
    }

    /// The options of all command lines, of a plan that [`each`](Self::each) has gone through
    /// without an error: jobs are not looked at again.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn cells(&self) -> Result<Vec<Vec<String>>, Failure> {
        let mut cells = Vec::new();
        for line in self.lines()? {
            let (number, text) = line?;
            if !text.starts_with(CELL) {
                continue;
            }
            match serde_json::from_str(&text) {
                Ok(Line::Cell(words)) => cells.push(words),
                _ => return Err(self.wrong(number, "it cannot be read")),
            }
        }
        Ok(cells)
    }

    fn check(&self, line: u64, number: u64, job: &Planned) -> Result<(), Failure> {
        let id = job.task.id(&self.head.build, &job.inputs);
        let id = id.map_err(|e| self.wrong(line, &format!("its job cannot be read: {e}")))?;
        if id != job.id {
            return Err(self.wrong(
                line,
                "its job is not the one of its id; a plan is not edited, but made anew",
            ));
        }
        let profiles = self.profiles.borrow();
        let other = |input: &&Input| profiles.get(&input.path).is_some_and(|p| p.of != **input);
        if let Some(input) = job.inputs.iter().find(other) {
            let why = format!(
                "its {} is not the one that the plan carries",
                input.path.display()
            );
            return Err(self.wrong(line, &why));
        }
        if number != job.number {
            let why = format!("it is job {}, but job {number} was expected", job.number);
            return Err(self.wrong(line, &why));
        }
        Ok(())
    }

    fn carries(&self, line: u64, profile: Profile) -> Result<(), Failure> {
        if sum(profile.text.as_bytes()) != profile.of.sum {
            let why = format!(
                "its text is not the {} that was planned with; plan anew",
                profile.of.path.display()
            );
            return Err(self.wrong(line, &why));
        }
        let path = profile.of.path.clone();
        self.profiles.borrow_mut().insert(path, profile);
        Ok(())
    }

    /// The profiles that the plan carries, of which [`each`](Self::each) has come by all, by the
    /// names of their files.
    ///
    /// # Errors
    /// A file of such a name is here and is another one.
    pub fn profiles(&self) -> Result<BTreeMap<String, String>, Failure> {
        let mut texts = BTreeMap::new();
        for (path, profile) in self.profiles.borrow().iter() {
            // Where there is no such file, the text is enough.
            if path.exists() {
                profile.of.check()?;
            }
            texts.extend(
                path.to_str()
                    .map(|path| (path.into(), profile.text.clone())),
            );
        }
        Ok(texts)
    }

    /// Makes this process and its workers open the profiles that the plan carries. For the workers
    /// they are put into the store.
    ///
    /// # Errors
    /// As [`profiles`](Self::profiles); the host refuses.
    pub fn supply(&self, store: &Store) -> Result<(), Failure> {
        let profiles = self.profiles()?;
        if profiles.is_empty() {
            return Ok(());
        }
        let text = serde_json::to_string(&profiles).expect("plain data serialises");
        crate::worker::give_profiles(&store.put_profiles(&text).map_err(failed)?)
    }

    /// Whether the plan carries the file, so that nobody has to look for it.
    pub fn has(&self, input: &Input) -> bool {
        self.profiles.borrow().contains_key(&input.path)
    }

    fn wrong(&self, line: u64, why: &str) -> Failure {
        usage(format!("{}, line {line}: {why}", self.path.display()))
    }

    fn lines(
        &self,
    ) -> Result<impl Iterator<Item = Result<(u64, String), Failure>> + use<>, Failure> {
        let path = self.path.clone();
        let why = move |e: std::io::Error| failed(format!("plan {}: {e}", path.display()));
        let file = File::open(&self.path).map_err(&why)?;
        let lines = unzipped(file).map_err(&why)?.lines();
        Ok(lines
            .zip(1..)
            .map(move |(line, n)| Ok((n, line.map_err(&why)?))))
    }
}

/// The text of a plan, which may be compressed by gzip: one of millions of jobs has gigabytes, and
/// a fifteenth of them in that form.
fn unzipped(file: File) -> std::io::Result<Box<dyn BufRead>> {
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    const READ: usize = 1 << 18;
    let mut plain = BufReader::with_capacity(READ, file);
    Ok(match plain.fill_buf()?.starts_with(&GZIP) {
        true => Box::new(BufReader::with_capacity(READ, MultiGzDecoder::new(plain))),
        false => Box::new(plain),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    fn task(n: u32) -> Task {
        Task::Paper(RawValue::from_string(format!("{{\"n\":{n}}}")).unwrap())
    }

    fn plan(dir: &Path) -> PathBuf {
        let path = dir.join("plan.jsonl");
        let file = File::create(&path).unwrap();
        let mut writer = Writer::begin(file, "b".into(), "paper").unwrap();
        writer.cell(vec!["emmc".into()]).unwrap();
        for n in 0..3 {
            writer.job(task(n), 1.0).unwrap();
        }
        assert_eq!(writer.end().unwrap(), 3);
        path
    }

    fn why(path: &Path) -> String {
        let read = Plan::open(path).and_then(|plan| plan.each(|_| Ok(())));
        read.unwrap_err().to_string()
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let plan = Plan::open(&plan(dir.path())).unwrap();
        let mut numbers = Vec::new();
        plan.each(|entry| {
            if let Entry::Job(job) = entry {
                numbers.push(job.number);
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(numbers, [1, 2, 3]);
        assert_eq!(plan.cells().unwrap(), [["emmc"]]);
        assert!(plan.of_this_build("b").is_ok());
        let other = plan.of_this_build("c").unwrap_err().to_string();
        assert!(
            other.contains("build b") && other.contains("build c"),
            "{other}"
        );
    }

    #[test]
    fn a_plan_may_be_compressed_and_half_of_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = plan(dir.path());
        let text = std::fs::read(&path).unwrap();
        let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        zipped.write_all(&text).unwrap();
        let zipped = zipped.finish().unwrap();
        std::fs::write(&path, &zipped).unwrap();
        let mut jobs = 0;
        let plan = Plan::open(&path).unwrap();
        plan.each(|entry| {
            jobs += usize::from(matches!(entry, Entry::Job(_)));
            Ok(())
        })
        .unwrap();
        assert_eq!(jobs, 3);
        assert_eq!(plan.cells().unwrap(), [["emmc"]]);
        std::fs::write(&path, &zipped[..zipped.len() - 9]).unwrap();
        let why = why(&path);
        assert!(why.contains("plan.jsonl"), "{why}");
    }

    #[test]
    fn a_plan_that_was_edited_is_refused_by_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = plan(dir.path());
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let without = |n: usize| {
            let mut lines = lines.clone();
            lines.remove(n);
            lines.join("\n")
        };
        let mut twice = lines.clone();
        twice.insert(3, lines[2]);
        for (changed, word) in [
            (
                text.replace("{\"n\":1}", "{\"n\":7}"),
                "line 4: its job is not the one of its id",
            ),
            (
                text.replace("\"cost\":1.0", "\"cost\":2.0"),
                "line 6: lines above were changed",
            ),
            (
                text.replace("[\"emmc\"]", "[\"jftl\"]"),
                "line 6: lines above were changed",
            ),
            (without(3), "line 4: it is job 3, but job 2"),
            (without(4), "line 5: lines above were changed"),
            (without(5), "its end is missing"),
            (twice.join("\n"), "line 4: it is job 1, but job 2"),
            (format!("{text}{text}"), "line 7: it stands behind the end"),
            (text[..text.len() / 2].into(), "cannot be read"),
            (String::new(), "line 1: it is empty"),
            ("{}".into(), "line 1: it is no plan"),
            (text.replace("\"version\":2", "\"version\":9"), "version 9"),
        ] {
            std::fs::write(&path, changed).unwrap();
            let why = why(&path);
            assert!(why.contains(word), "{word}: {why}");
        }
    }
}
