//! Runs the checker on a new volume with one thing made wrong: each kind of finding is reported,
//! alone or together with what follows from it.

use crate::common::options_of;
use base::{BLOCK_BYTES, BlockNo, Bytes};
use ondisk::f2fs::{
    BlockAddr, Checkpoint, CpFlags, Dentry, DentryLayout, Extent, Features, FileType, Geometry,
    Inline, InodeFields, Log, NatEntry, Nid, OrphanBlock, SegNo, SitEntry, Summary, Superblock,
    addr, bits, clear, dentry_hash, footer, nat_journal, put, put_nat_journal, put_sit_journal,
    set_addr, set_footer, sit_journal,
};
use std::collections::BTreeMap;
use std::convert::Infallible;
use varve_f2fs::check::{Kind, Options, Report, Severity, check};
use varve_f2fs::mkfs;

const SIZE: u64 = 64 << 20;
const JOURNAL: usize = 507;
/// First block of the hot node log: the root, then `lost+found`.
const ROOT: u64 = 4096;
const LOST_FOUND: u64 = 4097;
/// First block of the hot data log: the entries of the two.
const ROOT_ENTRIES: u64 = 5632;
/// The first pack: checkpoint, compact summaries, node summaries, checkpoint.
const PACK: u64 = 512;

/// A volume with `lost+found`, in memory.
struct Volume {
    blocks: BTreeMap<u64, Vec<u8>>,
    features: Features,
    geo: Geometry,
}

impl Volume {
    fn new(more: Features) -> Volume {
        let features = Features::LOST_FOUND | more;
        let options = mkfs::Options {
            features,
            ..options_of(SIZE)
        };
        let plan = mkfs::plan(&options).expect("a volume");
        let blocks: BTreeMap<u64, Vec<u8>> = plan
            .blocks()
            .iter()
            .map(|(n, b)| (n.0, b.to_vec()))
            .collect();
        let sb = Superblock::in_block(&blocks[&0]).expect("sound");
        let geo = Geometry::new(&sb, SIZE / BLOCK_BYTES as u64).expect("sound");
        Volume {
            blocks,
            features,
            geo,
        }
    }
    fn block(&mut self, n: u64) -> &mut Vec<u8> {
        self.blocks.entry(n).or_insert_with(|| vec![0; BLOCK_BYTES])
    }
    /// Changes the checkpoint, and writes it to both ends of its pack.
    fn checkpoint(&mut self, change: impl FnOnce(&mut Checkpoint)) {
        let mut cp = Checkpoint::parse(self.block(PACK), 0).expect("sound");
        change(&mut cp);
        cp.update_checksum();
        *self.block(PACK) = cp.block().to_vec();
        *self.block(PACK + u64::from(cp.pack_blocks()) - 1) = cp.block().to_vec();
    }
    fn inode(&mut self, block: u64, change: impl FnOnce(&mut InodeFields)) {
        let features = self.features;
        let mut fields = InodeFields::parse(self.block(block), features).expect("sound");
        change(&mut fields);
        fields.encode_into(self.block(block), features);
    }
    fn nat(&mut self, change: impl FnOnce(&mut Vec<(Nid, NatEntry)>)) {
        let journal = &mut self.block(PACK + 1)[..JOURNAL];
        let mut entries: Vec<_> = nat_journal(journal).collect();
        change(&mut entries);
        put_nat_journal(journal, &entries);
    }
    fn sit(&mut self, seg: u32, change: impl FnOnce(&mut SitEntry)) {
        let journal = &mut self.block(PACK + 1)[JOURNAL..2 * JOURNAL];
        let mut entries: Vec<_> = sit_journal(journal).collect();
        let entry = entries
            .iter_mut()
            .find(|(s, _)| *s == SegNo(seg))
            .expect("a log's segment");
        change(&mut entry.1);
        put_sit_journal(journal, &entries);
    }
    /// Writes an entry into the root directory.
    fn entry(&mut self, name: &[u8], ino: u32, kind: FileType) {
        let entry = Dentry {
            hash: dentry_hash(name),
            ino: Nid(ino),
            kind,
            name,
        };
        put(self.block(ROOT_ENTRIES), &DentryLayout::BLOCK, 8, &entry);
    }
    fn check(&self) -> Report {
        let zeros = Bytes::from(vec![0; BLOCK_BYTES]);
        let read = |n: BlockNo| {
            let block = self.blocks.get(&n.0).map(|b| Bytes::copy_from_slice(b));
            Ok::<_, Infallible>(block.unwrap_or_else(|| zeros.clone()))
        };
        check(&read, &Options::new(SIZE / BLOCK_BYTES as u64))
    }
}

/// The kinds that are found after a change.
fn kinds(change: impl FnOnce(&mut Volume)) -> Vec<Kind> {
    let mut volume = Volume::new(Features::NONE);
    assert_eq!(volume.check().findings, [], "a new volume is clean");
    change(&mut volume);
    volume.check().findings.iter().map(|f| f.kind).collect()
}

#[test]
fn superblocks_and_packs() {
    // Another UUID, and what a mount changes in one copy after the other.
    assert_eq!(
        kinds(|v| v.block(1)[1024 + 108] ^= 1),
        [Kind::SuperblockOther]
    );
    assert_eq!(
        kinds(|v| v.block(1)[1024 + 1668] ^= 1),
        [Kind::SuperblockDiffers]
    );
    assert_eq!(kinds(|v| v.block(1)[1024] ^= 1), [Kind::SuperblockCopy]);
    assert_eq!(kinds(|v| v.block(0)[1024] ^= 1), [Kind::SuperblockCopy]);
    let none = |v: &mut Volume| (0..2).for_each(|n| v.block(n)[1024] ^= 1);
    assert_eq!(kinds(none), [Kind::Superblock]);
    let none = |v: &mut Volume| [PACK, PACK + 512].iter().for_each(|&n| v.block(n)[9] ^= 1);
    assert_eq!(kinds(none), [Kind::Checkpoint]);
    let mark = |v: &mut Volume| v.checkpoint(|cp| cp.set_flags(cp.flags() | CpFlags::FSCK));
    // The NAT bits belong to the checkpoint without the mark, so they are not used.
    assert_eq!(kinds(mark), [Kind::NeedsFsck]);
    assert_eq!(Kind::NeedsFsck.severity(), Severity::Notice);
}

/// A damaged newer pack: the older one counts, here one of the same logs whose pack holds no
/// summaries.
#[test]
fn the_other_pack() {
    let mut volume = Volume::new(Features::NONE);
    volume.block(PACK + 5)[0] ^= 1;
    let report = volume.check();
    assert_eq!((report.packs, report.version), ([false, true], 0));
    for n in 1..5 {
        *volume.block(PACK + 512 + n) = volume.blocks[&(PACK + n)].clone();
    }
    assert!(volume.check().is_clean(), "{:?}", volume.check().findings);
}

/// What is found in a volume that the next mount has to recover.
fn waits(volume: &Volume) -> Vec<Kind> {
    let report = volume.check();
    assert!(report.needs_recovery && report.is_clean());
    report.findings.iter().map(|f| f.kind).collect()
}

/// The newest checkpoint says what cannot be: no mount takes the older one, so no check does.
#[test]
fn an_impossible_newest_checkpoint_is_not_passed_over() {
    type Change = fn(&mut Checkpoint);
    let changes: [Change; 3] = [
        |cp| cp.set_free_segments(u32::MAX),
        |cp| cp.set_cur_blkoff(Log::WarmData, 512),
        |cp| cp.set_valid_inode_count(1 << 30),
    ];
    for change in changes {
        let mut volume = Volume::new(Features::NONE);
        for n in 0..6 {
            *volume.block(PACK + 512 + n) = volume.blocks[&(PACK + n)].clone();
        }
        // It wraps, and is the later one all the same.
        volume.checkpoint(|cp| cp.set_version(u64::MAX));
        let other = PACK + 512;
        let mut cp = Checkpoint::parse(volume.block(other), 0).expect("sound");
        cp.set_version(0);
        change(&mut cp);
        cp.update_checksum();
        for n in [other, other + u64::from(cp.pack_blocks()) - 1] {
            *volume.block(n) = cp.block().to_vec();
        }
        let report = volume.check();
        let found: Vec<Kind> = report.findings.iter().map(|f| f.kind).collect();
        assert_eq!((found, report.version), (vec![Kind::CheckpointField], 0));
    }
}

#[test]
fn what_a_mount_has_left_is_said_and_no_damage() {
    let left = |v: &mut Volume| {
        v.checkpoint(|cp| cp.set_flags(cp.flags().without(CpFlags::UMOUNT) | CpFlags::FASTBOOT));
    };
    assert_eq!(kinds(left), [Kind::NotUnmounted]);
    assert_eq!(Kind::NotUnmounted.severity(), Severity::Notice);
}

#[test]
fn journals_and_bits() {
    assert_eq!(kinds(|v| v.block(PACK + 1)[1] = 1)[0], Kind::Journal);
    let outside = NatEntry {
        version: 0,
        ino: Nid(9),
        addr: BlockAddr(4099),
    };
    assert_eq!(
        kinds(|v| v.nat(|n| n.push((Nid(u32::MAX), outside)))),
        [Kind::Journal]
    );
    let beyond = |v: &mut Volume| {
        let journal = &mut v.block(PACK + 1)[JOURNAL..2 * JOURNAL];
        let mut entries: Vec<_> = sit_journal(journal).collect();
        entries[1].0 = SegNo(24);
        put_sit_journal(journal, &entries);
    };
    assert_eq!(kinds(beyond), [Kind::Journal, Kind::LogPosition]);
    assert_eq!(kinds(|v| bits_of(v, 8 + 64)), [Kind::NatBits]);
    assert_eq!(kinds(|v| bits_of(v, 8)), [Kind::NatBits]);
}

/// Sets the bit of the first NAT block in the full (8) or the empty (8 + 64) ones.
fn bits_of(v: &mut Volume, at: usize) {
    v.block(PACK + 511)[at] |= 1;
}

#[test]
fn nodes() {
    assert_eq!(kinds(|v| v.nat(|n| n[0].1.ino = Nid(9))), [Kind::NatOwner]);
    let found = kinds(|v| v.nat(|n| n[1].1.addr = BlockAddr(9)));
    assert_eq!(found[..2], [Kind::NatEntry, Kind::DirTarget]);
    let found = kinds(|v| v.nat(|n| n[1].1.addr = BlockAddr::NULL));
    assert_eq!(found[..2], [Kind::NodeMissing, Kind::DirTarget]);
    let found = kinds(|v| v.nat(|n| n[1].1.addr = n[0].1.addr));
    assert_eq!(found[0], Kind::SharedBlock);
    let other = |v: &mut Volume| change_footer(v, |f| f.nid = Nid(5));
    assert_eq!(kinds(other)[..2], [Kind::NodeFooter, Kind::DirTarget]);
    let place = |v: &mut Volume| change_footer(v, |f| f.set_ofs_of_node(3));
    assert_eq!(kinds(place), [Kind::NodePlace]);
    let lost = NatEntry {
        version: 0,
        ino: Nid(9),
        addr: BlockAddr(4099),
    };
    assert_eq!(
        kinds(|v| v.nat(|n| n.push((Nid(9), lost)))),
        [Kind::NodeLost]
    );
    let zero = |v: &mut Volume| v.block(2560)[0] = 1;
    assert_eq!(kinds(zero), [Kind::NatEntry]);
    let meta = |v: &mut Volume| NatEntry::default().put(v.block(2560), 2);
    assert_eq!(kinds(meta), [Kind::NatEntry]);
    let twice = |v: &mut Volume| v.inode(ROOT, |f| f.nids[0] = Nid(3));
    assert_eq!(kinds(twice), [Kind::NodeShared]);
    assert_eq!(
        kinds(|v| v.inode(ROOT, |f| f.nids[4] = Nid(u32::MAX))),
        [Kind::NodeMissing]
    );
}

fn change_footer(v: &mut Volume, change: impl FnOnce(&mut ondisk::f2fs::Footer)) {
    let block = v.block(LOST_FOUND);
    let mut f = footer(block);
    change(&mut f);
    set_footer(block, &f);
}

#[test]
fn inodes() {
    assert_eq!(
        kinds(|v| v.inode(LOST_FOUND, |f| f.links = 3)),
        [Kind::LinkCount]
    );
    assert_eq!(
        kinds(|v| v.inode(LOST_FOUND, |f| f.blocks = 3)),
        [Kind::InodeBlocks]
    );
    assert_eq!(
        kinds(|v| v.inode(LOST_FOUND, |f| f.size = u64::MAX)),
        [Kind::InodeSize, Kind::InodeSize]
    );
    assert_eq!(
        kinds(|v| v.inode(LOST_FOUND, |f| f.size = 4095)),
        [Kind::InodeSize, Kind::InodeSize]
    );
    assert_eq!(
        kinds(|v| v.inode(LOST_FOUND, |f| f.current_depth = 64)),
        [Kind::InodeField]
    );
    let extent = Extent {
        fofs: 0,
        addr: BlockAddr(5632),
        len: 1,
    };
    assert_eq!(
        kinds(|v| v.inode(LOST_FOUND, |f| f.ext = extent)),
        [Kind::Extent]
    );
    assert_eq!(kinds(|v| v.inode(ROOT, |f| f.ext = extent)), []);
    // What has no addresses has no run of blocks.
    let inline = kinds(|v| {
        v.inode(LOST_FOUND, |f| {
            (f.mode, f.inline, f.ext) = (0x81A4, Inline::DATA, extent);
        });
    });
    assert!(inline.contains(&Kind::Extent), "{inline:?}");
    let inline = kinds(|v| v.inode(LOST_FOUND, |f| f.inline = Inline::DENTRY));
    assert!(inline.contains(&Kind::Inline), "{inline:?}");
    let mode = kinds(|v| v.inode(LOST_FOUND, |f| f.mode = 0x1FF));
    assert!(
        mode.contains(&Kind::InodeField) && mode.contains(&Kind::DirType),
        "{mode:?}"
    );
    let data = kinds(|v| v.inode(LOST_FOUND, |f| f.inline = Inline::DATA));
    assert!(data.contains(&Kind::InodeField), "{data:?}");
    let mut sums = Volume::new(Features::EXTRA_ATTR | Features::INODE_CHKSUM);
    assert!(sums.check().is_clean());
    sums.block(LOST_FOUND)[0x20] ^= 1;
    assert_eq!(sums.check().findings[0].kind, Kind::InodeChecksum);
}

#[test]
fn blocks_of_files() {
    let address = |to: u32| {
        move |v: &mut Volume| {
            let slot = 0x168 / 4;
            assert_eq!(addr(v.block(LOST_FOUND), slot), BlockAddr(5633));
            set_addr(v.block(LOST_FOUND), slot, BlockAddr(to));
        }
    };
    assert_eq!(kinds(address(4095))[0], Kind::AddressOutside);
    assert_eq!(kinds(address(5632))[0], Kind::SharedBlock);
    let moved = kinds(address(5634));
    assert!(
        moved.contains(&Kind::SummaryOwner) && moved.contains(&Kind::UsedMarkedFree),
        "{moved:?}"
    );
    assert!(
        moved.contains(&Kind::LostBlocks) && moved.contains(&Kind::DirDots),
        "{moved:?}"
    );
    // COMPRESS is no address on a volume without compression.
    assert_eq!(kinds(address(u32::MAX - 1))[0], Kind::AddressOutside);
    // A reserved block without a place counts.
    assert_eq!(kinds(address(u32::MAX)), [Kind::DirDots, Kind::LostBlocks]);
    let node = |v: &mut Volume| v.nat(|n| n[1].1.addr = BlockAddr(5634));
    assert!(kinds(node).contains(&Kind::SummaryKind));
    let owner = |v: &mut Volume| {
        v.block(PACK + 1)[2 * JOURNAL..][..7].copy_from_slice(&Summary::default().encode())
    };
    assert_eq!(kinds(owner), [Kind::SummaryOwner]);
}

#[test]
fn directories() {
    let root = |change: fn(&mut Vec<u8>)| kinds(move |v| change(v.block(ROOT_ENTRIES)));
    assert_eq!(root(|b| b[30 + 2 * 11] ^= 1), [Kind::DirHash]);
    assert_eq!(root(|b| b[30 + 2 * 11 + 8] = 0)[0], Kind::DirBlock);
    assert_eq!(root(|b| b[30 + 11 + 4] = 4), [Kind::DirDots]);
    assert_eq!(
        root(|b| {
            clear(b, &DentryLayout::BLOCK, 1);
        }),
        [Kind::DirDots]
    );
    assert_eq!(root(|b| b[30 + 2 * 11 + 10] = 1), [Kind::DirType]);
    let names = kinds(|v| v.entry(b"a/b", 4, FileType::Directory));
    assert_eq!(names[..2], [Kind::DirName, Kind::DirParents]);
    let twice = kinds(|v| v.entry(b"lost+found", 4, FileType::Directory));
    assert_eq!(twice[..2], [Kind::DirDuplicate, Kind::DirParents]);
    assert_eq!(
        kinds(|v| v.entry(b"x", 77, FileType::Regular)),
        [Kind::NodeMissing, Kind::DirTarget]
    );
    assert_eq!(
        kinds(|v| v.entry(b"x", 1, FileType::Regular)),
        [Kind::DirTarget]
    );
    assert_eq!(
        kinds(|v| v.inode(ROOT, |f| f.current_depth = 0)),
        [Kind::DirPlace; 4][..3]
    );
    assert!(kinds(|v| v.nat(|n| n[0].1.addr = BlockAddr::NULL)).contains(&Kind::Root));
}

#[test]
fn segments_and_counts() {
    let valid = kinds(|v| v.sit(0, |e| e.valid = 3));
    assert_eq!(valid, [Kind::SitEntry]);
    assert_eq!(kinds(|v| v.sit(0, |e| e.kind = 6))[0], Kind::SitEntry);
    assert_eq!(
        kinds(|v| v.sit(0, |e| e.kind = 0)),
        [Kind::SegmentKind, Kind::LogPosition]
    );
    let free = |v: &mut Volume| {
        v.sit(0, |e| {
            bits::clear_bit(&mut e.map, 1);
            e.valid = 1;
        });
    };
    assert_eq!(kinds(free), [Kind::UsedMarkedFree]);
    let lost = |v: &mut Volume| {
        v.sit(0, |e| {
            bits::set_bit(&mut e.map, 9);
            e.valid = 3;
        });
    };
    assert_eq!(kinds(lost), [Kind::LostBlocks, Kind::LogPosition]);
    assert_eq!(
        kinds(|v| v.checkpoint(|cp| cp.set_cur_blkoff(Log::HotNode, 1))),
        [Kind::LogPosition]
    );
    assert_eq!(
        kinds(|v| v.checkpoint(|cp| cp.set_valid_block_count(5))),
        [Kind::ValidBlocks]
    );
    assert_eq!(
        kinds(|v| v.checkpoint(|cp| cp.set_valid_node_count(3))),
        [Kind::ValidNodes]
    );
    assert_eq!(
        kinds(|v| v.checkpoint(|cp| cp.set_valid_inode_count(1))),
        [Kind::ValidInodes]
    );
    assert_eq!(
        kinds(|v| v.checkpoint(|cp| cp.set_free_segments(17))),
        [Kind::FreeSegments]
    );
}

/// A checkpoint that is not of an unmount has no node summaries; what was written since is not
/// looked at.
#[test]
fn roll_forward_is_pending() {
    let mut volume = Volume::new(Features::NONE);
    volume.checkpoint(|cp| {
        cp.set_flags(CpFlags::COMPACT_SUM | CpFlags::CRC_RECOVERY);
        cp.set_pack_blocks(3);
    });
    let mut node = volume.blocks[&LOST_FOUND].clone();
    let mut f = footer(&node);
    f.flags |= ondisk::f2fs::NODE_FSYNC;
    set_footer(&mut node, &f);
    let warm = u64::from(volume.geo.seg_start(SegNo(1)));
    *volume.block(warm) = node;
    assert_eq!(waits(&volume), [Kind::NotUnmounted]);
}

#[test]
fn orphans() {
    let mut volume = Volume::new(Features::NONE);
    // lost+found becomes an orphan: no name, no links.
    clear(volume.block(ROOT_ENTRIES), &DentryLayout::BLOCK, 2);
    volume.inode(ROOT, |f| f.links = 2);
    volume.inode(LOST_FOUND, |f| f.links = 0);
    let lost: Vec<Kind> = volume.check().findings.iter().map(|f| f.kind).collect();
    assert!(lost.contains(&Kind::NodeLost), "{lost:?}");
    let listed = |volume: &mut Volume, inos: Vec<Nid>| {
        let compact = volume.blocks[&(PACK + 1)].clone();
        OrphanBlock {
            inos,
            index: 1,
            count: 1,
        }
        .encode(volume.block(PACK + 1));
        *volume.block(PACK + 2) = compact;
        volume.checkpoint(|cp| {
            cp.set_flags(CpFlags::COMPACT_SUM | CpFlags::ORPHAN_PRESENT);
            cp.set_pack_start_sum(2);
            cp.set_pack_blocks(4);
        });
    };
    listed(&mut volume, vec![Nid(4)]);
    assert_eq!(waits(&volume), [Kind::NotUnmounted]);
    // Listed, and it has a name.
    let mut named = Volume::new(Features::NONE);
    listed(&mut named, vec![Nid(4)]);
    let found: Vec<Kind> = named.check().findings.iter().map(|f| f.kind).collect();
    assert!(found.contains(&Kind::Orphans), "{found:?}");
    volume.block(PACK + 1)[4088..4092].fill(0xFF);
    assert_eq!(volume.check().findings[0].kind, Kind::Orphans);
}

/// Blocks that cannot be read, and more findings than asked for.
#[test]
fn unreadable_blocks_and_the_limit() {
    let volume = Volume::new(Features::NONE);
    let read = |n: BlockNo| match volume.blocks.get(&n.0) {
        Some(block) if n.0 != ROOT => Ok(Bytes::copy_from_slice(block)),
        _ if n.0 == ROOT => Err("medium error".to_string()),
        _ => Ok(Bytes::from(vec![0; BLOCK_BYTES])),
    };
    let report = check(&read, &Options::new(SIZE / BLOCK_BYTES as u64));
    let text = report.findings[0].to_string();
    assert_eq!(text, "F901 unreadable (block 4096): medium error");
    let few = check(
        &read,
        &Options {
            limit: 1,
            ..Options::new(SIZE / BLOCK_BYTES as u64)
        },
    );
    assert_eq!(
        (few.findings.len() as u64 + few.beyond, few.is_clean()),
        (report.findings.len() as u64, false)
    );
    let short = check(&read, &Options::new(5000));
    assert_eq!(short.findings[0].kind, Kind::Superblock);
}
