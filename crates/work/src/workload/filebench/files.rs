//! The state of a set while it runs: which files are there, which are in use, which comes next.
//!
//! As in Filebench a file that is picked is busy until the flowop that picked it has opened, made,
//! removed or examined it, and a file that is open is not deleted. Files that exist are picked in
//! rotation, by each thread for itself; files that do not exist are picked in one rotation for all
//! threads; with `opennext` each file is picked once, at random.
//!
//! - I1: each entry is in exactly one of `exists` and `absent`; `fresh` is a part of `exists`.

use super::tree::Tree;
use base::{Rng, Time};
use rt::{Condvar, Mutex};
use std::collections::BTreeSet;

/// The kind of entry that a pick asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Want {
    /// An entry that is there.
    Exists,
    /// An entry that is not there.
    Absent,
    /// An entry that is there and has not been picked as fresh before.
    Fresh,
}

/// The result of a pick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Picked {
    /// The entry that was picked; it is busy now.
    Entry(u32),
    /// There is no entry of that kind.
    None,
    /// The deadline passed or the run ended, while all entries of the kind were busy.
    Late,
}

/// All files of a set, or all its empty directories.
pub struct Entries {
    state: Mutex<State>,
    /// Signalled when an entry is no longer busy, or the run ends.
    idle: Condvar,
}

struct State {
    /// Entries that are there.
    exists: BTreeSet<u32>,
    /// Entries that are not there.
    absent: BTreeSet<u32>,
    /// Entries that are there and were never picked by `opennext`.
    fresh: BTreeSet<u32>,
    /// Where the common rotation of absent entries goes on.
    next_absent: u32,
    entries: Vec<Entry>,
    ended: bool,
}

/// The state of one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    /// Size in bytes.
    pub size: u64,
    /// How often it was made.
    pub generation: u32,
    /// A write began beyond its end, so a part of it was never written.
    pub holes: bool,
    /// Number of open handles.
    opened: u32,
    busy: bool,
    /// A thread appends to it.
    appending: bool,
}

impl Entries {
    /// `count` entries, of which none is there.
    pub fn new(count: usize) -> Entries {
        let state = State {
            exists: BTreeSet::new(),
            absent: (0..count as u32).collect(),
            fresh: BTreeSet::new(),
            next_absent: 0,
            entries: vec![Entry::default(); count],
            ended: false,
        };
        Entries {
            state: Mutex::named("filebench entries", state),
            idle: Condvar::named("filebench entries"),
        }
    }

    /// Picks an entry and makes it busy; waits while all entries of that kind are busy. `rotor` is
    /// where the thread's own rotation goes on.
    pub fn pick(&self, want: Want, rotor: &mut u32, rng: &mut Rng, deadline: Time) -> Picked {
        let mut state = self.state.lock();
        loop {
            if state.ended {
                return Picked::Late;
            }
            let count = state.entries.len().max(1) as u64;
            let (from, at) = match want {
                Want::Exists => (&state.exists, *rotor),
                Want::Absent => (&state.absent, state.next_absent),
                Want::Fresh => (&state.fresh, rng.below(count) as u32),
            };
            if from.is_empty() {
                return Picked::None;
            }
            let all = from.range(at..).chain(from.range(..at));
            let found = all.copied().find(|n| !state.entries[*n as usize].busy);
            if let Some(n) = found {
                match want {
                    Want::Exists => *rotor = n + 1,
                    Want::Absent => state.next_absent = n + 1,
                    Want::Fresh => drop(state.fresh.remove(&n)),
                }
                state.entries[n as usize].busy = true;
                return Picked::Entry(n);
            }
            if self.idle.wait_until(&mut state, deadline) {
                return Picked::Late;
            }
        }
    }

    /// Ends a pick: the entry is no longer busy. `exists` is given if that changed; `handles` is
    /// the number of handles more or fewer.
    pub fn give_back(&self, n: u32, exists: Option<bool>, handles: i32) {
        let mut state = self.state.lock();
        let state = &mut *state;
        // I1: the entry moves from one set to the other.
        match exists {
            Some(true) if state.absent.remove(&n) => {
                state.exists.insert(n);
                state.fresh.insert(n);
            }
            Some(false) if state.exists.remove(&n) => {
                state.fresh.remove(&n);
                state.absent.insert(n);
            }
            _ => {}
        }
        let entry = &mut state.entries[n as usize];
        entry.opened = entry.opened.saturating_add_signed(handles);
        entry.busy = false;
        self.idle.notify_all();
    }

    /// Counts a handle that was closed.
    pub fn closed(&self, n: u32) {
        let mut state = self.state.lock();
        let entry = &mut state.entries[n as usize];
        entry.opened = entry.opened.saturating_sub(1);
    }

    /// True if a handle is open.
    pub fn is_open(&self, n: u32) -> bool {
        self.state.lock().entries[n as usize].opened > 0
    }

    /// Number of entries that are there.
    pub fn existing(&self) -> usize {
        self.state.lock().exists.len()
    }

    /// The state of an entry.
    pub fn entry(&self, n: u32) -> Entry {
        self.state.lock().entries[n as usize]
    }

    /// A file was made anew: it is empty and of the next generation. Returns its state.
    pub fn made(&self, n: u32) -> Entry {
        let mut state = self.state.lock();
        let entry = &mut state.entries[n as usize];
        (entry.size, entry.generation) = (0, entry.generation + 1);
        entry.holes = false;
        *entry
    }

    /// Notes that a write at `at` begins.
    pub fn begins(&self, n: u32, at: u64) {
        let mut state = self.state.lock();
        let entry = &mut state.entries[n as usize];
        entry.holes |= at > entry.size;
    }

    /// Notes that the file was written as far as `end`.
    pub fn reaches(&self, n: u32, end: u64) {
        let mut state = self.state.lock();
        let entry = &mut state.entries[n as usize];
        entry.size = entry.size.max(end);
    }

    /// Keeps others from appending, and returns the end of the file.
    /// [`appended`](Entries::appended) has to follow.
    pub fn append(&self, n: u32) -> u64 {
        let mut state = self.state.lock();
        while state.entries[n as usize].appending {
            self.idle.wait(&mut state);
        }
        let entry = &mut state.entries[n as usize];
        entry.appending = true;
        entry.size
    }

    /// Ends an append after which the file reaches to `end`.
    pub fn appended(&self, n: u32, end: u64) {
        let mut state = self.state.lock();
        let entry = &mut state.entries[n as usize];
        entry.appending = false;
        entry.size = entry.size.max(end);
        self.idle.notify_all();
    }

    /// Ends the run: nobody waits for an entry any more.
    pub fn end(&self) {
        self.state.lock().ended = true;
        self.idle.notify_all();
    }

    /// For each entry whether it is there.
    pub fn there(&self) -> Vec<bool> {
        let state = self.state.lock();
        let there = |n| state.exists.contains(&n);
        (0..state.entries.len() as u32).map(there).collect()
    }
}

/// A set of files while it runs.
pub struct Set {
    /// Its directories, and where each file lies.
    pub tree: Tree,
    /// Its files.
    pub files: Entries,
    /// Its empty directories.
    pub leaves: Entries,
    /// Files are opened for reading only.
    pub readonly: bool,
    /// Number of the set, on which the content of its files depends.
    pub number: u64,
}

impl Set {
    /// The content of this generation of a file.
    pub fn stamp(&self, n: u32, generation: u32) -> Stamp {
        let key = self.number << 56 ^ u64::from(n) << 24 ^ u64::from(generation);
        Stamp(base::collections::mix(key))
    }
}

/// The content of a file: each word of eight bytes says at which offset and in which file it is, so
/// a word in a wrong place shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp(u64);

impl Stamp {
    fn byte(self, at: u64) -> u8 {
        let word = self
            .0
            .wrapping_add((at / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        word.to_le_bytes()[(at % 8) as usize]
    }

    fn word(self, number: u64) -> [u8; 8] {
        let word = self
            .0
            .wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        word.to_le_bytes()
    }

    /// Fills `buffer` with the content at offset `at`.
    pub fn fill(self, at: u64, buffer: &mut [u8]) {
        let head = ((8 - at % 8) % 8).min(buffer.len() as u64) as usize;
        let (first, rest) = buffer.split_at_mut(head);
        for (n, byte) in first.iter_mut().enumerate() {
            *byte = self.byte(at + n as u64);
        }
        let numbers = (at + head as u64) / 8..;
        for (number, chunk) in numbers.zip(rest.chunks_mut(8)) {
            chunk.copy_from_slice(&self.word(number)[..chunk.len()]);
        }
    }

    /// The offset at which `found`, read at `at`, first differs; `None` if it does not.
    pub fn differs(self, at: u64, found: &[u8]) -> Option<u64> {
        let head = ((8 - at % 8) % 8).min(found.len() as u64) as usize;
        let (first, rest) = found.split_at(head);
        let mut number = (at + head as u64) / 8;
        let same = (0..head).all(|n| first[n] == self.byte(at + n as u64))
            && rest.chunks(8).all(|chunk| {
                let wanted = self.word(number);
                number += 1;
                *chunk == wanted[..chunk.len()]
            });
        if same {
            return None;
        }
        let all = found.iter().enumerate();
        let mut wrong = all.filter(|(n, byte)| **byte != self.byte(at + *n as u64));
        wrong.next().map(|(n, _)| at + n as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_the_same_in_any_parts() {
        let stamp = Stamp(12345);
        let mut whole = vec![0; 100];
        stamp.fill(3, &mut whole);
        for cut in 0..100 {
            let mut parts = vec![0; 100];
            let (a, b) = parts.split_at_mut(cut);
            stamp.fill(3, a);
            stamp.fill(3 + cut as u64, b);
            assert_eq!(parts, whole);
            assert_eq!(stamp.differs(3 + cut as u64, &whole[cut..]), None);
        }
        whole[50] ^= 1;
        assert_eq!(stamp.differs(3, &whole), Some(53));
        assert!(Stamp(12346).differs(3, &whole[..50]).is_some());
        assert!(
            stamp.differs(11, &whole[..50]).is_some(),
            "at another place"
        );
    }

    #[test]
    fn picks_rotate_skip_what_is_busy_and_say_when_there_is_none() {
        let entries = Entries::new(3);
        let (mut rotor, mut rng, soon) = (0, Rng::named(1, "x"), Time(1));
        let mut pick = |want| entries.pick(want, &mut rotor, &mut rng, soon);
        assert_eq!(pick(Want::Exists), Picked::None);
        assert_eq!(pick(Want::Absent), Picked::Entry(0));
        entries.give_back(0, Some(true), 1);
        assert!(entries.is_open(0));
        entries.closed(0);
        assert!(!entries.is_open(0));
        assert_eq!(pick(Want::Absent), Picked::Entry(1));
        assert_eq!(pick(Want::Absent), Picked::Entry(2), "1 is busy");
        entries.give_back(1, None, 0);
        assert_eq!(pick(Want::Absent), Picked::Entry(1), "round again");
        entries.give_back(1, Some(true), 0);
        entries.give_back(2, Some(true), 0);
        assert_eq!(pick(Want::Absent), Picked::None);
        let fresh: Vec<Picked> = (0..4).map(|_| pick(Want::Fresh)).collect();
        assert_eq!(fresh[3], Picked::None, "each once");
        assert!(fresh[..3].iter().all(|p| matches!(p, Picked::Entry(_))));
        (0..3).for_each(|n| entries.give_back(n, None, 0));
        assert_eq!(
            [pick(Want::Exists), pick(Want::Exists)],
            [Picked::Entry(0), Picked::Entry(1)]
        );
        entries.give_back(1, Some(false), 0);
        assert_eq!(entries.there(), [true, false, true]);
    }
}
