//! What journal work costs a CPU core: the measurements behind `base::cost::journal`. `cargo xtask
//! calibrate-cpu` runs this bench and prints the table beside the measurement. Each line of the
//! output holds a name and the nanoseconds of one operation in the fastest round.
#![allow(clippy::disallowed_macros)] // No simulation runs here: printing cannot hold up a yield.

use base::{BLOCK_BYTES, BlockNo, checksum};
use ondisk::jbd2::{
    CoalitionPart, CoalitionRecord, CoalitionWriter, Format, JournalCompat, JournalIncompat,
    Segment,
};
use std::hint::black_box;
use std::sync::Arc;
use varve_journal::{Journal, LogPlace, Opened, Options, measured, open};

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

const ROUNDS: u32 = 200;
const EACH: u32 = 200;

/// Prints what one call of `work` takes.
fn measure<R>(name: &str, mut work: impl FnMut() -> R) {
    let round = |_| {
        let start = rt::now();
        for _ in 0..EACH {
            black_box(work());
        }
        (rt::now() - start).0 as f64 / f64::from(EACH)
    };
    let best = (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min);
    println!("journal/{name}\t{best:.0}");
}

fn main() {
    if std::env::args().any(|a| a == "--test") {
        // `cargo test --benches` asks whether it builds, no more.
        return;
    }
    let journal = started();
    measure("handle", || {
        journal.start(8).and_then(varve_journal::Handle::finish)
    });
    let block = vec![1_u8; BLOCK_BYTES];
    measure("block-copy", || black_box(&block).clone());
    measure("block-checksum", || checksum::crc32c(!0, black_box(&block)));
    // An inode table block in which an inode and its checksum changed, 14 bytes in three places.
    let old = base::Bytes::from(vec![1_u8; BLOCK_BYTES]);
    let mut new = old.to_vec();
    let stores = [(1028, 8), (1052, 4), (1148, 2)];
    for (at, len) in stores {
        new[at..at + len].fill(2);
    }
    let new = base::Bytes::from(new);
    assert_eq!(measured::delta(&old, &new, &stores), 20 + 3 * 4 + 14 + 2);
    measure("delta-diff", || {
        measured::delta(black_box(&old), black_box(&new), &stores)
    });
    // A part of six small deltas, sealed: most of it are the two checksums of the part.
    let format = coalition_format();
    measure("coalition-encode", || coalition_part(&format));
    // The way back, for recovery; charged nowhere.
    let part = coalition_part(&format);
    measure("coalition-decode", || {
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
