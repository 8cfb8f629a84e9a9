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
pub(super) struct Refused(BTreeMap<(String, String), u64>);

impl Refused {
    /// Counts a call if it has failed because the volume does not know it.
    pub fn note<T>(&mut self, call: &str, path: &str, done: &FsResult<T>) {
        let lacks = |errno| matches!(errno, Errno::NotSup | Errno::NoSys);
        if done.as_ref().err().is_some_and(|e| lacks(e.errno())) {
            self.add(call, path);
        }
    }

    /// Counts a call.
    pub fn add(&mut self, call: &str, path: &str) {
        let key = (call.to_string(), path.to_string());
        if self.0.len() < COUNTED || self.0.contains_key(&key) {
            *self.0.entry(key).or_default() += 1;
        }
    }

    /// All of them, in words.
    pub fn words(&self) -> Option<String> {
        let one = |((call, path), times): (&(String, String), &u64)| match times {
            1 => format!("{call} of {path}"),
            times => format!("{call} of {path} ({times} times)"),
        };
        let mut named: Vec<String> = self.0.iter().take(NAMED).map(one).collect();
        if let Some(more) = self.0.len().checked_sub(NAMED).filter(|more| *more > 0) {
            named.push(format!("{more} more calls"));
        }
        (!named.is_empty()).then(|| named.join(", "))
    }
}
