//! Commands that only read see what a mount with the option `ro` sees, and never change the image.

use super::{empty, is_root, made, tool};
use crate::program::{folder, good, run, text};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::TempDir;

/// Options of mke2fs; each makes a volume that a mount with `ro` reads.
const EXT: [&str; 25] = [
    "-t ext2",
    "-t ext2 -O ^dir_index,^filetype",
    "-t ext3",
    "-t ext4",
    "-t ext4 -O ^has_journal",
    "-t ext4 -O quota",
    "-t ext4 -O quota,project -E quotatype=usrquota:grpquota:prjquota",
    "-t ext4 -O ea_inode",
    "-t ext4 -O verity",
    "-t ext4 -O mmp",
    "-t ext4 -O encrypt",
    "-t ext4 -O casefold -E encoding=utf8",
    "-t ext4 -O inline_data",
    "-t ext4 -O meta_bg,^resize_inode",
    "-t ext4 -O large_dir",
    "-t ext4 -O orphan_file",
    "-t ext4 -O sparse_super2",
    "-t ext4 -O stable_inodes",
    "-t ext4 -O ^metadata_csum,uninit_bg",
    "-t ext4 -O ^64bit",
    "-t ext4 -O metadata_csum_seed",
    "-t ext4 -O ^extents,^64bit",
    "-t ext4 -b 1024",
    "-t ext4 -b 2048",
    "-t ext4 -I 128",
];

/// Options of mkfs.f2fs.
const F2FS: [&str; 13] = [
    "",
    "-g android",
    "-O encrypt",
    "-O quota",
    "-O lost_found",
    "-O verity",
    "-O sb_checksum",
    "-O casefold -C utf8",
    "-O extra_attr",
    "-O extra_attr,project_quota,quota",
    "-O extra_attr,inode_checksum",
    "-O extra_attr,inode_crtime",
    "-O extra_attr,compression",
];

/// A folder `tree` with the file `f`.
fn source(dir: &TempDir) {
    fs::create_dir(dir.path().join("tree")).unwrap();
    fs::write(dir.path().join("tree/f"), "some text\n").unwrap();
}

/// Every tool that only reads, on an image with the file `f`.
fn look(dir: &Path, image: &str, of: &str) {
    let path = dir.join(image);
    let before = fs::read(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let done = |line: &str| {
        let out = run(dir, line);
        let said = text(&out.stderr);
        assert!(
            out.status.success() && said.is_empty(),
            "{of}: {line}: {said}"
        );
        text(&out.stdout)
    };
    let list = done(&format!("ls -l -R {image}"));
    assert!(list.contains(" /f\n"), "{of}: {list}");
    assert_eq!(done(&format!("cat {image}:/f")), "some text\n", "{of}");
    done(&format!("cp {image}:/f copy"));
    done(&format!("extract {image} out"));
    assert_eq!(fs::read(dir.join("out/f")).unwrap(), b"some text\n", "{of}");
    done(&format!("info {image}"));
    done(&format!("dump inode {image} /f"));
    assert!(
        before == fs::read(&path).unwrap(),
        "{of}: the image was changed"
    );
    fs::remove_file(path).unwrap();
}

#[test]
fn volumes_of_mke2fs_with_any_feature() {
    let dir = folder();
    source(&dir);
    for options in EXT {
        empty(dir.path(), "image", 16);
        if !made(dir.path(), &format!("mke2fs -q -F -d tree {options} image")) {
            return;
        }
        look(dir.path(), "image", options);
    }
}

#[test]
fn volumes_of_mkfs_f2fs_with_any_feature() {
    let dir = folder();
    source(&dir);
    for options in F2FS {
        empty(dir.path(), "image", 64);
        if !made(dir.path(), &format!("mkfs.f2fs -q {options} image"))
            || !made(dir.path(), "sload.f2fs -f tree image")
        {
            return;
        }
        look(dir.path(), "image", options);
    }
}

/// A log that waits, on volumes that can be written and that can only be read.
#[test]
fn a_log_is_replayed_in_memory() {
    let dir = folder();
    source(&dir);
    for options in ["-O ^metadata_csum", "-O quota"] {
        let image = empty(dir.path(), "image", 32);
        if !made(
            dir.path(),
            &format!("mke2fs -q -F -t ext4 -b 4096 -d tree {options} image"),
        ) {
            return;
        }
        let mut block = vec![0; 4096];
        block[..10].copy_from_slice(b"other text");
        fs::write(dir.path().join("block"), &block).unwrap();
        fs::write(
            dir.path().join("question"),
            "blocks /f
",
        )
        .unwrap();
        let out = tool(dir.path(), "debugfs -f question image").unwrap();
        let answer = text(&out.stdout);
        let at = answer.lines().last().unwrap_or_default();
        fs::write(
            dir.path().join("script"),
            format!("jo\njw -b {} block\njc\n", at.trim()),
        )
        .unwrap();
        assert!(made(dir.path(), "debugfs -w -f script image"));
        let before = fs::read(&image).unwrap();
        assert_eq!(good(dir.path(), "cat image:/f"), "other text", "{options}");
        assert!(before == fs::read(&image).unwrap(), "{options}");
    }
}

/// A device that refuses writes, and a file of another user.
#[test]
fn what_may_only_be_read_is_enough() {
    let dir = folder();
    source(&dir);
    empty(dir.path(), "image", 16);
    if !is_root() || !made(dir.path(), "mke2fs -q -F -t ext4 -d tree image") {
        eprintln!("skipped: needs root and mke2fs");
        return;
    }
    let Some(out) = tool(dir.path(), "losetup -r --show -f image") else {
        return;
    };
    if out.status.success() {
        let device = text(&out.stdout);
        let device = device.trim();
        let said = run(dir.path(), &format!("cat {device}:/f"));
        assert!(made(dir.path(), &format!("losetup -d {device}")));
        assert_eq!(text(&said.stdout), "some text\n", "{}", text(&said.stderr));
    } else {
        eprintln!("skipped: no loop device: {}", text(&out.stderr));
    }
    let image = dir.path().join("image");
    fs::set_permissions(&image, fs::Permissions::from_mode(0o444)).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = crate::program::varve_in(dir.path());
    std::os::unix::process::CommandExt::uid(&mut command, 65534);
    let out = command.args(["cat", "image:/f"]).output().unwrap();
    assert_eq!(text(&out.stdout), "some text\n", "{}", text(&out.stderr));
}
