//! The ring: requests of the kernel over io_uring instead of reads and writes of `/dev/fuse`
//! (Linux 6.14 and later, with the parameter `enable_uring` of the module `fuse`).
//!
//! ```text
//! program on processor n --request--> queue n --entry--> thread, bound to processor n
//!                        <--answer--  one system call answers and waits for the next request
//! ```
//!
//! - Q1 there is a queue for each processor that the host may have: the kernel uses the ring when
//!   each queue has an entry, and lets every request wait until then. So rings are tried before the
//!   handshake, and a registration that fails afterwards switches the connection back. A host may
//!   show fewer processors than the kernel counts (a container with a file of its own in `/sys`),
//!   which no registration tells. So where the number is not the kernel's own, a first request has
//!   to come before a ring counts as one. It may show more, too: so the last queue is the first one
//!   that gets an entry, and no other one does if the kernel refuses that;
//! - Q2 the ring is agreed on without asynchronous direct transfers, so the kernel itself drops its
//!   pages after each direct write (fuse-U8). Dropping them here needs a thread beside those of the
//!   queue, while the entry has to be answered by its own.
//!
//! An entry has a thread of its own: a request that waits for a commit keeps one entry of its
//! queue, and the kernel hands the next request to another one, the one used last first. Forgets
//! and interrupts, and all notices to the kernel, stay on `/dev/fuse`.

mod answers;
pub(crate) mod desk;
mod entry;
mod first;
mod turns;
mod wire;

use desk::Desk;
use entry::{Entry, Next};
use rt::{JoinHandle, Sender, channel_named, try_spawn};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use turns::{Answer, End, Line, Lives, Lost};

/// Where the host tells which processors it may have.
const POSSIBLE: &str = "/sys/devices/system/cpu/possible";
/// Where the host tells who may have rings of io_uring (Linux 6.6 and later).
const ALLOWED: &str = "/proc/sys/kernel/io_uring_disabled";
/// Most threads of all queues together, unless a queue would get fewer than two.
const THREADS_MAX: usize = 512;
/// Most queues: a command names one by 16 bits, and the last number is that of none.
const QUEUES_MAX: usize = (1 << 16) - 1;
/// Smallest payload that the kernel takes, bytes.
const PAYLOAD_BYTES_MIN: usize = 8192;
const PAGE_BYTES: usize = 4096;

/// The threads of a ring that the kernel uses.
pub(crate) struct Ring {
    threads: Vec<JoinHandle<()>>,
}

/// What is needed before the handshake agrees on a ring (ring-Q1).
pub(crate) struct Plan {
    queues: usize,
    /// The kernel itself says that there are so many.
    certain: bool,
    /// Switches the connection back.
    back: entry::Ring,
}

impl Plan {
    /// # Errors
    /// The host has no rings, or forbids them to this process; the text says which.
    pub fn new() -> Result<Plan, String> {
        let (queues, certain) =
            processors().map_err(|e| format!("no number of processors: {e}"))?;
        let allowed = std::fs::read_to_string(ALLOWED).ok();
        let back = entry::probe().map_err(|e| forbidden(&e, allowed.as_deref()))?;
        Ok(Plan {
            queues,
            certain,
            back,
        })
    }
}

/// Why this process can have no ring of io_uring, where `allowed` holds the host's switch for them.
fn forbidden(e: &io::Error, allowed: Option<&str>) -> String {
    let of_host = match (e.raw_os_error(), allowed.map(str::trim)) {
        (Some(libc::ENOSYS), _) => "the kernel has none, or a filter of system calls hides it",
        (Some(libc::EPERM), Some("2")) => "kernel.io_uring_disabled=2 forbids it to everybody",
        (Some(libc::EPERM), Some("1")) => {
            "kernel.io_uring_disabled=1 forbids it to who is not in kernel.io_uring_group"
        }
        (Some(libc::EPERM), _) => "a filter of system calls forbids it",
        (Some(libc::ENOMEM), _) => "the limit of locked memory, `ulimit -l`, is too low for it",
        _ => return format!("this process may not use io_uring ({e})"),
    };
    format!("this process may not use io_uring ({e}: {of_host})")
}

/// What a ring calls when the mount is in trouble.
#[derive(Clone)]
pub(crate) struct Trouble {
    /// Is told of what went on all the same.
    pub tell: Arc<dyn Fn(&str) + Send + Sync>,
    /// Ends the connection, because the sentence is true and requests would wait for ever.
    pub break_up: Arc<dyn Fn(&str) + Send + Sync>,
}

/// There is no ring.
pub(crate) struct Refused {
    /// Why.
    pub why: io::Error,
    /// The kernel could not be told, so it waits for the ring and the mount is of no use.
    pub stuck: bool,
    /// Threads that wait until the connection ends.
    pub left: Vec<JoinHandle<()>>,
}

impl Ring {
    /// Registers a ring of `depth` entries in each queue for the requests of `device`, for which it
    /// has been agreed on, and answers them.
    ///
    /// # Errors
    /// A queue has no entry, or the number of queues is not certain and the request that `ask`
    /// makes does not come over one; the kernel uses the device from now on, unless it is stuck.
    pub fn start(
        plan: Plan,
        device: BorrowedFd<'_>,
        desk: &Arc<Desk>,
        depth: usize,
        trouble: &Trouble,
        ask: impl FnOnce() + Send + 'static,
    ) -> Result<Ring, Refused> {
        let Plan {
            queues,
            certain,
            mut back,
        } = plan;
        let mut threads = Vec::new();
        let heard = Arc::new(AtomicBool::new(false));
        let crew = Crew {
            desk,
            depth,
            trouble,
            heard: &heard,
        };
        let mut complete = crew.begin(queues, device, &mut threads);
        if complete.is_ok() && !certain {
            // Without room for a thread nothing is known, and the ring was complete until now.
            let (yes, asker) =
                first::is_heard(&heard, ask).map_or((true, None), |(y, t)| (y, Some(t)));
            threads.extend(asker);
            if !yes {
                complete = Err(io::Error::other(format!(
                    "no request comes over its queues, {queues} after {POSSIBLE}, which is not the kernel's own file here: it counts more processors"
                )));
            }
        }
        match complete {
            Ok(()) => Ok(Ring { threads }),
            Err(why) => {
                // ring-Q1. Threads with an entry wait until the mount ends.
                let stuck = entry::refuse(&mut back, device).is_err();
                let why = with_advice(why, queues * depth_of(queues, depth));
                Err(Refused {
                    why,
                    stuck,
                    left: threads,
                })
            }
        }
    }

    /// Waits for the end of all threads, which comes with that of the connection.
    pub fn join(self) {
        join_all(self.threads);
    }
}

/// Waits for threads that end with the connection.
pub(crate) fn join_all(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        // No panic leaves a request, and outside of one nothing can be done about it.
        let _ = thread.join();
    }
}

/// What all threads of a ring have in common.
struct Crew<'a> {
    desk: &'a Arc<Desk>,
    depth: usize,
    trouble: &'a Trouble,
    heard: &'a Arc<AtomicBool>,
}

impl Crew<'_> {
    /// Starts the threads of so many queues, the last queue first (ring-Q1); they are in `threads`
    /// also where that fails.
    fn begin(
        &self,
        queues: usize,
        device: BorrowedFd<'_>,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> io::Result<()> {
        let device = Arc::new(device.try_clone_to_owned()?);
        let max_write = self.desk.options.max_write as usize;
        let payload = max_write
            .next_multiple_of(PAGE_BYTES)
            .max(PAYLOAD_BYTES_MIN);
        let all = queues * depth_of(queues, self.depth);
        let (registered, answers) = channel_named::<(usize, io::Result<()>)>("fuse ring", all);
        let mut why = None;
        let given = rustix::thread::sched_getaffinity(None).ok();
        let lives = Arc::new(Lives::new(queues));
        let mut has_entry = vec![false; queues];
        for number in 0..all {
            let queue = queues - 1 - number % queues;
            let worker = Worker {
                queue,
                payload,
                given,
                device: Arc::clone(&device),
                desk: Arc::clone(self.desk),
                lives: Arc::clone(&lives),
                heard: Arc::clone(self.heard),
                trouble: self.trouble.clone(),
            };
            let registered = registered.clone();
            match try_spawn(&format!("fuse-ring-{queue}"), move || {
                worker.run(registered)
            }) {
                Ok(thread) => threads.push(thread),
                // Fewer do, as long as each queue has one.
                Err(e) => {
                    why = Some(e);
                    break;
                }
            }
            if number == 0 {
                match answers.recv() {
                    Ok((_, Ok(()))) => has_entry[queue] = true,
                    Ok((_, Err(e))) => return Err(e),
                    // It panicked.
                    Err(_) => break,
                }
            }
        }
        drop(registered);
        while let Ok((queue, done)) = answers.recv() {
            match done {
                Ok(()) => has_entry[queue] = true,
                Err(e) => why = Some(e),
            }
        }
        match has_entry.iter().all(|has| *has) {
            true => Ok(()),
            false => Err(why.unwrap_or_else(|| io::Error::other("a thread ended"))),
        }
    }
}

/// Entries of each of so many queues, where `depth` is asked for.
fn depth_of(queues: usize, depth: usize) -> usize {
    depth.min(THREADS_MAX / queues).max(2)
}

/// The error of a ring of so many entries, with the limit that stands in its way.
fn with_advice(why: io::Error, entries: usize) -> io::Error {
    let (what, limit) = match why.raw_os_error() {
        Some(libc::EMFILE) => ("two open files", "-n"),
        Some(libc::EAGAIN) => ("a thread", "-u"),
        _ => return why,
    };
    io::Error::other(format!(
        "{why}: each of {entries} entries takes {what}; `ulimit {limit}` is the limit, queue_depth= takes less"
    ))
}

/// What a thread of the ring works with.
struct Worker {
    queue: usize,
    payload: usize,
    /// The processors that the mount may use; none: the host does not say.
    given: Option<CpuSet>,
    device: Arc<OwnedFd>,
    desk: Arc<Desk>,
    lives: Arc<Lives>,
    /// A request has come by any queue (first-F1).
    heard: Arc<AtomicBool>,
    trouble: Trouble,
}

/// An entry and the thread that works on its requests.
struct Post<'a> {
    worker: &'a Worker,
    entry: Entry,
}

impl Line for Post<'_> {
    fn first(&mut self) -> Result<Next, Lost> {
        self.entry.first()
    }
    fn work(&mut self) -> Answer {
        let (worker, request) = (self.worker, self.entry.delivered());
        if !worker.heard.load(Ordering::Relaxed) {
            worker.heard.store(true, Ordering::Release);
        }
        match desk::starts_threads(&request) {
            // A thread has the processors of the one that started it.
            true => worker.unbound(|| worker.desk.answer(request)),
            false => worker.desk.answer(request),
        }
    }
    fn answer(&mut self, answer: Answer) -> Result<Next, Lost> {
        self.entry.answer(self.worker.device.as_fd(), answer)
    }
    fn owes(&mut self) -> bool {
        self.entry.owes()
    }
    fn renew(&mut self) -> io::Result<()> {
        self.entry.renew()
    }
}

impl Worker {
    fn run(self, registered: Sender<(usize, io::Result<()>)>) {
        self.bind();
        let entry = Entry::new(self.queue as u16, self.payload).and_then(|mut entry| {
            entry.register(self.device.as_fd())?;
            Ok(entry)
        });
        match entry {
            Ok(entry) => {
                self.lives.begins(self.queue);
                let _ = registered.send((self.queue, Ok(())));
                // Whoever waits for all threads waits for the last sender.
                drop(registered);
                self.serve(entry);
            }
            Err(e) => {
                let _ = registered.send((self.queue, Err(e)));
            }
        }
    }

    /// Runs this thread where the programs run whose requests it answers, if the mount may use that
    /// processor. One that is off sends no requests.
    fn bind(&self) {
        let mut own = CpuSet::new();
        let may = (self.given)
            .is_some_and(|given| self.queue < CpuSet::MAX_CPU && given.is_set(self.queue));
        if may {
            own.set(self.queue);
            let _ = sched_setaffinity(None, &own);
        }
    }

    /// Runs `work` where all processors of the mount are its own.
    fn unbound<T>(&self, work: impl FnOnce() -> T) -> T {
        if let Some(given) = &self.given {
            let _ = sched_setaffinity(None, given);
        }
        let done = work();
        self.bind();
        done
    }

    fn serve(&self, entry: Entry) {
        let mut post = Post {
            worker: self,
            entry,
        };
        let end = turns::serve(&mut post, &*self.trouble.tell);
        let queue = self.queue;
        let last = self.lives.ends(queue);
        match end {
            End::Over => {}
            End::Alone(e) if !last => (self.trouble.tell)(&format!(
                "a thread of queue {queue} of the ring ended: {e}; others go on"
            )),
            End::Alone(e) => {
                self.break_up(&format!("the last thread of queue {queue} ended: {e}"));
            }
            End::Broken(e) => self.break_up(&format!("a thread of queue {queue} failed: {e}")),
        }
    }

    /// The memory of the entry is given back after this, when no command is under way any more.
    fn break_up(&self, why: &str) {
        (self.trouble.break_up)(&format!("the ring of requests is broken, {why}"));
    }
}

/// How many processors the host may have, which is the kernel's number of queues, and whether the
/// kernel itself says so: what lies on another file system than its own was put there by somebody.
fn processors() -> io::Result<(usize, bool)> {
    let mut file = File::open(POSSIBLE)?;
    let certain = rustix::fs::fstatfs(&file).is_ok_and(|fs| fs.f_type == libc::SYSFS_MAGIC);
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let count = processors_in(&text).filter(|count| (1..=QUEUES_MAX).contains(count));
    let count = count.ok_or_else(|| io::Error::other(format!("{POSSIBLE}: `{}`", text.trim())));
    Ok((count?, certain))
}

/// Of a list as `0-3,8-11`, the number of its members.
fn processors_in(text: &str) -> Option<usize> {
    let count = |item: &str| {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        (last.checked_sub(first)?).checked_add(1)
    };
    let add = |sum: usize, item| sum.checked_add(count(item)?);
    text.trim().split(',').try_fold(0, add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted() {
        assert_eq!(processors_in("0-1\n"), Some(2));
        assert_eq!(processors_in("0"), Some(1));
        assert_eq!(processors_in("0-3,8-11,13"), Some(9));
        assert_eq!(processors_in(""), None);
        assert_eq!(processors_in("3-1"), None);
        let most = format!("0-{}", usize::MAX - 1);
        assert_eq!(processors_in(&most), Some(usize::MAX));
        assert_eq!(processors_in(&format!("{most},1")), None);
    }

    #[test]
    fn who_forbids_rings_is_named() {
        let said = |errno, allowed| forbidden(&io::Error::from_raw_os_error(errno), allowed);
        assert!(said(libc::EPERM, Some("2\n")).contains("io_uring_disabled=2"));
        assert!(said(libc::EPERM, Some("1\n")).contains("io_uring_group"));
        assert!(said(libc::EPERM, Some("0\n")).contains("a filter"));
        assert!(said(libc::ENOSYS, None).contains("the kernel has none"));
        assert!(!said(libc::ENOMEM, Some("2")).contains("disabled"));
    }
}
