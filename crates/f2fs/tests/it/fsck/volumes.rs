//! Small volumes that contain some of every structure.

use crate::common::{Image, pattern, run, tool, try_mount};
use base::Ino;
use fscore::{FallocateMode, FileKind, FileSystem, XattrMode};
use std::os::unix::fs::symlink;
use testkit::Brief;
use testkit::brief::ROOT;
use varve_f2fs::F2fs;

const PAGE: u64 = 4096;

/// Makes and fills a volume: by us, or by sload.f2fs what we may only read.
pub fn filled(options: &[&str]) -> Image {
    let image = Image::new(96, options);
    let ram = image.load();
    match try_mount(&ram, "") {
        Ok(fs) => {
            fill(&fs);
            fs.unmount().expect("unmounts");
            image.store(&ram);
        }
        Err(_) => load(&image),
    }
    image
}

/// By sload.f2fs.
fn load(image: &Image) {
    let tree = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| tree.path().join(name);
    std::fs::create_dir_all(at("sub/many")).expect("room");
    for n in 0..30 {
        std::fs::write(at(&format!("sub/file {n}")), vec![n as u8; 700 * n]).expect("room");
    }
    for n in 0..250 {
        let name = format!("sub/many/a name that is long enough to fill blocks {n}");
        std::fs::write(at(&name), "").expect("room");
    }
    std::fs::write(at("big"), vec![7; 5 << 20]).expect("room");
    symlink("big", at("link")).expect("room");
    run(tool("setfattr")
        .args(["-n", "user.small", "-v", "tiny"])
        .arg(at("big")));
    image.sload(tree.path());
}

fn create(fs: &F2fs, dir: Ino, name: &str, kind: FileKind) -> Ino {
    let made = fs.create(dir, name.as_bytes(), kind, 0o644, 0x0103, ROOT);
    made.expect("room").ino
}

fn fill(fs: &F2fs) {
    let root = fs.root();
    let dir = fs.make_dir(root, b"subdir").expect("room");
    for len in [1, 60, 700, 3000] {
        let file = create(fs, dir, &format!("tiny {len}"), FileKind::File);
        fs.write(file, 0, &pattern(len, len as usize))
            .expect("room");
    }
    let many = fs.make_dir(root, b"many").expect("room");
    for n in 0..300 {
        let name = format!("{n}-a name that fills the blocks of a directory {n:060}");
        create(fs, many, &name, FileKind::File);
    }
    fs.unlink(
        many,
        format!("7-a name that fills the blocks of a directory {:060}", 7).as_bytes(),
    )
    .expect("there");
    let large = create(fs, root, "large", FileKind::File);
    fs.write(large, 0, &pattern(1, 300_000)).expect("room");
    fs.fallocate(large, FallocateMode::KeepSize, 400_000, 40_000)
        .expect("room");
    sparse(fs, dir);
    for (name, kind) in [
        ("pipe", FileKind::Fifo),
        ("device", FileKind::Char),
        ("disk", FileKind::Block),
        ("socket", FileKind::Socket),
    ] {
        create(fs, root, name, kind);
    }
    for len in [10, 4000] {
        let name = format!("target {len}");
        fs.make_link(root, name, &vec![b't'; len]).expect("room");
    }
    fs.link(large, dir, b"again").expect("room");
    for (ino, len) in [(large, 50), (dir, 20), (many, 2000)] {
        for (name, len) in [("user.one", 5), ("user.two", len)] {
            fs.setxattr(ino, name.as_bytes(), &pattern(3, len), XattrMode::Any)
                .expect("room");
        }
    }
}

/// Direct and indirect nodes. All of the file is read again and again, holes too, so it is not made
/// deeper.
fn sparse(fs: &F2fs, dir: Ino) {
    let file = create(fs, dir, "sparse", FileKind::File);
    for page in [0, 900, 923 + 1018, 923 + 2 * 1018 + 5] {
        for n in 0..3 {
            fs.write(file, (page + 2 * n) * PAGE, &[7; 100])
                .expect("room");
        }
    }
}
