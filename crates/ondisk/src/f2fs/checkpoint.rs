//! The checkpoint: the first and the last block of a pack, with `cp_payload` more blocks behind the
//! first.
//!
//! | offset | field | offset | field |
//! |---|---|---|---|
//! | 0 | `checkpoint_ver` le64 | 132 | `ckpt_flags` |
//! | 8, 16 | user and valid blocks, le64 | 136, 140 | blocks of the pack, its first summary block |
//! | 24 | reserved, overprovision, free segments | 144 | valid nodes, valid inodes, next free nid |
//! | 36 | node logs: 8 segments le32, 8 offsets le16 | 156 | bytes of SIT and NAT version bitmap |
//! | 84 | data logs, likewise | 164, 168 | checksum offset, elapsed time le64 |
//! | 176 | how each log allocates, 16 bytes | 192 | version bitmaps |
//! | | | 4068 | what a journal says of the pack ([`Checkpoint::applied`]) |
//!
//! A pack in its segment (offsets in blocks; `total` = `cp_pack_total_block_count`):
//!
//! ```text
//! 0           1 + payload   cp_pack_start_sum                                  total - 1
//! | checkpoint | orphans ... | data summaries: compact or 3 | node summaries: 3 | checkpoint | ... NAT bits |
//! ```
//!
//! Node summaries exist with flag `UMOUNT` or `FASTBOOT`. A pack counts if both checkpoints are
//! sound and have the same version; of two such packs the one with the higher version. Bitmaps:
//! `Checkpoint::bitmap_places`.

use super::checksum::{crc, crc_f2fs};
use super::{BLOCK_BYTES, BLOCKS_PER_SEG, Geometry, Log, Nid, SegNo};
use crate::Corrupt;
use crate::field::{bit_set, fields};
use base::bytes::{get_le16, get_le32, put_le16, put_le32};
use std::ops::Range;

/// Offset of the version bitmaps, and the lowest offset that the checksum may have.
pub const CP_BITMAP_AT: usize = 192;
/// Usual offset of the checksum, which is also the highest.
pub const CP_CHECKSUM_AT: usize = 4092;

const WHAT: &str = "f2fs checkpoint";
const NODE_LOGS_AT: usize = 36;
const DATA_LOGS_AT: usize = 84;
const LOG_SLOTS: usize = 8;
const ALLOC_TYPE_AT: usize = 176;

bit_set! {
    /// Flags of a checkpoint (`ckpt_flags`).
    CpFlags: u32, "CP_FLAG_" {
        /// Written at unmount: nothing to recover.
        UMOUNT = 0x1, "unmount";
        /// The pack has orphan blocks.
        ORPHAN_PRESENT = 0x2, "orphan_inodes";
        /// The data summaries are compact.
        COMPACT_SUM = 0x4, "compacted_summary";
        /// The volume is damaged; checkpoints stopped.
        ERROR = 0x8, "error";
        /// fsck is to run.
        FSCK = 0x10, "fsck";
        /// The pack has node summaries though not written at unmount.
        FASTBOOT = 0x20, "fastboot";
        /// Nodes of roll-forward carry version and checksum of the checkpoint.
        CRC_RECOVERY = 0x40, "crc";
        /// NAT bits are valid.
        NAT_BITS = 0x80, "nat_bits";
        /// All free segments were discarded.
        TRIMMED = 0x100, "trimmed";
        /// Nodes of roll-forward carry the version alone.
        NOCRC_RECOVERY = 0x200, "nocrc_recovery";
        /// The NAT bitmap stands first, behind the checksum, and may go on in the payload.
        LARGE_NAT_BITMAP = 0x400, "large_nat_bitmap";
        /// Quota files are to be checked.
        QUOTA_NEED_FSCK = 0x800, "quota_need_fsck";
        /// Checkpoints are switched off.
        DISABLED = 0x1000, "disabled";
        /// Checkpoints were switched off without cleaning first.
        DISABLED_QUICK = 0x2000, "disabled_quick";
        /// A resize was begun.
        RESIZEFS = 0x4000, "resizefs";
    }
}

/// How a log takes its blocks (`alloc_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum AllocType {
    /// One behind the other, in a segment that was free.
    #[default]
    Lfs = 0,
    /// Holes of a segment that is partly valid.
    Ssr = 1,
}

/// A checkpoint with its payload; keeps bytes it does not know.
#[derive(Clone, PartialEq, Eq)]
pub struct Checkpoint {
    pub(super) raw: Vec<u8>,
}

impl Checkpoint {
    /// A checkpoint of zeros with `payload` more blocks: for mkfs, which sets every field itself.
    pub fn blank(payload: u32) -> Checkpoint {
        let mut cp = Checkpoint {
            raw: vec![0; (1 + payload as usize) * BLOCK_BYTES],
        };
        cp.set_checksum_offset(CP_CHECKSUM_AT as u32);
        cp
    }

    /// Reads a checkpoint from its `1 + payload` blocks and checks its checksum. The numbers are
    /// checked by [`check`](Self::check): a checkpoint with impossible numbers is whole all the
    /// same, and no older one takes its place.
    ///
    /// # Errors
    /// Any of these is wrong.
    pub fn parse(buf: &[u8], payload: u32) -> Result<Checkpoint, Corrupt> {
        let bytes = (1 + payload.min(BLOCKS_PER_SEG) as usize) * BLOCK_BYTES;
        let cp = Checkpoint {
            raw: Corrupt::need(WHAT, buf, bytes)?.to_vec(),
        };
        cp.verify_checksum()?;
        Ok(cp)
    }

    fields! { le;
        version / set_version: u64, 0, "checkpoint_ver", "Version, raised by each checkpoint";
        user_block_count / set_user_block_count: u64, 8, "user_block_count", "Blocks that users may fill";
        valid_block_count / set_valid_block_count: u64, 16, "valid_block_count", "Valid blocks of the main area";
        reserved_segments / set_reserved_segments: u32, 24, "rsvd_segment_count", "Segments kept for cleaning";
        overprov_segments / set_overprov_segments: u32, 28, "overprov_segment_count", "Segments that users cannot fill, reserved ones among them";
        free_segments / set_free_segments: u32, 32, "free_segment_count", "Segments without a valid block that no log has";
        flags_raw / set_flags_raw: u32, 132, "ckpt_flags", "Flags as a number";
        pack_blocks / set_pack_blocks: u32, 136, "cp_pack_total_block_count", "Blocks of the pack";
        pack_start_sum / set_pack_start_sum: u32, 140, "cp_pack_start_sum", "Offset of the data summaries in the pack";
        valid_node_count / set_valid_node_count: u32, 144, "valid_node_count", "Nodes";
        valid_inode_count / set_valid_inode_count: u32, 148, "valid_inode_count", "Inodes";
        sit_bitmap_bytes / set_sit_bitmap_bytes: u32, 156, "sit_ver_bitmap_bytesize", "Bytes of the version bitmap of the SIT";
        nat_bitmap_bytes / set_nat_bitmap_bytes: u32, 160, "nat_ver_bitmap_bytesize", "Bytes of the version bitmap of the NAT";
        checksum_offset / set_checksum_offset: u32, 164, "checksum_offset", "Where the checksum stands";
        elapsed_time / set_elapsed_time: u64, 168, "elapsed_time", "Clock of the volume: seconds mounted";
    }

    /// Flags.
    pub fn flags(&self) -> CpFlags {
        CpFlags(self.flags_raw())
    }
    /// Sets the flags.
    pub fn set_flags(&mut self, flags: CpFlags) {
        self.set_flags_raw(flags.0);
    }
    /// Where the search for a free nid begins (`next_free_nid`).
    pub fn next_free_nid(&self) -> Nid {
        Nid(get_le32(&self.raw, 152))
    }
    /// Sets `next_free_nid`.
    pub fn set_next_free_nid(&mut self, nid: Nid) {
        put_le32(&mut self.raw, 152, nid.0);
    }
    /// Segment of a log (`cur_node_segno`, `cur_data_segno`).
    pub fn cur_segno(&self, log: Log) -> SegNo {
        SegNo(get_le32(&self.raw, log_at(log) + 4 * log.heat()))
    }
    /// Sets the segment of a log.
    pub fn set_cur_segno(&mut self, log: Log, seg: SegNo) {
        put_le32(&mut self.raw, log_at(log) + 4 * log.heat(), seg.0);
    }
    /// Next block that a log fills, counted in its segment (`cur_node_blkoff`, `cur_data_blkoff`).
    pub fn cur_blkoff(&self, log: Log) -> u16 {
        get_le16(&self.raw, log_at(log) + 4 * LOG_SLOTS + 2 * log.heat())
    }
    /// Sets the next block of a log.
    pub fn set_cur_blkoff(&mut self, log: Log, offset: u16) {
        put_le16(
            &mut self.raw,
            log_at(log) + 4 * LOG_SLOTS + 2 * log.heat(),
            offset,
        );
    }
    /// Sets the five slots of each kind that no log uses to "no segment", as mkfs.f2fs does.
    pub fn clear_unused_logs(&mut self) {
        for base in [NODE_LOGS_AT, DATA_LOGS_AT] {
            self.raw[base + 12..base + 4 * LOG_SLOTS].fill(0xFF);
        }
    }
    /// How a log allocates, as stored (`alloc_type`).
    pub fn alloc_type_raw(&self, log: Log) -> u8 {
        self.raw[ALLOC_TYPE_AT + log.index()]
    }
    /// How a log allocates; an unknown value counts as [`AllocType::Lfs`].
    pub fn alloc_type(&self, log: Log) -> AllocType {
        if self.alloc_type_raw(log) == AllocType::Ssr as u8 {
            AllocType::Ssr
        } else {
            AllocType::Lfs
        }
    }
    /// Sets how a log allocates.
    pub fn set_alloc_type(&mut self, log: Log, how: AllocType) {
        self.raw[ALLOC_TYPE_AT + log.index()] = how as u8;
    }

    /// Byte ranges of the version bitmaps of NAT and SIT in the checkpoint with its payload.
    ///
    /// Without payload: SIT, then NAT, from 192. With payload: NAT from 192, SIT in the second
    /// block. With `LARGE_NAT_BITMAP`: NAT, then SIT, from 196, behind the checksum at 192.
    pub(super) fn bitmap_places(&self) -> (Range<usize>, Range<usize>) {
        let (nat, sit) = (
            self.nat_bitmap_bytes() as usize,
            self.sit_bitmap_bytes() as usize,
        );
        let range = |at: usize, len: usize| at..at.saturating_add(len);
        if self.flags().has(CpFlags::LARGE_NAT_BITMAP) {
            let at = CP_BITMAP_AT + 4;
            return (range(at, nat), range(at + nat, sit));
        }
        if self.raw.len() > BLOCK_BYTES {
            return (range(CP_BITMAP_AT, nat), range(BLOCK_BYTES, sit));
        }
        (range(CP_BITMAP_AT + sit, nat), range(CP_BITMAP_AT, sit))
    }
    /// Version bitmap of the NAT: bit `b` ([`bits::test_bit`](super::bits::test_bit)) says that the
    /// second copy of block `b` counts. Empty if its size is impossible.
    pub fn nat_bitmap(&self) -> &[u8] {
        self.raw.get(self.bitmap_places().0).unwrap_or_default()
    }
    /// As [`nat_bitmap`](Self::nat_bitmap), to be changed.
    pub fn nat_bitmap_mut(&mut self) -> &mut [u8] {
        let range = self.bitmap_places().0;
        self.raw.get_mut(range).unwrap_or_default()
    }
    /// Version bitmap of the SIT, with the meaning of that of the NAT.
    pub fn sit_bitmap(&self) -> &[u8] {
        self.raw.get(self.bitmap_places().1).unwrap_or_default()
    }
    /// As [`sit_bitmap`](Self::sit_bitmap), to be changed.
    pub fn sit_bitmap_mut(&mut self) -> &mut [u8] {
        let range = self.bitmap_places().1;
        self.raw.get_mut(range).unwrap_or_default()
    }

    /// True if the pack has node summaries.
    pub fn has_node_summaries(&self) -> bool {
        self.flags().has(CpFlags::UMOUNT) || self.flags().has(CpFlags::FASTBOOT)
    }
    /// Offset in the pack of a log's summary block; of a data log when they are not compact. `None`
    /// for a node log if the pack has no node summaries, or if the pack is too short.
    pub fn summary_offset(&self, log: Log) -> Option<u32> {
        let nodes = self.has_node_summaries();
        let behind = match (log.is_node(), nodes) {
            (true, false) => return None,
            (true, true) => 4,
            (false, true) => 7,
            (false, false) => 4,
        };
        Some(self.pack_blocks().checked_sub(behind)? + log.heat() as u32)
    }
    /// Blocks of orphans in the pack.
    pub fn orphan_blocks(&self) -> u32 {
        if !self.flags().has(CpFlags::ORPHAN_PRESENT) {
            return 0;
        }
        self.pack_start_sum()
            .saturating_sub((self.raw.len() / BLOCK_BYTES) as u32)
    }
    /// Entries of a data log in compact summaries: those before its next block, all 512 if it fills
    /// holes.
    pub fn compact_entries(&self, log: Log) -> u32 {
        match self.alloc_type(log) {
            AllocType::Ssr => BLOCKS_PER_SEG,
            AllocType::Lfs => u32::from(self.cur_blkoff(log)).min(BLOCKS_PER_SEG),
        }
    }

    /// The checksum as stored; 0 if its offset is impossible. Nodes of roll-forward repeat it
    /// (`CRC_RECOVERY`).
    pub fn crc(&self) -> u32 {
        match self.checksum_at() {
            Ok(at) => get_le32(&self.raw, at),
            Err(_) => 0,
        }
    }
    /// The version that nodes written since this checkpoint carry; under `CRC_RECOVERY` the
    /// checksum is its upper half.
    pub fn node_version(&self) -> u64 {
        let version = self.version();
        if self.flags().has(CpFlags::CRC_RECOVERY) {
            version | u64::from(self.crc()) << 32
        } else {
            version
        }
    }
    fn checksum_at(&self) -> Result<usize, Corrupt> {
        let at = self.checksum_offset();
        let least = CP_BITMAP_AT as u32;
        if (least..=CP_CHECKSUM_AT as u32).contains(&at) {
            return Ok(at as usize);
        }
        Err(Corrupt::field(
            WHAT,
            "checksum_offset",
            at.into(),
            "must be from 192 to 4092",
        ))
    }
    fn computed(&self, at: usize) -> u32 {
        let before = crc_f2fs(&self.raw[..at]);
        if at < CP_CHECKSUM_AT {
            crc(before, &self.raw[at + 4..BLOCK_BYTES])
        } else {
            before
        }
    }
    /// Compares the checksum, which covers the first block alone.
    ///
    /// # Errors
    /// The checksum differs, or its offset is impossible.
    pub fn verify_checksum(&self) -> Result<(), Corrupt> {
        let at = self.checksum_at()?;
        Corrupt::check(WHAT, get_le32(&self.raw, at), self.computed(at))
    }
    /// Brings the checksum up to date; to be called last.
    ///
    /// # Panics
    /// `checksum_offset` is impossible.
    pub fn update_checksum(&mut self) {
        let at = self
            .checksum_at()
            .expect("whoever sets checksum_offset sets a possible one");
        let crc = self.computed(at);
        put_le32(&mut self.raw, at, crc);
    }
    /// The raw bytes, payload included.
    pub fn bytes(&self) -> &[u8] {
        &self.raw
    }
    /// The first block, which stands again at the end of the pack.
    pub fn block(&self) -> &[u8] {
        &self.raw[..BLOCK_BYTES]
    }

    /// Checks the numbers against the geometry: after that counts, places in the pack and logs are
    /// in range.
    ///
    /// # Errors
    /// A number is impossible.
    pub fn check(&self, geo: &Geometry) -> Result<(), Corrupt> {
        self.check_pack(geo)?;
        self.check_counts(geo)?;
        self.check_logs(geo)
    }

    fn check_pack(&self, geo: &Geometry) -> Result<(), Corrupt> {
        let (total, start) = (self.pack_blocks(), self.pack_start_sum());
        need(
            (1..=BLOCKS_PER_SEG).contains(&total),
            "cp_pack_total_block_count",
            total,
            "a pack fits into a segment",
        )?;
        let behind = self.least_summaries() + 1;
        let fits =
            start > geo.cp_payload && u64::from(start) + u64::from(behind) <= u64::from(total);
        need(
            fits,
            "cp_pack_start_sum",
            start,
            "the summaries lie in the pack",
        )?;
        let (nat, sit) = (self.nat_bitmap_bytes(), self.sit_bitmap_bytes());
        need(
            nat == geo.nat_bitmap_bytes(),
            "nat_ver_bitmap_bytesize",
            nat,
            "one bit for each block of the NAT",
        )?;
        need(
            sit == geo.sit_bitmap_bytes(),
            "sit_ver_bitmap_bytesize",
            sit,
            "one bit for each block of the SIT",
        )?;
        self.check_bitmaps()?;
        let large = self.flags().has(CpFlags::LARGE_NAT_BITMAP);
        let at = self.checksum_offset();
        need(
            !large || at as usize == CP_BITMAP_AT,
            "checksum_offset",
            at,
            "192 with a large NAT bitmap",
        )
    }
    /// The version bitmaps must lie within the checkpoint and its payload.
    fn check_bitmaps(&self) -> Result<(), Corrupt> {
        let (nat, sit) = self.bitmap_places();
        let fits = |range: &Range<usize>| {
            let large = self.flags().has(CpFlags::LARGE_NAT_BITMAP);
            let whole = range.start >= BLOCK_BYTES || large;
            range.end
                <= if whole {
                    self.raw.len()
                } else {
                    CP_CHECKSUM_AT
                }
        };
        let reason = "does not fit into the checkpoint";
        need(
            fits(&nat),
            "nat_ver_bitmap_bytesize",
            self.nat_bitmap_bytes(),
            reason,
        )?;
        need(
            fits(&sit),
            "sit_ver_bitmap_bytesize",
            self.sit_bitmap_bytes(),
            reason,
        )
    }
    /// Summary blocks of the pack, at least.
    fn least_summaries(&self) -> u32 {
        let data = if self.flags().has(CpFlags::COMPACT_SUM) {
            1
        } else {
            3
        };
        data + if self.has_node_summaries() { 3 } else { 0 }
    }

    fn check_counts(&self, geo: &Geometry) -> Result<(), Corrupt> {
        let main = geo.segments_main;
        let (reserved, over) = (self.reserved_segments(), self.overprov_segments());
        need(
            over < main,
            "overprov_segment_count",
            over,
            "less than the main area",
        )?;
        need(
            reserved < main,
            "rsvd_segment_count",
            reserved,
            "less than the main area",
        )?;
        let blocks = u64::from(geo.main_blocks());
        let user = self.user_block_count();
        // Cleaning needs room that users cannot have; a sealed volume is never cleaned.
        let most = if geo.is_sealed() { blocks } else { blocks - 1 };
        need(
            (1..=most).contains(&user),
            "user_block_count",
            user,
            "less than the main area",
        )?;
        let valid = self.valid_block_count();
        need(
            valid <= user,
            "valid_block_count",
            valid,
            "not more than users may fill",
        )?;
        let free = self.free_segments();
        need(
            free <= main,
            "free_segment_count",
            free,
            "not more than the main area",
        )?;
        let (nodes, inodes) = (self.valid_node_count(), self.valid_inode_count());
        let possible = u64::from(nodes) <= valid && nodes < geo.max_nid;
        need(
            possible,
            "valid_node_count",
            nodes,
            "more than valid blocks or nids",
        )?;
        need(
            inodes <= nodes,
            "valid_inode_count",
            inodes,
            "more than nodes",
        )?;
        let next = self.next_free_nid();
        need(
            next.0 < geo.max_nid,
            "next_free_nid",
            next,
            "beyond the NAT",
        )
    }

    fn check_logs(&self, geo: &Geometry) -> Result<(), Corrupt> {
        for (n, &log) in geo.logs().iter().enumerate() {
            let (seg_field, off_field) = match log.is_node() {
                true => ("cur_node_segno", "cur_node_blkoff"),
                false => ("cur_data_segno", "cur_data_blkoff"),
            };
            let (seg, offset) = (self.cur_segno(log), self.cur_blkoff(log));
            need(
                seg.0 < geo.segments_main,
                seg_field,
                seg,
                "beyond the main area",
            )?;
            need(
                u32::from(offset) < BLOCKS_PER_SEG,
                off_field,
                offset,
                "a segment has 512 blocks",
            )?;
            let shared = geo.logs()[..n]
                .iter()
                .any(|&other| self.cur_segno(other) == seg);
            need(!shared, seg_field, seg, "two logs in one segment")?;
            need(
                self.alloc_type_raw(log) <= 1,
                "alloc_type",
                self.alloc_type_raw(log),
                "0 (LFS) or 1 (SSR)",
            )?;
        }
        Ok(())
    }
}

fn log_at(log: Log) -> usize {
    if log.is_node() {
        NODE_LOGS_AT
    } else {
        DATA_LOGS_AT
    }
}

fn need(
    ok: bool,
    field: &'static str,
    value: impl Into<u64>,
    reason: &'static str,
) -> Result<(), Corrupt> {
    if ok {
        Ok(())
    } else {
        Err(Corrupt::field(WHAT, field, value.into(), reason))
    }
}

impl std::fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoint")
            .field("version", &self.version())
            .field("flags", &self.flags())
            .field("valid_block_count", &self.valid_block_count())
            .finish_non_exhaustive()
    }
}
