//! Files as in `std::fs`.

use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use varve::{Disk, Error, FileType, Format, Kind, OpenOptions, Volume};

fn mounted(kind: Kind) -> (Disk, Volume) {
    let bytes = if kind == Kind::F2fs {
        64 << 20
    } else {
        16 << 20
    };
    let disk = Disk::ram(bytes).unwrap();
    disk.format(&Format::new(kind).seed(5)).unwrap();
    let volume = Volume::mount(&disk, "").unwrap();
    (disk, volume)
}

#[test]
fn a_tree_is_there_after_a_mount_on_each_kind() {
    for kind in [Kind::Ext4, Kind::Ext3, Kind::F2fs] {
        let (disk, volume) = mounted(kind);
        volume.create_dir_all("/a/b/c").unwrap();
        volume.create_dir_all("/a/b").unwrap();
        volume.write("/a/b/c/f", "content").unwrap();
        volume.hard_link("/a/b/c/f", "/a/second").unwrap();
        volume.symlink("b/c/f", "/a/link").unwrap();
        volume.rename("/a/second", "/a/third").unwrap();
        volume.set_permissions("/a/third", 0o600).unwrap();
        volume.write("/gone", "x").unwrap();
        volume.remove_file("/gone").unwrap();
        volume.create_dir("/empty").unwrap();
        volume.remove_dir("/empty").unwrap();
        volume.unmount().unwrap();

        let check = disk.check().unwrap();
        assert!(check.is_clean() && check.kind == kind, "{check:?}");
        let volume = Volume::mount(&disk, "ro").unwrap();
        assert_eq!(volume.read("/a/link").unwrap(), b"content");
        let meta = volume.metadata("/a/third").unwrap();
        assert_eq!((meta.len(), meta.nlink(), meta.mode()), (7, 2, 0o100_600));
        assert!(volume.symlink_metadata("/a/link").unwrap().is_symlink());
        assert_eq!(volume.read_link("/a/link").unwrap().to_str(), Some("b/c/f"));
        let mut names = volume.read_dir("/a").unwrap();
        names.sort_by_key(varve::DirEntry::file_name);
        let names: Vec<_> = names
            .iter()
            .map(|e| (e.file_name(), e.file_type()))
            .collect();
        let want = [
            ("b", FileType::Dir),
            ("link", FileType::Symlink),
            ("third", FileType::File),
        ];
        assert_eq!(names, want.map(|(name, kind)| (name.into(), kind)));
        assert!(!volume.try_exists("/gone").unwrap());
        let e = volume.write("/new", "x").unwrap_err();
        assert_eq!(e.kind(), ErrorKind::ReadOnlyFilesystem, "{e}");
        volume.unmount().unwrap();
    }
}

#[test]
fn reading_writing_and_seeking_are_those_of_std() {
    let (_disk, volume) = mounted(Kind::Ext4);
    let mut open = OpenOptions::new();
    let mut file = open
        .read(true)
        .write(true)
        .create_new(true)
        .open(&volume, "f")
        .unwrap();
    file.write_all(b"0123456789").unwrap();
    file.seek(SeekFrom::Start(3)).unwrap();
    file.write_all(b"XY").unwrap();
    assert_eq!(file.stream_position().unwrap(), 5);
    assert_eq!(file.seek(SeekFrom::End(-4)).unwrap(), 6);
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "6789");
    let e = file.seek(SeekFrom::Current(-11)).unwrap_err();
    assert!(e.to_string().contains("before byte 0"), "{e}");
    file.set_len(4).unwrap();
    let mut buf = [0; 8];
    assert_eq!(file.read_at(&mut buf, 1).unwrap(), 3);
    assert_eq!(&buf[..3], b"12X");
    let mut more = OpenOptions::new().append(true).open(&volume, "/f").unwrap();
    more.write_all(b"end").unwrap();
    more.write_all(b"!").unwrap();
    file.write_all_at(b"_", 0).unwrap();
    drop((file, more));
    assert_eq!(volume.read("/f").unwrap(), b"_12Xend!");
    let e = open.open(&volume, "/f").map(drop).unwrap_err();
    assert_eq!((e.kind(), e.errno()), (ErrorKind::AlreadyExists, 17));
    assert_eq!(e.to_string(), "opening /f: file exists");
    volume.unmount().unwrap();
}

#[test]
fn an_open_file_holds_the_unmount_and_a_dropped_one_does_not() {
    let (disk, volume) = mounted(Kind::Ext4);
    let file = volume.create("/kept").unwrap();
    drop(volume.create("/dropped").unwrap());
    let not = volume.unmount().unwrap_err();
    assert!(matches!(not.error, Error::FilesOpen(1)), "{not}");
    assert_eq!(not.error.errno(), 16);
    let volume = not.volume;
    volume.write("/later", "still works").unwrap();
    file.close().unwrap();
    volume.unmount().unwrap();
    assert!(disk.check().unwrap().is_clean());
}

#[test]
fn many_dropped_files_are_ended_without_an_unmount() {
    let (_disk, volume) = mounted(Kind::Ext4);
    for n in 0..500 {
        drop(volume.create(format!("/f{n}")).unwrap());
        let open = volume.vfs().open_files();
        assert!(open <= 16, "{open} of {n} files are open");
    }
    volume.unmount().unwrap();
}

#[test]
fn all_parts_of_an_atomic_write_are_there_or_an_error_tells_why() {
    for (kind, can) in [(Kind::Ext4, true), (Kind::F2fs, true), (Kind::Ext3, true)] {
        let (_disk, volume) = mounted(kind);
        assert_eq!(volume.has_atomic_writes(), can, "{kind:?}");
        let mut open = OpenOptions::new();
        let file = open.read(true).write(true).create(true);
        let file = file.open(&volume, "f").unwrap();
        file.write_atomic(&[(0, b"0123456789"), (4, b"xy"), (9000, b"end")])
            .unwrap();
        let mut found = vec![0; 9003];
        assert_eq!(file.read_at(&mut found, 0).unwrap(), 9003);
        let mut want = vec![0; 9003];
        want[..10].copy_from_slice(b"0123xy6789");
        want[9000..].copy_from_slice(b"end");
        assert!(found == want, "{kind:?}");
        let e = file.write_atomic(&[(0, b"new"), (u64::MAX - 1, b"x")]);
        assert_eq!(e.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(file.read_at(&mut found, 0).unwrap(), 9003);
        assert!(found == want, "{kind:?}: a refusal changes nothing");
        file.close().unwrap();
        let mut filler = volume.create("filler").unwrap();
        let full = loop {
            if let Err(e) = filler.write_all(&[7; 65536]) {
                break e;
            }
        };
        assert_eq!(full.kind(), ErrorKind::StorageFull, "{kind:?}: {full}");
        let file = OpenOptions::new().read(true).write(true).open(&volume, "f");
        let file = file.unwrap();
        let block = [8; 4096];
        let holes: Vec<(u64, &[u8])> = (4..16).map(|n| (n * 4096, &block[..])).collect();
        let all = [&[(0, &b"new"[..])][..], &holes].concat();
        let e = file.write_atomic(&all).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::StorageFull, "{kind:?}: {e}");
        assert_eq!(file.metadata().unwrap().len(), 9003, "{kind:?}");
        assert_eq!(file.read_at(&mut found, 0).unwrap(), 9003);
        assert!(found == want, "{kind:?}: nothing where all had no room");
        file.close().unwrap();
        filler.close().unwrap();
        let e = volume.open("f").unwrap().write_atomic(&[(0, b"new")]);
        assert_eq!(e.unwrap_err().errno(), 9, "{kind:?}");
        volume.unmount().unwrap();
    }
    let disk = Disk::ram(16 << 20).unwrap();
    disk.format(&Format::new(Kind::Ext4).seed(5)).unwrap();
    let volume = Volume::mount(&disk, "scheme=none").unwrap();
    assert!(!volume.has_atomic_writes());
    let file = volume.create("f").unwrap();
    let e = file.write_atomic(&[(0, b"new")]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
}

#[test]
fn a_cluster_is_an_atomic_unit() {
    let disk = Disk::ram(64 << 20).unwrap();
    let format = Format::ext4().cluster_bytes(65_536).seed(5);
    disk.format(&format).unwrap();
    let volume = Volume::mount(&disk, "").unwrap();
    let (min, max) = volume.atomic_write_unit().unwrap();
    assert!(min == 4096 && max >= 65_536, "{min}, {max}");
    let mut open = OpenOptions::new();
    let file = open.read(true).write(true).create(true);
    let file = file.open(&volume, "f").unwrap();
    let whole = vec![7; 65_536];
    file.write_atomic(&[(65_536, &whole[..])]).unwrap();
    let mut found = vec![0; 65_536];
    assert_eq!(file.read_at(&mut found, 65_536).unwrap(), 65_536);
    assert!(found == whole);
    file.close().unwrap();
    volume.unmount().unwrap();
    assert!(disk.check().unwrap().is_clean());
    for refused in [
        Format::f2fs().cluster_bytes(65_536),
        Format::new(Kind::Ext3).cluster_bytes(65_536),
        Format::ext4().cluster_bytes(4096),
    ] {
        let disk = Disk::ram(64 << 20).unwrap();
        let e = disk.format(&refused.seed(5)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidInput, "{e}");
    }
}
