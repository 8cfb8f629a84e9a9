//! Group commit: many tasks wait for an epoch, and one of them at a time (the leader) commits.
//!
//! - G1 one task leads at a time; epochs become committed in their order;
//! - G2 a task that waits for epoch e returns when e is committed, or with an error; or at once if
//!   nothing is logged that is not committed;
//! - G3 after a failure no task is acknowledged any more, because what is on the device is not
//!   known;
//! - G4 a task that comes while an epoch is on its way to the device, and is not in that epoch,
//!   shares the next commit with all other such tasks;
//! - G5 the leader for an fsync may wait before it commits, for the callers that it expects
//!   ([`gather`](super::gather)): at most half as long as a commit takes, before the epoch is
//!   closed, and with nothing held but its leadership. So nothing that is said of a commit depends
//!   on it, and those that come meanwhile are in the epoch.

use super::gather::Gather;
use crate::journal::Epoch;
use block::{Watch, WriteMark};
use fscore::{FsError, FsResult};
use rt::atomic::{AtomicU64, Ordering};
use rt::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;

/// Which epochs tasks wait for, and whether a task leads a commit.
pub(crate) struct Group {
    state: Mutex<State>,
    changed: Condvar,
    /// More callers wait; the leader listens.
    arrived: Condvar,
    /// The newest committed epoch (LC), for looks without the lock.
    last: AtomicU64,
    /// Calls of fsync that have not returned.
    syncing: AtomicU64,
}

/// A call of fsync, from its beginning to its end.
pub(crate) struct Syncing<'g>(&'g Group);

impl Drop for Syncing<'_> {
    fn drop(&mut self) {
        self.0.syncing.fetch_sub(1, Ordering::AcqRel);
    }
}

struct State {
    last: Epoch,
    leading: bool,
    /// Callers by the epoch that they wait for.
    waiting: BTreeMap<Epoch, u64>,
    /// What callers have written besides what epochs map, and want to be durable when they return.
    wanted: WriteMark,
    /// Writes that callers have left to a commit, and send themselves if none takes them.
    riders: Vec<Watch>,
    failed: Option<FsError>,
    gather: Gather,
}

impl State {
    /// Callers that wait for an epoch that is not committed.
    fn callers(&self) -> u64 {
        let open = self.waiting.range(Epoch(self.last.0 + 1)..);
        open.map(|(_, callers)| callers).sum()
    }
}

/// Whether a leader waits for other callers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Patience {
    /// It commits at once.
    None,
    /// It may wait (G5).
    ForCallers,
}

/// What a leader did.
pub(crate) enum Led {
    /// This epoch, the one behind the last, is committed.
    Committed(Epoch),
    /// Nothing was logged since the last one.
    Nothing,
}

impl Group {
    /// `last` is committed.
    pub fn new(last: Epoch) -> Group {
        let state = State {
            last,
            leading: false,
            waiting: BTreeMap::new(),
            wanted: WriteMark::NONE,
            riders: Vec::new(),
            failed: None,
            gather: Gather::default(),
        };
        Group {
            state: Mutex::named("f2fs group commit", state),
            changed: Condvar::new(),
            arrived: Condvar::new(),
            last: AtomicU64::new(last.0),
            syncing: AtomicU64::new(0),
        }
    }

    /// A call of fsync begins.
    pub fn begin_sync(&self) -> Syncing<'_> {
        self.syncing.fetch_add(1, Ordering::AcqRel);
        Syncing(self)
    }

    /// Calls of fsync that have begun and not returned.
    pub fn syncing(&self) -> u64 {
        self.syncing.load(Ordering::Acquire)
    }

    /// The newest committed epoch (LC).
    pub fn last(&self) -> Epoch {
        Epoch(self.last.load(Ordering::Acquire))
    }

    /// A caller will want a flush that covers `mark`, whoever sends it.
    pub fn want(&self, mark: WriteMark) {
        let mut state = self.state.lock();
        state.wanted = state.wanted.max(mark);
    }

    /// What callers want a flush to cover.
    pub fn wanted(&self) -> WriteMark {
        self.state.lock().wanted
    }

    /// Writes that the next commit may take along.
    pub fn bring(&self, riders: Vec<Watch>) {
        self.state.lock().riders.extend(riders);
    }

    /// Takes these.
    pub fn riders(&self) -> Vec<Watch> {
        std::mem::take(&mut self.state.lock().riders)
    }

    /// Callers that `epoch`, once committed, lets go.
    pub fn waiting_for(&self, epoch: Epoch) -> u64 {
        self.state.lock().waiting.range(..=epoch).map(|w| w.1).sum()
    }

    /// Returns when `upto` is committed, or when nothing is logged that could be committed. `lead`
    /// commits the next epoch; it is called for one caller at a time, without a lock.
    ///
    /// # Errors
    /// What a leader failed with, in this call or before (G3).
    pub fn wait(
        &self,
        upto: Epoch,
        patience: Patience,
        mut lead: impl FnMut() -> FsResult<Led>,
    ) -> FsResult<()> {
        if self.last() >= upto {
            return Ok(());
        }
        let mut state = self.state.lock();
        *state.waiting.entry(upto).or_default() += 1;
        self.arrived.notify_one();
        let result = loop {
            if state.last >= upto {
                break Ok(());
            }
            if let Some(failed) = &state.failed {
                break Err(failed.clone());
            }
            if state.leading {
                self.changed.wait(&mut state);
                continue;
            }
            state.leading = true;
            if patience == Patience::ForCallers {
                self.gather(&mut state);
            }
            drop(state);
            let begun = rt::now();
            let led = lead();
            state = self.state.lock();
            state.leading = false;
            match led {
                Ok(Led::Committed(epoch)) => {
                    assert_eq!(epoch.0, state.last.0 + 1, "G1: epochs commit in order");
                    state.last = epoch;
                    self.last.store(epoch.0, Ordering::Release);
                    let released = state.waiting.get(&epoch).copied().unwrap_or_default();
                    let left = state.callers();
                    state.gather.committed(released, left, begun, rt::now());
                }
                Ok(Led::Nothing) => {
                    self.changed.notify_all();
                    break Ok(());
                }
                Err(e) => state.failed = Some(e),
            }
            self.changed.notify_all();
        };
        if let Some(callers) = state.waiting.get_mut(&upto) {
            *callers -= 1;
            if *callers == 0 {
                state.waiting.remove(&upto);
            }
        }
        result
    }

    /// G5. There is one leader, so nobody can fail meanwhile.
    fn gather(&self, state: &mut MutexGuard<'_, State>) {
        let before = state.callers();
        let Some((expected, patience)) = state.gather.patience(before) else {
            return;
        };
        let deadline = rt::now() + patience;
        while state.callers() < expected {
            if self.arrived.wait_until(state, deadline) {
                break;
            }
        }
        let now = state.callers();
        state.gather.waited(before, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Nanos;
    use fscore::Errno;
    use rt::{Sim, SimConfig};
    use std::sync::Arc;

    /// Epochs that take 1 ms each; `running` is what is logged now.
    struct Toy {
        group: Group,
        running: AtomicU64,
        leaders: AtomicU64,
        commits: AtomicU64,
    }

    impl Toy {
        fn new() -> Arc<Toy> {
            Arc::new(Toy {
                group: Group::new(Epoch(0)),
                running: AtomicU64::new(1),
                leaders: AtomicU64::new(0),
                commits: AtomicU64::new(0),
            })
        }
        fn sync(&self, fail_at: u64) -> FsResult<Epoch> {
            let mine = Epoch(self.running.load(Ordering::Acquire));
            self.group.wait(mine, Patience::ForCallers, || {
                let others = self.leaders.fetch_add(1, Ordering::AcqRel);
                assert_eq!(others, 0, "G1: two lead");
                let epoch = self.running.fetch_add(1, Ordering::AcqRel);
                rt::sleep(Nanos::from_millis(1));
                self.leaders.fetch_sub(1, Ordering::AcqRel);
                if epoch == fail_at {
                    return Err(Errno::Io.into());
                }
                self.commits.fetch_add(1, Ordering::AcqRel);
                Ok(Led::Committed(Epoch(epoch)))
            })?;
            assert!(self.group.last() >= mine, "G2");
            Ok(mine)
        }
    }

    #[test]
    fn a_hundred_callers_need_two_commits() {
        let outcome = Sim::new(SimConfig::seeded(3)).run(|| {
            let toy = Toy::new();
            let start = rt::now();
            rt::scope(|s| {
                for n in 0..100 {
                    let toy = toy.clone();
                    s.spawn(&format!("caller {n}"), move || {
                        toy.sync(0).expect("commits");
                    });
                }
            });
            assert!(rt::now() - start <= Nanos::from_millis(2), "G4");
            toy.commits.load(Ordering::Acquire)
        });
        assert!((1..=2).contains(&outcome.unwrap()));
    }

    /// Twenty callers that come back at once: one commit serves nearly all, not half of them.
    #[test]
    fn callers_that_come_back_share_one_commit() {
        let outcome = Sim::new(SimConfig::seeded(3)).run(|| {
            let toy = Toy::new();
            rt::scope(|s| {
                for n in 0..20 {
                    let toy = toy.clone();
                    s.spawn(&format!("caller {n}"), move || {
                        for _ in 0..50 {
                            rt::sleep(Nanos(n * 1_000));
                            toy.sync(0).expect("commits");
                        }
                    });
                }
            });
            toy.commits.load(Ordering::Acquire)
        });
        let commits = outcome.unwrap();
        assert!((50..60).contains(&commits), "G5: {commits}");
    }

    #[test]
    fn late_callers_share_the_next_one() {
        for seed in 0..20 {
            let outcome = Sim::new(SimConfig::seeded(seed)).run(|| {
                let toy = Toy::new();
                rt::scope(|s| {
                    for n in 0..40 {
                        let toy = toy.clone();
                        s.spawn(&format!("caller {n}"), move || {
                            rt::sleep(Nanos(n * 100_000));
                            let start = rt::now();
                            toy.sync(0).expect("commits");
                            let took = rt::now() - start;
                            assert!(took <= Nanos(2_500_000), "G4, G5: {took:?}");
                        });
                    }
                });
                toy.commits.load(Ordering::Acquire)
            });
            assert!(outcome.unwrap() <= 6, "4 ms of callers, 1 ms a commit");
        }
    }

    #[test]
    fn nobody_is_acknowledged_after_a_failure() {
        let outcome = Sim::new(SimConfig::seeded(3)).run(|| {
            let toy = Toy::new();
            let mut failed = 0;
            rt::scope(|s| {
                let tasks: Vec<_> = (0..30)
                    .map(|n| {
                        let toy = toy.clone();
                        s.spawn(&format!("caller {n}"), move || {
                            rt::sleep(Nanos(n * 100_000));
                            toy.sync(2)
                        })
                    })
                    .collect();
                for task in tasks {
                    match task.join().expect("no panic") {
                        Ok(epoch) => assert!(epoch < Epoch(2), "G3"),
                        Err(_) => failed += 1,
                    }
                }
            });
            failed
        });
        assert!(outcome.unwrap() > 10);
    }
}
