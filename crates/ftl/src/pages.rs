//! The bytes of the map's areas: pages, and the block table in a checkpoint.
//!
//! A page says what it holds, to which checkpoint it belongs and at which place there, and has a
//! checksum over all of that, so that recovery can tell a whole page of the newest checkpoint from
//! anything else. docs/format/ftl.md has the fields; the records in log pages are in `records`.

use crate::config::{BLOCK_ENTRY, META_HEADER};
use crate::types::{BlockInfo, State};
use base::Bytes;
use base::bytes::{get_le32, get_le64, put_le32, put_le64};
use base::checksum::crc32c;

const MAGIC: u32 = 0x4C54_4656;
/// Version of what this crate writes to flash (docs/format/ftl.md); the root carries it.
pub(crate) const FORMAT: u32 = 2;
/// Bytes behind the root's content with the place of its seal (meta-I22): a second root page,
/// programmed when the first is complete.
pub(crate) const SEAL_BYTES: usize = 8;
/// Bytes of the root's content.
pub(crate) const ROOT_BYTES: usize = 44;
/// Bytes of the root's content in format 1, which names no version.
pub(crate) const ROOT_BYTES_1: usize = 40;

/// What a page of an area holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MetaKind {
    Table,
    Segment,
    Root,
    Log,
}

/// A decoded page of an area.
#[derive(Clone, Debug)]
pub(crate) struct MetaPage {
    pub kind: MetaKind,
    pub seq: u64,
    pub index: u32,
    /// Number of the table part or of the map segment.
    pub part: u32,
    pub body: Bytes,
}

impl MetaPage {
    /// The bytes of the page.
    pub fn encode(&self) -> Bytes {
        let mut raw = vec![0; META_HEADER as usize + self.body.len()];
        put_le32(&mut raw, 0, MAGIC);
        raw[4] = match self.kind {
            MetaKind::Table => 1,
            MetaKind::Segment => 2,
            MetaKind::Root => 3,
            MetaKind::Log => 4,
        };
        put_le64(&mut raw, 8, self.seq);
        put_le32(&mut raw, 16, self.index);
        put_le32(&mut raw, 20, self.part);
        put_le32(&mut raw, 24, self.body.len() as u32);
        raw[META_HEADER as usize..].copy_from_slice(&self.body);
        let crc = crc32c(crc32c(!0, &raw[..28]), &self.body);
        put_le32(&mut raw, 28, crc);
        raw.into()
    }
    /// The page, or `None` if these bytes are not one.
    pub fn decode(raw: &Bytes) -> Option<MetaPage> {
        let header = META_HEADER as usize;
        if raw.len() < header || get_le32(raw, 0) != MAGIC {
            return None;
        }
        let len = get_le32(raw, 24) as usize;
        let body = raw.get(header..header.checked_add(len)?)?;
        if get_le32(raw, 28) != crc32c(crc32c(!0, &raw[..28]), body) {
            return None;
        }
        let kind = match raw[4] {
            1 => MetaKind::Table,
            2 => MetaKind::Segment,
            3 => MetaKind::Root,
            4 => MetaKind::Log,
            _ => return None,
        };
        let body = raw.slice(header..header + len);
        Some(MetaPage {
            kind,
            seq: get_le64(raw, 8),
            index: get_le32(raw, 16),
            part: get_le32(raw, 20),
            body,
        })
    }
}

/// A block's entry of the table.
pub(crate) fn encode_block(info: &BlockInfo) -> [u8; BLOCK_ENTRY as usize] {
    let mut raw = [0; BLOCK_ENTRY as usize];
    raw[0] = match info.state {
        State::Free => 0,
        State::Open => 1,
        State::Closed => 2,
        State::Bad => 3,
        State::Meta => 4,
    };
    raw[1] = u8::from(info.failing);
    put_le32(&mut raw, 4, info.filled);
    put_le32(&mut raw, 8, info.erases);
    raw
}

/// State, rows filled, erases and the failing mark in a block's entry of the table.
pub(crate) fn decode_block(raw: &[u8]) -> Option<(State, u32, u32, bool)> {
    let state = match raw[0] {
        0 => State::Free,
        1 => State::Open,
        2 => State::Closed,
        3 => State::Bad,
        4 => State::Meta,
        _ => return None,
    };
    Some((state, get_le32(raw, 4), get_le32(raw, 8), raw[1] != 0))
}
