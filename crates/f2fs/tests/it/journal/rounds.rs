//! One round of an fsync: what it costs, which blocks it keeps, and what a mount makes of every
//! cut.

use super::common::{Mistake, disk, mount, sim, try_mount_alone, volume};
use super::cuts::{RING, transactions};
use super::lives::{Device, files, follow, judge, mounted, states};
use base::{BLOCK_BYTES, Ino, Nanos};
use block::{Class, Queue};
use blockdev::{Caps, PackOrder, SpecDisk};
use fscore::FileSystem;
use ondisk::f2fs::journal::{Groups, Record, Transaction};
use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::Brief;
use varve_f2fs::{F2fs, JournalStats, MountOptions};

fn stats(fs: &F2fs) -> JournalStats {
    fs.journal_stats().expect("a journal")
}

/// Blocks of which the transaction has checksums.
fn summed(transaction: &Transaction) -> usize {
    let groups = Groups::new(&transaction.payload);
    let records = groups.flat_map(|g| g.expect("sound").iter());
    let count = |record| match record {
        Ok(Record::DataSum { sums, .. }) => sums.count(),
        _ => 0,
    };
    records.map(count).sum()
}

fn newest(disk: &Arc<SpecDisk>) -> Transaction {
    let found = transactions(RING, &disk.visible());
    found
        .into_values()
        .next_back()
        .expect("something is committed")
}

/// A device without FUA, and one without a cache.
fn other(caps: fn(Caps) -> Caps) -> Arc<SpecDisk> {
    SpecDisk::from_image(caps(super::common::caps(RING)), volume(RING), 1)
}

#[test]
fn an_fsync_of_new_data_is_one_group_or_one_flush() {
    for (caps, flushes, fua) in [
        (None, 0, 2),
        (
            Some((|c| Caps { fua: false, ..c }) as fn(Caps) -> Caps),
            1,
            0,
        ),
        (
            Some(|c| Caps {
                volatile_cache: false,
                ..c
            }),
            0,
            2,
        ),
    ] {
        sim(1, || {
            let disk = caps.map_or_else(|| disk(RING, volume(RING), 1), other);
            let fs = mount(&disk, "rounds=1");
            let ino = fs.file("f");
            fs.sync().expect("syncs");
            for page in 0..20 {
                let at = page * BLOCK_BYTES as u64;
                fs.write(ino, at, &[page as u8 + 1; BLOCK_BYTES])
                    .expect("writes");
                let (before, commits) = (fs.queue().stats(), stats(&fs).commits());
                fs.fsync(ino, page.is_multiple_of(2)).expect("syncs");
                let after = fs.queue().stats();
                assert_eq!(after.flushes - before.flushes, flushes, "f2fs-commit-K9");
                let group = after.fua_commands - before.fua_commands;
                assert_eq!(group, fua, "f2fs-commit-K11, or the flush serves for it");
                assert_eq!(stats(&fs).commits() - commits, 1);
                let last = newest(&disk);
                assert_eq!(summed(&last), 1, "f2fs-commit-K9");
                let survives = transactions(RING, &disk.snapshot_lost()).into_values();
                assert_eq!(survives.last().as_ref(), Some(&last));
                assert_eq!(
                    disk.snapshot_lost().block(block_of(&last).into())[..],
                    [page as u8 + 1; BLOCK_BYTES],
                    "what was acknowledged survives the worst cut"
                );
            }
            assert_eq!(stats(&fs).one_round, 20);
            fs.unmount().expect("unmounts");
        });
    }
}

/// The block of the only checksum.
fn block_of(transaction: &Transaction) -> u32 {
    let groups = Groups::new(&transaction.payload);
    let mut records = groups.flat_map(|g| g.expect("sound").iter());
    let addr = records.find_map(|record| match record {
        Ok(Record::DataSum { addr, .. }) => Some(addr.0),
        _ => None,
    });
    addr.expect("it has one")
}

#[test]
fn where_checksums_would_not_do_the_data_is_flushed_first() {
    for (options, pages, before, sums) in [
        ("rounds=2", 1, false, 0),
        ("", 257, false, 0),
        // The group goes when the rest has been flushed.
        ("", 1, true, 1),
        ("", 17, true, 0),
        ("fsync_mode=nobarrier", 1, false, 0),
    ] {
        sim(2, || {
            let disk = disk(RING, volume(RING), 2);
            let fs = mount(&disk, &format!("rounds=1,{options}"));
            let (ino, other) = (fs.file("f"), fs.file("other"));
            fs.sync().expect("syncs");
            if before {
                // Write-back that no fsync asked for, in the same epoch.
                fs.write(other, 0, &[7; 5 * BLOCK_BYTES]).expect("writes");
                fs.writeback(rt::now()).expect("sends");
            }
            fs.write(ino, 0, &vec![8; pages * BLOCK_BYTES])
                .expect("writes");
            fs.fsync(ino, false).expect("syncs");
            let now = stats(&fs);
            assert_eq!(now.one_round, 0, "f2fs-commit-K9: {options}, {pages}");
            assert_eq!(summed(&newest(&disk)), sums, "{options}, {pages}");
            fs.unmount().expect("unmounts");
        });
    }
    // As many as there may be go in one round.
    sim(2, || {
        let disk = disk(RING, volume(RING), 2);
        let fs = mount(&disk, "rounds=1");
        let ino = fs.file("f");
        fs.sync().expect("syncs");
        fs.write(ino, 0, &vec![8; 256 * BLOCK_BYTES])
            .expect("writes");
        fs.fsync(ino, false).expect("syncs");
        assert_eq!((stats(&fs).one_round, summed(&newest(&disk))), (1, 256));
        fs.unmount().expect("unmounts");
    });
}

fn in_place(fs: &F2fs, ino: Ino, fill: u8) -> bool {
    let before = fs.data_stats().in_place;
    fs.write(ino, 0, &[fill; BLOCK_BYTES]).expect("writes");
    fs.fsync(ino, false).expect("syncs");
    fs.data_stats().in_place > before
}

/// summed-Q2.
#[test]
fn a_page_that_recovery_may_ask_for_is_not_written_over() {
    sim(3, || {
        let disk = disk(RING, volume(RING), 3);
        let fs = try_mount_alone(&disk, "rounds=1,ipu_policy=1").expect("mounts");
        let (ino, other) = (fs.file("f"), fs.file("other"));
        fs.sync().expect("syncs");
        fs.write(ino, 0, &[1; BLOCK_BYTES]).expect("writes");
        fs.fsync(ino, false).expect("syncs");
        for fill in 2..6 {
            assert!(!in_place(&fs, ino, fill), "summed-Q2: each time, {fill}");
        }
        fs.write(other, 0, &[1; BLOCK_BYTES]).expect("writes");
        fs.fsync(other, false).expect("syncs");
        for fill in 6..9 {
            assert!(
                in_place(&fs, ino, fill),
                "summed-Q1: another one is durable"
            );
        }
        fs.unmount().expect("unmounts");
    });
}

/// summed-Q5.
#[test]
fn an_idle_volume_seals_its_last_transaction() {
    sim(4, || {
        let disk = disk(RING, volume(RING), 4);
        let fs = mount(&disk, "rounds=1,commit=2,ipu_policy=1");
        let ino = fs.file("f");
        fs.write(ino, 0, &[1; BLOCK_BYTES]).expect("writes");
        fs.fsync(ino, false).expect("syncs");
        let before = (stats(&fs).commits(), fs.queue().stats().flushes);
        rt::sleep(Nanos::from_secs(5));
        let now = (stats(&fs).commits(), fs.queue().stats().flushes);
        assert_eq!(now, (before.0 + 1, before.1), "f2fs-commit-K10: one block");
        let last = newest(&disk);
        assert!(last.payload.is_empty(), "{last:?}");
        rt::sleep(Nanos::from_secs(20));
        assert_eq!(stats(&fs).commits(), now.0, "and only one");
        assert!(in_place(&fs, ino, 2), "summed-Q1");
        fs.unmount().expect("unmounts");
    });
}

/// Every cut, mounted: each file is as some sync left it, or a later one, and so are all names.
#[test]
fn every_cut_comes_back_as_it_was_acknowledged() {
    let none = Mistake::default();
    let mut seen = BTreeMap::new();
    for (seed, options, device) in [
        (0, "ipu_policy=1", Device::Blocks),
        (1, "mode=lfs", Device::Sectors),
        (2, "mode=lfs,records=pages", Device::Garbage),
        (3, "", Device::Flushes),
        (4, "mode=lfs", Device::Packs(PackOrder::Prefix)),
        (5, "mode=lfs", Device::Packs(PackOrder::AnySubset)),
    ] {
        let life = follow(seed, options, device, &none);
        let judged = judge(&life, &none, 400);
        assert_eq!(judged.wrong, None, "seed {seed}, {options}");
        for (case, count) in judged.cases {
            *seen.entry(case).or_insert(0) += count;
        }
    }
    assert!(
        seen.contains_key(&'U') && seen.contains_key(&'I'),
        "{seen:?}"
    );
}

/// scan-S5: a recovery that left an epoch out is cut, and the next one leaves it out, too.
#[test]
fn a_cut_in_recovery_decides_the_same_again() {
    let none = Mistake::default();
    let life = follow(5, "ipu_policy=1", Device::Flushes, &none);
    let torn = states(&life, 60, &['U', 'T']);
    assert!(torn.len() > 3, "{} states with torn data", torn.len());
    for (n, image) in torn.into_iter().enumerate() {
        let first = mounted(&image, &none).expect("it mounts");
        let pictures = sim(n as u64, || {
            let disk = disk(RING, image.clone(), 9);
            let task = {
                let disk = disk.clone();
                rt::spawn("recovery", move || {
                    mount(&disk, "rounds=1").unmount().expect("unmounts");
                })
            };
            let mut pictures = Vec::new();
            while !task.is_finished() {
                let n = pictures.len() as u64;
                pictures.extend([disk.snapshot(n), disk.snapshot_lost()]);
                rt::sleep(Nanos(20_000));
            }
            task.join().expect("no panic");
            pictures
        });
        let stride = (pictures.len() / 8).max(1);
        for picture in pictures.into_iter().step_by(stride) {
            let again = mounted(&picture, &none).expect("it mounts again");
            assert_eq!(again.files, first.files, "scan-S5: state {n}");
        }
    }
}

/// What a read-only mount shows of such a state, it shows without writing.
#[test]
fn a_read_only_mount_leaves_the_same_epoch_out() {
    let none = Mistake::default();
    let life = follow(6, "", Device::Blocks, &none);
    for image in states(&life, 6, &['U', 'T']) {
        let first = mounted(&image, &none).expect("it mounts");
        sim(1, || {
            let disk = disk(RING, image.clone(), 9);
            let options = MountOptions::parse("scheme=f2fsj,ro").expect("valid");
            let fs = F2fs::mount(Queue::new(disk.clone()), options).expect("mounts");
            assert_eq!(files(&fs), first.files);
            fs.unmount().expect("unmounts");
            assert_eq!(
                fs.queue().stats().blocks_written(Class::JournalSuperblock),
                0
            );
        });
    }
}

/// Flushes and FUA commands of `work`.
fn costs(fs: &F2fs, work: impl FnOnce()) -> (u64, u64) {
    let before = fs.queue().stats();
    work();
    let after = fs.queue().stats();
    let flushes = after.flushes - before.flushes;
    (flushes, after.fua_commands - before.fua_commands)
}

/// f2fs-commit-K12: pages in place go with the transaction, or alone, and nothing is flushed.
#[test]
fn pages_in_place_ride_along() {
    sim(5, || {
        let disk = disk(RING, volume(RING), 5);
        let fs = try_mount_alone(&disk, "ipu_policy=1").expect("mounts");
        let (ino, other) = (fs.file("f"), fs.file("other"));
        fs.write(ino, 0, &[1; 40 * BLOCK_BYTES]).expect("writes");
        fs.sync().expect("syncs");
        for n in 0..6 {
            let in_place = fs.data_stats().in_place;
            let data_only = n % 2 == 0;
            let at = n * 2 * BLOCK_BYTES as u64;
            // A new time of the last change, which fsync makes durable.
            rt::sleep(Nanos::from_millis(20));
            fs.write(ino, at, &[n as u8 + 10; BLOCK_BYTES])
                .expect("writes");
            let transaction = u64::from(!data_only);
            let cost = costs(&fs, || fs.fsync(ino, data_only).expect("syncs"));
            assert_eq!(cost, (0, 1 + transaction), "f2fs-commit-K12");
            assert_eq!(fs.data_stats().in_place - in_place, 1);
            let left = disk.snapshot_lost();
            let holds = left
                .blocks()
                .filter(|(_, b)| b.iter().all(|&x| x == n as u8 + 10));
            assert_eq!(holds.count(), 1, "hazards-H17: it survives the worst cut");
        }
        // Too many for a group: the flush of the commit covers them.
        fs.write(ino, 0, &[99; 20 * BLOCK_BYTES]).expect("writes");
        let cost = costs(&fs, || fs.fsync(ino, false).expect("syncs"));
        assert_eq!(cost, (1, 0));
        // A failure is that of the fsync whose pages they are.
        fs.write(ino, 0, &[7; BLOCK_BYTES]).expect("writes");
        disk.fail_writes(Some(Class::Data));
        fs.fsync(ino, true).expect_err("its page failed");
        disk.fail_writes(None);
        fs.write(other, 0, &[8; BLOCK_BYTES]).expect("writes");
        fs.fsync(other, false).expect("it is another's failure");
        fs.unmount().expect("unmounts");
    });
}
