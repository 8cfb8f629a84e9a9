//! What journal and device do while a workload runs: a layer between queue and device that counts
//! commits, checkpoints and what the flash does, over the time of the measured part.

use base::{SECTORS_PER_BLOCK, Time};
use report::over_time::{Happened, Line, OverTime};
use rig::{
    AnyModel, BlockDevice, Caps, Class, DevError, FlashStats, Modelled, Reply, Request, Ticket,
};
use rt::Mutex;
use std::cell::RefCell;
use std::sync::Arc;
use vfs::SyncRecord;

/// The layer. It takes no virtual time.
pub(crate) struct Meanwhile {
    inner: Arc<dyn BlockDevice>,
    /// `None` before the measured part and after it.
    part: Mutex<Option<Part>>,
}

/// The measured part.
struct Part {
    begin: Time,
    device: Arc<Modelled<AnyModel>>,
    flash: FlashStats,
    line: Line,
    /// When the last record of a coalition was sent, if no commit block has followed: then the
    /// record commits itself.
    record: Option<Time>,
}

impl Part {
    fn add(&mut self, at: Time, what: &Happened) {
        if *what != Happened::default() {
            self.line.happened(at - self.begin, what);
        }
    }

    fn commit(&mut self, at: Time) {
        let commit = Happened {
            commits: 1,
            ..Happened::default()
        };
        self.add(at, &commit);
    }

    fn sent(&mut self, sent: &Sent) {
        let now = rt::now();
        if sent.commit {
            self.record = None;
            self.commit(now);
        } else if sent.record
            && let Some(earlier) = self.record.replace(now)
        {
            self.commit(earlier);
        }
        let flash = self.device.flash_stats().unwrap_or_default();
        let since = flash.since(&self.flash);
        self.flash = flash;
        let happened = Happened {
            commits: 0,
            checkpoint_blocks: sent.checkpoint_sectors.div_ceil(SECTORS_PER_BLOCK),
            moved_units: since.gc_copies + since.slc_folds,
            erases: since.erases,
        };
        self.add(now, &happened);
    }
}

/// What a request tells.
#[derive(Default)]
struct Sent {
    /// It holds a block that ends a commit.
    commit: bool,
    /// It holds a record of a coalition.
    record: bool,
    checkpoint_sectors: u64,
}

impl Sent {
    fn of(request: &Request) -> Sent {
        let mut sent = Sent::default();
        for piece in request.written().iter().flat_map(|write| write.1) {
            match piece.class {
                Class::JournalCommit | Class::FastCommit => sent.commit = true,
                Class::Coalition => sent.record = true,
                Class::Home | Class::CheckpointPack | Class::Nat | Class::Sit | Class::Ssa => {
                    sent.checkpoint_sectors += piece.bytes.len() as u64 / base::SECTOR_BYTES as u64;
                }
                _ => {}
            }
        }
        sent
    }
}

impl Meanwhile {
    /// The measured part on `device` begins.
    pub fn begin(&self, device: &Arc<Modelled<AnyModel>>) {
        *self.part.lock() = Some(Part {
            begin: rt::now(),
            device: device.clone(),
            flash: device.flash_stats().unwrap_or_default(),
            line: Line::default(),
            record: None,
        });
    }

    /// What was counted, with the syncs or, without any, the operations `called` of a measured part
    /// that began at `begin`.
    pub fn over_time(&self, called: Line, syncs: &[SyncRecord], begin: Time) -> Option<OverTime> {
        let mut synced = Line::default();
        for sync in syncs {
            synced.called(sync.at + sync.took - begin, sync.took);
        }
        OverTime::of(self.end(), synced, called)
    }

    /// It has ended: what happened.
    fn end(&self) -> Line {
        let Some(mut part) = self.part.lock().take() else {
            return Line::default();
        };
        if let Some(at) = part.record.take() {
            part.commit(at);
        }
        part.line
    }
}

impl BlockDevice for Meanwhile {
    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    fn submit(&self, request: Request) -> Ticket {
        let sent = Sent::of(&request);
        let ticket = self.inner.submit(request);
        if let Some(part) = &mut *self.part.lock() {
            part.sent(&sent);
        }
        ticket
    }

    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        self.inner.wait(ticket)
    }

    fn due(&self, ticket: Ticket) -> Option<Time> {
        self.inner.due(ticket)
    }
}

/// The layer of one run: it is made when the device is there.
#[derive(Default)]
pub(crate) struct Beside(RefCell<Option<Arc<Meanwhile>>>);

impl Beside {
    /// Puts the layer over `inner`.
    pub fn over(&self, inner: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
        let layer = Arc::new(Meanwhile {
            inner,
            part: Mutex::named("meanwhile", None),
        });
        *self.0.borrow_mut() = Some(layer.clone());
        layer
    }

    /// The layer, if it was made.
    pub fn layer(&self) -> Option<Arc<Meanwhile>> {
        self.0.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use crate::RunConfig;
    use crate::run::{Finished, run};
    use rig::Scheme;

    fn finished(scheme: &str, device: &str, workload: &str) -> Finished {
        let mut stack = rig::Config::new(scheme.parse::<Scheme>().unwrap(), device, 3);
        stack.bytes = 64 << 20;
        let config = RunConfig {
            stack,
            workload: workload.into(),
            seed: 3,
            recording: None,
        };
        run(&config, &mut |_, _| {}).unwrap()
    }

    /// The lists add up to the totals of the run, whichever way a scheme commits.
    #[test]
    fn nothing_that_happens_is_lost_or_counted_twice() {
        for scheme in [
            "jbd2",
            "coalition",
            "coalition-paper",
            "emmc",
            "adaptive",
            "fast-commit",
        ] {
            let finished = finished(
                scheme,
                "emmc-odroid-xu4",
                "sqlite:insert=40,update=20,delete=10",
            );
            let run = &finished.run;
            let over = run.over_time.as_ref().unwrap();
            let sum = |column: &[u64]| column.iter().sum::<u64>();
            assert_eq!(sum(&over.commits), run.commits, "commits of {scheme}");
            assert_eq!(
                (over.of.as_str(), sum(&over.calls)),
                ("sync", finished.measured.syncs.len() as u64),
                "{scheme}"
            );
            let home = run.blocks.get("home").copied().unwrap_or(0);
            assert_eq!(sum(&over.checkpoint_blocks), home, "{scheme}");
            let flash = run.flash.as_ref().unwrap();
            assert_eq!(sum(&over.erases), flash.erases, "{scheme}");
            let longest = over.max_us.iter().copied().fold(0.0, f64::max);
            assert_eq!(longest, run.latency_us.fsync.max, "{scheme}");
            let seconds = over.bin_s * over.len() as f64;
            assert!(
                seconds <= run.virtual_seconds + over.bin_s,
                "{scheme}: {seconds}"
            );
        }
    }

    #[test]
    fn without_syncs_the_operations_are_told() {
        let run = finished(
            "jbd2",
            "emmc-odroid-xu4",
            "meta:op=create,count=3000,procs=3",
        )
        .run;
        let over = run.over_time.unwrap();
        assert_eq!(over.of, "operation");
        assert_eq!(over.calls.iter().sum::<u64>(), run.ops);
        let busy = over.calls.iter().filter(|n| **n > 0).count();
        assert!(
            busy > 10,
            "operations of several tasks end over time: {:?}",
            over.calls
        );
    }
}
