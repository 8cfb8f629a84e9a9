//! Checkpoints: a state between two operations becomes the state that a mount finds.
//!
//! The order is that of Linux:
//!
//! 1. Directory blocks are written while operations still run.
//! 2. The freeze begins: no operation changes metadata until the checkpoint has ended.
//! 3. Directory blocks and nodes are written until none is dirty, and all these writes complete.
//! 4. NAT and SIT blocks are written into their other copies, beside them the summaries of closed
//!    segments and the pack except for its last block; all these writes complete.
//! 5. The device is flushed.
//! 6. The last block of the pack is written, non-volatile (Linux: PREFLUSH and FUA).
//! 7. The tables in memory take the new state over.
//!
//! A cut at any moment leaves a volume that mounts to the old state or the new one, because:
//! - C1 what is saved is one state between operations: from the beginning of the freeze to its end
//!   no other task holds an `Op`;
//! - C2 a pack refers only to blocks whose writes have completed: node and directory blocks, and
//!   data that was moved or mapped in the saved state, are waited for before the first block of the
//!   pack is written;
//! - C3 nothing is overwritten that the last durable pack refers to: NAT and SIT blocks go to the
//!   copies that it does not name, the pack goes to the other segment, and everything else goes to
//!   blocks that were free when it was written (a block that this pack knows as valid is not reused
//!   before the next pack is durable; summaries of closed segments only gain owners of such
//!   blocks);
//! - C4 the last block of a pack is written when all its other blocks, and all that C2 names, are
//!   durable: their writes have completed, and a flush has begun and ended since. A pack whose two
//!   checkpoint blocks agree is therefore whole;
//! - C5 versions rise: no block of an older attempt at a pack can agree with one of a newer
//!   attempt;
//! - C6 memory takes over what the new pack allows (reuse of blocks, segments, node numbers; the
//!   version in footers) only after the last block of the pack is durable;
//! - C7 after a failed write the content of the device is unknown: the mount is latched, and no
//!   further pack is written.

mod build;
mod disable;
mod freeze;
mod pack;
mod stats;
mod tasks;
mod trigger;
mod write;

pub(crate) use build::orphans_max;
pub(crate) use pack::{Contents, Pack, choose, contents, orphans};
pub use stats::{CheckpointStats, Phase};
pub(crate) use write::{Clock, Wanted};

use crate::journal::Epoch;
use crate::space::Usage;
use base::{Ino, Time};
use fscore::FsError;
use ondisk::f2fs::{Checkpoint, CpFlags};
use rt::{Condvar, Mutex};

/// State of checkpointing.
pub(crate) struct Checkpointer {
    state: Mutex<State>,
    /// Tells tasks that `stopping` was set.
    wake: Condvar,
}

struct State {
    /// The last durable one.
    cp: Checkpoint,
    /// Where it lies.
    second: bool,
    /// The highest version that was seen on the device (C5).
    version: u64,
    /// What it counted.
    usage: Usage,
    /// What it listed.
    orphans: Vec<Ino>,
    need_fsck: bool,
    write_failed: bool,
    /// UUID of the journal, and its last epoch that the next pack has.
    applied: Option<([u8; 16], Epoch)>,
    /// Something changed that no other count covers.
    forced: bool,
    /// The next pack says that checkpoints are switched off.
    disabling: bool,
    disabled: bool,
    /// When the clock of the volume showed `clock`, seconds.
    mounted: Time,
    clock: u64,
    /// When the last one was written, or found to be unnecessary.
    last: Time,
    stopping: bool,
    hold: freeze::Hold,
    /// Why a freeze did not come about.
    frozen: Option<FsError>,
    stats: CheckpointStats,
}

impl Checkpointer {
    /// After a mount of `pack`; `listed` are its orphans.
    pub fn new(pack: Pack, listed: Vec<Ino>) -> Checkpointer {
        let cp = pack.cp;
        let state = State {
            second: pack.second,
            version: pack.newest,
            usage: Usage {
                blocks: cp.valid_block_count(),
                nodes: cp.valid_node_count(),
                inodes: cp.valid_inode_count(),
            },
            orphans: listed,
            need_fsck: cp.flags().has(CpFlags::FSCK) || cp.flags().has(CpFlags::ERROR),
            write_failed: false,
            applied: None,
            forced: false,
            disabling: false,
            disabled: false,
            mounted: rt::now(),
            clock: cp.elapsed_time(),
            last: rt::now(),
            stopping: false,
            hold: freeze::Hold::None,
            frozen: None,
            stats: CheckpointStats::default(),
            cp,
        };
        Checkpointer {
            state: Mutex::named("f2fs checkpoint", state),
            wake: Condvar::new(),
        }
    }

    /// Damage was seen: the next pack says that fsck is due.
    pub fn need_fsck(&self) {
        let mut state = self.state.lock();
        if !state.need_fsck {
            state.need_fsck = true;
            state.forced = true;
        }
    }

    /// A write failed; `record`: the superblock can still record that.
    pub fn write_failed(&self, record: bool) {
        self.state.lock().write_failed |= record;
    }

    /// True if the superblock has to record that a write failed.
    pub fn has_failed_write(&self) -> bool {
        self.state.lock().write_failed
    }

    /// The next pack is written whether something changed or not.
    pub fn force(&self) {
        self.state.lock().forced = true;
    }

    /// What the last checkpoint counted.
    pub fn usage(&self) -> Usage {
        self.state.lock().usage
    }

    /// Orphans that the last checkpoint lists, by number.
    pub fn listed_orphans(&self) -> Vec<Ino> {
        self.state.lock().orphans.clone()
    }

    /// The next pack is to be written in any case.
    pub fn is_forced(&self) -> bool {
        self.state.lock().forced
    }

    /// The last pack has the mark of an unmount.
    pub fn is_marked_unmounted(&self) -> bool {
        self.state.lock().cp.flags().has(CpFlags::UMOUNT)
    }

    /// Its version.
    pub fn version(&self) -> u64 {
        self.state.lock().cp.version()
    }

    /// The last epoch of the journal that the pack contains, if it was written for the journal with
    /// this UUID.
    pub fn applied(&self, uuid: &[u8; 16]) -> Option<Epoch> {
        self.state.lock().cp.applied(uuid).map(Epoch)
    }

    /// Sets what the next pack says of the journal: the last epoch that it contains.
    pub fn set_applied(&self, uuid: [u8; 16], epoch: Epoch) {
        self.state.lock().applied = Some((uuid, epoch));
    }

    /// Blocks that users may fill.
    pub fn user_blocks(&self) -> u64 {
        self.state.lock().cp.user_block_count()
    }

    /// True if a footer with this version was written behind the last checkpoint. If `fsck.f2fs`
    /// wrote the checkpoint, only the 32 bits of the version that it leaves are compared.
    pub fn is_chain_version(&self, footer: u64) -> bool {
        let state = self.state.lock();
        match state.cp.flags().has(CpFlags::NOCRC_RECOVERY) {
            true => footer << 32 == state.cp.version() << 32,
            false => footer == state.cp.node_version(),
        }
    }

    /// Version of the checkpoint that node blocks written now belong to, with its checksum in the
    /// upper half: what footers carry.
    pub fn footer_version(&self) -> u64 {
        self.state.lock().cp.node_version()
    }

    /// The clock of the volume: seconds it was mounted in all (`elapsed_time`); ages of segments
    /// count in it.
    pub fn clock(&self) -> u64 {
        let state = self.state.lock();
        let mounted = rt::now() - state.mounted;
        state.clock.saturating_add(mounted.0 / 1_000_000_000)
    }

    /// True under `checkpoint=disable`: no pack is written, fsync promises nothing.
    pub fn is_disabled(&self) -> bool {
        self.state.lock().disabled
    }

    /// True if `allocated` blocks, all since the last checkpoint, leave room for roll-forward
    /// (Linux `f2fs_space_for_roll_forward`).
    pub fn room_for_roll_forward(&self, allocated: u64) -> bool {
        let state = self.state.lock();
        state.usage.blocks + allocated <= state.cp.user_block_count()
    }

    /// What checkpoints did and cost since the mount.
    pub fn stats(&self) -> CheckpointStats {
        self.state.lock().stats.clone()
    }
}
