//! The size of a file after a cut is one that the file had.

use crate::common::{self, fork, made, options_of};
use base::Ino;
use block::Queue;
use blockdev::{BlockDevice, Caps, OverlayDisk, Ram};
use fscore::FileSystem;
use std::sync::Arc;
use testkit::Brief;
use varve_ext4::mkfs::{JournalSize, MkfsOptions};
use varve_ext4::{Ext4, MountOptions};

fn volume() -> Arc<Ram> {
    volume_in_blocks_of(4096)
}

fn volume_in_blocks_of(bytes: u32) -> Arc<Ram> {
    made(&MkfsOptions {
        journal: JournalSize::Blocks(1024),
        block_bytes: bytes,
        ..options_of(16)
    })
}

fn mount(device: &Arc<Ram>) -> Arc<Ext4> {
    common::mount(device, "commit=600")
}

/// The size of a file on a copy of the device, mounted: a cut that loses nothing.
fn size_after_a_cut(device: &Ram, ino: Ino) -> u64 {
    let fs = mount(&fork(device));
    let size = fs.getattr(ino).expect("it is there").size;
    fs.unmount().expect("unmounts");
    size
}

/// A file has grown, and its end has no block yet; a write into mapped blocks inside it must not
/// set the size to the end of that write.
#[test]
fn the_end_of_a_write_inside_a_grown_file_is_no_size() {
    let device = volume();
    let fs = mount(&device);
    let file = fs.file(b"a");
    fs.write(file, 7855, &[1; 512]).expect("written");
    fs.fsync(file, false).expect("synced");
    fs.write(file, 0, &[2; 13824]).expect("grows");
    let other = fs.file(b"b");
    fs.write(file, 0, &[3; 11776]).expect("inside");
    fs.fsync(other, false).expect("commits everything");
    assert_eq!(size_after_a_cut(&device, file), 8367);
    fs.fsync(file, false).expect("synced");
    assert_eq!(size_after_a_cut(&device, file), 13824);
    fs.unmount().expect("unmounts");
}

/// A device whose sectors are larger than the blocks cannot write one of these alone; Linux refuses
/// such a volume, too.
#[test]
fn blocks_smaller_than_a_sector_are_refused_by_name() {
    for (block, sector, fits) in [
        (1024, 4096, false),
        (2048, 4096, false),
        (1024, 512, true),
        (4096, 4096, true),
    ] {
        let device = volume_in_blocks_of(block);
        let caps = Caps {
            sector_bytes: sector,
            ..device.caps().clone()
        };
        let disk = OverlayDisk::new(caps, device.blocks().into_iter().collect());
        let options = MountOptions::parse("").expect("options");
        match Ext4::mount(Queue::new(disk), options) {
            Ok(fs) => {
                assert!(fits, "blocks of {block} on sectors of {sector} are mounted");
                fs.unmount().expect("unmounts");
            }
            Err(e) => {
                let words = format!("blocks of {block} bytes on a device with sectors of {sector}");
                assert!(!fits && e.to_string().contains(&words), "{e}");
            }
        }
    }
}

/// A range is taken away whose last page is dirty, and only the write-back of that page would have
/// written the size to the device (reshape-Z4).
#[test]
fn a_dropped_tail_takes_no_size_along() {
    use fscore::FallocateMode::{PunchHole, ZeroRange, ZeroRangeKeepSize};
    const LEN: u64 = 65_536;
    let ranges = [
        61_440..LEN,
        61_000..LEN,
        0..LEN,
        100..LEN + 9000,
        LEN - 1..LEN,
        61_440..LEN - 1,
        0..4096,
    ];
    for block in [1024, 2048, 4096] {
        for mode in [PunchHole, ZeroRange, ZeroRangeKeepSize] {
            for (range, options) in ranges.iter().flat_map(|r| [(r, ""), (r, ",data=journal")]) {
                let device = volume_in_blocks_of(block);
                let text = format!("commit=600{options}");
                let options = MountOptions::parse(&text).expect("options");
                let fs = Ext4::mount(Queue::new(device.clone()), options).expect("mounts");
                let file = fs.file(b"a");
                fs.write(file, 0, &[7; LEN as usize]).expect("written");
                let len = range.end - range.start;
                fs.fallocate(file, mode, range.start, len).expect("room");
                fs.fsync(file, false).expect("synced");
                let grown = mode == ZeroRange && range.end > LEN;
                let size = if grown { range.end } else { LEN };
                let mut content = vec![7; LEN as usize];
                content.resize(size as usize, 0);
                content[range.start as usize..size.min(range.end) as usize].fill(0);
                let what = format!("{mode:?} {range:?}, blocks of {block}, {text}");
                assert_eq!(fs.getattr(file).expect("there").size, size, "{what}");
                assert_eq!(size_after_a_cut(&device, file), size, "{what}, cut");
                fs.unmount().expect("unmounts");
                let fs = mount(&device);
                let mut found = vec![1; size as usize + 1];
                let read = fs.read(file, 0, &mut found).expect("readable");
                assert!(found[..read] == content, "{what}: other content");
                fs.unmount().expect("unmounts");
            }
        }
    }
}
