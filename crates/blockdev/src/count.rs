//! A wrapper that counts commands and blocks by class.

use crate::{BlockDevice, Caps, Class, DevError, DeviceStats, Op, Reply, Request, Ticket};
use base::SECTOR_BYTES;
use rt::Mutex;
use std::collections::BTreeMap;

/// Commands and sectors since the wrapper was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Commands by kind.
    pub commands: DeviceStats,
    /// 512-byte sectors written, by class.
    pub sectors_written: BTreeMap<Class, u64>,
    /// 512-byte sectors read.
    pub sectors_read: u64,
}

impl Counts {
    /// Sectors written, all classes.
    pub fn sectors_written_total(&self) -> u64 {
        self.sectors_written.values().sum()
    }

    fn add(&mut self, request: &Request) {
        match &request.op {
            Op::Read { sectors, .. } => {
                self.commands.reads += 1;
                self.sectors_read += sectors;
            }
            Op::Write { .. } => self.commands.writes += 1,
            Op::Pack { .. } => {
                self.commands.writes += 1;
                self.commands.packed_commands += 1;
            }
            Op::Barrier => {}
            Op::Remap(_) => self.commands.remaps += 1,
            Op::Flush => self.commands.flushes += 1,
            Op::Discard { .. } => self.commands.discards += 1,
        }
        for (_, pieces, fua) in request.written() {
            self.commands.fua_writes += u64::from(fua);
            for piece in pieces {
                let sectors = (piece.bytes.len() / SECTOR_BYTES) as u64;
                *self.sectors_written.entry(piece.class).or_default() += sectors;
            }
        }
    }
}

/// A device that counts the requests which it passes on.
pub struct Count<D> {
    inner: D,
    counts: Mutex<Counts>,
}

impl<D: BlockDevice> Count<D> {
    /// Counts what goes to `inner`.
    pub fn new(inner: D) -> Count<D> {
        Count {
            inner,
            counts: Mutex::named("count", Counts::default()),
        }
    }
    /// The figures so far.
    pub fn counts(&self) -> Counts {
        self.counts.lock().clone()
    }
    /// The device below.
    pub fn inner(&self) -> &D {
        &self.inner
    }
}

impl<D: BlockDevice> BlockDevice for Count<D> {
    fn caps(&self) -> Caps {
        self.inner.caps()
    }
    fn submit(&self, request: Request) -> Ticket {
        self.counts.lock().add(&request);
        self.inner.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        self.inner.wait(ticket)
    }
}
