//! A device wrapper that fails requests by rules, for tests.
//!
//! - E1 a request that fails by a rule has changed nothing, but for a flush with a cache (E2);
//! - E2 with [`Fault::with_cache`] writes stay in a cache until a flush succeeds. A flush that
//!   fails loses what the cache holds, as the page cache of a host does that could not write its
//!   pages: later flushes do not report the loss, and later reads answer the content from before.

use crate::check::check_request;
use crate::tickets::Tickets;
use crate::{BlockDevice, Caps, Class, DevError, Op, Piece, Reply, Request, Ticket};
use base::{Bytes, Lba, SECTOR_BYTES};
use rt::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A kind of request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultOn {
    /// Reads.
    Read,
    /// Writes, packed ones and those with FUA included.
    Write,
    /// Writes with content of files, so that those of a task in the background do not count.
    Data,
    /// Flushes.
    Flush,
    /// Discards.
    Discard,
}

/// Which requests fail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FaultRule {
    /// The kind of request.
    pub on: FaultOn,
    /// Only requests that touch one of these sectors; `None`: all sectors.
    pub sectors: Option<Range<u64>>,
    /// This many matching requests pass before one fails.
    pub skip: u64,
    /// This many matching requests fail then; `None`: all.
    pub times: Option<u64>,
}

impl FaultRule {
    /// A rule by which only the next request of this kind fails.
    pub fn next(on: FaultOn) -> FaultRule {
        FaultRule {
            on,
            sectors: None,
            skip: 0,
            times: Some(1),
        }
    }
    /// A rule by which all requests of this kind fail.
    pub fn always(on: FaultOn) -> FaultRule {
        FaultRule {
            times: None,
            ..FaultRule::next(on)
        }
    }
    /// The rule, applied only after `skip` matching requests have passed.
    #[must_use]
    pub fn after(self, skip: u64) -> FaultRule {
        FaultRule { skip, ..self }
    }
    /// The rule, applied only to requests that touch one of these sectors.
    #[must_use]
    pub fn at(self, sectors: Range<u64>) -> FaultRule {
        FaultRule {
            sectors: Some(sectors),
            ..self
        }
    }

    /// True if `request` fails by this rule; counts it.
    fn strikes(&mut self, request: &Request) -> bool {
        let is_data = |pieces: &[Piece]| pieces.iter().any(|piece| piece.class == Class::Data);
        let is_meant = match (self.on, &request.op) {
            (FaultOn::Read, Op::Read { .. })
            | (FaultOn::Write, Op::Write { .. } | Op::Pack { .. })
            | (FaultOn::Flush, Op::Flush)
            | (FaultOn::Discard, Op::Discard { .. }) => true,
            (FaultOn::Data, Op::Write { pieces, .. }) => is_data(pieces),
            (FaultOn::Data, Op::Pack { writes, .. }) => {
                writes.iter().any(|write| is_data(&write.pieces))
            }
            _ => false,
        };
        let touches = |range: &Range<u64>| {
            let spans = request.spans().into_iter();
            spans
                .map(|(lba, n)| lba.0..lba.0 + n)
                .any(|span| span.start < range.end && range.start < span.end)
        };
        if !is_meant || !self.sectors.as_ref().is_none_or(touches) {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        match &mut self.times {
            Some(0) => return false,
            Some(times) => *times -= 1,
            None => {}
        }
        true
    }
}

#[derive(Default)]
struct State {
    rules: Vec<FaultRule>,
    hits: u64,
    /// Number of sectors that may still be written for the first time; `None`: all.
    room: Option<u64>,
    /// Sectors that were written.
    used: BTreeSet<u64>,
    /// The content of the cache: sector and bytes that a flush has to write (E2).
    cache: BTreeMap<u64, Bytes>,
    done: Tickets<Result<Reply, DevError>>,
}

/// A device above `D` that fails by rules.
pub struct Fault<D> {
    inner: D,
    caches: bool,
    state: Mutex<State>,
}

impl<D: BlockDevice> Fault<D> {
    /// A wrapper without rules, which fails nothing.
    pub fn new(inner: D) -> Fault<D> {
        Fault {
            inner,
            caches: false,
            state: Mutex::named("fault", State::default()),
        }
    }
    /// A wrapper with a volatile cache, which a failed flush loses (E2).
    pub fn with_cache(inner: D) -> Fault<D> {
        Fault {
            caches: true,
            ..Fault::new(inner)
        }
    }
    /// Adds a rule. The first matching rule counts.
    pub fn rule(&self, rule: FaultRule) {
        self.state.lock().rules.push(rule);
    }
    /// Removes all rules, and the limit of space.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        state.rules.clear();
        state.room = None;
    }
    /// From now on only `sectors` sectors may be written that were not written before: a device
    /// that promised more than it has.
    pub fn short_of_space(&self, sectors: u64) {
        self.state.lock().room = Some(sectors);
    }
    /// Requests that failed by a rule or for want of space.
    pub fn hits(&self) -> u64 {
        self.state.lock().hits
    }
    /// The device below. It lacks what the cache holds.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    fn execute(&self, request: Request) -> Result<Reply, DevError> {
        check_request(&self.caps(), &request)?;
        self.strike(&request)?;
        if !self.caches {
            return self.inner.wait(self.inner.submit(request));
        }
        match request.op {
            Op::Read { lba, sectors } => self.read(lba, sectors),
            Op::Write { lba, pieces, fua } => {
                let below = fua.then(|| Op::Write {
                    lba,
                    pieces: pieces.clone(),
                    fua,
                });
                self.keep(lba, &pieces, fua);
                match below {
                    Some(op) => self.inner.wait(self.inner.submit(Request { op })),
                    None => Ok(Reply::default()),
                }
            }
            Op::Flush => self.write_down(),
            op => {
                self.forget(&Request { op: op.clone() });
                self.inner.wait(self.inner.submit(Request { op }))
            }
        }
    }

    fn strike(&self, request: &Request) -> Result<(), DevError> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let at = request.spans().first().map_or(Lba(0), |span| span.0);
        if state.rules.iter_mut().any(|rule| rule.strikes(request)) {
            state.hits += 1;
            if request.op_is_flush() {
                state.cache.clear();
            }
            return Err(DevError::io(at, "a fault that was asked for"));
        }
        let Some(room) = state.room else {
            for (lba, pieces, _) in request.written() {
                state.used.extend(sectors_of(lba, pieces));
            }
            return Ok(());
        };
        let written = request.written();
        let written = written.iter().flat_map(|(lba, p, _)| sectors_of(*lba, p));
        let fresh: BTreeSet<u64> = written.filter(|n| !state.used.contains(n)).collect();
        let Some(left) = room.checked_sub(fresh.len() as u64) else {
            state.hits += 1;
            return Err(DevError::io(at, "no space left below the device"));
        };
        state.room = Some(left);
        state.used.extend(fresh);
        Ok(())
    }

    fn keep(&self, lba: Lba, pieces: &[Piece], fua: bool) {
        let mut state = self.state.lock();
        let mut at = lba.0;
        for piece in pieces {
            for from in (0..piece.bytes.len()).step_by(SECTOR_BYTES) {
                match fua {
                    true => drop(state.cache.remove(&at)),
                    false => {
                        let sector = piece.bytes.slice(from..from + SECTOR_BYTES);
                        state.cache.insert(at, sector);
                    }
                }
                at += 1;
            }
        }
    }

    fn forget(&self, request: &Request) {
        let mut state = self.state.lock();
        for (lba, n) in request.spans() {
            (lba.0..lba.0 + n).for_each(|at| drop(state.cache.remove(&at)));
        }
    }

    fn read(&self, lba: Lba, sectors: u64) -> Result<Reply, DevError> {
        let below = self.inner.submit(Request::read(lba, sectors));
        let mut bytes = self.inner.wait(below)?.into_bytes().to_vec();
        let state = self.state.lock();
        for (at, sector) in state.cache.range(lba.0..lba.0 + sectors) {
            let from = (at - lba.0) as usize * SECTOR_BYTES;
            bytes[from..from + SECTOR_BYTES].copy_from_slice(sector);
        }
        Ok(Reply {
            data: vec![bytes.into()],
            ..Reply::default()
        })
    }

    fn write_down(&self) -> Result<Reply, DevError> {
        let cache = std::mem::take(&mut self.state.lock().cache);
        for (at, bytes) in cache {
            let write = Request::write(Lba(at), crate::Class::Data, bytes);
            self.inner.wait(self.inner.submit(write))?;
        }
        self.inner.wait(self.inner.submit(Request::flush()))
    }
}

fn sectors_of(lba: Lba, pieces: &[Piece]) -> Range<u64> {
    let bytes: usize = pieces.iter().map(|p| p.bytes.len()).sum();
    lba.0..lba.0 + (bytes / SECTOR_BYTES) as u64
}

impl Request {
    fn op_is_flush(&self) -> bool {
        matches!(self.op, Op::Flush)
    }
}

impl<D: BlockDevice> BlockDevice for Fault<D> {
    fn caps(&self) -> Caps {
        let caps = self.inner.caps();
        match self.caches {
            false => caps,
            true => Caps {
                volatile_cache: true,
                packed: None,
                remap: None,
                barrier: false,
                cache_fifo: false,
                ..caps
            },
        }
    }
    fn submit(&self, request: Request) -> Ticket {
        let result = self.execute(request);
        self.state.lock().done.keep(result)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        self.state.lock().done.fetch(ticket)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Class, Ram};

    fn block(fill: u8) -> Bytes {
        vec![fill; 4096].into()
    }
    fn write(device: &dyn BlockDevice, lba: u64, fill: u8) -> Result<Reply, DevError> {
        device.wait(device.submit(Request::write(Lba(lba), Class::Data, block(fill))))
    }
    fn read(device: &dyn BlockDevice, lba: u64) -> u8 {
        let reply = device.wait(device.submit(Request::read(Lba(lba), 8)));
        reply.unwrap().into_bytes()[4095]
    }
    fn flush(device: &dyn BlockDevice) -> bool {
        device.wait(device.submit(Request::flush())).is_ok()
    }

    #[test]
    fn rules_strike_by_kind_number_and_place() {
        let device = Fault::new(Ram::new(1 << 20));
        device.rule(FaultRule::next(FaultOn::Write).after(1).at(8..16));
        assert!(write(&device, 0, 1).is_ok() && write(&device, 8, 1).is_ok());
        assert!(write(&device, 16, 1).is_ok() && write(&device, 8, 2).is_err());
        assert_eq!((read(&device, 8), device.hits()), (1, 1), "E1");
        assert!(write(&device, 8, 3).is_ok());
        device.rule(FaultRule::always(FaultOn::Read).at(15..16));
        assert!(
            device
                .wait(device.submit(Request::read(Lba(8), 8)))
                .is_err()
        );
        assert_eq!(read(&device, 0), 1);
        device.clear();
        assert_eq!(read(&device, 8), 3);
        device.short_of_space(8);
        assert!(write(&device, 8, 4).is_ok(), "written before");
        assert!(write(&device, 24, 4).is_ok() && write(&device, 32, 4).is_err());
        assert_eq!(read(&device, 32), 0);
    }

    #[test]
    fn a_failed_flush_loses_the_cache() {
        let device = Fault::with_cache(Ram::new(1 << 20));
        assert!(write(&device, 0, 1).is_ok() && flush(&device));
        assert!(write(&device, 0, 2).is_ok() && write(&device, 8, 2).is_ok());
        assert_eq!((read(&device, 0), read(device.inner(), 0)), (2, 1));
        device.rule(FaultRule::next(FaultOn::Flush));
        assert!(!flush(&device) && flush(&device), "E2: told once");
        assert_eq!((read(&device, 0), read(&device, 8)), (1, 0));
        assert!(write(&device, 8, 3).is_ok() && flush(&device));
        assert_eq!(read(device.inner(), 8), 3);
    }
}
