//! The crash argument of the data path, judged at random cuts (see `data_path`).
#![allow(clippy::disallowed_methods)]

use crate::common::{made, options_of};
use crate::data_path::deaths::cuts_of_recoveries;
use crate::data_path::{MIB, Tear, caps, explore, new_volume, new_volume_for};
use base::{Nanos, Time};
use block::Queue;
use blockdev::{Image, SpecDisk};
use fscore::{Creds, FileKind, FileSystem};
use rt::{Sim, SimConfig};
use std::ops::Range;
use std::sync::Arc;
use testkit::Brief;
use varve_ext4::mkfs::{JournalSize, MkfsOptions};
use varve_ext4::{Ext4, MountOptions};

/// Run by hand, e.g. `FROM=1000 SEEDS=200 TEAR=1 OPTIONS=data=journal`.
#[test]
#[ignore = "as many seeds as asked for"]
fn many() {
    let number = |key| std::env::var(key).ok().and_then(|s| s.parse().ok());
    let from = number("FROM").unwrap_or(0);
    let tear = match std::env::var("TEAR") {
        Ok(_) => Tear::Sectors,
        Err(_) => Tear::Blocks,
    };
    let options = std::env::var("OPTIONS").unwrap_or_default();
    let mib = if tear == Tear::Sectors { 144 } else { 16 };
    explore(
        from..from + number("SEEDS").unwrap_or(50),
        mib,
        tear,
        &options,
    );
}

#[test]
fn ordered() {
    explore(0..12, 16, Tear::Blocks, "data=ordered");
}

#[test]
fn ordered_with_discard() {
    explore(100..106, 16, Tear::Blocks, "data=ordered,discard");
}

#[test]
fn journaled_data() {
    explore(200..206, 16, Tear::Blocks, "data=journal");
}

/// Small fsyncs log their data, other data goes home directly, and the same blocks see both
/// (small-S1 to small-S5).
#[test]
fn small_data_through_the_log() {
    explore(
        400..412,
        16,
        Tear::Blocks,
        "scheme=emmc,small=64,commit-by=caller",
    );
    explore(
        412..418,
        16,
        Tear::Blocks,
        "scheme=coalition,small=16,discard",
    );
    // As on a file of the host, any home write may be torn.
    explore(
        418..424,
        16,
        Tear::Blocks,
        "scheme=emmc,full-first=on,small=64",
    );
    explore(424..430, 144, Tear::Sectors, "scheme=emmc,small=64");
}

/// With every scheme, the task that syncs runs the commit itself.
#[test]
fn commits_by_callers() {
    explore(430..434, 16, Tear::Blocks, "scheme=jbd2,commit-by=caller");
    explore(
        434..438,
        16,
        Tear::Blocks,
        "scheme=adaptive,commit-by=caller",
    );
}

/// Fast commits that one file leaves.
fn fast_commits_of_one_file(options: &'static str) -> u64 {
    let start = new_volume_for(options, 16);
    let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
        let disk = SpecDisk::from_image(caps(16 * MIB, Tear::Blocks), start, 1);
        let options = MountOptions::parse(options).expect("options");
        let fs = Ext4::mount(Queue::new(disk), options).expect("mounts");
        let file =
            (fs.create(fs.root(), b"f", FileKind::File, 0o644, 0, Creds::default())).expect("room");
        fs.write(file.ino, 0, &[1; 4096]).expect("room");
        fs.fsync(file.ino, false).expect("synced");
        let made = fs.journal().stats().fast_commits;
        fs.unmount().expect("unmounts");
        made
    });
    outcome.unwrap()
}

/// Fast commits in the order of Linux and in others (fast-W1 to fast-W11).
#[test]
fn fast_commits() {
    assert_eq!(fast_commits_of_one_file("scheme=fast-commit"), 1);
    explore(440..446, 16, Tear::Blocks, "scheme=fast-commit");
    explore(446..452, 16, Tear::Blocks, "scheme=fast-commit+adaptive");
    explore(
        452..455,
        16,
        Tear::Blocks,
        "scheme=fast-commit,order=flush-ahead,commit-by=caller,discard",
    );
    explore(455..458, 144, Tear::Sectors, "scheme=fast-commit");
}

/// Sectors of cached writes in flight may be garbage, those of FUA writes old or new.
#[test]
fn torn_sectors() {
    // Two groups: the superblock has a backup.
    explore(300..306, 144, Tear::Sectors, "data=ordered");
}

/// The next mount replays a log whose last blocks are only in the cache, and a cut loses any of
/// them (journal-replay-P7). Without the flush each of these lives shows a violation, except that
/// of jftl-paper.
fn recoveries(seeds: Range<u64>, options: &'static str) {
    let seen = cuts_of_recoveries((&new_volume_for(options, 16), None), options, seeds, None);
    assert_eq!(seen.found, None, "{options}");
    assert!(seen.cuts > 100, "{options}: only {} cuts", seen.cuts);
}

#[test]
fn recovery_of_what_a_dead_process_left_in_the_cache() {
    recoveries(501..502, "scheme=jbd2");
    recoveries(503..504, "scheme=flush-ahead");
    recoveries(506..507, "scheme=adaptive");
    recoveries(506..507, "scheme=coalition");
    recoveries(508..509, "scheme=jftl");
    recoveries(508..509, "scheme=jftl-paper");
    recoveries(510..511, "scheme=fast-commit");
    recoveries(511..512, "scheme=fast-commit+adaptive");
}

/// The process dies, the power stays on, and the log was still empty: the next mount reads what the
/// dead process left in the device's cache. An fsync may not count that as durable just because its
/// own queue has never written anything (hazards-H19).
#[test]
fn what_a_dead_process_left_in_the_cache_is_durable_after_an_fsync() {
    for scheme in ["jbd2", "emmc", "adaptive"] {
        let start = new_volume(16);
        let options = || MountOptions::parse(&format!("scheme={scheme}")).expect("options");
        let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
            let disk = SpecDisk::from_image(caps(16 * MIB, Tear::Blocks), start, 1);
            let mount = || Ext4::mount(Queue::new(disk.clone()), options()).expect("mounts");
            let read = |fs: &Ext4| {
                let ino = fs.find(b"f");
                let mut page = [0; 4096];
                fs.read(ino, 0, &mut page).expect("readable");
                (ino, page[0])
            };
            let fs = mount();
            let creds = Creds {
                uid: 0,
                gid: 0,
                umask: 0,
            };
            let made = fs.create(fs.root(), b"f", FileKind::File, 0o644, 0, creds);
            let ino = made.expect("made").ino;
            fs.write(ino, 0, &[1; 4096]).expect("written");
            fs.unmount().expect("unmounts");

            // The write is in place and needs no commit. From here on this mount is not called any
            // more.
            let dead = mount();
            dead.write(ino, 0, &[2; 4096]).expect("written");
            dead.writeback(Time(u64::MAX)).expect("sent");
            rt::sleep(Nanos::from_millis(5));

            let fs = mount();
            let (ino, seen) = read(&fs);
            fs.fsync(ino, true).expect("durable");
            let cut = Arc::new(disk.snapshot_lost().to_ram(16 * MIB));
            fs.unmount().expect("unmounts");
            // The tasks of the dead mount have to end.
            let _ = dead.unmount();
            let fs = Ext4::mount(Queue::new(cut), options()).expect("mounts");
            let (_, left) = read(&fs);
            fs.unmount().expect("unmounts");
            (seen, left)
        });
        assert_eq!(
            outcome.value,
            Some((2, 2)),
            "{scheme}: {:?}",
            outcome.first_failure
        );
    }
}

/// Without a journal an fsync also writes the directories of a new file; of two fsyncs at the same
/// time each does so, or waits for the other.
#[test]
fn fsyncs_without_journal_at_the_same_time_both_reach_the_file() {
    let device = made(&MkfsOptions {
        journal: JournalSize::None,
        ..options_of(16)
    });
    let start: Image = device.blocks().into_iter().collect();
    for seed in 0..60 {
        let content = start.clone();
        let outcome = Sim::new(SimConfig::random(seed)).run(move || {
            let options = || MountOptions::parse("scheme=none").expect("options");
            let disk = SpecDisk::from_image(caps(16 * MIB, Tear::Blocks), content, seed);
            let fs = Ext4::mount(Queue::new(disk.clone()), options()).expect("mounts");
            let creds = || Creds::default();
            let dir = fs.mkdir(fs.root(), b"d", 0o755, creds()).expect("made").ino;
            let made = fs.create(dir, b"f", FileKind::File, 0o644, 0, creds());
            let file = made.expect("made").ino;
            fs.write(file, 0, &[7; 4096]).expect("written");
            let tasks: Vec<_> = (0..2)
                .map(|_| {
                    let (fs, disk) = (fs.clone(), disk.clone());
                    rt::spawn("fsync", move || {
                        fs.fsync(file, false).expect("durable");
                        disk.snapshot_lost()
                    })
                })
                .collect();
            let cuts: Vec<Image> = tasks
                .into_iter()
                .map(|t| t.join().expect("no panic"))
                .collect();
            fs.unmount().expect("unmounts");
            for cut in cuts {
                let device = Arc::new(cut.to_ram(16 * MIB));
                let fs = Ext4::mount(Queue::new(device), options()).expect("mounts");
                let dir = fs.find(b"d");
                let file = fs.lookup(dir, b"f").expect("the file");
                let mut page = [0; 4096];
                assert_eq!(fs.read(file, 0, &mut page).expect("readable"), 4096);
                assert_eq!(page, [7; 4096]);
                fs.unmount().expect("unmounts");
            }
        });
        outcome.unwrap();
    }
}

/// hazards-H22 in a volume of one group, whose superblock has no backup: a home write of it, cut
/// between its sectors, is mended by the log. Without a log that waits for recovery the same block
/// is refused.
#[test]
fn torn_superblock_without_backup_is_mended_by_the_log() {
    const BYTES: u64 = 64 * MIB;
    for scheme in ["emmc", "coalition", "jbd2"] {
        let body = move || {
            let mount = |image: &Image| {
                let disk = SpecDisk::from_image(caps(BYTES, Tear::Sectors), image.clone(), 1);
                let options = MountOptions::parse(&format!("scheme={scheme}")).expect("options");
                let fs = Ext4::mount(Queue::new(disk.clone()), options);
                (disk, fs)
            };
            let (disk, fs) = mount(&new_volume(64));
            let fs = fs.expect("a new volume");
            let old = disk.visible().block(0);
            let (root, creds) = (fs.root(), Creds::default());
            let make = |name: &[u8]| {
                let made = fs.create(root, name, FileKind::File, 0o644, 0, creds);
                made.expect("room").ino
            };
            make(b"kept");
            // An open file without a name: the superblock names it.
            fs.open(make(b"open")).expect("open");
            fs.unlink(root, b"open").expect("unlink");
            fs.sync().expect("synced");
            // Everything goes home, but the log is not emptied.
            rt::sleep(Nanos::from_secs(100));
            let image = disk.visible();
            let new = image.block(0);
            for half in [1024..1536, 1536..2048] {
                assert_ne!(old[half.clone()], new[half.clone()], "both sectors change");
                let mut torn = new.to_vec();
                torn[half.clone()].copy_from_slice(&old[half]);
                let mut cut = image.clone();
                cut.set_block(0, torn.clone().into());
                let (disk, recovered) = mount(&cut);
                let recovered = recovered.expect("mended");
                recovered.lookup(root, b"kept").expect("synced");
                recovered.unmount().expect("clean");
                // Without the log nothing mends it.
                let mut clean = disk.visible();
                clean.set_block(0, torn.into());
                assert!(mount(&clean).1.is_err());
            }
            fs.unmount().expect("clean");
        };
        Sim::new(SimConfig::seeded(1)).run(body).unwrap();
    }
}
