//! The guard that keeps other software from a volume while its ring may hold committed epochs.

use super::common::{disk, fsck, mount, sim, try_mount, volume};
use super::images;
use block::Queue;
use blockdev::{Image, SpecDisk};
use fscore::FileSystem;
use ondisk::f2fs::{Features, Superblock};
use std::sync::Arc;
use testkit::Brief;
use varve_f2fs::{F2fs, Guard, MountOptions};

const RING: u32 = 64;

/// Whether both copies of the superblock in this content are guarded so.
fn guarded(content: &Image, guard: Guard) {
    for copy in 0..2 {
        let sb = Superblock::in_block(&content.block(copy)).expect("a superblock of ours");
        let found = (sb.features().has(Features::RO), sb.is_hidden());
        let wanted = (guard == Guard::RoBit, guard == Guard::Magic);
        assert_eq!(found, wanted, "copy {copy}, {guard}");
    }
}

fn plain(disk: &Arc<SpecDisk>, options: &str) -> fscore::FsResult<Arc<F2fs>> {
    let options = MountOptions::parse(options).expect("valid");
    F2fs::mount(Queue::new(disk.clone()), options)
}

/// Changes both copies of the superblock, or one.
fn patched(content: &Image, copies: &[u64], change: impl Fn(&mut Superblock)) -> Image {
    let mut content = content.clone();
    for &copy in copies {
        let mut block = content.block(copy).to_vec();
        let mut sb = Superblock::in_block(&block).expect("a superblock");
        change(&mut sb);
        sb.encode(&mut block);
        content.set_block(copy, block.into());
    }
    content
}

/// guard-W1, guard-W2: it is durable when the mount returns, still there after a cut, and gone
/// after an unmount.
#[test]
fn it_is_up_from_mount_to_unmount() {
    for guard in Guard::ALL {
        let options = format!("guard={guard}");
        let left = sim(3, || {
            let disk = disk(RING, volume(RING), 3);
            let fs = mount(&disk, &options);
            guarded(&disk.snapshot_lost(), guard);
            let file = fs.file("f");
            fs.fsync(file, false).expect("fsync");
            guarded(&disk.snapshot_lost(), guard);
            let cut = disk.power_off(5);
            // Its tasks end.
            fs.unmount().expect_err("the power is off");
            let disk = self::disk(RING, cut, 5);
            let fs = mount(&disk, &options);
            fs.find(b"f");
            guarded(&disk.snapshot_lost(), guard);
            fs.unmount().expect("unmounted");
            guarded(&disk.snapshot_lost(), Guard::None);
            disk.visible()
        });
        fsck(RING, &left);
    }
}

/// A volume that a cut left guarded is one for any mount of ours: another guard takes its place,
/// without a journal none.
#[test]
fn any_mount_of_ours_knows_it() {
    for first in Guard::ALL {
        sim(4, || {
            let disk = disk(RING, volume(RING), 3);
            let fs = mount(&disk, &format!("guard={first}"));
            let file = fs.file("f");
            fs.fsync(file, false).expect("fsync");
            let cut = disk.power_off(7);
            fs.unmount().expect_err("the power is off");
            for second in Guard::ALL {
                let disk = self::disk(RING, cut.clone(), 3);
                let fs = mount(&disk, &format!("guard={second}"));
                guarded(&disk.snapshot_lost(), second);
                fs.unmount().expect("unmounted");
            }
            let disk = self::disk(RING, cut.clone(), 3);
            let fs = plain(&disk, "ro").expect("to look at");
            fs.find(b"f");
            guarded(&disk.visible(), first);
            fs.unmount().expect("unmounted");
            let disk = self::disk(RING, cut, 3);
            let fs = plain(&disk, "").expect("without a journal");
            fs.find(b"f");
            guarded(&disk.snapshot_lost(), Guard::None);
            fs.unmount().expect("unmounted");
        });
    }
}

/// guard-W3: a cut between the copies leaves them different.
#[test]
fn copies_that_differ_are_both_written() {
    for one in [0, 1] {
        for (guard, other) in [
            (Guard::Magic, Guard::None),
            (Guard::RoBit, Guard::Magic),
            (Guard::None, Guard::RoBit),
        ] {
            let content = patched(&volume(RING), &[one], |sb| {
                sb.hide(other == Guard::Magic);
                let ro = match other {
                    Guard::RoBit => Features::RO,
                    _ => Features::NONE,
                };
                sb.set_features(sb.features().without(Features::RO) | ro);
            });
            sim(1, || {
                let disk = disk(RING, content.clone(), 1);
                let fs = mount(&disk, &format!("guard={guard}"));
                guarded(&disk.snapshot_lost(), guard);
                fs.unmount().expect("unmounted");
                guarded(&disk.snapshot_lost(), Guard::None);
            });
        }
    }
}

/// A volume that other software made read-only has no journal, and is not written.
#[test]
fn what_others_made_read_only_stays_so() {
    let fresh: Image = images::fresh(64).blocks().into_iter().collect();
    let ro = patched(&fresh, &[0, 1], |sb| {
        sb.set_features(sb.features() | Features::RO);
    });
    let disk = SpecDisk::from_image(images::caps(64 << 20), ro, 1);
    let words = plain(&disk, "").err().expect("refused").to_string();
    assert!(words.contains("mount read-only"), "{words}");
    plain(&disk, "ro").expect("to look at");
}

/// A region that overlaps the volume, or is damaged, is no reason to write.
#[test]
fn a_region_that_cannot_be_is_refused() {
    let content = volume(RING);
    // A larger volume, as a tool that does not know of the region may make it.
    let overlapping = patched(&content, &[0, 1], |sb| {
        sb.set_block_count(sb.block_count() + 512);
    });
    let words = try_mount(&disk(RING, overlapping, 1), "").err();
    let words = words.expect("refused").to_string();
    assert!(words.contains("lies inside of the volume"), "{words}");
}
