//! A commit request for a transaction without changes must not swallow the request for the next
//! one.

use base::{BLOCK_BYTES, BlockNo, Bytes};
use rt::{Sim, SimConfig};
use std::sync::Arc;
use varve_journal::{Journal, LogPlace, Opened, Options, open};

const LOG_BLOCKS: u32 = 64;

fn started() -> Arc<Journal> {
    let ram = blockdev::Ram::new(1 << 20);
    let mut superblock = vec![0; BLOCK_BYTES];
    let log = ondisk::jbd2::Superblock::new(BLOCK_BYTES as u32, LOG_BLOCKS, [7; 16]);
    log.encode(&mut superblock);
    let home = BlockNo(1);
    blockdev::write_block(&ram, home.lba(), block::Class::Home, superblock.into()).unwrap();
    let place = LogPlace::new(&[(home, LOG_BLOCKS)], 256).unwrap();
    let options = Options {
        commit_interval: None,
        writeback_expire: None,
        ..Options::default()
    };
    match open(block::Queue::new(Arc::new(ram)), place).unwrap() {
        Opened::Clean(log) => log.start(options).unwrap(),
        Opened::NeedsRecovery(_) => panic!("the log is fresh"),
    }
}

#[test]
fn a_request_after_an_empty_transaction_is_served() {
    let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
        let journal = started();
        let empty = journal.start(1).unwrap().finish().unwrap();
        journal.commit(empty).unwrap();
        rt::sleep(base::Nanos::from_millis(1));
        let mut handle = journal.start(1).unwrap();
        handle
            .create(BlockNo(100), Bytes::from(vec![1; BLOCK_BYTES]))
            .unwrap();
        let tid = handle.finish().unwrap();
        journal.commit(tid).unwrap();
        assert!(journal.committed().geq(tid));
        journal.stop().unwrap();
    });
    outcome.unwrap();
}
