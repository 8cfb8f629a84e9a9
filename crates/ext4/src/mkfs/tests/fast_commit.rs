//! The feature `fast_commit`: against `mke2fs -O fast_commit`, dumpe2fs and e2fsck.

use super::*;

fn with_area(size_bytes: u64) -> MkfsOptions {
    MkfsOptions {
        fast_commits: FastCommitArea::Feature,
        ..options(size_bytes)
    }
}

/// Sizes with areas of 16, 64, 128, 256, 1024 and 4096 blocks.
#[test]
fn equal_to_mke2fs_with_fast_commits() {
    for mib in [16, 64, 200, 1024, 8192, 40 << 10, 200 << 10] {
        compare(&with_area(mib * MIB), &["-O", "fast_commit"]);
    }
    check(&with_area(64 * MIB));
}

/// The area follows from the size of the volume, and not from that of the journal.
#[test]
fn equal_to_mke2fs_with_fast_commits_and_options() {
    let journal = MkfsOptions {
        journal: JournalSize::Blocks(2048),
        ..with_area(1024 * MIB)
    };
    compare(&journal, &["-O", "fast_commit", "-J", "size=8"]);
    for (kind, block_bytes, mib) in [
        (Kind::Ext3, 4096, 200),
        (Kind::Ext3, 1024, 64),
        (Kind::Ext4, 1024, 64),
        (Kind::Ext4, 65_536, 2048),
    ] {
        let options = MkfsOptions {
            kind,
            block_bytes,
            ..with_area(mib * MIB)
        };
        compare(&options, &["-O", "fast_commit"]);
        check(&options);
    }
}

/// `dumpe2fs -h` of a volume made here: the feature, and how long the area is.
#[test]
fn dumpe2fs_shows_the_feature_and_the_area() {
    for (mib, journal, area) in [(64, 1040, 16), (1024, 8320, 128)] {
        let options = with_area(mib * MIB);
        let image = image_of(&planned(&options), options.size_bytes);
        let Some(output) = tool("dumpe2fs", &["-h"], image.path()) else {
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            line.map(str::trim)
        };
        let features = value("Filesystem features:").expect("a line of features");
        assert!(features.split(' ').any(|f| f == "fast_commit"), "{text}");
        assert_eq!(value("Fast commit length:"), Some(&*area.to_string()));
        assert_eq!(value("Total journal blocks:"), Some(&*journal.to_string()));
    }
}

/// A mount takes the named area as it is, and its fast commits lie there.
#[test]
fn a_mount_writes_fast_commits_into_the_area() {
    use fscore::{Creds, FileKind, FileSystem};
    let options = with_area(64 * MIB);
    let ram = Arc::new(blockdev::Ram::new(options.size_bytes));
    let queue = block::Queue::new(ram);
    let plan = planned(&options);
    plan.write(&queue, DeviceContent::Zeros)
        .expect("a RAM device does not fail");
    let mount = crate::MountOptions::parse("scheme=fast-commit").expect("options");
    let fs = crate::Ext4::mount(queue, mount).expect("mounts");
    assert_eq!(fs.remark(), None);
    let creds = Creds::default();
    let made = fs.create(fs.root(), b"f", FileKind::File, 0o600, 0, creds);
    fs.fsync(made.expect("room").ino, false).expect("synced");
    assert_eq!(fs.journal().stats().fast_commits, 1);
    fs.unmount().expect("unmounts");
}
