//! What journal work costs a CPU core: the measurements behind `crates/journal/src/cost.rs`.

use base::{BLOCK_BYTES, BlockNo, checksum};
use divan::{Bencher, black_box};
use ondisk::jbd2::{
    CoalitionPart, CoalitionRecord, CoalitionWriter, Format, JournalCompat, JournalIncompat,
    Segment,
};
use std::sync::Arc;
use varve_journal::{Journal, LogPlace, Opened, Options, measured, open};

fn main() {
    divan::main();
}

fn started() -> Arc<Journal> {
    const LOG_BLOCKS: u32 = 1024;
    let ram = blockdev::Ram::new(16 << 20);
    let mut superblock = vec![0; BLOCK_BYTES];
    ondisk::jbd2::Superblock::new(BLOCK_BYTES as u32, LOG_BLOCKS, [7; 16]).encode(&mut superblock);
    let home = BlockNo(1);
    blockdev::write_block(&ram, home.lba(), block::Class::Home, superblock.into())
        .expect("RAM takes it");
    let place = LogPlace::new(&[(home, LOG_BLOCKS)], 4096).expect("it fits");
    let options = Options {
        commit_interval: None,
        writeback_expire: None,
        ..Options::default()
    };
    match open(block::Queue::new(Arc::new(ram)), place).expect("a fresh log opens") {
        Opened::Clean(log) => log.start(options).expect("a clean log starts"),
        Opened::NeedsRecovery(_) => unreachable!("the log is fresh"),
    }
}

/// `HANDLE_START`: a handle from start to finish.
#[divan::bench]
fn handle(bencher: Bencher) {
    let journal = started();
    bencher.bench_local(|| journal.start(8).and_then(varve_journal::Handle::finish));
}

/// `BLOCK_COPY`: one 4 KiB block into a fresh allocation.
#[divan::bench]
fn block_copy(bencher: Bencher) {
    let block = vec![1_u8; BLOCK_BYTES];
    bencher.bench_local(|| black_box(&block).clone());
}

/// The larger part of `COMMIT_PER_BLOCK`: CRC32C of one 4 KiB block.
#[divan::bench]
fn block_checksum(bencher: Bencher) {
    let block = vec![1_u8; BLOCK_BYTES];
    bencher.bench_local(|| checksum::crc32c(!0, black_box(&block)));
}

/// `DELTA_DIFF`: the delta of an inode table block in which an inode and its checksum changed, 14 bytes in three places.
#[divan::bench]
fn delta_diff(bencher: Bencher) {
    let old = base::Bytes::from(vec![1_u8; BLOCK_BYTES]);
    let mut new = old.to_vec();
    let stores = [(1028, 8), (1052, 4), (1148, 2)];
    for (at, len) in stores {
        new[at..at + len].fill(2);
    }
    let new = base::Bytes::from(new);
    assert_eq!(measured::delta(&old, &new, &stores), 20 + 3 * 4 + 14 + 2);
    bencher.bench_local(|| measured::delta(black_box(&old), black_box(&new), &stores));
}

/// A coalition part of six small deltas, sealed: most of it are the two checksums of the part. `COMMIT_PER_BLOCK` is charged for it.
#[divan::bench]
fn coalition_encode(bencher: Bencher) {
    let format = coalition_format();
    bencher.bench_local(|| black_box(coalition_part(&format)));
}

/// The way back, for recovery.
#[divan::bench]
fn coalition_decode(bencher: Bencher) {
    let format = coalition_format();
    let part = coalition_part(&format);
    bencher.bench_local(|| {
        CoalitionPart::verify(&format, black_box(&part)).expect("sealed");
        CoalitionPart::parse(&format, &part).expect("valid")
    });
}

fn coalition_format() -> Format {
    let incompat = JournalIncompat::COALITION;
    Format::new(BLOCK_BYTES, JournalCompat::NONE, incompat, &[7; 16])
}

fn coalition_part(format: &Format) -> Vec<u8> {
    let mut writer = CoalitionWriter::new(format, base::Tid(1));
    for block in 0..6 {
        let segment = |offset| Segment {
            offset,
            bytes: base::Bytes::from_static(b"modified"),
        };
        writer.push(CoalitionRecord::Delta {
            block: BlockNo(block),
            cumulative: false,
            post_crc: 1,
            segments: [8, 100, 1000].map(segment).to_vec(),
        });
    }
    writer.finish((1, 0), true, &[]).remove(0)
}
