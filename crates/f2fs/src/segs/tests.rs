//! Tests allocation, checkpoints and hostile tables against a simple model.

use super::*;
use block::{Class, Queue};
use blockdev::Ram;
use fscore::Errno;
use fscore::FsResult;
use ondisk::f2fs::Summary;
use ondisk::f2fs::{
    BLOCKS_PER_SEG, Checkpoint, CpFlags, Nid, SIT_ENTRY_BYTES, SIT_PER_BLOCK, SitEntry,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const SEGMENTS: u32 = 36;
const RESERVED: u32 = 6;

pub(crate) fn geometry(segs_per_sec: u32) -> Geometry {
    let seg = |n: u32| BlockAddr(512 + n * BLOCKS_PER_SEG);
    Geometry {
        block_count: 512 + (7 + u64::from(SEGMENTS)) * 512,
        segment0: seg(0),
        cp: seg(0),
        sit: seg(2),
        nat: seg(4),
        ssa: seg(6),
        main: seg(7),
        segments_cp: 2,
        segments_sit: 2,
        segments_nat: 2,
        segments_ssa: 1,
        segments_main: SEGMENTS,
        segments: 7 + SEGMENTS,
        sections: SEGMENTS / segs_per_sec,
        segs_per_sec,
        secs_per_zone: 1,
        cp_payload: 0,
        root: Nid(3),
        node_ino: Nid(1),
        meta_ino: Nid(2),
        max_nid: 512 * 455,
        nat_blocks: 512,
        sit_blocks: 512,
    }
}

/// A pack, as far as segments care.
#[derive(Clone)]
struct Pack {
    cp: Checkpoint,
    sit_journal: Vec<(SegNo, SitEntry)>,
    logs: Vec<OpenLog>,
}

impl Pack {
    fn empty(geo: &Geometry) -> Pack {
        let logs = Log::ALL.into_iter().map(|log| OpenLog {
            log,
            segno: SegNo(log as u32 * geo.segs_per_sec),
            next: 0,
            alloc: AllocType::Lfs,
            owners: SummaryBlock::blank(kind_of(log)),
        });
        let mut cp = Checkpoint::blank(0);
        cp.set_flags(CpFlags::CRC_RECOVERY);
        cp.set_sit_bitmap_bytes(64);
        cp.set_nat_bitmap_bytes(64);
        cp.set_reserved_segments(RESERVED);
        Pack {
            cp,
            sit_journal: Vec::new(),
            logs: logs.collect(),
        }
    }

    fn load(&self, queue: &Arc<Queue>, geo: &Geometry) -> FsResult<Segments> {
        let from = SegsOnDisk {
            cp: &self.cp,
            sit_journal: self.sit_journal.clone(),
            logs: self.logs.clone(),
        };
        Segments::load(queue, geo, &Default::default(), from)
    }
}

/// What the rules of this module say, in sets.
struct World {
    geo: Geometry,
    queue: Arc<Queue>,
    segs: Segments,
    pack: Pack,
    owners: BTreeMap<BlockAddr, Summary>,
    /// Valid at any moment since the checkpoint.
    held: BTreeSet<BlockAddr>,
    at_checkpoint: BTreeMap<BlockAddr, Summary>,
    serial: u32,
    rng: u64,
    holes_filled: u32,
}

impl World {
    fn new(segs_per_sec: u32, seed: u64) -> World {
        let geo = geometry(segs_per_sec);
        let queue = Queue::new(Arc::new(Ram::new(geo.block_count * 4096)));
        let pack = Pack::empty(&geo);
        let segs = pack.load(&queue, &geo).expect("an empty volume");
        World {
            geo,
            queue,
            segs,
            pack,
            owners: BTreeMap::new(),
            held: BTreeSet::new(),
            at_checkpoint: BTreeMap::new(),
            serial: 0,
            rng: seed | 1,
            holes_filled: 0,
        }
    }

    fn random(&mut self, n: u64) -> u64 {
        self.rng ^= self.rng << 13;
        self.rng ^= self.rng >> 7;
        self.rng ^= self.rng << 17;
        self.rng % n
    }

    /// A random valid block.
    fn victim(&mut self, nodes: Option<bool>) -> Option<BlockAddr> {
        let from = self.geo.main.0 + self.random(self.geo.main_blocks().into()) as u32;
        let fits = |(addr, owner): (&BlockAddr, &Summary)| {
            let fits = nodes.is_none_or(|nodes| nodes == (owner.version == 1));
            fits.then_some(*addr)
        };
        let behind = self.owners.range(BlockAddr(from)..).find_map(fits);
        behind.or_else(|| self.owners.iter().find_map(fits))
    }

    /// False if there is no room.
    fn allocate(&mut self, log: Log, replace: bool) -> bool {
        let old = match replace {
            true => self.victim(Some(log.is_node())).unwrap_or(BlockAddr::NULL),
            false => BlockAddr::NEW,
        };
        self.serial += 1;
        let owner = Summary {
            nid: Nid(self.serial),
            version: u8::from(log.is_node()),
            ofs_in_node: self.serial as u16 % 923,
        };
        let expected = self.segs.next_of(log);
        match self.segs.allocate(log, old, owner) {
            Ok(placed) => {
                assert_eq!(placed.addr, expected, "segs-V5");
                assert_eq!(placed.next, self.segs.next_of(log), "segs-V5");
                assert!(self.held.insert(placed.addr), "table-V1: {}", placed.addr);
                self.owners.insert(placed.addr, owner);
                self.owners.remove(&old);
                let open = &self.segs.inner.lock().logs[log.index()];
                self.holes_filled += u32::from(open.alloc == AllocType::Ssr);
                true
            }
            Err(e) => {
                assert_eq!(e.errno(), Errno::NoSpc, "{e}");
                self.assert_full(log);
                false
            }
        }
    }

    /// There is neither a segment to open, nor a hole to fill.
    fn assert_full(&self, log: Log) {
        let inner = self.segs.inner.lock();
        for seg in (0..SEGMENTS).map(SegNo) {
            let blocks = (0..512).map(|i| BlockAddr(self.geo.seg_start(seg).0 + i));
            let held = blocks.clone().filter(|b| self.held.contains(b)).count();
            let owner = blocks.clone().find_map(|b| self.owners.get(&b));
            let open = inner.logs.iter().any(|log| log.segno == seg);
            assert!(open || held > 0, "segment {seg} is free");
            let usable = owner.is_some_and(|o| (o.version == 1) == log.is_node());
            assert!(open || !usable || held == 512, "segment {seg} has holes");
        }
    }

    fn free_some(&mut self, n: u64) {
        for _ in 0..n {
            let Some(addr) = self.victim(None) else {
                return;
            };
            self.segs.invalidate(addr).expect("valid");
            self.owners.remove(&addr);
            assert!(self.segs.invalidate(addr).is_err(), "twice");
            assert!(!self.segs.is_valid(addr).expect("main area"));
        }
    }

    /// Writes what a checkpoint writes; with `whole` the pack as well.
    fn checkpoint(&mut self, whole: bool) {
        let mut plug = self.queue.plug();
        let out = self.segs.flush(&mut plug);
        plug.submit().wait().expect("RAM");
        if !whole {
            return;
        }
        self.segs.check();
        assert_eq!(out.free_segments, self.segs.free() + self.segs.prefree());
        self.pack
            .cp
            .sit_bitmap_mut()
            .copy_from_slice(&out.sit_bitmap);
        let nodes = self.owners.values().filter(|o| o.version == 1).count();
        self.pack.cp.set_valid_node_count(nodes as u32);
        self.pack.cp.set_valid_block_count(self.owners.len() as u64);
        self.pack.sit_journal = out.sit_journal;
        self.pack.logs = out.logs;
        self.segs.committed(true);
        self.held = self.owners.keys().copied().collect();
        self.at_checkpoint = self.owners.clone();
        assert!(!self.segs.is_dirty() && self.segs.prefree() == 0);
    }

    /// The power goes: the last checkpoint counts.
    fn cut(&mut self) {
        self.segs = self.pack.load(&self.queue, &self.geo).expect("sound");
        self.owners = self.at_checkpoint.clone();
        self.held = self.owners.keys().copied().collect();
        self.check();
    }

    fn check(&self) {
        self.segs.check();
        let (data, nodes) = self.segs.inner.lock().table.totals();
        assert_eq!(data + nodes, self.owners.len() as u64);
        for (&addr, owner) in &self.owners {
            assert!(self.segs.is_valid(addr).expect("main area"), "{addr}");
            assert_eq!(
                self.segs.owner_of(addr).expect("RAM"),
                *owner,
                "segs-V6: {addr}"
            );
        }
    }

    fn run(&mut self, fill: u64, steps: u64) {
        let user = u64::from((SEGMENTS - RESERVED - 6) * BLOCKS_PER_SEG) * fill / 100;
        for _ in 0..steps {
            let log = Log::ALL[self.random(6) as usize];
            let n = self.random(600);
            match self.random(24) {
                0 => self.checkpoint(true),
                1 => self.free_some(n),
                2 if self.random(3) == 0 => self.cut(),
                3 if self.random(3) == 0 => {
                    self.checkpoint(false);
                    self.cut();
                }
                _ => {
                    for _ in 0..n {
                        if !self.allocate(log, self.owners.len() as u64 >= user) {
                            break;
                        }
                    }
                }
            }
        }
        self.check();
        self.checkpoint(true);
        self.cut();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn as_the_model_says(seed: u64, fill in 30u64..=100, segs_per_sec in prop::sample::select(vec![1u32, 3])) {
        World::new(segs_per_sec, seed).run(fill, 100);
    }
}

#[test]
fn a_full_volume_fills_holes() {
    let mut world = World::new(1, 7);
    world.run(100, 300);
    assert!(world.holes_filled > 1000, "{}", world.holes_filled);
}

#[test]
fn lfs_leaves_holes_alone() {
    let mut world = World::new(1, 9);
    world.segs.lfs = true;
    for _ in 0..200 {
        let n = world.random(400);
        for _ in 0..n {
            world.segs.set_pressure(99);
            let log = Log::ALL[n as usize % 6];
            let old = world.owners.len() > 5000;
            if world.segs.free() > 1 {
                world.allocate(log, old);
            }
        }
        world.checkpoint(true);
    }
    assert_eq!(world.holes_filled, 0);
    world.check();
}

#[test]
fn without_checkpoints_only_what_the_last_one_knew_is_held() {
    let mut world = World::new(1, 3);
    for _ in 0..700 {
        world.allocate(Log::WarmData, false);
    }
    world.checkpoint(true);
    world.segs.set_checkpoints_off(true);
    let known: BTreeSet<BlockAddr> = world.owners.keys().copied().collect();
    let mut mine = BlockAddr::NULL;
    for _ in 0..3 * world.geo.main_blocks() {
        let placed = world.segs.allocate(Log::WarmData, mine, Summary::default());
        mine = placed.expect("the one before it is free again").addr;
        assert!(
            !known.contains(&mine),
            "table-V1: the last checkpoint knows {mine}"
        );
    }
    world.segs.check();
}

#[test]
fn roll_forward_adopts_and_holds() {
    let mut world = World::new(1, 3);
    for _ in 0..100 {
        world.allocate(Log::WarmData, false);
        world.allocate(Log::WarmNode, false);
    }
    world.checkpoint(true);
    let next = |w: &World, log| w.segs.next_of(log).0;
    let (data, node) = (next(&world, Log::WarmData), next(&world, Log::WarmNode));
    let owner = Summary {
        nid: Nid(77),
        version: 3,
        ofs_in_node: 9,
    };
    let old = *world
        .owners
        .iter()
        .find(|(_, o)| o.version == 0)
        .expect("data")
        .0;
    world.segs.adopt(BlockAddr(data), old, owner).expect("free");
    world
        .segs
        .adopt(BlockAddr(data + 2), BlockAddr::NEW, owner)
        .expect("free");
    assert!(
        world
            .segs
            .adopt(BlockAddr(data + 2), BlockAddr::NEW, owner)
            .is_err(),
        "twice"
    );
    assert!(
        world
            .segs
            .adopt(BlockAddr(node + 5), BlockAddr::NULL, owner)
            .is_err(),
        "among nodes"
    );
    world.segs.hold(BlockAddr(node)).expect("main area");
    world.segs.hold(BlockAddr(node + 1)).expect("main area");
    let elsewhere = world.geo.seg_start(SegNo(20));
    let free = world.segs.free();
    world
        .segs
        .adopt(elsewhere, BlockAddr::NULL, owner)
        .expect("a free segment");
    world
        .segs
        .hold(BlockAddr(elsewhere.0 + 512))
        .expect("a free segment");
    assert_eq!((world.segs.free(), world.segs.prefree()), (free - 2, 1));
    assert!(!world.segs.is_valid(old).expect("main area"));
    world.owners.remove(&old);
    for addr in [data, data + 2, elsewhere.0] {
        world.owners.insert(BlockAddr(addr), owner);
        world.held.insert(BlockAddr(addr));
    }
    assert_eq!(
        (next(&world, Log::WarmData), next(&world, Log::WarmNode)),
        (data + 1, node + 2)
    );
    world.allocate(Log::WarmData, false);
    assert_eq!(
        next(&world, Log::WarmData),
        data + 3,
        "table-V1: over the adopted block"
    );
    world.check();
    world.checkpoint(true);
    world.cut();
    assert_eq!(world.segs.owner_of(elsewhere).expect("RAM"), owner);
    assert_eq!((world.segs.free(), world.segs.prefree()), (free - 1, 0));
}

#[test]
fn held_to_the_end_of_its_segment_a_log_goes_elsewhere() {
    let world = World::new(1, 3);
    let start = world.segs.next_of(Log::WarmNode).0;
    for i in 0..512 {
        world.segs.hold(BlockAddr(start + i)).expect("main area");
    }
    let next = world.segs.next_of(Log::WarmNode);
    assert!(!(start..start + 512).contains(&next.0), "table-V1: {next}");
    world.segs.check();
}

#[test]
fn contradictions_are_named() {
    let geo = geometry(1);
    let ram = Arc::new(Ram::new(geo.block_count * 4096));
    let queue = Queue::new(ram);
    let refused = |pack: &Pack, words: &str| {
        let e = pack.load(&queue, &geo).err().expect(words).to_string();
        assert!(e.contains(words), "{e}");
    };
    let pack = || Pack::empty(&geo);
    let mut two = SitEntry {
        valid: 1,
        kind: 1,
        map: [0; 64],
        mtime: 5,
    };
    two.map[63] = 1;
    let with = |seg: u32, entry: SitEntry| {
        let mut pack = pack();
        pack.cp.set_valid_block_count(1);
        pack.sit_journal.push((SegNo(seg), entry));
        pack
    };
    refused(
        &with(9, SitEntry { valid: 2, ..two }),
        "2 valid blocks, but 1",
    );
    refused(&with(9, SitEntry { kind: 7, ..two }), "no log 7");
    refused(&with(SEGMENTS, two), "segment 36");
    refused(&with(9, SitEntry { kind: 4, ..two }), "1 valid node blocks");
    refused(&with(1, two), "behind its next one");
    refused(&with(2, SitEntry { kind: 3, ..two }), "1 valid node blocks");
    let mut too_many = with(9, two);
    too_many.cp.set_valid_block_count(0);
    refused(&too_many, "1 valid blocks");
    let mut taken = with(1, two);
    taken.logs[1].next = 511;
    refused(&taken, "in use");
    let mut nodes_in_data = with(5, two);
    nodes_in_data.logs[5].alloc = AllocType::Ssr;
    refused(&nodes_in_data, "warm data");
    let mut shared = pack();
    shared.logs[3].segno = SegNo(0);
    refused(&shared, "another log");
    shared.logs[3].segno = SegNo(SEGMENTS);
    refused(&shared, "no such block");
    shared.logs[3] = OpenLog {
        next: 512,
        ..pack().logs[3].clone()
    };
    refused(&shared, "no such block");
    with(9, two).load(&queue, &geo).expect("sound").check();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    /// Hostile bytes in SIT and SSA: an error or a table, never a panic.
    #[test]
    fn hostile_tables(bytes in prop::collection::vec(any::<u8>(), SIT_ENTRY_BYTES), at in 0usize..SIT_PER_BLOCK, ssa in prop::collection::vec(any::<u8>(), 4096), valid: u32) {
        let geo = geometry(1);
        let queue = Queue::new(Arc::new(Ram::new(geo.block_count * 4096)));
        let mut block = vec![0; 4096];
        block[at * SIT_ENTRY_BYTES..][..SIT_ENTRY_BYTES].copy_from_slice(&bytes);
        // So that some get past the first check.
        let mut entry = SitEntry::parse(&block, at);
        if valid % 4 > 0 {
            entry.valid = entry.count();
            entry.kind %= 6;
            entry.encode(&mut block, at);
        }
        let write = |addr: BlockAddr, bytes: Vec<u8>| {
            let lba = base::BlockNo(addr.into()).lba();
            queue.write(lba, Class::Sit, bytes.into()).expect("RAM");
        };
        write(geo.sit, block);
        for seg in 0..SEGMENTS {
            write(geo.ssa_block(SegNo(seg)), ssa.clone());
        }
        let mut pack = Pack::empty(&geo);
        pack.cp.set_valid_block_count(u64::from(valid));
        pack.cp.set_valid_node_count(if entry.kind > 2 { entry.count().into() } else { 0 });
        let Ok(segs) = pack.load(&queue, &geo) else { return Ok(()) };
        segs.check();
        for i in 0..geo.main_blocks() {
            let _ = segs.owner_of(BlockAddr(geo.main.0 + i));
        }
        segs.set_pressure(1000);
        for _ in 0..6000 {
            let _ = segs.allocate(Log::WarmData, BlockAddr::NULL, Summary::default());
        }
        segs.check();
    }
}

#[test]
fn addresses_beyond_the_main_area_are_damage() {
    let world = World::new(1, 1);
    for addr in [
        0,
        1,
        world.geo.main.0 - 1,
        world.geo.main_end().0,
        u32::MAX - 1,
    ] {
        let addr = BlockAddr(addr);
        assert!(world.segs.invalidate(addr).is_err());
        assert!(world.segs.is_valid(addr).is_err());
        assert!(world.segs.owner_of(addr).is_err());
        assert!(world.segs.hold(addr).is_err());
        assert!(
            world
                .segs
                .adopt(addr, BlockAddr::NULL, Summary::default())
                .is_err()
        );
        if addr.is_data() {
            assert!(
                world
                    .segs
                    .allocate(Log::HotData, addr, Summary::default())
                    .is_err()
            );
        }
    }
    let unused = BlockAddr(world.geo.main.0 + 9);
    assert!(
        world
            .segs
            .allocate(Log::HotData, unused, Summary::default())
            .is_err()
    );
    assert_eq!(world.segs.allocated(), 0, "a refused call changes nothing");
    world.segs.check();
}

/// `cargo test --release -p varve-f2fs --lib -- --ignored --nocapture cost_of`: below 200 ns each.
#[test]
#[ignore = "a measurement"]
#[allow(clippy::disallowed_macros)]
fn cost_of_allocation() {
    const N: u32 = 1 << 20;
    let world = World::new(1, 1);
    let mut last = BlockAddr::NULL;
    let begun = rt::now();
    for i in 0..N {
        let placed = world.segs.allocate(Log::WarmData, last, Summary::default());
        last = placed.expect("room").addr;
        if i % 8192 == 8191 {
            let mut plug = world.queue.plug();
            world.segs.flush(&mut plug);
            drop(plug);
            world.segs.committed(false);
        }
    }
    let took = (rt::now() - begun).0 / u64::from(N);
    println!("allocate, with the old block invalidated: {took} ns");
    assert!(took < 2000, "{took} ns");
}

/// f2fs-journal-I6: what an epoch has freed is used again when it has been applied; what a later
/// one freed is not.
#[test]
fn blocks_come_back_when_their_epoch_is_applied() {
    let mut table = Table::new(geometry(1));
    let seg = SegNo(3);
    table.open(seg, Log::WarmData);
    let blocks: Vec<BlockAddr> = (0..8).map(|i| table.addr(seg, i)).collect();
    blocks.iter().for_each(|&addr| table.take(addr, 1));
    table.close(seg);
    let (first, later) = blocks.split_at(5);
    for &addr in first {
        table.release(addr).expect("valid");
    }
    assert_eq!((table.state(seg), table.deferred()), (State::Used, 5));
    for &addr in later {
        table.release(addr).expect("valid");
    }
    assert_eq!((table.state(seg), table.deferred()), (State::Prefree, 8));
    assert_eq!(table.next_usable(seg, 0), Some(8), "table-V1");
    let freed = table.released(first);
    assert_eq!(freed.len(), 1);
    assert_eq!(
        (freed[0].seg, freed[0].whole, freed[0].blocks.count()),
        (seg, false, 5)
    );
    assert_eq!(
        (table.state(seg), table.next_usable(seg, 0)),
        (State::Prefree, Some(0))
    );
    table.check();
    let freed = table.released(later);
    assert!(freed[0].whole && freed[0].blocks.ones().eq(5..8));
    assert_eq!((table.state(seg), table.deferred()), (State::Free, 0));
    // What is valid, or was never held, stays as it is.
    table.open(seg, Log::WarmData);
    table.take(blocks[0], 1);
    assert!(table.released(&blocks[..2]).is_empty());
    assert!(table.is_valid(blocks[0]) && table.held_in(seg) == 1);
    table.check();
}
