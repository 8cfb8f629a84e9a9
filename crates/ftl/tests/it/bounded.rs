//! Recovery of a full device reads no more pages than [`Ftl::recovery_reads_max`] says. Measured:
//! 83,806 of at most 101,200, 2.18 s; 65,184 of them look at the first row of each block, whose tag
//! lies over eight pages.

use crate::common;
use base::{Rng, Time, fill};
use common::{BIG_UNITS, SMALL_PAGES, TIMING};
use varve_ftl::nand::{Geometry, Media, Nand};
use varve_ftl::remap::{Batch, Mode, Pair};
use varve_ftl::{Config, Ftl};

/// The device of the JFTL paper: 128 MiB in blocks of 16 KiB, pages of 512 bytes.
const PAPER: Geometry = Geometry {
    dies_per_channel: 1,
    blocks_per_plane: 8192,
    ..SMALL_PAGES
};
const CONFIG: Config = Config {
    units: 29_000,
    gc_slack: 2,
    checkpoint_blocks: 1024,
    ..BIG_UNITS
};

#[test]
fn a_full_device_of_the_paper() {
    let mut ftl = Ftl::format(Nand::new(Media::blank(PAPER), TIMING), CONFIG).unwrap();
    let units = CONFIG.units as u32;
    let content = |lpn: u32, round: u32| fill::filled((lpn + 7 * round) as u8 | 1, 4096);
    for lpn in 0..units {
        ftl.write(Time(0), lpn, content(lpn, 0)).unwrap();
    }
    ftl.flush(Time(0)).unwrap();
    ftl.settle();
    // Until the next checkpoint is nearly due, with collection and batches.
    let rng = &mut Rng::named(1, "bounded");
    let (before, mut now) = (ftl.stats(), Time(0));
    let mut written = std::collections::BTreeMap::new();
    while ftl.stats().checkpoints == before.checkpoints || ftl.stats().erases - before.erases < 1700
    {
        let lpn = rng.below(u64::from(units)) as u32;
        if let Some(end) = ftl.write(now, lpn, content(lpn, 1)).unwrap() {
            now = end;
        }
        written.insert(lpn, lpn);
        if rng.one_in(50) {
            let src = rng.below(u64::from(units)) as u32;
            let home = (src + 1 + rng.below(1000) as u32) % units;
            let pairs = [Pair {
                home,
                src,
                len: 1,
                expect: None,
            }];
            let batch = Batch {
                pairs: &pairs,
                mode: Mode::Share,
                require_all: true,
            };
            assert_eq!(ftl.remap(now, batch).unwrap().aliased, 1);
            let from = written.get(&src).copied().unwrap_or(u32::MAX);
            match from {
                u32::MAX => written.insert(home, units + src),
                from => written.insert(home, from),
            };
        }
        ftl.advance(now);
    }
    let end = ftl.flush(now).unwrap();
    let bound = ftl.recovery_reads_max();
    let (next, ready) =
        Ftl::mount(Nand::new(ftl.power_off(end, 1), TIMING), CONFIG, Time(0)).unwrap();
    let reads = next.stats().reads;
    let report = format!(
        "{reads} reads of at most {bound}, {} ms",
        ready.0 / 1_000_000
    );
    assert!(reads <= bound && reads > bound / 2, "{report}");
    // All blocks at 25 us and their bus time, one after the other.
    assert!(ready.0 < 6_000_000_000, "{report}");
    for (lpn, from) in &written {
        let want = match from.checked_sub(units) {
            Some(old) => content(old, 0),
            None => content(*from, 1),
        };
        assert_eq!(next.content(*lpn).unwrap(), want, "unit {lpn}");
    }
}
