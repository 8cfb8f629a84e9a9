//! What journal work costs a CPU core: the measurements behind `crates/journal/src/cost.rs`.

use base::{BLOCK_BYTES, BlockNo, checksum};
use divan::{Bencher, black_box};
use std::sync::Arc;
use varve_journal::{Journal, LogPlace, Opened, Options, open};

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
