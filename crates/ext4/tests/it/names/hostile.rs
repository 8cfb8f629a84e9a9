//! Images with impossible names and entries: each ends in an error that names the place.

use crate::common::{Image, have_tools, mount};
use fscore::{FileSystem, FsError, FsResult};
use testkit::Brief;

fn refused<T: std::fmt::Debug>(result: FsResult<T>, words: &[&str]) {
    let error = result.expect_err("refused");
    assert!(matches!(error, FsError::Corrupt { .. }), "{error}");
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

#[test]
fn entries_that_point_astray() {
    if !have_tools() {
        return;
    }
    let cases: [(&[&str], &[&str]); 4] = [
        (
            &["write /dev/null x", "clri x"],
            &["inode 2", "\"x\"", "not in use"],
        ),
        (
            &["write /dev/null x", "clri x", "unlink x", "link <8> x"],
            &["inode 2", "\"x\"", "reserved"],
        ),
        (
            &["write /dev/null x", "set_inode_field x links_count 0"],
            &["inode 2", "\"x\"", "not in use"],
        ),
        (
            &["write /dev/null x", "set_inode_field x mode 0"],
            &["inode 12", "mode"],
        ),
    ];
    for (commands, words) in cases {
        let image = Image::new(64, &["-O", "^metadata_csum"]);
        image.debugfs_write(commands);
        let fs = mount(&image.load(), "");
        refused(fs.lookup(fs.root(), b"x"), words);
    }
}

#[test]
fn targets_that_are_none() {
    if !have_tools() {
        return;
    }
    let long = "t".repeat(100);
    let cases: [(&str, &str, &str); 4] = [
        ("short", "set_inode_field l size 0", "0 bytes"),
        ("short", "set_inode_field l size 40", "NUL"),
        (&long, "set_inode_field l size 5000", "5000 bytes"),
        (&long, "set_inode_field l size 200", "NUL"),
    ];
    for (target, command, word) in cases {
        let image = Image::new(64, &["-O", "^metadata_csum"]);
        image.debugfs_write(&[&format!("symlink l {target}"), command]);
        let fs = mount(&image.load(), "");
        let ino = fs.find(b"l");
        refused(fs.readlink(ino), &[&format!("inode {ino}"), word]);
    }
}

#[test]
fn directories_with_holes_and_odd_sizes() {
    if !have_tools() {
        return;
    }
    let cases: [(&str, &[&str]); 3] = [
        ("set_inode_field d size 8192", &["block 1", "hole"]),
        ("set_inode_field d size 5000", &["5000 bytes"]),
        ("set_inode_field d size 0", &["0 bytes"]),
    ];
    for (command, words) in cases {
        let image = Image::new(64, &["-O", "^metadata_csum,^dir_index"]);
        image.debugfs_write(&["mkdir d", command]);
        let fs = mount(&image.load(), "");
        let found = fs
            .lookup(fs.root(), b"d")
            .and_then(|ino| fs.lookup(ino, b"x"));
        refused(found, words);
    }
}
