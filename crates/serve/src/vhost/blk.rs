//! Requests of a `virtio-blk` device (virtio 1.2, section 5.2), and its configuration space.

use super::memory::Memory;
use super::message::CONFIG_BYTES;
use super::server::Options;
use super::virtqueue::{Chain, Run};
use crate::socket::Close;
use crate::{Command, Served};
use base::bytes::{get_le32, get_le64, put_le16, put_le32, put_le64};
use base::{BLOCK_BYTES, Bytes, Lba, SECTOR_BYTES};

/// Status of a request.
pub const OK: u8 = 0;
/// It failed.
pub const IOERR: u8 = 1;
/// It is not known.
pub const UNSUPP: u8 = 2;

/// Features of the device.
pub mod feature {
    /// The largest number of segments is told.
    pub const SEG_MAX: u64 = 1 << 2;
    /// The device is read-only.
    pub const RO: u64 = 1 << 5;
    /// The block size is told.
    pub const BLK_SIZE: u64 = 1 << 6;
    /// There is a flush.
    pub const FLUSH: u64 = 1 << 9;
    /// The physical block is told.
    pub const TOPOLOGY: u64 = 1 << 10;
    /// The guest chooses between write back and write through.
    pub const CONFIG_WCE: u64 = 1 << 11;
    /// There are several queues.
    pub const MQ: u64 = 1 << 12;
    /// There is a discard.
    pub const DISCARD: u64 = 1 << 13;
    /// There is a write of zeros.
    pub const WRITE_ZEROES: u64 = 1 << 14;
}

/// Where the configuration holds the write mode.
pub const WCE_AT: usize = 32;
/// Segments of a request.
const SEG_MAX: u32 = 254;
/// Most bytes of one request.
const DATA_MAX: u64 = 16 << 20;
/// Most sectors of one discard or write of zeros: 512 MiB.
const RANGE_SECTORS_MAX: u32 = 1 << 20;
const HEAD: usize = 16;
const RANGE: usize = 16;
const ID_BYTES: usize = 20;

const IN: u32 = 0;
const OUT: u32 = 1;
const FLUSH: u32 = 4;
const GET_ID: u32 = 8;
const DISCARD: u32 = 11;
const WRITE_ZEROES: u32 = 13;

/// What a request asks for.
#[derive(Debug)]
pub enum Asked {
    /// A command of the device.
    Run(Command),
    /// Nothing: this status, behind these bytes.
    Answer(u8, Bytes),
}

/// A request.
#[derive(Debug)]
pub struct Asking {
    /// The chain by which it is answered.
    pub head: u16,
    /// What it asks for.
    pub asked: Asked,
    /// Bytes that it sends and asks for, which memory is kept for.
    pub bytes: u64,
    /// Where data goes.
    room: Vec<Run>,
    /// Where the status goes.
    status: u64,
}

impl Asking {
    /// Parses a chain. With `write_through` every write is to be durable when it is answered.
    ///
    /// # Errors
    /// It has no room for a status, or lies outside of the memory.
    pub fn parse(
        mut chain: Chain,
        memory: &Memory,
        served: &Served,
        options: &Options,
        write_through: bool,
    ) -> Result<Asking, Close> {
        chain.writable.retain(|run| run.len > 0);
        let last = (chain.writable.last_mut())
            .ok_or_else(|| Close::broken("a request without room for its status"))?;
        last.len -= 1;
        let status = last.at.checked_add(u64::from(last.len));
        let status =
            status.ok_or_else(|| Close::broken("room for a status beyond all addresses"))?;
        let room = length(&chain.writable);
        let sent = length(&chain.readable);
        let (asked, bytes) = match sent < HEAD as u64 || room.max(sent) > DATA_MAX + HEAD as u64 {
            true => (Asked::Answer(IOERR, Bytes::new()), 0),
            false => {
                let gathered = gather(&chain.readable, memory)?;
                let asked = classify(&gathered, room, served, options, write_through);
                (asked, room + sent)
            }
        };
        Ok(Asking {
            head: chain.head,
            asked,
            bytes,
            room: chain.writable,
            status,
        })
    }

    /// Writes answer and status, and tells the length of both.
    ///
    /// # Errors
    /// The room lies outside of the memory.
    pub fn answer(&self, memory: &Memory, data: &[Bytes], status: u8) -> Result<u32, Close> {
        let mut room = self.room.iter().copied();
        let mut now = Run { at: 0, len: 0 };
        let mut written = 0;
        for piece in data {
            let mut rest = &piece[..];
            while !rest.is_empty() {
                if now.len == 0 {
                    // `classify` compared the lengths.
                    let Some(next) = room.next() else { break };
                    now = next;
                }
                let n = rest.len().min(now.len as usize);
                memory.write(now.at, &rest[..n])?;
                now.at += n as u64;
                now.len -= n as u32;
                written += n as u32;
                rest = &rest[n..];
            }
        }
        memory.write(self.status, &[status])?;
        Ok(written + 1)
    }
}

fn length(runs: &[Run]) -> u64 {
    runs.iter().map(|run| u64::from(run.len)).sum()
}

/// The content of runs, whose length was compared with [`DATA_MAX`].
fn gather(runs: &[Run], memory: &Memory) -> Result<Vec<u8>, Close> {
    let mut bytes = vec![0; length(runs) as usize];
    let mut at = 0;
    for run in runs {
        let end = at + run.len as usize;
        memory.read(run.at, &mut bytes[at..end])?;
        at = end;
    }
    Ok(bytes)
}

/// What a request asks for, from what it sent and the room that it has for an answer.
fn classify(
    sent: &[u8],
    room: u64,
    served: &Served,
    options: &Options,
    write_through: bool,
) -> Asked {
    let refuse = |status| Asked::Answer(status, Bytes::new());
    let (head, body) = sent.split_at(HEAD);
    let lba = Lba(get_le64(head, 8));
    let sectors = room / SECTOR_BYTES as u64;
    let writes = |command| match options.read_only {
        true => refuse(IOERR),
        false => Asked::Run(command),
    };
    match get_le32(head, 0) {
        IN if room.is_multiple_of(SECTOR_BYTES as u64) => {
            Asked::Run(Command::Read { lba, sectors })
        }
        OUT => writes(Command::Write {
            lba,
            bytes: Bytes::copy_from_slice(body),
            fua: write_through,
        }),
        FLUSH => Asked::Run(Command::Flush),
        GET_ID if room >= ID_BYTES as u64 => {
            let mut id = options.id.as_bytes().to_vec();
            id.resize(ID_BYTES, 0);
            Asked::Answer(OK, id.into())
        }
        DISCARD if !served.caps().discard => refuse(UNSUPP),
        kind @ (DISCARD | WRITE_ZEROES) => match range(body, kind == WRITE_ZEROES) {
            Err(status) => refuse(status),
            Ok((lba, sectors)) if kind == DISCARD => writes(Command::Discard { lba, sectors }),
            Ok((lba, sectors)) => writes(Command::WriteZeroes {
                lba,
                sectors,
                fua: write_through,
            }),
        },
        IN | GET_ID => refuse(IOERR),
        _ => refuse(UNSUPP),
    }
}

/// The one range of a discard or write of zeros, or a status.
fn range(body: &[u8], may_unmap: bool) -> Result<(Lba, u64), u8> {
    if body.len() != RANGE {
        return Err(IOERR);
    }
    let (sectors, flags) = (get_le32(body, 8), get_le32(body, 12));
    match flags & !u32::from(may_unmap) {
        0 if sectors <= RANGE_SECTORS_MAX => Ok((Lba(get_le64(body, 0)), u64::from(sectors))),
        0 => Err(IOERR),
        _ => Err(UNSUPP),
    }
}

/// The features of a device.
pub fn features(served: &Served, options: &Options) -> u64 {
    let mut all = feature::SEG_MAX
        | feature::BLK_SIZE
        | feature::FLUSH
        | feature::TOPOLOGY
        | feature::CONFIG_WCE
        | feature::WRITE_ZEROES;
    if served.caps().discard {
        all |= feature::DISCARD;
    }
    if options.queues > 1 {
        all |= feature::MQ;
    }
    if options.read_only {
        all |= feature::RO;
    }
    all
}

/// The configuration space.
pub fn config(served: &Served, options: &Options, write_back: bool) -> [u8; CONFIG_BYTES] {
    let caps = served.caps();
    let unit = caps.sector_bytes;
    let mut all = [0; CONFIG_BYTES];
    put_le64(&mut all, 0, caps.sectors);
    put_le32(&mut all, 12, SEG_MAX);
    put_le32(&mut all, 20, unit);
    // A physical block of 4 KiB, as the exponent of the logical ones in it.
    all[24] = (BLOCK_BYTES as u32 / unit.clamp(1, BLOCK_BYTES as u32)).ilog2() as u8;
    put_le16(&mut all, 26, (BLOCK_BYTES as u32 / unit) as u16);
    all[WCE_AT] = u8::from(write_back);
    put_le16(&mut all, 34, options.queues);
    put_le32(&mut all, 36, RANGE_SECTORS_MAX);
    put_le32(&mut all, 40, 1);
    put_le32(&mut all, 44, unit / SECTOR_BYTES as u32);
    put_le32(&mut all, 48, RANGE_SECTORS_MAX);
    put_le32(&mut all, 52, 1);
    all[56] = 1;
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_a_bound_and_known_flags() {
        let body = |sectors: u32, flags: u32| {
            let mut body = [0; RANGE];
            put_le64(&mut body, 0, 7);
            put_le32(&mut body, 8, sectors);
            put_le32(&mut body, 12, flags);
            body
        };
        let most = RANGE_SECTORS_MAX;
        assert_eq!(range(&body(most, 0), false), Ok((Lba(7), u64::from(most))));
        assert_eq!(range(&body(most + 1, 0), false), Err(IOERR));
        assert_eq!(range(&body(1, 1), true), Ok((Lba(7), 1)));
        assert_eq!(range(&body(1, 1), false), Err(UNSUPP));
        assert_eq!(range(&body(1, 0)[..15], false), Err(IOERR));
    }
}
