//! Tests of the whole journal.

mod coalition;
mod crash;
mod disk;
mod e2fsprogs;
mod fast;
mod full_first;
mod guards;
mod hostile;
mod life;
mod log_fuzz;
mod mixed;
mod plan_table;
mod remap_faults;
mod remap_images;
mod replay_cuts;
mod rules;
mod scheme_table;
mod super_tears;

use crate::inner::Inner;
use crate::{
    CleanLog, Journal, JournalError, LogPlace, Opened, Options, RecoveryReport, Step, open, open_on,
};
use base::{BLOCK_BYTES, BlockNo, Bytes};
use block::{BlockDevice, Queue};
use disk::{CrashDisk, Half};
use ondisk::jbd2::Superblock;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Options without timers.
fn quiet() -> Options {
    Options {
        commit_interval: None,
        writeback_expire: None,
        ..Options::default()
    }
}

fn filled(byte: u8) -> Bytes {
    vec![byte; BLOCK_BYTES].into()
}

/// A file system of `fs_blocks` blocks with a log of `log_blocks`, in two runs to exercise the
/// mapping: most of it from block 1 on, three blocks at the very end.
struct Rig {
    disk: Arc<CrashDisk>,
    queue: Arc<Queue>,
    /// The log's: of the same device, or of another one behind it on the disk.
    log_queue: Arc<Queue>,
    place: LogPlace,
}

const TAIL_RUN: u32 = 3;

fn place(fs_blocks: u64, log_blocks: u32) -> LogPlace {
    let front = (BlockNo(1), log_blocks - TAIL_RUN);
    let back = (BlockNo(fs_blocks - u64::from(TAIL_RUN)), TAIL_RUN);
    LogPlace::new(&[front, back], fs_blocks).expect("fits")
}

fn empty_log(log_blocks: u32) -> Bytes {
    let mut block = vec![0; BLOCK_BYTES];
    Superblock::new(BLOCK_BYTES as u32, log_blocks, *b"a journal's UUID").encode(&mut block);
    block.into()
}

impl Rig {
    fn new(fs_blocks: u64, log_blocks: u32) -> Rig {
        let content = BTreeMap::from([(1, empty_log(log_blocks))]);
        Rig::on(
            CrashDisk::new(fs_blocks, content),
            place(fs_blocks, log_blocks),
        )
    }
    fn on(disk: CrashDisk, place: LogPlace) -> Rig {
        let disk = Arc::new(disk);
        if !place.is_external() {
            let queue = Queue::new(disk.clone() as Arc<dyn BlockDevice>);
            let log_queue = queue.clone();
            return Rig {
                disk,
                queue,
                log_queue,
                place,
            };
        }
        let (all, homes) = (disk.blocks(), place.fs_blocks());
        let half = |blocks| {
            let disk = disk.clone();
            Queue::new(Arc::new(Half { disk, blocks }))
        };
        Rig {
            queue: half(0..homes),
            log_queue: half(homes..all),
            disk,
            place,
        }
    }
    /// The log on a device of its own, with its superblock at block 1 there.
    fn beside(fs_blocks: u64, log_blocks: u32) -> Rig {
        let mut log = Superblock::new(BLOCK_BYTES as u32, log_blocks, *b"a journal's UUID");
        log.set_first(2);
        let mut block = vec![0; BLOCK_BYTES];
        log.encode(&mut block);
        let content = BTreeMap::from([(fs_blocks + 1, block.into())]);
        let disk = CrashDisk::new(fs_blocks + u64::from(log_blocks), content);
        Rig::on(disk, LogPlace::external(BlockNo(1), log_blocks, fs_blocks))
    }
    /// First block outside of the log.
    fn first(&self) -> BlockNo {
        if self.place.is_external() {
            return BlockNo(1);
        }
        BlockNo(1 + u64::from(self.place.blocks_count() - TAIL_RUN))
    }
    fn open(&self) -> Result<Opened, JournalError> {
        let (queue, log_queue) = (self.queue.clone(), self.log_queue.clone());
        open_on(queue, log_queue, self.place.clone())
    }
    fn clean(&self) -> CleanLog {
        match self.open().expect("opens") {
            Opened::Clean(log) => log,
            Opened::NeedsRecovery(_) => panic!("the log is clean"),
        }
    }
    fn recover(&self) -> Result<(CleanLog, RecoveryReport), JournalError> {
        match self.open()? {
            Opened::Clean(_) => panic!("the log is dirty"),
            Opened::NeedsRecovery(log) => log.recover(),
        }
    }
    fn start(&self, options: Options) -> Arc<Journal> {
        self.clean().start(options).expect("starts")
    }
    fn start_broken(&self, options: Options, broken: Broken) -> Arc<Journal> {
        let mut inner = self.clean().prepare(options).expect("starts");
        broken.apply(&mut inner);
        Journal::run(inner).expect("its tasks start")
    }
    /// The device of this rig after a cut, with the journal not yet opened.
    fn after_cut(&self, cut: usize, seed: u64) -> Rig {
        let content = self.disk.cut(cut, seed);
        Rig::on(
            CrashDisk::new(self.disk.blocks(), content),
            self.place.clone(),
        )
    }
}

/// What a test breaks.
#[derive(Clone, Copy, Default)]
struct Broken {
    plan: Option<&'static [Step]>,
    skip_revoke_pass: bool,
}

impl Broken {
    const NOTHING: Broken = Broken {
        plan: None,
        skip_revoke_pass: false,
    };
    fn apply(&self, inner: &mut Inner) {
        if let Some(plan) = self.plan {
            inner.plan = Some(plan);
        }
    }
}

/// Ends the tasks of a journal that is not stopped: the power is gone.
fn crash(journal: &Journal) {
    journal.abort("test: power cut");
    journal.stop().expect_err("aborted");
}
