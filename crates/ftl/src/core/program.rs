//! Programs a row: composes its tags and pages and gives them to the chips.

use super::streams::Row;
use super::{Ftl, FtlError};
use crate::config::NONE;
use crate::tag::{self, Kind, Tag};
use base::{Bytes, Time};
use nand::{Cause, NandError, Page, PageAddr};

impl Ftl {
    /// Programs the row being filled, if there is one; answers when the program ends. If it fails,
    /// the row is set aside.
    pub(crate) fn issue(&mut self, now: Time, stream: usize) -> Result<Option<Time>, FtlError> {
        let Some(row) = self.streams.take_row(stream) else {
            return Ok(None);
        };
        let (tags, data) = self.tagged(&row);
        let places = row.entries.iter().filter_map(|e| e.member);
        let start = self.group.start_of(now, places).max(row.ready);
        let cause = self.cause(stream);
        match self.program_row(start, &row, &tags, data, cause) {
            Ok(end) => {
                self.stats
                    .pad(self.layout.slots_per_row - row.entries.len() as u32);
                self.row_programmed(stream, &row);
                self.note_evidence(end);
                if row.is_host() {
                    self.evidence.flush_waits(end);
                }
                Ok(Some(end))
            }
            Err(_failed) => {
                self.set_aside(stream, row);
                Ok(None)
            }
        }
    }
    /// Notes that the next row of a block is programmed; a full block leaves its lane.
    pub(crate) fn row_programmed(&mut self, stream: usize, row: &Row) {
        let full = self.blocks.fill_row(row.block);
        self.note_row(row);
        if full {
            self.close(stream, row.block);
        }
    }
    /// The tags and pieces of a row; host writes get their version here.
    pub(crate) fn tagged(&mut self, row: &Row) -> (Vec<Tag>, Vec<Bytes>) {
        let erases = self.blocks.get(row.block).erases;
        let mut tags = Vec::with_capacity(row.entries.len());
        let mut data = Vec::with_capacity(row.entries.len());
        for entry in &row.entries {
            let prog = self.numbers.next_version();
            let kind = match entry.lpn {
                NONE => Kind::Pad,
                _ if entry.lost => Kind::Lost,
                _ => Kind::Data,
            };
            let (group, mark) = self.group.mark(entry.member);
            tags.push(Tag {
                kind,
                lpn: entry.lpn,
                birth: entry.birth.unwrap_or(prog),
                prog,
                erases,
                group,
                mark,
            });
            data.push(entry.data.clone());
        }
        (tags, data)
    }
    pub(crate) fn program_row(
        &mut self,
        now: Time,
        row: &Row,
        tags: &[Tag],
        data: Vec<Bytes>,
        cause: Cause,
    ) -> Result<Time, NandError> {
        self.nand.because(cause);
        let before = self.nand.stats().programs;
        let end = self.program_pages(now, row, tags, data);
        self.stats
            .program(cause, self.nand.stats().programs - before);
        end
    }
    fn program_pages(
        &mut self,
        now: Time,
        row: &Row,
        tags: &[Tag],
        data: Vec<Bytes>,
    ) -> Result<Time, NandError> {
        let first = self.layout.page(row.block, row.row);
        if let [spare] = &tag::spares(tags, self.layout.pages_per_row)[..]
            && self.layout.pages_per_row == 1
        {
            return broken_rules_panic(self.nand.program(
                now,
                first,
                Page::new(data, spare.clone()),
            ))
            .map(|s| s.end);
        }
        let page_bytes = (self.layout.unit_bytes / self.layout.pages_per_row) as usize;
        let mut end = now;
        for (i, spare) in tag::spares(tags, self.layout.pages_per_row)
            .into_iter()
            .enumerate()
        {
            let piece = data[0].slice(i * page_bytes..(i + 1) * page_bytes);
            let at = PageAddr {
                page: first.page + i as u32,
                ..first
            };
            end =
                broken_rules_panic(self.nand.program(now, at, Page::new(vec![piece], spare)))?.end;
        }
        Ok(end)
    }
}

/// Panics if a rule of the chips was broken, which only a bug of the FTL can cause.
pub(crate) fn broken_rules_panic<T>(result: Result<T, NandError>) -> Result<T, NandError> {
    match result {
        Err(rule @ NandError::Rule { .. }) => {
            panic!("the translation layer broke a rule of the chips: {rule}")
        }
        other => other,
    }
}
