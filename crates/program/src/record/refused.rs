//! Calls that the volume refuses because it lacks what they ask for: a program that fails is told
//! of them. What the kernel refuses by itself does not come here.

use std::collections::BTreeMap;
use vfs::{Errno, FsResult};

/// Calls that are named.
const NAMED: usize = 5;
/// Different calls that are counted.
const COUNTED: usize = 1000;

/// Refused calls, with their path and how often.
#[derive(Default)]
pub(super) struct Refused {
    calls: BTreeMap<(String, String), u64>,
    /// Calls that found no room.
    full: u64,
}

impl Refused {
    /// Counts a call if it has failed because the volume does not know it.
    pub fn note<T>(&mut self, call: &str, path: &str, done: &FsResult<T>) {
        let lacks = |errno| matches!(errno, Errno::NotSup | Errno::NoSys);
        if done.as_ref().err().is_some_and(|e| lacks(e.errno())) {
            self.add(call, path);
        }
    }

    /// Counts a call if it has failed because the volume is full.
    pub fn note_room<T>(&mut self, done: &FsResult<T>) {
        let full = |e: &vfs::FsError| e.errno() == Errno::NoSpc;
        self.full += u64::from(done.as_ref().err().is_some_and(full));
    }

    /// How many calls found no room.
    pub fn full(&self) -> u64 {
        self.full
    }

    /// Counts a call.
    pub fn add(&mut self, call: &str, path: &str) {
        let key = (call.to_string(), path.to_string());
        if self.calls.len() < COUNTED || self.calls.contains_key(&key) {
            *self.calls.entry(key).or_default() += 1;
        }
    }

    /// All of them, in words.
    pub fn words(&self) -> Option<String> {
        let one = |((call, path), times): (&(String, String), &u64)| match times {
            1 => format!("{call} of {path}"),
            times => format!("{call} of {path} ({times} times)"),
        };
        let mut named: Vec<String> = self.calls.iter().take(NAMED).map(one).collect();
        if let Some(more) = self.calls.len().checked_sub(NAMED).filter(|more| *more > 0) {
            named.push(format!("{more} more calls"));
        }
        (!named.is_empty()).then(|| named.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(errno: Errno) -> FsResult<()> {
        Err(errno.into())
    }

    #[test]
    fn what_the_volume_lacks_is_counted_and_no_other_failure() {
        let mut refused = Refused::default();
        refused.note("fallocate", "a", &Ok(()));
        refused.note_room(&failed(Errno::NoSpc));
        refused.note_room(&failed(Errno::Io));
        assert_eq!((refused.words(), refused.full()), (None, 1));
        refused.note("fallocate", "a", &failed(Errno::NotSup));
        refused.note("fallocate", "a", &failed(Errno::NoSys));
        refused.note("fallocate", "b", &failed(Errno::NotSup));
        let words = "fallocate of a (2 times), fallocate of b";
        assert_eq!(refused.words().as_deref(), Some(words));
    }

    #[test]
    fn the_first_are_named_and_the_others_counted_up_to_a_limit() {
        let mut refused = Refused::default();
        for number in 0..COUNTED + 7 {
            refused.add("rename", &format!("{number:04}"));
        }
        refused.add("rename", "0000");
        let words = refused.words().expect("some");
        assert!(
            words.starts_with("rename of 0000 (2 times), rename of 0001, "),
            "{words}"
        );
        let more = format!("rename of 0004, {} more calls", COUNTED - NAMED);
        assert!(words.ends_with(&more), "{words}");
    }
}
