//! A truncation that a crash interrupted, finished by the next mount.
#![allow(clippy::disallowed_methods)]

use crate::common::{made, mount};
use base::{BLOCK_BYTES, BlockNo, Ino};
use block::{Class, Queue};
use blockdev::{Ram, write_block};
use fscore::{Attr, Creds, FileKind, FileSystem, SetAttr};
use ondisk::ext4::{GroupDesc, Inode, Superblock};
use rt::{Sim, SimConfig};
use std::sync::Arc;
use varve_ext4::check::{Options, check};
use varve_ext4::mkfs::{JournalSize, MkfsOptions};
use varve_ext4::{Ext4, MountOptions};

const BYTES: u64 = 16 << 20;
/// Content of the file, and where the truncation cuts it: five blocks, cut inside the second.
const LEN: usize = 5 * BLOCK_BYTES - 100;
const CUT: usize = BLOCK_BYTES + 1000;

fn volume() -> Arc<Ram> {
    let mut options = MkfsOptions::new(BYTES, [3; 16], [5; 16], rt::wall());
    options.journal = JournalSize::Blocks(1024);
    made(&options)
}

fn content() -> Vec<u8> {
    (0..LEN).map(|n| 1 + (n % 251) as u8).collect()
}

fn block(ram: &Ram, at: u64) -> Vec<u8> {
    let found = ram.blocks().into_iter().find(|(n, _)| *n == at);
    found.map_or_else(|| vec![0; BLOCK_BYTES], |(_, bytes)| bytes.to_vec())
}

fn put(ram: &Ram, at: u64, bytes: Vec<u8>) {
    write_block(ram, BlockNo(at).lba(), Class::Home, bytes.into()).expect("in range");
}

/// Makes what the first transaction of a truncation leaves: the new size, and the inode on the
/// list. The zeros behind the end are missing, because ext4 of Linux writes them in a later
/// transaction.
fn interrupt_truncation(ram: &Ram, ino: Ino, size: u64) {
    let mut first = block(ram, 0);
    let mut sb = Superblock::parse(&first[1024..]).expect("a superblock");
    let (at, offset) = sb.desc_place(0);
    let desc = GroupDesc::parse(&block(ram, at.0)[offset..], sb.desc_bytes()).expect("group 0");
    let place = sb.inode_place(ino).expect("in group 0");
    let table = desc.inode_table().0 + place.table_block;
    let mut bytes = block(ram, table);
    let raw = &mut bytes[place.offset..place.offset + sb.inode_bytes()];
    let mut inode = Inode::parse(raw, sb.inode_bytes()).expect("the file");
    inode.set_size(size);
    inode.update_checksum(sb.seed(), ino);
    inode.encode(raw);
    put(ram, table, bytes);
    sb.set_last_orphan(ino);
    sb.encode(&mut first[1024..2048]);
    put(ram, 0, first);
}

fn times(attr: &Attr) -> [(i64, u32); 2] {
    [attr.mtime, attr.ctime].map(|t| (t.secs, t.nanos))
}

/// Hands `body` a volume much later than the crash, the file, and its attributes before. Checks
/// afterwards that the volume is consistent.
fn crashed(options: &str, body: impl FnOnce(&Arc<Ram>, Ino, &Attr)) {
    let options = options.to_owned();
    let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
        let ram = volume();
        let fs = mount(&ram, &options);
        let creds = Creds {
            uid: 0,
            gid: 0,
            umask: 0,
        };
        let made = fs.create(fs.root(), b"f", FileKind::File, 0o644, 0, creds);
        let ino = made.expect("made").ino;
        assert_eq!(fs.write(ino, 0, &content()).expect("written"), LEN);
        fs.fsync(ino, false).expect("synced");
        let before = fs.getattr(ino).expect("there");
        fs.unmount().expect("unmounts");
        interrupt_truncation(&ram, ino, CUT as u64);
        rt::sleep(base::Nanos::from_millis(20_000));
        body(&ram, ino, &before);
        let read = |at: BlockNo| Ok::<_, String>(block(&ram, at.0).into());
        let report = check(&read, &Options::new(BYTES / BLOCK_BYTES as u64));
        assert!(report.is_clean(), "{:?}", report.findings);
    });
    outcome.unwrap();
}

const MODES: [&str; 4] = ["", "data=writeback", "data=journal", "scheme=none"];

/// The truncation set the times when it began. The clock of the mount may be behind that: a board
/// without a clock of its own starts in 1970, and e2fsck, which finishes truncations too, sets no
/// times.
#[test]
fn a_truncation_finished_by_mount_keeps_the_times_of_the_file() {
    for options in MODES {
        crashed(options, |ram, ino, before| {
            let fs = mount(ram, options);
            let after = fs.getattr(ino).expect("there");
            fs.unmount().expect("unmounts");
            assert_eq!(after.size, CUT as u64, "{options}");
            assert_eq!(after.sectors, 16, "{options}: 512-byte units of two blocks");
            assert_eq!(times(&after), times(before), "{options}");
        });
    }
}

/// Checked in the mount that finishes the truncation and in the next one, which has only the
/// device.
#[test]
fn a_truncation_finished_by_mount_leaves_zeros_behind_the_end() {
    for (options, mounts) in MODES.iter().flat_map(|o| [(o, 1), (o, 2)]) {
        crashed(options, |ram, ino, _| {
            if mounts == 2 {
                mount(ram, options).unmount().expect("unmounts");
            }
            let fs = mount(ram, options);
            let longer = SetAttr {
                size: Some(LEN as u64),
                ..SetAttr::default()
            };
            fs.setattr(ino, &longer).expect("grows");
            let mut found = vec![0xFF; LEN];
            assert_eq!(fs.read(ino, 0, &mut found).expect("read"), LEN);
            assert!(found[..CUT] == content()[..CUT], "{options}");
            let stale = found[CUT..].iter().position(|b| *b != 0);
            assert_eq!(stale, None, "{options}: bytes that were cut off are back");
            fs.unmount().expect("unmounts");
        });
    }
}

/// The number of the last block would not fit, so the tail of another block would be zeroed.
#[test]
fn an_orphan_of_impossible_size_is_refused() {
    crashed("", |ram, ino, _| {
        mount(ram, "").unmount().expect("unmounts");
        interrupt_truncation(ram, ino, (1 << 44) + CUT as u64);
        let error = Ext4::mount(Queue::new(ram.clone()), MountOptions::default());
        let error = error.err().expect("refused").to_string();
        assert!(error.contains("beyond what can be mapped"), "{error}");
        interrupt_truncation(ram, ino, CUT as u64);
        mount(ram, "").unmount().expect("unmounts");
    });
}
