//! Messages of the vhost-user protocol, as bytes become values. Any bytes may come.
//!
//! A message is a header (request u32, flags u32, length u32; host's byte order), a payload of that
//! length, and file descriptors beside it. Source: `vhost-user.rst` of QEMU's documentation.

use crate::socket::Close;
use base::bytes::{get_le16, get_le32, get_le64, put_le16, put_le32, put_le64};

/// Bytes of a header.
pub const HEAD: usize = 12;
/// Longest payload that is taken: a table of memory regions, or a whole configuration space.
pub const PAYLOAD_MAX: usize = 4096;
/// Most memory regions, and most descriptors beside a message.
pub const REGIONS_MAX: usize = 8;
/// Length of the configuration space.
pub const CONFIG_BYTES: usize = 256;

const VERSION: u32 = 1;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;
/// In the word of a kick, call or error descriptor: there is none.
const NO_FD: u64 = 1 << 8;

/// The head of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    request: u32,
    flags: u32,
    /// Bytes of the payload.
    pub len: usize,
}

impl Head {
    /// Parses a header.
    ///
    /// # Errors
    /// It is of another version, an answer, or announces too long a payload.
    pub fn parse(bytes: &[u8; HEAD]) -> Result<Head, Close> {
        let head = Head {
            request: get_le32(bytes, 0),
            flags: get_le32(bytes, 4),
            len: get_le32(bytes, 8) as usize,
        };
        if head.flags & 3 != VERSION || head.flags & REPLY != 0 {
            return Err(Close::broken(format!(
                "a message with flags {:#x}",
                head.flags
            )));
        }
        if head.len > PAYLOAD_MAX {
            return Err(Close::broken(format!("a payload of {} bytes", head.len)));
        }
        Ok(head)
    }

    /// Whether the client wants an answer to a message that has none of its own.
    pub fn needs_reply(&self) -> bool {
        self.flags & NEED_REPLY != 0
    }

    /// An answer to this message.
    pub fn answer(&self, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEAD];
        put_le32(&mut bytes, 0, self.request);
        put_le32(&mut bytes, 4, VERSION | REPLY);
        put_le32(&mut bytes, 8, payload.len() as u32);
        bytes.extend_from_slice(payload);
        bytes
    }

    /// An answer that describes memory for notes, as long as the question was.
    pub fn answer_shape(&self, shape: Shape) -> Vec<u8> {
        let mut payload = vec![0; self.len.max(SHAPE)];
        put_le64(&mut payload, 0, shape.bytes);
        put_le64(&mut payload, 8, shape.offset);
        put_le16(&mut payload, 16, shape.queues);
        put_le16(&mut payload, 18, shape.size);
        self.answer(&payload)
    }

    /// An answer of one number.
    pub fn answer_u64(&self, value: u64) -> Vec<u8> {
        let mut payload = [0; 8];
        put_le64(&mut payload, 0, value);
        self.answer(&payload)
    }
}

/// A region of the client's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// Where it is for the guest.
    pub guest: u64,
    /// Bytes.
    pub len: u64,
    /// Where it is for the client, in whose addresses rings are told.
    pub user: u64,
    /// Where it begins in the file that comes with it.
    pub offset: u64,
}

/// Where a ring lies, in the addresses of the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rings {
    /// Table of descriptors.
    pub desc: u64,
    /// Used ring.
    pub used: u64,
    /// Available ring.
    pub avail: u64,
}

/// Memory in which a server notes what is under way, as messages describe it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Bytes of it in its file; 0 where the client asks for some.
    pub bytes: u64,
    /// Where it begins in the file.
    pub offset: u64,
    /// For how many queues.
    pub queues: u16,
    /// Most entries of a queue.
    pub size: u16,
}

/// What a client asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Which features there are.
    GetFeatures,
    /// These features are used.
    SetFeatures(u64),
    /// Nothing that a device of one client has to do.
    SetOwner,
    /// Which features the protocol has.
    GetProtocolFeatures,
    /// These are used.
    SetProtocolFeatures(u64),
    /// How many queues there may be.
    GetQueueNum,
    /// The client's memory; a descriptor for each region.
    SetMemTable(Vec<Region>),
    /// Number of entries of a queue.
    SetVringNum(usize, u32),
    /// Where the rings of a queue are.
    SetVringAddr(usize, Rings),
    /// First entry that is not done.
    SetVringBase(usize, u32),
    /// Stop the queue, and tell the first entry that is not done.
    GetVringBase(usize),
    /// What tells of new entries; false: nothing does.
    SetVringKick(usize, bool),
    /// What tells the client of done entries.
    SetVringCall(usize, bool),
    /// What tells the client of errors.
    SetVringErr(usize, bool),
    /// Whether the queue may be worked on.
    SetVringEnable(usize, bool),
    /// A way to send messages to the client.
    SetBackendFd,
    /// So many bytes of the configuration space from there.
    GetConfig(usize, usize),
    /// These bytes there.
    SetConfig(usize, Vec<u8>),
    /// Memory for notes of what is under way.
    GetInflight(Shape),
    /// This memory holds the notes, and is to hold them from now on.
    SetInflight(Shape),
    /// Something that is not known, or was not offered.
    Unknown(u32),
}

impl Message {
    /// Parses the payload of a message.
    ///
    /// # Errors
    /// It is too short, or contradicts itself.
    pub fn parse(head: &Head, payload: &[u8]) -> Result<Message, Close> {
        let fits = |bytes: usize| match payload.len() >= bytes {
            true => Ok(()),
            false => Err(Close::broken(format!(
                "request {} with {} bytes instead of {bytes}",
                head.request,
                payload.len()
            ))),
        };
        let word = || fits(8).map(|()| get_le64(payload, 0));
        let state = || fits(8).map(|()| (get_le32(payload, 0) as usize, get_le32(payload, 4)));
        let ring = || word().map(|w| ((w & 0xff) as usize, w & NO_FD == 0));
        Ok(match head.request {
            1 => Message::GetFeatures,
            2 => Message::SetFeatures(word()?),
            3 | 4 => Message::SetOwner,
            5 => Message::SetMemTable(regions(payload)?),
            8 => state().map(|(queue, n)| Message::SetVringNum(queue, n))?,
            9 => {
                fits(40)?;
                let rings = Rings {
                    desc: get_le64(payload, 8),
                    used: get_le64(payload, 16),
                    avail: get_le64(payload, 24),
                };
                Message::SetVringAddr(get_le32(payload, 0) as usize, rings)
            }
            10 => state().map(|(queue, n)| Message::SetVringBase(queue, n))?,
            11 => state().map(|(queue, _)| Message::GetVringBase(queue))?,
            12 => ring().map(|(queue, fd)| Message::SetVringKick(queue, fd))?,
            13 => ring().map(|(queue, fd)| Message::SetVringCall(queue, fd))?,
            14 => ring().map(|(queue, fd)| Message::SetVringErr(queue, fd))?,
            15 => Message::GetProtocolFeatures,
            16 => Message::SetProtocolFeatures(word()?),
            17 => Message::GetQueueNum,
            18 => state().map(|(queue, on)| Message::SetVringEnable(queue, on != 0))?,
            21 => Message::SetBackendFd,
            24 => config(payload).map(|(from, bytes)| Message::GetConfig(from, bytes.len()))?,
            25 => config(payload).map(|(from, bytes)| Message::SetConfig(from, bytes.to_vec()))?,
            31 => shape(payload).map(Message::GetInflight)?,
            32 => shape(payload).map(Message::SetInflight)?,
            other => Message::Unknown(other),
        })
    }
}

/// Bytes of a description of memory for notes. QEMU sends 4 more, which mean nothing.
const SHAPE: usize = 20;

fn shape(payload: &[u8]) -> Result<Shape, Close> {
    if payload.len() < SHAPE {
        let len = payload.len();
        return Err(Close::broken(format!(
            "memory of what is under way, described in {len} bytes instead of {SHAPE}"
        )));
    }
    Ok(Shape {
        bytes: get_le64(payload, 0),
        offset: get_le64(payload, 8),
        queues: get_le16(payload, 16),
        size: get_le16(payload, 18),
    })
}

/// User Mode Linux sends room for two regions, however many there are: what is behind the last one
/// is not looked at.
fn regions(payload: &[u8]) -> Result<Vec<Region>, Close> {
    let count = match payload.len() {
        8.. => get_le32(payload, 0) as usize,
        _ => 0,
    };
    if count == 0 || count > REGIONS_MAX || payload.len() < 8 + 32 * count {
        let len = payload.len();
        return Err(Close::broken(format!(
            "{count} memory regions in {len} bytes"
        )));
    }
    let region = |n: usize| Region {
        guest: get_le64(payload, 8 + 32 * n),
        len: get_le64(payload, 16 + 32 * n),
        user: get_le64(payload, 24 + 32 * n),
        offset: get_le64(payload, 32 + 32 * n),
    };
    Ok((0..count).map(region).collect())
}

/// First byte and content of a part of the configuration space.
fn config(payload: &[u8]) -> Result<(usize, &[u8]), Close> {
    if payload.len() >= 12 {
        let (from, len) = (get_le32(payload, 0) as usize, get_le32(payload, 4) as usize);
        let inside = from.checked_add(len).is_some_and(|end| end <= CONFIG_BYTES);
        if let (true, Some(bytes)) = (inside, payload[12..].get(..len)) {
            return Ok((from, bytes));
        }
    }
    let len = payload.len();
    Err(Close::broken(format!(
        "a message of {len} bytes about a place outside of the configuration"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(request: u32, payload: &[u8]) -> Result<Message, Close> {
        let mut head = [0; HEAD];
        put_le32(&mut head, 0, request);
        put_le32(&mut head, 4, VERSION);
        put_le32(&mut head, 8, payload.len() as u32);
        Message::parse(&Head::parse(&head)?, payload)
    }

    #[test]
    fn no_more_regions_than_there_may_be() {
        let table =
            |count: usize| [&(count as u64).to_le_bytes()[..], &vec![1; 32 * count]].concat();
        for count in [1, REGIONS_MAX] {
            let parsed = parsed(5, &table(count));
            assert!(matches!(parsed, Ok(Message::SetMemTable(all)) if all.len() == count));
        }
        for wrong in [
            table(0),
            table(REGIONS_MAX + 1),
            table(2)[..71].to_vec(),
            vec![1],
        ] {
            assert!(parsed(5, &wrong).is_err(), "{} bytes", wrong.len());
        }
    }

    #[test]
    fn the_configuration_is_asked_for_within_its_bounds() {
        let ask = |from: usize, len: usize| {
            let words = [from as u32, len as u32, 0].map(u32::to_le_bytes);
            [&words.concat()[..], &vec![0; len.min(PAYLOAD_MAX)]].concat()
        };
        let all = parsed(24, &ask(0, CONFIG_BYTES));
        assert_eq!(all.expect("all of it"), Message::GetConfig(0, CONFIG_BYTES));
        for (from, len) in [(1, CONFIG_BYTES), (CONFIG_BYTES, 1), (u32::MAX as usize, 2)] {
            assert!(parsed(24, &ask(from, len)).is_err(), "{from} {len}");
        }
        assert!(parsed(24, &ask(0, 8)[..19]).is_err(), "less than it says");
    }
}
