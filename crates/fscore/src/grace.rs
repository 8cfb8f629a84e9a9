//! Which operations of a mount run, and which inodes each of them may know: so that a number is
//! not reused while an operation may still use it (vfs-V1), and so that an inode whose last name
//! is removed can be freed at once where no operation knows it.
//!
//! Every operation on names carries a number while it runs. Operations know inodes by number and
//! pin none of them, because most end before anybody could notice. A removal therefore has to deal
//! with those that looked the name up before it went. Where there is one, the inode is pinned and
//! retired with the number of the newest operation, and the pin is dropped by the operation that
//! ends last among those that ran at that time, as the last `iput` does in Linux. So no operation
//! waits for another. Where there is none, nobody has to be waited for.
//!
//! - G1 an operation says which names it is going to look up before it looks them up
//!   ([`Grace::looks_up`]). Whoever asks about a name while it holds the lock under which a lookup
//!   of that name would have to come misses no operation: what has not said it yet looks the name
//!   up later, and finds it gone;
//! - G2 what an operation says covers the inode also when that gets further names, because the
//!   removal of the name that was said pins it. Where a name is moved it does not: an operation
//!   that runs at any time beside one that moves names counts as knowing every inode, as does one
//!   that goes by `..` or reads a directory.
//!
//! Names are compared by a hash and without their directory: of two that are taken for one the only
//! consequence is a pin that nobody needed. They are compared as they are spelt. So a file system
//! in whose directories a name has several spellings must not ask [`Onlookers`], but leave it to
//! its callers to pin what loses a name, as `ext4` does.

use base::Ino;
use base::collections::fingerprint;
use rt::Mutex;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};

/// The number of a running operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct OpNo(u64);

/// What a running operation may know (G1).
#[derive(Default)]
struct Knows {
    /// Every inode (G2).
    all: bool,
    /// Those that had a name with one of these hashes: the first, which is the only one of most
    /// operations, and all others.
    name: Option<u64>,
    names: Vec<u64>,
    /// It moves names.
    moves: bool,
}

impl Knows {
    fn add(&mut self, name: u64) {
        match self.name {
            None => self.name = Some(name),
            Some(_) => self.names.push(name),
        }
    }
    fn has(&self, name: u64) -> bool {
        self.name == Some(name) || self.names.contains(&name)
    }
}

#[derive(Default)]
struct State {
    newest: u64,
    active: BTreeMap<OpNo, Knows>,
    /// How many of them move names.
    moving: u32,
    /// The inodes that wait to be unpinned, the oldest first.
    retired: VecDeque<(OpNo, Ino)>,
}

impl State {
    fn knows(&mut self, op: OpNo) -> &mut Knows {
        let knows = self.active.get_mut(&op);
        knows.expect("G1: an operation speaks while it runs")
    }
}

/// Running operations and retired inodes.
pub struct Grace(Mutex<State>);

impl Default for Grace {
    fn default() -> Grace {
        Grace(Mutex::named("grace", State::default()))
    }
}

impl Grace {
    /// Begins an operation.
    pub fn enter(&self) -> OpNo {
        let mut s = self.0.lock();
        s.newest += 1;
        let op = OpNo(s.newest);
        let all = s.moving > 0;
        let knows = Knows {
            all,
            ..Knows::default()
        };
        s.active.insert(op, knows);
        op
    }
    /// The operation is going to look up each component of `path` (G1).
    pub fn looks_up(&self, op: OpNo, path: &[u8]) {
        let names = path.split(|&b| b == b'/').filter(|name| !name.is_empty());
        let mut s = self.0.lock();
        let knows = s.knows(op);
        for name in names {
            match name {
                b"." => {}
                b".." => knows.all = true,
                _ => knows.add(fingerprint(name)),
            }
        }
    }
    /// The operation is going to read a directory (G2).
    pub fn looks_at_all(&self, op: OpNo) {
        self.0.lock().knows(op).all = true;
    }
    /// The operation is going to move names (G2).
    pub fn moves(&self, op: OpNo) {
        let mut s = self.0.lock();
        s.knows(op).moves = true;
        s.moving += 1;
        s.active.values_mut().for_each(|knows| knows.all = true);
    }
    /// Takes over the caller's pin of `ino`, which has lost a name, until no operation can know it.
    pub fn retire(&self, ino: Ino) {
        let mut s = self.0.lock();
        let newest = OpNo(s.newest);
        s.retired.push_back((newest, ino));
    }
    /// Ends the operation; the caller unpins the inodes in the answer.
    pub fn leave(&self, op: OpNo) -> SmallVec<[Ino; 1]> {
        let mut s = self.0.lock();
        let knows = s.active.remove(&op);
        let knows = knows.unwrap_or_else(|| panic!("vfs-V1: operation {op:?} ended twice"));
        s.moving -= u32::from(knows.moves);
        let oldest = s.active.keys().next().copied();
        let free = |stamp: OpNo| oldest.is_none_or(|oldest| oldest > stamp);
        let mut out = SmallVec::new();
        while s.retired.front().is_some_and(|&(stamp, _)| free(stamp)) {
            out.extend(s.retired.pop_front().map(|(_, ino)| ino));
        }
        out
    }
}

/// What a file system asks when a name is removed: whether other operations may know the inode.
#[derive(Clone, Copy)]
pub struct Onlookers<'a>(Option<(&'a Grace, OpNo)>);

impl<'a> Onlookers<'a> {
    /// Nobody looks on: the caller knows inodes by pins alone.
    pub const NONE: Onlookers<'static> = Onlookers(None);

    /// All operations but `op`, which removes a name.
    pub fn beside(grace: &'a Grace, op: OpNo) -> Onlookers<'a> {
        Onlookers(Some((grace, op)))
    }

    /// True if another operation may know the inode called `name`. The caller holds the lock under
    /// which `name` is looked up (G1), and if the answer is true it pins that inode and
    /// [retires](Self::retire) it before it lets go of the lock.
    pub fn may_know(&self, name: &[u8]) -> bool {
        let Some((grace, op)) = self.0 else {
            return false;
        };
        let name = fingerprint(name);
        let s = grace.0.lock();
        let mut others = s.active.iter().filter(|&(&other, _)| other != op);
        others.any(|(_, knows)| knows.all || knows.has(name))
    }

    /// Hands a pin of the inode over to the operations that may know it.
    pub fn retire(&self, ino: Ino) {
        let (grace, _) = self.0.expect("G1: somebody looks on");
        grace.retire(ino);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retired_inode_waits_for_the_operations_of_its_time_only() {
        let g = Grace::default();
        let walker = g.enter();
        let remover = g.enter();
        g.retire(Ino(7));
        let later = g.enter();
        assert!(g.leave(remover).is_empty(), "the walker may know inode 7");
        assert_eq!(g.leave(walker)[..], [Ino(7)], "the later one cannot");
        assert!(g.leave(later).is_empty());
    }

    /// G1, G2.
    #[test]
    fn who_has_said_a_name_may_know_its_inode() {
        let g = Grace::default();
        let remover = g.enter();
        g.looks_up(remover, b"/a/f");
        let others = Onlookers::beside(&g, remover);
        let knows = || (others.may_know(b"f"), others.may_know(b"g"));
        assert_eq!(knows(), (false, false), "it does not count itself");
        let walker = g.enter();
        assert_eq!(knows(), (false, false), "it has looked nothing up");
        g.looks_up(walker, b"//b/./f/x");
        assert_eq!(knows(), (true, false));
        g.looks_up(walker, b"b/..");
        assert_eq!(knows(), (true, true), "where that leads is not known");
        g.leave(walker);
        assert_eq!(knows(), (false, false));
        let reader = g.enter();
        g.looks_at_all(reader);
        assert_eq!(knows(), (true, true));
        g.leave(reader);
        assert!(!Onlookers::NONE.may_know(b"f"));
    }

    /// G2: the inode that an operation has looked up as `f` may be called `g` by now.
    #[test]
    fn beside_a_rename_every_name_may_be_known() {
        let g = Grace::default();
        let remover = g.enter();
        let others = Onlookers::beside(&g, remover);
        let before = g.enter();
        let mover = g.enter();
        g.moves(mover);
        let meanwhile = g.enter();
        g.leave(mover);
        assert!(others.may_know(b"g"));
        g.leave(before);
        assert!(others.may_know(b"g"));
        g.leave(meanwhile);
        let behind = g.enter();
        assert!(!others.may_know(b"g"), "it finds names where they are now");
        g.leave(behind);
    }
}
