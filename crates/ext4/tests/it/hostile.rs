//! Damaged images: every operation answers, with an error or without; none panics or runs without
//! end.
#![allow(clippy::disallowed_methods)]

use crate::common::{Image, fork, have_tools, mount, pattern, try_mount};
use base::bytes::{get_le32, put_le32};
use base::{BLOCK_BYTES, BlockNo, Ino, Rng};
use blockdev::{BlockDevice, Class, Ram, write_block};
use fscore::{
    Creds, Errno, FallocateMode, FileKind, FileSystem, FsError, RenameMode, SetAttr, XattrMode,
};
use std::sync::Arc;
use testkit::Brief;
use varve_ext4::Ext4;

/// An image with directories, a hash tree, extent blocks, holes, symbolic links, an orphan and a
/// log to recover.
fn filled(mkfs: &[&str]) -> Option<Arc<Ram>> {
    if !have_tools() {
        return None;
    }
    let image = Image::new(16, mkfs);
    let (ram, fs) = image.mount("commit=600");
    let creds = Creds::default();
    let dir = fs.dir(b"dir");
    for n in 0..200 {
        let name = format!("{n:0>60}");
        let file = fs
            .create(dir, name.as_bytes(), FileKind::File, 0o644, 0, creds)
            .expect("create");
        if n % 10 == 0 {
            let value = pattern(n, n as usize * 7);
            fs.setxattr(file.ino, b"user.v", &value, XattrMode::Any)
                .expect("setxattr");
        }
        if n % 20 == 0 {
            fs.write(file.ino, 0, &pattern(n, 5000)).expect("write");
        }
    }
    let sparse = fs
        .create(fs.root(), b"sparse", FileKind::File, 0o644, 0, creds)
        .expect("create");
    for n in 0..40 {
        fs.write(sparse.ino, n * 8192, b"x").expect("write");
    }
    fs.make_link(fs.root(), b"link", &[b'l'; 100])
        .expect("symlink");
    fs.sync().expect("sync");
    let open = fs
        .create(fs.root(), b"open", FileKind::File, 0o644, 0, creds)
        .expect("create");
    fs.open(open.ino).expect("open");
    fs.write(open.ino, 0, &pattern(1, 30_000)).expect("write");
    fs.unlink(fs.root(), b"open").expect("unlink");
    fs.sync().expect("sync");
    Some(fork(&ram))
}

fn read_block(ram: &Ram, n: u64) -> Vec<u8> {
    let request = blockdev::Request::read(BlockNo(n).lba(), 8);
    ram.wait(ram.submit(request))
        .expect("read")
        .into_bytes()
        .to_vec()
}

/// Changes a few bytes somewhere.
fn damage(ram: &Ram, rng: &mut Rng) {
    let blocks = ram.blocks();
    for _ in 0..=rng.below(6) {
        let (n, _) = blocks[rng.below(blocks.len() as u64) as usize];
        let mut block = read_block(ram, n);
        match rng.below(10) {
            0 => block.fill(0xFF),
            1 => rng.fill(&mut block),
            _ => {
                for _ in 0..=rng.below(8) {
                    let at = rng.below(BLOCK_BYTES as u64) as usize;
                    block[at] = match rng.below(4) {
                        0 => 0,
                        1 => 0xFF,
                        2 => block[at] ^ (1 << rng.below(8)),
                        _ => rng.next_u64() as u8,
                    };
                }
            }
        }
        write_block(ram, BlockNo(n).lba(), Class::Home, block.into()).expect("in range");
    }
}

/// Reads and changes everything that can be reached.
fn exercise(fs: &Ext4) {
    let mut dirs = vec![fs.root()];
    let mut seen = std::collections::BTreeSet::from([fs.root()]);
    let mut files: Vec<(Ino, Ino, Vec<u8>)> = Vec::new();
    while let Some(dir) = dirs.pop() {
        let mut from = 0;
        for _ in 0..20 {
            let Ok(entries) = fs.readdir(dir, from, 50) else {
                break;
            };
            let Some(last) = entries.last() else { break };
            from = last.next;
            for e in entries {
                let _ = fs.lookup(dir, &e.name);
                let _ = fs.getattr(e.ino);
                let _ = fs.readlink(e.ino);
                if e.kind == FileKind::Dir && seen.insert(e.ino) {
                    dirs.push(e.ino);
                }
                files.push((dir, e.ino, e.name));
            }
        }
        let _ = fs.make(dir, b"new");
        let _ = fs.make_dir(dir, b"newdir");
    }
    let mut buf = vec![0; 70_000];
    for (n, (dir, ino, name)) in files.iter().enumerate() {
        let _ = fs.read(*ino, 0, &mut buf);
        for name in fs.listxattr(*ino).unwrap_or_default() {
            let _ = fs.getxattr(*ino, &name);
            match n % 3 {
                0 => drop(fs.removexattr(*ino, &name)),
                1 => drop(fs.setxattr(*ino, &name, &[1; 300], XattrMode::Replace)),
                _ => {}
            }
        }
        let _ = fs.fallocate(*ino, FallocateMode::Allocate, 5000, 30_000);
        match n % 6 {
            0 => drop(fs.write(*ino, 3000, &[7; 9000])),
            1 => drop(fs.unlink(*dir, name)),
            2 => {
                let set = SetAttr {
                    size: Some(10),
                    ..SetAttr::default()
                };
                drop(fs.setattr(*ino, &set));
            }
            3 => drop(fs.rename(*dir, name, fs.root(), b"moved", RenameMode::Replace)),
            4 => drop(fs.rmdir(*dir, name)),
            _ => drop(fs.fsync(*ino, false)),
        }
    }
    let _ = fs.sync();
    let _ = fs.statfs();
    let _ = fs.unmount();
    assert_eq!(
        fs.getattr(fs.root()).expect_err("unmounted").errno(),
        Errno::Shutdown
    );
}

fn rounds(mkfs: &[&str], seed: u64, count: usize) {
    let Some(base) = filled(mkfs) else { return };
    let mut rng = Rng::named(seed, "damage");
    let (mut mounted, mut refused) = (0, 0);
    // VARVE_FUZZ_ROUNDS multiplies the number of rounds.
    let more = std::env::var("VARVE_FUZZ_ROUNDS")
        .ok()
        .and_then(|n| n.parse().ok());
    for _ in 0..count * more.unwrap_or(1) {
        let ram = fork(&base);
        damage(&ram, &mut rng);
        let options = if rng.one_in(4) { "ro" } else { "" };
        match try_mount(&ram, options) {
            Ok(fs) => {
                mounted += 1;
                exercise(&fs);
            }
            Err(e) => {
                refused += 1;
                assert!(
                    !matches!(e, FsError::Posix(_)),
                    "mount says what is wrong: {e}"
                );
            }
        }
    }
    assert!(
        mounted > 0 && refused > 0,
        "{mounted} mounted, {refused} refused"
    );
}

#[test]
fn without_checksums() {
    rounds(
        &["-O", "^metadata_csum", "-N", "512", "-J", "size=4"],
        1,
        60,
    );
}

#[test]
fn block_maps() {
    rounds(&["-t", "ext3", "-N", "512", "-J", "size=4"], 3, 40);
}

#[test]
fn with_checksums() {
    rounds(&["-N", "512", "-J", "size=4"], 2, 40);
}

#[test]
fn damage_latches_the_mount_and_is_noted_for_e2fsck() {
    let Some(ram) = filled(&["-N", "512", "-J", "size=4"]) else {
        return;
    };
    let fs = mount(&ram, "");
    let dir = fs.find(b"dir");
    let victim = fs
        .lookup(dir, format!("{:0>60}", 7).as_bytes())
        .expect("there");
    fs.unmount().expect("unmount");
    // The inode table of group 0, found by the victim's generation-independent place.
    let table = inode_block(&ram, victim);
    let mut block = read_block(&ram, table.0);
    block[table.1 + 4] ^= 1;
    write_block(&ram, BlockNo(table.0).lba(), Class::Home, block.into()).expect("in range");
    damage_as_errors_says(&ram, victim);

    let fs = mount(&ram, "errors=remount-ro");
    let e = fs.getattr(victim).expect_err("its checksum is wrong");
    assert!(
        matches!(&e, FsError::Corrupt { what } if what.contains(&format!("inode {victim}"))),
        "{e}"
    );
    assert!(fs.failed().is_some(), "latched");
    assert!(fs.read(fs.find(b"sparse"), 0, &mut [0; 10]).is_ok());
    let e = fs
        .create(fs.root(), b"x", FileKind::File, 0, 0, Creds::default())
        .expect_err("latched");
    assert!(matches!(e, FsError::Aborted { .. }), "{e}");
    assert!(fs.unmount().is_err());
    // The note is in the log, as a read-only mount shows, which recovers only.
    let fs = mount(&ram, "ro");
    fs.unmount().expect("unmount");
    let image = Image::new(16, &[]);
    image.store(&ram);
    noted_as_corruption(&image);
}

/// Checks the state and both error records of the superblock, in the output of dumpe2fs.
fn noted_as_corruption(image: &Image) {
    let said = image.dumpe2fs();
    let value = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim)
    };
    let state = value("Filesystem state:");
    assert!(state.is_some_and(|s| s.contains("with errors")), "{said}");
    for record in ["First", "Last"] {
        let code = value(&format!("{record} error err:"));
        assert_eq!(code, Some("EFSCORRUPTED"), "{said}");
        let place = value(&format!("{record} error function:"));
        assert_eq!(place, Some("varve"), "{said}");
    }
}

/// Works on copies: with `errors=continue`, which is also what the superblock says, the mount goes
/// on; with `panic` it refuses everything.
fn damage_as_errors_says(ram: &Arc<Ram>, victim: Ino) {
    for (options, goes_on) in [
        ("", true),
        ("errors=continue", true),
        ("errors=panic", false),
    ] {
        let ram = Arc::new(Ram::from_image(&ram.image()));
        let fs = mount(&ram, options);
        let e = fs.getattr(victim).expect_err("its checksum is wrong");
        assert!(matches!(e, FsError::Corrupt { .. }), "{e}");
        assert_eq!(fs.failed().is_none(), goes_on, "{options}");
        assert_eq!(fs.getattr(fs.root()).is_ok(), goes_on, "{options}");
        let made = fs.create(fs.root(), b"x", FileKind::File, 0, 0, Creds::default());
        assert_eq!(made.is_ok(), goes_on, "{options}");
        assert_eq!(fs.unmount().is_ok(), goes_on, "{options}");
        let image = Image::new(16, &[]);
        // Without recovery the note is in the superblock only if the mount was ended by an unmount.
        image.store(&ram);
        if goes_on {
            noted_as_corruption(&image);
        }
    }
}

/// Block and offset of an inode, from the first group descriptor.
fn inode_block(ram: &Ram, ino: Ino) -> (u64, usize) {
    let desc = read_block(ram, 1);
    let table = u64::from(base::bytes::get_le32(&desc, 8));
    let at = (ino.0 as usize - 1) * 256;
    (table + (at / BLOCK_BYTES) as u64, at % BLOCK_BYTES)
}

#[test]
fn mounts_that_are_refused_say_why() {
    if !have_tools() {
        return;
    }
    let refused = |mkfs: &[&str], options: &str, words: &[&str]| {
        let e = try_mount(&Image::new(16, mkfs).load(), options)
            .err()
            .expect("refused");
        let text = e.to_string();
        assert!(
            words.iter().all(|w| text.contains(w)),
            "{mkfs:?} {options}: {text}"
        );
    };
    refused(&["-O", "^has_journal"], "", &["no journal", "scheme=none"]);
    refused(&["-O", "ea_inode"], "", &["ea_inode"]);
    refused(&["-O", "verity"], "", &["verity", "ro"]);
    refused(&["-O", "quota"], "", &["quota", "ro"]);
    refused(&[], "scheme=none,data=journal", &["data=journal"]);
    let short = Ram::new(8 << 20);
    for (n, block) in Image::new(16, &[]).load().blocks() {
        if n < 2048 {
            write_block(&short, BlockNo(n).lba(), Class::Home, block).expect("in range");
        }
    }
    let e = try_mount(&Arc::new(short), "")
        .err()
        .expect("refused")
        .to_string();
    assert!(
        e.contains("4096 blocks of 4096 bytes, the device 2048"),
        "{e}"
    );
    let e = try_mount(&Arc::new(Ram::new(1 << 20)), "")
        .err()
        .expect("refused")
        .to_string();
    assert!(e.contains("superblock") && e.contains("magic"), "{e}");
}

/// A log may bring a superblock that differs from the one that was there: it is checked like any
/// other.
#[test]
fn a_superblock_that_recovery_brings_is_judged_like_any_other() {
    if !have_tools() {
        return;
    }
    let plain = Image::new(16, &["-O", "^metadata_csum", "-J", "size=4"]).load();
    let is_log = |n: u64| ondisk::jbd2::Superblock::parse(&read_block(&plain, n)).is_ok();
    let log = (0..4096).find(|&n| is_log(n)).expect("a log");
    let mut short = read_block(&plain, log);
    ondisk::jbd2::Superblock::new(4096, 300, [7; 16]).encode(&mut short[..1024]);
    write_block(&plain, BlockNo(log).lba(), Class::Home, short.into()).expect("in range");
    for (field, bits, words) in [
        (0, 0, None),
        // The feature large_dir needs a longer log.
        (0x60, 0x4000, Some("at least")),
        (0x60, 0x0800_0000, Some("feature")),
        (0x64, 0x8000, Some("verity")),
        (0x04, 0x2000, Some("the image is cut off")),
    ] {
        let image = Image::new(16, &[]);
        image.store(&plain);
        let mut block = read_block(&plain, 0);
        let old = get_le32(&block, 1024 + field);
        put_le32(&mut block, 1024 + field, old | bits);
        let file = image.dir.path().join("block");
        std::fs::write(&file, &block).expect("a file");
        image.debugfs_write(&["jo", &format!("jw -b 0 {}", file.display()), "jc"]);
        let outcome = try_mount(&image.load(), "").map(|fs| {
            let recovered = fs.recovery().expect("the log is not empty").transactions;
            fs.unmount().expect("unmount");
            recovered
        });
        match (outcome, words) {
            (Ok(recovered), None) => assert!(recovered > 0),
            (Err(e), Some(words)) => assert!(e.to_string().contains(words), "{e}"),
            (outcome, _) => panic!("{field:#x}: {outcome:?}"),
        }
    }
}
