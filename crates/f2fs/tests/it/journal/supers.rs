//! The superblocks of the journal: what a mount, an apply and an unmount write to them.

use super::common::{cut_and_mount, device_bytes, disk, fsck, mount, sim, try_mount_alone, volume};
use base::BLOCK_BYTES;
use blockdev::Image;
use fscore::FileSystem;
use ondisk::f2fs::journal::JournalSuper;
use testkit::Brief;
use varve_f2fs::mkfs::RING_AT;

/// Both copies.
fn supers(ring: u32, content: &Image) -> [JournalSuper; 2] {
    let region = u64::from(ring + RING_AT).next_multiple_of(512);
    let start = device_bytes(ring) / BLOCK_BYTES as u64 - region;
    [0, 1].map(|copy| JournalSuper::parse(&content.block(start + copy)).expect("sound"))
}

fn newest(ring: u32, content: &Image) -> JournalSuper {
    let [a, b] = supers(ring, content);
    if a.generation > b.generation { a } else { b }
}

#[test]
fn an_unmount_leaves_the_ring_empty() {
    const RING: u32 = 64;
    let left = sim(1, || {
        let disk = disk(RING, volume(RING), 1);
        let fresh = newest(RING, &disk.visible());
        assert!(fresh.clean);
        let fs = mount(&disk, "");
        let mounted = supers(RING, &disk.visible());
        for sb in mounted {
            assert!(!sb.clean && sb.incarnation != fresh.incarnation, "{sb:?}");
        }
        for n in 0..5 {
            let ino = fs.file(format!("f{n}"));
            fs.fsync(ino, false).expect("durable");
        }
        fs.unmount().expect("unmounted");
        let last = newest(RING, &disk.visible());
        assert!(last.clean && last.incarnation == mounted[0].incarnation);
        assert!(last.head_epoch >= 5 && last.tail_epoch == last.head_epoch + 1);
        assert!(last.checkpoint_version > fresh.checkpoint_version);
        disk.visible()
    });
    fsck(RING, &left);
}

#[test]
fn the_tail_is_noted_behind_applies() {
    const RING: u32 = 1024;
    sim(1, || {
        let disk = disk(RING, volume(RING), 1);
        let fs = try_mount_alone(&disk, "").expect("mounted");
        let first = newest(RING, &disk.visible());
        let mut writes = 0;
        let mut last = first;
        for n in 0..600 {
            let ino = fs.file(format!("f{n}"));
            fs.fsync(ino, false).expect("durable");
            if n % 100 == 99 {
                fs.write_home_now().expect("applied");
                let now = newest(RING, &disk.visible());
                assert!(now.generation - last.generation <= 1);
                writes += now.generation - last.generation;
                last = now;
            }
        }
        // Not behind each of them.
        assert!((1..6).contains(&writes), "{writes}");
        assert!(
            !last.clean && last.tail_epoch > first.tail_epoch + 200,
            "{last:?}"
        );
        let (_, fs) = cut_and_mount(RING, &disk, "", 1);
        fs.find(b"f599");
        fs.unmount().expect("unmounted");
    });
}
