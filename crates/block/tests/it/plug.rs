//! Sends groups of writes through the ordered plug, cuts anywhere and judges what is left.
#![allow(dead_code, missing_docs)]

use base::{Bytes, Lba, Nanos, Rng, SECTOR_BYTES, SECTORS_PER_BLOCK};
use blockdev::{Caps, Image, PackOrder, Packed, SpecDisk};
use rt::{Mutex, Outcome, Sim, SimConfig};
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_block::{Class, Queue};

const BLOCKS: u64 = 64;

pub fn plain() -> Caps {
    Caps {
        sectors: BLOCKS * SECTORS_PER_BLOCK,
        sector_bytes: 512,
        volatile_cache: true,
        fua: true,
        fua_flushes: false,
        reliable_granule: Some(512),
        tear_granule: None,
        atomic_write_bytes: 0,
        no_collateral: true,
        packed: None,
        cache_fifo: false,
        barrier: false,
        discard: false,
        remap: None,
        max_transfer_sectors: 64,
    }
}

pub fn packed(order: PackOrder, writes_max: u16) -> Caps {
    Caps {
        packed: Some(Packed { order, writes_max }),
        ..plain()
    }
}

/// Every way in which the plug may bring its groups to the medium.
pub fn devices() -> Vec<(&'static str, Caps)> {
    let prefix = packed(PackOrder::Prefix, 60);
    vec![
        ("prefix", prefix.clone()),
        ("prefix, small packs", packed(PackOrder::Prefix, 3)),
        (
            "prefix, small transfers",
            Caps {
                max_transfer_sectors: 20,
                ..prefix.clone()
            },
        ),
        ("any subset", packed(PackOrder::AnySubset, 60)),
        ("no packs", plain()),
        (
            "4 KiB granules",
            Caps {
                sector_bytes: 4096,
                reliable_granule: Some(4096),
                ..prefix.clone()
            },
        ),
        (
            "no promise for a torn FUA write",
            Caps {
                reliable_granule: None,
                ..prefix.clone()
            },
        ),
        (
            "FUA that flushes",
            Caps {
                fua_flushes: true,
                ..plain()
            },
        ),
        (
            "no FUA",
            Caps {
                fua: false,
                ..prefix.clone()
            },
        ),
        (
            "no cache",
            Caps {
                volatile_cache: false,
                ..prefix
            },
        ),
        (
            "neither cache nor FUA",
            Caps {
                volatile_cache: false,
                fua: false,
                ..plain()
            },
        ),
    ]
}

/// Each sector names the write it belongs to: group and address.
pub fn stamp(group: u64, lba: u64, sectors: u64) -> Bytes {
    let sector = |lba: u64| [group, lba].map(u64::to_le_bytes).concat().repeat(32);
    (lba..lba + sectors)
        .flat_map(sector)
        .collect::<Vec<u8>>()
        .into()
}

/// The group whose content `lba` holds: 0 for none; `None` for garbage.
pub fn group_at(image: &Image, lba: u64) -> Option<u64> {
    let block = image.block(lba / SECTORS_PER_BLOCK);
    let from = (lba % SECTORS_PER_BLOCK) as usize * SECTOR_BYTES;
    let sector = &block[from..from + SECTOR_BYTES];
    if base::bytes::is_zero(sector) {
        return Some(0);
    }
    let group = u64::from_le_bytes(sector[..8].try_into().expect("8 bytes"));
    let ours = group < 256 && sector[..16] == *[group, lba].map(u64::to_le_bytes).as_flattened();
    (ours && sector[..496] == sector[16..]).then_some(group)
}

/// A write of some group, first sector and length.
type Planned = (u64, u64, u64);

/// Groups 1.. of writes; addresses may repeat, in a group of their own or in the same.
fn plan(rng: &mut Rng, unit: u64) -> Vec<Planned> {
    let mut writes = Vec::new();
    for group in 1..2 + rng.below(5) {
        for _ in 0..1 + rng.below(4) {
            let lba = rng.below(BLOCKS * SECTORS_PER_BLOCK / 2 / unit) * unit;
            let sectors = unit * (1 + rng.below(24 / unit));
            writes.push((group, lba, sectors));
        }
    }
    writes
}

/// order_plug-O1, judged from content alone.
fn check_order(image: &Image, writes: &[Planned]) -> Result<(), String> {
    let mut newest = BTreeMap::new();
    let mut reached = 0;
    for (group, lba, sectors) in writes {
        for sector in *lba..lba + sectors {
            newest
                .entry(sector)
                .and_modify(|g: &mut Vec<u64>| g.push(*group))
                .or_insert(vec![*group]);
        }
    }
    for (sector, groups) in &newest {
        // Garbage is the trace of some write to this sector; of the first one at least.
        let seen = group_at(image, *sector).unwrap_or(groups[0]);
        reached = reached.max(seen);
    }
    for (sector, groups) in newest {
        let due = groups.iter().filter(|g| **g < reached).max();
        let seen = group_at(image, sector);
        if let Some(due) = due.filter(|due| seen.is_some_and(|seen| seen < **due)) {
            return Err(format!(
                "sector {sector} holds group {seen:?} and not group {due}, but group {reached} is on the medium"
            ));
        }
        let rewritten = groups.iter().any(|g| *g >= reached);
        if seen.is_none() && !rewritten {
            return Err(format!(
                "sector {sector} is garbage, but group {reached} came"
            ));
        }
    }
    Ok(())
}

/// What came of a plug: how many cuts were judged, or after how many one was wrong, and how.
pub type Judged = Result<u64, (u64, String)>;

/// One plug on one device, cut everywhere.
pub fn run(caps: Caps, seed: u64, config: SimConfig) -> Outcome<Judged> {
    Sim::new(config).run(move || {
        let mut rng = Rng::named(seed, "order plug");
        let unit = u64::from(caps.sector_bytes) / SECTOR_BYTES as u64;
        let writes = plan(&mut rng, unit);
        let disk = SpecDisk::new(caps, seed);
        let queue = Queue::new(disk.clone());
        let done = Arc::new(Mutex::new(None));
        let writer = {
            let (queue, done, writes) = (queue.clone(), done.clone(), writes.clone());
            rt::spawn("writer", move || {
                let mut plug = queue.order_plug();
                let mut last = 1;
                for (group, lba, sectors) in writes {
                    if group != last {
                        plug.barrier();
                        last = group;
                    }
                    plug.write_fua(Lba(lba), Class::Data, stamp(group, lba, sectors));
                }
                let outcome = plug.finish();
                *done.lock() = Some(outcome);
            })
        };
        let mut cuts = 0;
        while done.lock().is_none() {
            for _ in 0..4 {
                cuts += 1;
                let image = disk.snapshot(rng.next_u64());
                check_order(&image, &writes).map_err(|why| (cuts, why))?;
            }
            rt::sleep(Nanos(rng.below(100_000)));
        }
        writer.join().expect("no panic");
        let outcome = done.lock().take().expect("it is done");
        outcome.map_err(|e| (cuts, e.to_string()))?;
        if disk.snapshot_lost() != disk.visible() {
            return Err((
                cuts,
                "order_plug-O2: something is volatile after finish".into(),
            ));
        }
        let last = check_order(&disk.visible(), &writes);
        last.map(|()| cuts).map_err(|why| (cuts, why))
    })
}
