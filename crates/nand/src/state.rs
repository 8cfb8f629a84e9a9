//! The state of a medium as bytes and back, for saved devices.
//!
//! Little-endian. Geometry (nine u32, pairing u8), clock u64; then each block that was ever
//! touched, ascending: number, erases, next page, programs of the last page, reads, flags, time of
//! the first program, number of frail pages and these, pages that are not erased. `u32::MAX` ends
//! the list of blocks and that of the pages of each. The file around these bytes carries version
//! and checksum.
//!
//! Invariants:
//! - S1: no number in what [`Media::load`] accepts makes later use overflow, or names a block or
//!   page that does not exist.
//! - S2: the memory needed is bounded by the bytes given, and by [`PAGES_MAX`].

use crate::media::{Block, Frail, Slot};
use crate::{Cell, Geometry, Media, Page, Pairing};
use base::Bytes;
use base::bytes::{get_le32, get_le64};
use std::sync::Arc;

const END: u32 = u32::MAX;
/// Pages of touched blocks that a saved medium may have; bounds the memory that malicious bytes can
/// ask for (S2).
const PAGES_MAX: u64 = 1 << 25;
/// Largest count of erases or reads (S1).
const COUNT_MAX: u32 = u32::MAX / 2;
/// Largest time, nanoseconds: 292 years (S1).
const TIME_MAX: u64 = u64::MAX / 2;

/// Reads numbers and bytes; every read is checked against the length.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, len: usize) -> Result<&'a [u8], String> {
        if len > self.0.len() {
            return Err("the medium is cut short".into());
        }
        let (head, rest) = self.0.split_at(len);
        self.0 = rest;
        Ok(head)
    }
    fn u8(&mut self) -> Result<u8, String> {
        Ok(self.bytes(1)?[0])
    }
    fn u32(&mut self) -> Result<u32, String> {
        Ok(get_le32(self.bytes(4)?, 0))
    }
    fn u64(&mut self) -> Result<u64, String> {
        Ok(get_le64(self.bytes(8)?, 0))
    }
    /// Bytes behind their length, at most `most`.
    fn piece(&mut self, most: u32) -> Result<Bytes, String> {
        let len = self.u32()?;
        if len > most {
            return Err(format!("{len} bytes in a place for {most}"));
        }
        Ok(Bytes::copy_from_slice(self.bytes(len as usize)?))
    }
}

fn put32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_piece(out: &mut Vec<u8>, piece: &[u8]) {
    put32(out, piece.len() as u32);
    out.extend_from_slice(piece);
}

impl Geometry {
    fn save(&self, out: &mut Vec<u8>) {
        for value in [
            self.channels,
            self.dies_per_channel,
            self.planes,
            self.blocks_per_plane,
            self.pages_per_block,
            self.page_bytes,
            self.spare_bytes,
            self.nop,
            self.endurance,
        ] {
            put32(out, value);
        }
        out.push(match self.pairing {
            Pairing::None => 0,
            Pairing::Dist3 => 1,
            Pairing::Shadow6 => 2,
            Pairing::OneShotTlc => 3,
        });
    }
    fn load(from: &mut Reader<'_>) -> Result<Geometry, String> {
        let geometry = Geometry {
            channels: from.u32()?,
            dies_per_channel: from.u32()?,
            planes: from.u32()?,
            blocks_per_plane: from.u32()?,
            pages_per_block: from.u32()?,
            page_bytes: from.u32()?,
            spare_bytes: from.u32()?,
            nop: from.u32()?,
            endurance: from.u32()?,
            pairing: match from.u8()? {
                0 => Pairing::None,
                1 => Pairing::Dist3,
                2 => Pairing::Shadow6,
                3 => Pairing::OneShotTlc,
                other => return Err(format!("pairing {other}")),
            },
        };
        geometry.check()?;
        Ok(geometry)
    }
}

impl Media {
    /// Appends the whole state of the medium.
    ///
    /// # Errors
    /// The blocks ever touched have more than `PAGES_MAX` pages, in words.
    pub fn save(&self, out: &mut Vec<u8>) -> Result<(), String> {
        let touched = self.blocks.iter_present().filter(|(_, s)| s.0.is_some());
        let pages = touched.count() as u64 * u64::from(self.geometry.pages_per_block);
        if pages > PAGES_MAX {
            return Err(format!(
                "its used blocks have {pages} pages; at most {PAGES_MAX} can be saved"
            ));
        }
        self.geometry.save(out);
        out.extend_from_slice(&self.clock.to_le_bytes());
        for (number, slot) in self.blocks.iter_present() {
            if let Some(block) = &slot.0 {
                put32(out, number as u32);
                save_block(block, out);
            }
        }
        put32(out, END);
        Ok(())
    }
    /// The medium that [`Media::save`] wrote, and the bytes behind it. For any bytes: those that
    /// are no medium are refused, with memory bounded by the bytes given and by `PAGES_MAX`.
    ///
    /// # Errors
    /// What is wrong with the bytes, in words.
    pub fn load(bytes: &[u8]) -> Result<(Media, &[u8]), String> {
        let mut from = Reader(bytes);
        let geometry = Geometry::load(&mut from)?;
        let mut media = Media::blank(geometry);
        media.clock = from.u64()?;
        if media.clock > TIME_MAX {
            return Err(format!("S1: clock {}", media.clock));
        }
        let (mut after, mut pages) = (0, 0);
        loop {
            let number = from.u32()?;
            if number == END {
                return Ok((media, from.0));
            }
            pages += u64::from(geometry.pages_per_block);
            if number < after || number >= geometry.blocks() {
                let last = geometry.blocks() - 1;
                return Err(format!(
                    "block {number} where one of {after} to {last} is due"
                ));
            }
            if pages > PAGES_MAX {
                return Err(format!("S2: used blocks with over {PAGES_MAX} pages"));
            }
            after = number + 1;
            let block =
                load_block(&geometry, &mut from).map_err(|e| format!("block {number}: {e}"))?;
            if !block.frail.is_empty() {
                media.frail.insert(number);
            }
            media
                .blocks
                .set(number as usize, Slot(Some(Arc::new(block))));
        }
    }
    /// The least, the mean and the largest number of erases, over the blocks that are not marked
    /// bad.
    pub fn wear_range(&self) -> (u32, f64, u32) {
        let (mut least, mut most, mut sum, mut good) = (u32::MAX, 0, 0u64, 0u64);
        for block in (0..self.geometry.blocks()).map(crate::BlockId) {
            if !self.is_bad(block) {
                let wear = self.wear(block);
                (least, most) = (least.min(wear), most.max(wear));
                (sum, good) = (sum + u64::from(wear), good + 1);
            }
        }
        (least.min(most), sum as f64 / good.max(1) as f64, most)
    }
}

fn save_block(block: &Block, out: &mut Vec<u8>) {
    for value in [block.wear, block.next, block.times, block.reads] {
        put32(out, value);
    }
    out.push(u8::from(block.weak) | u8::from(block.bad) << 1 | u8::from(block.factory) << 2);
    out.extend_from_slice(&block.born.to_le_bytes());
    put32(out, block.frail.len() as u32);
    for (page, frail) in &block.frail {
        put32(out, *page);
        put32(out, frail.reads);
        out.push(frail.power_ups);
    }
    for (page, cell) in (0u32..).zip(&block.cells) {
        let (kind, held) = match cell {
            Cell::Erased => continue,
            Cell::Written(held) => (1, Some(held)),
            Cell::SpareOnly(held) => (2, Some(held)),
            Cell::Torn => (3, None),
        };
        put32(out, page);
        out.push(kind);
        if let Some(held) = held {
            put_piece(out, held.spare());
            put32(out, held.data().len() as u32);
            held.data().iter().for_each(|piece| put_piece(out, piece));
        }
    }
    put32(out, END);
}

fn load_block(geometry: &Geometry, from: &mut Reader<'_>) -> Result<Block, String> {
    let pages = geometry.pages_per_block;
    let mut block = Block::blank(geometry);
    block.wear = from.u32()?;
    block.next = from.u32()?;
    block.times = from.u32()?;
    block.reads = from.u32()?;
    let flags = from.u8()?;
    let counts = block.wear.max(block.reads).max(block.times);
    // A factory mark without a bad mark is not possible.
    if flags > 7 || flags & 6 == 4 || block.next > pages || counts > COUNT_MAX {
        return Err("S1: its state makes no sense".into());
    }
    block.weak = flags & 1 != 0;
    block.bad = flags & 2 != 0;
    block.factory = flags & 4 != 0;
    block.born = from.u64()?;
    if block.born > TIME_MAX {
        return Err(format!("S1: programmed at {}", block.born));
    }
    for _ in 0..from.u32()? {
        let (page, reads, power_ups) = (from.u32()?, from.u32()?, from.u8()?);
        if page >= pages || power_ups == 0 {
            return Err(format!("S1: no page {page}, or none that reads"));
        }
        block.frail.insert(page, Frail { reads, power_ups });
    }
    loop {
        let page = from.u32()?;
        if page == END {
            return Ok(block);
        }
        let Some(cell) = block.cells.get_mut(page as usize) else {
            return Err(format!("no page {page}"));
        };
        *cell = match from.u8()? {
            3 => Cell::Torn,
            kind @ (1 | 2) => {
                let spare = from.piece(geometry.spare_bytes)?;
                let (mut data, mut left) = (Vec::new(), geometry.page_bytes);
                for _ in 0..from.u32()? {
                    let piece = from.piece(left)?;
                    left -= piece.len() as u32;
                    if piece.is_empty() {
                        return Err("an empty piece of a page".into());
                    }
                    data.push(piece);
                }
                let page = Arc::new(Page::new(data, spare));
                match kind {
                    1 => Cell::Written(page),
                    _ => Cell::SpareOnly(page),
                }
            }
            other => return Err(format!("page {page}: no content of kind {other}")),
        };
    }
}
