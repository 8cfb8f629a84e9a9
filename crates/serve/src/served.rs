//! A device that is served: the semantics that all protocols share.
//!
//! Commands go to the device in the order of their submission, from any number of connections.
//! Invariants:
//! - S1: a flush covers every write that was answered before the flush was submitted, on whatever
//!   connection. A write is answered only after [`Served::finish`], which waits for its completion,
//!   and the device's own flush covers what was complete when it started.
//! - S2: a write with FUA is durable when it is answered. Where the device has a volatile cache and
//!   no FUA, `finish` flushes after the write's completion and before the answer.
//! - S3: an answered write without FUA lies in the device's cache, and nothing here makes it
//!   durable: what a cut leaves is decided by the device alone.
//! - S4: a command is refused before any part of it reaches the device, if a part lies outside.
//! - S5: after the last command that the device may get, or once it reported the loss of its power,
//!   no command reaches it, and every connection is told to end.
//! - S6: the end waits for no write of zeros of gigabytes: that one stops between its parts, and
//!   is not answered as done.

use base::{Bytes, Lba, SECTOR_BYTES, Time};
use blockdev::{BlockDevice, Caps, Class, DevError, DevErrorKind, Request, Ticket};
use rt::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Most bytes that one device command of zeros carries.
const ZEROS_BYTES: usize = 1 << 20;

/// What a client asks of the device. Sectors have 512 bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Read.
    Read {
        /// First sector.
        lba: Lba,
        /// Number of sectors.
        sectors: u64,
    },
    /// Write whole sectors.
    Write {
        /// First sector.
        lba: Lba,
        /// What to write.
        bytes: Bytes,
        /// The answer means non-volatile (S2).
        fua: bool,
    },
    /// Make durable what was answered (S1).
    Flush,
    /// The content is no longer needed.
    Discard {
        /// First sector.
        lba: Lba,
        /// Number of sectors.
        sectors: u64,
    },
    /// Write zeros. They are written: a discard promises no zeros.
    WriteZeroes {
        /// First sector.
        lba: Lba,
        /// Number of sectors.
        sectors: u64,
        /// The answer means non-volatile (S2).
        fua: bool,
    },
}

impl Command {
    /// First sector and number of sectors; none for a flush.
    fn span(&self) -> Option<(Lba, u64)> {
        match self {
            Command::Read { lba, sectors }
            | Command::Discard { lba, sectors }
            | Command::WriteZeroes { lba, sectors, .. } => Some((*lba, *sectors)),
            Command::Write { lba, bytes, .. } => {
                Some((*lba, bytes.len().div_ceil(SECTOR_BYTES) as u64))
            }
            Command::Flush => None,
        }
    }
}

/// Commands of clients so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Reads.
    pub reads: u64,
    /// Writes, those with FUA too.
    pub writes: u64,
    /// Writes and writes of zeros with FUA.
    pub fua_writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Writes of zeros.
    pub write_zeroes: u64,
    /// Commands that failed.
    pub failed: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written, zeros not counted.
    pub bytes_written: u64,
}

impl Traffic {
    fn add(&mut self, command: &Command) {
        match command {
            Command::Read { sectors, .. } => {
                self.reads += 1;
                self.bytes_read += sectors * SECTOR_BYTES as u64;
            }
            Command::Write { bytes, fua, .. } => {
                self.writes += 1;
                self.fua_writes += u64::from(*fua);
                self.bytes_written += bytes.len() as u64;
            }
            Command::Flush => self.flushes += 1,
            Command::Discard { .. } => self.discards += 1,
            Command::WriteZeroes { fua, .. } => {
                self.write_zeroes += 1;
                self.fua_writes += u64::from(*fua);
            }
        }
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} reads ({} KiB), {} writes ({} KiB, {} with FUA), {} flushes, {} discards, {} writes of zeros, {} failed",
            self.reads,
            self.bytes_read >> 10,
            self.writes,
            self.bytes_written >> 10,
            self.fua_writes,
            self.flushes,
            self.discards,
            self.write_zeroes,
            self.failed
        )
    }
}

/// A submitted command. Each is given to [`Served::finish`] once, also when its client is gone.
#[derive(Debug)]
#[must_use = "a command that is not finished stays in the device's table"]
pub struct Pending {
    number: u64,
    tickets: Vec<Ticket>,
    /// The device has to be flushed before the answer (S2).
    flush_after: bool,
    refused: Option<DevError>,
}

type ZeroOf = dyn Fn(u64) -> bool + Send + Sync;
type Cut = dyn Fn() + Send + Sync;

/// A device and what is served of it.
pub struct Served {
    device: Arc<dyn BlockDevice>,
    caps: Caps,
    traffic: Mutex<Traffic>,
    submitted: AtomicU64,
    /// The number of the last command, and what cuts the power behind it.
    last: Option<(u64, Box<Cut>)>,
    zero_of: Option<Box<ZeroOf>>,
    ended: AtomicBool,
    /// Readable from the end on, for those who wait in `poll`.
    end: OwnedFd,
}

impl Served {
    /// Serves `device`.
    ///
    /// # Errors
    /// The host has no event left.
    pub fn new(device: Arc<dyn BlockDevice>) -> io::Result<Served> {
        Ok(Served {
            caps: device.caps(),
            device,
            traffic: Mutex::named("traffic", Traffic::default()),
            submitted: AtomicU64::new(0),
            last: None,
            zero_of: None,
            ended: AtomicBool::new(false),
            end: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// After the completion of command number `commands`, counted from 1, calls `cut`, which takes
    /// the power away, and ends (S5).
    #[must_use]
    pub fn cut_after(mut self, commands: u64, cut: impl Fn() + Send + Sync + 'static) -> Served {
        self.last = Some((commands, Box::new(cut)));
        self
    }

    /// `zero_of` tells whether a block of 4 KiB, by its number, holds zeros only, at no cost for
    /// the device.
    #[must_use]
    pub fn zeroes_by(mut self, zero_of: impl Fn(u64) -> bool + Send + Sync + 'static) -> Served {
        self.zero_of = Some(Box::new(zero_of));
        self
    }

    /// The promises of the device.
    pub fn caps(&self) -> &Caps {
        &self.caps
    }

    /// Bytes of the device.
    pub fn bytes(&self) -> u64 {
        self.caps.sectors * SECTOR_BYTES as u64
    }

    /// Whether the block of 4 KiB with this number is known to hold zeros only.
    pub fn is_zero(&self, block: u64) -> bool {
        self.zero_of.as_ref().is_some_and(|zero_of| zero_of(block))
    }

    /// What clients asked so far.
    pub fn traffic(&self) -> Traffic {
        *self.traffic.lock()
    }

    /// Ends all connections, and those who wait for clients. What was submitted is finished first.
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        // The counter of an event is full only if it is readable already.
        let _ = rustix::io::write(&self.end, &1u64.to_ne_bytes());
    }

    /// Whether the end was asked for, or came by itself (S5).
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Readable from the end on.
    pub(crate) fn end_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }

    /// Hands a command to the device; does not wait for its completion, writes of zeros excepted.
    pub fn submit(&self, command: Command) -> Pending {
        let number = self.submitted.fetch_add(1, Ordering::SeqCst) + 1;
        self.traffic.lock().add(&command);
        let over = self.last.as_ref().is_some_and(|(last, _)| number > *last);
        let refused = match over || self.is_ended() {
            // S5.
            true => Some(DevError::power_lost()),
            // S4.
            false => self.outside(&command),
        };
        let mut pending = Pending {
            number,
            tickets: Vec::new(),
            flush_after: false,
            refused,
        };
        if pending.refused.is_none() {
            self.give(command, &mut pending);
        }
        pending
    }

    /// Why a command cannot be done, if it cannot (S4).
    fn outside(&self, command: &Command) -> Option<DevError> {
        let (lba, sectors) = command.span()?;
        let unit = u64::from(self.caps.sector_bytes) / SECTOR_BYTES as u64;
        let whole = match command {
            Command::Write { bytes, .. } => bytes.len().is_multiple_of(SECTOR_BYTES),
            _ => true,
        };
        let aligned = lba.0.is_multiple_of(unit) && sectors.is_multiple_of(unit);
        let inside = (lba.0.checked_add(sectors)).is_some_and(|end| end <= self.caps.sectors);
        let fits = whole && aligned && inside && sectors > 0;
        (!fits).then(|| DevError::misuse(Some(lba), format!("{sectors} sectors do not fit")))
    }

    fn give(&self, command: Command, pending: &mut Pending) {
        let room = self.caps.max_transfer_sectors.max(1);
        let late_fua = self.caps.volatile_cache && !self.caps.fua;
        match command {
            Command::Read { lba, sectors } => {
                for (at, n) in chunks(lba, sectors, room) {
                    (pending.tickets).push(self.device.submit(Request::read(at, n)));
                }
            }
            Command::Write { lba, bytes, fua } => {
                pending.flush_after = fua && late_fua;
                let sectors = (bytes.len() / SECTOR_BYTES) as u64;
                for (at, n) in chunks(lba, sectors, room) {
                    let from = (at.0 - lba.0) as usize * SECTOR_BYTES;
                    let part = bytes.slice(from..from + n as usize * SECTOR_BYTES);
                    pending.tickets.push(self.write(at, part, fua));
                }
            }
            Command::Flush => pending.tickets.push(self.device.submit(Request::flush())),
            Command::Discard { lba, sectors } => {
                (pending.tickets).push(self.device.submit(Request::discard(lba, sectors)));
            }
            Command::WriteZeroes { lba, sectors, fua } => {
                pending.flush_after = fua && late_fua;
                let zeros = Bytes::from_static(&[0; ZEROS_BYTES]);
                let room = room.min((ZEROS_BYTES / SECTOR_BYTES) as u64);
                for (at, n) in chunks(lba, sectors, room) {
                    // S6.
                    if self.is_ended() {
                        pending.refused = Some(DevError::power_lost());
                        return;
                    }
                    let part = zeros.slice(..n as usize * SECTOR_BYTES);
                    let ticket = self.write(at, part, fua);
                    // One at a time: there may be thousands.
                    if let Err(e) = self.device.wait(ticket) {
                        pending.refused = Some(e);
                        return;
                    }
                }
            }
        }
    }

    fn write(&self, at: Lba, bytes: Bytes, fua: bool) -> Ticket {
        let request = match fua && self.caps.fua {
            true => Request::write_fua(at, Class::Data, bytes),
            false => Request::write(at, Class::Data, bytes),
        };
        self.device.submit(request)
    }

    /// When [`Served::finish`] will return, by the clock of `rt`, if the device knows.
    pub fn due(&self, pending: &Pending) -> Option<Time> {
        let due = pending.tickets.iter().filter_map(|t| self.device.due(*t));
        due.max()
    }

    /// Waits until the command is complete. A read answers its bytes, everything else none.
    ///
    /// # Errors
    /// The device's error, or why the command was refused.
    pub fn finish(&self, pending: Pending) -> Result<Vec<Bytes>, DevError> {
        let mut outcome = match pending.refused {
            Some(e) => Err(e),
            None => Ok(Vec::new()),
        };
        for ticket in pending.tickets {
            match (self.device.wait(ticket), &mut outcome) {
                (Ok(reply), Ok(data)) => data.extend(reply.data),
                (Err(e), Ok(_)) => outcome = Err(e),
                (_, Err(_)) => {}
            }
        }
        // S2: the flush starts after the completion of the write.
        if pending.flush_after && outcome.is_ok() {
            let flushed = self.device.wait(self.device.submit(Request::flush()));
            outcome = flushed.map(|_| Vec::new());
        }
        if let Err(e) = &outcome {
            self.traffic.lock().failed += 1;
            if e.kind == DevErrorKind::PowerLost {
                self.end();
            }
        }
        if let Some((last, cut)) = &self.last
            && pending.number == *last
        {
            cut();
            self.end();
        }
        outcome
    }

    /// Submits a command and finishes it.
    ///
    /// # Errors
    /// As [`Served::finish`].
    pub fn run(&self, command: Command) -> Result<Vec<Bytes>, DevError> {
        self.finish(self.submit(command))
    }
}

/// A run of sectors in parts of at most `room`.
fn chunks(lba: Lba, sectors: u64, room: u64) -> impl Iterator<Item = (Lba, u64)> {
    let parts = (0..sectors.div_ceil(room)).map(move |n| n * room);
    parts.map(move |from| (Lba(lba.0 + from), room.min(sectors - from)))
}
