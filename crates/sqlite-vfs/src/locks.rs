//! SQLite's five-state lock of a database file (<https://www.sqlite.org/lockingv3.html>), among the
//! connections on one [`Mount`](crate::Mount). Two mounts of one file system do not see each
//! other's locks.

/// Lock states of one connection, in order of strength. The numbers are those of `SQLITE_LOCK_*`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Level {
    #[default]
    None = 0,
    /// The connection reads.
    Shared = 1,
    /// The connection will write; others go on reading.
    Reserved = 2,
    /// The connection waits for the readers to end; no new readers are admitted.
    Pending = 3,
    /// The connection writes.
    Exclusive = 4,
}

impl Level {
    pub(crate) fn from_code(code: i32) -> Option<Level> {
        [
            Level::None,
            Level::Shared,
            Level::Reserved,
            Level::Pending,
            Level::Exclusive,
        ]
        .into_iter()
        .find(|level| *level as i32 == code)
    }
}

/// The lock of another connection is in the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Busy;

/// The locks on one file.
#[derive(Default)]
pub(crate) struct FileLocks {
    /// Connections at `Shared` or above.
    sharers: u32,
    /// State of the one connection above `Shared`; `None` if there is none.
    writer: Level,
}

impl FileLocks {
    /// Strengthens the lock of a connection from `mine` to `want`. On [`Busy`] it may have become
    /// `Pending`, which holds new readers back until the caller tries again or gives up.
    pub(crate) fn lock(&mut self, mine: &mut Level, want: Level) -> Result<(), Busy> {
        if *mine >= want {
            return Ok(());
        }
        // SQLite does not ask for these; the count of sharers would not be true any more.
        if (*mine == Level::None) != (want == Level::Shared) || want == Level::Pending {
            return Err(Busy);
        }
        let others_write = self.writer > Level::None && *mine < Level::Reserved;
        match want {
            Level::None => {}
            Level::Shared => {
                if self.writer >= Level::Pending {
                    return Err(Busy);
                }
                self.sharers += 1;
            }
            Level::Reserved => {
                if others_write {
                    return Err(Busy);
                }
                self.writer = Level::Reserved;
            }
            Level::Pending | Level::Exclusive => {
                if others_write {
                    return Err(Busy);
                }
                if self.sharers > 1 {
                    // From Shared (a hot journal) there is no pending state: two connections that
                    // recover would block each other.
                    if *mine >= Level::Reserved {
                        *mine = Level::Pending;
                        self.writer = Level::Pending;
                    }
                    return Err(Busy);
                }
                self.writer = Level::Exclusive;
            }
        }
        *mine = want;
        Ok(())
    }

    /// Weakens the lock of a connection to `Shared` or `None`; other levels change nothing.
    pub(crate) fn unlock(&mut self, mine: &mut Level, to: Level) {
        if *mine <= to || to > Level::Shared {
            return;
        }
        if *mine >= Level::Reserved {
            self.writer = Level::None;
        }
        if to == Level::None {
            self.sharers -= 1;
        }
        *mine = to;
    }

    /// Some connection is going to write.
    pub(crate) fn is_reserved(&self) -> bool {
        self.writer >= Level::Reserved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Level::{Exclusive, None, Pending, Reserved, Shared};

    #[test]
    fn readers_share_and_a_reserved_writer_lets_them() {
        let mut locks = FileLocks::default();
        let (mut a, mut b, mut c) = (None, None, None);
        locks.lock(&mut a, Shared).unwrap();
        locks.lock(&mut b, Shared).unwrap();
        locks.lock(&mut a, Reserved).unwrap();
        assert!(locks.is_reserved());
        assert_eq!(locks.lock(&mut b, Reserved), Err(Busy));
        assert_eq!(b, Shared);
        locks.lock(&mut c, Shared).unwrap();
    }

    #[test]
    fn pending_keeps_new_readers_out_until_the_old_ones_go() {
        let mut locks = FileLocks::default();
        let (mut a, mut b, mut c) = (None, None, None);
        locks.lock(&mut a, Shared).unwrap();
        locks.lock(&mut b, Shared).unwrap();
        locks.lock(&mut a, Reserved).unwrap();
        assert_eq!(locks.lock(&mut a, Exclusive), Err(Busy));
        assert_eq!(a, Pending);
        assert_eq!(locks.lock(&mut c, Shared), Err(Busy));
        locks.unlock(&mut b, None);
        locks.lock(&mut a, Exclusive).unwrap();
        assert_eq!(locks.lock(&mut c, Shared), Err(Busy));
        locks.unlock(&mut a, Shared);
        locks.lock(&mut c, Shared).unwrap();
        locks.unlock(&mut a, None);
        locks.unlock(&mut c, None);
        assert!(locks.sharers == 0 && !locks.is_reserved());
    }

    #[test]
    fn a_hot_journal_is_recovered_by_one_alone() {
        let mut locks = FileLocks::default();
        let (mut a, mut b) = (None, None);
        locks.lock(&mut a, Shared).unwrap();
        locks.lock(&mut b, Shared).unwrap();
        assert_eq!(locks.lock(&mut a, Exclusive), Err(Busy));
        assert_eq!((a, locks.is_reserved()), (Shared, false));
        locks.unlock(&mut b, None);
        locks.lock(&mut a, Exclusive).unwrap();
        assert_eq!(locks.lock(&mut b, Shared), Err(Busy));
    }

    /// What a client of another process says is not trusted.
    #[test]
    fn a_step_that_sqlite_does_not_take_changes_nothing() {
        let mut locks = FileLocks::default();
        let (mut reader, mut hostile) = (None, None);
        locks.lock(&mut reader, Shared).unwrap();
        for want in [Reserved, Pending, Exclusive] {
            assert_eq!(locks.lock(&mut hostile, want), Err(Busy));
        }
        assert_eq!(hostile, None);
        locks.lock(&mut hostile, Shared).unwrap();
        assert_eq!(locks.lock(&mut hostile, Pending), Err(Busy));
        locks.lock(&mut hostile, Reserved).unwrap();
        locks.unlock(&mut hostile, Reserved);
        assert!(locks.is_reserved());
        assert_eq!(locks.lock(&mut hostile, Exclusive), Err(Busy));
        locks.unlock(&mut hostile, Reserved);
        assert_eq!((hostile, locks.is_reserved()), (Pending, true));
        locks.unlock(&mut hostile, None);
        locks.unlock(&mut reader, None);
        assert!(locks.sharers == 0 && !locks.is_reserved());
    }
}
