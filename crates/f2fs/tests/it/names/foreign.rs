//! Volumes of other tools: a tree made by sload.f2fs, and content that is refused with its inode
//! named.

use super::hostile::patch_inode;
use crate::common::{Image, fork, fresh, have_tools, mount};
use base::Ino;
use fscore::{FileSystem, FsError, FsResult, SetAttr};
use testkit::Brief;
use testkit::shadow::read_tree;

#[test]
fn a_tree_of_sload_is_read_and_changed() {
    if !have_tools() {
        return;
    }
    // With flexible_inline_xattr sload.f2fs 1.15 makes inodes that fsck.f2fs refuses.
    let all = "extra_attr,inode_checksum,inode_crtime,sb_checksum";
    for features in ["", all] {
        let options = ["-O", features];
        let image = Image::new(128, if features.is_empty() { &[] } else { &options });
        let source = image.dir.path().join("source");
        let mut expected = vec![b"/".to_vec(), b"/large/".to_vec(), b"/a/".to_vec()];
        std::fs::create_dir_all(source.join("a/b/c")).expect("folders");
        expected.extend([b"/a/b/".to_vec(), b"/a/b/c/".to_vec()]);
        std::fs::create_dir_all(source.join("large")).expect("folder");
        for n in 0..300 {
            let name = format!("file number {n} {}", "x".repeat(n % 60));
            std::fs::write(source.join("large").join(&name), b"").expect("file");
            expected.push(format!("/large/{name}/").into_bytes());
        }
        std::os::unix::fs::symlink("a/b", source.join("link")).expect("link");
        expected.push(b"/link/".to_vec());
        image.sload(&source);
        expected.sort();

        let ram = image.load();
        let fs = mount(&ram, "");
        let tree = read_tree(&*fs, 50);
        let mut found: Vec<_> = tree.keys().cloned().collect();
        found.retain(|path| !path.starts_with(b"/lost+found"));
        assert_eq!(found, expected);
        assert_eq!(tree[&b"/link/"[..]].target, b"a/b");
        let large = fs.find(b"large");
        for n in 0..300 {
            let name = format!("file number {n} {}", "x".repeat(n % 60));
            fs.unlink(large, name.as_bytes()).expect("unlink");
        }
        fs.rmdir(fs.root(), b"large").expect("empty");
        fs.unmount().expect("unmount");
        image.judge(&ram);
    }
}

fn incompatible<T: std::fmt::Debug>(result: FsResult<T>, word: &str) {
    match result {
        Err(FsError::Incompatible { what }) => assert!(what.contains(word), "{what}"),
        other => panic!("expected a refusal ({word}), got {other:?}"),
    }
}

fn set_flag(block: &mut [u8], flag: u32) {
    let flags = u32::from_le_bytes([block[0x50], block[0x51], block[0x52], block[0x53]]) | flag;
    block[0x50..0x54].copy_from_slice(&flags.to_le_bytes());
}

#[test]
fn content_that_is_not_understood_is_refused_by_name() {
    const CASEFOLD: u32 = 0x4000_0000;
    const COMPRESS: u32 = 4;
    let good = fresh(64);
    let fs = mount(&good, "");
    let root = fs.root();
    let file = fs.make(root, b"file").expect("create");
    fs.write(file, 0, b"content").expect("write");
    let dir = fs.make_dir(root, b"dir").expect("mkdir");
    fs.link(file, dir, b"inside").expect("link");
    fs.unmount().expect("unmount");
    let shrink = SetAttr {
        size: Some(1),
        ..SetAttr::default()
    };
    let mounted = |ino: Ino, change: &dyn Fn(&mut [u8])| {
        let ram = fork(&good);
        patch_inode(&ram, ino, change);
        mount(&ram, "")
    };

    for (change, word) in [
        (
            &(|b: &mut [u8]| b[2] |= 4) as &dyn Fn(&mut [u8]),
            "encrypted",
        ),
        (&|b: &mut [u8]| set_flag(b, COMPRESS), "compressed"),
    ] {
        let fs = mounted(file, change);
        assert_eq!(fs.getattr(file).expect("stat works").size, 7);
        incompatible(fs.read(file, 0, &mut [0; 7]), word);
        incompatible(fs.write(file, 0, b"x"), word);
        incompatible(fs.setattr(file, &shrink), word);
        fs.unlink(fs.root(), b"file").expect("names may go");
    }
    let fs = mounted(file, &|b| b[2] |= 0x40);
    assert_eq!(fs.read(file, 0, &mut [0; 7]).expect("readable"), 7);
    incompatible(fs.write(file, 0, b"x"), "fs-verity");

    // Without the feature it is damage.
    let fs = mounted(dir, &|b| set_flag(b, CASEFOLD));
    let said = fs.readdir(dir, 0, 9).expect_err("refused").to_string();
    assert!(said.contains("without feature casefold"), "{said}");
    let fs = mounted(dir, &|b| b[2] |= 4);
    incompatible(fs.readdir(dir, 0, 9), "encrypted");
    fs.getattr(dir).expect("stat works");
}
