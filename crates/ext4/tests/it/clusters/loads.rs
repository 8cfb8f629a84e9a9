//! Loads on volumes with clusters: names, contents, full volumes, the kernel.

use super::{KIB, clustered, theirs, volume};
use crate::common::mounted::Mounted;
use crate::common::{Image, Volume, check_ram, have_tools, made, mount, said, try_mount};
use crate::kernel::both_ways;
use base::Rng;
use fscore::{Errno, FallocateMode, FileSystem, FsError};
use std::sync::Arc;
use testkit::Brief;
use testkit::full::{self, Plan};
use testkit::shadow::Mix;
use testkit::volume::{simulated, wander};
use varve_ext4::Ext4;
use varve_ext4::mkfs::{Kind, MkfsError, MkfsOptions, plan};

#[test]
fn our_mkfs_is_judged_by_e2fsck() {
    if !have_tools() {
        return;
    }
    for (mib, block, cluster) in [
        (16, 4096, 8 * KIB),
        (64, 4096, 64 * KIB),
        (65, 4096, 64 * KIB),
        (300, 4096, 1024 * KIB),
        (200, 2048, 16 * KIB),
        (700, 2048, 4 * KIB),
        (1500, 4096, 16 * KIB),
    ] {
        let options = MkfsOptions {
            block_bytes: block,
            ..clustered(mib, cluster)
        };
        let image = Image::of(&made(&options));
        image.fsck();
        let told = image.dumpe2fs();
        let wanted = format!("Cluster size:             {cluster}\n");
        assert!(
            told.contains(&wanted) && told.contains("bigalloc"),
            "{told}"
        );
        let (ram, fs) = image.mount("");
        let free = fs.statfs().expect("mounted").blocks_free;
        let line = format!("Free blocks:              {free}\n");
        assert!(told.contains(&line), "{free}: {told}");
        fs.check();
        image.end(&fs, &ram);
    }
}

#[test]
fn impossible_clusters_are_refused_by_name() {
    let error = |change: fn(&mut MkfsOptions)| {
        let mut options = clustered(64, 64 * KIB);
        change(&mut options);
        plan(&options).expect_err("impossible")
    };
    for bytes in [0, 4096, 12_288, 2 << 20] {
        let mut options = clustered(64, 64 * KIB);
        options.cluster_bytes = Some(bytes);
        let block_bytes = 4096;
        assert_eq!(
            plan(&options),
            Err(MkfsError::ClusterBytes { bytes, block_bytes })
        );
    }
    assert_eq!(error(|o| o.block_bytes = 1024), MkfsError::NoClusters);
    assert_eq!(error(|o| o.kind = Kind::Ext3), MkfsError::NoClusters);
}

#[test]
fn the_kernel_and_we_take_turns() {
    if !have_tools() {
        return;
    }
    for (image, options) in [
        (theirs(96, 8 * KIB), "scheme=emmc"),
        (theirs(160, 64 * KIB), ""),
        (Image::of(&made(&clustered(160, 16 * KIB))), "data=journal"),
        (Image::of(&made(&clustered(700, 256 * KIB))), ""),
    ] {
        both_ways(&image, options);
    }
}

/// What Linux writes and Varve does not, because a cluster is revoked in one handle (cluster-C5),
/// is refused by name, and can be read.
#[test]
fn clusters_that_are_too_large_are_read_only() {
    if !have_tools() {
        return;
    }
    let ram = theirs(512, 16_384 * KIB).load();
    let refused = try_mount(&ram, "").err().expect("refused").to_string();
    assert!(refused.contains("more than 1024 blocks"), "{refused}");
    let fs = mount(&ram, "ro");
    fs.find("lost+found");
    fs.unmount().expect("unmounts");
}

/// An inode that is mapped by pointers frees nothing: a pointer names a block, and what would be
/// freed are clusters.
#[test]
fn pointers_on_a_volume_with_clusters_are_damage() {
    if !have_tools() {
        return;
    }
    let image = theirs(96, 64 * KIB);
    let (ram, fs) = image.mount("");
    let file = fs.file("file");
    fs.write(file, 0, &[7; 20_000]).expect("room");
    image.end(&fs, &ram);
    // Without the flag of extents.
    image.debugfs_write(&["sif file flags 0"]);
    let (_, fs) = image.mount("");
    let free = fs.statfs().expect("mounted").blocks_free;
    let said = fs.unlink(fs.root(), b"file").and_then(|()| fs.sync());
    let said = said.expect_err("damage").to_string();
    assert!(said.contains("mapped by blocks"), "{said}");
    assert_eq!(fs.statfs().expect("mounted").blocks_free, free);
}

#[test]
fn names() {
    if !have_tools() {
        return;
    }
    for (seed, cluster) in [(1, 8 * KIB), (2, 64 * KIB)] {
        let image = Arc::new(Image::of(&volume(64, cluster)));
        let mix = Mix {
            names: 60,
            dirs: 25,
            longest: 40,
            fast_target: Some(59),
            // A target that takes a block takes its cluster.
            target_sectors: u64::from(cluster) / 512,
        };
        wander(&Volume::of(&image, ""), seed, 1500, mix);
    }
}

/// One file and what it has to hold, changed at random in every way.
fn fsx(fs: &Ext4, seed: u64, steps: u32, cluster: u64) -> Vec<u8> {
    const LEN: u64 = 2 << 20;
    let ino = fs.file("fsx");
    let mut held: Vec<u8> = Vec::new();
    let mut rng = Rng::named(seed, "fsx");
    for step in 0..steps {
        let at = rng.below(LEN);
        let most = [100, 5000, 300_000][rng.below(3) as usize];
        let len = 1 + rng.below(most);
        let (at, len) = match rng.below(3) {
            0 => (at / 4096 * 4096, len.next_multiple_of(4096)),
            1 => (at / cluster * cluster, len.next_multiple_of(cluster)),
            _ => (at, len),
        };
        let end = at + len;
        let old = held.len() as u64;
        let zero = |held: &mut Vec<u8>, grow: bool| {
            if grow && end > held.len() as u64 {
                held.resize(end as usize, 0);
            }
            let (from, to) = (at.min(held.len() as u64), end.min(held.len() as u64));
            held[from as usize..to as usize].fill(0);
        };
        let allocate = |mode| fs.fallocate(ino, mode, at, len);
        let moves = |mode, held: &mut Vec<u8>, apply: &dyn Fn(&mut Vec<u8>)| {
            let aligned = at % cluster == 0 && len % cluster == 0;
            let fits = match mode {
                FallocateMode::CollapseRange => end < old,
                _ => at < old,
            };
            let done = fs.fallocate(ino, mode, at, len).map_err(|e| e.errno());
            match aligned && fits {
                true => done.map(|()| apply(held)).expect("moved"),
                false => assert_eq!(done, Err(Errno::Inval), "{mode:?} {at} {len} of {old}"),
            }
        };
        match rng.below(14) {
            0..=4 => {
                let data = testkit::brief::pattern(u64::from(step), len as usize);
                assert_eq!(fs.write(ino, at, &data).expect("room"), data.len());
                if end > old {
                    held.resize(end as usize, 0);
                }
                held[at as usize..end as usize].copy_from_slice(&data);
            }
            5 => {
                fs.resize(ino, at).expect("resized");
                held.resize(at as usize, 0);
            }
            6 | 7 => {
                allocate(FallocateMode::PunchHole).expect("punched");
                zero(&mut held, false);
            }
            8 => {
                allocate(FallocateMode::ZeroRange).expect("zeroed");
                zero(&mut held, true);
            }
            9 => {
                allocate(FallocateMode::Allocate).expect("room");
                held.resize((old.max(end)) as usize, 0);
            }
            10 if old < LEN * 2 => moves(FallocateMode::InsertRange, &mut held, &|held| {
                let gap = vec![0; len as usize];
                held.splice(at as usize..at as usize, gap);
            }),
            10 | 11 => moves(FallocateMode::CollapseRange, &mut held, &|held| {
                held.drain(at as usize..end as usize);
            }),
            12 => fs.fsync(ino, step % 2 == 0).expect("synced"),
            _ => fs.drop_caches(),
        }
        fs.check();
        if step % 16 == 0 {
            assert!(fs.content(ino) == held, "seed {seed}, step {step}");
        }
    }
    fs.sync().expect("synced");
    assert!(fs.content(ino) == held, "seed {seed}");
    held
}

#[test]
fn every_change_of_a_file_on_threads_of_one() {
    for (seed, cluster, options) in [
        (1, 8 * KIB, ""),
        (2, 64 * KIB, "cache=1"),
        (3, 64 * KIB, "data=journal"),
        (4, 1024 * KIB, ""),
        (5, 16 * KIB, "scheme=emmc,small=64"),
        (6, 64 * KIB, "data=writeback,discard"),
        (7, 32 * KIB, "scheme=none"),
    ] {
        let ram = volume(96, cluster);
        let fs = crate::common::mount(&ram, options);
        let before = fs.statfs().expect("mounted").blocks_free;
        let held = fsx(&fs, seed, 400, cluster.into());
        fs.unmount().expect("unmounts");
        let report = check_ram(&ram);
        assert!(report.is_clean(), "seed {seed}: {}", said(&report));
        if have_tools() {
            let image = Image::of(&ram);
            image.fsck();
            assert!(image.cat("fsx") == held, "debugfs reads it");
        }
        // With the file all of its clusters go.
        let fs = crate::common::mount(&ram, options);
        fs.unlink(fs.root(), b"fsx").expect("removed");
        fs.sync().expect("synced");
        assert_eq!(
            fs.statfs().expect("mounted").blocks_free,
            before,
            "seed {seed}"
        );
        fs.unmount().expect("unmounts");
    }
}

/// The kernel changes a file of ours in every way, and we change one of the kernel's.
#[test]
fn a_file_goes_back_and_forth() {
    use std::os::unix::fs::FileExt;
    if !have_tools() {
        return;
    }
    for cluster in [16 * KIB, 128 * KIB] {
        let image = theirs(96, cluster);
        let Some(mounted) = Mounted::new(&image) else {
            return;
        };
        let file = std::fs::File::create(mounted.point.join("theirs")).expect("made");
        let mut held = vec![0; 3 << 20];
        for n in 0..60_u64 {
            let (at, len) = (n * 50_021 % (3 << 20), 4000 + n as usize * 13);
            let data = testkit::brief::pattern(n, len.min((3 << 20) - at as usize));
            file.write_all_at(&data, at).expect("written");
            held[at as usize..at as usize + data.len()].copy_from_slice(&data);
        }
        let end = held.iter().rposition(|&b| b != 0).map_or(0, |at| at + 1);
        drop(file);
        mounted.unmount();
        let (ram, fs) = image.mount("");
        let ino = fs.find("theirs");
        held.truncate(fs.getattr(ino).expect("there").size as usize);
        assert!(end <= held.len() && fs.content(ino) == held);
        for n in 0..40_u64 {
            let (at, len) = (n * 70_001 % (2 << 20), 9000);
            let range = at as usize..at as usize + len;
            match n % 3 {
                0 => {
                    fs.fallocate(ino, FallocateMode::PunchHole, at, len as u64)
                        .expect("punched");
                    held[range].fill(0);
                }
                1 => {
                    let data = testkit::brief::pattern(n, len);
                    fs.write(ino, at, &data).expect("written");
                    held[range].copy_from_slice(&data);
                }
                _ => {
                    fs.fallocate(ino, FallocateMode::ZeroRange, at, len as u64)
                        .expect("zeroed");
                    held[range].fill(0);
                }
            }
        }
        fsx(&fs, 9, 150, cluster.into());
        let ours = fs.content(fs.find("fsx"));
        image.end(&fs, &ram);
        let mounted = Mounted::new(&image).expect("it went before");
        assert!(std::fs::read(mounted.point.join("theirs")).expect("read") == held);
        assert!(std::fs::read(mounted.point.join("fsx")).expect("read") == ours);
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(mounted.point.join("fsx"));
        let file = file.expect("opened");
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, flags, 30_000, 90_000).expect("punched by the kernel");
        file.set_len(500_000).expect("truncated");
        drop(file);
        mounted.unmount();
        image.fsck();
    }
}

type Mode = (u32, &'static str);
const MODES: [Mode; 5] = [
    (8 * KIB, "cache=2"),
    (16 * KIB, "scheme=coalition,cache=2"),
    (32 * KIB, "scheme=none,cache=2"),
    (16 * KIB, "data=journal,cache=2"),
    (64 * KIB, "data=writeback"),
];

fn crowded((cluster, options): Mode, seed: u64, steps: usize) -> u64 {
    let plan = Plan {
        seed,
        tasks: 4,
        steps,
        room: u64::from(cluster) * 64,
        moves: u64::from(cluster),
    };
    let volume = Volume::new(volume(24, cluster), options);
    full::together(&volume, plan, options)
}

const ALL: full::Modes<Mode, 5> = full::Modes {
    modes: MODES,
    together: crowded,
};

#[test]
fn many_writers_on_a_full_volume() {
    ALL.on_threads(900);
}

#[test]
fn many_writers_on_a_full_volume_in_random_order() {
    ALL.in_random_order(300);
}

#[test]
fn who_fits_is_never_refused() {
    for (seed, (cluster, options)) in (0..).zip(MODES) {
        let fresh = || Volume::new(volume(24, cluster), options);
        full::shared(&fresh(), seed, 20);
        simulated(seed, options, || full::shared(&fresh(), seed, 4));
    }
}

/// Fast commits of the kernel are in blocks: they are refused by name, and nothing is written.
#[test]
fn fast_commits_of_the_kernel_are_refused_by_name() {
    if !have_tools() {
        return;
    }
    let image = Image::new(96, &["-O", "bigalloc,fast_commit", "-C", "65536"]);
    let Some(mounted) = Mounted::new(&image) else {
        return;
    };
    let path = mounted.point.join("f");
    std::fs::write(&path, b"x").expect("written");
    let file = std::fs::File::open(&path).expect("opened");
    rustix::fs::syncfs(&file).expect("synced");
    std::fs::write(&path, vec![1; 9000]).expect("written");
    file.sync_all().expect("synced");
    drop(file);
    let copy = image.dir.path().join("copy");
    std::fs::copy(&image.path, &copy).expect("a copy");
    mounted.unmount();
    let ram = crate::common::load(&copy);
    match crate::common::try_mount(&ram, "") {
        Err(FsError::Incompatible { what, .. }) => {
            assert!(
                what.contains("fast commits") && what.contains("bigalloc"),
                "{what}"
            );
        }
        Err(other) => panic!("{other}"),
        // This kernel wrote a full commit instead.
        Ok(fs) => assert!(fs.recovery().is_none_or(|r| r.fast_commits == 0)),
    }
    assert_eq!(ram.blocks(), crate::common::load(&copy).blocks());
}
