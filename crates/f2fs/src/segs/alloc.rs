//! Allocates and frees blocks. What operations may call takes their [`Op`]; the functions of
//! [`Segments`] with the same names do not, for apply and the table of nodes, which change
//! addresses without an operation.

use super::table::State;
use super::{Inner, Placed, Segments, kind_of};
use crate::F2fs;
use crate::locks::lock;
use crate::ops::Op;
use base::cost::f2fs as cost;
use fscore::{Errno, FsError, FsResult};
use ondisk::f2fs::{AllocType, BlockAddr, Log, SegNo, Summary, SummaryBlock, SummaryKind};

impl F2fs {
    /// Takes the next block of `log` for what `owner` says, and invalidates `old` if that is a
    /// block (f2fs-space-S1: `space` is not touched).
    ///
    /// # Errors
    /// ENOSPC only if not even the reserved segments are left; I/O; damage: `old` is not valid.
    /// Then nothing has changed.
    pub(crate) fn allocate(
        &self,
        _op: &Op<'_>,
        log: Log,
        old: BlockAddr,
        owner: Summary,
    ) -> FsResult<Placed> {
        self.segs.allocate(log, old, owner)
    }

    /// A block is not valid any more. Not reused before the next checkpoint.
    ///
    /// # Errors
    /// Damage: it was not valid.
    pub(crate) fn invalidate(&self, _op: &Op<'_>, addr: BlockAddr) -> FsResult<()> {
        self.segs.invalidate(addr)
    }

    /// Roll-forward: a block that the last checkpoint did not know becomes valid and belongs to
    /// `owner`; `old` becomes invalid.
    ///
    /// # Errors
    /// I/O of the summary of its segment; damage: the block already has an owner, `old` had none,
    /// the segment is of the other kind.
    pub(crate) fn adopt(
        &self,
        _op: &Op<'_>,
        addr: BlockAddr,
        old: BlockAddr,
        owner: Summary,
    ) -> FsResult<()> {
        self.segs.adopt(addr, old, owner)
    }

    /// Roll-forward: the block is part of the chain that is being read, and must keep its content
    /// until the checkpoint that ends recovery. Otherwise a cut in the middle of that would find
    /// half a chain.
    ///
    /// # Errors
    /// Damage: not in the main area; ENOSPC: the log that stands there has no other place.
    pub(crate) fn hold(&self, _op: &Op<'_>, addr: BlockAddr) -> FsResult<()> {
        self.segs.hold(addr)
    }
}

impl Segments {
    /// As [`F2fs::allocate`].
    pub(crate) fn allocate(&self, log: Log, old: BlockAddr, owner: Summary) -> FsResult<Placed> {
        if old.is_data() {
            self.segno(old)?;
        }
        let now = self.clock.now();
        let inner = &mut *lock(&self.inner);
        if old.is_data() && !inner.table.is_valid(old) {
            return Err(not_valid(old));
        }
        rt::charge(cost::SEG_TAKE);
        rt::charge_each(cost::SEG_FREE, old.is_data().into());
        let open = &inner.logs[log.index()];
        let (segno, at) = (open.segno, u32::from(open.next));
        let following = inner.table.next_usable(segno, at + 1);
        // segs-V5: the place behind it is found before this one is handed out.
        let replacement = match following {
            Some(_) => None,
            None => Some(self.next_segment(inner, log)?),
        };
        let addr = inner.table.addr(segno, at);
        inner.table.take(addr, now);
        let open = &mut inner.logs[log.index()];
        open.owners.set_entry(at, owner);
        match (following, replacement) {
            (Some(next), _) => open.next = next as u16,
            (None, Some((to, owners))) => inner.switch(log, to, owners),
            (None, None) => unreachable!("segs-V5: found above"),
        }
        if old.is_data() {
            inner.table.release(old)?;
        }
        let next = inner.next_of(log);
        Ok(Placed { addr, next })
    }

    /// What a log whose segment is full goes on with.
    pub(super) fn next_segment(
        &self,
        inner: &mut Inner,
        log: Log,
    ) -> FsResult<((SegNo, AllocType), SummaryBlock)> {
        let chosen = inner.choose(log, self.lfs, self.low());
        let (segno, alloc) = chosen.ok_or(FsError::Posix(Errno::NoSpc))?;
        let owners = match alloc {
            AllocType::Lfs => SummaryBlock::blank(kind_of(log)),
            AllocType::Ssr => self.summary_in(inner, segno)?,
        };
        Ok(((segno, alloc), owners))
    }

    /// As [`F2fs::invalidate`].
    pub(crate) fn invalidate(&self, addr: BlockAddr) -> FsResult<()> {
        self.segno(addr)?;
        let mut inner = lock(&self.inner);
        rt::charge(cost::SEG_FREE);
        inner.table.release(addr)
    }

    /// Whether the block is valid now.
    ///
    /// # Errors
    /// Damage: not in the main area.
    pub(crate) fn is_valid(&self, addr: BlockAddr) -> FsResult<bool> {
        self.segno(addr)?;
        Ok(self.inner.lock().table.is_valid(addr))
    }

    pub(super) fn adopt(&self, addr: BlockAddr, old: BlockAddr, owner: Summary) -> FsResult<()> {
        let segno = self.segno(addr)?;
        let offset = self.geo.offset_in_seg(addr);
        if old.is_data() {
            self.segno(old)?;
        }
        let now = self.clock.now();
        let inner = &mut *self.inner.lock();
        if old.is_data() && !inner.table.is_valid(old) {
            return Err(not_valid(old));
        }
        let occupied = matches!(inner.table.state(segno), State::Used | State::Open);
        if occupied && inner.table.kind(segno).is_node() {
            return Err(FsError::corrupt(format!(
                "block {addr} lies among nodes, and roll-forward finds data there"
            )));
        }
        if inner.log_in(segno).is_none() && !inner.closed.contains_key(&segno) {
            let summary = match occupied {
                true => self.summary_in(inner, segno)?,
                false => SummaryBlock::blank(SummaryKind::Data),
            };
            inner.closed.insert(segno, summary);
        }
        inner.table.adopt(addr, Log::WarmData, now)?;
        let open = inner.log_in(segno).map(|log| &mut inner.logs[log].owners);
        let owners = open.or_else(|| inner.closed.get_mut(&segno));
        owners.expect("entered above").set_entry(offset, owner);
        if old.is_data() {
            inner.table.release(old)?;
        }
        self.step_over(inner, segno, offset)
    }

    pub(super) fn hold(&self, addr: BlockAddr) -> FsResult<()> {
        let segno = self.segno(addr)?;
        let inner = &mut *self.inner.lock();
        inner.table.hold(addr);
        self.step_over(inner, segno, self.geo.offset_in_seg(addr))
    }

    /// A block is taken although no log handed it out: the log that writes its segment leaves it
    /// out.
    fn step_over(&self, inner: &mut Inner, segno: SegNo, offset: u32) -> FsResult<()> {
        let Some(open) = inner.logs.iter_mut().find(|log| log.segno == segno) else {
            return Ok(());
        };
        if offset < u32::from(open.next) {
            return Ok(());
        }
        if offset > u32::from(open.next) {
            open.alloc = AllocType::Ssr;
            return Ok(());
        }
        match inner.table.next_usable(segno, offset + 1) {
            Some(next) => open.next = next as u16,
            None => {
                let log = open.log;
                let (to, owners) = self.next_segment(inner, log)?;
                inner.switch(log, to, owners);
            }
        }
        Ok(())
    }

    /// The owner of a block, from the summary of its segment.
    ///
    /// # Errors
    /// I/O; damage: not in the main area.
    pub(crate) fn owner_of(&self, addr: BlockAddr) -> FsResult<Summary> {
        let segno = self.segno(addr)?;
        let inner = &mut *self.inner.lock();
        let summary = self.summary_in(inner, segno)?;
        Ok(summary.entry(self.geo.offset_in_seg(addr)))
    }

    pub(super) fn segno(&self, addr: BlockAddr) -> FsResult<SegNo> {
        self.geo
            .segno(addr)
            .ok_or_else(|| FsError::corrupt(format!("block {addr} is not in the main area")))
    }
}

fn not_valid(addr: BlockAddr) -> FsError {
    FsError::corrupt(format!("block {addr} is freed, and it is not in use"))
}
