//! Checks the totals after everything has been followed: link counts, SIT, NAT, logs, and the
//! counts in the checkpoint.

use super::finding::{Finding, Kind};
use super::state::{File, State};
use super::usage::Reached;
use base::Bytes;
use base::bytes::is_zero;
use ondisk::f2fs::{
    AllocType, BLOCKS_PER_SEG, BlockAddr, CpFlags, Log, NAT_PER_BLOCK, NatBits, NatEntry, Nid,
    SIT_PER_BLOCK, SegNo, SitEntry, VALID_MAP_BYTES, bits,
};

/// Where node and metadata inode are said to lie.
const NOWHERE: BlockAddr = BlockAddr(1);

/// Checks all of it.
pub(super) fn check(state: &mut State<'_>) {
    links(state);
    let segments = segments(state);
    nat(state);
    counts(state, &segments);
}

fn links(state: &mut State<'_>) {
    let mut inos: Vec<u32> = state.files.keys().copied().collect();
    inos.sort_unstable();
    let hidden = state.volume.sb.quota_inos();
    for ino in inos.into_iter().map(Nid) {
        let file = state.files[&ino.0];
        let names = expected_links(&file, hidden.contains(&ino));
        if u64::from(file.links) != names {
            let what = format!("{} links are noted, {names} found", file.links);
            state.found.at_inode(ino, Kind::LinkCount, what);
        }
    }
}

fn expected_links(file: &File, hidden: bool) -> u64 {
    match (file.orphan, file.is_dir()) {
        (true, _) => file.names.into(),
        (false, true) => 2 + u64::from(file.subdirs),
        (false, false) => u64::from(file.names) + u64::from(hidden),
    }
}

/// Sums over the SIT.
#[derive(Default)]
struct Segments {
    free: u64,
}

fn segments(state: &mut State<'_>) -> Segments {
    let mut sums = Segments::default();
    let main = state.volume.geo.segments_main;
    for block in 0..state.volume.geo.sit_blocks_used() {
        let bytes = state.tables.sit_block(block, state.found);
        let first = block * SIT_PER_BLOCK as u32;
        for index in 0..(SIT_PER_BLOCK as u32).min(main - first) {
            let seg = SegNo(first + index);
            let entry = match (state.tables.journaled_sit(seg), &bytes) {
                (Some(entry), _) => *entry,
                (None, Some(bytes)) => SitEntry::parse(bytes, index as usize),
                (None, None) => continue,
            };
            let covered = state.tables.journaled_sit(seg).is_some();
            if let Some(bytes) = bytes.as_ref().filter(|_| covered) {
                // Linux reads the table first, and refuses what cannot be there, too.
                entry_itself(state, seg, &SitEntry::parse(bytes, index as usize));
            }
            segment(state, seg, &entry);
            sums.free += u64::from(entry.valid == 0 && state.tables.log_of(seg).is_none());
        }
    }
    for &log in state.volume.geo.logs() {
        log_position(state, log);
    }
    sums
}

/// What an entry says, looked at by itself; its log, if there is one of that number.
fn entry_itself(state: &mut State<'_>, seg: SegNo, entry: &SitEntry) -> Option<Log> {
    let mut add = |kind, what: String| state.found.at_segment(seg, kind, what);
    if u32::from(entry.valid) > BLOCKS_PER_SEG || entry.valid != entry.count() {
        let what = format!(
            "{} valid blocks are noted, {} marked",
            entry.valid,
            entry.count()
        );
        add(Kind::SitEntry, what);
    }
    let log = Log::from_index(entry.kind.into());
    if log.is_none() {
        add(Kind::SitEntry, format!("log {} does not exist", entry.kind));
    }
    log
}

fn segment(state: &mut State<'_>, seg: SegNo, entry: &SitEntry) {
    let Some(log) = entry_itself(state, seg, entry) else {
        return;
    };
    let reached = state.reached.get(&seg.0).copied();
    let mut add = |kind, what: String| state.found.at_segment(seg, kind, what);
    let blank = [0; VALID_MAP_BYTES];
    let map = reached.map_or(blank, |r| r.map);
    if map != entry.map {
        let only = |a: &[u8], b: &[u8]| {
            let bits: Vec<u8> = a.iter().zip(b).map(|(a, b)| a & !b).collect();
            (0..BLOCKS_PER_SEG)
                .filter(|&n| bits::test_bit(&bits, n as usize))
                .collect::<Vec<u32>>()
        };
        let (used, lost) = (only(&map, &entry.map), only(&entry.map, &map));
        if let Some(first) = used.first() {
            add(
                Kind::UsedMarkedFree,
                format!("{} blocks, the first is number {first}", used.len()),
            );
        }
        if let Some(first) = lost.first() {
            add(
                Kind::LostBlocks,
                format!("{} blocks, the first is number {first}", lost.len()),
            );
        }
    }
    let other = |r: Reached| r.data && log.is_node() || r.nodes && !log.is_node();
    if reached.is_some_and(other) {
        let what = format!("is one of the {log} log and holds blocks of the other kind");
        add(Kind::SegmentKind, what);
    }
}

/// The segment of a log is of its kind, and free where the log goes on.
fn log_position(state: &mut State<'_>, log: Log) {
    let cp = &state.volume.pack.cp;
    let (seg, next) = (cp.cur_segno(log), u32::from(cp.cur_blkoff(log)));
    let (block, index) = state.volume.geo.sit_block(seg);
    let entry = match state.tables.journaled_sit(seg).copied() {
        Some(entry) => entry,
        None => match state.tables.sit_block(block, state.found) {
            Some(bytes) => SitEntry::parse(&bytes, index),
            None => return,
        },
    };
    let mut add = |what: String| state.found.at_segment(seg, Kind::LogPosition, what);
    if usize::from(entry.kind) != log.index() {
        add(format!(
            "the {log} log writes into a segment of log {}",
            entry.kind
        ));
    }
    let taken = match cp.alloc_type(log) {
        AllocType::Lfs => (next..BLOCKS_PER_SEG).find(|&n| entry.is_valid(n)),
        AllocType::Ssr => entry.is_valid(next).then_some(next),
    };
    if let Some(n) = taken {
        add(format!(
            "the {log} log goes on at block {next}, block {n} is valid"
        ));
    }
}

/// Says whether blocks are zero; a reader that gives the same bytes for every empty block is asked
/// once.
#[derive(Default)]
struct Zeros(Option<Bytes>);

impl Zeros {
    fn are(&mut self, bytes: &Bytes) -> bool {
        let same = |known: &Bytes| known.as_ptr() == bytes.as_ptr() && known.len() == bytes.len();
        if self.0.as_ref().is_some_and(same) {
            return true;
        }
        let zero = is_zero(bytes);
        if zero {
            self.0 = Some(bytes.clone());
        }
        zero
    }
}

/// Every node of the NAT was reached.
fn nat(state: &mut State<'_>) {
    let bits = nat_bits(state);
    let mut zeros = Zeros::default();
    for block in 0..state.volume.geo.nat_blocks {
        let Some(bytes) = state.tables.nat_block(block, state.found) else {
            continue;
        };
        let zero = zeros.are(&bytes);
        if let Some(bits) = &bits {
            compare_bits(state, bits, block, &bytes, zero);
        }
        if !zero {
            for index in 0..NAT_PER_BLOCK {
                let nid = Nid(block * NAT_PER_BLOCK as u32 + index as u32);
                let entry = NatEntry::get(&bytes, index);
                if entry != NatEntry::default() && state.tables.journaled_nat(nid).is_none() {
                    nat_entry(state, nid, entry);
                }
            }
        }
    }
    let journal: Vec<(Nid, NatEntry)> = state.volume.pack.nat.clone();
    for (nid, _) in journal {
        if let Some(entry) = state.tables.journaled_nat(nid) {
            nat_entry(state, nid, entry);
        }
    }
    fixed_nids(state);
}

/// The nodes of the metadata areas are there; an empty entry was not looked at above.
fn fixed_nids(state: &mut State<'_>) {
    for nid in [state.volume.geo.node_ino, state.volume.geo.meta_ino] {
        let entry = state.tables.nat(nid, state.found);
        if entry == NatEntry::default() {
            nat_entry(state, nid, entry);
        }
    }
}

fn nat_entry(state: &mut State<'_>, nid: Nid, entry: NatEntry) {
    let geo = &state.volume.geo;
    let mut add = |kind, what: String| state.found.add(Finding::new(kind, what).nid(nid));
    if nid == Nid(0) {
        if entry != NatEntry::default() {
            add(Kind::NatEntry, "nid 0 is no node".to_string());
        }
        return;
    }
    if nid == geo.node_ino || nid == geo.meta_ino {
        if entry.addr != NOWHERE || entry.ino != nid {
            let what = format!(
                "inode {} at {}, it must be itself at 1",
                entry.ino, entry.addr
            );
            add(Kind::NatEntry, what);
        }
        return;
    }
    if entry.addr != BlockAddr::NULL && !state.seen_nodes.contains(&nid.0) {
        add(
            Kind::NodeLost,
            format!("of inode {}, at {}", entry.ino, entry.addr),
        );
    }
}

/// The NAT bits, if the checkpoint says that they are valid and they are of this checkpoint.
fn nat_bits(state: &mut State<'_>) -> Option<NatBits> {
    let (pack, geo) = (&state.volume.pack, &state.volume.geo);
    if !pack.cp.flags().has(CpFlags::NAT_BITS) {
        return None;
    }
    let offset = NatBits::offset(geo, pack.cp.pack_blocks())?;
    let mut bytes = Vec::new();
    for n in 0..NatBits::blocks(geo) {
        let at = BlockAddr(pack.start.0 + offset + n);
        bytes.extend_from_slice(&state.volume.reader.block(at, state.found)?);
    }
    // Bits of another checkpoint are not used by anyone.
    NatBits::parse(&bytes, geo, &pack.cp).ok()
}

fn compare_bits(state: &mut State<'_>, bits: &NatBits, block: u32, bytes: &Bytes, zero: bool) {
    let (full, empty) = (
        bits::test_bit_le(&bits.full, block as usize),
        bits::test_bit_le(&bits.empty, block as usize),
    );
    if !full && !empty {
        return;
    }
    let used = |index: usize| NatEntry::get(bytes, index).addr != BlockAddr::NULL;
    let first = usize::from(block == 0);
    let wrong = (empty && !zero && (first..NAT_PER_BLOCK).any(used))
        || (full && !(first..NAT_PER_BLOCK).all(used));
    if wrong {
        let what = format!(
            "NAT block {block} is said to be {}",
            if full { "full" } else { "empty" }
        );
        let at = state.tables.nat_addr(block);
        state.found.at_block(at, Kind::NatBits, what);
    }
}

fn counts(state: &mut State<'_>, segments: &Segments) {
    let cp = &state.volume.pack.cp;
    let pairs = [
        (
            Kind::ValidBlocks,
            "valid blocks",
            cp.valid_block_count(),
            state.blocks,
        ),
        (
            Kind::ValidNodes,
            "nodes",
            cp.valid_node_count().into(),
            state.nodes,
        ),
        (
            Kind::ValidInodes,
            "inodes",
            cp.valid_inode_count().into(),
            state.inodes,
        ),
        (
            Kind::FreeSegments,
            "free segments",
            cp.free_segments().into(),
            segments.free,
        ),
    ];
    for (kind, what, noted, counted) in pairs {
        if noted != counted {
            let what = format!("{noted} {what} are noted, {counted} counted");
            state.found.at_block(state.volume.pack.start, kind, what);
        }
    }
}
