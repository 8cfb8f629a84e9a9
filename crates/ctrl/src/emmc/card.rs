//! The card as its command interface shows it: states, R1 bits, CMD23 arming, the erase sequence
//! (JESD84-B51).

mod modes;
mod transfer;

use super::ext_csd::ExtCsd;
use super::packed;
use super::{CardConfig, EmmcMedia, EmmcTiming};
use crate::firmware::{Buffering, Firmware};
use base::{Bytes, Lba, SECTOR_BYTES, Time};
use blockdev::{Adversary, Caps, DevError, FlashStats};
use ftl::{Ftl, FtlError};

/// Bits of the R1 response.
pub mod status {
    /// The address lies beyond the card.
    pub const OUT_OF_RANGE: u32 = 1 << 31;
    /// The address is no multiple of a block.
    pub const ADDRESS_ERROR: u32 = 1 << 30;
    /// The transfer is not the length that was announced.
    pub const BLOCK_LEN_ERROR: u32 = 1 << 29;
    /// CMD35, 36, 38 out of order.
    pub const ERASE_SEQ_ERROR: u32 = 1 << 28;
    /// The range to erase makes no sense.
    pub const ERASE_PARAM: u32 = 1 << 27;
    /// The command was not legal; shown in the response to the next one.
    pub const ILLEGAL_COMMAND: u32 = 1 << 22;
    /// Stored data could not be read.
    pub const CARD_ECC_FAILED: u32 = 1 << 21;
    /// Any other error.
    pub const ERROR: u32 = 1 << 19;
    /// The erase sequence was cleared by another command.
    pub const ERASE_RESET: u32 = 1 << 13;
    /// Ready for the next transfer.
    pub const READY_FOR_DATA: u32 = 1 << 8;
    /// An event of EXCEPTION_EVENTS_STATUS that the host has asked for.
    pub const EXCEPTION_EVENT: u32 = 1 << 6;
    /// CMD6 named a byte that cannot be written.
    pub const SWITCH_ERROR: u32 = 1 << 7;
    /// All bits that mean an error; [`EXCEPTION_EVENT`] is none by itself.
    pub const ERRORS: u32 = OUT_OF_RANGE
        | ADDRESS_ERROR
        | BLOCK_LEN_ERROR
        | ERASE_SEQ_ERROR
        | ERASE_PARAM
        | ILLEGAL_COMMAND
        | CARD_ECC_FAILED
        | ERROR
        | SWITCH_ERROR;
    /// CURRENT_STATE.
    pub const fn state(r1: u32) -> u32 {
        r1 >> 9 & 0xF
    }
}

/// States, with their numbers in CURRENT_STATE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Idle = 0,
    Ready = 1,
    Ident = 2,
    Standby = 3,
    Transfer = 4,
    /// Sending data until CMD12.
    Sending = 5,
    /// Receiving data until CMD12.
    Receiving = 6,
    Programming = 7,
    Disconnect = 8,
    /// Asleep: only CMD5 wakes the card.
    Sleep = 10,
}

/// What goes over the data lines with a command.
#[derive(Clone, Debug)]
pub enum Data {
    /// Nothing.
    None,
    /// To the card.
    Write(Vec<Bytes>),
    /// From the card: this many 512-byte blocks.
    Read(u64),
}

/// A command.
#[derive(Clone, Debug)]
pub struct Command {
    /// CMD number.
    pub index: u8,
    /// Argument.
    pub arg: u32,
    /// Data phase.
    pub data: Data,
}

impl Command {
    /// A command without data.
    pub fn new(index: u8, arg: u32) -> Command {
        Command {
            index,
            arg,
            data: Data::None,
        }
    }
}

/// The answer on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Response {
    /// None: broadcast, or the command was illegal.
    None,
    /// R1, R1b: card status.
    R1(u32),
    /// R2: CID or CSD.
    R2([u8; 16]),
    /// R3: OCR.
    R3(u32),
}

/// What a command led to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The answer on the command line.
    pub response: Response,
    /// Data from the card.
    pub data: Vec<Bytes>,
    /// When data and busy are over and the next command may come.
    pub ready: Time,
}

/// OCR: power-up done, sector addresses (bits 30:29 = 2) or byte addresses, 1.7 to 3.6 V.
const OCR: u32 = 0x80FF_8080;
const OCR_SECTORS: u32 = 0x4000_0000;
/// Above this capacity addresses count sectors.
const BYTE_ADDRESS_LIMIT: u64 = (2 << 30) / SECTOR_BYTES as u64;

/// A card.
#[derive(Clone)]
pub struct Card {
    fw: Firmware,
    timing: EmmcTiming,
    ext_csd: ExtCsd,
    state: State,
    rca: u16,
    /// Error bits to show in the next response.
    errors: u32,
    /// Argument of a CMD23 that the next command may use.
    armed: Option<u32>,
    erase: (Option<Lba>, Option<Lba>),
    busy_until: Time,
    sectors: u64,
    /// The last error as a text for error messages.
    why: Option<String>,
}

impl Card {
    pub(crate) fn new(config: &CardConfig, timing: EmmcTiming, ftl: Ftl) -> Card {
        let buffering = Buffering {
            units: u64::from(ftl.layout().units),
            cache_kib: config.cache_kib,
            cache_fifo: config.cache_fifo,
            cache_in_turn: false,
            pack_order: config.pack_order,
        };
        let fw = Firmware::new(buffering, timing.path(), ftl);
        let sectors = fw.units() * base::SECTORS_PER_BLOCK;
        Card {
            ext_csd: ExtCsd::new(config, sectors),
            fw,
            timing,
            state: State::Idle,
            rca: 0,
            errors: 0,
            armed: None,
            erase: (None, None),
            busy_until: Time(0),
            sectors,
            why: None,
        }
    }
    /// When the card is ready for the next command.
    pub fn ready(&self) -> Time {
        self.busy_until
    }
    /// The EXT_CSD register of modes and properties.
    pub fn ext_csd(&self) -> &ExtCsd {
        &self.ext_csd
    }
    /// The last error in words.
    pub(crate) fn take_why(&mut self) -> Option<String> {
        self.why.take()
    }
    pub(crate) fn settle(&mut self) {
        self.fw.settle();
        self.busy_until = Time(0);
    }
    pub(crate) fn set_adversary(&mut self, adversary: Adversary) {
        self.fw.set_adversary(adversary);
    }
    pub(crate) fn advance(&mut self, now: Time) {
        self.fw.advance(now);
    }
    pub(crate) fn visible(&self, block: u64) -> Bytes {
        self.fw.visible(block)
    }
    pub(crate) fn dump(&self, f: impl FnMut(Lba, &[u8])) {
        self.fw.dump(f);
    }
    pub(crate) fn load(&mut self, lba: Lba, bytes: Bytes) -> Result<(), DevError> {
        self.fw
            .load(lba, bytes)
            .map_err(|e| DevError::io(lba, e.to_string()))
    }
    pub(crate) fn power_off(self, at: Time, seed: u64, caps: &Caps) -> EmmcMedia {
        self.fw.power_off(at, seed, caps)
    }
    /// Inside of the card.
    pub(crate) fn firmware(&self) -> &Firmware {
        &self.fw
    }
    /// Inside of the card.
    pub(crate) fn firmware_mut(&mut self) -> &mut Firmware {
        &mut self.fw
    }
    pub(crate) fn backlog(&self) -> usize {
        self.fw.backlog()
    }
    pub(crate) fn flash_stats(&self) -> FlashStats {
        self.fw.flash_stats()
    }

    /// Executes a command that arrives at `now` (emmc-E1).
    pub fn command(&mut self, now: Time, command: Command) -> Outcome {
        let t = now + self.timing.command();
        if now >= self.busy_until {
            self.state = match self.state {
                State::Programming => State::Transfer,
                State::Disconnect => State::Standby,
                other => other,
            };
        }
        let armed = self.armed.take();
        if !matches!(command.index, 13 | 35 | 36 | 38) && self.erase != (None, None) {
            self.erase = (None, None);
            self.errors |= status::ERASE_RESET;
        }
        match (self.state, command.index) {
            (_, 0) => self.go_idle(t),
            (State::Idle, 1) => {
                self.state = State::Ready;
                let mode = if self.sectors > BYTE_ADDRESS_LIMIT {
                    OCR_SECTORS
                } else {
                    0
                };
                self.answer(t, Response::R3(OCR | mode))
            }
            (State::Ready, 2) => {
                self.state = State::Ident;
                self.answer(t, Response::R2(*b"\x01\x01\x00VARVE1\x01VRVE\x08\x01"))
            }
            (State::Ident, 3) => {
                self.rca = (command.arg >> 16) as u16;
                let out = self.r1(t);
                self.state = State::Standby;
                out
            }
            (State::Standby, 9 | 10) if self.is_mine(&command) => {
                let register = if command.index == 9 {
                    self.csd()
                } else {
                    *b"\x01\x01\x00VARVE1\x01VRVE\x08\x01"
                };
                self.answer(t, Response::R2(register))
            }
            (State::Standby | State::Sleep, 5) if self.is_mine(&command) => {
                self.sleep_awake(t, command.arg)
            }
            (State::Sleep, _) => self.illegal(t),
            (_, 7) => self.select(t, &command),
            (_, 13) if self.is_mine(&command) && self.state as u32 >= State::Standby as u32 => {
                self.r1(t)
            }
            (State::Transfer, _) => self.transfer_command(t, command, armed),
            (State::Sending, 12) => {
                let out = self.r1(t);
                self.state = State::Transfer;
                out
            }
            (State::Receiving, 12) => {
                let out = self.r1(t.max(self.busy_until));
                self.state = State::Programming;
                out
            }
            _ => self.illegal(t),
        }
    }
    fn transfer_command(&mut self, t: Time, command: Command, armed: Option<u32>) -> Outcome {
        match (command.index, command.data) {
            (6, Data::None) => self.switch(t, command.arg),
            (8, Data::Read(1)) => {
                self.refresh();
                let data = vec![Bytes::copy_from_slice(self.ext_csd.bytes())];
                Outcome {
                    data,
                    ..self.r1(t + self.timing.bus(512))
                }
            }
            (16, Data::None) => {
                if command.arg != 512 {
                    self.errors |= status::BLOCK_LEN_ERROR;
                }
                self.r1(t)
            }
            (23, Data::None) => {
                self.arm(command.arg);
                self.r1(t)
            }
            (17 | 24, _) if self.ext_csd.unit_sectors() > 1 => {
                self.fail(
                    status::BLOCK_LEN_ERROR,
                    "single blocks of 512 bytes do not exist with 4 KiB sectors",
                );
                self.r1(t)
            }
            (17, Data::Read(1)) => self.read(t, command.arg, 1, false),
            (18, Data::Read(n)) => self.read_multiple(t, command.arg, n, armed),
            (24, Data::Write(data)) => self.write(t, command.arg, data, Some(1), 0),
            (25, Data::Write(data)) => match armed {
                Some(a) if a & packed::PACKED != 0 => self.write_packed(t, command.arg, data, a),
                Some(a) if a & 0xFFFF != 0 => {
                    self.write(t, command.arg, data, Some(u64::from(a & 0xFFFF)), a)
                }
                other => {
                    let out = self.write(t, command.arg, data, None, other.unwrap_or(0));
                    self.state = State::Receiving;
                    out
                }
            },
            (35 | 36, Data::None) => self.erase_bound(t, command.index, command.arg),
            (38, Data::None) => self.erase(t, command.arg),
            _ => self.illegal(t),
        }
    }

    fn is_mine(&self, command: &Command) -> bool {
        (command.arg >> 16) as u16 == self.rca
    }
    fn answer(&mut self, ready: Time, response: Response) -> Outcome {
        self.busy_until = self.busy_until.max(ready);
        Outcome {
            response,
            data: Vec::new(),
            ready: self.busy_until,
        }
    }
    /// Answers the card status; error bits are shown once.
    fn r1(&mut self, ready: Time) -> Outcome {
        let busy = self.state == State::Programming || self.state == State::Disconnect;
        self.refresh();
        let mut bits = std::mem::take(&mut self.errors) | (self.state as u32) << 9;
        if self.ext_csd.exception() {
            bits |= status::EXCEPTION_EVENT;
        }
        let response = Response::R1(if busy {
            bits
        } else {
            bits | status::READY_FOR_DATA
        });
        if busy {
            Outcome {
                response,
                data: Vec::new(),
                ready,
            }
        } else {
            self.answer(ready, response)
        }
    }
    fn illegal(&mut self, t: Time) -> Outcome {
        self.errors |= status::ILLEGAL_COMMAND;
        Outcome {
            response: Response::None,
            data: Vec::new(),
            ready: t,
        }
    }
    fn fail(&mut self, bit: u32, why: &str) {
        self.errors |= bit;
        self.why = Some(why.into());
    }
    fn fail_with(&mut self, error: &FtlError) {
        let bit = match error {
            FtlError::Unreadable(_) => status::CARD_ECC_FAILED,
            FtlError::OutOfRange(_) => status::OUT_OF_RANGE,
            _ => status::ERROR,
        };
        self.fail(bit, &error.to_string());
    }
    /// CMD0. A reset is no power loss: it switches the cache off, which writes it back.
    fn go_idle(&mut self, t: Time) -> Outcome {
        let t = t.max(self.busy_until);
        let end = match self.ext_csd.cache_on() {
            true => self.cache_off(t),
            false => t,
        };
        self.ext_csd.reset();
        self.fw.set_auto_bkops(false);
        (self.state, self.rca, self.armed, self.errors) = (State::Idle, 0, None, 0);
        self.answer(end, Response::None)
    }
    fn select(&mut self, t: Time, command: &Command) -> Outcome {
        let next = match (self.state, self.is_mine(command)) {
            (State::Standby, true) => State::Transfer,
            (State::Disconnect, true) => State::Programming,
            (State::Transfer | State::Sending, false) => State::Standby,
            (State::Programming, false) => State::Disconnect,
            _ => return self.illegal(t),
        };
        let out = self.r1(t);
        self.state = next;
        if self.is_mine(command) {
            out
        } else {
            Outcome {
                response: Response::None,
                ..out
            }
        }
    }
    /// CSD: structure version, and C_SIZE all ones ("see EXT_CSD").
    fn csd(&self) -> [u8; 16] {
        let mut raw = [0; 16];
        raw[0] = 0xD0;
        raw[5] = 0x09;
        raw[6..9].copy_from_slice(&[0x03, 0xFF, 0xC0]);
        raw
    }
}
