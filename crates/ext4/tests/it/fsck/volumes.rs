//! Small volumes that contain some of every structure.

use crate::common::{Image, mount, pattern};
use base::Ino;
use fscore::{FileKind, FileSystem};
use testkit::Brief;
use testkit::brief::ROOT;
use varve_ext4::Ext4;

/// Makes and fills a volume: with Varve, and with debugfs what Varve cannot make.
pub fn filled(options: &[&str]) -> Image {
    let mut all = vec![
        "-g",
        "2048",
        "-N",
        "1024",
        "-U",
        "11111111-2222-3333-4444-555555555555",
        "-E",
        "hash_seed=66666666-7777-8888-9999-aaaaaaaaaaaa",
    ];
    all.extend(options);
    let image = Image::new(40, &all);
    let ram = image.load();
    let has_journal = !options.contains(&"ext2");
    let fs = mount(&ram, if has_journal { "" } else { "scheme=none" });
    fill(&fs);
    fs.unmount().expect("unmounts");
    image.store(&ram);
    let value = "x".repeat(300);
    let small: Vec<String> = ["subdir", "link"]
        .iter()
        .map(|name| format!("ea_set {name} user.small tiny"))
        .collect();
    let large: Vec<String> = ["large", "subdir", "pipe", "target 60"]
        .iter()
        .map(|name| format!("ea_set \"{name}\" user.large {value}"))
        .collect();
    let mut commands: Vec<&str> = small.iter().chain(&large).map(String::as_str).collect();
    if !options.contains(&"ext3") && !options.contains(&"ext2") {
        commands.push("fallocate large 100 200");
    }
    image.debugfs_write(&commands);
    image.fsck();
    image
}

/// Makes a volume with features that are checked and not written: mke2fs and debugfs fill it.
pub fn foreign(options: &[&str]) -> Image {
    let content = tempfile::tempdir().expect("a temporary folder");
    let root = content.path();
    let put = |name: &str, bytes: &[u8]| std::fs::write(root.join(name), bytes).expect("room");
    put("large", &pattern(1, 300_000));
    put("tiny", b"tiny");
    let sparse = std::fs::File::create(root.join("sparse")).expect("room");
    for n in 0..400u64 {
        use std::os::unix::fs::FileExt;
        sparse.write_all_at(&[7; 100], n * 70_000).expect("room");
    }
    for dir in ["subdir", "subdir/below", "many"] {
        std::fs::create_dir(root.join(dir)).expect("room");
    }
    for n in 0..150 {
        put(
            &format!("many/{n}-a name that fills the leaves of a directory {n:060}"),
            &[],
        );
    }
    for n in 0..8 {
        put(&format!("subdir/below/file {n}"), &pattern(n, 6000));
    }
    for len in [20, 500] {
        let link = root.join(format!("subdir/target{len}"));
        std::os::unix::fs::symlink("t".repeat(len), link).expect("room");
    }
    let root = root.to_string_lossy();
    let ids = [
        "-N",
        "1024",
        "-d",
        &root,
        "-U",
        "11111111-2222-3333-4444-555555555555",
        "-E",
    ];
    let seed = "hash_seed=66666666-7777-8888-9999-aaaaaaaaaaaa";
    let quotas = format!("{seed},quotatype=usrquota:grpquota:prjquota");
    let extended = match options.iter().any(|o| o.contains("quota")) {
        true => quotas.as_str(),
        false => seed,
    };
    let image = Image::new(40, &[&ids[..], &[extended], options].concat());
    let (value, long) = (root_file(&image, 300), root_file(&image, 9000));
    let mut commands = vec![
        "ea_set subdir user.small tiny".to_string(),
        "sif tiny uid 1000".into(),
        "sif subdir gid 7".into(),
        format!("ea_set -f {value} large user.large"),
    ];
    if options.iter().any(|o| o.contains("ea_inode")) {
        let apart = |name| format!("ea_set -f {long} {name} user.apart");
        commands.extend([apart("large"), apart("many"), apart("tiny")]);
    }
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    image.debugfs_write(&commands);
    // debugfs leaves wrong quotas of owners; e2fsck corrects these, and the rest is right.
    let out = crate::common::tool("e2fsck")
        .arg("-fy")
        .arg(&image.path)
        .output()
        .expect("e2fsck");
    assert!(matches!(out.status.code(), Some(0 | 1)), "{out:?}");
    image.fsck();
    image
}

/// Puts a file of `len` bytes beside the image.
fn root_file(image: &Image, len: usize) -> String {
    let path = image
        .dir
        .path()
        .join(format!("value {len}").replace(' ', "-"));
    std::fs::write(&path, vec![b'x'; len]).expect("room");
    path.to_string_lossy().into_owned()
}

fn create(fs: &Ext4, dir: Ino, name: &str, kind: FileKind) -> Ino {
    let made = fs.create(dir, name.as_bytes(), kind, 0o644, 0x0103, ROOT);
    made.expect("room").ino
}

fn fill(fs: &Ext4) {
    let root = fs.root();
    let dir = fs.make_dir(root, b"subdir").expect("room");
    for len in [1, 60, 70, 128] {
        let name = format!("tiny {len}");
        let file = create(fs, dir, &name, FileKind::File);
        fs.write(file, 0, &pattern(len, len as usize))
            .expect("room");
    }
    let small = fs.make_dir(dir, b"small").expect("room");
    for n in 0..5 {
        create(fs, small, &format!("entry {n}"), FileKind::File);
    }
    fs.unlink(small, b"entry 1").expect("there");
    let below = fs.make_dir(dir, b"below").expect("room");
    let many = fs.make_dir(root, b"many").expect("room");
    for n in 0..300 {
        create(
            fs,
            many,
            &format!("{n}-a name that fills the leaves of a directory {n:060}"),
            FileKind::File,
        );
    }
    let large = create(fs, root, "large", FileKind::File);
    fs.write(large, 0, &pattern(1, 300_000)).expect("room");
    let sparse = create(fs, dir, "sparse", FileKind::File);
    for n in 0..400u64 {
        fs.write(sparse, n * 8192, &[7; 100]).expect("room");
    }
    for n in 0..8 {
        let file = create(fs, below, &format!("file {n}"), FileKind::File);
        fs.write(file, n * 5000, &pattern(n, 6000)).expect("room");
    }
    for (name, kind) in [
        ("pipe", FileKind::Fifo),
        ("device", FileKind::Char),
        ("disk", FileKind::Block),
        ("socket", FileKind::Socket),
    ] {
        create(fs, root, name, kind);
    }
    fs.make_link(root, b"link", b"subdir/below").expect("room");
    for len in [59, 60, 500] {
        let name = format!("target {len}");
        fs.make_link(root, name, &vec![b't'; len]).expect("room");
    }
    fs.link(large, below, b"again").expect("room");
    for n in 0..4 {
        fs.unlink(below, format!("file {n}").as_bytes())
            .expect("there");
    }
}
