//! Commands and their completions, by the NVM command set (NVMe 1.4, section 6). Numbers are those
//! of the standard.

use base::{Bytes, Time};

/// What a completion says: status code type in bits 8 to 10, status code in bits 0 to 7 (NVMe 1.4,
/// 4.6.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status(pub u16);

impl Status {
    /// Done.
    pub const SUCCESS: Status = Status(0);
    /// No such command.
    pub const INVALID_OPCODE: Status = Status(0x01);
    /// A field has a value that the command does not take.
    pub const INVALID_FIELD: Status = Status(0x02);
    /// No such namespace.
    pub const INVALID_NAMESPACE: Status = Status(0x0B);
    /// The range ends beyond the namespace.
    pub const LBA_OUT_OF_RANGE: Status = Status(0x80);
    /// The namespace takes no more writes (status code `Namespace is Write Protected`).
    pub const WRITE_PROTECTED: Status = Status(0x20);
    /// The medium did not take the data.
    pub const WRITE_FAULT: Status = Status(0x280);
    /// The medium did not bring the data back.
    pub const UNRECOVERED_READ: Status = Status(0x281);

    /// True for [`Status::SUCCESS`].
    pub fn is_ok(self) -> bool {
        self == Status::SUCCESS
    }
    /// The words of the standard.
    pub fn text(self) -> &'static str {
        match self {
            Status::SUCCESS => "successful completion",
            Status::INVALID_OPCODE => "invalid command opcode",
            Status::INVALID_FIELD => "invalid field in command",
            Status::INVALID_NAMESPACE => "invalid namespace or format",
            Status::LBA_OUT_OF_RANGE => "LBA out of range",
            Status::WRITE_PROTECTED => "namespace is write protected",
            Status::WRITE_FAULT => "write fault",
            Status::UNRECOVERED_READ => "unrecovered read error",
            _ => "a status that this controller does not give by itself",
        }
    }
}

/// Opcodes of the NVM command set.
pub mod opcode {
    /// Flush.
    pub const FLUSH: u8 = 0x00;
    /// Write.
    pub const WRITE: u8 = 0x01;
    /// Read.
    pub const READ: u8 = 0x02;
    /// Write Zeroes.
    pub const WRITE_ZEROES: u8 = 0x08;
    /// Dataset Management.
    pub const DATASET_MANAGEMENT: u8 = 0x09;
}

/// A range of a Dataset Management command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// First logical block.
    pub slba: u64,
    /// Logical blocks.
    pub blocks: u32,
}

/// What a command does. Addresses and lengths count logical blocks; lengths are not 0's based here.
#[derive(Clone, Debug)]
pub enum Op {
    /// All data of completed commands becomes non-volatile.
    Flush,
    /// Writes the pieces, whole logical blocks in sum.
    Write {
        /// First logical block.
        slba: u64,
        /// What to write.
        data: Vec<Bytes>,
        /// Force Unit Access: non-volatile at completion.
        fua: bool,
    },
    /// Reads.
    Read {
        /// First logical block.
        slba: u64,
        /// Logical blocks.
        blocks: u32,
    },
    /// Sets blocks to zeros without a transfer.
    WriteZeroes {
        /// First logical block.
        slba: u64,
        /// Logical blocks, at most 65,536.
        blocks: u32,
        /// DEAC: the controller may deallocate them instead.
        deallocate: bool,
        /// Force Unit Access.
        fua: bool,
    },
    /// Dataset Management with the attribute Deallocate (AD): what is deallocated reads as zeros
    /// (DLFEAT 1).
    Deallocate {
        /// At most 256 ranges.
        ranges: Vec<Range>,
    },
    /// Any other opcode.
    Other(u8),
}

impl Op {
    /// Its opcode.
    pub fn opcode(&self) -> u8 {
        match self {
            Op::Flush => opcode::FLUSH,
            Op::Write { .. } => opcode::WRITE,
            Op::Read { .. } => opcode::READ,
            Op::WriteZeroes { .. } => opcode::WRITE_ZEROES,
            Op::Deallocate { .. } => opcode::DATASET_MANAGEMENT,
            Op::Other(code) => *code,
        }
    }
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Flush => "Flush",
            Op::Write { .. } => "Write",
            Op::Read { .. } => "Read",
            Op::WriteZeroes { .. } => "Write Zeroes",
            Op::Deallocate { .. } => "Dataset Management",
            Op::Other(_) => "unknown command",
        }
    }
}

/// An entry of a submission queue.
#[derive(Clone, Debug)]
pub struct Command {
    /// Command identifier, given back in the completion.
    pub cid: u16,
    /// Namespace; there is one, number 1.
    pub nsid: u32,
    /// What to do.
    pub op: Op,
}

impl Command {
    /// A command for the one namespace.
    pub fn new(cid: u16, op: Op) -> Command {
        Command { cid, nsid: 1, op }
    }
}

/// An entry of a completion queue.
#[derive(Clone, Debug)]
pub struct Completed {
    /// Submission queue that the command came by.
    pub queue: u16,
    /// Its identifier.
    pub cid: u16,
    /// How it ended.
    pub status: Status,
    /// Why, where the status is an error of the medium.
    pub why: Option<String>,
    /// When the controller fetched it.
    pub fetched: Time,
    /// When the host learns of it.
    pub at: Time,
    /// What was read.
    pub data: Vec<Bytes>,
}
