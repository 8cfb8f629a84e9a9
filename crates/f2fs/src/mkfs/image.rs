//! Builds the bytes of a new volume.
//!
//! | block | content |
//! |---|---|
//! | 0, 1 | superblocks |
//! | first pack | checkpoint, compact summaries (NAT journal: the new inodes; SIT journal: the six logs), node summaries, NAT bits |
//! | second pack | a checkpoint of version 0, twice: never the newer one |
//! | first NAT block | the two inodes that stand for node and metadata area, and the root |
//! | hot node log | root, `lost+found` |
//! | hot data log | their entries |
//! | behind the volume | both superblocks of the journal, if there is one |

use super::layout::Layout;
use super::options::{Options, RING_AT};
use super::write::Plan;
use base::{BlockNo, Bytes};
use ondisk::Folding;
use ondisk::f2fs::journal::{JournalArea, JournalSuper};
use ondisk::f2fs::{
    BLOCK_BYTES, BLOCKS_PER_SEG, BlockAddr, CP_BITMAP_AT, Checkpoint, CompactSummaries, CpFlags,
    Dentry, DentryLayout, Features, FileType, Footer, Geometry, Inline, InodeFields, InodeName,
    JOURNAL_BYTES, Log, MODE_DIR, NatBits, NatEntry, Nid, SegNo, SitEntry, Summary, SummaryBlock,
    SummaryKind, Superblock, Timestamp, bits, crc, dentry_hash, put_nat_journal, put_sit_journal,
    set_addr, set_footer, update_inode_checksum,
};
use std::collections::BTreeMap;

const NODE_INO: Nid = Nid(1);
const META_INO: Nid = Nid(2);
const ROOT: Nid = Nid(3);
const LOST_FOUND: Nid = Nid(4);
const LOST_FOUND_NAME: &[u8] = b"lost+found";
/// Blocks of a first pack behind the payload: checkpoint, compact summaries, three node summaries,
/// checkpoint.
const PACK_BLOCKS: u32 = 6;
/// `cp_ver` of the nodes: older than every checkpoint.
const NODE_VERSION: u64 = 1;
/// Where the nodes of the metadata areas are said to lie.
const NOWHERE: BlockAddr = BlockAddr(1);

/// A directory of the new volume.
struct Directory {
    ino: Nid,
    parent: Nid,
    name: &'static [u8],
    mode: u16,
    subdirs: u32,
    owner: (u32, u32),
}

struct Image<'a> {
    options: &'a Options,
    layout: &'a Layout,
    geo: Geometry,
    blocks: BTreeMap<u64, Vec<u8>>,
}

/// Fills in the bytes.
///
/// # Panics
/// mkfs-K1.
pub(super) fn build(options: &Options, layout: &Layout) -> Plan {
    let mut sb = superblock(options, layout);
    let geo = Geometry::new(&sb, layout.block_count).expect("mkfs-K1: the layout is sound");
    let mut image = Image {
        options,
        layout,
        geo,
        blocks: BTreeMap::new(),
    };
    let dirs = image.directories();
    for (n, dir) in dirs.iter().enumerate() {
        image.put_directory(n as u32, dir, &dirs);
    }
    image.put_nat();
    image.put_first_pack(&dirs);
    image.put_second_pack(dirs.len() as u32);
    if let Some(area) = journal(options, layout) {
        image.put_journal(&area);
        sb.set_journal(&area);
    }
    for block in 0..2 {
        sb.encode(image.block(block));
    }
    let zeroed = image.zeroed();
    let blocks = image
        .blocks
        .into_iter()
        .map(|(n, bytes)| (BlockNo(n), Bytes::from(bytes)));
    Plan::new(blocks.collect(), zeroed)
}

/// The region of the journal.
fn journal(options: &Options, layout: &Layout) -> Option<JournalArea> {
    let (start, blocks) = layout.journal?;
    let uuid = options.uuid;
    Some(JournalArea {
        start,
        blocks,
        uuid,
    })
}

fn superblock(options: &Options, layout: &Layout) -> Superblock {
    let mut sb = Superblock::blank();
    sb.set_major_version(1);
    sb.set_minor_version(15);
    sb.set_log_sector_bytes(9);
    sb.set_log_sectors_per_block(3);
    sb.set_log_block_bytes(12);
    sb.set_log_blocks_per_seg(9);
    sb.set_segs_per_sec(options.segs_per_sec);
    sb.set_secs_per_zone(options.secs_per_zone);
    sb.set_block_count(layout.block_count);
    sb.set_section_count(layout.sections);
    sb.set_segment_count(layout.segments);
    sb.set_segment_count_cp(2);
    sb.set_segment_count_sit(layout.segments_sit);
    sb.set_segment_count_nat(layout.segments_nat);
    sb.set_segment_count_ssa(layout.segments_ssa);
    sb.set_segment_count_main(layout.segments_main);
    let mut at = layout.segment0;
    let mut area = |segments: u32| {
        let start = at;
        at += segments * BLOCKS_PER_SEG;
        start
    };
    sb.set_segment0_addr(layout.segment0);
    sb.set_cp_addr(area(2));
    sb.set_sit_addr(area(layout.segments_sit));
    sb.set_nat_addr(area(layout.segments_nat));
    sb.set_ssa_addr(area(layout.segments_ssa));
    sb.set_main_addr(area(layout.segments_main));
    sb.set_root_ino(ROOT);
    sb.set_node_ino(NODE_INO);
    sb.set_meta_ino(META_INO);
    sb.set_uuid(options.uuid);
    assert!(sb.set_label(&options.label), "the options were checked");
    let bytes = |names: Vec<&str>| {
        names
            .into_iter()
            .map(|n| n.to_string().into_bytes())
            .collect::<Vec<_>>()
    };
    let (cold, hot) = (bytes(options.cold()), bytes(options.hot()));

    let cold: Vec<&[u8]> = cold.iter().map(Vec::as_slice).collect();
    let hot: Vec<&[u8]> = hot.iter().map(Vec::as_slice).collect();
    assert!(sb.set_extensions(&cold, &hot), "the options were checked");
    sb.set_cp_payload(layout.cp_payload);
    let version = concat!("Varve ", env!("CARGO_PKG_VERSION"));
    sb.set_version(version.as_bytes());
    sb.set_init_version(version.as_bytes());
    sb.set_features(options.features);
    if options.casefold {
        sb.set_features(options.features | Features::CASEFOLD);
        let [low, high, ..] = Folding::fields();
        sb.set_encoding(u16::from_le_bytes([low, high]));
    }
    sb.update_checksum();
    sb
}

impl Image<'_> {
    fn block(&mut self, at: u32) -> &mut Vec<u8> {
        self.blocks
            .entry(at.into())
            .or_insert_with(|| vec![0; BLOCK_BYTES])
    }

    /// Both superblocks of the journal: an empty ring. Its life follows from UUID and time, as the
    /// checkpoint's version does.
    fn put_journal(&mut self, area: &JournalArea) {
        let version = u64::from(self.options.checkpoint_version);
        let sb = JournalSuper {
            clean: true,
            uuid: area.uuid,
            ring_blocks: area.blocks - RING_AT,
            tail_epoch: 1,
            checkpoint_version: version,
            incarnation: u64::from(crc(!0, &area.uuid)) << 32 | version,
            ..JournalSuper::default()
        };
        for generation in 0..2 {
            let sb = JournalSuper { generation, ..sb };
            self.blocks.insert(area.super_block(sb.copy()), sb.encode());
        }
    }

    fn put(&mut self, at: BlockAddr, bytes: &[u8]) {
        for (n, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
            self.block(at.0 + n as u32)[..block.len()].copy_from_slice(block);
        }
    }

    fn directories(&self) -> Vec<Directory> {
        let lost_found = self.options.features.has(Features::LOST_FOUND);
        let mut dirs = vec![Directory {
            ino: ROOT,
            parent: ROOT,
            name: b"",
            mode: MODE_DIR | 0o755,
            subdirs: lost_found.into(),
            owner: self.options.root_owner,
        }];
        if lost_found {
            dirs.push(Directory {
                ino: LOST_FOUND,
                parent: ROOT,
                name: LOST_FOUND_NAME,
                mode: MODE_DIR | 0o700,
                subdirs: 0,
                owner: (0, 0),
            });
        }
        dirs
    }

    fn log_start(&self, log: Log) -> BlockAddr {
        self.geo.seg_start(SegNo(self.layout.logs[log.index()]))
    }

    /// Inode and entries of directory `n`.
    fn put_directory(&mut self, n: u32, dir: &Directory, all: &[Directory]) {
        let node = BlockAddr(self.log_start(Log::HotNode).0 + n);
        let data = BlockAddr(self.log_start(Log::HotData).0 + n);
        let (features, seed) = (self.options.features, crc(!0, &self.options.uuid));
        let fields = self.inode(dir);
        let block = self.block(node.0);
        fields.encode_into(block, features);
        set_addr(block, fields.addr_slot0(), data);
        let footer = Footer {
            nid: dir.ino,
            ino: dir.ino,
            flags: 0,
            cp_ver: NODE_VERSION,
            next: BlockAddr(node.0 + 1),
        };
        set_footer(block, &footer);
        update_inode_checksum(block, features, seed);

        let block = self.block(data.0);
        let mut slot = 0;
        let mut entry = |name: &[u8], ino: Nid| {
            let entry = Dentry {
                hash: dentry_hash(name),
                ino,
                kind: FileType::Directory,
                name,
            };
            ondisk::f2fs::put(block, &DentryLayout::BLOCK, slot, &entry);
            slot += ondisk::f2fs::dentry_slots(name.len());
        };
        entry(b".", dir.ino);
        entry(b"..", dir.parent);
        for child in all
            .iter()
            .filter(|d| d.parent == dir.ino && d.ino != dir.ino)
        {
            entry(child.name, child.ino);
        }
    }

    fn inode(&self, dir: &Directory) -> InodeFields {
        let time = Timestamp {
            secs: self.options.time.secs,
            nanos: 0,
        };
        let extra = self.options.features.has(Features::EXTRA_ATTR);
        let mut fields = InodeFields {
            mode: dir.mode,
            uid: dir.owner.0,
            gid: dir.owner.1,
            links: 2 + dir.subdirs,
            size: BLOCK_BYTES as u64,
            blocks: 2,
            atime: time,
            ctime: time,
            mtime: time,
            current_depth: 1,
            ..InodeFields::default()
        };
        if dir.parent != dir.ino {
            fields.pino = dir.parent;
            fields.name = InodeName::new(dir.name).expect("a short name");
        }
        if extra {
            fields.inline = Inline::EXTRA_ATTR;
            fields.extra_isize = extra_bytes(self.options.features);
            fields.crtime = time;
        }
        fields
    }

    fn put_nat(&mut self) {
        let node = self.log_start(Log::HotNode).0;
        let block = self.geo.nat_addr(0, false);
        let block = self.block(block.0);
        let fixed = [NODE_INO, META_INO].map(|ino| (ino, NOWHERE));
        let root = (ROOT, BlockAddr(node));
        for (ino, addr) in fixed.into_iter().chain([root]) {
            let entry = NatEntry {
                version: 0,
                ino,
                addr,
            };
            entry.put(block, ino.0 as usize);
        }
    }

    fn checkpoint(&self, version: u64, dirs: u32) -> Checkpoint {
        let (layout, geo) = (self.layout, &self.geo);
        let mut cp = Checkpoint::blank(layout.cp_payload);
        cp.set_version(version);
        cp.clear_unused_logs();
        for log in Log::ALL {
            cp.set_cur_segno(log, SegNo(layout.logs[log.index()]));
        }
        for log in [Log::HotNode, Log::HotData] {
            cp.set_cur_blkoff(log, dirs as u16);
        }
        cp.set_reserved_segments(layout.reserved);
        cp.set_overprov_segments(layout.overprov_segments);
        cp.set_free_segments(layout.segments_main - Log::ALL.len() as u32);
        let user = layout.segments_main - layout.overprov_segments;
        cp.set_user_block_count(u64::from(user) * u64::from(BLOCKS_PER_SEG));
        cp.set_valid_block_count(2 * u64::from(dirs));
        cp.set_valid_node_count(dirs);
        cp.set_valid_inode_count(dirs);
        cp.set_next_free_nid(Nid(ROOT.0 + dirs));
        cp.set_sit_bitmap_bytes(geo.sit_bitmap_bytes());
        cp.set_nat_bitmap_bytes(geo.nat_bitmap_bytes());
        cp.set_pack_blocks(PACK_BLOCKS + layout.cp_payload);
        cp.set_pack_start_sum(1 + layout.cp_payload);
        let mut flags = CpFlags::UMOUNT | CpFlags::COMPACT_SUM;
        if NatBits::offset(geo, cp.pack_blocks()).is_some() {
            flags = flags | CpFlags::NAT_BITS;
        }
        if self.options.trimmed {
            flags = flags | CpFlags::TRIMMED;
        }
        if self.options.large_nat_bitmap {
            flags = flags | CpFlags::LARGE_NAT_BITMAP;
            cp.set_checksum_offset(CP_BITMAP_AT as u32);
        }
        cp.set_flags(flags);
        if self.layout.journal.is_some() {
            let room = cp.set_applied(&self.options.uuid, 0);
            assert!(
                room,
                "mkfs-K1: the layout has room for the mark of the journal"
            );
        }
        cp.update_checksum();
        cp.check(geo).expect("mkfs-K1: the checkpoint is sound");
        cp
    }

    fn put_first_pack(&mut self, dirs: &[Directory]) {
        let pack = self.geo.cp_pack(false);
        let cp = self.checkpoint(self.options.checkpoint_version.into(), dirs.len() as u32);
        self.put(pack, cp.bytes());
        let compact = self.compact(dirs).encode();
        self.put(BlockAddr(pack.0 + cp.pack_start_sum()), &compact);
        for log in Log::NODE {
            let mut summary = SummaryBlock::blank(SummaryKind::Node);
            if log == Log::HotNode {
                for (n, dir) in dirs.iter().enumerate() {
                    summary.set_entry(
                        n as u32,
                        Summary {
                            nid: dir.ino,
                            ..Summary::default()
                        },
                    );
                }
            }
            let at = cp.summary_offset(log).expect("the pack has node summaries");
            self.put(BlockAddr(pack.0 + at), summary.bytes());
        }
        self.put(BlockAddr(pack.0 + cp.pack_blocks() - 1), cp.block());
        if let Some(at) = NatBits::offset(&self.geo, cp.pack_blocks()) {
            let bits = self.nat_bits().encode(&cp);
            self.put(BlockAddr(pack.0 + at), &bits);
        }
    }

    /// Only the first NAT block has a used nid; the journal does not count.
    fn nat_bits(&self) -> NatBits {
        let bytes = self.geo.nat_bitmap_bytes() as usize;
        let mut empty = vec![0xFF; bytes];
        bits::clear_bit_le(&mut empty, 0);
        NatBits {
            full: vec![0; bytes],
            empty,
        }
    }

    fn compact(&self, dirs: &[Directory]) -> CompactSummaries {
        let node = self.log_start(Log::HotNode).0;
        let nat = dirs.iter().zip(node..).map(|(dir, addr)| {
            let entry = NatEntry {
                version: 0,
                ino: dir.ino,
                addr: BlockAddr(addr),
            };
            (dir.ino, entry)
        });
        let sit = [
            Log::HotNode,
            Log::WarmNode,
            Log::ColdNode,
            Log::HotData,
            Log::WarmData,
            Log::ColdData,
        ];
        let sit = sit.map(|log| {
            let mut entry = SitEntry {
                kind: log.index() as u8,
                ..SitEntry::default()
            };
            if matches!(log, Log::HotNode | Log::HotData) {
                entry.valid = dirs.len() as u16;
                (0..dirs.len()).for_each(|n| {
                    bits::set_bit(&mut entry.map, n);
                });
            }
            (SegNo(self.layout.logs[log.index()]), entry)
        });
        let mut compact = CompactSummaries {
            nat: vec![0; JOURNAL_BYTES],
            sit: vec![0; JOURNAL_BYTES],
            owners: [Vec::new(), Vec::new(), Vec::new()],
        };
        put_nat_journal(&mut compact.nat, &nat.collect::<Vec<_>>());
        put_sit_journal(&mut compact.sit, &sit);
        compact.owners[0] = dirs
            .iter()
            .map(|dir| Summary {
                nid: dir.ino,
                ..Summary::default()
            })
            .collect();
        compact
    }

    fn put_second_pack(&mut self, dirs: u32) {
        let pack = self.geo.cp_pack(true);
        let cp = self.checkpoint(0, dirs);
        self.put(pack, cp.bytes());
        self.put(BlockAddr(pack.0 + cp.pack_blocks() - 1), cp.block());
    }

    /// Areas whose other blocks must read as zeros.
    fn zeroed(&self) -> Vec<(BlockNo, u64)> {
        let geo = &self.geo;
        let areas = u64::from(geo.ssa.0 - geo.cp.0);
        let warm = self.log_start(Log::WarmNode);
        let journal = self.layout.journal;
        let mut zeroed = vec![
            (BlockNo(0), 2),
            (BlockNo(geo.cp.into()), areas),
            (BlockNo(warm.into()), 1),
        ];
        // What an older journal with the same incarnation left would be replayed.
        zeroed.extend(journal.map(|(start, blocks)| (BlockNo(start), blocks.into())));
        zeroed
    }
}

/// Bytes of extra attributes that these features need.
fn extra_bytes(features: Features) -> u16 {
    if features.has(Features::INODE_CRTIME) {
        24
    } else if features.has(Features::INODE_CHKSUM) {
        12
    } else {
        4
    }
}
