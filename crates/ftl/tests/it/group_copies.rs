//! Copies of what an ordered group wrote, made after it has ended.

use crate::common;
use base::Time;
use common::remapping::{TINY, TINY_CONFIG};
use common::{TIMING, fresh, id_of, unit};
use varve_ftl::nand::{Geometry, Nand};
use varve_ftl::{Config, Ftl, Layout};

/// Why recovery does not find the first units of the group.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Hidden {
    /// They were written again, then a checkpoint was written.
    Checkpoint,
    /// They were trimmed.
    Trim,
}

/// Writes a group that ends, makes holes in it, then only copies, some of which lack the first
/// units of the group; and cuts at each operation. `before` units are written first, so that blocks
/// differ in wear. Answers the number of cuts.
fn copies_of_a_group(hidden: Hidden, before: u32) -> u32 {
    let config = Config {
        checkpoint_blocks: 1000,
        ..TINY_CONFIG
    };
    let mut geometry = Geometry {
        blocks_per_plane: 4,
        ..TINY
    };
    while Layout::new(&config, &geometry).is_err() {
        geometry.blocks_per_plane += 1;
    }
    let mount = |media| Ftl::mount(Nand::new(media, TIMING), config, Time(0)).unwrap();
    let mut ftl = fresh(geometry, config);
    let units = config.units as u32;
    let write = |ftl: &mut Ftl, now, lpn, id| {
        let data = unit(config.unit_bytes, lpn, id);
        ftl.write(now, lpn, data).unwrap();
    };
    (0..before).for_each(|i| write(&mut ftl, Time(0), i % units, 1));
    let now = ftl.flush(Time(0)).unwrap();
    let mut now = ftl.begin_group(now).unwrap();
    (0..units).for_each(|lpn| write(&mut ftl, now, lpn, 2));
    now = ftl.flush(now).unwrap();
    // Holes for collection, the first unit of the group among them.
    let holes = (0..units).step_by(4);
    let (mut ftl, now) = match hidden {
        Hidden::Checkpoint => {
            ftl.end_group(now);
            holes.for_each(|lpn| write(&mut ftl, now, lpn, 3));
            now = ftl.flush(now).unwrap();
            // Recovery writes a checkpoint.
            mount(ftl.power_off(now, 1))
        }
        Hidden::Trim => {
            holes.for_each(|lpn| ftl.trim(now, lpn..lpn + 1).unwrap());
            now = ftl.flush(now).unwrap();
            (ftl, now)
        }
    };
    ftl.keep_operations(true);
    while ftl.collect_idle(now, 2).unwrap().is_some() {}
    let now = Time(now.0 + 1_000_000_000);
    (0..4).for_each(|lpn| write(&mut ftl, now, 4 * lpn, 4));
    let mut cuts = 0;
    for operation in ftl.take_operations() {
        let (next, _) = mount(ftl.clone().power_off(operation.span.end, 2));
        next.check();
        for lpn in 0..units {
            let id = next.content(lpn).map(|data| id_of(&data));
            let legal = match (lpn % 4, hidden) {
                (0, Hidden::Checkpoint) => [3, 4],
                (0, Hidden::Trim) => [0, 4],
                _ => [2, 2],
            };
            assert!(
                id.as_ref().is_ok_and(|id| legal.contains(id)),
                "{hidden:?}, {before} units before, cut after {operation:?}: unit {lpn}: {id:?}"
            );
        }
        cuts += 1;
    }
    cuts
}

/// Copies that still had their places in the group would look like units behind a hole, and be
/// dropped.
#[test]
fn a_copy_of_a_group_that_has_ended_counts() {
    for hidden in [Hidden::Trim, Hidden::Checkpoint] {
        let cuts: u32 = (0..40).map(|i| copies_of_a_group(hidden, 9 * i)).sum();
        assert!(cuts > 400, "{hidden:?}: {cuts}");
    }
}
