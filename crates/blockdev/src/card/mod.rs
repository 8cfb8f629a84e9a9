//! An eMMC by commands of our own: reliable and packed writes, which no other way of Linux sends.
//!
//! Linux writes a FUA request as a reliable write, and packs nothing. Here a write with `fua` is a
//! reliable write, a [`Pack`](crate::Op::Pack) one packed command, and a flush writes the byte
//! FLUSH_CACHE, so that a scheme which needs packs runs on a real card.
//!
//! - C1 A request has ended when the card says that it is ready again (CMD13), and no error bit of
//!   any status on the way was set. Reading a status clears its error bits, so nobody else may
//!   read it in between: the first question goes in one list with the request, and the kernel is
//!   not made to wait by questions of its own. It has to where the card can queue commands: it
//!   turns the queue on again behind each list, for which the card has to be ready.
//! - C2 The order of what a pack leaves is the card's affair: [`PackOrder::AnySubset`] is promised,
//!   because no register tells more.
//! - C3 A pack fits one command of the kernel with its header:
//!   [`Caps::max_transfer_sectors`] leaves room for it.
//! - C4 Whether a packed command has failed the register says, which is read when the card is
//!   ready again. The event that the card would tell it by is switched off when the card loses
//!   power or is put to sleep, of which only the kernel knows.
//!
//! A request is carried out in the thread that submits it.

mod command;
mod ioctl;
mod register;

pub use command::{CardCommand, CardPort, Transfer};

use crate::check::check_request;
use crate::tickets::Tickets;
use crate::{
    BlockDevice, Caps, DevError, Op, PackOrder, Packed, PackedWrite, Piece, Reply, Request, Ticket,
};
use base::{BLOCK_BYTES, Lba, Nanos, SECTOR_BYTES};
use command::{ENTRIES_MAX, Entry};
use ioctl::{BYTES_MAX, Ioctl};
use register::{Facts, byte, packed_failure};
use rt::Mutex;
use std::fs::File;
use std::io;

/// Address of the only card on a host, as Linux deals them.
const RCA: u16 = 1;
/// Bits of the card status that are errors.
const ERRORS: u32 = 0xFDF9_0080;
/// Ready for data, in the state `tran`.
const READY: u32 = 1 << 8 | 4 << 9;
const READY_MASK: u32 = 1 << 8 | 0xF << 9;
/// How long a card may be busy, and how often it is asked.
const BUSY_MAX: Nanos = Nanos::from_millis(10_000);
const ASK: Nanos = Nanos::from_micros(50);
/// Fewest writes in a packed command for which the block layer packs.
const PACKED_MIN: u16 = 3;

/// An eMMC behind a [`CardPort`].
pub struct Card {
    port: Box<dyn CardPort>,
    facts: Facts,
    caps: Caps,
    done: Mutex<Tickets<Result<Reply, DevError>>>,
}

impl Card {
    /// Uses the card of an open device, `/dev/mmcblk0`.
    ///
    /// # Errors
    /// It is no such device, or the kernel refuses.
    pub fn on(device: File) -> io::Result<Card> {
        Card::new(Box::new(Ioctl(device)))
    }

    /// Uses the card behind `port`: reads its register and asks it to report packed commands that
    /// fail.
    ///
    /// # Errors
    /// The port fails, or the card refuses.
    pub fn new(port: Box<dyn CardPort>) -> io::Result<Card> {
        let mut card = Card {
            facts: Facts::of(&[0; SECTOR_BYTES]),
            caps: caps(&Facts::of(&[0; SECTOR_BYTES])),
            port,
            done: Mutex::named("card", Tickets::default()),
        };
        card.facts = Facts::of(&card.register()?);
        card.caps = caps(&card.facts);
        if card.caps.packed.is_some() {
            const PACKED_FAILED: u8 = 1 << 3;
            let events = CardCommand::set_bits(byte::EXCEPTION_EVENTS_CTRL, PACKED_FAILED);
            card.switch(events)?;
        }
        Ok(card)
    }

    fn register(&self) -> io::Result<Vec<u8>> {
        let mut commands = [CardCommand::ext_csd()];
        self.port.send(&mut commands)?;
        let [command] = commands;
        match command.transfer {
            Transfer::Read(raw) if command.status & ERRORS == 0 => Ok(raw),
            _ => Err(failed(&command)),
        }
    }

    /// Sends a list and waits until the card is ready again (C1). Answers with what was read.
    fn carry_out(&self, mut commands: Vec<CardCommand>) -> io::Result<Vec<u8>> {
        commands.push(CardCommand::status_of(RCA));
        self.port.send(&mut commands)?;
        if let Some(at_fault) = commands.iter().find(|c| c.status & ERRORS != 0) {
            return Err(failed(at_fault));
        }
        let status = commands.pop().map_or(0, |question| question.status);
        if status & READY_MASK != READY {
            self.wait_ready()?;
        }
        let read = commands.into_iter().find_map(|c| match c.transfer {
            Transfer::Read(bytes) => Some(bytes),
            _ => None,
        });
        Ok(read.unwrap_or_default())
    }

    /// CMD6.
    fn switch(&self, mut command: CardCommand) -> io::Result<()> {
        command.kernel_waits = self.facts.queues;
        self.carry_out(vec![command]).map(drop)
    }

    fn wait_ready(&self) -> io::Result<()> {
        let begin = rt::now();
        loop {
            rt::sleep(ASK);
            let mut commands = [CardCommand::status_of(RCA)];
            self.port.send(&mut commands)?;
            let status = commands[0].status;
            if status & ERRORS != 0 {
                return Err(failed(&commands[0]));
            }
            if status & READY_MASK == READY {
                return Ok(());
            }
            if rt::now() - begin > BUSY_MAX {
                return Err(io::Error::other(format!(
                    "the card is still busy after {} s (status {status:#010x})",
                    BUSY_MAX.0 / 1_000_000_000
                )));
            }
        }
    }

    fn run(&self, op: Op) -> Result<Reply, DevError> {
        match op {
            Op::Read { lba, sectors } => {
                let commands = command::read(self.facts.addresses(), lba, sectors);
                let bytes = self.at(lba, self.carry_out(commands))?;
                Ok(Reply {
                    data: vec![bytes.into()],
                    remapped: None,
                })
            }
            Op::Write { lba, fua: true, .. } if !self.caps.fua => Err(DevError::misuse(
                Some(lba),
                "this card has no reliable writes",
            )),
            Op::Write { lba, pieces, fua } => self.write(lba, joined(&pieces), fua),
            Op::Pack { writes } => self.pack(writes),
            Op::Flush => {
                if self.facts.cache_on {
                    let flush = CardCommand::write_byte(byte::FLUSH_CACHE, 1);
                    self.at(Lba(0), self.switch(flush))?;
                }
                Ok(Reply::default())
            }
            Op::Barrier | Op::Remap(_) | Op::Discard { .. } => Err(DevError::misuse(
                None,
                "this way to a card sends reads, writes, packs and flushes",
            )),
        }
    }

    /// A write; where reliable writes have a fixed length, several (JESD84-B51 6.6.6).
    fn write(&self, lba: Lba, bytes: Vec<u8>, reliable: bool) -> Result<Reply, DevError> {
        let mut at = lba;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let left = (rest.len() / SECTOR_BYTES) as u64;
            let (now, later) =
                rest.split_at(self.sectors(at, left, reliable) as usize * SECTOR_BYTES);
            let commands = command::write(self.facts.addresses(), at, now.to_vec(), reliable);
            self.at(at, self.carry_out(commands))?;
            at = at.plus((now.len() / SECTOR_BYTES) as u64);
            rest = later;
        }
        Ok(Reply::default())
    }

    fn sectors(&self, at: Lba, left: u64, reliable: bool) -> u64 {
        let group = self.facts.rel_wr_sectors;
        match reliable && !self.facts.en_rel_wr {
            false => left,
            true if at.0.is_multiple_of(group) && left >= group => group,
            true => 1,
        }
    }

    fn pack(&self, writes: Vec<PackedWrite>) -> Result<Reply, DevError> {
        let entries = writes.into_iter().map(|w| Entry {
            at: w.lba,
            bytes: joined(&w.pieces),
            reliable: w.fua,
        });
        let mut entries: Vec<Entry> = entries.collect();
        let Some(first) = entries.first().map(|e| e.at) else {
            return Ok(Reply::default());
        };
        if entries.len() == 1 {
            let Entry {
                at,
                bytes,
                reliable,
            } = entries.swap_remove(0);
            return self.write(at, bytes, reliable);
        }
        let commands = command::pack(self.facts.addresses(), &entries);
        self.at(first, self.packed(commands))?;
        Ok(Reply::default())
    }

    /// C4.
    fn packed(&self, commands: Vec<CardCommand>) -> io::Result<()> {
        self.carry_out(commands)?;
        match packed_failure(&self.register()?) {
            None => Ok(()),
            Some(entry) => Err(io::Error::other(format!(
                "the packed command failed in entry {entry} (0: as a whole)"
            ))),
        }
    }

    fn at<T>(&self, lba: Lba, result: io::Result<T>) -> Result<T, DevError> {
        result.map_err(|e| DevError::io(lba, e.to_string()))
    }
}

fn joined(pieces: &[Piece]) -> Vec<u8> {
    let mut all = Vec::with_capacity(pieces.iter().map(|p| p.bytes.len()).sum());
    pieces.iter().for_each(|p| all.extend_from_slice(&p.bytes));
    all
}

fn failed(command: &CardCommand) -> io::Error {
    io::Error::other(format!(
        "CMD{} of the card failed (argument {:#010x}, status {:#010x})",
        command.index, command.arg, command.status
    ))
}

fn caps(facts: &Facts) -> Caps {
    let packs = facts.packed_writes >= PACKED_MIN && facts.en_rel_wr && !facts.large_sectors;
    let sector = if facts.large_sectors { 4096 } else { 512 };
    Caps {
        sectors: facts.sectors / 8 * 8,
        sector_bytes: sector,
        volatile_cache: facts.cache_on,
        fua: facts.has_reliable_writes(),
        fua_flushes: false,
        reliable_granule: facts.has_reliable_writes().then_some(sector),
        tear_granule: None,
        atomic_write_bytes: 0,
        no_collateral: facts.wr_rel_set,
        packed: packs.then_some(Packed {
            // C2.
            order: PackOrder::AnySubset,
            writes_max: facts.packed_writes.min(ENTRIES_MAX as u16),
        }),
        cache_fifo: facts.cache_fifo && facts.cache_on,
        barrier: false,
        discard: false,
        remap: None,
        // C3.
        max_transfer_sectors: ((BYTES_MAX - BLOCK_BYTES) / SECTOR_BYTES) as u64,
    }
}

impl BlockDevice for Card {
    fn caps(&self) -> Caps {
        self.caps.clone()
    }
    fn submit(&self, request: Request) -> Ticket {
        let result = check_request(&self.caps, &request).and_then(|()| self.run(request.op));
        self.done.lock().keep(result)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        self.done.lock().fetch(ticket)?
    }
}
