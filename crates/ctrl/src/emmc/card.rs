//! The card as its command interface shows it: states, R1 bits, CMD23 arming, the erase sequence (JESD84-B51).

use super::ext_csd::{ExtCsd, field};
use super::firmware::{Firmware, Way};
use super::{CardConfig, EmmcMedia, EmmcTiming};
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
    /// CMD6 named a byte that cannot be written.
    pub const SWITCH_ERROR: u32 = 1 << 7;
    /// All bits that mean an error.
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
    /// The last error in words, for people.
    why: Option<String>,
}

impl Card {
    pub(crate) fn new(config: &CardConfig, timing: EmmcTiming, ftl: Ftl) -> Card {
        let fw = Firmware::new(config, timing, ftl);
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
    /// The register of modes and properties.
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
    pub(crate) fn backlog(&self) -> usize {
        self.fw.backlog()
    }
    pub(crate) fn flash_stats(&self) -> FlashStats {
        self.fw.flash_stats()
    }

    /// Executes a command that arrives at `now` (E1).
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
                // Bit 30, packed: MAX_PACKED_WRITES is 0, so the card refuses it.
                if command.arg & 1 << 30 != 0 {
                    self.fail(
                        status::ERROR,
                        "packed commands are not supported by this card",
                    );
                } else {
                    self.armed = Some(command.arg);
                }
                self.r1(t)
            }
            (17, Data::Read(1)) => self.read(t, command.arg, 1, false),
            (18, Data::Read(n)) => self.read_multiple(t, command.arg, n, armed),
            (24, Data::Write(data)) => self.write(t, command.arg, data, Some(1), 0),
            (25, Data::Write(data)) => match armed {
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
    /// The card status: errors are shown once.
    fn r1(&mut self, ready: Time) -> Outcome {
        let busy = self.state == State::Programming || self.state == State::Disconnect;
        let bits = std::mem::take(&mut self.errors) | (self.state as u32) << 9;
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
    /// CMD0. A reset is no power loss: switching the cache off writes it back.
    fn go_idle(&mut self, t: Time) -> Outcome {
        let end = self.cache_off(t.max(self.busy_until));
        self.ext_csd.reset();
        (self.state, self.rca, self.armed, self.errors) = (State::Idle, 0, None, 0);
        self.answer(end, Response::None)
    }
    fn cache_off(&mut self, t: Time) -> Time {
        if !self.ext_csd.cache_on() {
            return t;
        }
        self.fw.flush(t).unwrap_or_else(|e| {
            self.fail_with(&e);
            t
        })
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
    /// CMD6: access mode, byte, value.
    fn switch(&mut self, t: Time, arg: u32) -> Outcome {
        let (access, index, value) = (arg >> 24 & 3, (arg >> 16 & 0xFF) as usize, (arg >> 8) as u8);
        let old = self.ext_csd.get(index);
        let value = match access {
            1 => old | value,
            2 => old & !value,
            3 => value,
            _ => return self.r1(t),
        };
        let mut end = t;
        let turns_off = index == field::CACHE_CTRL && value & 1 == 0;
        let barrier = index == field::FLUSH_CACHE && value & 2 != 0;
        if turns_off || index == field::FLUSH_CACHE && value & 1 != 0 {
            end = self.cache_off(t);
        }
        if barrier || self.ext_csd.switch(index, value).is_none() {
            self.fail(
                status::SWITCH_ERROR,
                "this EXT_CSD byte takes no such value",
            );
        }
        // R1b: the host polls CMD13 until busy is over and finds the errors there.
        let out = self.r1(end);
        self.state = if end > t {
            State::Programming
        } else {
            State::Transfer
        };
        out
    }
    /// The sector that a data command names.
    fn address(&mut self, arg: u32, blocks: u64) -> Option<Lba> {
        let sector = match self.sectors > BYTE_ADDRESS_LIMIT {
            true => u64::from(arg),
            false if !arg.is_multiple_of(SECTOR_BYTES as u32) => {
                self.fail(status::ADDRESS_ERROR, "the address is no multiple of 512");
                return None;
            }
            false => u64::from(arg) / SECTOR_BYTES as u64,
        };
        if blocks > self.sectors || sector > self.sectors - blocks {
            self.fail(status::OUT_OF_RANGE, "the transfer ends beyond the card");
            return None;
        }
        Some(Lba(sector))
    }
    fn read_multiple(&mut self, t: Time, arg: u32, blocks: u64, armed: Option<u32>) -> Outcome {
        let announced = armed.map_or(0, |a| u64::from(a & 0xFFFF));
        if announced != 0 && announced != blocks || blocks == 0 {
            self.fail(
                status::BLOCK_LEN_ERROR,
                "the transfer is not as long as CMD23 said",
            );
            return self.r1(t);
        }
        self.read(t, arg, blocks, announced == 0)
    }
    fn read(&mut self, t: Time, arg: u32, blocks: u64, open_ended: bool) -> Outcome {
        let Some(lba) = self.address(arg, blocks) else {
            return self.r1(t);
        };
        let (data, end) = self.fw.read(t + self.timing.read(), lba, blocks);
        let data = data.unwrap_or_else(|e| {
            self.fail_with(&e);
            Vec::new()
        });
        let out = Outcome {
            data,
            ..self.r1(end)
        };
        if open_ended {
            self.state = State::Sending;
        }
        out
    }
    fn write(
        &mut self,
        t: Time,
        arg: u32,
        data: Vec<Bytes>,
        announced: Option<u64>,
        sbc: u32,
    ) -> Outcome {
        let bytes: usize = data.iter().map(Bytes::len).sum();
        let blocks = (bytes / SECTOR_BYTES) as u64;
        let whole = data.iter().all(|d| d.len().is_multiple_of(SECTOR_BYTES));
        if !whole || blocks == 0 || announced.is_some_and(|n| n != blocks) {
            self.fail(
                status::BLOCK_LEN_ERROR,
                "the transfer is not as long as announced",
            );
            return self.r1(t);
        }
        let Some(lba) = self.address(arg, blocks) else {
            return self.r1(t);
        };
        let (reliable, forced) = (sbc & 1 << 31 != 0, sbc & 1 << 24 != 0);
        let legal = !reliable || self.ext_csd.en_rel_wr() || blocks == 1;
        if !legal {
            self.fail(status::ERROR, "a legacy reliable write is one sector long");
            return self.r1(t);
        }
        let way = match (reliable, forced || !self.ext_csd.cache_on()) {
            (true, _) => Way::Reliable,
            (false, true) => Way::Through,
            (false, false) => Way::Cached,
        };
        let end = self.fw.write(t, lba, data, way).unwrap_or_else(|e| {
            self.fail_with(&e);
            t
        });
        let out = self.r1(end);
        self.state = State::Programming;
        out
    }
    fn erase_bound(&mut self, t: Time, index: u8, arg: u32) -> Outcome {
        let Some(lba) = self.address(arg, 1) else {
            return self.r1(t);
        };
        match (index, self.erase) {
            (35, (None, None)) => self.erase.0 = Some(lba),
            (36, (Some(_), None)) => self.erase.1 = Some(lba),
            _ => {
                self.erase = (None, None);
                self.fail(
                    status::ERASE_SEQ_ERROR,
                    "CMD35, CMD36 and CMD38 come in this order",
                );
            }
        }
        self.r1(t)
    }
    /// CMD38. Argument 0: erase groups; 1: TRIM; 3: DISCARD.
    fn erase(&mut self, t: Time, arg: u32) -> Outcome {
        let (Some(first), Some(last)) = std::mem::take(&mut self.erase) else {
            self.fail(status::ERASE_SEQ_ERROR, "CMD38 without CMD35 and CMD36");
            return self.r1(t);
        };
        let group = u64::from(self.ext_csd.get(field::HC_ERASE_GRP_SIZE)) * 1024;
        let (from, to) = match arg {
            0 => (
                first.0 / group * group,
                ((last.0 / group + 1) * group).min(self.sectors),
            ),
            _ => (first.0, last.0 + 1),
        };
        if from >= to || !matches!(arg, 0 | 1 | 3) {
            self.fail(
                status::ERASE_PARAM,
                "the range to erase is empty, or the argument is not supported",
            );
            return self.r1(t);
        }
        let cache_on = self.ext_csd.cache_on();
        let done = self.fw.discard(t, Lba(from), to - from, arg != 3);
        // Without a cache there is no flush to wait for.
        let done = done.and_then(|end| {
            if cache_on {
                Ok(end)
            } else {
                self.fw.flush(end)
            }
        });
        let end = done.unwrap_or_else(|e| {
            self.fail_with(&e);
            t
        });
        let out = self.r1(end);
        self.state = State::Programming;
        out
    }
}
