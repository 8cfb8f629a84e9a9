//! Single operations of a run, for what other programs read: [`fio`](crate::fio) and
//! [`hdr`](crate::hdr). A run notes them only where they are wanted.

use base::{Nanos, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One operation or sync.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(from = "(u64, u64)", into = "(u64, u64)")]
pub struct Sample {
    /// When it ended, nanoseconds from the beginning of the measured part.
    pub end_ns: u64,
    /// How long it took, nanoseconds.
    pub took_ns: u64,
}

impl From<(u64, u64)> for Sample {
    fn from((end_ns, took_ns): (u64, u64)) -> Sample {
        Sample { end_ns, took_ns }
    }
}

impl From<Sample> for (u64, u64) {
    fn from(sample: Sample) -> (u64, u64) {
        (sample.end_ns, sample.took_ns)
    }
}

/// All operations and syncs of the measured part of a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Samples {
    /// Operations by their kind, as `ops_by_kind` of the results has them.
    pub ops: BTreeMap<String, Vec<Sample>>,
    /// Calls of fsync and fdatasync, by their ends.
    pub syncs: Vec<Sample>,
}

impl Samples {
    /// Notes an operation that ended so long after the beginning of the measured part.
    pub fn add(&mut self, kind: &str, end: Nanos, took: Nanos) {
        let sample = Sample::from((end.0, took.0));
        match self.ops.get_mut(kind) {
            Some(samples) => samples.push(sample),
            None => drop(self.ops.insert(kind.into(), vec![sample])),
        }
    }

    /// Notes the syncs of a measured part that began at `begin`, each with its call and duration.
    pub fn add_syncs(&mut self, begin: Time, syncs: impl IntoIterator<Item = (Time, Nanos)>) {
        let sample = |(at, took): (Time, Nanos)| Sample::from(((at + took - begin).0, took.0));
        self.syncs.extend(syncs.into_iter().map(sample));
    }
}
