//! No task may sleep for ever: requests for a transaction number that is given out twice, and the
//! timer of a task that slept first.

use base::{BLOCK_BYTES, BlockNo, Bytes, Nanos};
use block::Queue;
use blockdev::{Class, Ram, write_block};
use ondisk::jbd2::Superblock;
use rt::{Sim, SimConfig};
use std::sync::Arc;
use varve_journal::{Journal, LogPlace, Opened, Options, open};

const LOG_BLOCKS: u32 = 64;

fn start(options: Options) -> Arc<Journal> {
    let ram = Ram::new(256 * BLOCK_BYTES as u64);
    let mut block = vec![0; BLOCK_BYTES];
    Superblock::new(BLOCK_BYTES as u32, LOG_BLOCKS, [7; 16]).encode(&mut block);
    write_block(
        &ram,
        BlockNo(1).lba(),
        Class::JournalSuperblock,
        block.into(),
    )
    .expect("fits");
    let place = LogPlace::new(&[(BlockNo(1), LOG_BLOCKS)], 256).expect("fits");
    match open(Queue::new(Arc::new(ram)), place).expect("a log") {
        Opened::Clean(log) => log.start(options).expect("starts"),
        Opened::NeedsRecovery(_) => panic!("a new log is clean"),
    }
}

fn quiet() -> Options {
    Options {
        commit_interval: None,
        writeback_expire: None,
        ..Options::default()
    }
}

fn change(journal: &Journal, n: u64) -> base::Tid {
    let mut handle = journal.start(1).expect("room");
    let content: Bytes = vec![n as u8; BLOCK_BYTES].into();
    handle.create(BlockNo(100 + n), content).expect("credit");
    handle.finish().expect("runs")
}

#[test]
fn request_after_an_empty_transaction_is_heard() {
    for seed in 0..20 {
        let outcome = Sim::new(SimConfig::random(seed)).run(|| {
            let journal = start(quiet());
            for n in 0..4 {
                let empty = journal.start(1).expect("room").finish().expect("runs");
                journal.commit(empty).expect("nothing to do");
                let tid = change(&journal, n);
                journal.commit(tid).expect("commits");
                assert!(journal.committed().geq(tid));
            }
            journal.stop().expect("stops");
        });
        outcome.unwrap();
    }
}

#[test]
fn timer_commits_without_being_asked() {
    let options = Options {
        commit_interval: Some(Nanos::from_secs(5)),
        ..quiet()
    };
    let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
        let journal = start(options);
        for n in 0..3 {
            // The commit task sleeps by now, with nothing to set a timer for.
            rt::sleep(Nanos::from_secs(60));
            let tid = change(&journal, n);
            rt::sleep(Nanos::from_secs(4));
            assert!(!journal.committed().geq(tid), "not before its time");
            rt::sleep(Nanos::from_secs(2));
            assert!(journal.committed().geq(tid), "5 seconds have passed");
        }
        journal.stop().expect("stops");
    });
    outcome.unwrap();
}
