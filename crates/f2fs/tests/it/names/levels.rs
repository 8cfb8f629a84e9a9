//! Directories whose first level has several buckets, and inline directories that find no space to
//! grow.

use super::hostile::patch_inode;
use crate::common::{end, featured, mount};
use base::Ino;
use fscore::{Errno, FileSystem};
use testkit::Brief;
use varve_f2fs::F2fs;

/// Offset of `i_dir_level`.
const DIR_LEVEL_AT: usize = 0x15B;

fn names(fs: &F2fs, dir: Ino) -> Vec<Vec<u8>> {
    let mut all: Vec<_> = fs
        .readdir(dir, 0, 10_000)
        .expect("readdir")
        .into_iter()
        .map(|e| e.name)
        .collect();
    all.sort();
    all
}

#[test]
fn a_first_level_of_several_buckets() {
    let ram = featured(64, "");
    let fs = mount(&ram, "");
    let root = fs.root();
    let dir = fs.make_dir(root, b"dir").expect("mkdir");
    let file = fs.make(root, b"file").expect("create");
    fs.unmount().expect("unmount");
    patch_inode(&ram, dir, |block| block[DIR_LEVEL_AT] = 2);
    let fs = mount(&ram, "");
    for n in 0..2000 {
        fs.link(file, dir, format!("name {n}").as_bytes())
            .expect("link");
    }
    assert_eq!(
        fs.getattr(dir).expect("getattr").size % 4096,
        0,
        "it left its inode"
    );
    end(&fs, &ram);
    let fs = mount(&ram, "");
    assert_eq!(names(&fs, dir).len(), 2002);
    for n in 0..2000 {
        assert_eq!(
            fs.lookup(dir, format!("name {n}").as_bytes())
                .expect("there"),
            file
        );
    }
    assert_eq!(fs.lookup(dir, b"..").expect("there"), root);
    fs.unmount().expect("unmount");
}

/// dir-D2: entries stay in the inode if there is no block for them.
#[test]
fn no_space_to_leave_the_inode() {
    for dir_level in [0, 2] {
        let ram = featured(52, "");
        let fs = mount(&ram, "");
        let root = fs.root();
        let dir = fs.make_dir(root, b"dir").expect("mkdir");
        let file = fs.make(root, b"file").expect("create");
        fs.unmount().expect("unmount");
        patch_inode(&ram, dir, |block| block[DIR_LEVEL_AT] = dir_level);
        let fs = mount(&ram, "");
        let filler = fs.make(root, b"filler").expect("create");
        let mut at = 0;
        let chunk = vec![1; 1 << 20];
        while let Ok(n) = fs.write(filler, at, &chunk) {
            at += n as u64;
            assert!(at < 52 << 20, "the volume is small");
        }
        // One block is left where several are needed.
        let left = fs.statfs().expect("statfs").blocks_free;
        assert!(left <= 1, "{left}");
        let mut made = 0;
        let why = loop {
            match fs.link(file, dir, format!("name {made:030}").as_bytes()) {
                Ok(_) => made += 1,
                Err(e) => break e,
            }
            assert!(made < 10_000, "the volume is full");
        };
        assert_eq!(why.errno(), Errno::NoSpc);
        assert!(made > 10, "{made} inline");
        assert_eq!(names(&fs, dir).len(), made + 2);
        for n in 0..made {
            let name = format!("name {n:030}");
            assert_eq!(fs.lookup(dir, name.as_bytes()).expect("there"), file);
        }
        fs.unlink(root, b"filler").expect("unlink");
        fs.sync().expect("sync");
        fs.link(file, dir, format!("name {made:030}").as_bytes())
            .expect("room now");
        end(&fs, &ram);
        let fs = mount(&ram, "");
        assert_eq!(names(&fs, dir).len(), made + 3);
        fs.unmount().expect("unmount");
    }
}
