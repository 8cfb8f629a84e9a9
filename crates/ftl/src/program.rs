//! Programs a row: composes its tags and pages and gives them to the chips.

use crate::config::NONE;
use crate::core::{Ftl, Row};
use crate::tag::{self, GroupMark, Kind, Tag};
use base::{Bytes, Time};
use nand::{Cause, NandError, Page, PageAddr};

impl Ftl {
    /// The tags and pieces of a row; host writes get their version here.
    pub(crate) fn tagged(&mut self, row: &Row) -> (Vec<Tag>, Vec<Bytes>) {
        let erases = self.blocks[row.block as usize].erases;
        let mut tags = Vec::with_capacity(row.entries.len());
        let mut data = Vec::with_capacity(row.entries.len());
        for entry in &row.entries {
            self.version += 1;
            let prog = self.version;
            let kind = match entry.lpn {
                NONE => Kind::Pad,
                _ if entry.lost => Kind::Lost,
                _ => Kind::Data,
            };
            let place = entry.member.filter(|(group, _)| self.group.is_open(*group));
            let (group, mark) = match place {
                Some((group, index)) => (group, GroupMark::Member(index)),
                None => (self.group.id, self.group.outside()),
            };
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
            .by_cause
            .add(cause, self.nand.stats().programs - before);
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
