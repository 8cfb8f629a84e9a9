//! Mounting and unmounting.
//!
//! | step of mount | refused if |
//! |---|---|
//! | superblock: the first sound copy of two | neither is sound; the device is shorter than it says |
//! | features | one is unknown, or cannot be written; it is named |
//! | checkpoint: the newer whole pack of two | neither is whole; numbers that cannot be |
//! | journals, summaries of the logs, SIT | damage |
//! | journal of F2FSJ: its ring is redone | its case refuses the mount (`journal::recover`) |
//! | root directory | there is none |
//! | roll-forward, orphans | I/O |
//! | tasks | |
//!
//! Invariants:
//! - M1 a read-only mount writes nothing: what roll-forward finds lives in memory;
//! - M2 nothing is allocated before roll-forward has read its chain and the blocks that the ring
//!   calls valid are held, because a log would overwrite them;
//! - M3 orphans that the checkpoint lists stay listed until each is freed;
//! - M4 a chain that the mount gives up (`disable_roll_forward`) is cut off by a checkpoint before
//!   anything is written into its logs.

use crate::F2fs;
use crate::checkpoint::{Checkpointer, Contents, Pack, choose, contents, orphans, orphans_max};
use crate::file::Content;
use crate::flights::Flights;
use crate::gc::Gc;
use crate::inode::{Inodes, Orphans};
use crate::journal::recover::Recovered;
use crate::nat::Nat;
use crate::nodes::Nodes;
use crate::ops::{Cause, Freeze, Ops};
use crate::options::MountOptions;
use crate::recover::RecoveryReport;
use crate::segs::{Segments, SegsOnDisk};
use crate::space::{Reserve, Space};
use crate::superblock;
use base::Ino;
use block::{Queue, WriteMark};
use fscore::{FsError, FsResult, Latch, PageCache, SyncTimes};
use ondisk::f2fs::crc;
use rt::Mutex;
use std::sync::Arc;

/// Of what the volume offers its users, at most one part in so many is held back (Linux).
const RESERVE_PART: u64 = 8;

/// What is held back.
fn reserve(options: &MountOptions, user_blocks: u64, all_nodes: u32) -> FsResult<Reserve> {
    let (blocks, nodes) = (options.reserve_blocks, options.reserve_nodes);
    for (option, what, wanted, all) in [
        ("reserve_root", "blocks", blocks, user_blocks),
        ("reserve_node", "nodes", nodes.into(), all_nodes.into()),
    ] {
        let most = all / RESERVE_PART;
        if wanted > most {
            return Err(FsError::options(format!(
                "mount option `{option}={wanted}`: at most {most} {what} of this volume can be held back"
            )));
        }
    }
    let owner = options.reserve_owner;
    Ok(Reserve {
        blocks,
        nodes,
        owner,
    })
}

impl F2fs {
    /// Mounts the volume on the device: reads the superblock and the newer valid checkpoint pack,
    /// then does roll-forward and frees orphans.
    ///
    /// # Errors
    /// No F2FS, or one with features that are not supported here; damage to both copies; I/O; no
    /// thread for a background task.
    pub fn mount(queue: Arc<Queue>, options: MountOptions) -> FsResult<Arc<F2fs>> {
        let found = superblock::read(&queue)?;
        superblock::check_features(&found.sb, &options)?;
        let (pack, note) = choose(&queue, &found.geo)?;
        let contents = contents(&queue, &found.geo, &pack)?;
        let (bad, differ) = (found.bad.clone(), found.differ);
        let listed = orphans(&queue, &found.geo, &pack)?;
        let mut fs = F2fs::assemble(queue, options, found, pack, contents, &listed)?;
        fs.notes.extend(note);
        fs.notes.extend(bad.as_ref().map(|(copy, why)| {
            format!("superblock {copy} is damaged ({why}); the other one is used")
        }));
        fs.recovery = fs.bring_up(&listed, bad.map(|(copy, _)| copy))?;
        fs.guard(differ)?;
        fs.seal_ring()?;
        let fs = Arc::new(fs);
        if let Err(e) = fs.start_tasks() {
            // It ends the tasks that have started. A failure here would be the next mount's, too.
            let _ = fs.unmount_volume();
            return Err(e);
        }
        Ok(fs)
    }

    fn assemble(
        queue: Arc<Queue>,
        options: MountOptions,
        found: superblock::Found,
        pack: Pack,
        contents: Contents,
        listed: &[Ino],
    ) -> FsResult<F2fs> {
        let superblock::Found { sb, geo, .. } = found;
        let mut notes = Vec::new();
        let on_disk = SegsOnDisk {
            cp: &pack.cp,
            sit_journal: contents.sit_journal,
            logs: contents.logs,
        };
        let segs = Segments::load(&queue, &geo, &options, on_disk)?;
        let (nat, odd) = Nat::load(
            queue.clone(),
            geo,
            pack.cp.nat_bitmap().to_vec(),
            contents.nat_journal.into_iter(),
            pack.cp.next_free_nid(),
        );
        if odd > 0 {
            notes.push(format!(
                "the NAT journal has {odd} entries of node numbers that do not exist; left out"
            ));
        }
        let cp = Checkpointer::new(pack, listed.to_vec());
        if odd > 0 {
            cp.need_fsck();
        }
        Ok(F2fs {
            geo,
            features: sb.features(),
            folding: superblock::folding(&sb)?,
            inode_seed: crc(u32::MAX, &sb.uuid()),
            ops: Ops::new(),
            space: Space::new(
                cp.usage(),
                cp.user_blocks(),
                geo.max_nid - geo.root.0,
                reserve(&options, cp.user_blocks(), geo.max_nid - geo.root.0)?,
            ),
            nat,
            segs,
            nodes: Nodes::new(options.cache_bytes),
            pages: PageCache::new(options.cache_bytes),
            content: Content::new(),
            inodes: Inodes::new(&sb),
            sb: Mutex::named("f2fs superblock", sb),
            orphans: Orphans::new(orphans_max(&geo)),
            flights: Flights::new(WriteMark::NONE),
            cp,
            gc: Gc::new(),
            journal: None,
            latch: Latch::new(options.errors),
            tasks: Mutex::named("f2fs tasks", Vec::new()),
            sync_times: SyncTimes::default(),
            recovery: None,
            orphans_freed: 0,
            journal_recovery: None,
            notes,
            queue,
            options,
        })
    }

    /// What needs the parts together: the journal, the root, roll-forward, orphans.
    fn bring_up(
        &mut self,
        listed: &[Ino],
        bad_superblock: Option<u64>,
    ) -> FsResult<Option<RecoveryReport>> {
        // M3.
        listed.iter().for_each(|&ino| self.orphans.add(ino));
        let mut journal = self.redo_journal()?;
        self.check_root()?;
        if let Some(copy) = bad_superblock.filter(|_| !self.options.read_only) {
            self.mend_superblock(copy)?;
        }
        let mut report = self.roll_forward(journal.as_mut())?;
        if let Some(journal) = journal {
            self.notes.extend(journal.notes);
            if journal.replayed {
                report.get_or_insert_default().pending = self.options.read_only;
            }
            if let Some(report) = &mut report {
                report.journal = Some(journal.report.clone());
            }
            let goes_on = journal.report.kept > 0;
            self.journal_recovery = Some(journal.report);
            self.journal = journal.started;
            if let Some(used) = &self.journal {
                self.nat.begin_journal();
                if !goes_on {
                    self.segs.home_is_live();
                }
                self.ring_behind_commit(used);
            }
            self.continue_truncations(&journal.truncs)?;
        }
        if self.options.read_only {
            return Ok(report);
        }
        self.orphans_freed = self.free_orphans(&self.orphans.all())?;
        if self.options.checkpoint_disabled {
            self.disable_checkpoints()?;
        } else if self.cp.is_marked_disabled() {
            self.mark_enabled()?;
        }
        Ok(report)
    }

    fn check_root(&self) -> FsResult<()> {
        let root = Ino(self.geo.root.0);
        let inode = self.inode(root).map_err(|e| match e {
            FsError::Posix(_) => {
                FsError::corrupt(format!("the root directory (inode {root}) is not in use"))
            }
            other => other,
        })?;
        match inode.is_dir() {
            true => Ok(()),
            false => Err(FsError::corrupt(format!(
                "inode {root}, the root, is not a directory"
            ))),
        }
    }

    /// M2, M4.
    fn roll_forward(&self, journal: Option<&mut Recovered>) -> FsResult<Option<RecoveryReport>> {
        // Under `checkpoint=disable` nothing counts but the checkpoint.
        // Nor is there anything behind that of a sealed volume.
        let wanted =
            self.options.roll_forward && !self.cp.is_marked_disabled() && !self.geo.is_sealed();
        self.frozen(Cause::Recovery, |freeze| {
            self.roll_forward_frozen(freeze, wanted, journal)
        })
    }

    fn roll_forward_frozen(
        &self,
        freeze: &Freeze<'_>,
        wanted: bool,
        journal: Option<&mut Recovered>,
    ) -> FsResult<Option<RecoveryReport>> {
        let replayed = journal.as_ref().is_some_and(|j| j.replayed);
        let report = match wanted && !replayed {
            true => self.recover(freeze)?,
            false => None,
        };
        let publish = journal.as_ref().is_some_and(|j| j.publish);
        match journal {
            Some(journal) if !self.options.read_only => {
                let forced = report.is_some() || !wanted || publish;
                self.publish_journal(freeze, journal, forced)?;
            }
            _ if report.is_some() || !wanted => {
                self.cp.force();
                self.checkpoint_frozen(freeze)?;
            }
            _ => {}
        }
        Ok(report)
    }

    /// Stops the tasks, writes a checkpoint with the unmount mark. Everything else was written
    /// before.
    pub(crate) fn unmount_volume(&self) -> FsResult<()> {
        self.stop_tasks();
        if self.latch.is_closed() {
            return Ok(());
        }
        let written = self.checkpoint(Cause::Umount);
        let settled = self.journal.is_some() && written.is_ok() && !self.options.read_only;
        if cfg!(debug_assertions) && settled {
            self.assert_home_is_live();
        }
        let written = written.and_then(|()| self.close_journal());
        let written = written.and_then(|()| self.unguard());
        if self.cp.has_failed_write() && !self.options.read_only {
            self.record_stop();
        }
        // A failure was answered when it happened.
        let _ = self.latch.close();
        written
    }

    /// How many inodes without a name the mount freed: those on the checkpoint's list of orphans.
    pub fn orphans_freed(&self) -> u64 {
        self.orphans_freed
    }

    /// What the mount found that the user should know: a damaged copy, a checkpoint pack that is
    /// not whole.
    pub fn mount_notes(&self) -> &[String] {
        &self.notes
    }
}
