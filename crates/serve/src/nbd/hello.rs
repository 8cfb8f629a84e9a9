//! The haggling over options, at the begin of a connection.

use super::request::PAYLOAD_MAX;
use super::server::{Options, Wire};
use crate::Served;
use crate::socket::Close;
use base::BLOCK_BYTES;

const MAGIC: &[u8; 8] = b"NBDMAGIC";
const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Of server and client alike: fixed newstyle, and no zeros behind an export.
const FIXED: u16 = 1;
const NO_ZEROES: u16 = 2;
/// Longest data of an option.
const OPTION_MAX: usize = 1 << 16;
/// Most options of a client, so that one cannot haggle for ever.
const OPTIONS_MAX: usize = 1000;

const EXPORT_NAME: u32 = 1;
const ABORT: u32 = 2;
const LIST: u32 = 3;
const INFO: u32 = 6;
const GO: u32 = 7;
const STRUCTURED_REPLY: u32 = 8;
const LIST_META_CONTEXT: u32 = 9;
const SET_META_CONTEXT: u32 = 10;

const ACK: u32 = 1;
const SERVER: u32 = 2;
const REP_INFO: u32 = 3;
const META_CONTEXT: u32 = 4;
const ERR_UNSUP: u32 = 0x8000_0001;
const ERR_INVALID: u32 = 0x8000_0003;
const ERR_UNKNOWN: u32 = 0x8000_0006;

const INFO_EXPORT: u16 = 0;
const INFO_NAME: u16 = 1;
const INFO_BLOCK_SIZE: u16 = 3;

/// The one metadata context.
const ALLOCATION: &[u8] = b"base:allocation";
/// By which its answers are marked.
pub const ALLOCATION_ID: u32 = 1;

/// What client and server agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Agreed {
    /// Answers may have several parts.
    pub structured: bool,
    /// The client may ask where zeros are.
    pub allocation: bool,
}

/// Haggles until the client wants to begin.
pub fn agree(wire: &Wire<'_>, options: &Options) -> Result<Agreed, Close> {
    let mut greeting = MAGIC.to_vec();
    greeting.extend_from_slice(OPTION_MAGIC);
    greeting.extend_from_slice(&(FIXED | NO_ZEROES).to_be_bytes());
    wire.send(&greeting)?;
    let mut flags = [0; 4];
    wire.receive(&mut flags)?;
    let flags = u32::from_be_bytes(flags);
    if flags & !u32::from(FIXED | NO_ZEROES) != 0 {
        return Err(Close::broken(format!("flags {flags:#x} of the client")));
    }
    let mut agreed = Agreed::default();
    for _ in 0..OPTIONS_MAX {
        let (option, data) = receive(wire)?;
        match option {
            EXPORT_NAME if is_name(&data, options) => {
                let mut reply = export(wire.served, options, agreed);
                if flags & u32::from(NO_ZEROES) == 0 {
                    reply.resize(reply.len() + 124, 0);
                }
                wire.send(&reply)?;
                return Ok(agreed);
            }
            // There is no way to answer.
            EXPORT_NAME => return Err(Close::broken("an export that is not here")),
            ABORT => {
                wire.send(&reply(option, ACK, &[]))?;
                return Err(Close::ByClient);
            }
            _ => {
                let (replies, begin) = answer(option, &data, wire.served, options, &mut agreed);
                wire.send(&replies)?;
                if begin {
                    return Ok(agreed);
                }
            }
        }
    }
    Err(Close::broken("options without end"))
}

fn receive(wire: &Wire<'_>) -> Result<(u32, Vec<u8>), Close> {
    let mut head = [0; 16];
    wire.receive(&mut head)?;
    let (magic, rest) = head.split_at(8);
    let (option, len) = (be32(rest, 0), be32(rest, 4) as usize);
    if magic != OPTION_MAGIC || len > OPTION_MAX {
        return Err(Close::broken(format!("option {option} with {len} bytes")));
    }
    let mut data = vec![0; len];
    wire.receive(&mut data)?;
    Ok((option, data))
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    (bytes[at..at + 4].iter()).fold(0, |value, byte| value << 8 | u32::from(*byte))
}

fn reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = REPLY_MAGIC.to_be_bytes().to_vec();
    for word in [option, kind, data.len() as u32] {
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    bytes.extend_from_slice(data);
    bytes
}

fn is_name(name: &[u8], options: &Options) -> bool {
    name.is_empty() || name == options.name.as_bytes()
}

/// The answers to an option, and whether requests follow.
fn answer(
    option: u32,
    data: &[u8],
    served: &Served,
    options: &Options,
    agreed: &mut Agreed,
) -> (Vec<u8>, bool) {
    let one = |kind| (reply(option, kind, &[]), false);
    match option {
        LIST if data.is_empty() => {
            let mut name = (options.name.len() as u32).to_be_bytes().to_vec();
            name.extend_from_slice(options.name.as_bytes());
            let all = [reply(option, SERVER, &name), reply(option, ACK, &[])];
            (all.concat(), false)
        }
        STRUCTURED_REPLY if data.is_empty() => {
            agreed.structured = true;
            one(ACK)
        }
        INFO | GO => match info(data) {
            None => one(ERR_INVALID),
            Some(name) if !is_name(name, options) => one(ERR_UNKNOWN),
            Some(_) => (told(option, served, options, *agreed), option == GO),
        },
        LIST_META_CONTEXT | SET_META_CONTEXT => {
            let set = option == SET_META_CONTEXT;
            if set {
                agreed.allocation = false;
            }
            match contexts(data) {
                None => one(ERR_INVALID),
                Some(_) if set && !agreed.structured => one(ERR_INVALID),
                Some((name, _)) if !is_name(name, options) => one(ERR_UNKNOWN),
                Some((_, wanted)) => {
                    let all = !set && wanted.is_empty();
                    let space = |query: &&[u8]| !set && *query == b"base:";
                    let known = |query: &&[u8]| *query == ALLOCATION || space(query);
                    let found = all || wanted.iter().any(known);
                    let mut replies = Vec::new();
                    if found {
                        let id = if set { ALLOCATION_ID } else { 0 };
                        let context = [&id.to_be_bytes(), ALLOCATION].concat();
                        replies = reply(option, META_CONTEXT, &context);
                        agreed.allocation |= set;
                    }
                    replies.extend(reply(option, ACK, &[]));
                    (replies, false)
                }
            }
        }
        LIST | STRUCTURED_REPLY => one(ERR_INVALID),
        _ => one(ERR_UNSUP),
    }
}

/// A length and so many bytes; what is behind them stays in `data`.
fn text<'a>(data: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, rest) = data.split_first_chunk::<4>()?;
    let len = usize::try_from(u32::from_be_bytes(*len)).ok()?;
    let (text, rest) = rest.split_at_checked(len)?;
    *data = rest;
    Some(text)
}

/// The name of the export that `INFO` or `GO` asks for; every information is told anyway.
fn info(mut data: &[u8]) -> Option<&[u8]> {
    let name = text(&mut data)?;
    let (count, wanted) = data.split_first_chunk::<2>()?;
    let count = usize::from(u16::from_be_bytes(*count));
    (wanted.len() == 2 * count).then_some(name)
}

/// The name of the export, and the contexts that are asked for.
fn contexts(mut data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let name = text(&mut data)?;
    let (count, mut rest) = data.split_first_chunk::<4>()?;
    let mut wanted = Vec::new();
    for _ in 0..u32::from_be_bytes(*count) {
        wanted.push(text(&mut rest)?);
    }
    rest.is_empty().then_some((name, wanted))
}

fn told(option: u32, served: &Served, options: &Options, agreed: Agreed) -> Vec<u8> {
    let head = |kind: u16| kind.to_be_bytes().to_vec();
    let mut whole = head(INFO_EXPORT);
    whole.extend(export(served, options, agreed));
    let mut sizes = head(INFO_BLOCK_SIZE);
    let unit = served.caps().sector_bytes;
    for size in [unit, unit.max(BLOCK_BYTES as u32), PAYLOAD_MAX] {
        sizes.extend_from_slice(&size.to_be_bytes());
    }
    let mut name = head(INFO_NAME);
    name.extend_from_slice(options.name.as_bytes());
    let told = [whole, sizes, name].map(|info| reply(option, REP_INFO, &info));
    [told.concat(), reply(option, ACK, &[])].concat()
}

/// Size and flags of the export.
fn export(served: &Served, options: &Options, agreed: Agreed) -> Vec<u8> {
    const HAS_FLAGS: u16 = 1;
    const READ_ONLY: u16 = 1 << 1;
    const SEND_FLUSH: u16 = 1 << 2;
    const SEND_FUA: u16 = 1 << 3;
    const SEND_TRIM: u16 = 1 << 5;
    const SEND_WRITE_ZEROES: u16 = 1 << 6;
    const SEND_DF: u16 = 1 << 7;
    const CAN_MULTI_CONN: u16 = 1 << 8;
    let mut flags = HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_WRITE_ZEROES | CAN_MULTI_CONN;
    for (flag, on) in [
        (READ_ONLY, options.read_only),
        (SEND_TRIM, served.caps().discard),
        (SEND_DF, agreed.structured),
    ] {
        flags |= if on { flag } else { 0 };
    }
    let mut bytes = served.bytes().to_be_bytes().to_vec();
    bytes.extend_from_slice(&flags.to_be_bytes());
    bytes
}
