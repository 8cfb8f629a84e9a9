//! Checkpoints: what they leave on the device, when they are written, which of two packs counts,
//! and which packs are refused.
#![allow(clippy::disallowed_methods)]

use crate::common;
use crate::common::end;
use crate::common::fresh;
use crate::packs;
use base::{BLOCK_BYTES, BlockNo, Ino, Nanos};
use block::{BlockDevice, Caps, Class, Queue};
use blockdev::{Image, Ram, SpecDisk, write_block};
use fscore::{Creds, Errno, FileKind, FileSystem, FsError, FsResult};
use ondisk::f2fs::{Checkpoint, CpFlags, Geometry, Superblock};
use rt::{Sim, SimConfig};
use std::sync::Arc;
use testkit::Brief;
use varve_f2fs::{Cause, F2fs, MountOptions, Phase, Preset};

const MIB: u64 = 64;

/// A new volume.
fn made() -> Arc<Ram> {
    fresh(MIB)
}

fn quiet() -> MountOptions {
    MountOptions {
        timers: false,
        ..MountOptions::default()
    }
}

fn mount_with(device: Arc<dyn BlockDevice>, options: MountOptions) -> FsResult<Arc<F2fs>> {
    F2fs::mount(Queue::new(device), options)
}

fn mount(ram: &Arc<Ram>) -> Arc<F2fs> {
    mount_with(ram.clone(), quiet()).expect("mounts")
}

fn has(fs: &F2fs, name: &str) -> bool {
    match fs.lookup(fs.root(), name.as_bytes()) {
        Ok(_) => true,
        Err(FsError::Posix(Errno::NoEnt)) => false,
        Err(e) => panic!("{name}: {e}"),
    }
}

fn geometry(ram: &Ram) -> Geometry {
    let block = read(ram, 0);
    let sb = Superblock::in_block(&block).expect("superblock");
    Geometry::new(&sb, MIB << 8).expect("geometry")
}

fn read(ram: &Ram, block: u64) -> Vec<u8> {
    let found = ram.blocks().into_iter().find(|(n, _)| *n == block);
    found.map_or_else(|| vec![0; BLOCK_BYTES], |(_, bytes)| bytes.to_vec())
}

fn write(ram: &Ram, block: u64, bytes: Vec<u8>) {
    write_block(ram, BlockNo(block).lba(), Class::Data, bytes.into()).expect("in range");
}

fn edit(ram: &Ram, block: u64, change: impl FnOnce(&mut [u8])) {
    let mut bytes = read(ram, block);
    change(&mut bytes);
    write(ram, block, bytes);
}

/// First block and checkpoint of the packs.
fn packs(ram: &Ram) -> [(u64, Option<Checkpoint>); 2] {
    let geo = geometry(ram);
    [false, true].map(|second| {
        let at = u64::from(geo.cp_pack(second));
        (at, Checkpoint::parse(&read(ram, at), 0).ok())
    })
}

/// The pack that counts, and the other one's index.
fn newest(ram: &Ram) -> (u64, Checkpoint, usize) {
    let [a, b] = packs(ram);
    let version = |p: &Option<Checkpoint>| p.as_ref().map_or(0, Checkpoint::version);
    match version(&a.1) > version(&b.1) {
        true => (a.0, a.1.expect("sound"), 0),
        false => (b.0, b.1.expect("sound"), 1),
    }
}

/// Has fsck.f2fs judge the volume, if there is one.
fn judge(ram: &Ram) {
    if !common::have_tools() {
        return;
    }
    let image = common::Image::new(MIB, &[]);
    image.judge(ram);
}

#[test]
fn packs_alternate_and_each_is_what_fsck_wants() {
    let ram = made();
    for round in 0..4u32 {
        let fs = mount(&ram);
        let before = newest(&ram);
        for n in 0..300 {
            let ino = fs.file(format!("{round}-{n}"));
            fs.write(ino, 0, &[round as u8; 5000]).expect("write");
        }
        for n in 0..100 {
            fs.unlink(fs.root(), format!("{round}-{n}").as_bytes())
                .expect("unlink");
        }
        fs.sync().expect("sync");
        let after = newest(&ram);
        let written = fs.checkpoints().packs();
        assert!(written >= 1);
        assert_eq!(after.1.version(), before.1.version() + written);
        let turned = before.2 ^ (written % 2) as usize;
        assert_eq!(after.2, turned, "f2fs-checkpoint-C3: the other segment");
        assert!(!after.1.flags().has(CpFlags::UMOUNT));
        judge(&ram);
        fs.sync().expect("sync");
        assert_eq!(fs.checkpoints().packs(), written, "nothing had changed");
        fs.unmount().expect("unmount");
        assert!(newest(&ram).1.flags().has(CpFlags::UMOUNT));
        judge(&ram);
        let fs = mount(&ram);
        for n in [0, 99, 100, 299] {
            assert_eq!(has(&fs, &format!("{round}-{n}")), n >= 100);
        }
        fs.unmount().expect("unmount");
        assert_eq!(
            fs.checkpoints().packs(),
            0,
            "an unmount of nothing writes nothing"
        );
    }
}

#[test]
fn a_bad_pack_falls_back_and_says_so() {
    let ram = made();
    let fs = mount(&ram);
    fs.file("old");
    fs.sync().expect("sync");
    fs.file("new");
    fs.sync().expect("sync");
    drop(fs);
    let (at, cp, index) = newest(&ram);
    let last = at + u64::from(cp.pack_blocks()) - 1;
    for (block, byte) in [(at, 8), (at, 4095), (last, 0), (last, 200)] {
        let copy = common::fork(&ram);
        edit(&copy, block, |bytes| bytes[byte] ^= 1);
        let fs = mount(&copy);
        let note = fs.mount_notes().join("\n");
        assert!(
            note.contains(&format!("checkpoint pack {index} is not whole")),
            "{note}"
        );
        assert!(has(&fs, "old") && !has(&fs, "new"));
        fs.file("newer");
        fs.unmount().expect("unmount");
        assert!(
            newest(&copy).1.version() > cp.version(),
            "f2fs-checkpoint-C5"
        );
        judge(&copy);
    }
}

#[test]
fn without_a_whole_pack_the_volume_is_refused() {
    let ram = made();
    for (at, _) in packs(&ram) {
        edit(&ram, at, |bytes| bytes[100] ^= 1);
    }
    let e = mount_with(ram, quiet()).err().expect("refused").to_string();
    assert!(e.contains("neither checkpoint pack is whole"), "{e}");
    assert!(
        e.contains("pack 0:") && e.contains("pack 1:") && e.contains("fsck.f2fs"),
        "{e}"
    );
}

#[test]
fn a_damaged_superblock_is_replaced_by_its_copy() {
    let ram = made();
    for copy in [0, 1] {
        edit(&ram, copy, |bytes| bytes[1024] ^= 1);
        let options = MountOptions {
            read_only: true,
            ..quiet()
        };
        let fs = mount_with(ram.clone(), options).expect("mounts");
        assert!(fs.mount_notes()[0].contains(&format!("superblock {copy} is damaged")));
        fs.unmount().expect("unmount");
        assert!(
            Superblock::in_block(&read(&ram, copy)).is_err(),
            "f2fs-mount-M1"
        );
        mount(&ram).unmount().expect("unmount");
        assert!(
            Superblock::in_block(&read(&ram, copy)).is_ok(),
            "superblock-U2"
        );
        assert_eq!(read(&ram, 0)[1024..], read(&ram, 1)[1024..]);
    }
    edit(&ram, 0, |bytes| bytes[1024] ^= 1);
    edit(&ram, 1, |bytes| bytes[1024] ^= 1);
    let e = mount_with(ram, quiet()).err().expect("refused").to_string();
    assert!(e.contains("magic number"), "{e}");
}

#[test]
fn what_cannot_be_mounted_is_refused_by_name() {
    let with = |change: &dyn Fn(&mut Superblock)| {
        let ram = made();
        for copy in [0, 1] {
            edit(&ram, copy, |bytes| {
                let mut sb = Superblock::in_block(bytes).expect("superblock");
                change(&mut sb);
                sb.encode(bytes);
            });
        }
        ram
    };
    let refused = |ram: &Arc<Ram>, options: MountOptions| {
        mount_with(ram.clone(), options)
            .err()
            .expect("refused")
            .to_string()
    };
    let zoned = with(&|sb| sb.set_features_raw(sb.features_raw() | 2));
    assert!(refused(&zoned, quiet()).contains("blkzoned"));
    let alias = with(&|sb| sb.set_features_raw(sb.features_raw() | 0x8000));
    assert!(refused(&alias, quiet()).contains("device_alias"));
    let unknown = with(&|sb| sb.set_features_raw(sb.features_raw() | 1 << 20));
    assert!(refused(&unknown, quiet()).contains("FEATURE_20"));
    let ro = with(&|sb| sb.set_features_raw(sb.features_raw() | 0x4000));
    let e = refused(&ro, quiet());
    assert!(e.contains("ro") && e.contains("mount read-only"), "{e}");
    let read_only = MountOptions {
        read_only: true,
        ..quiet()
    };
    mount_with(ro, read_only)
        .expect("may be read")
        .unmount()
        .expect("unmount");
    // In blocks of 4 KiB this feature changes nothing.
    let packed = with(&|sb| sb.set_features_raw(sb.features_raw() | 0x1_0000));
    let fs = mount(&packed);
    let ino = fs.file("file");
    fs.write(ino, 0, &[1; 9000]).expect("write");
    fs.unmount().expect("unmount");
    mount(&packed).unmount().expect("unmount");
    let long = with(&|sb| sb.set_block_count(sb.block_count() + 512));
    let e = refused(&long, quiet());
    assert!(e.contains("the device is shorter"), "{e}");
}

#[test]
fn a_read_only_mount_writes_nothing() {
    let ram = made();
    let fs = mount(&ram);
    let ino = fs.file("file");
    fs.write(ino, 0, &[1; 9000]).expect("write");
    fs.fsync(ino, false).expect("fsync");
    fs.file("never synced");
    let image = common::fork(&ram);
    let before = image.blocks();
    let options = MountOptions {
        read_only: true,
        ..quiet()
    };
    let fs = mount_with(image.clone(), options).expect("mounts");
    assert!(has(&fs, "file") && !has(&fs, "never synced"));
    assert_eq!(fs.content(ino), [1; 9000]);
    assert_eq!(
        fs.unlink(fs.root(), b"file").err().map(|e| e.errno()),
        Some(Errno::RoFs)
    );
    fs.sync().expect("nothing to do");
    fs.unmount().expect("unmount");
    assert_eq!(image.blocks(), before, "f2fs-mount-M1");
}

#[test]
fn orphans_are_listed_and_freed() {
    let ram = made();
    let fs = mount(&ram);
    let free = fs.statfs().expect("statfs").inodes_free;
    let inos: Vec<Ino> = (0..3).map(|n| fs.file(format!("{n}"))).collect();
    for (n, &ino) in inos.iter().enumerate() {
        fs.write(ino, 0, &[1; 20_000]).expect("write");
        fs.open(ino).expect("open");
        fs.unlink(fs.root(), format!("{n}").as_bytes())
            .expect("unlink");
    }
    fs.sync().expect("sync");
    let (_, cp, _) = newest(&ram);
    assert_eq!((cp.orphan_blocks(), cp.pack_start_sum()), (1, 2));
    let cut = common::fork(&ram);
    let again = mount(&cut);
    assert_eq!(again.statfs().expect("statfs").inodes_free, free);
    again.unmount().expect("unmount");
    assert_eq!(newest(&cut).1.orphan_blocks(), 0);
    judge(&cut);
}

#[test]
fn triggers_write_checkpoints_and_are_counted() {
    // Less would make room for logs by checkpoints of the cleaner.
    let ram = fresh(256);
    let mut options = quiet();
    options.checkpoint.triggers.cached_nat_max = 0;
    options.checkpoint.triggers.dirty_node_segments = 1;
    let fs = mount_with(ram.clone(), options.clone()).expect("mounts");
    for n in 0..1500 {
        fs.file(format!("{n}"));
    }
    let by_cause = fs.checkpoints().by_cause;
    let written = by_cause.get(&Cause::DirtyNodes).copied();
    assert!(written >= Some(2), "{by_cause:?}");
    fs.unmount().expect("unmount");
    options.checkpoint.triggers.dirty_node_segments = 100;
    options.checkpoint.triggers.dirty_nat_percent = 1;
    options.checkpoint.triggers.prefree_percent = 100;
    let fs = mount_with(ram.clone(), options.clone()).expect("mounts");
    for n in 0..1500 {
        fs.unlink(fs.root(), format!("{n}").as_bytes())
            .expect("unlink");
    }
    for n in 0..3000 {
        fs.file(format!("again {n}"));
    }
    let stats = fs.checkpoints();
    assert!(stats.by_cause.contains_key(&Cause::DirtyNat), "{stats:?}");
    assert!(stats.nat_blocks > 0 && stats.time.contains_key(&Phase::Pack));
    fs.unmount().expect("unmount");
    options.checkpoint.triggers.dirty_nat_percent = 100;
    options.checkpoint.triggers.dirty_nat_max = 1000;
    let fs = mount_with(ram.clone(), options).expect("mounts");
    for n in 0..2500 {
        fs.unlink(fs.root(), format!("again {n}").as_bytes())
            .expect("unlink");
    }
    let by_cause = fs.checkpoints().by_cause;
    assert_eq!(by_cause.get(&Cause::DirtyNat), Some(&2), "{by_cause:?}");
    end(&fs, &ram);
}

/// Linux's `excess_cached_nats`: as the kernel's F2FS has it, 20,000 directories are made without a
/// checkpoint.
#[test]
fn operations_look_at_triggers_only_if_many_nat_entries_are_in_memory() {
    let ram = fresh(256);
    let mut options = quiet();
    options.checkpoint.triggers.cached_nat_max = 2000;
    options.checkpoint.triggers.dirty_node_segments = 1;
    let fs = mount_with(ram.clone(), options).expect("mounts");
    let make = |from: u32, to: u32| {
        (from..to).for_each(|n| {
            fs.file(format!("{n}"));
        })
    };
    make(0, 1900);
    let by_cause = fs.checkpoints().by_cause;
    assert!(by_cause.is_empty(), "{by_cause:?}");
    make(1900, 2100);
    let by_cause = fs.checkpoints().by_cause;
    assert_eq!(by_cause.get(&Cause::DirtyNodes), Some(&1), "{by_cause:?}");
    end(&fs, &ram);
}

/// With fewer of them the flusher looks, when nodes have been dirty for 30 s.
#[test]
fn the_flusher_looks_at_triggers_when_nodes_are_old() {
    let made = Sim::new(SimConfig::seeded(5)).run(|| {
        let mut options = MountOptions::default();
        options.checkpoint.triggers.interval = None;
        options.checkpoint.triggers.dirty_node_segments = 1;
        let fs = mount_with(fresh(256), options).expect("mounts");
        (0..600).for_each(|n| {
            fs.file(format!("{n}"));
        });
        let mut seen = Vec::new();
        for seconds in [29, 7, 40] {
            rt::sleep(Nanos::from_secs(seconds));
            seen.push(fs.checkpoints().by_cause.get(&Cause::DirtyNodes).copied());
        }
        fs.unmount().expect("unmount");
        seen
    });
    assert_eq!(made.unwrap(), [None, Some(1), Some(1)]);
}

/// In a simulation, on a device that takes time.
fn simulated<T: Send + 'static>(
    seed: u64,
    run: impl FnOnce(Arc<SpecDisk>) -> T + Send + 'static,
) -> T {
    let image = image_of(&made());
    let outcome = Sim::new(SimConfig::seeded(seed))
        .run(move || run(SpecDisk::from_image(caps(), image, seed)));
    outcome.unwrap()
}

fn image_of(ram: &Ram) -> Image {
    let mut image = Image::new();
    for (n, bytes) in ram.blocks() {
        image.set_block(n, bytes);
    }
    image
}

fn caps() -> Caps {
    Caps {
        volatile_cache: true,
        fua: true,
        reliable_granule: Some(4096),
        tear_granule: Some(4096),
        ..Ram::new(MIB << 20).caps()
    }
}

#[test]
fn the_timer_writes_when_something_has_changed() {
    let (packs, waited) = simulated(3, |disk| {
        let options = MountOptions {
            checkpoint: Preset::Checkpoint1.policy(),
            ..MountOptions::default()
        };
        let fs = mount_with(disk, options).expect("mounts");
        for n in 0..50 {
            fs.file(format!("{n}"));
            rt::sleep(Nanos::from_millis(100));
        }
        rt::sleep(Nanos::from_secs(20));
        let stats = fs.checkpoints();
        fs.unmount().expect("unmount");
        (stats.by_cause[&Cause::Timer], fs.freezes()[&Cause::Timer])
    });
    assert!((5..=7).contains(&packs), "{packs} in 5 s and 20 idle ones");
    assert!(waited.held > Nanos(0) && waited.freezes >= packs);
}

/// The policy with a task in the background, and a cache of 1 MiB.
fn in_background() -> MountOptions {
    let mut options = MountOptions {
        checkpoint: Preset::Checkpoint5Bg.policy(),
        cache_bytes: 1 << 20,
        ..MountOptions::default()
    };
    options.checkpoint.triggers.cached_nat_max = 0;
    options.checkpoint.triggers.dirty_node_segments = 1;
    options
}

/// Makes so many files at one moment, before the task comes: what wrote checkpoints.
fn at_once(files: u32, options: MountOptions) -> std::collections::BTreeMap<Cause, u64> {
    let made = Sim::new(SimConfig::seeded(4)).run(move || {
        let ram = fresh(256);
        let fs = mount_with(ram, options).expect("mounts");
        for n in 0..files {
            fs.file(format!("{n}"));
        }
        let by_cause = fs.checkpoints().by_cause;
        fs.unmount().expect("unmount");
        by_cause
    });
    made.unwrap()
}

/// 512 dirty nodes are the threshold here.
#[test]
fn in_the_background_policy_no_count_makes_a_checkpoint_due() {
    let by_cause = at_once(1900, in_background());
    assert!(by_cause.is_empty(), "{by_cause:?}");
    let mut stock = in_background();
    stock.checkpoint.background = None;
    let by_cause = at_once(1900, stock);
    assert_eq!(by_cause.get(&Cause::DirtyNodes), Some(&3), "{by_cause:?}");
}

/// Four times the threshold, as half of the cache holds less.
#[test]
fn in_the_background_policy_memory_and_room_are_protected() {
    let by_cause = at_once(2500, in_background());
    assert_eq!(by_cause.get(&Cause::DirtyNodes), Some(&1), "{by_cause:?}");
    let mut idle = in_background();
    idle.timers = false;
    let by_cause = at_once(1900, idle);
    assert_eq!(
        by_cause.get(&Cause::DirtyNodes),
        Some(&3),
        "nobody else writes one: {by_cause:?}"
    );
}

#[test]
fn the_background_policy_has_a_task_of_its_own() {
    let stats = simulated(4, |disk| {
        let options = MountOptions {
            checkpoint: Preset::Checkpoint5Bg.policy(),
            ..MountOptions::default()
        };
        let fs = mount_with(disk, options).expect("mounts");
        for n in 0..40 {
            fs.file(format!("{n}"));
            rt::sleep(Nanos::from_millis(500));
        }
        let stats = fs.checkpoints();
        fs.unmount().expect("unmount");
        stats
    });
    assert!(
        (3..=4).contains(&stats.by_cause[&Cause::Background]),
        "{stats:?}"
    );
}

/// f2fs-checkpoint-C1 to f2fs-checkpoint-C6: at whatever moment of a checkpoint the power goes, the
/// old state or the new one mounts, and nothing is wrong with it.
#[test]
fn a_cut_leaves_the_old_state_or_the_new_one() {
    old_or_new(0..6);
}

#[test]
#[ignore = "twenty seconds: forty seeds"]
fn a_cut_leaves_the_old_state_or_the_new_one_of_many() {
    old_or_new(6..46);
}

fn old_or_new(seeds: std::ops::Range<u64>) {
    let (mut old, mut new) = (0, 0);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let cuts = packs::cuts(seed, None).value.expect("no failure");
        for (n, cut) in cuts.into_iter().enumerate() {
            let ram = Arc::new(cut.image.to_ram(packs::MIB << 20));
            match packs::check(&ram, &cut).unwrap_or_else(|e| panic!("seed {seed}, cut {n}: {e}")) {
                packs::Found::Old => old += 1,
                packs::Found::New => new += 1,
            }
            if seed % 8 == 0 {
                judge(&ram);
            }
        }
    }
    assert!(old > 3 * count && new >= count, "{old} old, {new} new");
}

#[test]
fn after_a_failed_write_no_pack_follows() {
    for class in [Class::Node, Class::Nat, Class::CheckpointPack] {
        simulated(9, move |disk| {
            let fs = mount_with(disk.clone(), quiet()).expect("mounts");
            for n in 0..600 {
                fs.file(format!("{n}"));
            }
            disk.fail_writes(Some(class));
            fs.sync().expect_err("a write failed");
            disk.heal();
            let first = fs.failed().expect("f2fs-checkpoint-C7: latched");
            assert!(!first.is_empty());
            let e = fs.sync().expect_err("latched");
            assert!(matches!(e, FsError::Aborted { .. }), "{e}");
            let made = fs.create(fs.root(), b"x", FileKind::File, 0o644, 0, Creds::default());
            assert!(made.is_err());
            assert!(has(&fs, "0"), "reading goes on");
            fs.unmount().expect_err("says that something was lost");
            let ram = Arc::new(disk.visible().to_ram(MIB << 20));
            for copy in [0, 1] {
                let sb = Superblock::in_block(&read(&ram, copy)).expect("whole");
                assert_eq!(sb.stop_reasons()[3], 1, "a write failed");
            }
            let fs = mount(&ram);
            assert!(
                !has(&fs, "0"),
                "f2fs-checkpoint-C7: no pack of the failed state"
            );
        });
    }
}

#[test]
fn frozen_means_that_nothing_changes() {
    simulated(5, |disk| {
        let fs = mount_with(disk.clone(), quiet()).expect("mounts");
        fs.file("a");
        fs.freeze().expect("freeze");
        assert!(matches!(fs.freeze(), Err(FsError::Posix(Errno::Busy))));
        let other = fs.clone();
        let task = rt::spawn("changer", move || other.file("b"));
        rt::sleep(Nanos::from_secs(1));
        assert!(!task.is_finished(), "ops-O2");
        let ram = Arc::new(disk.snapshot_lost().to_ram(MIB << 20));
        let copy = mount(&ram);
        assert!(has(&copy, "a") && !has(&copy, "b"));
        fs.thaw().expect("thaw");
        task.join().expect("no panic");
        assert!(matches!(fs.thaw(), Err(FsError::Posix(Errno::Inval))));
        assert!(has(&fs, "b"));
        assert!(fs.freezes()[&Cause::FsFreeze].waited >= Nanos::from_millis(900));
        fs.freeze().expect("freeze");
        fs.thaw().expect("thaw");
        fs.unmount().expect("unmount");
    });
}

#[test]
fn without_checkpoints_an_unmount_goes_back() {
    let ram = made();
    let fs = mount(&ram);
    let kept = fs.file("kept");
    fs.write(kept, 0, &[1; 100_000]).expect("write");
    fs.sync().expect("sync");
    fs.disable_checkpoints().expect("room enough");
    assert!(newest(&ram).1.flags().has(CpFlags::DISABLED));
    let pack = newest(&ram).0;
    fs.unlink(fs.root(), b"kept").expect("unlink");
    let mut full = false;
    'fill: for n in 0..200 {
        let ino = match fs.create(
            fs.root(),
            format!("{n}").as_bytes(),
            FileKind::File,
            0o644,
            0,
            Creds::default(),
        ) {
            Ok(attr) => attr.ino,
            Err(e) => {
                assert_eq!(e.errno(), Errno::NoSpc);
                full = true;
                break;
            }
        };
        for k in 0..8 {
            if let Err(e) = fs.write(ino, k << 16, &[2; 1 << 16]) {
                assert_eq!(e.errno(), Errno::NoSpc, "disable-B1: {e}");
                full = true;
                break 'fill;
            }
        }
        fs.sync().expect("does nothing");
        fs.fsync(ino, false).expect("does nothing");
    }
    assert!(full, "disable-B1: what was freed is not free");
    assert_eq!(fs.failed(), None);
    assert_eq!(newest(&ram).0, pack, "no pack");
    end(&fs, &ram);
    let fs = mount(&ram);
    assert!(has(&fs, "kept") && !has(&fs, "0"));
    assert_eq!(fs.content(kept), [1; 100_000]);
    assert!(
        !newest(&ram).1.flags().has(CpFlags::DISABLED),
        "a mount with checkpoints says so"
    );
    fs.disable_checkpoints().expect("room enough");
    fs.file("later");
    fs.enable_checkpoints().expect("again");
    fs.unmount().expect("unmount");
    let fs = mount(&ram);
    assert!(has(&fs, "later"));
    end(&fs, &ram);
}
