//! Commit and fsync: what the ring shows after a cut, what is acknowledged, and what it costs.

use crate::common::{device_bytes, disk, mount, sim, volume};
use base::{BLOCK_BYTES, Ino, Lba, Mutant, Nanos, Time};
use block::{BlockDevice, Caps, Class, DevError, Queue};
use blockdev::spec::Bound;
use blockdev::trace::What;
use blockdev::{Image, Op, Reply, Request, SpecDisk, Ticket, Trace};
use fscore::{Creds, FileKind, FileSystem, SetAttr};
use ondisk::f2fs::journal::{BlockHeader, Groups, Record, Transaction};
use rt::{Sim, SimConfig};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use varve_f2fs::mkfs::RING_AT;
use varve_f2fs::{CommitReason, F2fs, MountOptions};

/// First block of the ring.
fn ring_start(ring: u32) -> u64 {
    let region = u64::from(ring + RING_AT).next_multiple_of(512);
    device_bytes(ring) / BLOCK_BYTES as u64 - region + u64::from(RING_AT)
}

/// Whole transactions in the ring of this content, by epoch.
fn transactions(ring: u32, content: &Image) -> BTreeMap<u64, Transaction> {
    let start = ring_start(ring);
    let block = |n: u32| content.block(start + u64::from(n % ring));
    let mut found = BTreeMap::new();
    for n in 0..ring {
        let Ok(head) = BlockHeader::parse(&block(n)) else {
            continue;
        };
        let Ok(need) = Transaction::peek(&block(n), head.incarnation, head.epoch) else {
            continue;
        };
        let bytes: Vec<u8> = (0..need.min(ring.into()) as u32)
            .flat_map(|i| block(n + i).to_vec())
            .collect();
        if let Ok(whole) = Transaction::parse(&bytes, head.incarnation, head.epoch) {
            found.insert(whole.epoch, whole);
        }
    }
    found
}

/// Inodes that a transaction tells of.
fn inodes(transaction: &Transaction) -> Vec<u32> {
    let groups = Groups::new(&transaction.payload);
    let inos = groups.map(|g| g.expect("sound").ino.0);
    inos.filter(|&ino| ino != 0).collect()
}

fn create(fs: &F2fs, name: &str) -> Ino {
    let creds = Creds::default();
    let made = fs.create(fs.root(), name.as_bytes(), FileKind::File, 0o644, 0, creds);
    made.expect("a file").ino
}

const RING: u32 = 1024;

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
                let ino = create(fs, "f");
                fs.write(ino, 0, &[1; 3 * BLOCK_BYTES]).expect("writes");
                fs.fsync(ino, false).expect("syncs");
                ino
            };
            let body = |fs: Arc<F2fs>, ino| {
                for n in 0..60 {
                    create(&fs, &format!("with a name of some length {n}"));
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
                assert!(last + 1 >= newest, "I7: epoch {last} after {newest} began");
                for (epoch, transaction) in &found {
                    assert_eq!(transaction, &after[epoch], "K3: epoch {epoch}");
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
        let files: Vec<Ino> = (0..100).map(|n| create(&fs, &format!("f{n}"))).collect();
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
        println!(
            "100 fsyncs: {commits} commits, groups {:?}",
            stats.group_sizes
        );
        assert!((1..=12).contains(&commits), "B6: {commits} commits");
        // All of it is there after the worst cut.
        let found = transactions(RING, &disk.snapshot_lost());
        let told: Vec<u32> = found.values().flat_map(inodes).collect();
        assert!(files.iter().all(|ino| told.contains(&ino.0)), "I7");
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
        let (small, large) = (create(&fs, "small"), create(&fs, "large"));
        fs.sync().expect("syncs");
        fs.write(large, 0, &[1; 500 * BLOCK_BYTES]).expect("writes");
        fs.write(small, 0, &[1; 2 * BLOCK_BYTES]).expect("writes");
        let before = fs.queue().stats();
        fs.fsync(small, false).expect("syncs");
        let after = fs.queue().stats();
        let blocks = |class| after.blocks_written(class) - before.blocks_written(class);
        assert_eq!(blocks(Class::Data), 2, "Z2");
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
        let made = fs.mkdir(fs.root(), b"d", 0o755, Creds::default());
        let dir = made.expect("a directory").ino;
        for n in 0..30 {
            let name = format!("{n}");
            let made = fs.create(
                dir,
                name.as_bytes(),
                FileKind::File,
                0o644,
                0,
                Creds::default(),
            );
            let ino = made.expect("a file").ino;
            fs.fsync(dir, false).expect("syncs");
            let found = transactions(RING, &disk.snapshot_lost());
            let told: Vec<u32> = found.values().flat_map(inodes).collect();
            assert!(told.contains(&ino.0) && told.contains(&dir.0), "Z3: {n}");
        }
        assert_eq!(fs.checkpoints().packs(), packs);
        assert_eq!(fs.fsync_checkpoints(), BTreeMap::new());
        let stats = fs.journal_stats().expect("a journal");
        assert_eq!(
            stats.compact,
            stats.commits(),
            "few records fit into one block"
        );
        fs.unmount().expect("unmounts");
    });
}

/// What an acknowledged fsync is worth.
#[derive(Clone, Copy)]
struct Acknowledged {
    at: Time,
    /// The last committed epoch then.
    epoch: u64,
}

/// Blocks of file data that the records of a transaction map.
fn mapped(transaction: &Transaction) -> Vec<u64> {
    let mut addrs = Vec::new();
    for group in Groups::new(&transaction.payload) {
        for record in group.expect("sound").iter() {
            if let Record::MapRun {
                count,
                addr,
                dir: false,
                ..
            } = record.expect("sound")
                && addr.is_data()
            {
                addrs.extend((0..count).map(|n| u64::from(addr.0) + u64::from(n)));
            }
        }
    }
    addrs
}

/// I1, I7 of what a cut left: whole epochs in a row, all that was acknowledged, and the data they map.
fn judge(ring: u32, left: &Image, last: &Image, acknowledged: u64) -> Result<u64, String> {
    let found = transactions(ring, left);
    let newest = found.keys().last().copied().unwrap_or(0);
    let row: Vec<u64> = found.keys().copied().collect();
    if row.windows(2).any(|w| w[0] + 1 != w[1]) {
        return Err(format!("I1: a hole among epochs {row:?}"));
    }
    if newest < acknowledged {
        return Err(format!(
            "I7: epoch {newest}, and {acknowledged} was acknowledged"
        ));
    }
    for (epoch, transaction) in &found {
        for addr in mapped(transaction) {
            if left.block(addr) != last.block(addr) {
                return Err(format!(
                    "I1: epoch {epoch} maps block {addr}, whose data is lost"
                ));
            }
        }
    }
    Ok(newest)
}

/// A life whose device is recorded: files written out of place, and synced, by several tasks; each block is written once.
fn recorded(seed: u64, options: &str, mutant: Option<Mutant>) -> (Trace, Vec<Acknowledged>) {
    let options = options.to_string();
    let config = SimConfig {
        mutant,
        ..SimConfig::random(seed)
    };
    let outcome = Sim::new(config).run(move || {
        let disk = disk(RING, volume(RING), seed);
        let fs = mount(&disk, &options);
        let files: Vec<Ino> = (0..3).map(|n| create(&fs, &format!("f{n}"))).collect();
        fs.sync().expect("syncs");
        while disk.open_writes() > 0 {
            rt::sleep(Nanos::from_millis(1));
        }
        disk.record();
        let synced = rt::Mutex::new(Vec::new());
        rt::scope(|s| {
            for (n, &ino) in files.iter().enumerate() {
                let (fs, synced) = (&fs, &synced);
                s.spawn(&format!("task {n}"), move || {
                    for round in 0..3_u64 {
                        let size = (1 + (seed + round) as usize % 3) * BLOCK_BYTES;
                        let fill = (n as u8 + 1) * 16 + round as u8;
                        fs.write(ino, round << 14, &vec![fill; size])
                            .expect("writes");
                        create(fs, &format!("n{n} {round}"));
                        fs.fsync(ino, round == 1).expect("syncs");
                        let epoch = fs.journal_stats().expect("a journal").committed;
                        let at = rt::now();
                        synced.lock().push(Acknowledged { at, epoch });
                    }
                });
            }
        });
        rt::sleep(Nanos::from_millis(5));
        let trace = disk.take_trace().expect("recorded");
        let synced = std::mem::take(&mut *synced.lock());
        (trace, synced)
    });
    if let Some(failure) = outcome.first_failure {
        panic!("seed {seed}: {failure} {}", outcome.replay);
    }
    outcome.value.expect("no failure")
}

/// Every state that a cut may leave, as far as the bound goes; how many, and the first that is wrong.
fn each_cut(trace: &Trace, synced: &[Acknowledged]) -> (u64, Option<String>) {
    let mut synced = synced.to_vec();
    synced.sort_by_key(|a| a.at);
    let changes: Vec<Time> = synced.iter().map(|a| a.at).collect();
    let last = {
        let mut cursor = trace.cursor();
        cursor.seek(Time(u64::MAX));
        cursor
            .choices(&Bound::default())
            .first()
            .map(|all| cursor.image(all))
    };
    let last = last.expect("the end has a state");
    let mut cursor = trace.cursor();
    let (mut states, mut wrong) = (0, None);
    for at in trace.maximal_cut_points(&changes) {
        cursor.seek(at);
        let done = synced.iter().filter(|a| a.at < at).map(|a| a.epoch);
        let acknowledged = done.max().unwrap_or(0);
        let bound = Bound {
            states_max: 200,
            ..Bound::default()
        };
        for choice in cursor.choices(&bound) {
            states += 1;
            let judged = judge(RING, &cursor.image(&choice), &last, acknowledged);
            if let Err(why) = judged {
                wrong = wrong.or(Some(format!("{at:?}: {why}")));
            }
        }
    }
    (states, wrong)
}

#[test]
fn every_cut_leaves_whole_epochs_and_their_data() {
    let mut all = 0;
    for seed in 0..6 {
        let (trace, synced) = recorded(seed, "mode=lfs", None);
        let (states, wrong) = each_cut(&trace, &synced);
        assert_eq!(wrong, None, "seed {seed}");
        assert_eq!(synced.len(), 9);
        all += states;
    }
    println!("{all} states");
    assert!(all > 1000, "{all} states");
}

/// A file of one page, written over in place while others sync: what the worst cut leaves right after the fsync returned.
fn written_over(seed: u64, mutant: Option<Mutant>) -> Result<(), String> {
    let config = SimConfig {
        mutant,
        ..SimConfig::random(seed)
    };
    let outcome = Sim::new(config).run(move || {
        let disk = disk(RING, volume(RING), seed);
        let fs = mount(&disk, "ipu_policy=1");
        let (ino, other) = (create(&fs, "f"), create(&fs, "other"));
        for ino in [ino, other] {
            fs.write(ino, 0, &[1; BLOCK_BYTES]).expect("writes");
        }
        fs.sync().expect("syncs");
        let before = disk.visible();
        let mut wrong = Ok(());
        rt::scope(|s| {
            s.spawn("other", || {
                for n in 0..8 {
                    fs.write(other, 0, &[100 + n; BLOCK_BYTES]).expect("writes");
                    fs.fsync(other, true).expect("syncs");
                }
            });
            for n in 2..10_u8 {
                fs.write(ino, 0, &[n; BLOCK_BYTES]).expect("writes");
                fs.fsync(ino, true).expect("syncs");
                let left = disk.snapshot_lost();
                let holds = left.blocks().filter(|(_, b)| b.iter().all(|&x| x == n));
                if holds.count() != 1 {
                    wrong = Err(format!("H17: write {n} was acknowledged, and is lost"));
                    break;
                }
            }
        });
        drop(before);
        assert!(fs.data_stats().in_place > 0, "it goes in place");
        wrong
    });
    if let Some(failure) = outcome.first_failure {
        panic!("seed {seed}: {failure} {}", outcome.replay);
    }
    outcome.value.expect("no failure")
}

#[test]
fn what_is_written_in_place_is_covered_by_a_flush_that_began_later() {
    for seed in 0..12 {
        assert_eq!(written_over(seed, None), Ok(()), "seed {seed}");
    }
}

/// A device that fails the n-th of its commands that `wanted` picks, and all later ones if `for_ever`.
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
    let steps: [(&str, fn(&Op) -> bool); 3] = [
        ("log write", is_log_write),
        ("flush", |op| matches!(op, Op::Flush)),
        ("data write", is_data_write),
    ];
    for ((step, wanted), seed) in steps.into_iter().flat_map(|s| [(s, 1), (s, 2), (s, 3)]) {
        sim(seed, || {
            let inner = disk(RING, volume(RING), seed);
            let device = Arc::new(Failing {
                inner: inner.clone(),
                wanted,
                left: rt::Mutex::new(i64::MAX),
                failed: rt::Mutex::new(BTreeSet::new()),
            });
            let options = MountOptions::parse("scheme=f2fsj,mode=lfs").expect("valid");
            let fs = F2fs::mount(Queue::new(device.clone()), options).expect("mounts");
            let files: Vec<Ino> = (0..4).map(|n| create(&fs, &format!("f{n}"))).collect();
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
                            assert!(newest >= epoch, "K7 {step}: {newest} {epoch}");
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
        let (trace, synced) = recorded(seed, "mode=lfs,fsync_mode=nobarrier", None);
        assert!(trace.steps.iter().all(|s| !matches!(s.what, What::Flush)));
        assert_eq!(synced.len(), 9);
        let end = trace.steps.last().map_or(Time(0), |s| s.end);
        let mut cursor = trace.cursor();
        cursor.seek(end);
        let last = cursor.image(&cursor.choices(&Bound::default())[0]);
        let whole = transactions(RING, &last);
        for choice in cursor.choices(&Bound::default()) {
            for (epoch, found) in transactions(RING, &cursor.image(&choice)) {
                assert!(whole.get(&epoch).is_none_or(|w| *w == found), "K3: {epoch}");
            }
        }
    }
}

#[test]
fn fdatasync_leaves_out_what_only_times_changed() {
    sim(5, || {
        let disk = disk(RING, volume(RING), 5);
        let fs = mount(&disk, "ipu_policy=1");
        let ino = create(&fs, "f");
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
        assert_eq!(commits(), before, "Z3: times alone");
        fs.write(ino, BLOCK_BYTES as u64, &[1]).expect("appends");
        fs.fsync(ino, true).expect("syncs");
        assert_eq!(commits(), before + 1, "Z3: the size");
        fs.fsync(ino, false).expect("syncs");
        assert_eq!(commits(), before + 1, "Z3: the times went with it");
        fs.unmount().expect("unmounts");
    });
}

#[test]
fn the_timer_commits_what_nobody_asks_for() {
    sim(6, || {
        let disk = disk(RING, volume(RING), 6);
        let fs = mount(&disk, "commit=2");
        let ino = create(&fs, "f");
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
