//! The table "scheme x device -> flushes, FUA commands, log blocks" of one commit with ordered
//! data. Also checks that every choice of `order=adaptive` is safe.

use super::*;
use crate::{DataNeed, DataPath, Home, Preset, Scheme};
use base::{Nanos, Rng};
use block::{Caps, Class, PackOrder, Packed};
use blockdev::{Image, SpecDisk};
use rt::{Sim, SimConfig};

const FS_BLOCKS: u64 = 200;
const LOG_BLOCKS: u32 = 64;
/// Behind the log: metadata; file data.
const META: BlockNo = BlockNo(80);
const DATA: u64 = 100;

fn caps() -> Caps {
    Caps {
        sectors: FS_BLOCKS * base::SECTORS_PER_BLOCK,
        sector_bytes: 512,
        volatile_cache: true,
        fua: true,
        fua_flushes: false,
        reliable_granule: Some(512),
        tear_granule: None,
        atomic_write_bytes: 512,
        no_collateral: true,
        packed: None,
        cache_fifo: false,
        barrier: false,
        discard: false,
        remap: None,
        max_transfer_sectors: 1024,
    }
}

fn packs(order: PackOrder) -> Caps {
    let packed = Some(Packed {
        order,
        writes_max: 16,
    });
    Caps { packed, ..caps() }
}

fn fresh() -> Image {
    let mut image = Image::new();
    image.set_block(1, empty_log(LOG_BLOCKS));
    image
}

fn queue_on(caps: &Caps, image: Image) -> (Arc<SpecDisk>, Arc<Queue>) {
    let disk = SpecDisk::from_image(caps.clone(), image, 1);
    let queue = Queue::new(disk.clone() as Arc<dyn BlockDevice>);
    (disk, queue)
}

fn prepared(queue: &Arc<Queue>, preset: Preset) -> Inner {
    let opened = open(queue.clone(), place(FS_BLOCKS, LOG_BLOCKS)).expect("opens");
    let Opened::Clean(log) = opened else {
        panic!("the log is clean")
    };
    let options = Options {
        scheme: preset.scheme(),
        ..quiet()
    };
    log.prepare(options).expect("starts")
}

/// Writes a stamp into the metadata block and, as ordered data, into a data block; commits.
fn transaction(journal: &Journal, queue: &Arc<Queue>, stamp: u8, path: DataPath) {
    let mut handle = journal.start(1).expect("room");
    let mut plug = queue.plug();
    let lba = BlockNo(DATA + u64::from(stamp)).lba();
    match path {
        DataPath::Cached => plug.write(lba, Class::Data, filled(stamp)),
        DataPath::Direct | DataPath::WithLog => plug.write_fua(lba, Class::Data, filled(stamp)),
    }
    let batch = match path {
        DataPath::WithLog => plug.hold(),
        DataPath::Cached | DataPath::Direct => plug.submit(),
    };
    handle.add_ordered(batch).expect("runs");
    handle.write(META, 8, &[stamp]).expect("credit");
    journal
        .commit(handle.finish().expect("runs"))
        .expect("commits");
}

/// Flushes, FUA commands and log blocks of the second transaction of a mount.
fn cost(preset: Preset, caps: &Caps, path: DataPath) -> [u64; 3] {
    let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
        let (_, queue) = queue_on(caps, fresh());
        let journal = Journal::run(prepared(&queue, preset)).expect("starts");
        transaction(&journal, &queue, 1, DataPath::Cached);
        let before = queue.stats();
        transaction(&journal, &queue, 2, path);
        let after = queue.stats();
        journal.stop().expect("stops");
        let log = [
            Class::JournalDescriptor,
            Class::JournalMetadata,
            Class::JournalCommit,
            Class::Coalition,
        ];
        let blocks = |class| after.blocks_written(class) - before.blocks_written(class);
        [
            after.flushes - before.flushes,
            after.fua_commands - before.fua_commands,
            log.into_iter().map(blocks).sum(),
        ]
    });
    outcome.unwrap()
}

#[test]
fn every_scheme_costs_on_every_device_what_the_table_says() {
    let no_fua = Caps {
        fua: false,
        reliable_granule: None,
        ..caps()
    };
    let no_cache = Caps {
        volatile_cache: false,
        ..caps()
    };
    let devices = [
        packs(PackOrder::Prefix),
        packs(PackOrder::AnySubset),
        caps(),
        no_fua,
        no_cache,
    ];
    // Flushes, FUA commands, log blocks on: prefix packs, any-subset packs, no packs, no FUA, no
    // cache.
    let table: [(Preset, [[u64; 3]; 5]); 7] = [
        (
            Preset::Jbd2,
            [[1, 1, 3], [1, 1, 3], [1, 1, 3], [2, 0, 3], [0, 1, 3]],
        ),
        (
            Preset::FlushAhead,
            [[1, 1, 3], [1, 2, 3], [1, 2, 3], [3, 0, 3], [0, 2, 3]],
        ),
        (
            Preset::Coalition,
            [[1, 1, 1], [1, 1, 1], [1, 1, 1], [2, 0, 1], [0, 1, 1]],
        ),
        (
            Preset::CoalitionPaper,
            [[1, 1, 1], [1, 1, 1], [1, 1, 1], [2, 0, 1], [0, 1, 1]],
        ),
        (
            Preset::EmmcPaper,
            [[1, 1, 1], [1, 1, 1], [1, 1, 1], [2, 0, 1], [0, 1, 1]],
        ),
        (
            Preset::Emmc,
            [[1, 1, 1], [1, 1, 1], [1, 1, 1], [2, 0, 1], [0, 1, 1]],
        ),
        (
            Preset::Adaptive,
            [[1, 1, 1], [1, 1, 1], [1, 1, 1], [2, 0, 1], [0, 1, 1]],
        ),
    ];
    let mut wrong = Vec::new();
    for (preset, expected) in table {
        for (n, (caps, expected)) in devices.iter().zip(expected).enumerate() {
            let seen = cost(preset, caps, DataPath::Cached);
            if seen != expected {
                wrong.push(format!("{preset}, device {n}: {seen:?}, not {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is remapped costs the commit nothing, and one command behind it; nothing is written home.
/// `jftl-paper` on its first commit names its feature in the superblock that is written anyway.
#[test]
fn remapping_costs_one_command_behind_the_commit() {
    let remap = Some(block::RemapCaps {
        granule: 4096,
        pairs_max: 64,
    });
    let caps = Caps { remap, ..caps() };
    for preset in [Preset::Jftl, Preset::JftlPaper] {
        assert_eq!(cost(preset, &caps, DataPath::Cached), [1, 1, 3], "{preset}");
        let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
            let (_, queue) = queue_on(&caps, fresh());
            let journal = Journal::run(prepared(&queue, preset)).expect("starts");
            (1..4).for_each(|n| transaction(&journal, &queue, n, DataPath::Cached));
            journal.stop().expect("stops");
            let stats = journal.stats();
            let homes = queue.stats().blocks_written(Class::Home);
            let queue = queue.stats();
            assert_eq!(stats.remap_commands, queue.remaps);
            (
                queue.remaps,
                queue.remap_pairs,
                stats.blocks_remapped,
                homes,
            )
        });
        assert_eq!(outcome.unwrap(), (3, 3, 3, 0), "{preset}");
    }
}

/// Direct data leaves nothing to flush, and costs one FUA command.
#[test]
fn a_commit_of_direct_data_sends_no_flush() {
    for preset in [Preset::Emmc, Preset::Coalition, Preset::Adaptive] {
        assert_eq!(
            cost(preset, &caps(), DataPath::Direct),
            [0, 2, 1],
            "{preset}"
        );
    }
    let jbd2 = cost(Preset::Jbd2, &caps(), DataPath::Direct);
    assert_eq!(jbd2, [1, 2, 3], "its log goes through the cache");
}

/// States with the newest transaction acknowledged before each.
fn play_at_random(caps: &Caps, seed: u64) -> Vec<(Image, u8)> {
    let outcome = Sim::new(SimConfig::random(seed)).run(|| {
        let (disk, queue) = queue_on(caps, fresh());
        let mut inner = prepared(&queue, Preset::Adaptive);
        let adapt = inner.adapt.as_mut().expect("adaptive");
        adapt.lock().random = Some(Rng::named(seed, "choices"));
        let journal = Journal::run(inner).expect("starts");
        let acked = Arc::new(rt::Mutex::new(0));
        let sampler = {
            let (disk, acked) = (disk.clone(), acked.clone());
            rt::spawn("sampler", move || {
                let mut rng = Rng::named(seed, "cuts");
                let mut states = Vec::new();
                while states.len() < 40 {
                    rt::sleep(Nanos::from_micros(1 + rng.below(150)));
                    let newest = *acked.lock();
                    states.push((disk.snapshot(rng.next_u64()), newest));
                }
                states
            })
        };
        for stamp in 1..30 {
            let need = DataNeed {
                blocks: 1,
                runs: 1,
                commits: true,
                flush_anyway: false,
            };
            let path = journal.data_path(need).path;
            transaction(&journal, &queue, stamp, path);
            *acked.lock() = stamp;
        }
        let states = sampler.join().expect("no panic");
        journal.stop().expect("stops");
        states
    });
    outcome.unwrap()
}

#[test]
fn whatever_adaptive_chooses_is_safe() {
    let mut judged = 0;
    for seed in 0..12 {
        let order = [PackOrder::Prefix, PackOrder::AnySubset][seed as usize % 2];
        let caps = packs(order);
        for (image, acked) in play_at_random(&caps, seed) {
            let outcome = Sim::new(SimConfig::seeded(seed)).run(|| {
                let (disk, queue) = queue_on(&caps, image.clone());
                let opened = open(queue, place(FS_BLOCKS, LOG_BLOCKS)).expect("opens");
                if let Opened::NeedsRecovery(log) = opened {
                    log.recover().expect("recovers");
                }
                let state = disk.visible();
                let newest = state.block(META.0)[8];
                assert!(
                    newest >= acked,
                    "seed {seed}: {newest} recovered, {acked} acknowledged"
                );
                for stamp in 1..=newest {
                    let data = state.block(DATA + u64::from(stamp));
                    assert_eq!(data, filled(stamp), "seed {seed}: data of {stamp} is lost");
                }
            });
            outcome.unwrap();
            judged += 1;
        }
    }
    assert_eq!(judged, 12 * 40);
}

/// FUA commands and flushes of a checkpoint of one block; the superblock takes a FUA command of
/// them, where there is a log.
fn checkpoint_cost(home: Home, caps: &Caps, with_log: bool) -> [u64; 2] {
    let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
        let (_, queue) = queue_on(caps, fresh());
        let scheme = Preset::Emmc.scheme().map(|s| Scheme { home, ..s });
        let options = Options { scheme, ..quiet() };
        let journal = match with_log {
            true => {
                let place = place(FS_BLOCKS, LOG_BLOCKS);
                let Ok(Opened::Clean(log)) = open(queue.clone(), place) else {
                    panic!("the log is clean")
                };
                log.start(options).expect("starts")
            }
            false => Journal::without_log(queue.clone(), options).expect("starts"),
        };
        let mut handle = journal.start(1).expect("room");
        handle.write(META, 8, &[1]).expect("credit");
        journal
            .commit(handle.finish().expect("runs"))
            .expect("commits");
        let before = queue.stats();
        journal.checkpoint_all().expect("goes home");
        let after = queue.stats();
        journal.stop().expect("stops");
        [
            after.fua_commands - before.fua_commands,
            after.flushes - before.flushes,
        ]
    });
    outcome.unwrap()
}

/// home-M4: a home write takes FUA where the scheme asks for it and FUA is a reliable write, and is
/// durable then; any other is made durable by a flush before the tail moves.
#[test]
fn m4_a_home_write_takes_fua_where_that_is_a_reliable_write() {
    let unreliable = Caps {
        reliable_granule: None,
        ..caps()
    };
    let (reliable, copy) = (Home::CopyReliable, Home::Copy);
    let table = [
        (reliable, caps(), true, [2, 0]),
        (reliable, unreliable.clone(), true, [1, 1]),
        (copy, caps(), true, [1, 1]),
        (copy, unreliable, true, [1, 1]),
        (reliable, caps(), false, [0, 1]),
    ];
    for (home, caps, with_log, expected) in table {
        let seen = checkpoint_cost(home, &caps, with_log);
        let promise = caps.reliable_granule;
        assert_eq!(seen, expected, "{home:?}, {promise:?}, log: {with_log}");
    }
}
