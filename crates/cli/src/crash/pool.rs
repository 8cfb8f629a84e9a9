//! Worker processes for the jobs of a campaign. A worker that hangs or dies costs its job only: it is killed, the job is run once
//! more state by state to name the one at fault, and a new worker goes on.

use super::worker::{Line, Task};
use crate::failure::{Failure, failed};
use lab::crash::campaign::Explored;
use lab::crash::plan::Job;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How a job ended.
pub enum End {
    /// Explored.
    Done(Box<Explored>),
    /// It could not be: why.
    Failed(String),
    /// The worker hung or died; `state` is the one it was judging, if it was judging one.
    Lost {
        /// The state.
        state: Option<String>,
        /// What became of the worker.
        why: String,
    },
}

/// One worker process.
struct Worker {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Worker {
    fn start() -> std::io::Result<Worker> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("crash-worker")
            .env("TZ", "UTC")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdin = child.stdin.take().expect("standard input is piped");
        let stdout = child.stdout.take().expect("standard output is piped");
        let (send, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Worker {
            child,
            stdin,
            lines,
        })
    }

    /// Gives a task and waits for its end; every line of the worker sets the clock back.
    fn run(&mut self, task: &Task, patience: Duration) -> End {
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

    fn lost(&mut self, state: Option<String>, why: String) -> End {
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

/// Runs all jobs on `workers` processes. `told` hears of each as it ends, in any order; the answer is in the order of the jobs.
///
/// # Errors
/// A worker cannot be started.
pub fn run(
    jobs: &[Job],
    workers: usize,
    patience: Duration,
    told: &(dyn Fn(&Job, &End) + Sync),
) -> Result<Vec<End>, Failure> {
    let next = AtomicUsize::new(0);
    let ends: Mutex<Vec<Option<End>>> = Mutex::new(jobs.iter().map(|_| None).collect());
    let outcome = thread::scope(|scope| {
        let work = || {
            let mut worker = Worker::start()?;
            while let Some((n, job)) = {
                let n = next.fetch_add(1, Ordering::Relaxed);
                jobs.get(n).map(|job| (n, job))
            } {
                let end = one(&mut worker, job, patience)?;
                told(job, &end);
                ends.lock().expect("no thread panics with it")[n] = Some(end);
            }
            drop(worker.stdin);
            worker.child.wait().map(drop)
        };
        let all: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        all.into_iter()
            .try_for_each(|t| t.join().expect("a pool thread does not panic"))
    });
    outcome.map_err(|e| failed(format!("worker process: {e}")))?;
    let ends = ends.into_inner().expect("no thread panics with it");
    Ok(ends
        .into_iter()
        .map(|end| end.expect("every job was run"))
        .collect())
}

/// One job; if its worker is lost, once more, state by state.
fn one(worker: &mut Worker, job: &Job, patience: Duration) -> std::io::Result<End> {
    let task = |one_by_one| Task {
        job: job.clone(),
        one_by_one,
    };
    let first = worker.run(&task(false), patience);
    if !matches!(first, End::Lost { .. }) {
        return Ok(first);
    }
    *worker = Worker::start()?;
    let second = worker.run(&task(true), patience);
    match second {
        End::Lost { .. } => {
            *worker = Worker::start()?;
            Ok(second)
        }
        // It went well this time: what happened is still worth knowing.
        _ => Ok(first),
    }
}
