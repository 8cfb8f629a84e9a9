//! Runs one simulation in a process of its own: SQLite has one random generator per process, so two
//! simulations in one process could disturb each other.
//!
//! The parent writes a configuration as one JSON line to standard input; the worker answers with
//! JSON lines on standard output: `{"progress":[done,all]}` now and then, and at the end
//! `{"done":...}` or `{"failed":"..."}`.

use crate::failure::{Failure, failed, no_process};
use crate::stop::Stop;
use report::results::Run;
use report::samples::Samples;
use report::timeline::Timeline;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use work::fsck::{Verdict, second_opinion};
use work::{Recorder, RunConfig};
use work::{life, run};

/// A line from a worker. `D` is what a run that ended well leaves: a value, or its text as it
/// came.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line<D> {
    /// Operations done and in all.
    Progress(u64, u64),
    /// The job ended well.
    Done(D),
    /// The job failed.
    Failed(String),
}

/// What a worker is to run.
#[derive(Clone, Serialize, Deserialize)]
pub struct Job {
    /// The run.
    pub config: RunConfig,
    /// Whether its time line is wanted.
    pub timeline: bool,
    /// Whether its single operations are wanted; left out of the text if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub samples: bool,
}

/// A run that ended well, and what an independent checker says of the image.
#[derive(Serialize, Deserialize)]
pub struct Done {
    /// The figures.
    pub run: Run,
    /// Name of the independent checker.
    pub checker: String,
    /// What the checker says of the image after the run.
    pub checked: Checked,
    /// Its time line, if that was wanted.
    pub timeline: Option<Timeline>,
    /// Its single operations, if they were wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<Samples>,
}

/// The result of the independent checker.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Checked {
    /// The checker finds nothing.
    Clean,
    /// The checker finds something.
    Findings(String),
    /// The checker is not installed.
    NotInstalled,
}

/// Environment variable of a worker: the process that started it.
const PARENT: &str = "VARVE_WORKER_OF";

/// Environment variable of a worker: the file with the profiles that it was given by content.
const PROFILES: &str = "VARVE_WORKER_PROFILES";

/// That file of this process, which its workers read, too.
static GIVEN: OnceLock<PathBuf> = OnceLock::new();

/// Gives this process, and every worker that it starts from here on, the profiles of a file: a map
/// from the name of each to its text, in JSON. Called once.
///
/// # Errors
/// The file cannot be read, or holds something else.
pub fn give_profiles(file: &Path) -> Result<(), Failure> {
    let why = |e: &dyn std::fmt::Display| failed(format!("{}: {e}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|e| why(&e))?;
    let profiles = serde_json::from_str(&text).map_err(|e| why(&e))?;
    rig::Profile::supply(profiles);
    let again = GIVEN.set(file.into()).is_err();
    assert!(!again, "profiles are given once for a process");
    Ok(())
}

/// A command that starts `program` as a worker of this process.
pub fn worker(program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some(profiles) = GIVEN.get() {
        command.env(PROFILES, profiles);
    }
    command
        .env("TZ", "UTC")
        .env(PARENT, std::process::id().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // An interrupt of the terminal is for the parent, which ends its workers.
        .process_group(0);
    command
}

/// Called by a worker when it begins: it takes the profiles that it is given, and will not outlive
/// the thread that started it, however that thread ends.
///
/// # Errors
/// The process that started it has gone already; the profiles cannot be read.
pub fn begin() -> Result<(), Failure> {
    stay_with_parent()?;
    match std::env::var_os(PROFILES) {
        Some(profiles) => give_profiles(Path::new(&profiles)),
        None => Ok(()),
    }
}

fn stay_with_parent() -> Result<(), Failure> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    // Without it a worker whose parent was killed works to the end of its task.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // A parent that ended before that line sends nothing any more, and its task may stand complete
    // in standard input.
    let parent = std::env::var(PARENT).ok();
    let now = getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    match parent {
        Some(pid) if pid != now.to_string() => {
            Err(failed("the process that started this worker has ended"))
        }
        _ => Ok(()),
    }
}

/// Runs as the worker: reads one configuration and answers the result of its run.
pub fn serve() -> Result<(), Failure> {
    begin()?;
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(failed)?;
    let job: Job = serde_json::from_str(&text).map_err(failed)?;
    let line = match work(&job) {
        Ok(done) => Line::Done(done),
        Err(why) => Line::Failed(why.to_string()),
    };
    say(&line);
    Ok(())
}

fn work(job: &Job) -> Result<Done, Failure> {
    let config = &job.config;
    let recorder = job.timeline.then(Recorder::default);
    let mut samples = job.samples.then(Samples::default);
    let progress = &mut |done, all| say(&Line::Progress(done, all));
    let noted = samples.as_mut();
    let finished = match &recorder {
        Some(recorder) => run::run_noting_chips(config, &recorder.between(), noted, progress),
        None => run::run_through(config, &life::directly, noted, progress),
    };
    let mut finished = finished.map_err(failed)?;
    if let Some(samples) = &mut samples {
        let measured = &finished.measured;
        let syncs = measured.syncs.iter().map(|sync| (sync.at, sync.took));
        samples.add_syncs(measured.span.0, syncs);
    }
    let timeline = recorder.map(|recorder| recorder.timeline(&mut finished));
    let folder =
        tempfile::tempdir().map_err(|e| failed(format!("temporary folder for the image: {e}")))?;
    let fs = config.stack.fs;
    let verdict = second_opinion(fs, &finished.model, folder.path()).map_err(failed)?;
    let checked = match verdict {
        Verdict::Clean => Checked::Clean,
        Verdict::NotInstalled => Checked::NotInstalled,
        Verdict::Findings(words) | Verdict::Repaired(words) => Checked::Findings(words),
    };
    Ok(Done {
        run: finished.run,
        checker: work::fsck::checker(fs).into(),
        checked,
        timeline,
        samples,
    })
}

fn say(line: &Line<Done>) {
    let text = serde_json::to_string(line).expect("plain data serialises");
    // A parent that is gone needs no answer.
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Runs `task` in a worker process of this hidden `subcommand`, and waits for its result: the text
/// as the worker wrote it, so that what is stored and what is read at once are the same bytes.
///
/// # Errors
/// As of [`ask`]; the job failed.
pub fn run_in_process(
    stop: &Stop,
    subcommand: &str,
    what: &str,
    task: &RawValue,
    progress: impl Fn(u64, u64),
) -> Result<String, Failure> {
    let answer = ask(
        stop,
        subcommand,
        what,
        task,
        |line: Line<Box<RawValue>>| match line {
            Line::Progress(done, all) => {
                progress(done, all);
                None
            }
            last => Some(last),
        },
    )?;
    match answer {
        Line::Failed(words) => Err(failed(format!("worker for {what}: {words}"))),
        Line::Done(done) => Ok(Box::<str>::from(done).into()),
        Line::Progress(..) => unreachable!("progress is no last line"),
    }
}

/// Starts this program with the hidden `subcommand`, writes `task` to it as JSON, and reads lines
/// until `heard` makes a result of one. `what` names the task in errors.
///
/// # Errors
/// The process cannot be started, writes something else than such lines, or ends without a result.
pub fn ask<T: DeserializeOwned, R>(
    stop: &Stop,
    subcommand: &str,
    what: &str,
    task: &RawValue,
    heard: impl FnMut(T) -> Option<R>,
) -> Result<R, Failure> {
    let why = |e: &dyn std::fmt::Display| failed(format!("worker for {what}: {e}"));
    let program = std::env::current_exe().map_err(|e| why(&e))?;
    let mut child = worker(&program)
        .arg(subcommand)
        .spawn()
        .map_err(no_process(what))?;
    let guard = stop.guard(&child);
    let answer = converse(&mut child, task, heard);
    drop(guard);
    let status = child.wait().map_err(|e| why(&e))?;
    match answer {
        Ok(Some(answer)) => Ok(answer),
        Ok(None) => Err(why(&format!("it ended without a result ({status})"))),
        Err(e) => Err(why(&e)),
    }
}

/// Sends the task, and reads lines up to the one that is the result.
fn converse<T: DeserializeOwned, R>(
    child: &mut Child,
    task: &RawValue,
    mut heard: impl FnMut(T) -> Option<R>,
) -> std::io::Result<Option<R>> {
    let mut stdin = child.stdin.take().expect("standard input is piped");
    stdin.write_all(task.get().as_bytes())?;
    drop(stdin);
    let stdout = child.stdout.take().expect("standard output is piped");
    for line in BufReader::new(stdout).lines() {
        let answer = heard(serde_json::from_str(&line?)?);
        if answer.is_some() {
            return Ok(answer);
        }
    }
    Ok(None)
}
