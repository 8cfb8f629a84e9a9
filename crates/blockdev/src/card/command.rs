//! Commands of an eMMC (JESD84-B51 6.10), and the lists of them that requests become. Pure: what
//! sends them is a [`CardPort`].

use base::bytes::put_le32;
use base::{Lba, SECTOR_BYTES};
use std::io;

/// CMD23 argument: the write is reliable, which leaves each sector old or new.
const RELIABLE: u32 = 1 << 31;
/// CMD23 argument: a packed command; the count includes the header.
const PACKED: u32 = 1 << 30;
/// Bytes of the header of a packed command with sectors of 512 bytes (JESD84-B51 6.6.29).
const HEADER_BYTES: usize = SECTOR_BYTES;
/// Writes that such a header holds.
pub(super) const ENTRIES_MAX: usize = 63;

/// What a command moves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// Nothing.
    None,
    /// The card fills these bytes, whole sectors.
    Read(Vec<u8>),
    /// The card gets these bytes, whole sectors.
    Write(Vec<u8>),
}

/// A command and, after it was sent, its answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CardCommand {
    /// Its number: 23 for CMD23.
    pub index: u8,
    /// Its argument.
    pub arg: u32,
    /// Data behind it.
    pub transfer: Transfer,
    /// The kernel waits until the card is no longer busy with it. Linux before 6.7 keeps the errors
    /// that the card tells meanwhile to itself.
    pub kernel_waits: bool,
    /// The card status that answered it (JESD84-B51 6.13).
    pub status: u32,
}

/// The way to a card.
pub trait CardPort: Send + Sync {
    /// Sends the commands one after the other with no other between them, and puts answers and data
    /// into them.
    ///
    /// # Errors
    /// The host could not send one of them; those behind it were not sent.
    fn send(&self, commands: &mut [CardCommand]) -> io::Result<()>;
}

impl CardCommand {
    pub(super) fn new(index: u8, arg: u32, transfer: Transfer) -> CardCommand {
        CardCommand {
            index,
            arg,
            transfer,
            kernel_waits: false,
            status: 0,
        }
    }
    /// CMD8: the register EXT_CSD.
    pub(super) fn ext_csd() -> CardCommand {
        CardCommand::new(8, 0, Transfer::Read(vec![0; SECTOR_BYTES]))
    }
    /// CMD13: the status of the card with this address.
    pub(super) fn status_of(rca: u16) -> CardCommand {
        CardCommand::new(13, u32::from(rca) << 16, Transfer::None)
    }
    /// CMD6: writes a byte of EXT_CSD.
    pub(super) fn write_byte(byte: u8, value: u8) -> CardCommand {
        let arg = 3 << 24 | u32::from(byte) << 16 | u32::from(value) << 8 | 1;
        CardCommand::new(6, arg, Transfer::None)
    }
    /// CMD6: sets bits of a byte of EXT_CSD.
    pub(super) fn set_bits(byte: u8, bits: u8) -> CardCommand {
        let arg = 1 << 24 | u32::from(byte) << 16 | u32::from(bits) << 8 | 1;
        CardCommand::new(6, arg, Transfer::None)
    }
}

/// How a card counts addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Addresses {
    /// Sectors: cards of more than 2 GiB.
    Sectors,
    /// Bytes.
    Bytes,
}

impl Addresses {
    fn of(self, at: Lba) -> u32 {
        match self {
            Addresses::Sectors => at.0 as u32,
            Addresses::Bytes => (at.0 * SECTOR_BYTES as u64) as u32,
        }
    }
}

/// A read of so many sectors: CMD23, CMD18.
pub(super) fn read(addresses: Addresses, at: Lba, sectors: u64) -> Vec<CardCommand> {
    let into = vec![0; sectors as usize * SECTOR_BYTES];
    vec![
        CardCommand::new(23, sectors as u32, Transfer::None),
        CardCommand::new(18, addresses.of(at), Transfer::Read(into)),
    ]
}

/// A write: CMD23, CMD25.
pub(super) fn write(
    addresses: Addresses,
    at: Lba,
    bytes: Vec<u8>,
    reliable: bool,
) -> Vec<CardCommand> {
    let sectors = (bytes.len() / SECTOR_BYTES) as u32;
    let flag = if reliable { RELIABLE } else { 0 };
    vec![
        CardCommand::new(23, flag | sectors, Transfer::None),
        CardCommand::new(25, addresses.of(at), Transfer::Write(bytes)),
    ]
}

/// One write of a packed command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub at: Lba,
    pub bytes: Vec<u8>,
    pub reliable: bool,
}

/// A packed write: CMD23, CMD25 with the header in front of the data.
pub(super) fn pack(addresses: Addresses, entries: &[Entry]) -> Vec<CardCommand> {
    let mut all = header(addresses, entries);
    entries.iter().for_each(|e| all.extend_from_slice(&e.bytes));
    let sectors = (all.len() / SECTOR_BYTES) as u32;
    let first = entries.first().map_or(Lba(0), |e| e.at);
    vec![
        CardCommand::new(23, PACKED | sectors, Transfer::None),
        CardCommand::new(25, addresses.of(first), Transfer::Write(all)),
    ]
}

/// Version 1, 2 for write, the number of entries; from byte 8 on for each entry the arguments that
/// its CMD23 and its CMD25 would have had.
fn header(addresses: Addresses, entries: &[Entry]) -> Vec<u8> {
    let mut raw = vec![0; HEADER_BYTES];
    (raw[0], raw[1], raw[2]) = (1, 2, entries.len() as u8);
    for (i, entry) in entries.iter().enumerate() {
        let sectors = (entry.bytes.len() / SECTOR_BYTES) as u32;
        let flag = if entry.reliable { RELIABLE } else { 0 };
        put_le32(&mut raw, 8 + 8 * i, flag | sectors);
        put_le32(&mut raw, 12 + 8 * i, addresses.of(entry.at));
    }
    raw
}
