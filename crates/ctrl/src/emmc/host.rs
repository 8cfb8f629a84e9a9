//! The host side of an eMMC: translates requests to commands as the block driver of a kernel does.
//!
//! Requests become CMD23 + CMD25 / CMD18; FUA becomes the reliable-write bit; a flush or a barrier
//! becomes CMD6 on byte 32; discard becomes CMD35, 36, 38; a pack becomes packed commands (`pack`).
//! Transfers are split at the largest length; nothing is skipped, merged or reordered here. If a
//! card reports that its background operations are urgent, the host starts them and waits.

mod pack;

use super::card::{Card, Command, Data, Outcome, Response, status};
use super::ext_csd::{event, field};
use super::packed::{self, RELIABLE};
use super::{Bkops, CardConfig};
use crate::span::{self, Source};
use base::bytes::get_le32;
use base::{Bytes, Lba, Nanos, SECTOR_BYTES, Time};
use blockdev::{Caps, Completion, DevError, DeviceStats, Op, Packed, Piece, Reply};

/// CMD38 argument of a discard.
const DISCARD: u32 = 3;
/// Blocks that fit into a CMD23 argument.
const COUNT_LIMIT: u64 = 0xFFFF;

/// The driver of one card.
#[derive(Clone, Debug)]
pub struct Host {
    rca: u32,
    /// True if addresses count sectors, false if they count bytes.
    by_sector: bool,
    cache_on: bool,
    en_rel_wr: bool,
    max_sectors: u64,
    packed: Option<Packed>,
    barrier: bool,
    manual_bkops: bool,
    /// True if the last response showed an exception event.
    excepted: bool,
    /// Sectors of 512 bytes in the smallest transfer.
    unit: u64,
    /// Sectors of an aligned legacy reliable write.
    rel_wr_sec_c: u64,
    /// Bytes of the header of a packed command.
    header_bytes: usize,
    request_cost: Nanos,
    stats: DeviceStats,
}

/// CMD6 argument that sets bits of a byte.
fn set_bits(index: usize, value: u8) -> u32 {
    1 << 24 | (index as u32) << 16 | u32::from(value) << 8 | 1
}

/// CMD6 argument that writes a byte.
fn write_byte(index: usize, value: u8) -> u32 {
    3 << 24 | (index as u32) << 16 | u32::from(value) << 8 | 1
}

impl Host {
    /// Brings a card from power-up to the transfer state and switches its cache on.
    ///
    /// # Errors
    /// The card refused a command, or reports properties that this driver cannot use.
    pub fn identify(
        card: &mut Card,
        config: &CardConfig,
        request_cost: Nanos,
    ) -> Result<Host, DevError> {
        let mut host = Host {
            rca: 1,
            by_sector: false,
            cache_on: false,
            en_rel_wr: false,
            max_sectors: (u64::from(config.max_transfer_kib) * 2).clamp(1, COUNT_LIMIT),
            packed: None,
            barrier: false,
            manual_bkops: false,
            excepted: false,
            unit: 1,
            rel_wr_sec_c: 1,
            header_bytes: SECTOR_BYTES,
            request_cost,
            stats: DeviceStats::default(),
        };
        card.command(card.ready(), Command::new(0, 0));
        let Response::R3(ocr) = card
            .command(card.ready(), Command::new(1, 0x40FF_8080))
            .response
        else {
            return Err(DevError::io(Lba(0), "the card does not answer CMD1"));
        };
        host.by_sector = ocr >> 29 & 3 == 2;
        card.command(card.ready(), Command::new(2, 0));
        for (index, arg) in [
            (3, host.rca << 16),
            (9, host.rca << 16),
            (7, host.rca << 16),
        ] {
            if card
                .command(card.ready(), Command::new(index, arg))
                .response
                == Response::None
            {
                return Err(DevError::io(
                    Lba(0),
                    format!("the card does not answer CMD{index}"),
                ));
            }
        }
        let ext_csd = host.read_ext_csd(card, card.ready())?;
        if ext_csd[field::DATA_SECTOR_SIZE] != 0 {
            (host.unit, host.header_bytes) = (8, 4096);
            host.max_sectors = host.max_sectors / 8 * 8;
        }
        host.rel_wr_sec_c = u64::from(ext_csd[field::REL_WR_SEC_C]).max(1);
        host.en_rel_wr = ext_csd[field::WR_REL_PARAM] & 4 != 0;
        if config.cache_on && get_le32(&ext_csd, field::CACHE_SIZE) > 0 {
            host.step(
                card,
                card.ready(),
                Command::new(6, write_byte(field::CACHE_CTRL, 1)),
                Lba(0),
            )?;
            host.cache_on = true;
        }
        host.use_packed(card, config, &ext_csd)?;
        if ext_csd[field::BARRIER_SUPPORT] & 1 != 0 && host.cache_on {
            let on = Command::new(6, write_byte(field::BARRIER_CTRL, 1));
            host.step(card, card.ready(), on, Lba(0))?;
            host.barrier = true;
        }
        host.use_bkops(card, config, &ext_csd)?;
        Ok(host)
    }
    /// CMD8.
    fn read_ext_csd(&mut self, card: &mut Card, t: Time) -> Result<Vec<u8>, DevError> {
        let read = Command {
            index: 8,
            arg: 0,
            data: Data::Read(1),
        };
        let raw = self.step(card, t, read, Lba(0))?.data.concat();
        match raw.len() {
            512 => Ok(raw),
            _ => Err(DevError::io(Lba(0), "the card has no EXT_CSD")),
        }
    }
    /// Sets up background operations as the profile says: started by the card, or by the host when
    /// the card says that they are urgent.
    fn use_bkops(
        &mut self,
        card: &mut Card,
        config: &CardConfig,
        ext_csd: &[u8],
    ) -> Result<(), DevError> {
        let mode = match config.bkops {
            Bkops::Off => return Ok(()),
            _ if ext_csd[field::BKOPS_SUPPORT] & 1 == 0 => return Ok(()),
            Bkops::Manual => 1,
            Bkops::Auto => 2,
        };
        self.manual_bkops = mode == 1;
        let on = Command::new(6, set_bits(field::BKOPS_EN, mode));
        self.step(card, card.ready(), on, Lba(0))?;
        if self.manual_bkops {
            let event = set_bits(field::EXCEPTION_EVENTS_CTRL, event::URGENT_BKOPS);
            self.step(card, card.ready(), Command::new(6, event), Lba(0))?;
        }
        Ok(())
    }
    /// After a write whose response showed an exception: starts background operations if the card
    /// says that they are urgent, and waits for them, as Linux does.
    fn urgent_bkops(&mut self, card: &mut Card, t: Time) -> Result<Time, DevError> {
        let ext_csd = self.read_ext_csd(card, card.ready().max(t))?;
        if ext_csd[field::BKOPS_STATUS] < 2 {
            return Ok(card.ready().max(t));
        }
        let start = Command::new(6, write_byte(field::BKOPS_START, 1));
        let out = self.step(card, card.ready().max(t), start, Lba(0))?;
        Ok(out.ready)
    }
    /// Enables packed writes if the conditions of Linux hold: at least three entries, failures are
    /// reported as an exception event, and FUA writes may be among them (EN_REL_WR).
    fn use_packed(
        &mut self,
        card: &mut Card,
        config: &CardConfig,
        ext_csd: &[u8],
    ) -> Result<(), DevError> {
        let max = ext_csd[field::MAX_PACKED_WRITES];
        if max < 3 || !self.en_rel_wr {
            return Ok(());
        }
        let event = set_bits(field::EXCEPTION_EVENTS_CTRL, event::PACKED_FAILURE);
        self.step(card, card.ready(), Command::new(6, event), Lba(0))?;
        self.packed = Some(Packed {
            order: config.pack_order,
            writes_max: u16::from(max).min(packed::entries_max(self.header_bytes) as u16),
        });
        Ok(())
    }
    /// What the card promises through this driver.
    pub(crate) fn caps(&self, config: &CardConfig, sectors: u64) -> Caps {
        Caps {
            sectors,
            sector_bytes: self.unit as u32 * SECTOR_BYTES as u32,
            volatile_cache: self.cache_on,
            fua: true,
            fua_flushes: false,
            reliable_granule: Some(self.unit as u32 * SECTOR_BYTES as u32),
            tear_granule: None,
            atomic_write_bytes: 0,
            no_collateral: config.wr_rel_set,
            packed: self.packed,
            cache_fifo: config.cache_fifo && self.cache_on,
            barrier: self.barrier,
            discard: true,
            remap: None,
            max_transfer_sectors: self.max_sectors,
        }
    }
    /// Host commands so far.
    pub fn stats(&self) -> DeviceStats {
        self.stats
    }
    /// Carries out a legal request.
    pub(crate) fn execute(&mut self, card: &mut Card, now: Time, op: Op) -> Completion {
        let start = card.ready().max(now) + self.request_cost;
        let (at, result) = match op {
            Op::Read { lba, sectors } => self.read(card, start, lba, sectors),
            Op::Write { lba, pieces, fua } => self.write(card, start, lba, pieces, fua),
            Op::Pack { writes } => self.pack(card, start, writes),
            Op::Barrier => self.cache_command(card, start, 2),
            Op::Remap(_) => (
                start,
                Err(DevError::misuse(None, "an eMMC has no REMAP command")),
            ),
            Op::Flush => {
                self.stats.flushes += 1;
                self.cache_command(card, start, 1)
            }
            Op::Discard { lba, sectors } => self.discard(card, start, lba, sectors),
        };
        Completion { at, result }
    }
    fn read(
        &mut self,
        card: &mut Card,
        mut t: Time,
        lba: Lba,
        sectors: u64,
    ) -> (Time, Result<Reply, DevError>) {
        let mut data = Vec::new();
        let mut done = 0;
        while done < sectors {
            let n = (sectors - done).min(self.max_sectors);
            let at = lba.plus(done);
            self.stats.reads += 1;
            let sent = self
                .step(card, t, Command::new(23, n as u32), at)
                .and_then(|out| {
                    let command = Command {
                        index: 18,
                        arg: self.address(at),
                        data: Data::Read(n),
                    };
                    self.step(card, out.ready, command, at)
                });
            match sent {
                Ok(out) => {
                    t = out.ready;
                    data.extend(out.data);
                }
                Err(e) => return (card.ready().max(t), Err(e)),
            }
            done += n;
        }
        (
            t,
            Ok(Reply {
                data,
                remapped: None,
            }),
        )
    }
    fn write(
        &mut self,
        card: &mut Card,
        mut t: Time,
        lba: Lba,
        pieces: Vec<Piece>,
        fua: bool,
    ) -> (Time, Result<Reply, DevError>) {
        let pieces = span::keepable(pieces);
        let sectors = pieces.iter().map(|p| p.len() as u64).sum::<u64>() / SECTOR_BYTES as u64;
        // With the cache off every write is non-volatile at completion, but only a reliable one
        // leaves its sectors old or new.
        let flag = if fua { RELIABLE } else { 0 };
        let mut chunks = Chunks::new(pieces, sectors, self.max_sectors);
        let mut at = lba;
        while let Some((n, data)) = {
            if fua && !self.en_rel_wr {
                chunks.limit = self.legacy_length(at, sectors - chunks.done);
            }
            chunks.next()
        } {
            self.stats.writes += 1;
            self.stats.fua_writes += u64::from(fua);
            self.stats.reliable_writes += u64::from(fua);
            let sent = self
                .step(card, t, Command::new(23, flag | n as u32), at)
                .and_then(|out| {
                    let command = Command {
                        index: 25,
                        arg: self.address(at),
                        data: Data::Write(data),
                    };
                    self.step(card, out.ready, command, at)
                });
            match sent {
                Ok(out) => t = out.ready,
                Err(e) => return (card.ready().max(t), Err(e)),
            }
            if self.manual_bkops && self.excepted {
                match self.urgent_bkops(card, t) {
                    Ok(end) => t = end,
                    Err(e) => return (card.ready().max(t), Err(e)),
                }
            }
            at = at.plus(n);
        }
        (t, Ok(Reply::default()))
    }
    /// FLUSH_CACHE: bit 0 flush, bit 1 barrier.
    fn cache_command(
        &mut self,
        card: &mut Card,
        t: Time,
        bit: u8,
    ) -> (Time, Result<Reply, DevError>) {
        match self.step(
            card,
            t,
            Command::new(6, write_byte(field::FLUSH_CACHE, bit)),
            Lba(0),
        ) {
            Ok(out) => (out.ready, Ok(Reply::default())),
            Err(e) => (card.ready().max(t), Err(e)),
        }
    }
    fn discard(
        &mut self,
        card: &mut Card,
        t: Time,
        lba: Lba,
        sectors: u64,
    ) -> (Time, Result<Reply, DevError>) {
        self.stats.discards += 1;
        let (first, last) = (self.address(lba), self.address(lba.plus(sectors - 1)));
        let mut t = t;
        for (index, arg) in [(35, first), (36, last), (38, DISCARD)] {
            match self.step(card, t, Command::new(index, arg), lba) {
                Ok(out) => t = out.ready,
                Err(e) => return (card.ready().max(t), Err(e)),
            }
        }
        (t, Ok(Reply::default()))
    }
    /// Sectors of the next legacy reliable write: REL_WR_SEC_C where it is aligned and enough is
    /// left, else one.
    fn legacy_length(&self, at: Lba, left: u64) -> u64 {
        let group = self.rel_wr_sec_c;
        if at.0.is_multiple_of(group) && left >= group && group.is_multiple_of(self.unit) {
            group
        } else {
            self.unit
        }
    }
    fn address(&self, lba: Lba) -> u32 {
        // The card was built only if its capacity fits these addresses.
        if self.by_sector {
            lba.0 as u32
        } else {
            (lba.0 * SECTOR_BYTES as u64) as u32
        }
    }
    /// Sends a command and checks the card status; errors that show only when busy is over are
    /// fetched with CMD13.
    fn step(
        &mut self,
        card: &mut Card,
        t: Time,
        command: Command,
        at: Lba,
    ) -> Result<Outcome, DevError> {
        let index = command.index;
        let out = card.command(t, command);
        self.excepted =
            matches!(out.response, Response::R1(bits) if bits & status::EXCEPTION_EVENT != 0);
        let bits = match out.response {
            Response::R1(bits) => bits & status::ERRORS,
            _ => match card
                .command(
                    out.ready.max(card.ready()),
                    Command::new(13, self.rca << 16),
                )
                .response
            {
                Response::R1(bits) => bits & status::ERRORS | status::ILLEGAL_COMMAND,
                _ => status::ILLEGAL_COMMAND,
            },
        };
        if bits == 0 {
            return Ok(out);
        }
        let why = card
            .take_why()
            .unwrap_or_else(|| "the card reports an error".into());
        Err(DevError::io(
            at,
            format!("CMD{index}: {why} (R1 {bits:#010x})"),
        ))
    }
}

/// The data of a write in transfers of at most `limit` sectors.
struct Chunks {
    pieces: Vec<Bytes>,
    sectors: u64,
    limit: u64,
    done: u64,
}

impl Chunks {
    fn new(pieces: Vec<Bytes>, sectors: u64, limit: u64) -> Chunks {
        Chunks {
            pieces,
            sectors,
            limit,
            done: 0,
        }
    }
    fn next(&mut self) -> Option<(u64, Vec<Bytes>)> {
        let n = (self.sectors - self.done).min(self.limit);
        if n == 0 {
            return None;
        }
        if self.done == 0 && n == self.sectors {
            self.done = n;
            return Some((n, std::mem::take(&mut self.pieces)));
        }
        let mut source = Source::at(&self.pieces, self.done as usize * SECTOR_BYTES);
        self.done += n;
        Some((n, source.take_pieces(n as usize * SECTOR_BYTES)))
    }
}
