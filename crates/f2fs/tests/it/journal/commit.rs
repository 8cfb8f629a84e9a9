//! Commit and fsync: what the ring holds after a cut, what is acknowledged, and what it costs.

use super::SCHEME;
use super::common::{disk, mount, sim, volume};
use super::cuts::{RING, each_cut, inodes, recorded, transactions, written_over};
use base::{BLOCK_BYTES, Ino, Lba, Nanos, Time};
use block::{BlockDevice, Caps, Class, DevError, Queue};
use blockdev::spec::Bound;
use blockdev::trace::What;
use blockdev::{Image, Op, Reply, Request, SpecDisk, Ticket};
use fscore::{FileSystem, RenameMode, SetAttr};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use testkit::Brief;
use varve_f2fs::{CommitReason, F2fs, MountOptions};

/// A mounted volume, a body that runs on it, and the pictures that cuts at any moment of it leave.
fn pictures(
    seed: u64,
    options: &str,
    prepare: impl FnOnce(&F2fs) -> Ino,
    body: impl FnOnce(Arc<F2fs>, Ino) + Send + 'static,
) -> (Vec<Image>, Arc<SpecDisk>, Arc<F2fs>) {
    let disk = disk(RING, volume(RING), seed);
    let fs = mount(&disk, options);
    let ino = prepare(&fs);
    let task = {
        let fs = fs.clone();
        rt::spawn("body", move || body(fs, ino))
    };
    let mut pictures = Vec::new();
    while !task.is_finished() {
        pictures.extend((0..4).map(|n| disk.snapshot(seed * 1000 + n)));
        pictures.push(disk.snapshot_lost());
        rt::sleep(Nanos(30_000));
    }
    task.join().expect("no panic");
    (pictures, disk, fs)
}

#[test]
fn a_cut_leaves_an_epoch_whole_or_not_at_all() {
    for seed in 0..8 {
        sim(seed, || {
            let prepare = |fs: &F2fs| {
                let ino = fs.file("f");
                fs.write(ino, 0, &[1; 3 * BLOCK_BYTES]).expect("writes");
                fs.fsync(ino, false).expect("syncs");
                ino
            };
            let body = |fs: Arc<F2fs>, ino| {
                for n in 0..60 {
                    fs.file(format!("with a name of some length {n}"));
                }
                fs.write(ino, 8192, &[2; 40 * BLOCK_BYTES]).expect("writes");
                fs.fsync(ino, false).expect("syncs");
            };
            let (pictures, disk, fs) = pictures(seed, "", prepare, body);
            let after = transactions(RING, &disk.snapshot_lost());
            let newest = *after.keys().last().expect("something is committed");
            assert!(after[&newest].blocks() > 2, "of more than one block");
            let mut seen = BTreeMap::new();
            for picture in &pictures {
                let found = transactions(RING, picture);
                let last = found.keys().last().copied().unwrap_or(0);
                assert!(
                    last + 1 >= newest,
                    "f2fs-journal-I7: epoch {last} after {newest} began"
                );
                for (epoch, transaction) in &found {
                    assert_eq!(transaction, &after[epoch], "f2fs-commit-K3: epoch {epoch}");
                }
                *seen.entry(last).or_insert(0) += 1;
            }
            assert!(seen[&(newest - 1)] > 0, "{seen:?}");
            fs.unmount().expect("unmounts");
        });
    }
}

#[test]
fn a_hundred_fsyncs_of_a_hundred_files_are_few_commits() {
    sim(1, || {
        let disk = disk(RING, volume(RING), 1);
        let fs = mount(&disk, "");
        let files: Vec<Ino> = (0..100).map(|n| fs.file(format!("f{n}"))).collect();
        let before = fs.journal_stats().expect("a journal").commits();
        rt::scope(|s| {
            for (n, &ino) in files.iter().enumerate() {
                let fs = &fs;
                s.spawn(&format!("task {n}"), move || {
                    fs.write(ino, 0, &[n as u8; BLOCK_BYTES]).expect("writes");
                    fs.fsync(ino, false).expect("syncs");
                });
            }
        });
        let stats = fs.journal_stats().expect("a journal");
        let commits = stats.commits() - before;
        let groups = &stats.group_sizes;
        assert!(
            (1..=12).contains(&commits),
            "group-G4: {commits} commits, groups {groups:?}"
        );
        // All of it is there after the worst cut.
        let found = transactions(RING, &disk.snapshot_lost());
        let told: Vec<u32> = found.values().flat_map(inodes).collect();
        assert!(
            files.iter().all(|ino| told.contains(&ino.0)),
            "f2fs-journal-I7"
        );
        assert_eq!(fs.fsync_checkpoints(), BTreeMap::new());
        assert_eq!(stats.by_reason[&CommitReason::Fsync], stats.commits());
        fs.unmount().expect("unmounts");
    });
}

#[test]
fn fsync_of_one_file_writes_nothing_of_another() {
    sim(2, || {
        let disk = disk(RING, volume(RING), 2);
        let fs = mount(&disk, "");
        let (small, large) = (fs.file("small"), fs.file("large"));
        fs.sync().expect("syncs");
        fs.write(large, 0, &[1; 500 * BLOCK_BYTES]).expect("writes");
        fs.write(small, 0, &[1; 2 * BLOCK_BYTES]).expect("writes");
        let before = fs.queue().stats();
        fs.fsync(small, false).expect("syncs");
        let after = fs.queue().stats();
        let blocks = |class| after.blocks_written(class) - before.blocks_written(class);
        assert_eq!(blocks(Class::Data), 2, "fsync-Z2");
        assert_eq!(blocks(Class::Node) + blocks(Class::CheckpointPack), 0);
        assert_eq!(blocks(Class::JournalCommit), 1);
        assert_eq!(fs.dirty_pages(), 500);
        fs.unmount().expect("unmounts");
    });
}

#[test]
fn directories_are_synced_without_a_checkpoint() {
    sim(3, || {
        let disk = disk(RING, volume(RING), 3);
        let fs = mount(&disk, "");
        let packs = fs.checkpoints().packs();
        let dir = fs.dir(b"d");
        for n in 0..30 {
            let name = format!("{n}");
            let ino = fs.make(dir, name).expect("a file");
            fs.fsync(dir, false).expect("syncs");
            let found = transactions(RING, &disk.snapshot_lost());
            let told: Vec<u32> = found.values().flat_map(inodes).collect();
            assert!(
                told.contains(&ino.0) && told.contains(&dir.0),
                "fsync-Z3: {n}"
            );
        }
        assert_eq!(fs.checkpoints().packs(), packs);
        assert_eq!(fs.fsync_checkpoints(), BTreeMap::new());
        let stats = fs.journal_stats().expect("a journal");
        assert_eq!(
            stats.compact == stats.commits(),
            stats.pages.blocks() == 0,
            "few records fit into one block, and whole blocks do not: {stats:?}"
        );
        fs.unmount().expect("unmounts");
    });
}

#[test]
fn every_cut_leaves_whole_epochs_and_their_data() {
    let mut all = 0;
    for seed in 0..12 {
        let options = ["mode=lfs", "mode=lfs,rounds=1"][seed as usize % 2];
        let life = recorded(seed, options, None);
        let (trace, synced) = (life.trace, life.synced);
        let (states, wrong) = each_cut(&trace, &synced);
        assert_eq!(wrong, None, "seed {seed}");
        assert_eq!(synced.len(), 9);
        all += states;
    }
    assert!(all > 300, "{all} states");
}

#[test]
fn what_is_written_in_place_is_covered_by_a_flush_that_began_later() {
    for seed in 0..12 {
        assert_eq!(written_over(seed, None).0, Ok(()), "seed {seed}");
    }
}

/// A device that fails the n-th of its commands that `wanted` picks, and all later ones if
/// `for_ever`.
struct Failing {
    inner: Arc<SpecDisk>,
    wanted: fn(&Op) -> bool,
    left: rt::Mutex<i64>,
    failed: rt::Mutex<BTreeSet<Ticket>>,
}

impl BlockDevice for Failing {
    fn caps(&self) -> Caps {
        self.inner.caps()
    }
    fn submit(&self, request: Request) -> Ticket {
        let fails = {
            let mut left = self.left.lock();
            *left -= i64::from((self.wanted)(&request.op));
            *left == 0 && (self.wanted)(&request.op)
        };
        let ticket = self.inner.submit(match fails {
            true => Request::read(Lba(0), 8),
            false => request,
        });
        if fails {
            self.failed.lock().insert(ticket);
        }
        ticket
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        let reply = self.inner.wait(ticket);
        match self.failed.lock().remove(&ticket) {
            true => Err(DevError::io(Lba(0), "out of order")),
            false => reply,
        }
    }
}

fn is_log_write(op: &Op) -> bool {
    matches!(op, Op::Write { pieces, .. } if pieces.iter().any(|p| p.class == Class::JournalCommit))
}

fn is_data_write(op: &Op) -> bool {
    matches!(op, Op::Write { pieces, .. } if pieces.iter().any(|p| p.class == Class::Data))
}

#[test]
fn after_a_failed_step_nobody_is_acknowledged() {
    type Wanted = fn(&Op) -> bool;
    // One round of so little data has no flush.
    let steps: [(&str, &str, Wanted); 5] = [
        ("log write", "rounds=1", is_log_write),
        ("log write", "rounds=2", is_log_write),
        ("flush", "rounds=2", |op| matches!(op, Op::Flush)),
        ("data write", "rounds=1", is_data_write),
        ("data write", "rounds=2", is_data_write),
    ];
    for ((step, rounds, wanted), seed) in steps.into_iter().flat_map(|s| [(s, 1), (s, 2), (s, 3)]) {
        sim(seed, || {
            let inner = disk(RING, volume(RING), seed);
            let device = Arc::new(Failing {
                inner: inner.clone(),
                wanted,
                left: rt::Mutex::new(i64::MAX),
                failed: rt::Mutex::new(BTreeSet::new()),
            });
            let options = format!("{SCHEME},mode=lfs,{rounds}");
            let options = MountOptions::parse(&options).expect("valid");
            let fs = F2fs::mount(Queue::new(device.clone()), options).expect("mounts");
            let files: Vec<Ino> = (0..4).map(|n| fs.file(format!("f{n}"))).collect();
            fs.sync().expect("syncs");
            *device.left.lock() = 3 + seed as i64;
            let refused = rt::Mutex::new(0);
            rt::scope(|s| {
                for (n, &ino) in files.iter().enumerate() {
                    let (fs, inner, refused) = (&fs, &inner, &refused);
                    s.spawn(&format!("task {n}"), move || {
                        for round in 0..8_u64 {
                            if fs.write(ino, round << 12, &[n as u8; BLOCK_BYTES]).is_err() {
                                return;
                            }
                            if fs.fsync(ino, false).is_err() {
                                *refused.lock() += 1;
                                continue;
                            }
                            let epoch = fs.journal_stats().expect("a journal").committed;
                            let found = transactions(RING, &inner.snapshot_lost());
                            let newest = found.keys().last().copied().unwrap_or(0);
                            assert!(newest >= epoch, "f2fs-commit-K7 {step}: {newest} {epoch}");
                        }
                    });
                }
            });
            assert!(*refused.lock() > 0, "{step}: somebody has to hear of it");
            assert!(fs.failed().is_some(), "{step}: the mount is latched");
            let again = fs.fsync(files[0], false);
            assert!(again.is_err(), "{step}: {again:?}");
            fs.unmount().expect_err("nothing can be written any more");
        });
    }
}

#[test]
fn without_barriers_there_is_no_flush_and_no_torn_epoch() {
    for seed in 0..4 {
        let life = recorded(seed, "mode=lfs,fsync_mode=nobarrier", None);
        let (trace, synced) = (life.trace, life.synced);
        assert!(trace.steps.iter().all(|s| !matches!(s.what, What::Flush)));
        assert_eq!(synced.len(), 9);
        let end = trace.steps.last().map_or(Time(0), |s| s.end);
        let mut cursor = trace.cursor();
        cursor.seek(end);
        let last = cursor.image(&cursor.choices(&Bound::default())[0]);
        let whole = transactions(RING, &last);
        for choice in cursor.choices(&Bound::default()) {
            for (epoch, found) in transactions(RING, &cursor.image(&choice)) {
                assert!(
                    whole.get(&epoch).is_none_or(|w| *w == found),
                    "f2fs-commit-K3: {epoch}"
                );
            }
        }
    }
}

#[test]
fn fdatasync_leaves_out_what_only_times_changed() {
    sim(5, || {
        let disk = disk(RING, volume(RING), 5);
        let fs = mount(&disk, "ipu_policy=1");
        let ino = fs.file("f");
        fs.write(ino, 0, &[1; BLOCK_BYTES]).expect("writes");
        fs.fsync(ino, false).expect("syncs");
        let commits = || fs.journal_stats().expect("a journal").commits();
        let before = commits();
        let set = SetAttr {
            mtime: Some(fscore::TimeSet::Now),
            ..SetAttr::default()
        };
        fs.setattr(ino, &set).expect("touched");
        fs.fsync(ino, true).expect("syncs");
        assert_eq!(commits(), before, "fsync-Z3: times alone");
        fs.write(ino, BLOCK_BYTES as u64, &[1]).expect("appends");
        fs.fsync(ino, true).expect("syncs");
        assert_eq!(commits(), before + 1, "fsync-Z3: the size");
        fs.fsync(ino, false).expect("syncs");
        assert_eq!(commits(), before + 1, "fsync-Z3: the times went with it");
        fs.unmount().expect("unmounts");
    });
}

#[test]
fn the_timer_commits_what_nobody_asks_for() {
    sim(6, || {
        let disk = disk(RING, volume(RING), 6);
        let fs = mount(&disk, "commit=2");
        let ino = fs.file("f");
        rt::sleep(Nanos::from_secs(3));
        let found = transactions(RING, &disk.snapshot_lost());
        let told: Vec<u32> = found.values().flat_map(inodes).collect();
        assert!(told.contains(&ino.0), "{found:?}");
        let stats = fs.journal_stats().expect("a journal");
        assert_eq!(stats.by_reason[&CommitReason::Timer], 1);
        rt::sleep(Nanos::from_secs(20));
        let later = fs.journal_stats().expect("a journal");
        assert_eq!(later.commits(), stats.commits(), "nothing was logged");
        fs.unmount().expect("unmounts");
    });
}

#[test]
fn a_renamed_file_is_synced_under_its_new_name_although_none_of_its_fields_changed() {
    sim(7, || {
        let disk = disk(RING, volume(RING), 7);
        let fs = mount(&disk, "");
        let ino = fs.file("f");
        let root = fs.root();
        // With two links the inode names no directory; all of it happens within one tick of the
        // clock.
        fs.link(ino, root, b"g").expect("links");
        fs.fsync(ino, false).expect("syncs");
        let commits = || fs.journal_stats().expect("a journal").commits();
        let before = commits();
        fs.rename(root, b"g", root, b"h", RenameMode::Replace)
            .expect("renames");
        fs.fsync(ino, false).expect("syncs");
        assert_eq!(commits(), before + 1, "fsync-Z1: the new name");
        fs.unmount().expect("unmounts");
    });
}
