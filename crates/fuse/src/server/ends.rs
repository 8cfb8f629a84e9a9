//! Requests for which the volume has no room while a removed file is about to give its own back.
//!
//! A program waits for the answer to its removal of a name. The kernel tells later, by RELEASE and
//! FORGET, that the inode has ended: no program waits for these requests, and any thread reads
//! them (with the ring they even come through `/dev/fuse`, unlike all others). So a request for
//! room may overtake the end of a file that was removed before it, and on a full volume it would
//! fail where the kernel's own file systems have the room already.
//!
//! - N1 a request without room waits for the end of the files that were removed lately, and is
//!   tried once more. One that ended between the failure and the look needs no waiting, only the
//!   second try;
//! - N2 one thread that reads requests does not wait here, since the forget that the others wait
//!   for has to be read by somebody;
//! - N3 only the change itself is tried again. What follows it in the same request, as a sync, is
//!   not: a failure of write-back is told once, and a second try would answer that all is well.

use super::Server;
use base::Nanos;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use vfs::{Errno, FsResult};

/// How often and how many times at most the end of removed files is looked for; how many times of
/// those that are open, which may stay open, or whose closing is under way.
const LOOK: Nanos = Nanos(1_000_000);
const LOOKS: u32 = 2000;
const OPEN_LOOKS: u32 = 500;

/// Removed inodes that have given their room back, and who waits for such ends.
pub(super) struct Ends {
    /// Removed inodes that have given their room back since the mount.
    deaths: AtomicU64,
    /// Threads that wait, and how many may (N2).
    waiting: AtomicUsize,
    waiting_max: AtomicUsize,
}

impl Ends {
    pub fn new() -> Ends {
        Ends {
            deaths: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            waiting_max: AtomicUsize::new(usize::MAX),
        }
    }

    /// A removed inode has given its room back.
    pub fn came(&self) {
        self.deaths.fetch_add(1, Ordering::Release);
    }
}

impl Server {
    /// How many threads may wait for room at the same time (N2); any number until this is called.
    pub fn room_waiters(&self, most: usize) {
        self.ends.waiting_max.store(most, Ordering::Relaxed);
    }

    /// As [`run`](Server::run) for a change that may need room (N1, N3): a change without room has
    /// changed nothing, or what a second try changes in the same way.
    pub(super) fn run_for_room<T>(&self, change: impl Fn() -> FsResult<T>) -> Result<T, Errno> {
        let deaths = self.ends.deaths.load(Ordering::Acquire);
        match self.run(&change) {
            Err(Errno::NoSpc) if self.waited_for_room(deaths) => self.run(&change),
            done => done,
        }
    }

    /// Waits for what removed files give back, where `deaths` were counted before the change.
    /// False: there was none to wait for.
    fn waited_for_room(&self, deaths: u64) -> bool {
        if !self.has_dying(false) {
            return self.ends.deaths.load(Ordering::Acquire) != deaths;
        }
        let ends = &self.ends;
        let most = ends.waiting_max.load(Ordering::Relaxed);
        if ends.waiting.fetch_add(1, Ordering::AcqRel) < most {
            for look in 0..LOOKS {
                if !self.has_dying(look >= OPEN_LOOKS) {
                    break;
                }
                rt::sleep(LOOK);
            }
        }
        ends.waiting.fetch_sub(1, Ordering::AcqRel);
        true
    }

    /// Whether room of a removed file may come yet: the kernel has not forgotten it (`closed`: and
    /// has it not open either), or is forgetting it.
    fn has_dying(&self, closed: bool) -> bool {
        let dying = self.nodes.lock().dying(rt::now(), closed);
        let vfs = self.vfs.read().clone();
        // One that has gone already has not given everything back before it is struck off.
        let nameless = |ino| {
            (vfs.as_ref()).is_some_and(|v| v.fs().getattr(ino).map_or(true, |attr| attr.nlink == 0))
        };
        dying.into_iter().any(nameless)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::NoCache;
    use std::sync::Arc;
    use testkit::model::ModelFs;
    use vfs::{AccessTimes, Vfs};

    #[test]
    fn an_end_between_the_failure_and_the_look_is_worth_a_second_try() {
        let server = Server::new(
            Vfs::new(ModelFs::new()),
            Arc::new(NoCache),
            AccessTimes::Relative,
            false,
            Box::new(|_| {}),
        );
        assert!(!server.waited_for_room(0));
        server.ends.came();
        assert!(server.waited_for_room(0));
    }
}
