//! The geometry of a volume: the numbers of the superblock, after everything that later code relies
//! on was checked.
//!
//! ```text
//! 0        segment0 = cp          sit             nat             ssa        main
//! | superblocks | pack 0 | pack 1 | copy 0 copy 1 | 0 1 0 1 ...  | summaries | segments ... |
//! ```
//!
//! Invariants:
//! - G1: the areas follow each other without gap or overlap, each a whole number of segments, and
//!   end within the volume.
//! - G2: SIT, NAT and summary area are large enough for the segments of the main area. A volume
//!   that was made to be read only (feature `ro`, `mkfs.f2fs -O ro`) may lack the summary area,
//!   because it is never cleaned ([`Geometry::is_sealed`]).
//! - G3: every address that a function here returns for an index in range lies within the volume.

use super::superblock::WHAT;
use super::{
    BLOCKS_PER_SEG, BlockAddr, Features, Log, NAT_PER_BLOCK, Nid, SIT_PER_BLOCK, SegNo, Superblock,
};
use crate::Corrupt;

/// Segments that the kernel allows at most (16 TiB).
const SEGMENTS_MAX: u32 = 16 * 1024 * 1024 / 2;
/// Segments that the kernel demands at least: 2 checkpoint, 2 SIT, 2 NAT, 1 summary, 2 main.
const SEGMENTS_MIN: u32 = 9;
/// Blocks of a pack that are no payload: two copies of the checkpoint, six summaries.
const CP_FIXED_BLOCKS: u32 = 8;

/// The geometry of a volume, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Blocks of the volume.
    pub block_count: u64,
    /// Block at which the segments begin.
    pub segment0: BlockAddr,
    /// First block of the checkpoint area.
    pub cp: BlockAddr,
    /// First block of the SIT.
    pub sit: BlockAddr,
    /// First block of the NAT.
    pub nat: BlockAddr,
    /// First block of the summary area.
    pub ssa: BlockAddr,
    /// First block of the main area.
    pub main: BlockAddr,
    /// Segments of the checkpoint area: 2.
    pub segments_cp: u32,
    /// Segments of both copies of the SIT.
    pub segments_sit: u32,
    /// Segments of both copies of the NAT.
    pub segments_nat: u32,
    /// Segments of the summary area.
    pub segments_ssa: u32,
    /// Segments of the main area.
    pub segments_main: u32,
    /// Segments of all areas, perhaps with unused ones behind the main area.
    pub segments: u32,
    /// Sections of the main area.
    pub sections: u32,
    /// Segments of a section.
    pub segs_per_sec: u32,
    /// Sections of a zone.
    pub secs_per_zone: u32,
    /// Blocks of a checkpoint behind its first.
    pub cp_payload: u32,
    /// Inode of the root directory.
    pub root: Nid,
    /// Inode that stands for the node blocks.
    pub node_ino: Nid,
    /// Inode that stands for the metadata areas.
    pub meta_ino: Nid,
    /// Nids are below this.
    pub max_nid: u32,
    /// Blocks of one copy of the NAT.
    pub nat_blocks: u32,
    /// Blocks of one copy of the SIT, used or not.
    pub sit_blocks: u32,
}

impl Geometry {
    /// Checks the superblock's numbers against each other and against the size of the device in
    /// blocks.
    ///
    /// # Errors
    /// A number is impossible, areas overlap, or the device is too short.
    pub fn new(sb: &Superblock, device_blocks: u64) -> Result<Geometry, Corrupt> {
        check_units(sb)?;
        check_segments(sb)?;
        check_areas(sb)?;
        check_capacity(sb)?;
        check_inodes(sb)?;
        let blocks = sb.block_count();
        need(
            blocks <= device_blocks,
            "block_count",
            blocks,
            "the device is shorter than its superblock says",
        )?;
        let nat_blocks = sb.segment_count_nat() / 2 * BLOCKS_PER_SEG;
        Ok(Geometry {
            block_count: blocks,
            segment0: BlockAddr(sb.segment0_addr()),
            cp: BlockAddr(sb.cp_addr()),
            sit: BlockAddr(sb.sit_addr()),
            nat: BlockAddr(sb.nat_addr()),
            ssa: BlockAddr(sb.ssa_addr()),
            main: BlockAddr(sb.main_addr()),
            segments_cp: sb.segment_count_cp(),
            segments_sit: sb.segment_count_sit(),
            segments_nat: sb.segment_count_nat(),
            segments_ssa: sb.segment_count_ssa(),
            segments_main: sb.segment_count_main(),
            segments: sb.segment_count(),
            sections: sb.section_count(),
            segs_per_sec: sb.segs_per_sec(),
            secs_per_zone: sb.secs_per_zone(),
            cp_payload: sb.cp_payload(),
            root: sb.root_ino(),
            node_ino: sb.node_ino(),
            meta_ino: sb.meta_ino(),
            max_nid: nat_blocks * NAT_PER_BLOCK as u32,
            nat_blocks,
            sit_blocks: sb.segment_count_sit() / 2 * BLOCKS_PER_SEG,
        })
    }

    /// True if the volume has no summary area: it is filled once and then read.
    pub fn is_sealed(&self) -> bool {
        self.segments_ssa == 0
    }
    /// The logs that the volume has: a sealed one has two, and what the checkpoint says of the
    /// others means nothing.
    pub fn logs(&self) -> &'static [Log] {
        match self.is_sealed() {
            true => &[Log::HotData, Log::HotNode],
            false => &Log::ALL,
        }
    }
    /// Blocks of the main area.
    pub fn main_blocks(&self) -> u32 {
        self.segments_main * BLOCKS_PER_SEG
    }
    /// The block behind the main area.
    pub fn main_end(&self) -> BlockAddr {
        BlockAddr(self.main.0 + self.main_blocks())
    }
    /// True if the block lies in the main area.
    pub fn is_main(&self, addr: BlockAddr) -> bool {
        self.main <= addr && addr < self.main_end()
    }
    /// First block of a segment of the main area.
    ///
    /// # Panics
    /// There is no such segment.
    pub fn seg_start(&self, seg: SegNo) -> BlockAddr {
        assert!(
            seg.0 < self.segments_main,
            "G3: segment {seg} of {}",
            self.segments_main
        );
        BlockAddr(self.main.0 + seg.0 * BLOCKS_PER_SEG)
    }
    /// Segment of a block; `None` outside of the main area.
    pub fn segno(&self, addr: BlockAddr) -> Option<SegNo> {
        self.is_main(addr)
            .then(|| SegNo((addr.0 - self.main.0) / BLOCKS_PER_SEG))
    }
    /// Number of a block in its segment, 0 to 511. The main area need not begin at a multiple of
    /// 512.
    pub fn offset_in_seg(&self, addr: BlockAddr) -> u32 {
        addr.0.wrapping_sub(self.main.0) % BLOCKS_PER_SEG
    }
    /// Section of a segment.
    pub fn section(&self, seg: SegNo) -> u32 {
        seg.0 / self.segs_per_sec
    }
    /// Summary block of a segment.
    ///
    /// # Panics
    /// There is no such segment, or no summary area.
    pub fn ssa_block(&self, seg: SegNo) -> BlockAddr {
        assert!(
            seg.0 < self.segments_main && !self.is_sealed(),
            "G3: summary of segment {seg} of {}",
            self.segments_main
        );
        BlockAddr(self.ssa.0 + seg.0)
    }
    /// NAT block (counted in one copy) and entry of a nid, which is to be below
    /// [`max_nid`](Self::max_nid).
    pub fn nat_block(&self, nid: Nid) -> (u32, usize) {
        let per_block = NAT_PER_BLOCK as u32;
        (nid.0 / per_block, (nid.0 % per_block) as usize)
    }
    /// Address of one of the two copies of a NAT block.
    ///
    /// # Panics
    /// There is no such block.
    pub fn nat_addr(&self, block: u32, second: bool) -> BlockAddr {
        assert!(
            block < self.nat_blocks,
            "G3: NAT block {block} of {}",
            self.nat_blocks
        );
        let pair = block / BLOCKS_PER_SEG * 2 + u32::from(second);
        BlockAddr(self.nat.0 + pair * BLOCKS_PER_SEG + block % BLOCKS_PER_SEG)
    }
    /// SIT block (counted in one copy) and entry of a segment.
    pub fn sit_block(&self, seg: SegNo) -> (u32, usize) {
        let per_block = SIT_PER_BLOCK as u32;
        (seg.0 / per_block, (seg.0 % per_block) as usize)
    }
    /// SIT blocks of one copy that describe a segment.
    pub fn sit_blocks_used(&self) -> u32 {
        self.segments_main.div_ceil(SIT_PER_BLOCK as u32)
    }
    /// Address of one of the two copies of a SIT block.
    ///
    /// # Panics
    /// There is no such block.
    pub fn sit_addr(&self, block: u32, second: bool) -> BlockAddr {
        assert!(
            block < self.sit_blocks,
            "G3: SIT block {block} of {}",
            self.sit_blocks
        );
        BlockAddr(self.sit.0 + block + if second { self.sit_blocks } else { 0 })
    }
    /// First block of a checkpoint pack.
    pub fn cp_pack(&self, second: bool) -> BlockAddr {
        BlockAddr(self.cp.0 + if second { BLOCKS_PER_SEG } else { 0 })
    }
    /// Bytes of the version bitmap of the NAT.
    pub fn nat_bitmap_bytes(&self) -> u32 {
        self.nat_blocks / 8
    }
    /// Bytes of the version bitmap of the SIT.
    pub fn sit_bitmap_bytes(&self) -> u32 {
        self.sit_blocks / 8
    }
}

fn check_units(sb: &Superblock) -> Result<(), Corrupt> {
    need(
        sb.log_block_bytes() == 12,
        "log_blocksize",
        sb.log_block_bytes(),
        "only blocks of 4096 bytes are known",
    )?;
    let log = sb.log_blocks_per_seg();
    need(
        log == 9,
        "log_blocks_per_seg",
        log,
        "a segment has 512 blocks",
    )?;
    let sector = sb.log_sector_bytes();
    need(
        (9..=12).contains(&sector),
        "log_sectorsize",
        sector,
        "sectors have 512 to 4096 bytes",
    )?;
    let sectors = sb.log_sectors_per_block();
    need(
        sectors == 12 - sector,
        "log_sectors_per_block",
        sectors,
        "contradicts the sector size",
    )?;
    let payload = sb.cp_payload();
    need(
        payload <= BLOCKS_PER_SEG - CP_FIXED_BLOCKS,
        "cp_payload",
        payload,
        "a pack fits into a segment",
    )
}

fn check_segments(sb: &Superblock) -> Result<(), Corrupt> {
    let segments = sb.segment_count();
    need(
        (SEGMENTS_MIN..=SEGMENTS_MAX).contains(&segments),
        "segment_count",
        segments,
        "9 to 8388608 segments",
    )?;
    let main = sb.segment_count_main();
    need(
        (1..=segments).contains(&main),
        "segment_count_main",
        main,
        "not more than all segments",
    )?;
    let per_section = sb.segs_per_sec();
    need(
        (1..=main).contains(&per_section),
        "segs_per_sec",
        per_section,
        "not more than the main area has",
    )?;
    let sections = sb.section_count();
    let whole = u64::from(sections) * u64::from(per_section) == u64::from(main);
    need(
        whole,
        "section_count",
        sections,
        "sections times their segments are the main area",
    )?;
    let per_zone = sb.secs_per_zone();
    need(
        (1..=sections).contains(&per_zone),
        "secs_per_zone",
        per_zone,
        "not more than there are",
    )?;
    let cp = sb.segment_count_cp();
    need(
        cp == 2,
        "segment_count_ckpt",
        cp,
        "a segment for each of two packs",
    )?;
    let pairs = |n: u32| n >= 2 && n.is_multiple_of(2) && n <= segments;
    let (sit, nat) = (sb.segment_count_sit(), sb.segment_count_nat());
    need(
        pairs(sit),
        "segment_count_sit",
        sit,
        "two copies of whole segments",
    )?;
    need(
        pairs(nat),
        "segment_count_nat",
        nat,
        "two copies of whole segments",
    )?;
    let ssa = sb.segment_count_ssa();
    let least = u32::from(!may_be_sealed(sb));
    need(
        (least..=segments).contains(&ssa),
        "segment_count_ssa",
        ssa,
        "not more than all segments, and none with feature `ro` alone",
    )
}

/// Only a volume that is never written can do without summaries.
fn may_be_sealed(sb: &Superblock) -> bool {
    sb.features().has(Features::RO)
}

/// G1.
fn check_areas(sb: &Superblock) -> Result<(), Corrupt> {
    let start = sb.segment0_addr();
    need(
        start >= 2,
        "segment0_blkaddr",
        start,
        "two superblocks lie before",
    )?;
    let areas = [
        ("cp_blkaddr", sb.cp_addr(), sb.segment_count_cp()),
        ("sit_blkaddr", sb.sit_addr(), sb.segment_count_sit()),
        ("nat_blkaddr", sb.nat_addr(), sb.segment_count_nat()),
        ("ssa_blkaddr", sb.ssa_addr(), sb.segment_count_ssa()),
        ("main_blkaddr", sb.main_addr(), sb.segment_count_main()),
    ];
    let mut at = u64::from(start);
    for (field, addr, segments) in areas {
        need(
            u64::from(addr) == at,
            field,
            addr,
            "does not follow the area before it",
        )?;
        at += u64::from(segments) * u64::from(BLOCKS_PER_SEG);
    }
    let end = u64::from(start) + u64::from(sb.segment_count()) * u64::from(BLOCKS_PER_SEG);
    need(
        at <= end,
        "segment_count",
        sb.segment_count(),
        "the areas have more segments",
    )?;
    need(
        end <= sb.block_count(),
        "block_count",
        sb.block_count(),
        "the segments end beyond it",
    )?;
    need(
        end < u64::from(BlockAddr::COMPRESS.0),
        "segment_count",
        sb.segment_count(),
        "block addresses have 32 bits",
    )
}

/// G2.
fn check_capacity(sb: &Superblock) -> Result<(), Corrupt> {
    let main = u64::from(sb.segment_count_main());
    let blocks = |segments: u32| u64::from(segments) * u64::from(BLOCKS_PER_SEG);
    let sit = sb.segment_count_sit();
    need(
        blocks(sit / 2) * SIT_PER_BLOCK as u64 >= main,
        "segment_count_sit",
        sit,
        "too few for the main area",
    )?;
    let ssa = sb.segment_count_ssa();
    need(
        blocks(ssa) >= main || ssa == 0 && may_be_sealed(sb),
        "segment_count_ssa",
        ssa,
        "too few for the main area",
    )?;
    let nat = sb.segment_count_nat();
    let nids = blocks(nat / 2) * NAT_PER_BLOCK as u64;
    need(
        nids <= u64::from(u32::MAX),
        "segment_count_nat",
        nat,
        "nids have 32 bits",
    )
}

fn check_inodes(sb: &Superblock) -> Result<(), Corrupt> {
    need(
        sb.node_ino() == Nid(1),
        "node_ino",
        sb.node_ino(),
        "must be 1",
    )?;
    need(
        sb.meta_ino() == Nid(2),
        "meta_ino",
        sb.meta_ino(),
        "must be 2",
    )?;
    need(
        sb.root_ino() == Nid(3),
        "root_ino",
        sb.root_ino(),
        "must be 3",
    )
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
