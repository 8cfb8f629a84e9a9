//! What a persistence path waits for: the commit time ratio of the eMMC paper (III.C.3).
//!
//! It is computed from the times and classes of the commands during each sync, and not from the
//! journal's own counters. Of the commands that are at the device at a moment, the path counts as
//! waiting for the one that comes last in a commit: the record, else the flush, else the log, else
//! file data, else blocks on their way home. A packed command counts as the last of what is in it.
//! Under `jbd2` these follow each other, so that nothing is hidden while there is one path at a
//! time; with several paths, one that waits for data while another's flush runs counts as waiting
//! for the flush.

use super::{Command, Kind};
use base::Time;
use rig::Class;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vfs::SyncRecord;

/// Causes of waiting; of several at a time the last one in this order counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Cause {
    Home,
    Data,
    Log,
    Flush,
    Record,
}

const CAUSES: usize = 5;

/// Waiting times of one path or of several, nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Waiting {
    /// Metadata on its way home, and the journal's superblock.
    pub home: u64,
    /// File data (Td).
    pub data: u64,
    /// Descriptor and metadata (Tdb + Tm).
    pub log: u64,
    /// Flush; flush and record together are the paper's Tcb.
    pub flush: u64,
    /// Commit record.
    pub record: u64,
}

impl Waiting {
    fn of(sums: [u64; CAUSES]) -> Waiting {
        let [home, data, log, flush, record] = sums;
        Waiting {
            home,
            data,
            log,
            flush,
            record,
        }
    }

    /// The commit time ratio: share of flush and record in all waiting; `None` without waiting.
    pub fn ratio(&self) -> Option<f64> {
        let all = self.home + self.data + self.log + self.flush + self.record;
        (all > 0).then(|| (self.flush + self.record) as f64 / all as f64)
    }

    fn add(&mut self, other: &Waiting) {
        self.home += other.home;
        self.data += other.data;
        self.log += other.log;
        self.flush += other.flush;
        self.record += other.record;
    }
}

/// All persistence paths of a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Paths {
    /// Syncs that waited for a commit record: these are the paths.
    pub paths: u64,
    /// Syncs that did not: there was nothing to commit, or another task's commit had covered it.
    pub without: u64,
    /// What the paths waited for.
    pub waiting: Waiting,
    /// What all syncs waited for.
    pub all: Waiting,
    /// Number of paths by their ratio, in hundredths rounded down.
    pub by_ratio: BTreeMap<u32, u64>,
    /// What the syncs wrote that sent something to the journal.
    pub written: Written,
}

/// What persistence paths wrote: commands that were submitted between the begin and the end of a
/// sync, whichever task sent them. Homes are no part of it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Written {
    /// Syncs during which something went to the journal.
    pub syncs: u64,
    /// 512-byte sectors for the journal, of all of them.
    pub journal: u64,
    /// Sectors of file data, of all of them.
    pub data: u64,
    /// Sum over them of journal over journal and data.
    pub ratios: f64,
}

impl Written {
    /// Mean over the paths of journal over journal and data; 0 without a path.
    pub fn journal_ratio(&self) -> f64 {
        self.ratios / self.syncs.max(1) as f64
    }

    /// Blocks of 4 KiB that a path sends to the journal and as data, on the mean.
    pub fn blocks(&self) -> (f64, f64) {
        let of = |sectors: u64| {
            let blocks = sectors as f64 / base::SECTORS_PER_BLOCK as f64;
            blocks / self.syncs.max(1) as f64
        };
        (of(self.journal), of(self.data))
    }

    /// Adds a sync; `commands` are in the order of their submission.
    fn add(&mut self, commands: &[Command], sync: &SyncRecord) {
        let end = sync.at + sync.took;
        let from = commands.partition_point(|c| c.submitted < sync.at);
        let inside = commands[from..].iter().take_while(|c| c.submitted <= end);
        let (mut journal, mut data) = (0, 0);
        for span in inside.flat_map(|command| &command.spans) {
            match cause_of(span.class) {
                Cause::Log | Cause::Record => journal += span.sectors,
                Cause::Data => data += span.sectors,
                Cause::Home | Cause::Flush => {}
            }
        }
        if journal > 0 {
            self.syncs += 1;
            self.journal += journal;
            self.data += data;
            self.ratios += journal as f64 / (journal + data) as f64;
        }
    }
}

impl Paths {
    /// Computes what `syncs` waited for, from the times of `commands`.
    pub fn of(commands: &[Command], syncs: &[SyncRecord]) -> Paths {
        let line = Line::of(commands);
        let mut paths = Paths::default();
        for sync in syncs {
            let waiting = line.within(sync.at, sync.at + sync.took);
            paths.all.add(&waiting);
            paths.written.add(commands, sync);
            match waiting.ratio() {
                Some(ratio) if waiting.record > 0 => {
                    paths.paths += 1;
                    paths.waiting.add(&waiting);
                    *paths.by_ratio.entry((ratio * 100.0) as u32).or_default() += 1;
                }
                _ => paths.without += 1,
            }
        }
        paths
    }
}

/// Waiting by cause, cumulated over time.
struct Line {
    /// The moments at which the cause changes, each with the sums up to there.
    corners: Vec<(Time, [u64; CAUSES])>,
    /// The cause from each corner on.
    after: Vec<Option<Cause>>,
}

impl Line {
    fn of(commands: &[Command]) -> Line {
        let mut edges: BTreeMap<Time, [i32; CAUSES]> = BTreeMap::new();
        for command in commands {
            if let (Some(cause), Some(end)) = (cause(command), command.completed) {
                edges.entry(command.submitted).or_default()[cause as usize] += 1;
                edges.entry(end).or_default()[cause as usize] -= 1;
            }
        }
        let mut line = Line {
            corners: Vec::with_capacity(edges.len()),
            after: Vec::with_capacity(edges.len()),
        };
        let (mut sums, mut open) = ([0; CAUSES], [0; CAUSES]);
        for (at, changes) in edges {
            line.extend(at, &mut sums);
            open.iter_mut().zip(changes).for_each(|(n, by)| *n += by);
            line.corners.push((at, sums));
            line.after.push(last(&open));
        }
        line
    }

    /// Adds the time up to `at` to the cause that has held since the last corner.
    fn extend(&self, at: Time, sums: &mut [u64; CAUSES]) {
        if let (Some((before, _)), Some(Some(cause))) = (self.corners.last(), self.after.last()) {
            sums[*cause as usize] += (at - *before).0;
        }
    }

    fn until(&self, at: Time) -> [u64; CAUSES] {
        let n = self.corners.partition_point(|(t, _)| *t <= at);
        let Some(n) = n.checked_sub(1) else {
            return [0; CAUSES];
        };
        let (before, mut sums) = self.corners[n];
        if let Some(cause) = self.after[n] {
            sums[cause as usize] += (at - before).0;
        }
        sums
    }

    fn within(&self, from: Time, to: Time) -> Waiting {
        let mut sums = self.until(to);
        let earlier = self.until(from);
        sums.iter_mut().zip(earlier).for_each(|(n, by)| *n -= by);
        Waiting::of(sums)
    }
}

fn last(open: &[i32; CAUSES]) -> Option<Cause> {
    let causes = [
        Cause::Record,
        Cause::Flush,
        Cause::Log,
        Cause::Data,
        Cause::Home,
    ];
    causes.into_iter().find(|cause| open[*cause as usize] > 0)
}

fn cause(command: &Command) -> Option<Cause> {
    if command.kind == Kind::Flush {
        return Some(Cause::Flush);
    }
    let durable = command.kind == Kind::Write { fua: true };
    let of = |class| match class {
        Class::Coalition | Class::FastCommit if durable => Cause::Record,
        class => cause_of(class),
    };
    command.spans.iter().map(|span| of(span.class)).max()
}

/// The cause of a write of this class into a volatile cache.
fn cause_of(class: Class) -> Cause {
    match class {
        Class::JournalCommit => Cause::Record,
        Class::Data => Cause::Data,
        Class::Home | Class::JournalSuperblock => Cause::Home,
        Class::Dentry
        | Class::Node
        | Class::Nat
        | Class::Sit
        | Class::Ssa
        | Class::CheckpointPack => Cause::Home,
        Class::Coalition
        | Class::FastCommit
        | Class::JournalData
        | Class::JournalDescriptor
        | Class::JournalMetadata
        | Class::JournalRevoke => Cause::Log,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Lba, Nanos};

    fn command(class: Option<Class>, from: u64, to: u64) -> Command {
        let span = |class| super::super::Span {
            lba: Lba(0),
            sectors: 8,
            class,
            bytes: None,
        };
        Command {
            submitted: Time(from),
            completed: Some(Time(to)),
            kind: match class {
                Some(class) => Kind::Write {
                    fua: class == Class::JournalCommit,
                },
                None => Kind::Flush,
            },
            write: 0,
            spans: class.map(span).into_iter().collect(),
        }
    }

    fn sync(at: u64, end: u64) -> SyncRecord {
        SyncRecord {
            at: Time(at),
            took: Nanos(end - at),
            data_only: false,
        }
    }

    #[test]
    fn a_path_is_taken_apart_by_what_is_at_the_device() {
        let commands = [
            command(Some(Class::Data), 100, 200),
            command(Some(Class::JournalDescriptor), 210, 260),
            command(Some(Class::JournalMetadata), 210, 280),
            command(None, 280, 480),
            command(Some(Class::JournalCommit), 480, 580),
            // This is long after the sync, so no path waits for it.
            command(Some(Class::Home), 900, 1000),
        ];
        let paths = Paths::of(&commands, &[sync(100, 600), sync(600, 700)]);
        let wanted = Waiting {
            home: 0,
            data: 100,
            log: 70,
            flush: 200,
            record: 100,
        };
        assert_eq!((paths.paths, paths.without), (1, 1));
        assert_eq!(paths.waiting, wanted);
        assert_eq!(paths.by_ratio, [(63, 1)].into());
    }

    #[test]
    fn the_journal_ratio_is_the_mean_over_paths_and_leaves_out_what_no_sync_covers() {
        let of = |class, at| command(Some(class), at, at + 5);
        let commands = [
            of(Class::Data, 100),
            of(Class::JournalDescriptor, 110),
            of(Class::JournalMetadata, 120),
            of(Class::JournalCommit, 130),
            of(Class::Home, 140),
            // The flusher's own writes, between two syncs.
            of(Class::Data, 300),
            of(Class::JournalCommit, 310),
            of(Class::Coalition, 510),
            of(Class::Data, 520),
            // A sync that finds nothing to commit is no path.
            of(Class::Data, 710),
        ];
        let syncs = [sync(100, 200), sync(500, 600), sync(700, 800)];
        let written = Paths::of(&commands, &syncs).written;
        assert_eq!(written.syncs, 2);
        assert_eq!(written.blocks(), (2.0, 1.0));
        assert_eq!(written.journal_ratio(), (0.75 + 0.5) / 2.0);
    }

    #[test]
    fn what_runs_beside_a_flush_counts_as_the_flush() {
        let commands = [
            command(None, 100, 200),
            command(Some(Class::Data), 150, 300),
            command(Some(Class::JournalCommit), 300, 400),
        ];
        let paths = Paths::of(&commands, &[sync(120, 350)]);
        let Waiting {
            data,
            flush,
            record,
            ..
        } = paths.waiting;
        assert_eq!([data, flush, record], [100, 80, 50]);
    }
}
