//! Files with inline data: growing out of the inode, shrinking, holes, attributes beside the
//! content.

use crate::common::{Image, have_tools, mount, pattern};
use base::Ino;
use fscore::{Creds, Errno, FallocateMode, FileFlags, FileKind, FileSystem, SeekMode, XattrMode};
use std::collections::BTreeMap;
use testkit::Brief;
use varve_ext4::Ext4;

/// Bytes that inodes of 256 and of 1024 bytes hold, as with Linux.
const ROOMS: [(&str, u64); 2] = [("256", 128), ("1024", 896)];

fn is_inline(fs: &Ext4, ino: Ino) -> bool {
    let flags = fs.getattr(ino).expect("there").flags;
    flags.0 & FileFlags::INLINE_DATA.0 != 0
}

#[test]
fn content_stays_as_long_as_there_is_room_for_it() {
    if !have_tools() {
        return;
    }
    for (inode, room) in ROOMS {
        let image = Image::new(32, &["-O", "inline_data", "-I", inode]);
        let (ram, fs) = image.mount("");
        let mut wanted = BTreeMap::new();
        for len in [0, 1, 59, 60, 61, room - 1, room, room + 1, 5000] {
            let name = format!("f{len}");
            let ino = fs.file(&name);
            let content = pattern(len, len as usize);
            fs.write(ino, 0, &content).expect("room");
            assert_eq!(is_inline(&fs, ino), (1..=room).contains(&len), "{len}");
            let sectors = fs.getattr(ino).expect("there").sectors;
            assert_eq!(sectors == 0, len <= room, "{len}: {sectors} sectors");
            wanted.insert(name, content);
        }
        // Appends single bytes until the content leaves the inode, and beyond.
        let grows = fs.file("grows");
        let content = pattern(7, room as usize + 50);
        for (n, byte) in content.iter().enumerate() {
            fs.write(grows, n as u64, &[*byte]).expect("room");
            assert_eq!(is_inline(&fs, grows), (n as u64) < room, "{n}");
            assert_eq!(fs.content(grows), content[..=n]);
        }
        wanted.insert("grows".into(), content);
        image.end(&fs, &ram);
        for (name, content) in &wanted {
            // debugfs answers with all of the block area.
            let read = image.cat(name);
            let (front, rest) = read.split_at(content.len());
            assert_eq!(front, *content, "{name}");
            assert!(rest.iter().all(|&b| b == 0), "{name}");
        }
        let fs = mount(&image.load(), "ro");
        for (name, content) in &wanted {
            let ino = fs.find(name);
            assert_eq!(fs.content(ino), *content, "{name}");
        }
    }
}

#[test]
fn sizes_change_and_what_was_cut_off_does_not_come_back() {
    if !have_tools() {
        return;
    }
    let image = Image::new(32, &["-O", "inline_data"]);
    let (ram, fs) = image.mount("");
    let ino = fs.file("f");
    fs.write(ino, 20, &[7; 80]).expect("room");
    let mut model = [vec![0; 20], vec![7; 80]].concat();
    assert_eq!(fs.content(ino), model);
    for size in [90, 128, 10, 61, 60, 100, 0, 30] {
        fs.resize(ino, size).expect("resized");
        model.resize(size as usize, 0);
        assert_eq!(fs.content(ino), model, "{size}");
        assert!(is_inline(&fs, ino), "{size}");
    }
    assert_eq!(fs.seek(ino, 5, SeekMode::Data).expect("data"), 5);
    assert_eq!(fs.seek(ino, 5, SeekMode::Hole).expect("the end"), 30);
    fs.write(ino, 0, &[9; 30]).expect("room");
    fs.resize(ino, 9000).expect("resized");
    assert!(!is_inline(&fs, ino));
    model = [vec![9; 30], vec![0; 8970]].concat();
    assert_eq!(fs.content(ino), model);
    // The content of an emptied file may lie in the inode again.
    fs.resize(ino, 0).expect("resized");
    fs.write(ino, 0, b"again").expect("room");
    assert!(is_inline(&fs, ino));
    // A preallocated range needs blocks, even one far away.
    fs.fallocate(ino, FallocateMode::KeepSize, 8192, 4096)
        .expect("room");
    assert!(!is_inline(&fs, ino) && fs.content(ino) == b"again");
    let far = fs.file("far");
    fs.write(far, 0, b"near").expect("room");
    fs.write(far, 1 << 30, b"far").expect("room");
    assert!(!is_inline(&fs, far));
    let mut near = [0; 8];
    assert_eq!(fs.read(far, 0, &mut near).expect("read"), 8);
    assert_eq!(&near, b"near\0\0\0\0");
    // Blocks kept beyond the end of an empty file keep its content out.
    let kept = fs.file("kept");
    fs.fallocate(kept, FallocateMode::KeepSize, 0, 4096)
        .expect("room");
    fs.write(kept, 0, b"kept").expect("room");
    assert!(!is_inline(&fs, kept));
    image.end(&fs, &ram);
}

#[test]
fn attributes_share_the_room() {
    if !have_tools() {
        return;
    }
    let image = Image::new(32, &["-O", "inline_data"]);
    let (ram, fs) = image.mount("");
    // Content first: the attribute goes to a block.
    let first = fs.file("first");
    fs.write(first, 0, &[1; 128]).expect("room");
    fs.setxattr(first, b"user.a", b"value", XattrMode::Any)
        .expect("room");
    assert!(is_inline(&fs, first));
    assert_eq!(fs.getattr(first).expect("there").sectors, 8);
    // The attribute first: less content fits.
    let second = fs.file("second");
    fs.setxattr(second, b"user.a", b"value", XattrMode::Any)
        .expect("room");
    fs.write(second, 0, &[2; 96]).expect("room");
    assert!(is_inline(&fs, second));
    fs.write(second, 96, &[2; 4]).expect("room");
    assert!(is_inline(&fs, second));
    fs.write(second, 100, &[2]).expect("room");
    assert!(!is_inline(&fs, second));
    assert_eq!(fs.content(second), [2; 101]);
    for ino in [first, second] {
        assert_eq!(fs.getxattr(ino, b"user.a").expect("there"), b"value");
        assert_eq!(fs.listxattr(ino).expect("names"), [b"user.a"]);
        let hidden = fs.getxattr(ino, b"system.data").expect_err("not for users");
        assert_eq!(hidden.errno(), Errno::NotSup);
    }
    // No room is left for the attribute of the content.
    let third = fs.file("third");
    fs.setxattr(third, b"user.a", &[3; 60], XattrMode::Any)
        .expect("room");
    fs.write(third, 0, &[3]).expect("room");
    assert!(!is_inline(&fs, third));
    image.end(&fs, &ram);
}

/// inline-L5: content that cannot get a block stays in the inode.
#[test]
fn a_full_disk_leaves_content_where_it_is() {
    if !have_tools() {
        return;
    }
    let image = Image::new(16, &["-O", "inline_data", "-N", "256"]);
    let (ram, fs) = image.mount("");
    let ino = fs.file("small");
    let dir = fs.dir(b"dir");
    fs.write(ino, 0, &[5; 100]).expect("room");
    let large = fs.file("large");
    let mut at = 0;
    while let Ok(n) = fs.write(large, at, &[6; 4096]) {
        at += n as u64;
    }
    fs.sync().expect("synced");
    let refused = fs.write(ino, 100, &[5; 100]).expect_err("the disk is full");
    assert_eq!(refused.errno(), Errno::NoSpc);
    assert!(is_inline(&fs, ino));
    assert_eq!(fs.content(ino), [5; 100]);
    let mut made = 0;
    let error = loop {
        let name = format!("an entry with a long name {made}");
        let creds = Creds::default();
        match fs.create(dir, name.as_bytes(), FileKind::File, 0o600, 0, creds) {
            Ok(_) => made += 1,
            Err(e) => break e,
        }
    };
    assert_eq!(error.errno(), Errno::NoSpc);
    assert!(is_inline(&fs, dir) && made > 1, "{made}");
    // Writes that fit succeed.
    fs.write(ino, 100, &[5; 28]).expect("room in the inode");
    image.end(&fs, &ram);
    let fs = mount(&ram, "");
    assert_eq!(fs.content(ino), [5; 128]);
    assert_eq!(fs.readdir(dir, 0, 100).expect("names").len(), made + 2);
    fs.resize(large, 0).expect("resized");
    fs.write(ino, 128, &[5; 100]).expect("room");
    assert_eq!(fs.content(ino), [5; 228]);
    image.end(&fs, &ram);
}

/// Volumes without extents, without a journal, with all data in it, with small blocks.
#[test]
fn every_kind_of_volume_and_mode() {
    if !have_tools() {
        return;
    }
    for (options, mode) in [
        (&["-O", "inline_data,^extent,^64bit"][..], ""),
        (&["-O", "inline_data,^has_journal"], "scheme=none"),
        (
            &["-O", "inline_data", "-b", "1024", "-I", "1024"],
            "data=journal",
        ),
        (&["-O", "inline_data,^metadata_csum"], "data=writeback"),
        (&["-O", "inline_data,^dir_index"], "scheme=emmc"),
    ] {
        let image = Image::new(48, options);
        let (ram, fs) = image.mount(mode);
        let mut rng = base::Rng::named(3, "inline modes");
        let mut models: Vec<(Ino, Vec<u8>)> = (0..12)
            .map(|n| (fs.file(format!("f{n}")), Vec::new()))
            .collect();
        for n in 0..600 {
            let (ino, model) = &mut models[rng.below(12) as usize];
            match rng.below(8) {
                0 => {
                    let size = rng.below(1200);
                    fs.resize(*ino, size).expect("resized");
                    model.resize(size as usize, 0);
                }
                1 => {
                    fs.resize(*ino, 0).expect("resized");
                    model.clear();
                }
                2 => fs.fsync(*ino, rng.one_in(2)).expect("durable"),
                _ => {
                    let at = rng.below(model.len() as u64 + 40) as usize;
                    let data = pattern(n, 1 + rng.below(60) as usize);
                    fs.write(*ino, at as u64, &data).expect("room");
                    model.resize(model.len().max(at + data.len()), 0);
                    model[at..at + data.len()].copy_from_slice(&data);
                }
            }
            assert_eq!(fs.content(*ino), *model, "{options:?} step {n}");
        }
        image.end(&fs, &ram);
        let fs = mount(&ram, mode);
        for (ino, model) in &models {
            assert_eq!(fs.content(*ino), *model, "{options:?}");
        }
        fs.unmount().expect("unmount");
    }
}
