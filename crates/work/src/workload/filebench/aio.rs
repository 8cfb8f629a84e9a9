//! Asynchronous writes of one process. Filebench writes by glibc's `aio_write`, so tasks take the
//! writes from a queue, as many tasks as glibc starts (`aio_threads`, 20).

use super::files::{Set, Stamp};
use crate::RunError;
use rt::{Condvar, JoinHandle, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use vfs::File;

const WORKERS: usize = 20;

/// A write that waits for a task.
pub struct Job {
    /// The file to write to.
    pub file: Arc<File>,
    /// Offset in bytes.
    pub at: u64,
    /// Length in bytes.
    pub length: usize,
    /// What the file holds there afterwards.
    pub stamp: Stamp,
    /// The set of the file.
    pub set: Arc<Set>,
    /// Index of the file in its set.
    pub entry: u32,
    /// The writes of the thread that asked for it.
    pub owner: Arc<Pending>,
}

/// The asynchronous writes of one thread that have not ended.
pub struct Pending {
    state: Mutex<(u64, Result<(), RunError>)>,
    changed: Condvar,
}

impl Pending {
    /// No writes are pending.
    pub fn new() -> Arc<Pending> {
        Arc::new(Pending {
            state: Mutex::named("filebench aio", (0, Ok(()))),
            changed: Condvar::named("filebench aio"),
        })
    }

    /// Waits until no write is pending.
    ///
    /// # Errors
    /// The first write that failed.
    pub fn wait(&self) -> Result<(), RunError> {
        let mut state = self.state.lock();
        while state.0 > 0 {
            self.changed.wait(&mut state);
        }
        std::mem::replace(&mut state.1, Ok(()))
    }

    fn ended(&self, result: Result<(), RunError>) {
        let mut state = self.state.lock();
        state.0 -= 1;
        if state.1.is_ok() {
            state.1 = result;
        }
        self.changed.notify_all();
    }
}

/// The queue of writes of one process.
pub struct Queue {
    state: Mutex<(VecDeque<Job>, bool)>,
    more: Condvar,
}

/// A queue and the tasks that serve it.
pub struct Aio {
    queue: Arc<Queue>,
    workers: Vec<JoinHandle<()>>,
}

impl Aio {
    /// Starts the tasks of a process.
    pub fn start(process: &str) -> Aio {
        let queue = Arc::new(Queue {
            state: Mutex::named("filebench aio queue", (VecDeque::new(), false)),
            more: Condvar::named("filebench aio queue"),
        });
        let worker = |n| {
            let queue = queue.clone();
            rt::spawn(&format!("{process} aio {n}"), move || queue.serve())
        };
        Aio {
            workers: (0..WORKERS).map(worker).collect(),
            queue,
        }
    }

    /// The queue that threads put writes into.
    pub fn queue(&self) -> Arc<Queue> {
        self.queue.clone()
    }

    /// Lets the tasks work off the queue, and ends them.
    ///
    /// # Errors
    /// A task panicked.
    pub fn stop(self) -> Result<(), RunError> {
        self.queue.state.lock().1 = true;
        self.queue.more.notify_all();
        for worker in self.workers {
            let panicked = |_| RunError::Check("a task of asynchronous writes panicked".into());
            worker.join().map_err(panicked)?;
        }
        Ok(())
    }
}

impl Queue {
    /// Puts a write into the queue.
    pub fn put(&self, job: Job) {
        job.owner.state.lock().0 += 1;
        self.state.lock().0.push_back(job);
        self.more.notify_one();
    }

    fn serve(&self) {
        let mut buffer = Vec::new();
        loop {
            let mut state = self.state.lock();
            let job = loop {
                if let Some(job) = state.0.pop_front() {
                    break job;
                }
                if state.1 {
                    return;
                }
                self.more.wait(&mut state);
            };
            drop(state);
            let result = write(&job, &mut buffer);
            let Job { file, owner, .. } = job;
            // This comes first, as the owner may close the file as soon as it hears of the end.
            drop(file);
            owner.ended(result);
        }
    }
}

fn write(job: &Job, buffer: &mut Vec<u8>) -> Result<(), RunError> {
    buffer.resize(job.length, 0);
    job.stamp.fill(job.at, buffer);
    let count = job.file.write_at(job.at, buffer)?;
    job.set.files.reaches(job.entry, job.at + count as u64);
    super::ops::whole(count, job.length)
}
