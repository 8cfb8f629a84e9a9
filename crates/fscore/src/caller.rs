//! The user for whom the running task works, and the right to use the blocks that a volume holds
//! back.
//!
//! The kernel knows the caller of a system call at every place, and file systems here have to know
//! it too: a front door that serves several users runs each operation [as its
//! caller](Caller::scope). An operation that runs outside of such a scope counts as the
//! superuser's. The caller matters for the right to held back blocks alone: permissions have been
//! checked before.

use std::cell::RefCell;
use std::rc::Rc;

/// A user, with the groups of the process that made the call.
#[derive(Debug)]
pub struct Caller {
    uid: u32,
    gid: u32,
    /// Process, and what knows the groups of one.
    process: Option<(u32, GroupsOf)>,
    /// Their groups beside `gid`, once they are known.
    groups: RefCell<Option<Vec<u32>>>,
}

/// Answers the groups that a process is in beside its own; none if they are not known. It must not
/// wait inside of `rt`.
pub type GroupsOf = fn(process: u32) -> Vec<u32>;

impl Caller {
    /// A user who is in group `gid` and in all of `groups`.
    pub fn new(uid: u32, gid: u32, groups: Vec<u32>) -> Caller {
        Caller {
            uid,
            gid,
            process: None,
            groups: RefCell::new(Some(groups)),
        }
    }

    /// A user whose groups are those of a process; they are asked for once at most, and only when
    /// they matter.
    pub fn of_process(uid: u32, gid: u32, process: u32, groups_of: GroupsOf) -> Caller {
        Caller {
            uid,
            gid,
            process: Some((process, groups_of)),
            groups: RefCell::new(None),
        }
    }

    /// Runs `f` for this caller: the running task works for them until `f` ends. Tasks that `f`
    /// starts do not.
    pub fn scope<T>(self, f: impl FnOnce() -> T) -> T {
        rt::with_local(self, f)
    }

    /// Whether the running task's caller is in this group, or the superuser.
    pub fn current_is_in(gid: u32) -> bool {
        Caller::current().is_none_or(|caller| caller.uid == 0 || caller.is_in(gid))
    }

    /// The caller for whom the running task works; `None`: the superuser.
    fn current() -> Option<Rc<Caller>> {
        rt::local()
    }

    fn is_in(&self, gid: u32) -> bool {
        if self.gid == gid {
            return true;
        }
        if self.groups.borrow().is_none() {
            let found = self.process.map(|(process, of)| of(process));
            *self.groups.borrow_mut() = Some(found.unwrap_or_default());
        }
        let groups = self.groups.borrow();
        groups.as_ref().is_some_and(|known| known.contains(&gid))
    }
}

/// The thread of the host whose request the running task answers, as a front door is told it; 0 is
/// the kernel, which writes back by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requester(pub u32);

impl Requester {
    /// Runs `f` for this thread, as [`Caller::scope`] does for a user.
    pub fn scope<T>(self, f: impl FnOnce() -> T) -> T {
        rt::with_local(self, f)
    }

    /// The thread for which the running task works; `None` without a front door that says so.
    pub fn current() -> Option<Requester> {
        rt::local().map(|requester| *requester)
    }
}

/// The user and the group, beside the superuser, that may use the blocks that a volume holds back
/// (ext4: `s_def_resuid` and `s_def_resgid`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReserveOwner {
    /// This user.
    pub uid: u32,
    /// Members of this group; 0: no group has the right.
    pub gid: u32,
}

impl ReserveOwner {
    /// Whether the running task's caller may use the blocks, as far as user and primary group
    /// decide; `None`: their further groups decide.
    pub fn admits_by_number(&self) -> Option<bool> {
        let Some(caller) = Caller::current() else {
            return Some(true);
        };
        let by_number = caller.uid == 0 || caller.uid == self.uid;
        match self.gid {
            _ if by_number => Some(true),
            0 => Some(false),
            gid if gid == caller.gid => Some(true),
            _ => None,
        }
    }

    /// Whether the running task's caller may use the blocks. Looks up their further groups where
    /// these decide, which can mean reading a file of the host.
    pub fn admits(&self) -> bool {
        let by_groups = || Caller::current().is_none_or(|caller| caller.is_in(self.gid));
        self.admits_by_number().unwrap_or_else(by_groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn owner(uid: u32, gid: u32) -> ReserveOwner {
        ReserveOwner { uid, gid }
    }

    #[test]
    fn the_superuser_the_user_and_the_group() {
        assert!(owner(0, 0).admits(), "nobody says who calls");
        for (uid, gid, groups, user, group, may) in [
            (0, 7, vec![], 5, 6, true),
            (5, 7, vec![], 5, 0, true),
            (6, 7, vec![], 5, 0, false),
            (6, 7, vec![], 5, 7, true),
            (6, 7, vec![8, 9], 5, 9, true),
            (6, 7, vec![8, 9], 5, 10, false),
            // Group 0 is never the group of the reserve, whatever groups the caller is in.
            (6, 0, vec![0], 0, 0, false),
        ] {
            let seen = format!("{uid} {gid} {groups:?} of {user} {group}");
            let caller = Caller::new(uid, gid, groups);
            assert_eq!(caller.scope(|| owner(user, group).admits()), may, "{seen}");
        }
    }

    #[test]
    fn groups_are_asked_for_once_and_only_where_they_decide() {
        struct Asked(Cell<u32>);
        fn asked() -> Rc<Asked> {
            rt::local().expect("counted below")
        }
        fn of(process: u32) -> Vec<u32> {
            asked().0.set(asked().0.get() + 1);
            vec![process]
        }
        let caller = Caller::of_process(6, 7, 1234, of);
        let look = || {
            assert!(!owner(5, 0).admits());
            assert!(owner(5, 7).admits() && owner(6, 9).admits());
            assert_eq!(owner(5, 1234).admits_by_number(), None);
            assert_eq!(asked().0.get(), 0);
            assert!(owner(5, 1234).admits() && !owner(5, 1235).admits());
            assert_eq!(asked().0.get(), 1);
        };
        rt::with_local(Asked(Cell::new(0)), || caller.scope(look));
    }
}
