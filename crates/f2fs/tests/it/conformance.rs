//! F2FS under the conformance cases of `vfs`, in both worlds, with inline content and without.

use crate::common;
use block::Queue;
use blockdev::Ram;
use ondisk::f2fs::Features;
use rt::{Sim, SimConfig, WallTime};
use std::sync::Arc;
use testkit::conformance;
use varve_f2fs::mkfs::{DeviceContent, Options, plan};
use varve_f2fs::{F2fs, MountOptions};
use vfs::{Creds, FallocateMode, FileKind, FileSystem, XattrMode};

const BYTES: u64 = 64 << 20;

/// A fresh file system on a RAM device.
fn fresh(options: &str) -> Arc<dyn FileSystem> {
    let queue = Queue::new(Arc::new(Ram::new(BYTES)));
    let time = WallTime {
        secs: 1_704_067_200,
        nanos: 0,
    };
    plan(&Options::new(BYTES, [1; 16], time))
        .expect("a volume")
        .write(&queue, DeviceContent::Zeros)
        .expect("written");
    let options = MountOptions::parse(options).expect("valid");
    F2fs::mount(queue, options).expect("mounts")
}

#[test]
fn real_world() {
    conformance::run(|| fresh(""));
}

#[test]
fn simulated() {
    for options in [
        "",
        "noinline_data,noinline_dentry,noinline_xattr",
        "fsync_mode=strict,mode=lfs",
        "scheme=checkpoint-5-bg,fsync_mode=nobarrier",
    ] {
        for case in conformance::cases() {
            let sim = Sim::new(SimConfig::seeded(1));
            sim.run(|| conformance::run_case(case, || fresh(options)))
                .unwrap();
        }
    }
}

/// Only inodes have checksums: in other nodes the bytes that would tell of one, and hold it, are
/// addresses or attributes.
#[test]
fn nodes_that_are_no_inodes_keep_their_bytes() {
    if !common::have_tools() {
        return;
    }
    for scheme in ["", "scheme=f2fsj", "scheme=page-journal"] {
        let features = "extra_attr,inode_checksum";
        let ram = match scheme {
            "" => common::Image::new(128, &["-O", features]).load(),
            _ => common::made(&Options {
                features: Features::EXTRA_ATTR | Features::INODE_CHKSUM,
                ..common::options_with_ring(128, 512)
            }),
        };
        let fs = common::mount(&ram, scheme);
        let creds = Creds::default();
        let create = |name: &[u8]| fs.create(fs.root(), name, FileKind::File, 0o600, 0, creds);
        let (large, marked) = (
            create(b"large").unwrap().ino,
            create(b"marked").unwrap().ino,
        );
        let value = [0x33; 3000];
        (fs.fallocate(large, FallocateMode::Allocate, 0, 32 << 20)).expect("room");
        (fs.setxattr(marked, b"user.a", &value, XattrMode::Any)).expect("room");
        fs.sync().expect("synced");
        fs.unmount().expect("unmounts");
        common::judge(&ram);
        let fs = common::mount(&ram, scheme);
        let found = fs.getxattr(marked, b"user.a").expect("there");
        assert!(found == value, "{scheme}: the value has changed");
        fs.unmount().expect("unmounts");
    }
}

/// The volumes that mkfs.f2fs makes with other features.
#[test]
fn on_volumes_of_the_tools() {
    if !common::have_tools() {
        return;
    }
    let all = "extra_attr,inode_checksum,inode_crtime,flexible_inline_xattr,sb_checksum";
    let image = common::Image::new(64, &["-O", all]);
    conformance::run(|| common::mount(&image.load(), ""));
}
