//! What a cluster of a file costs, and when it goes (cluster-C1 to cluster-C3, promise-B6).

use super::{KIB, volume};
use crate::common::{check_ram, fork, mount, said};
use base::Ino;
use fscore::{Errno, FallocateMode, FileSystem};
use std::sync::Arc;
use testkit::Brief;
use testkit::brief::errno;
use varve_ext4::Ext4;

const CLUSTER: u64 = 64 << 10;

fn mounted() -> (Arc<blockdev::Ram>, Arc<Ext4>) {
    let ram = volume(48, 64 * KIB);
    let fs = mount(&ram, "");
    (ram, fs)
}

/// Clusters that the volume has less than before.
struct Meter {
    before: u64,
}

impl Meter {
    fn new(fs: &Ext4) -> Meter {
        Meter { before: free(fs) }
    }
    fn used(&self, fs: &Ext4) -> u64 {
        (self.before - free(fs)) / 16
    }
}

fn free(fs: &Ext4) -> u64 {
    fs.statfs().expect("mounted").blocks_free
}

fn clusters_of(fs: &Ext4, ino: Ino) -> u64 {
    fs.getattr(ino).expect("there").sectors * 512 / CLUSTER
}

fn end(ram: &blockdev::Ram, fs: &Ext4) {
    fs.check();
    fs.unmount().expect("unmounts");
    let report = check_ram(ram);
    assert!(report.is_clean(), "{}", said(&report));
}

/// Extents that share a cluster move in one handle, or not at all (cluster-C7); others one by one,
/// however many there are.
#[test]
fn extents_of_one_cluster_move_together() {
    for (clusters, shared, moves) in [(12, true, true), (400, true, false), (400, false, true)] {
        let (ram, fs) = mounted();
        let ino = fs.file("a");
        let bytes = clusters * CLUSTER;
        if shared {
            let allocate = fs.fallocate(ino, FallocateMode::Allocate, 0, bytes);
            allocate.expect("room");
        }
        for n in 0..clusters {
            // With room beside it, or unwritten blocks.
            fs.write(ino, n * CLUSTER + 4096, &[(n % 250) as u8 + 1; 4096])
                .expect("room");
        }
        fs.fsync(ino, false).expect("synced");
        for (n, mode) in [FallocateMode::InsertRange, FallocateMode::CollapseRange]
            .into_iter()
            .enumerate()
        {
            let moved = fs.fallocate(ino, mode, CLUSTER, CLUSTER);
            match moves {
                true => moved.expect("moves"),
                false => assert_eq!(errno(moved), Errno::NotSup),
            }
            let hole = u64::from(moves && n == 0);
            let mut page = [0; 4096];
            for n in 2..clusters {
                let at = (n + hole) * CLUSTER + 4096;
                fs.read(ino, at, &mut page).expect("reads");
                assert_eq!(page, [(n % 250) as u8 + 1; 4096]);
            }
        }
        end(&ram, &fs);
    }
}

/// A delayed page promises its cluster once, and write-back takes no more.
#[test]
fn pages_of_a_cluster_cost_one_cluster() {
    let (ram, fs) = mounted();
    let ino = fs.file("a");
    fs.sync().expect("synced");
    let meter = Meter::new(&fs);
    for page in [3_u64, 0, 15] {
        fs.write(ino, page * 4096, &[1; 4096]).expect("room");
        assert_eq!(meter.used(&fs), 1, "promised");
        assert_eq!(clusters_of(&fs, ino), 1, "st_blocks of delayed pages");
    }
    fs.fsync(ino, false).expect("synced");
    assert_eq!((meter.used(&fs), clusters_of(&fs, ino)), (1, 1));
    fs.write(ino, 4096, &[2; 100]).expect("room");
    fs.fsync(ino, false).expect("synced");
    assert_eq!((meter.used(&fs), clusters_of(&fs, ino)), (1, 1));
    fs.write(ino, 16 * 4096, &[2; 100]).expect("room");
    assert_eq!(meter.used(&fs), 2);
    fs.fsync(ino, false).expect("synced");
    assert_eq!((meter.used(&fs), clusters_of(&fs, ino)), (2, 2));
    end(&ram, &fs);
}

/// cluster-C3: a cluster goes with the last of its blocks, whichever that is.
#[test]
fn a_cluster_goes_with_its_last_block() {
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
        let (ram, fs) = mounted();
        let ino = fs.file("a");
        fs.write(ino, 0, &[1; 2 * CLUSTER as usize]).expect("room");
        fs.fsync(ino, false).expect("synced");
        for (n, part) in (1..).zip(order) {
            let quarter = CLUSTER / 4;
            fs.fallocate(ino, FallocateMode::PunchHole, part * quarter, quarter)
                .expect("punched");
            fs.check();
            assert_eq!(
                clusters_of(&fs, ino),
                if n < 4 { 2 } else { 1 },
                "{order:?}, {n}"
            );
        }
        // A range over the border of two clusters, and the tail of a file.
        fs.write(ino, 0, &[2; 2 * CLUSTER as usize]).expect("room");
        fs.fsync(ino, false).expect("synced");
        fs.fallocate(ino, FallocateMode::PunchHole, 4096, 2 * CLUSTER - 8192)
            .expect("punched");
        assert_eq!(clusters_of(&fs, ino), 2);
        fs.resize(ino, CLUSTER + 4096).expect("cut");
        assert_eq!(clusters_of(&fs, ino), 1);
        fs.resize(ino, 100).expect("cut");
        assert_eq!(clusters_of(&fs, ino), 1);
        fs.resize(ino, 0).expect("cut");
        assert_eq!(clusters_of(&fs, ino), 0);
        end(&ram, &fs);
    }
}

/// promise-B6: what is cut off takes its cluster along, in which a page before the new end was
/// delayed.
#[test]
fn a_delayed_page_keeps_its_cluster_when_the_rest_is_cut_off() {
    for options in ["", "scheme=emmc,small=64"] {
        let ram = volume(48, 64 * KIB);
        let fs = mount(&ram, options);
        let ino = fs.file("a");
        fs.write(ino, 8 * 4096, &[1; 4096]).expect("room");
        fs.fsync(ino, false).expect("synced");
        fs.write(ino, 0, &[2; 4096]).expect("room");
        fs.resize(ino, 2 * 4096).expect("cut");
        fs.check();
        let filler = fs.file("filler");
        let mut at = 0;
        while let Ok(n) = fs.write(filler, at, &[3; 65536]) {
            at += n as u64;
        }
        fs.fsync(ino, false).expect("its cluster is promised");
        fs.drop_caches();
        assert_eq!(fs.content(ino)[..4096], [2; 4096]);
        end(&ram, &fs);
    }
}

/// On a full volume, what lies in clusters that a file has is never refused.
#[test]
fn holes_of_owned_clusters_are_filled_on_a_full_volume() {
    let (ram, fs) = mounted();
    let ino = fs.file("a");
    for n in 0..8 {
        fs.write(ino, n * CLUSTER, &[1; 4096]).expect("room");
    }
    fs.fsync(ino, false).expect("synced");
    let filler = fs.file("filler");
    for size in [65536, 4096] {
        let mut at = fs.getattr(filler).expect("there").size;
        while let Ok(n) = fs.write(filler, at, &vec![3; size]) {
            at += n as u64;
        }
    }
    fs.fsync(filler, false).expect("synced");
    for n in 0..8 {
        fs.write(ino, n * CLUSTER + 4096, &[2; 4096])
            .expect("it has its cluster");
    }
    fs.fsync(ino, false).expect("synced");
    // Eight extents take a node of the tree, which is a cluster, too.
    assert_eq!(clusters_of(&fs, ino), 9);
    end(&ram, &fs);
}

/// cluster-C3 within a transaction: a cluster that is freed and a block of it that stays are told
/// apart after a cut.
#[test]
fn a_cut_finds_the_counts_right() {
    let (ram, fs) = mounted();
    let ino = fs.file("a");
    for n in 0..64_u64 {
        let at = n * 37 % 64 * 20_000;
        fs.write(ino, at, &[n as u8 + 1; 9000]).expect("room");
        let range = n * 11 % 60 * 20_000;
        fs.fallocate(ino, FallocateMode::PunchHole, range, 30_000)
            .expect("punched");
        if n % 8 == 7 {
            fs.fsync(ino, false).expect("synced");
            let held = fs.content(ino);
            let cut = fork(&ram);
            let again = mount(&cut, "");
            assert!(again.content(ino) == held, "{n}");
            end(&cut, &again);
        }
    }
    end(&ram, &fs);
}
