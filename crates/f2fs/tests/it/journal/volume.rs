//! Making and mounting volumes with a journal.

use super::common::{RINGS, VOLUME_MIB, disk, fsck, mount, sim, try_mount, volume};
use super::images;
use block::Queue;
use fscore::FileSystem;
use varve_f2fs::mkfs::{JournalSize, MkfsError, Options, plan};
use varve_f2fs::{F2fs, MountOptions};

#[test]
fn fsck_takes_a_fresh_volume_with_a_journal_for_a_plain_one() {
    for ring in RINGS {
        fsck(ring, &volume(ring));
    }
}

#[test]
fn a_fresh_volume_is_mounted_and_unmounted() {
    for ring in RINGS {
        let left = sim(1, || {
            let disk = disk(ring, volume(ring), 1);
            let fs = mount(&disk, "");
            fs.check();
            fs.unmount().expect("unmounted");
            disk.visible()
        });
        fsck(ring, &left);
    }
}

#[test]
fn a_volume_without_a_region_is_refused_with_what_would_do() {
    let ram = images::fresh(64);
    let options = MountOptions::parse("scheme=f2fsj").expect("valid");
    let refused = F2fs::mount(Queue::new(ram), options).err();
    let words = refused.expect("no region").to_string();
    assert!(words.contains("`varve mkfs --fs f2fs -J "), "{words}");
}

#[test]
fn a_device_shorter_than_its_region_is_refused() {
    let ring = 64;
    let disk = disk(ring, volume(ring), 1);
    let mut caps = super::common::caps(ring);
    caps.sectors = (VOLUME_MIB << 20) / 512 + 32 * 8;
    let short = blockdev::SpecDisk::from_image(caps, disk.visible(), 1);
    let words = try_mount(&short, "").err().expect("cut off").to_string();
    assert!(words.contains("the device at"), "{words}");
}

#[test]
fn a_ring_that_no_operation_fits_into_is_refused_with_the_least() {
    let of = |journal| Options {
        journal: Some(journal),
        ..images::options_of(64 << 20)
    };
    for small in [JournalSize::Ring(15), JournalSize::Bytes(17 << 12)] {
        let refused = plan(&of(small)).expect_err("too small");
        assert!(matches!(refused, MkfsError::Journal { .. }), "{refused}");
        assert!(
            refused.to_string().contains("from 73728 bytes"),
            "{refused}"
        );
    }
    plan(&of(JournalSize::Ring(16))).expect("the least");
    let large = plan(&of(JournalSize::Bytes(60 << 20))).expect_err("no room for the F2FS");
    assert!(matches!(large, MkfsError::TooSmall { .. }), "{large}");
}
