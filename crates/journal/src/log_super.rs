//! The journal superblock of a log that may be used, as opposed to the untrusted bytes on the
//! medium.
//!
//! - J1: the superblock is written with FUA in one piece of 4 KiB, or of a smaller block, so that
//!   on a device that promises so much for one write it is old or new, never garbage; everything
//!   that changes lies in its first sector, including its checksum.
//! - J2: code that moves `s_start` has first made durable that everything before it is home
//!   (hazards-H2).
//! - J3: the feature COALITION is set in every superblock that names a log with coalition blocks,
//!   and in no superblock of an empty log: other programs refuse the first and accept the second.
//!   REMAP_MOVE is likewise set in every superblock that names a log whose images may have been
//!   moved home, and in none of an empty log. So is FAST_COMMIT, as in Linux: it makes the area of
//!   fast commits count, which an empty log has none of.
//! - J4: by J1 a write that is cut between any two sectors of 512 bytes leaves the old superblock
//!   or the new one, because the sectors after the first are the same in both. The format needs no
//!   more than that, and no atomic KiB (JBD2 on Linux relies on it as well). Either superblock will
//!   do: when the new one is written, what the old one leads to and what the new one leads to are
//!   both durable (J2, hazards-H11). A device that may leave garbage in a sector that it was
//!   writing, FUA or not (neither `reliable_granule` nor `tear_granule` nor `atomic_write_bytes` in
//!   its `Caps`), is not enough, because there is one copy. Magic number and checksum then show the
//!   damage, and the mount is refused by name; where the log began is lost, so nothing can be
//!   reconstructed.

use crate::{JournalError, LogBlock, LogPlace};
use base::{Bytes, Tid};
use block::{Class, Queue};
use ondisk::jbd2::{CHECKSUM_CRC32C, JournalCompat, JournalIncompat, SUPERBLOCK_BYTES, Superblock};
use std::sync::Arc;

/// Smallest log beside the blocks for fast commits; the journal's own tests have small ones.
const RING_BLOCKS_MIN: u32 = if cfg!(test) { 16 } else { 1024 };

/// Largest area of fast commits that is read and written, bytes: mke2fs makes it a 64th of the log,
/// which has at most 1 GiB by default in blocks of 4 KiB. The log is what an image says it is, and
/// the area has to be in memory.
pub(crate) const AREA_BYTES_MAX: u64 = 64 << 20;

/// Blocks for fast commits in an empty log: as many as it names, unless they are so few that none
/// could be used, so many that the ring would be the smaller part, or more than a recovery reads.
/// Otherwise a 64th of the log, as mke2fs makes it, up to the 256 that Linux takes where no number
/// is named.
fn fast_blocks(sb: &Superblock) -> u32 {
    let bytes = |blocks: u32| u64::from(blocks) * u64::from(sb.block_bytes());
    match sb.fast_commit_blocks_raw() {
        named if named >= 3 && named <= sb.blocks_count() / 2 && bytes(named) <= AREA_BYTES_MAX => {
            named
        }
        _ => (sb.blocks_count() / 64).clamp(8, 256),
    }
}

/// A checked superblock with the place of its log.
pub(crate) struct LogSuper {
    pub place: LogPlace,
    pub sb: Superblock,
    /// The whole block as read; bytes behind the superblock are kept.
    block: Bytes,
    /// The superblock in memory differs from the medium in more than the tail.
    pub features_dirty: bool,
}

impl LogSuper {
    /// Reads and checks the superblock against its place.
    pub fn read(queue: &Queue, place: LogPlace) -> Result<LogSuper, JournalError> {
        if place.blocks_count() == 0 {
            return Err(JournalError::Corrupt(
                "the journal file has no blocks".into(),
            ));
        }
        let home = place.block(LogBlock(0));
        let block = queue.read(place.lba(LogBlock(0)), place.block_size().sectors())?;
        let sb = Superblock::parse(&block).map_err(|e| e.at_block(home))?;
        let log = LogSuper {
            place,
            sb,
            block,
            features_dirty: false,
        };
        log.check()?;
        Ok(log)
    }

    fn check(&self) -> Result<(), JournalError> {
        let sb = &self.sb;
        let (bytes, own) = (sb.block_bytes(), self.place.block_size().bytes());
        if bytes as usize != own {
            return Err(JournalError::Incompatible(format!(
                "the log has blocks of {bytes} bytes, the file system of {own}; run e2fsck"
            )));
        }
        if sb.blocks_count() > self.place.blocks_count() {
            return Err(JournalError::Corrupt(format!(
                "the log claims {} blocks, its file has {}",
                sb.blocks_count(),
                self.place.blocks_count()
            )));
        }
        let home = self.place.block(LogBlock(0));
        if self.place.is_external() && u64::from(sb.first()) <= home.0 {
            return Err(JournalError::Corrupt(format!(
                "the log begins at block {} of its device, whose block {home} holds the superblock of the log",
                sb.first()
            )));
        }
        let unknown = sb.incompat().without(JournalIncompat::KNOWN);
        if !unknown.is_empty() || !sb.ro_compat().is_empty() {
            return Err(JournalError::Incompatible(format!(
                "the log has unknown features [{unknown} {}]; mount it with the system that wrote it, or run e2fsck",
                sb.ro_compat()
            )));
        }
        if sb.log_end() - sb.first() < crate::space::RING_MIN {
            return Err(JournalError::Incompatible(format!(
                "the ring of the log has {} blocks, at least {} are needed; make a larger journal (tune2fs -J)",
                sb.log_end() - sb.first(),
                crate::space::RING_MIN
            )));
        }
        Ok(())
    }

    /// Sets the features that the file system asks for, and makes room for fast commits if `fast`
    /// says that there will be some; the log is empty.
    pub fn set_features(&mut self, wide_blocks: bool, checksum_v3: bool, fast: bool) {
        assert!(
            self.sb.is_clean(),
            "J2: the format of a log changes only while it is empty"
        );
        let (compat, incompat) = (self.sb.compat(), self.sb.incompat());
        let off = JournalIncompat::CHECKSUM_V2 | JournalIncompat::CHECKSUM_V3;
        let mut new = incompat
            .without(off)
            .without(JournalIncompat::ASYNC_COMMIT)
            .without(JournalIncompat::COALITION)
            .without(JournalIncompat::REMAP_MOVE);
        if wide_blocks {
            new = new | JournalIncompat::WIDE_BLOCKS;
        }
        if checksum_v3 {
            new = new | JournalIncompat::CHECKSUM_V3;
            self.sb.set_checksum_type(CHECKSUM_CRC32C);
        }
        if fast {
            new = new | JournalIncompat::FAST_COMMIT;
            self.sb.set_fast_commit_blocks(fast_blocks(&self.sb));
        }
        self.sb.set_incompat(new);
        self.sb.set_compat(compat.without(JournalCompat::CHECKSUM));
        self.features_dirty |= new != incompat || self.sb.compat() != compat;
    }

    /// Blocks of the ring of an empty log, once [`set_features`](Self::set_features) was told
    /// `fast`.
    pub fn ring_len(&self, fast: bool) -> u32 {
        let all = self.sb.blocks_count() - self.sb.first();
        match fast {
            true => all.saturating_sub(fast_blocks(&self.sb)),
            false => self.sb.log_end() - self.sb.first(),
        }
    }

    /// True if the log, without its blocks for fast commits, is as large as Linux wants any log
    /// (`JBD2_MIN_JOURNAL_BLOCKS`).
    pub fn has_room_for_fast_commits(&self) -> bool {
        self.sb.blocks_count() - fast_blocks(&self.sb) >= RING_BLOCKS_MIN
    }

    /// Announces revoke blocks.
    pub fn set_revoke_feature(&mut self) {
        let new = self.sb.incompat() | JournalIncompat::REVOKE;
        self.features_dirty |= new != self.sb.incompat();
        self.sb.set_incompat(new);
    }

    /// J3. Announces coalition blocks before the first one is in the log, in the same write that
    /// makes the log non-empty. The feature is cleared only in the write that marks the log clean.
    pub fn set_coalition_feature(&mut self) {
        let new = self.sb.incompat() | JournalIncompat::COALITION;
        self.features_dirty |= new != self.sb.incompat();
        self.sb.set_incompat(new);
    }

    /// Announces that images may be moved home, as [`LogSuper::set_coalition_feature`] does
    /// coalition blocks.
    pub fn set_move_feature(&mut self) {
        let new = self.sb.incompat() | JournalIncompat::REMAP_MOVE;
        self.features_dirty |= new != self.sb.incompat();
        self.sb.set_incompat(new);
    }

    /// Writes the superblock: the log begins with transaction `tid` at `start`; `None`: it is
    /// empty.
    pub fn write(
        &mut self,
        queue: &Arc<Queue>,
        tid: Tid,
        start: Option<LogBlock>,
    ) -> Result<(), JournalError> {
        self.sb.set_sequence(tid);
        self.sb.set_start(start.map_or(0, |b| b.0));
        if start.is_none() {
            let incompat = self.sb.incompat();
            let stock = incompat
                .without(JournalIncompat::COALITION)
                .without(JournalIncompat::REMAP_MOVE)
                .without(JournalIncompat::FAST_COMMIT);
            self.sb.set_incompat(stock);
        }
        // What lies behind is the same: a device may promise no more than this for one write.
        let front = self.block.len().min(base::BLOCK_BYTES);
        let mut block = self.block[..front].to_vec();
        self.sb.encode(&mut block[..SUPERBLOCK_BYTES]);
        let home = self.place.lba(LogBlock(0));
        queue.write_fua(home, Class::JournalSuperblock, block.into())?;
        self.features_dirty = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_of_fast_commits_is_no_larger_than_a_recovery_reads() {
        for (block_bytes, named, taken) in [
            (4096, 2000, 2000),
            (65_536, 1024, 1024),
            (65_536, 1025, 256),
            (4096, 40_000, 256),
            (4096, 2, 256),
        ] {
            let mut sb = Superblock::new(block_bytes, 40_000, [0; 16]);
            sb.set_fast_commit_blocks(named);
            assert_eq!(
                fast_blocks(&sb),
                taken,
                "{named} blocks of {block_bytes} bytes"
            );
        }
    }
}
