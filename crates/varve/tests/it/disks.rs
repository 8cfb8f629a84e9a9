//! Image files of the host, and what is refused.

use std::io::ErrorKind;
use std::process::Command;
use varve::{Disk, Error, Format, Kind, Volume};

#[test]
fn e2fsck_finds_nothing_in_an_image() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.img");
    let disk = Disk::create(&path, 32 << 20).unwrap();
    disk.format(&Format::ext4().label("facade").journal_bytes(4 << 20))
        .unwrap();
    let volume = Volume::mount(&disk, "commit=1").unwrap();
    for n in 0..300 {
        volume
            .write(format!("/file{n}"), vec![n as u8; n * 37])
            .unwrap();
    }
    volume.sync_dir("/").unwrap();
    volume.unmount().unwrap();
    drop(disk);
    let out = Command::new("e2fsck")
        .arg("-fn")
        .arg(&path)
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stdout)
    );
}

#[test]
fn what_a_sync_covered_is_there_after_a_crash() {
    let disk = Disk::ram(16 << 20).unwrap();
    disk.format(&Format::ext4()).unwrap();
    let volume = Volume::mount(&disk, "").unwrap();
    let file = volume.create("/f").unwrap();
    file.write_all_at(b"durable", 0).unwrap();
    file.sync_all().unwrap();
    // A copy of the disk is what a cut of power would leave of one that keeps every write.
    let mut image = vec![0; disk.bytes() as usize];
    disk.read_at(0, &mut image).unwrap();
    let left = Disk::ram(disk.bytes()).unwrap();
    left.write_at(0, &image).unwrap();
    let check = left.check().unwrap();
    assert!(check.recovered && check.is_clean(), "{check:?}");
    let mut again = vec![0; image.len()];
    left.read_at(0, &mut again).unwrap();
    assert!(again == image, "a check changes nothing");
    assert!(left.recover().unwrap().recovered);
    assert!(
        !left.check().unwrap().recovered,
        "the recovery is on the disk"
    );
    let volume2 = Volume::mount(&left, "").unwrap();
    assert_eq!(volume2.read("/f").unwrap(), b"durable");
    volume2.unmount().unwrap();
    file.close().unwrap();
    volume.unmount().unwrap();
}

#[test]
fn a_mounted_disk_is_left_alone() {
    let disk = Disk::ram(16 << 20).unwrap();
    assert!(matches!(Volume::mount(&disk, ""), Err(Error::NotFormatted)));
    disk.format(&Format::ext4()).unwrap();
    assert!(matches!(
        disk.format(&Format::f2fs()),
        Err(Error::HoldsData)
    ));
    let volume = Volume::mount(&disk, "").unwrap();
    assert!(matches!(Volume::mount(&disk, ""), Err(Error::Mounted)));
    assert!(matches!(disk.check(), Err(Error::Mounted)));
    assert!(matches!(disk.write_at(0, &[0; 4096]), Err(Error::Mounted)));
    let anew = Format::ext4().overwrite(true);
    assert!(matches!(disk.format(&anew), Err(Error::Mounted)));
    volume.unmount().unwrap();
    disk.format(&anew).unwrap();
    assert!(
        disk.check().unwrap().is_clean(),
        "also behind other content"
    );
}

#[test]
fn blocks_have_any_size_up_to_64_kib() {
    for (bytes, options) in [
        (8192, "scheme=emmc"),
        (16_384, "data=journal"),
        (32_768, "scheme=fast-commit"),
        (65_536, "scheme=emmc"),
        (65_536, "scheme=jbd2"),
    ] {
        let disk = Disk::ram(160 << 20).unwrap();
        disk.format(&Format::ext4().block_bytes(bytes)).unwrap();
        let volume = Volume::mount(&disk, options).unwrap();
        for n in 0..200 {
            let (name, content) = (format!("/f{n}"), vec![n as u8; n * 701]);
            volume.write(&name, &content).unwrap();
        }
        volume.sync_dir("/").unwrap();
        volume.unmount().unwrap();
        let volume = Volume::mount(&disk, "ro").unwrap();
        for n in 0..200 {
            let content = volume.read(format!("/f{n}")).unwrap();
            assert!(content == vec![n as u8; n * 701], "{bytes} {options}: {n}");
        }
        volume.unmount().unwrap();
        assert!(disk.check().unwrap().is_clean(), "{bytes} {options}");
    }
}

#[test]
fn options_are_refused_by_name() {
    let disk = Disk::ram(16 << 20).unwrap();
    let refused = |format: Format| disk.format(&format).unwrap_err().to_string();
    let text = refused(Format::ext4().block_bytes(3000));
    assert!(text.contains("3000"), "{text}");
    let text = refused(Format::f2fs().block_bytes(1024));
    assert!(text.contains("F2FS has 4096"), "{text}");
    disk.format(&Format::new(Kind::Ext3)).unwrap();
    let e = Volume::mount(&disk, "speed=max").unwrap_err();
    assert!(
        matches!(&e, Error::Options(why) if why.contains("speed=max")),
        "{e}"
    );
    assert_eq!(e.errno(), 22, "EINVAL: the volume is as good as before");
    assert!(!e.to_string().contains("incompatible"), "{e}");
    // Only the volume tells that this is too much.
    let small = Disk::ram(64 << 20).unwrap();
    small.format(&Format::f2fs()).unwrap();
    for (disk, options) in [(&small, "reserve_root=99999999"), (&disk, "scheme=jftl")] {
        let e = Volume::mount(disk, options).unwrap_err();
        assert!(matches!(&e, Error::Options(_)), "{options}: {e:?}");
        assert_eq!(e.errno(), 22, "{e}");
    }
    assert!(!disk.is_mounted(), "a refused mount leaves the disk free");
    let e = Disk::ram(5000).unwrap_err();
    assert!(e.to_string().contains("multiple of 4096"), "{e}");
    let e = disk.read_at(4096, &mut vec![0; 16 << 20]).unwrap_err();
    assert!(e.to_string().contains("beyond the disk"), "{e}");
}

#[test]
fn an_image_is_locked_and_a_reader_cannot_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.img");
    let disk = Disk::create(&path, 16 << 20).unwrap();
    disk.format(&Format::ext4()).unwrap();
    let e = Disk::open(&path).unwrap_err();
    assert!(
        e.kind() == ErrorKind::ResourceBusy && e.to_string().contains("a.img"),
        "{e}"
    );
    let e = Disk::open(folder.path().join("b.img")).unwrap_err();
    assert!(
        e.kind() == ErrorKind::NotFound && e.to_string().contains("b.img"),
        "{e}"
    );
    drop(disk);
    let reader = Disk::open_read_only(&path).unwrap();
    assert!(matches!(
        Volume::mount(&reader, ""),
        Err(Error::ReadOnlyDisk)
    ));
    assert!(matches!(reader.recover(), Err(Error::ReadOnlyDisk)));
    Volume::mount(&reader, "ro").unwrap().unmount().unwrap();
}
