//! The path of a read: from units to slots, and from slots to pages of the chips.

use super::{Ftl, FtlError};
use crate::config::{LOST, NONE};
use crate::tag::{self, Kind, Tag};
use base::{Bytes, Time, fill};
use nand::{Cell, PageAddr};

impl Ftl {
    /// Reads units, in order; a unit that was never written reads as zeros. Answers when the last
    /// of them has crossed the bus. Neighbours in one row cost one array read.
    ///
    /// # Errors
    /// A unit is unreadable or out of range.
    pub fn read(
        &mut self,
        now: Time,
        lpns: std::ops::Range<u32>,
    ) -> (Result<Vec<Bytes>, FtlError>, Time) {
        let mut out = Vec::with_capacity(lpns.len());
        let mut end = now;
        let mut run: Option<(u32, u32, usize)> = None;
        for lpn in lpns {
            if lpn >= self.layout.units {
                return (Err(FtlError::OutOfRange(lpn.into())), end);
            }
            let at = self.on_flash(self.map.at(lpn));
            match (&mut run, at) {
                (Some((block, row, n)), Some((b, r))) if *block == b && *row == r => *n += 1,
                _ => {
                    end = end.max(self.charge_run(now, run));
                    run = at.map(|(b, r)| (b, r, 1));
                }
            }
            match self.content(lpn) {
                Ok(bytes) => out.push(bytes),
                Err(e) => return (Err(e), end.max(self.charge_run(now, run))),
            }
        }
        let end = end.max(self.charge_run(now, run));
        (Ok(out), end)
    }
    /// The content of a unit as a read would answer it, at no cost.
    ///
    /// # Errors
    /// The unit is unreadable.
    pub fn content(&self, lpn: u32) -> Result<Bytes, FtlError> {
        let ppn = self.map.at(lpn);
        if ppn == NONE {
            return Ok(fill::zeros(self.layout.unit_bytes as usize));
        }
        if ppn == LOST {
            return Err(FtlError::Unreadable(lpn));
        }
        if let Some(entry) = self.buffered(ppn) {
            return if entry.lost {
                Err(FtlError::Unreadable(lpn))
            } else {
                Ok(entry.data.clone())
            };
        }
        match self.fetch(ppn) {
            Some((tag, data)) if tag.kind == Kind::Data => Ok(data),
            _ => Err(FtlError::Unreadable(lpn)),
        }
    }
    /// Block and row of a slot that has been programmed.
    fn on_flash(&self, ppn: u32) -> Option<(u32, u32)> {
        if ppn >= LOST || self.buffered(ppn).is_some() {
            return None;
        }
        let (block, row, _) = self.layout.place(ppn);
        Some((block, row))
    }
    fn charge_run(&mut self, now: Time, run: Option<(u32, u32, usize)>) -> Time {
        run.map_or(now, |(block, row, n)| self.charge_read(now, block, row, n))
    }
    /// Lets the chips read `n` units of a row; answers when that is done.
    pub(crate) fn charge_read(&mut self, now: Time, block: u32, row: u32, n: usize) -> Time {
        let first = self.layout.page(block, row);
        let bytes = n * self.layout.unit_bytes as usize / self.layout.pages_per_row as usize;
        let mut end = now;
        for i in 0..self.layout.pages_per_row {
            let page = first.page + i;
            let (_, read, said) = self.nand.sense(now, PageAddr { page, ..first }, bytes);
            end = end.max(read);
            if said.refresh {
                self.scrub.note(block, row);
            }
        }
        end
    }
    /// The tag of a programmed slot, at no cost; `None` if it is unreadable or holds none.
    pub(crate) fn fetch_tag(&self, block: u32, row: u32, slot: u32) -> Option<Tag> {
        self.fetch(self.layout.ppn(block, row, slot))
            .map(|(tag, _)| tag)
    }
    /// Tag and content of a programmed slot, at no cost; `None` if it is unreadable or holds no
    /// tag.
    pub(crate) fn fetch(&self, ppn: u32) -> Option<(Tag, Bytes)> {
        let (block, row, slot) = self.layout.place(ppn);
        let first = self.layout.page(block, row);
        let unit = self.layout.unit_bytes as usize;
        if self.layout.pages_per_row == 1 {
            let Cell::Written(page) = self.nand.peek(first) else {
                return None;
            };
            let tag = tag::of_row(&[page.spare()], slot)?;
            return Some((tag, page.slice(slot as usize * unit, unit)));
        }
        let mut pages = Vec::new();
        for i in 0..self.layout.pages_per_row {
            let Cell::Written(page) = self.nand.peek(PageAddr {
                page: first.page + i,
                ..first
            }) else {
                return None;
            };
            pages.push(page.clone());
        }
        let spares: Vec<&[u8]> = pages.iter().map(|p| &p.spare()[..]).collect();
        let tag = tag::of_row(&spares, slot)?;
        let part = unit / pages.len();
        let data: Vec<Bytes> = pages.iter().map(|p| p.slice(0, part)).collect();
        Some((tag, fill::compact(data.concat().into())))
    }
}
