//! Directories with holes: a lookup reads a page that the directory has lost, as zeros, and no cut
//! turns that into a page on the device.

use super::common::{cut_and_mount, disk, mount, sim, try_mount_alone, volume};
use fscore::FileSystem;
use std::collections::BTreeSet;
use testkit::Brief;

const RING: u32 = 256;

/// Entries in an inode are no addresses, although some of their bytes look like those of blocks
/// that are in use: what a number shifted by a byte of a hash makes.
#[test]
fn entries_that_lay_in_the_inode_are_no_blocks_to_free() {
    sim(1, || {
        let first = disk(RING, volume(RING), 1);
        let fs = mount(&first, "");
        let root = fs.root();
        let files: Vec<_> = (0..24).map(|n| fs.file(format!("f{n}"))).collect();
        let dirs: Vec<_> = (0..12)
            .map(|d| {
                let name = format!("dir{d}");
                let dir = fs.make_dir(root, name).expect("made");
                for (n, &ino) in files.iter().enumerate() {
                    let name = format!("l{d}.{n}");
                    fs.link(ino, dir, name.as_bytes()).expect("links");
                }
                dir
            })
            .collect();
        fs.write_home_now().expect("applies");
        fs.check_home();
        for &dir in &dirs {
            for n in 0..10 {
                let name = format!("{n:0>200}");
                fs.link(files[0], dir, name.as_bytes()).expect("links");
            }
            fs.write_home_now().expect("applies");
            fs.check();
            fs.check_home();
        }
        fs.unmount().expect("unmounts");
    });
}

#[test]
fn a_page_that_was_dropped_and_read_as_a_hole_does_not_come_back() {
    for seed in 0..4 {
        sim(seed, || {
            let first = disk(RING, volume(RING), seed);
            let fs = try_mount_alone(&first, "noinline_dentry,jlow=5").expect("mounts");
            let names: Vec<String> = (0..60).map(|n| format!("{n:0>200}")).collect();
            for name in &names {
                fs.file(name);
            }
            fs.write_home_now().expect("applies");
            let root = fs.root();
            let left = 3 * seed as usize;
            for name in &names[left..] {
                fs.unlink(root, name.as_bytes()).expect("removed");
            }
            for name in &names[left..] {
                fs.lookup(root, name.as_bytes()).expect_err("it is gone");
            }
            fs.fsync(root, false).expect("syncs");
            fs.check();
            let (_second, fs) = cut_and_mount(RING, &first, "noinline_dentry", seed);
            fs.check();
            let entries = fs.readdir(root, 0, 1000).expect("names");
            let there: BTreeSet<String> = entries
                .iter()
                .map(|e| String::from_utf8_lossy(&e.name).into_owned())
                .filter(|name| !name.starts_with('.'))
                .collect();
            assert_eq!(there, names[..left].iter().cloned().collect());
            fs.write_home_now().expect("applies");
            fs.check();
            fs.check_home();
            fs.unmount().expect("unmounts");
        });
    }
}
