//! Power cycles of a device with the least spare blocks: each cut in collection closes a block of
//! the reserve (ftl-I6).

use crate::common;
use base::{Rng, Time};
use common::{CONFIG, GEOMETRY, TIMING, fresh, unit};
use varve_ftl::nand::Nand;
use varve_ftl::{Config, Ftl, Housekeeping, Layout, Policy};

const UNITS: u32 = 600;

/// Cuts a device again and again after `writes` writes and somewhere in their flush.
fn cycles(seed: u64, policy: Policy, writes: u32, count: u64) {
    let config = Config {
        gc_slack: 0,
        housekeeping: Housekeeping {
            policy,
            ..Housekeeping::PLAIN
        },
        ..CONFIG
    };
    let mut geometry = GEOMETRY;
    geometry.blocks_per_plane = 3;
    while Layout::new(&config, &geometry).is_err() {
        geometry.blocks_per_plane += 1;
    }
    let rng = &mut Rng::named(seed, "cycles");
    let mut ftl = fresh(geometry, config);
    let filled = (0..UNITS).map(|lpn| (lpn, 1));
    let again: Vec<u32> = (0..UNITS).map(|_| rng.below(UNITS.into()) as u32).collect();
    for (lpn, id) in filled.chain(again.into_iter().map(|lpn| (lpn, 2))) {
        ftl.write(Time(0), lpn, unit(512, lpn, id)).expect("room");
    }
    let mut now = ftl.flush(Time(0)).expect("room");
    for cycle in 0..count {
        let nand = Nand::new(ftl.power_off(now, cycle), TIMING);
        let (next, ready) = Ftl::mount(nand, config, Time(0)).expect("a device to recover");
        ftl = next;
        for _ in 0..writes {
            let lpn = rng.below(UNITS.into()) as u32;
            let done = ftl.write(ready, lpn, unit(512, lpn, 3));
            done.unwrap_or_else(|e| panic!("{policy:?}, cycle {cycle}: {e}"));
        }
        let end = ftl.flush(ready);
        let end = end.unwrap_or_else(|e| panic!("{policy:?}, cycle {cycle}: {e}"));
        now = Time(ready.0 + rng.below(end.0 - ready.0 + 1));
    }
}

#[test]
fn cuts_in_collection_leave_blocks_to_collect_with() {
    for (seed, writes) in [(1, 1), (3, 8), (5, 20)] {
        cycles(seed, Policy::Fifo, writes, 200);
        cycles(seed, Policy::Greedy, writes, 200);
    }
}
