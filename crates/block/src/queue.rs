//! The queue in front of one device.

use crate::batch::{Batch, Kind};
use crate::durability::{Durability, WriteMark};
use crate::plug::{Plug, Write};
use crate::stats::QueueStats;
use base::{Bytes, Lba};
use blockdev::{BlockDevice, Caps, Class, DevError, Op, Request, Ticket};
use rt::{Condvar, Mutex};
use std::sync::Arc;

/// All requests of a file system and its journal pass here.
pub struct Queue {
    device: Arc<dyn BlockDevice>,
    caps: Caps,
    state: Mutex<State>,
    flush_ended: Condvar,
}

#[derive(Default)]
struct State {
    durability: Durability,
    stats: QueueStats,
}

impl Queue {
    /// A queue in front of `device`.
    pub fn new(device: Arc<dyn BlockDevice>) -> Arc<Queue> {
        let caps = device.caps();
        let state = Mutex::named("block queue", State::default());
        Arc::new(Queue {
            device,
            caps,
            state,
            flush_ended: Condvar::new(),
        })
    }

    /// The promises of the device.
    pub fn caps(&self) -> &Caps {
        &self.caps
    }

    /// Reads `sectors` sectors.
    ///
    /// # Errors
    /// What the device says.
    pub fn read(&self, lba: Lba, sectors: u64) -> Result<Bytes, DevError> {
        let request = Request::read(lba, sectors);
        self.state.lock().stats.add(&request);
        Ok(self.device.wait(self.device.submit(request))?.into_bytes())
    }

    /// Writes and waits; the data may sit in the device cache afterwards.
    ///
    /// # Errors
    /// What the device says.
    pub fn write(self: &Arc<Self>, lba: Lba, class: Class, bytes: Bytes) -> Result<(), DevError> {
        self.write_one(Write::new(lba, class, bytes, false))
    }

    /// Writes and waits; the data is non-volatile afterwards. Without FUA in the device a flush follows the write.
    ///
    /// # Errors
    /// What the device says.
    pub fn write_fua(
        self: &Arc<Self>,
        lba: Lba,
        class: Class,
        bytes: Bytes,
    ) -> Result<(), DevError> {
        self.write_one(Write::new(lba, class, bytes, true))
    }

    fn write_one(self: &Arc<Self>, write: Write) -> Result<(), DevError> {
        let (ticket, kind) = self.send_write(write);
        let mut batch = Batch::new(self.clone());
        batch.push(ticket, kind);
        batch.wait()
    }

    /// Starts to gather writes.
    pub fn plug(self: &Arc<Self>) -> Plug {
        Plug::new(self.clone())
    }

    /// Discards sectors; a no-op on a device that cannot.
    ///
    /// # Errors
    /// What the device says.
    pub fn discard(&self, lba: Lba, sectors: u64) -> Result<(), DevError> {
        if !self.caps.discard {
            return Ok(());
        }
        // A discard is volatile until the next flush, like a cached write (H19).
        let request = Request::discard(lba, sectors);
        self.begin(&request, Kind::Cached);
        let ticket = self.device.submit(request);
        self.wait_write(ticket, Kind::Cached)
    }

    /// Sends a flush and waits for it. Without a volatile cache there is nothing to send.
    ///
    /// # Errors
    /// What the device says.
    pub fn flush(&self) -> Result<(), DevError> {
        let request = Request::flush();
        let start = {
            let mut state = self.state.lock();
            if self.caps.volatile_cache {
                state.stats.add(&request);
            }
            state.durability.flush_started()
        };
        let result = if self.caps.volatile_cache {
            self.device.wait(self.device.submit(request)).map(|_| ())
        } else {
            Ok(())
        };
        self.state
            .lock()
            .durability
            .flush_ended(start, result.is_ok());
        self.flush_ended.notify_all();
        result
    }

    /// The cached writes whose completion has been seen so far.
    pub fn mark(&self) -> WriteMark {
        self.state.lock().durability.mark()
    }

    /// True if a flush that started after `mark` was taken has completed (or the device has no volatile cache).
    pub fn is_flushed(&self, mark: WriteMark) -> bool {
        !self.caps.volatile_cache || self.state.lock().durability.is_durable(mark)
    }

    /// True if a flush would have something to do, as far as the host knows.
    pub fn cache_dirty(&self) -> bool {
        self.caps.volatile_cache && self.state.lock().durability.cache_dirty()
    }

    /// Returns once a flush that started after `mark` has completed: one that has, one that is under way, or its own (H17).
    ///
    /// # Errors
    /// What the device says of the caller's own flush.
    pub fn ensure_flushed(&self, mark: WriteMark) -> Result<(), DevError> {
        if !self.caps.volatile_cache {
            return Ok(());
        }
        let mut state = self.state.lock();
        while !state.durability.is_durable(mark) {
            if !state.durability.is_flushing(mark) {
                drop(state);
                return self.flush();
            }
            self.flush_ended.wait(&mut state);
        }
        state.stats.flushes_joined += 1;
        Ok(())
    }

    /// The figures so far.
    pub fn stats(&self) -> QueueStats {
        self.state.lock().stats.clone()
    }

    pub(crate) fn count_merges(&self, merges: u64) {
        self.state.lock().stats.merges += merges;
    }

    pub(crate) fn send_write(&self, write: Write) -> (Ticket, Kind) {
        let kind = match (write.fua, self.caps.fua, self.caps.volatile_cache) {
            (_, _, false) | (true, true, true) => Kind::Durable,
            (true, false, true) => Kind::FuaByFlush,
            (false, _, true) => Kind::Cached,
        };
        let fua = write.fua && self.caps.fua;
        let request = Request {
            op: Op::Write {
                lba: write.lba,
                pieces: write.pieces,
                fua,
            },
        };
        self.begin(&request, kind);
        (self.device.submit(request), kind)
    }

    pub(crate) fn wait_write(&self, ticket: Ticket, kind: Kind) -> Result<(), DevError> {
        let result = self.device.wait(ticket).map(|_| ());
        if kind != Kind::Durable {
            self.state.lock().durability.completed(1);
        }
        result
    }

    fn begin(&self, request: &Request, kind: Kind) {
        let mut state = self.state.lock();
        state.stats.add(request);
        if kind != Kind::Durable {
            state.durability.submitted(1);
        }
    }
}
