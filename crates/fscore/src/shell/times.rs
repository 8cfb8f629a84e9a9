//! Measures where the time of fsync and fdatasync calls goes.

use base::Nanos;
use rt::Mutex;
use std::collections::BTreeMap;

/// Sums over all calls since the mount, by part of a call. The parts of one call do not overlap.
#[derive(Debug)]
pub struct SyncTimes(Mutex<BTreeMap<&'static str, Nanos>>);

impl Default for SyncTimes {
    fn default() -> SyncTimes {
        SyncTimes(Mutex::named("sync times", BTreeMap::new()))
    }
}

impl SyncTimes {
    /// Runs one part of a call.
    pub fn part<R>(&self, name: &'static str, work: impl FnOnce() -> R) -> R {
        let start = rt::now();
        let result = work();
        let took = rt::now() - start;
        *self.0.lock().entry(name).or_default() += took;
        result
    }

    /// The sums so far.
    pub fn sums(&self) -> BTreeMap<&'static str, Nanos> {
        self.0.lock().clone()
    }
}
