//! A mounted volume: its parts, and whether operations are admitted.

use crate::checkpoint::{CheckpointStats, Checkpointer};
use crate::file::Content;
use crate::flights::Flights;
use crate::gc::Gc;
use crate::inode::{Inodes, Orphans};
use crate::journal::{Journal, JournalRecovery, OP_MAX};
use crate::nat::Nat;
use crate::nodes::Nodes;
use crate::ops::{Cause, Freeze, FreezeStats, Op, Ops};
use crate::options::MountOptions;
use crate::recover::RecoveryReport;
use crate::segs::Segments;
use crate::space::Space;
use base::Nanos;
use block::Queue;
use fscore::{Errno, Errors, FsError, FsResult, Latch, PageCache, SyncTimes};
use ondisk::Folding;
use ondisk::f2fs::{Features, Geometry, Superblock};
use rt::{JoinHandle, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A mounted F2FS.
pub struct F2fs {
    pub(crate) queue: Arc<Queue>,
    pub(crate) options: MountOptions,
    pub(crate) geo: Geometry,
    pub(crate) features: Features,
    /// Feature `casefold`: how directories with the flag compare names.
    pub(crate) folding: Option<Arc<Folding>>,
    /// Where checksums of inodes start.
    pub(crate) inode_seed: u32,
    /// The superblock as it is.
    pub(crate) sb: Mutex<Superblock>,
    pub(crate) ops: Ops,
    pub(crate) space: Space,
    pub(crate) nat: Nat,
    pub(crate) segs: Segments,
    pub(crate) nodes: Nodes,
    /// Data of files, and directory blocks.
    pub(crate) pages: PageCache,
    /// Writes of file data under way, and atomic writes.
    pub(crate) content: Content,
    pub(crate) inodes: Inodes,
    pub(crate) orphans: Orphans,
    /// Writes of node and directory blocks under way; those of files have their own list.
    pub(crate) flights: Flights,
    pub(crate) cp: Checkpointer,
    pub(crate) gc: Gc,
    /// F2FSJ; without it checkpoints make changes durable.
    pub(crate) journal: Option<Journal>,
    pub(crate) latch: Latch,
    pub(crate) tasks: Mutex<Vec<JoinHandle<()>>>,
    /// Time of all fsync calls by part.
    pub(crate) sync_times: SyncTimes,
    /// What roll-forward did at mount.
    pub(crate) recovery: Option<RecoveryReport>,
    /// Inodes without a name that the mount freed.
    pub(crate) orphans_freed: u64,
    /// What became of the journal at mount.
    pub(crate) journal_recovery: Option<JournalRecovery>,
    /// What the mount found that the user should know.
    pub(crate) notes: Vec<String>,
}

impl F2fs {
    /// The options in force.
    pub fn options(&self) -> &MountOptions {
        &self.options
    }

    /// The queue, for its figures.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// What freezes of all operations cost, by cause.
    pub fn freezes(&self) -> BTreeMap<Cause, FreezeStats> {
        self.ops.stats()
    }

    /// What checkpoints did and cost since the mount.
    pub fn checkpoints(&self) -> CheckpointStats {
        self.cp.stats()
    }

    /// Time of all fsync and fdatasync calls by part: `fsync-data`, `fsync-node`,
    /// `fsync-checkpoint`, `fsync-flush`; with a journal `fsync-data`, `fsync-commit`,
    /// `fsync-flush`.
    pub fn sync_times(&self) -> BTreeMap<&'static str, Nanos> {
        self.sync_times.sums()
    }

    /// What roll-forward did at mount; `None` if there was nothing to do.
    pub fn recovery(&self) -> Option<&RecoveryReport> {
        self.recovery.as_ref()
    }

    /// The outcome of the journal's recovery at mount: its case, and what was redone; `None` if the
    /// volume has no journal.
    pub fn journal_recovery(&self) -> Option<&JournalRecovery> {
        self.journal_recovery.as_ref()
    }

    /// The first failure, if the mount is latched.
    pub fn failed(&self) -> Option<String> {
        self.latch.failed()
    }

    /// Checks the state in memory against itself.
    ///
    /// # Panics
    /// If it contradicts itself.
    pub fn check(&self) {
        let _no_apply = self.journal.as_ref().map(|j| j.applier.pause());
        self.pages.check();
        self.segs.check();
        let (counted, valid) = (self.space.usage().blocks, self.segs.valid_blocks());
        assert!(
            counted >= valid,
            "f2fs-space-S1: {valid} blocks are valid, {counted} counted"
        );
        self.space.check();
    }

    /// Lets an operation in, and latches the mount if the operation finds damage or panics.
    pub(crate) fn guarded<T>(&self, operation: impl FnOnce() -> FsResult<T>) -> FsResult<T> {
        self.latch.check_open()?;
        let answer = self.watched(operation);
        if let Err(e @ FsError::Corrupt { .. }) = &answer {
            self.note_damage(e);
        }
        answer
    }

    /// Runs work; if it panics, nothing is accepted any more (latch-P1), and no checkpoint is
    /// written: each looks at the latch when it has the freeze. With a journal, an operation that
    /// had begun to log keeps its epoch from being committed by itself (f2fs-journal-I4).
    pub(crate) fn watched<R>(&self, work: impl FnOnce() -> R) -> R {
        self.latch.watch(work, || ())
    }

    /// Runs an operation that changes metadata; with a journal it logs what it changes. If it
    /// panics, the latch is set before a freeze can begin (latch-P2).
    pub(crate) fn with_op<R>(&self, work: impl FnOnce(&Op<'_>) -> R) -> R {
        let tx = self.journal.as_ref().map(|journal| journal.plane.enter());
        let max = self.op_max();
        self.ops.run(tx, max, |op| self.watched(|| work(op)))
    }

    /// Runs work while all operations are kept out. If it panics, the latch is set before they come
    /// in again (latch-P2).
    pub(crate) fn frozen<R>(&self, cause: Cause, work: impl FnOnce(&Freeze<'_>) -> R) -> R {
        let freeze = self.ops.freeze(cause);
        let done = self.watched(|| work(&freeze));
        freeze.end();
        done
    }

    /// What one operation logs at most. Without a journal nothing is logged, and the bound is none.
    pub(crate) fn op_max(&self) -> usize {
        self.journal.as_ref().map_or(OP_MAX, Journal::op_max)
    }

    pub(crate) fn check_writable(&self) -> FsResult<()> {
        if self.options.read_only {
            return Err(Errno::RoFs.into());
        }
        self.latch.check_open()?;
        self.latch.check_changes()
    }

    /// Writes a checkpoint (with a journal: commits and applies), without the data that waits in
    /// the cache, and ends everything there: the volume is what a power cut would leave.
    pub(crate) fn cut_off(&self) -> FsResult<()> {
        let written = match self.check_writable() {
            Ok(()) => self.checkpoint(Cause::Sync),
            Err(_) => Ok(()),
        };
        self.latch.shut_down();
        written
    }

    /// Metadata could not be written: no checkpoint may be written any more, so nothing may change.
    pub(crate) fn fail(&self, why: &FsError) {
        if let FsError::Io { power_lost, .. } = why {
            self.cp.write_failed(!power_lost);
        }
        self.latch.fail(why.to_string());
    }

    fn note_damage(&self, why: &FsError) {
        let first = match self.latch.errors() {
            Errors::Continue => self.latch.is_alive(),
            Errors::RemountRo | Errors::Panic => self.latch.fail(why.to_string()),
        };
        if first {
            self.cp.need_fsck();
        }
    }

    /// Runs one part of an fsync and adds up its time.
    pub(crate) fn timed<R>(&self, part: &'static str, work: impl FnOnce() -> R) -> R {
        self.sync_times.part(part, work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::capture::hooks_tests::mounted_over;
    use fscore::FileSystem;

    /// latch-P1, latch-P2: whatever keeps checkpoints out, or is kept out by them, latches the
    /// mount itself, and does not wait for the call around it to do so.
    #[test]
    fn a_panic_latches_where_checkpoints_are_kept_out() {
        for options in ["", "scheme=f2fsj"] {
            for place in ["operation", "freeze", "task"] {
                let mut mount = MountOptions::parse(options).expect("options");
                mount.timers = false;
                let (_, fs) = mounted_over(mount);
                let _ = rt::foreign(|| match place {
                    "operation" => fs.with_op(|_| panic!("planted")),
                    "freeze" => fs.frozen(Cause::Sync, |_| panic!("planted")),
                    _ => {
                        fs.start_task("planted", |_| panic!("planted"))
                            .expect("a thread");
                        fs.stop_tasks();
                    }
                });
                assert_eq!(fs.failed().as_deref(), Some(Latch::PANICKED), "{place}");
                let version = fs.cp.version();
                for refused in [fs.sync(), fs.checkpoint(Cause::Timer), fs.unmount()] {
                    let refused = refused.map_err(|e| e.errno());
                    assert_eq!(refused, Err(Errno::Io), "{options}: {place}");
                }
                assert_eq!(fs.cp.version(), version, "{options}: {place}");
            }
        }
    }
}
