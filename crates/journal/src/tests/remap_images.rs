//! hazards-R1: how other programs read a log whose images were remapped. With `share` they recover
//! it as we do. With `move` the log blocks are cleared: the log carries a feature that keeps them
//! out; without the feature (the published format) they refuse the log, or write zeros home.

use super::e2fsprogs::{BLOCKS, FREE, Image, kernel_mounts, run, set_needs_recovery};
use super::*;
use crate::Preset;
use block::{Caps, RemapCaps};
use blockdev::SpecDisk;
use ondisk::jbd2::JournalIncompat;
use rt::{Sim, SimConfig};

const WRITTEN: u64 = 40;

fn remapping() -> Caps {
    Caps {
        remap: Some(RemapCaps {
            granule: 4096,
            pairs_max: 1 << 14,
        }),
        ..CrashDisk::new(BLOCKS, BTreeMap::new()).caps()
    }
}

/// A device with that content after some transactions and a cut that keeps everything: the log is
/// not empty, its images are home.
fn remapped(image: &Image, preset: Preset, csum: bool) -> BTreeMap<u64, Bytes> {
    let content: blockdev::Image = image.load("fs").into_iter().collect();
    let place = image.place.clone();
    let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
        let disk = SpecDisk::from_image(remapping(), content, 1);
        let queue = Queue::new(disk.clone() as Arc<dyn BlockDevice>);
        let Opened::Clean(log) = open(queue.clone(), place).expect("opens") else {
            panic!("the log is clean")
        };
        let options = Options {
            scheme: preset.scheme(),
            checksum_v3: csum,
            ..quiet()
        };
        let journal = log.start(options).expect("starts");
        for n in 0..WRITTEN {
            let mut handle = journal.start(2).expect("room");
            let block = BlockNo(FREE + n / 2);
            handle.create(block, filled(n as u8 + 1)).expect("credit");
            journal
                .commit(handle.finish().expect("runs"))
                .expect("commits");
        }
        while journal.stats().blocks_remapped < WRITTEN {
            rt::sleep(base::Nanos::from_millis(1));
        }
        queue.flush().expect("flushes");
        let visible = disk.visible();
        crash(&journal);
        (0..BLOCKS).map(|n| (n, visible.block(n))).collect()
    });
    let mut content: BTreeMap<u64, Bytes> = outcome.unwrap();
    set_needs_recovery(&mut content);
    content
}

/// The log as published: nothing says that its images were moved home.
fn unmark(content: &mut BTreeMap<u64, Bytes>, image: &Image) {
    let home = image.place.block(crate::LogBlock(0)).0;
    let mut block = content[&home].to_vec();
    let mut sb = Superblock::parse(&block).expect("valid");
    sb.set_incompat(sb.incompat().without(JournalIncompat::REMAP_MOVE));
    sb.encode(&mut block);
    content.insert(home, block.into());
}

fn is_home(content: &BTreeMap<u64, Bytes>) -> bool {
    (0..WRITTEN / 2).all(|n| content[&(FREE + n)] == filled(2 * n as u8 + 2))
}

const FORMATS: [(&str, bool); 2] = [
    ("metadata_csum,64bit", true),
    ("^metadata_csum,^64bit", false),
];

#[test]
fn a_shared_log_is_recovered_by_everybody() {
    for (features, csum) in FORMATS {
        let Some(image) = Image::make(features) else {
            return;
        };
        let content = remapped(&image, Preset::Jftl, csum);
        assert!(is_home(&content), "{features}: REMAP brings them home");
        image.store("dirty", &content);
        assert!(is_home(&image.fsck("dirty")), "{features}: e2fsck");
        let mounted = kernel_mounts(&image.path("dirty"), &image.path("mnt"));
        assert_ne!(mounted, Some(false), "{features}: the kernel");
        if mounted.is_some() {
            assert!(is_home(&image.load("dirty")), "{features}: the kernel");
        }
    }
}

#[test]
fn a_moved_log_keeps_others_out_and_is_recovered_by_us() {
    for (features, csum) in FORMATS {
        let Some(image) = Image::make(features) else {
            return;
        };
        let content = remapped(&image, Preset::JftlPaper, csum);
        assert!(is_home(&content), "{features}");
        image.store("dirty", &content);
        let path = image.path("dirty");
        let text = run("e2fsck", &["-fy", &path], None).expect("runs");
        assert!(
            text.contains("unknown incompatible feature flag"),
            "{features}: {text}"
        );
        let mounted = kernel_mounts(&path, &image.path("mnt"));
        assert_ne!(mounted, Some(true), "{features}: the kernel takes it");
        assert!(image.load("dirty") == content, "{features}: changed");

        let rig = image.rig("dirty");
        let (_, report) = rig.recover().expect("recovers");
        assert_eq!(
            (report.blocks_moved, report.blocks_replayed),
            (WRITTEN / 2, 0),
            "{features}"
        );
        image.store("clean", &rig.disk.visible());
        assert!(is_home(&image.load("clean")), "{features}");
        let path = image.path("clean");
        assert!(mounted.is_none() || kernel_mounts(&path, &image.path("mnt")) == Some(true));
    }
}

/// The incompatibility of the published mechanism.
#[test]
fn a_moved_log_without_its_mark_is_refused_or_destroys_homes() {
    for (features, csum) in FORMATS {
        let Some(image) = Image::make(features) else {
            return;
        };
        let mut content = remapped(&image, Preset::JftlPaper, csum);
        unmark(&mut content, &image);
        image.store("dirty", &content);
        image.store("copy", &content);
        let mounted = kernel_mounts(&image.path("copy"), &image.path("mnt"));
        let text = run("e2fsck", &["-fy", &image.path("dirty")], None).expect("runs");
        let ours = image.rig("copy");
        match csum {
            true => {
                assert_ne!(mounted, Some(true), "the kernel checks images");
                assert!(
                    text.contains("checksum") || text.contains("orrupt"),
                    "{text}"
                );
            }
            false => {
                assert!(!is_home(&image.load("dirty")), "zeros over good homes");
                if mounted == Some(true) {
                    assert!(!is_home(&image.load("copy")), "the kernel writes zeros");
                }
            }
        }
        if mounted != Some(true) {
            match (csum, ours.recover()) {
                (true, result) => assert!(result.is_err(), "refused"),
                (false, result) => {
                    result.expect("nothing says what is wrong");
                    let left: BTreeMap<_, _> =
                        (0..BLOCKS).map(|n| (n, ours.disk.content(n))).collect();
                    assert!(!is_home(&left), "zeros over good homes");
                }
            }
        }
    }
}
