//! Redo of a journal for segments: what its records say of blocks.
//!
//! Before anything is allocated, every block that the records call valid is held. The logs then
//! continue where the last record about them says, and the records are redone; redoing them again
//! changes nothing.
//!
//! No block is taken from its owner here: what was valid at the checkpoint stays held until the
//! next one is durable, which ends the recovery or comes later (table-V1, resume-G1).

use super::table::State;
use super::{Head, Segments, kind_of};
use crate::ops::Freeze;
use fscore::{FsError, FsResult};
use ondisk::f2fs::{
    AllocType, BLOCKS_PER_SEG, BlockAddr, Log, SegNo, Summary, SummaryBlock, SummaryKind,
};

impl Segments {
    /// Holds the block: it is not given out before the next checkpoint. Logs do not
    /// step over it: [`redo_heads`](Self::redo_heads) follows.
    ///
    /// # Errors
    /// Damage: not in the main area.
    pub fn redo_hold(&self, _: &Freeze<'_>, addr: BlockAddr) -> FsResult<()> {
        self.segno(addr)?;
        self.inner.lock().table.hold(addr);
        Ok(())
    }

    /// The logs go on at `heads` (in the order of [`Log::ALL`]; `None`: where they stand), and step
    /// over what is held.
    ///
    /// # Errors
    /// Two logs in a segment, or one in a segment of the other kind; I/O of a summary; ENOSPC.
    pub fn redo_heads(&self, _: &Freeze<'_>, heads: &[Option<Head>; 6]) -> FsResult<()> {
        let inner = &mut *self.inner.lock();
        let moved = |n: &usize| heads[*n].is_some_and(|to| to.seg != inner.logs[*n].segno);
        let moved: Vec<usize> = (0..inner.logs.len()).filter(moved).collect();
        for &n in &moved {
            let open = &inner.logs[n];
            inner.table.close(open.segno);
            inner.closed.insert(open.segno, open.owners.clone());
        }
        for &n in &moved {
            let (log, to) = (Log::ALL[n], heads[n].expect("it has moved"));
            let segno = to.seg;
            let bad = |what: &str| {
                Err(FsError::corrupt(format!(
                    "the {log} log in segment {segno}: {what}"
                )))
            };
            if segno.0 >= self.geo.segments_main {
                return bad("there is no such segment");
            }
            if inner.table.state(segno) == State::Open {
                return bad("another log has it");
            }
            let used = inner.table.valid_in(segno) > 0;
            if used && inner.table.kind(segno).is_node() != log.is_node() {
                return bad("it is of the other kind");
            }
            let owners = match (inner.closed.remove(&segno), used) {
                (Some(owners), _) => owners,
                (None, true) => self.summary_on_device(segno)?,
                (None, false) => SummaryBlock::blank(kind_of(log)),
            };
            inner.table.open(segno, log);
            let open = &mut inner.logs[n];
            (open.segno, open.owners) = (segno, owners);
        }
        for (n, head) in heads.iter().enumerate() {
            if let Some(head) = head {
                let open = &mut inner.logs[n];
                (open.next, open.alloc) = (head.next.min(BLOCKS_PER_SEG as u16 - 1), head.alloc);
            }
        }
        for log in Log::ALL {
            self.redo_step(inner, log)?;
        }
        Ok(())
    }

    /// The log stands at a block that it may take, and knows whether all behind it are free.
    fn redo_step(&self, inner: &mut super::Inner, log: Log) -> FsResult<()> {
        let open = &mut inner.logs[log.index()];
        match inner.table.next_usable(open.segno, open.next.into()) {
            Some(next) => {
                open.next = next as u16;
                let behind = inner.table.held_map(open.segno).next_set(next);
                if behind.is_some() {
                    open.alloc = AllocType::Ssr;
                }
                Ok(())
            }
            None => {
                let (to, owners) = self.next_segment(inner, log)?;
                inner.switch(log, to, owners);
                Ok(())
            }
        }
    }

    /// A data block is valid, or not any more, as a record says; true if it was otherwise.
    ///
    /// # Errors
    /// Damage: not in the main area, or among nodes.
    pub fn redo_block(
        &self,
        _: &Freeze<'_>,
        addr: BlockAddr,
        valid: bool,
        log: Log,
    ) -> FsResult<bool> {
        let segno = self.segno(addr)?;
        let now = self.clock.now();
        let inner = &mut *self.inner.lock();
        let occupied = matches!(inner.table.state(segno), State::Used | State::Open);
        if occupied && inner.table.kind(segno).is_node() {
            return Err(FsError::corrupt(format!(
                "block {addr} lies among nodes, and the journal has data there"
            )));
        }
        self.redo_summary(inner, segno, occupied)?;
        Ok(inner.table.redo(addr, valid, log, now))
    }

    /// The owner of a data block.
    ///
    /// # Errors
    /// I/O of the summary of its segment; damage: not in the main area.
    pub fn redo_owner(&self, _: &Freeze<'_>, addr: BlockAddr, owner: Summary) -> FsResult<()> {
        let segno = self.segno(addr)?;
        let inner = &mut *self.inner.lock();
        let occupied = matches!(inner.table.state(segno), State::Used | State::Open);
        self.redo_summary(inner, segno, occupied)?;
        let offset = self.geo.offset_in_seg(addr);
        let open = inner.log_in(segno).map(|log| &mut inner.logs[log].owners);
        let owners = open.or_else(|| inner.closed.get_mut(&segno));
        owners.expect("made sure of above").set_entry(offset, owner);
        Ok(())
    }

    /// The summary of a segment that no log has is in memory, to be written by the checkpoint that
    /// ends recovery.
    fn redo_summary(&self, inner: &mut super::Inner, segno: SegNo, occupied: bool) -> FsResult<()> {
        if inner.log_in(segno).is_some() || inner.closed.contains_key(&segno) {
            return Ok(());
        }
        let summary = match occupied {
            true => self.summary_on_device(segno)?,
            false => SummaryBlock::blank(SummaryKind::Data),
        };
        inner.closed.insert(segno, summary);
        Ok(())
    }
}
