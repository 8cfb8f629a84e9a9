//! Worker processes for the jobs of a campaign. A worker that hangs or dies costs its job only: it
//! is killed, the job is run once more, state by state, to find the state at fault, and a new
//! worker takes over.

use super::worker::{self, Line};
use crate::campaign::shelf::Shelf;
use crate::campaign::store::Run;
use crate::campaign::task::Task;
use crate::failure::{Failure, failed};
use crate::stop::{Guard, Stop};
use crash::campaign::Explored;
use crash::plan::Job;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How a job ended. `D` is what was found, or its text as the worker wrote it.
pub enum End<D = Box<Explored>> {
    /// The job was explored.
    Done(D),
    /// The job could not be explored, with the reason.
    Failed(String),
    /// The command was asked to end before the job was done.
    Stopped,
    /// The worker hung or died; `state` is the one it was judging, if it was judging one.
    Lost {
        /// The state.
        state: Option<String>,
        /// What became of the worker.
        why: String,
    },
}

/// How a worker is started.
pub struct Program {
    path: PathBuf,
    args: Vec<String>,
}

impl Program {
    /// The running program itself.
    ///
    /// # Errors
    /// The host does not tell its path.
    pub fn this() -> Result<Program, Failure> {
        Ok(Program {
            path: std::env::current_exe().map_err(|e| failed(format!("own program: {e}")))?,
            args: vec!["crash-worker".into()],
        })
    }
}

/// One worker process.
pub struct Worker<'s> {
    /// `None` where it is waited for.
    guard: Option<Guard<'s>>,
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl<'s> Worker<'s> {
    /// Starts one.
    ///
    /// # Errors
    /// The host refuses.
    pub fn start(stop: &'s Stop, program: &Program) -> std::io::Result<Worker<'s>> {
        let mut child = crate::worker::worker(&program.path)
            .args(&program.args)
            .stderr(Stdio::null())
            .spawn()?;
        let guard = Some(stop.guard(&child));
        let stdin = child.stdin.take().expect("standard input is piped");
        let stdout = child.stdout.take().expect("standard output is piped");
        let (send, lines) = channel();
        let read = move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        };
        if let Err(e) = thread::Builder::new().spawn(read) {
            // It has got no task; what fails here has ended already.
            let _ = child.kill().and_then(|()| child.wait());
            return Err(e);
        }
        Ok(Worker {
            guard,
            child,
            stdin,
            lines,
        })
    }

    /// Gives a task and waits for its end; every line of the worker sets the clock back.
    fn run<J: Serialize, D: DeserializeOwned>(
        &mut self,
        task: &worker::Task<J>,
        patience: Duration,
    ) -> End<D> {
        let mut state = None;
        let text = serde_json::to_string(task).expect("plain data serialises");
        if writeln!(self.stdin, "{text}").is_err() {
            return self.lost(state, "it does not take tasks".into());
        }
        loop {
            let line = match self.lines.recv_timeout(patience) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => {
                    let seconds = patience.as_secs();
                    return self.lost(state, format!("no sign of life in {seconds} s"));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return self.lost(state, "it died".into());
                }
            };
            match serde_json::from_str(&line) {
                Ok(Line::At(id)) => state = Some(id),
                Ok(Line::Done(explored)) => return End::Done(explored),
                Ok(Line::Failed(why)) => return End::Failed(why),
                Err(e) => return self.lost(state, format!("it says `{line}`: {e}")),
            }
        }
    }

    /// Lets it end: no task follows.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub fn stop(mut self) -> std::io::Result<()> {
        drop(self.stdin);
        drop(self.guard.take());
        self.child.wait().map(drop)
    }

    fn lost<D>(&mut self, state: Option<String>, why: String) -> End<D> {
        drop(self.guard.take());
        // One that is dead already cannot be killed; either way it is gone after the wait.
        let _ = self.child.kill();
        let status = self.child.wait();
        let how = status.map_or_else(|e| e.to_string(), |s| s.to_string());
        End::Lost {
            state,
            why: format!("{why} ({how})"),
        }
    }
}

/// Runs all jobs on `workers` processes. `told` is called for each job as it ends, in any order;
/// the answer is in the order of the jobs.
///
/// # Errors
/// A worker cannot be started.
pub fn run<'s>(
    stop: &'s Stop,
    program: &Program,
    jobs: &[Job],
    workers: usize,
    patience: Duration,
    shelf: Option<&Shelf>,
    told: &(dyn Fn(&Job, &End) + Sync),
) -> Result<Vec<End>, Failure> {
    let start = || Worker::start(stop, program).map_err(no_worker);
    let work = |worker: &mut Worker<'s>, _, job: &Job| {
        if stop.signal().is_some() {
            return Ok(End::Stopped);
        }
        let make = |worker| one(stop, program, worker, job, patience).map_err(no_worker);
        let end = match shelf {
            None => make(worker)?,
            Some(shelf) => kept(shelf, job, || make(worker))?,
        };
        told(job, &end);
        Ok(end)
    };
    let ends = crate::pool::ordered(jobs, workers, start, work, |w| w.stop().map_err(no_worker));
    shelf.map_or(Ok(()), Shelf::settle)?;
    ends
}

fn no_worker(e: std::io::Error) -> Failure {
    failed(format!("worker process: {e}"))
}

/// The end of a job whose result is in the store, or is put there; what came of a worker that is
/// lost is no result.
fn kept(
    shelf: &Shelf,
    job: &Job,
    make: impl FnOnce() -> Result<End, Failure>,
) -> Result<End, Failure> {
    let id = Task::crash(job).id(&shelf.build, &Task::crash(job).inputs()?)?;
    if let Some(text) = shelf.get(&id, Run::First)? {
        let explored = serde_json::from_str(&text).map_err(|e| failed(format!("{id}: {e}")))?;
        return Ok(End::Done(explored));
    }
    let began = Instant::now();
    let end = make()?;
    if let End::Done(explored) = &end {
        let text = serde_json::to_string(explored).expect("plain data serialises");
        shelf.put_soon(&id, began, &text)?;
    }
    Ok(end)
}

/// One job; if its worker is lost, once more, state by state.
///
/// # Errors
/// A worker cannot be started.
pub fn one<'s, J: Serialize + ?Sized, D: DeserializeOwned>(
    stop: &'s Stop,
    program: &Program,
    worker: &mut Worker<'s>,
    job: &J,
    patience: Duration,
) -> std::io::Result<End<D>> {
    let task = |one_by_one| worker::Task { job, one_by_one };
    let first: End<D> = worker.run(&task(false), patience);
    if !matches!(first, End::Lost { .. }) {
        return Ok(first);
    }
    // The signal ended the worker.
    if stop.signal().is_some() {
        return Ok(End::Stopped);
    }
    *worker = Worker::start(stop, program)?;
    let second: End<D> = worker.run(&task(true), patience);
    if stop.signal().is_some() {
        return Ok(first);
    }
    match second {
        End::Lost { .. } => {
            *worker = Worker::start(stop, program)?;
            Ok(second)
        }
        // The second run succeeded; the first failure is still worth reporting.
        _ => Ok(first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crash::campaign::Reach;
    use crash::case::Case;

    fn jobs(count: usize) -> Vec<Job> {
        let job = |number| Job {
            number,
            group: "mix".into(),
            case: Case {
                scheme: "jbd2".into(),
                device: "spec:emmc".into(),
                workload: format!("mix {number}"),
                seed: 1,
                scheduler: None,
                mutant: None,
            },
            reach: Reach::default(),
            control: false,
            part: None,
        };
        (0..count).map(job).collect()
    }

    /// Long enough for a shell on a busy machine to say something.
    const PATIENCE: Duration = Duration::from_secs(4);

    /// Workers that do what a line of shell says with each task in `$task`.
    fn ends(script: &str, count: usize) -> Vec<End> {
        let program = Program {
            path: "/bin/sh".into(),
            args: vec![
                "-c".into(),
                format!("while read -r task; do {script}; done"),
            ],
        };
        run(
            &Stop::default(),
            &program,
            &jobs(count),
            2,
            PATIENCE,
            None,
            &|_, _| {},
        )
        .unwrap()
    }

    const FINE: &str = r#"echo '{"failed":"as asked"}'"#;

    #[test]
    fn a_worker_that_hangs_or_dies_costs_its_job_only_and_names_the_state() {
        for (end, word) in [("sleep 60", "no sign of life"), ("kill -9 $$", "died")] {
            let at = r#"echo '{"at":"17.oldest"}'"#;
            let script = format!(r#"case "$task" in *'mix 2'*) {at}; {end};; *) {FINE};; esac"#);
            let ends = ends(&script, 5);
            for (n, end) in ends.iter().enumerate() {
                match end {
                    End::Lost { state, why } => {
                        assert_eq!((n, state.as_deref()), (2, Some("17.oldest")));
                        assert!(why.contains(word), "{why}");
                    }
                    End::Failed(why) => assert!(n != 2 && why == "as asked"),
                    End::Done(_) | End::Stopped => panic!("no worker says so"),
                }
            }
        }
    }

    #[test]
    fn a_worker_that_talks_nonsense_is_replaced() {
        let ends = ends("echo nonsense", 2);
        assert!(
            ends.iter()
                .all(|end| matches!(end, End::Lost { why, .. } if why.contains("nonsense")))
        );
    }
}
