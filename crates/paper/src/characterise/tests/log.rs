//! The reader against debugfs: it reads bytes that debugfs wrote, and finds in a log of ours the
//! transactions that debugfs finds in it.

use crate::characterise::*;
use base::{BLOCK_BYTES, BlockNo, Bytes, SECTORS_PER_BLOCK, Tid};
use ondisk::jbd2::{CHECKSUM_CRC32C, JournalIncompat, MAGIC, Superblock};
use rig::{Class, Clock, Config, Stack};
use rt::{Sim, SimConfig};
use std::process::Command as Program;
use std::sync::Arc;
use vfs::OpenFlags;
use work::RunConfig;

/// The journal of the golden log lies from here on.
const HOME: u64 = 100;
const LOG_BLOCKS: u32 = 16;
const UUID: [u8; 16] = [
    0x12, 0x34, 0x56, 0x78, 0x12, 0x34, 0x12, 0x34, 0x12, 0x34, 0x12, 0x34, 0x56, 0x78, 0x9A, 0xBC,
];

fn zeros() -> Vec<u8> {
    vec![0; BLOCK_BYTES]
}

/// A superblock whose log begins at `start` with transaction 1.
fn superblock(start: u32) -> Vec<u8> {
    let mut sb = Superblock::new(BLOCK_BYTES as u32, LOG_BLOCKS, UUID);
    sb.set_incompat(JournalIncompat::WIDE_BLOCKS | JournalIncompat::CHECKSUM_V3);
    sb.set_checksum_type(CHECKSUM_CRC32C);
    sb.set_start(start);
    let mut block = zeros();
    sb.encode(&mut block);
    block
}

fn words(block: &mut [u8], words: &[(usize, u32)]) {
    for (at, word) in words {
        block[*at..*at + 4].copy_from_slice(&word.to_be_bytes());
    }
}

/// debugfs 1.47, `jo -c; jw -b 10000,10001; jc`: descriptor, two blocks, commit block (the latter
/// of another hour).
fn transaction() -> [Vec<u8>; 4] {
    let mut descriptor = zeros();
    words(
        &mut descriptor,
        &[(0, MAGIC), (4, 1), (8, 1), (12, 10000), (24, 0x9E6E_9931)],
    );
    words(
        &mut descriptor,
        &[(44, 10001), (48, 0xB), (56, 0x3763_4A15)],
    );
    descriptor[204..220].copy_from_slice(&UUID);
    words(&mut descriptor, &[(4092, 0x124A_8C00)]);
    let mut escaped = vec![b'B'; BLOCK_BYTES];
    escaped[..4].fill(0);
    let mut commit = zeros();
    words(
        &mut commit,
        &[(0, MAGIC), (4, 2), (8, 1), (0x10, 0x5071_FECF)],
    );
    words(&mut commit, &[(0x30, 0x6B02_04AF), (0x38, 0x2D19_DA48)]);
    [descriptor, vec![b'A'; BLOCK_BYTES], escaped, commit]
}

fn span(log_block: u32, bytes: Vec<u8>) -> Span {
    Span {
        lba: BlockNo(HOME + u64::from(log_block)).lba(),
        sectors: bytes.len() as u64 / 512,
        class: Class::JournalMetadata,
        bytes: Some(bytes.into()),
    }
}

fn reader(start: u32) -> LogReader {
    let layout = Arc::new(Layout::of_run(BlockNo(HOME), LOG_BLOCKS));
    LogReader::within(layout, &superblock(start)).unwrap()
}

fn check(read: &Transaction) {
    let mut magic = vec![b'B'; BLOCK_BYTES];
    magic[..4].copy_from_slice(&MAGIC.to_be_bytes());
    let image = |home, bytes: Vec<u8>| Logged::Image {
        home: BlockNo(home),
        bytes: bytes.into(),
        data: false,
    };
    let wanted = [image(10000, vec![b'A'; BLOCK_BYTES]), image(10001, magic)];
    assert_eq!(read.tid, Tid(1));
    assert!(read.logged == wanted, "the two blocks as they are at home");
    let parts: Vec<Part> = read.blocks.iter().map(|(part, _)| *part).collect();
    let wanted = [Part::Descriptor, Part::Image, Part::Image, Part::Commit];
    assert_eq!(parts, wanted);
    assert_eq!(read.commit_bytes, Some(60));
}

#[test]
fn a_log_of_debugfs_is_read_wherever_it_lies_and_whatever_comes_first() {
    // The ring has the blocks 1 to 15: from 13 on the transaction wraps.
    for (start, order) in [(1, [0, 1, 2, 3]), (4, [3, 2, 1, 0]), (13, [3, 0, 1, 2])] {
        let mut reader = reader(start);
        let blocks = transaction();
        for (n, part) in order.into_iter().enumerate() {
            assert_eq!(reader.next_transaction().unwrap(), None, "characterise-X1");
            let at = (start - 1 + part) % (LOG_BLOCKS - 1) + 1;
            reader
                .take(&span(at, blocks[part as usize].clone()), n)
                .unwrap();
        }
        let read = reader.next_transaction().unwrap().unwrap();
        check(&read);
        assert_eq!((read.record(), reader.unread()), (3, 0));
        assert_eq!(reader.next_transaction().unwrap(), None);
    }
}

#[test]
fn a_log_with_one_wrong_byte_is_refused() {
    // In each block (descriptor, two images, commit block) one byte that counts is damaged
    // (characterise-X2).
    for (part, byte) in [(0, 30), (1, 7), (2, 4000), (3, 0x33)] {
        let mut reader = reader(1);
        for (n, mut block) in transaction().into_iter().enumerate() {
            if n == part {
                block[byte] ^= 1;
            }
            reader.take(&span(1 + n as u32, block), n).unwrap();
        }
        assert!(reader.next_transaction().is_err(), "part {part}");
    }
    let mut reader = reader(1);
    let e = reader.take(&span(3, vec![0; 512]), 0).unwrap_err();
    assert!(e.to_string().starts_with("log block 3"), "{e}");
}

/// What `debugfs logdump` says of a log: transactions with the homes of their blocks.
fn logdump(image: &std::path::Path) -> Option<Vec<(u32, Vec<u64>)>> {
    let out = ["debugfs", "/usr/sbin/debugfs"]
        .into_iter()
        .find_map(|program| {
            let mut program = Program::new(program);
            let args = ["-R", "logdump -a"];
            program
                .args(args)
                .arg(image)
                .env("DEBUGFS_PAGER", "cat")
                .output()
                .ok()
        })?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let number = |line: &str, before: &str| -> Option<u64> {
        let rest = &line[line.find(before)? + before.len()..];
        rest.split(|c: char| !c.is_ascii_digit())
            .next()?
            .parse()
            .ok()
    };
    let (mut all, mut homes) = (Vec::new(), Vec::new());
    for line in text.lines() {
        if let Some(home) = number(line, "FS block ") {
            homes.push(home);
        } else if line.contains("(commit block)") {
            let tid = number(line, "sequence ").expect("a commit block has a number");
            all.push((tid as u32, std::mem::take(&mut homes)));
        }
    }
    Some(all)
}

fn homes(read: &Transaction) -> (u32, Vec<u64>) {
    let homes = read.logged.iter().map(|logged| logged.home().0);
    (read.tid.0, homes.collect())
}

/// Files made and synced one by one, then the power is cut: the image is unclean, and its log is
/// all that was written.
fn unclean(config: &RunConfig, session: &Session) -> rig::AnyModel {
    let sim = Sim::new(SimConfig::seeded(1));
    let model = config.stack.format().unwrap();
    let outcome = sim.run(|| {
        let between = session.between();
        let stack = Stack::mount_through(model, &config.stack, Clock::Runtime, between).unwrap();
        let flags = OpenFlags::READ_WRITE | OpenFlags::CREATE;
        for n in 0..12 {
            let file = stack.vfs.open(format!("/{n}"), flags, 0o644).unwrap();
            file.write_at(0, &[n; 5000]).unwrap();
            file.fsync().unwrap();
            file.close().unwrap();
        }
        let media = stack.device.power_off(0).unwrap();
        rt::power_cut();
        media
    });
    config.stack.attach(outcome.value.unwrap()).unwrap()
}

#[test]
fn debugfs_reads_the_same_transactions() {
    let mut stack = Config::new(rig::Preset::Jbd2, "emmc-odroid-xu4", 7);
    (stack.bytes, stack.timers) = (128 << 20, false);
    let config = RunConfig {
        stack,
        workload: "fsync:op=create".into(),
        seed: 7,
        recording: None,
    };
    let session = Session::new(&config.stack).unwrap();
    let model = unclean(&config, &session);
    let commits = session.commits().unwrap();
    let ours: Vec<_> = commits.iter().map(|c| homes(&c.transaction)).collect();
    assert!(ours.len() >= 12, "{} commits", ours.len());

    // The same commits are read from the medium alone.
    let read = |block: BlockNo| -> Bytes { model.visible(block.0) };
    let layout = Arc::new(Layout::read(&read).unwrap());
    let first = layout.home_of(0).unwrap();
    let mut reader = LogReader::within(layout.clone(), &read(first)).unwrap();
    let written = (1..layout.log_blocks()).map(|at| layout.home_of(at).unwrap());
    for home in written.filter(|home| !base::bytes::is_zero(&read(*home))) {
        let span = Span {
            lba: home.lba(),
            sectors: SECTORS_PER_BLOCK,
            class: Class::JournalMetadata,
            bytes: Some(read(home)),
        };
        reader.take(&span, 0).unwrap();
    }
    let mut theirs = Vec::new();
    while let Some(read) = reader.next_transaction().unwrap() {
        theirs.push(homes(&read));
    }
    assert_eq!(theirs, ours, "the medium and the tap");

    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    rig::write_image(&model, &image).unwrap();
    match logdump(&image) {
        Some(dumped) => assert_eq!(dumped, ours, "debugfs and the tap"),
        None => eprintln!("skipped: debugfs is not installed"),
    }
}
