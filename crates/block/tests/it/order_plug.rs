//! Checks, on every kind of device, that groups of writes keep their order over a power cut.

use crate::plug::{devices, group_at, packed, plain, run, stamp};
use base::Lba;
use blockdev::{Caps, Count, PackOrder, SpecDisk};
use rt::{Sim, SimConfig};
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_block::{Class, DevErrorKind, Queue};

#[test]
fn o1_o2_no_cut_shows_a_group_before_all_earlier_ones() {
    for (name, caps) in devices() {
        let mut cuts = 0;
        for seed in 0..12 {
            let outcome = run(caps.clone(), seed, SimConfig::random(seed));
            assert!(
                outcome.first_failure.is_none(),
                "{:?}",
                outcome.first_failure
            );
            cuts += match outcome.value.expect("it ran to its end") {
                Ok(cuts) => cuts,
                Err((_, why)) => panic!("{name}, seed {seed}: {why}"),
            };
        }
        assert!(cuts > 300, "{name}: only {cuts} cuts");
    }
}

fn in_sim<T: 'static>(work: impl FnOnce() -> T + 'static) -> T {
    Sim::new(SimConfig::seeded(1)).run(work).unwrap()
}

/// Two groups: blocks 0 and 2, then block 8. Commands, packs and flushes that they cost.
fn cost(caps: Caps) -> (u64, u64, u64) {
    in_sim(move || {
        let device = Arc::new(Count::new(SpecDisk::new(caps, 1)));
        let queue = Queue::new(device.clone());
        let mut plug = queue.order_plug();
        assert!(plug.is_empty());
        plug.barrier();
        for (lba, class) in [
            (0, Class::JournalDescriptor),
            (16, Class::JournalMetadata),
            (64, Class::JournalCommit),
        ] {
            if lba == 64 {
                plug.barrier();
            }
            plug.write_fua(Lba(lba), class, stamp(1, lba, 8));
        }
        assert_eq!(plug.len(), 3);
        plug.finish().expect("a healthy device");
        let (stats, counts) = (queue.stats(), device.counts());
        for class in [
            Class::JournalDescriptor,
            Class::JournalMetadata,
            Class::JournalCommit,
        ] {
            assert_eq!(stats.blocks_written(class), 1);
            assert_eq!(counts.sectors_written[&class], 8);
        }
        assert_eq!(stats.write_commands, counts.commands.writes);
        assert_eq!(stats.packed_commands, counts.commands.packed_commands);
        if queue.caps().fua && !queue.caps().fua_flushes {
            assert_eq!(stats.fua_commands, stats.write_commands);
            assert_eq!(counts.commands.fua_writes, 3);
        }
        (stats.write_commands, stats.packed_commands, stats.flushes)
    })
}

#[test]
fn each_device_gets_the_fewest_commands_that_keep_the_order() {
    let by_name: BTreeMap<&str, Caps> = devices().into_iter().collect();
    let cost = |name: &str| cost(by_name[name].clone());
    assert_eq!(cost("prefix"), (1, 1, 0));
    assert_eq!(cost("prefix, small packs"), (1, 1, 0));
    // 16 of 20 sectors, then the last block alone: a plain write.
    assert_eq!(cost("prefix, small transfers"), (2, 1, 0));
    // A pack of the first group, the second group behind it.
    assert_eq!(cost("any subset"), (2, 1, 0));
    assert_eq!(cost("no packs"), (3, 0, 0));
    assert_eq!(cost("no FUA"), (3, 0, 2));
    // One flush for both of the first group; the second one flushes by itself.
    assert_eq!(cost("FUA that flushes"), (3, 0, 1));
    assert_eq!(cost("no cache"), (1, 1, 0));
    assert_eq!(cost("neither cache nor FUA"), (3, 0, 0));
}

/// order_plug-O3: what may be joined.
#[test]
fn o3_neighbours_join_inside_their_group_only() {
    in_sim(|| {
        let queue = Queue::new(SpecDisk::new(plain(), 1));
        let mut plug = queue.order_plug();
        for lba in [8, 0, 16, 24] {
            if lba == 16 {
                plug.barrier();
            }
            plug.write_fua(Lba(lba), Class::Data, stamp(1, lba, 8));
        }
        plug.finish().expect("a healthy device");
        let stats = queue.stats();
        assert_eq!((stats.write_commands, stats.merges), (2, 2));
        // Longer than one transfer of 64 sectors.
        let mut plug = queue.order_plug();
        plug.write_fua(Lba(0), Class::Data, stamp(2, 0, 150));
        plug.finish().expect("a healthy device");
        assert_eq!(queue.stats().write_commands, 2 + 3);
        let back = queue.read(Lba(0), 150).expect("a legal read");
        assert_eq!(back, stamp(2, 0, 150));
    });
}

#[test]
fn h8_a_sector_that_comes_twice_comes_in_two_commands() {
    in_sim(|| {
        let queue = Queue::new(SpecDisk::new(packed(PackOrder::Prefix, 60), 1));
        let mut plug = queue.order_plug();
        for group in 1..=3 {
            plug.write_fua(Lba(0), Class::Data, stamp(group, 0, 8));
            plug.write_fua(Lba(64), Class::Data, stamp(group, 64, 8));
            plug.barrier();
        }
        plug.finish()
            .expect("no device sees a sector twice in a pack");
        assert_eq!(queue.stats().packed_commands, 3);
        let back = queue.read(Lba(0), 8).expect("a legal read");
        assert_eq!(back, stamp(3, 0, 8));
    });
}

#[test]
fn a_failure_names_its_place_and_stops_what_comes_later() {
    for (name, caps) in devices() {
        in_sim(move || {
            let disk = SpecDisk::new(caps, 1);
            let queue = Queue::new(disk.clone());
            disk.fail_writes(Some(Class::JournalMetadata));
            let mut plug = queue.order_plug();
            plug.write_fua(Lba(0), Class::Data, stamp(1, 0, 8));
            plug.barrier();
            plug.write_fua(Lba(64), Class::JournalMetadata, stamp(2, 64, 8));
            plug.barrier();
            plug.write_fua(Lba(128), Class::JournalCommit, stamp(3, 128, 8));
            let error = plug.finish().expect_err("it fails");
            assert_eq!(
                (error.kind, error.at),
                (DevErrorKind::Io, Some(Lba(64))),
                "{name}: {error}"
            );
            let seen = disk.visible();
            assert_eq!(group_at(&seen, 0), Some(1), "{name}");
            assert!(seen.is_zero(8) && seen.is_zero(16), "{name}");
        });
    }
}

#[test]
fn a_plug_packs_non_volatile_writes_on_any_device_that_can() {
    for (name, caps) in devices() {
        in_sim(move || {
            let disk = SpecDisk::new(caps.clone(), 1);
            let queue = Queue::new(disk.clone());
            let mut plug = queue.plug();
            for n in [3, 0, 1, 6] {
                plug.write_fua(Lba(n * 8), Class::Home, stamp(1, n * 8, 8));
            }
            plug.write(Lba(128), Class::Data, stamp(1, 128, 8));
            plug.submit().wait().expect("a healthy device");
            let stats = queue.stats();
            let most = usize::from(caps.packed.map_or(1, |p| p.writes_max));
            let durable = caps.fua || !caps.volatile_cache;
            let packed = durable && most > 1;
            // 0 and 1 touch, so that there are three writes of 32 sectors.
            let packs = match caps.max_transfer_sectors {
                20 if packed => 2,
                _ if packed => 1,
                _ => 3,
            };
            assert_eq!(stats.write_commands, packs + 1, "{name}");
            assert_eq!(stats.blocks_written(Class::Home), 4, "{name}");
            let seen = disk.snapshot_lost();
            assert!((0..2).all(|n| group_at(&seen, n * 8) == Some(1)), "{name}");
        });
    }
}

/// order_plug-O4, hazards-H24: held writes lead, in the same command where a cut keeps a prefix of
/// it.
#[test]
fn o4_what_was_held_back_goes_ahead_of_all_groups() {
    for (name, caps) in devices() {
        in_sim(move || {
            let disk = SpecDisk::new(caps.clone(), 1);
            let queue = Queue::new(disk.clone());
            let mut held = queue.plug();
            held.write_fua(Lba(128), Class::Data, stamp(1, 128, 8));
            let mut batch = held.hold();
            let watch = batch.watch();
            assert_eq!(queue.stats().write_commands, 0, "{name}: nothing is sent");
            let lead = batch.split_held();
            assert_eq!((lead.blocks(), batch.is_empty()), (1, true), "{name}");
            let mut plug = queue.order_plug();
            plug.lead(lead);
            plug.write_fua(Lba(0), Class::JournalCommit, stamp(2, 0, 8));
            disk.fail_writes(Some(Class::JournalCommit));
            plug.finish().expect_err("the second one fails");
            let seen = disk.visible();
            assert_eq!(
                group_at(&seen, 128),
                Some(1),
                "{name}: the first one did not"
            );
            assert!(watch.wait().is_err(), "{name}: one command, one outcome");
        });
    }
    let cost = |caps: Caps| {
        in_sim(move || {
            let queue = Queue::new(SpecDisk::new(caps, 1));
            let mut held = queue.plug();
            held.write_fua(Lba(128), Class::Data, stamp(1, 128, 8));
            let mut batch = held.hold();
            let watch = batch.watch();
            let mut plug = queue.order_plug();
            plug.lead(batch.split_held());
            plug.write_fua(Lba(0), Class::JournalCommit, stamp(2, 0, 8));
            plug.finish().expect("a healthy device");
            watch.wait().expect("it went along");
            queue.stats().write_commands
        })
    };
    assert_eq!(cost(packed(PackOrder::Prefix, 60)), 1);
    assert_eq!(cost(packed(PackOrder::AnySubset, 60)), 2);
}

/// order_plug-O5: held writes that join a plug go with its open group: side by side, or in one
/// pack, whatever a cut leaves of it.
#[test]
fn o5_what_joins_goes_with_the_open_group() {
    for (name, caps) in devices() {
        in_sim(move || {
            let disk = SpecDisk::new(caps.clone(), 1);
            let queue = Queue::new(disk.clone());
            let mut held = queue.plug();
            held.write(Lba(128), Class::Data, stamp(1, 128, 8));
            let mut batch = held.non_volatile().hold();
            let watch = batch.watch();
            let mut both = queue.watched(vec![watch.clone()]);
            let mut plug = queue.order_plug();
            plug.write_fua(Lba(0), Class::JournalCommit, stamp(2, 0, 8));
            plug.join(both.split_held());
            plug.finish().expect("a healthy device");
            both.wait().expect("it went along");
            watch.wait().expect("it went along");
            let lost = disk.snapshot_lost();
            assert_eq!(group_at(&lost, 128), Some(1), "{name}");
            assert_eq!(group_at(&lost, 0), Some(2), "{name}");
            let packs = caps.packed.is_some() && (caps.fua || !caps.volatile_cache);
            let commands = if packs { 1 } else { 2 };
            assert_eq!(queue.stats().write_commands, commands, "{name}");
        });
    }
}

/// order_plug-O4: a task that waits for held writes sends them; a plug that comes later has nothing
/// to send, and fails if those writes failed.
#[test]
fn o4_held_writes_that_somebody_waited_for_have_been_sent() {
    for fails in [false, true] {
        in_sim(move || {
            let disk = SpecDisk::new(packed(PackOrder::Prefix, 60), 1);
            let queue = Queue::new(disk.clone());
            let mut held = queue.plug();
            held.write_fua(Lba(128), Class::Data, stamp(1, 128, 8));
            let mut batch = held.hold();
            let watch = batch.watch();
            let lead = batch.split_held();
            disk.fail_writes(fails.then_some(Class::Data));
            assert_eq!(watch.wait().is_err(), fails);
            let mut plug = queue.order_plug();
            plug.lead(lead);
            plug.write_fua(Lba(0), Class::JournalCommit, stamp(2, 0, 8));
            assert_eq!(plug.finish().is_err(), fails);
            assert_eq!(disk.visible().is_zero(0), fails);
            assert_eq!(queue.stats().write_commands, if fails { 1 } else { 2 });
            batch.wait().expect("nothing was left in it");
        });
    }
}
