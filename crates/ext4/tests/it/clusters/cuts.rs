//! The crash argument of clusters and of atomic writes in them, at random cuts (see `data_path` and
//! `atomic_writes`).

use super::{KIB, clustered, volume};
use crate::common::{check_ram, fork, made, mount, said};
use crate::data_path::{MIB, Tear, judge, life_of};
use base::{Bytes, Time};
use blockdev::Image;
use fscore::{FallocateMode, FileSystem};
use testkit::Brief;
use varve_ext4::mkfs::{JournalSize, MkfsOptions};

fn start(mib: u64, cluster: u32) -> Image {
    volume(mib, cluster).blocks().into_iter().collect()
}

fn explore(seeds: std::ops::Range<u64>, cluster: u32, options: &str) {
    let (mib, tear) = (32, Tear::Blocks);
    let start = start(mib, cluster);
    let mut judged = 0;
    for seed in seeds {
        let cuts = life_of(seed, &start, mib * MIB, tear, options);
        for (n, cut) in cuts.iter().enumerate() {
            if let Err(why) = judge(cut, mib * MIB, tear, options) {
                panic!("seed {seed}, cut {n}, clusters of {cluster}, {options:?}: {why}");
            }
            judged += 1;
        }
    }
    assert!(judged > 50, "only {judged} cuts");
}

#[test]
fn contents_survive() {
    explore(0..6, 16 * KIB, "");
    explore(10..14, 64 * KIB, "discard");
    explore(20..24, 8 * KIB, "data=journal");
    explore(30..36, 32 * KIB, "scheme=emmc,small=64,commit-by=caller");
    explore(40..44, 64 * KIB, "scheme=coalition,small=16,discard");
}

#[test]
fn an_atomic_write_is_there_or_not() {
    use crate::atomic_writes::explore_on;
    for (seeds, cluster, options) in [
        (0..4, 64 * KIB, "scheme=jbd2"),
        (10..13, 16 * KIB, "scheme=emmc,small=64,commit-by=caller"),
        (20..23, 128 * KIB, "scheme=coalition"),
        (30..32, 32 * KIB, "data=journal"),
    ] {
        explore_on(&start(32, cluster), seeds, 32, Tear::Blocks, options);
    }
}

/// An aligned write of the longest unit is taken on holes, on unwritten and on written blocks, and
/// reads back; it is at least a cluster here.
#[test]
fn the_unit_of_atomic_writes_is_never_too_large() {
    for (cluster, journal) in [(8 * KIB, 1024), (64 * KIB, 1024), (1024 * KIB, 8192)] {
        let options = MkfsOptions {
            journal: JournalSize::Blocks(journal),
            ..clustered(200, cluster)
        };
        let ram = made(&options);
        let fs = mount(&ram, "");
        let unit = fs.atomic_unit().expect("there is a journal");
        assert!(
            unit.min == 4096 && unit.max >= cluster,
            "{unit:?}, {cluster}"
        );
        assert!(unit.max.is_power_of_two());
        let (ino, max) = (fs.file("a"), u64::from(unit.max));
        fs.fallocate(ino, FallocateMode::Allocate, max, max)
            .expect("room");
        for n in (0..max / 4096).step_by(2) {
            fs.write(ino, 2 * max + n * 4096, &[9; 4096]).expect("room");
        }
        fs.fsync(ino, false).expect("synced");
        for at in [0, max, 2 * max] {
            let data = testkit::brief::pattern(at, unit.max as usize);
            let part = (at, Bytes::from(data.clone()));
            fs.write_atomic(ino, &[part]).expect("taken whole");
            fs.drop_caches();
            let mut found = vec![0; unit.max as usize];
            fs.read(ino, at, &mut found).expect("read");
            assert!(found == data, "{cluster}, at {at}");
            fs.check();
        }
        fs.unmount().expect("unmounts");
        let report = check_ram(&ram);
        assert!(report.is_clean(), "{}", said(&report));
    }
    let ram = made(&MkfsOptions {
        journal: JournalSize::None,
        ..clustered(64, 64 * KIB)
    });
    assert_eq!(mount(&ram, "scheme=none").atomic_unit(), None);
}

/// cluster-C5: a block that the log holds leaves the file, and is written again in the same
/// cluster before that is committed.
#[test]
fn a_hole_over_a_logged_block_is_logged_again() {
    for options in ["scheme=emmc,small=64,commit=600", "commit=600"] {
        let ram = volume(48, 64 * KIB);
        let fs = mount(&ram, options);
        let ino = fs.file("a");
        fs.write(ino, 0, &[1; 65536]).expect("room");
        fs.fsync(ino, false).expect("synced");
        let part = |byte: u8| (4096, Bytes::from(vec![byte; 8192]));
        fs.write_atomic(ino, &[part(2)]).expect("taken");
        fs.fsync(ino, false).expect("synced");
        fs.fallocate(ino, FallocateMode::PunchHole, 4096, 8192)
            .expect("punched");
        fs.write(ino, 4096, &[3; 8192]).expect("room");
        fs.writeback(Time(u64::MAX)).expect("written");
        fs.drop_caches();
        assert!(
            fs.content(ino)[4096..12_288] == [3; 8192],
            "{options}: read too old"
        );
        fs.fsync(ino, false).expect("synced");
        let cut = mount(&fork(&ram), options);
        assert!(
            cut.content(ino)[4096..12_288] == [3; 8192],
            "{options}: replayed too old"
        );
        cut.unmount().expect("unmounts");
        fs.journal().checkpoint_all().expect("home");
        fs.drop_caches();
        assert!(
            fs.content(ino)[4096..12_288] == [3; 8192],
            "{options}: went home too old"
        );
        fs.unmount().expect("unmounts");
    }
}
