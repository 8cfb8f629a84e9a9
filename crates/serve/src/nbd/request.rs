//! Requests of the transmission phase, as bytes become commands.

use super::server::Options;
use crate::{Command, Served};
use base::{BLOCK_BYTES, Bytes, Lba, SECTOR_BYTES};

/// Bytes of a request without its payload.
pub const HEAD: usize = 28;
/// Most bytes of a read or write.
pub const PAYLOAD_MAX: u32 = 32 << 20;

const MAGIC: u32 = 0x2560_9513;

/// It is not allowed.
pub const EPERM: u32 = 1;
/// It failed.
pub const EIO: u32 = 5;
/// It makes no sense.
pub const EINVAL: u32 = 22;
/// A write beyond the end.
pub const ENOSPC: u32 = 28;
/// It is not offered.
pub const ENOTSUP: u32 = 95;
/// The device has no power any more.
pub const ESHUTDOWN: u32 = 108;

const FUA: u16 = 1;
const REQ_ONE: u16 = 1 << 3;
const FAST_ZERO: u16 = 1 << 4;
/// Flags that are known.
const KNOWN: u16 = 0b1_1111;

/// Most blocks that one question for zeros looks at.
const LOOK_MAX: u64 = 1 << 16;

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    flags: u16,
    kind: u16,
    /// By which it is answered.
    pub cookie: u64,
    offset: u64,
    len: u32,
}

/// Kinds of request.
const READ: u16 = 0;
const WRITE: u16 = 1;
const DISC: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;
const BLOCK_STATUS: u16 = 7;

/// What a request asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asked {
    /// A read: its answer begins at this byte.
    Read(Command, u64),
    /// Anything else for the device; with `true` a flush behind it.
    Run(Command, bool),
    /// Nothing to do.
    Nothing,
    /// Lengths and states, for the context of allocation.
    Status(Vec<(u32, u32)>),
    /// This error.
    Refuse(u32),
}

impl Request {
    /// Parses a request; none without its magic number, behind which nothing can be trusted.
    pub fn parse(bytes: &[u8; HEAD]) -> Option<Request> {
        let word = |at: usize, len: usize| {
            (bytes[at..at + len].iter()).fold(0u64, |value, byte| value << 8 | u64::from(*byte))
        };
        (word(0, 4) as u32 == MAGIC).then(|| Request {
            flags: word(4, 2) as u16,
            kind: word(6, 2) as u16,
            cookie: word(8, 8),
            offset: word(16, 8),
            len: word(24, 4) as u32,
        })
    }

    /// Whether it is a read, which has its own form of answer.
    pub fn is_read(&self) -> bool {
        self.kind == READ
    }

    /// Whether the client goes.
    pub fn is_end(&self) -> bool {
        self.kind == DISC
    }

    /// Bytes that follow.
    pub fn payload(&self) -> u32 {
        match self.kind {
            WRITE => self.len,
            _ => 0,
        }
    }

    /// Bytes that it reads or writes, of those that are carried out.
    pub fn data(&self) -> u64 {
        match self.kind {
            READ | WRITE if self.len <= PAYLOAD_MAX => u64::from(self.len),
            _ => 0,
        }
    }

    /// What it asks for; `allocation`: the client may ask where zeros are.
    pub fn asked(
        &self,
        payload: Vec<u8>,
        served: &Served,
        options: &Options,
        allocation: bool,
    ) -> Asked {
        if self.flags & !KNOWN != 0 {
            return Asked::Refuse(EINVAL);
        }
        if self.kind == FLUSH {
            return match (self.offset, self.len) {
                (0, 0) => Asked::Run(Command::Flush, false),
                _ => Asked::Refuse(EINVAL),
            };
        }
        if let Err(error) = self.check(served, options) {
            return Asked::Refuse(error);
        }
        let fua = self.flags & FUA != 0;
        let lba = Lba(self.offset / SECTOR_BYTES as u64);
        let sectors = u64::from(self.len) / SECTOR_BYTES as u64;
        match self.kind {
            READ => Asked::Read(Command::Read { lba, sectors }, self.offset),
            WRITE => {
                let bytes = Bytes::from(payload);
                Asked::Run(Command::Write { lba, bytes, fua }, false)
            }
            TRIM if !served.caps().discard => Asked::Refuse(ENOTSUP),
            TRIM => match self.inner(served) {
                None => Asked::Nothing,
                Some((lba, sectors)) => Asked::Run(Command::Discard { lba, sectors }, fua),
            },
            // Zeros are written, which is no faster than other bytes.
            WRITE_ZEROES if self.flags & FAST_ZERO != 0 => Asked::Refuse(ENOTSUP),
            WRITE_ZEROES => Asked::Run(Command::WriteZeroes { lba, sectors, fua }, false),
            BLOCK_STATUS if allocation => Asked::Status(self.zeros(served)),
            _ => Asked::Refuse(EINVAL),
        }
    }

    /// Refuses what lies outside, or in the middle of a block.
    fn check(&self, served: &Served, options: &Options) -> Result<(), u32> {
        let writes = matches!(self.kind, WRITE | TRIM | WRITE_ZEROES);
        let unit = u64::from(served.caps().sector_bytes);
        let aligned = self.offset.is_multiple_of(unit) && u64::from(self.len).is_multiple_of(unit);
        let end = self.offset.checked_add(u64::from(self.len));
        let moves = matches!(self.kind, READ | WRITE);
        match end {
            _ if writes && options.read_only => Err(EPERM),
            Some(end) if end <= served.bytes() => match self.len {
                0 => Err(EINVAL),
                len if moves && len > PAYLOAD_MAX => Err(EINVAL),
                // A trim is a hint, of which the whole blocks are taken.
                _ if !aligned && !matches!(self.kind, TRIM | BLOCK_STATUS) => Err(EINVAL),
                _ => Ok(()),
            },
            _ if writes => Err(ENOSPC),
            _ => Err(EINVAL),
        }
    }

    /// The whole blocks inside.
    fn inner(&self, served: &Served) -> Option<(Lba, u64)> {
        let unit = u64::from(served.caps().sector_bytes);
        let from = self.offset.next_multiple_of(unit);
        let end = (self.offset + u64::from(self.len)) / unit * unit;
        let sectors = end.checked_sub(from)? / SECTOR_BYTES as u64;
        (sectors > 0).then(|| (Lba(from / SECTOR_BYTES as u64), sectors))
    }

    /// Lengths and states from the offset on; not always up to the end, which the protocol allows.
    fn zeros(&self, served: &Served) -> Vec<(u32, u32)> {
        const ZERO: u32 = 2;
        const BLOCK: u64 = BLOCK_BYTES as u64;
        let end = self.offset + u64::from(self.len);
        let end = end.min((self.offset / BLOCK + LOOK_MAX) * BLOCK);
        let mut all: Vec<(u32, u32)> = Vec::new();
        let mut at = self.offset;
        while at < end {
            let next = ((at / BLOCK + 1) * BLOCK).min(end);
            let state = if served.is_zero(at / BLOCK) { ZERO } else { 0 };
            let len = (next - at) as u32;
            match all.last_mut() {
                Some((run, same)) if *same == state => *run += len,
                Some(_) if self.flags & REQ_ONE != 0 => break,
                _ => all.push((len, state)),
            }
            at = next;
        }
        all
    }
}
