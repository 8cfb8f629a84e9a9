//! Operations on several pages at once: on the planes of a die, and on the pages of a word line.

use crate::{BlockId, Nand, NandError, Page, PageAddr, Span};
use base::Time;

fn broken<T>(rule: &'static str, at: PageAddr) -> Result<T, NandError> {
    Err(NandError::Rule {
        rule,
        block: at.block.0,
        page: at.page,
    })
}

impl Nand {
    /// Programs one page on each of several planes of a die in the time of one (nand-N7).
    ///
    /// # Errors
    /// [`NandError::Rule`] if a rule is broken, and then nothing has happened;
    /// [`NandError::Failed`] names the first block that failed, and the other pages are programmed.
    pub fn program_planes(
        &mut self,
        now: Time,
        pages: Vec<(PageAddr, Page)>,
    ) -> Result<Span, NandError> {
        let all: Vec<PageAddr> = pages.iter().map(|(at, _)| *at).collect();
        for at in &all {
            if at.page != all[0].page {
                return broken(
                    "nand-N7: planes are programmed at the same page of their blocks",
                    *at,
                );
            }
        }
        self.check_planes(&all)?;
        for (at, page) in &pages {
            self.check_program(*at, page, 1)?;
        }
        self.program_together(now, pages)
    }
    /// Erases one block on each of several planes of a die in the time of one (nand-N7).
    ///
    /// # Errors
    /// [`NandError::Rule`] if a rule is broken, and then nothing has happened;
    /// [`NandError::Failed`] names the first block that is worn out, and the others are erased.
    pub fn erase_planes(&mut self, now: Time, blocks: &[BlockId]) -> Result<Span, NandError> {
        let all: Vec<PageAddr> = blocks
            .iter()
            .map(|block| PageAddr {
                block: *block,
                page: 0,
            })
            .collect();
        self.check_planes(&all)?;
        for block in blocks {
            self.check_erase(*block)?;
        }
        let (first, mut failed) = (blocks[0], None);
        let span = self.erase_span(now, first);
        for block in blocks {
            self.stats.erases += 1;
            failed = failed.or(self.wipe(*block, span).err());
        }
        self.occupy(first, span.end);
        match failed {
            Some(e) => Err(e),
            None => Ok(span),
        }
    }
    /// Programs the pages of a word line in one operation (nand-N6): `first` is the lowest of them.
    ///
    /// # Errors
    /// As [`Nand::program`]; also if these are not all pages of one word line.
    pub fn program_word_line(
        &mut self,
        now: Time,
        first: PageAddr,
        pages: Vec<Page>,
    ) -> Result<Span, NandError> {
        let at_once = self.at_once(first.block);
        if pages.len() as u32 != at_once || !first.page.is_multiple_of(at_once) {
            return broken("nand-N6: a word line is programmed whole", first);
        }
        for (page, i) in pages.iter().zip(0..) {
            if i == 0 || page.data_len() > 0 {
                self.check_program(first, page, at_once)?;
            }
        }
        let pages = pages.into_iter().zip(first.page..);
        let placed = pages.map(|(content, page)| (PageAddr { page, ..first }, content));
        self.program_together(now, placed.collect())
    }
    /// Checks that the blocks lie on different planes of one die.
    fn check_planes(&self, all: &[PageAddr]) -> Result<(), NandError> {
        let Some(first) = all.first() else {
            let block = BlockId(0);
            return broken(
                "nand-N7: an operation on no plane",
                PageAddr { block, page: 0 },
            );
        };
        let g = self.geometry();
        let mut planes = 0u32;
        for at in all {
            let plane = 1 << g.plane_of(at.block);
            if at.block.0 >= g.blocks() || g.die_of(at.block) != g.die_of(first.block) {
                return broken("nand-N7: planes of one die work together", *at);
            }
            if planes & plane != 0 {
                return broken("nand-N7: each plane takes one page or block at a time", *at);
            }
            planes |= plane;
        }
        Ok(())
    }
    /// Programs pages of one die in one array operation, after all of them have crossed the bus.
    fn program_together(
        &mut self,
        now: Time,
        pages: Vec<(PageAddr, Page)>,
    ) -> Result<Span, NandError> {
        let die = pages[0].0.block;
        let mut moved = now;
        for (_, page) in &pages {
            moved = self.move_in(moved, die, page);
        }
        let span = self.program_span(moved, die);
        let mut failed = None;
        for (at, page) in pages {
            self.stats.programs += 1;
            failed = failed.or(self.place(at, page, span).err());
        }
        self.occupy(die, span.end);
        match failed {
            Some(e) => Err(e),
            None => Ok(span),
        }
    }
}
