//! Finds and judges what the ring holds behind the epoch that the pack contains, by reading alone,
//! before anything is changed.
//!
//! - S1 every step goes forward, and no pass goes round the ring more than twice: a scan of a
//!   hostile ring ends;
//! - S2 a transaction counts if all of it is there, with this incarnation, and of the epoch that
//!   follows the one before. What lies behind these is looked at to tell a cut from damage (S6, or
//!   everywhere after a search), and never redone;
//! - S3 what the superblock of the journal says of the tail saves time, and decides nothing: a
//!   chain to which no sound transactions lead from there is looked for in the whole ring, unless
//!   the superblock says that the ring was left empty. If they do lead to a place and no
//!   transaction begins in it, there is no chain, because transactions lie one behind the other
//!   (f2fs-commit-K5): the neighbourhood of that place tells a cut from damage (S6);
//! - S4 the data of which the last whole transaction has checksums is compared, unless a sound
//!   block of a later epoch proves that the transaction was durable with its data (f2fs-commit-K4).
//!   If it differs, power was cut before the flush behind both, and the whole epoch is left out:
//!   never single files of it. Data of earlier transactions is not looked at, because pages may
//!   have been written in place there since (summed-Q1). Without data and with proof the medium is
//!   damaged, and the epoch counts;
//! - S5 a cut in a recovery changes nothing of that decision: the transaction stays in the ring
//!   until the pack that ends recovery is durable, and so do its blocks, which recovery holds
//!   whether it left the epoch out or not (recover-R2);
//! - S6 behind a chain that ends with E nothing later than E lies farther away than two of the
//!   largest transactions. The transaction of E + 1 begins where the chain ends, and the
//!   superblock says how many blocks a transaction has at most (supers-N3). That of E + 2 begins
//!   behind it, and is sent only when E + 1 is durable (f2fs-commit-K4). So what a cut has left, or
//!   damage of E + 1, is told by blocks that lie there. That of E + 3 is sent only when E + 2 is
//!   durable: only if the medium has lost every block of both is there something farther away, and
//!   it is not found. If the copy of the superblock that counts is damaged, the other one may name
//!   a smaller size, and then damage of E + 1 may be taken for a cut: a medium that fails twice.
//!   Where no size is said (`nobarrier`, an older Varve), a quarter of the ring is looked at, which
//!   epochs stay below (reserve-V2).

use super::cases::{Case, Chain, Content, Facts, Front, Supers, classify};
use super::records::{Check, Misfit};
use super::sums;
use crate::fault;
use crate::journal::Epoch;
use base::{BlockNo, BlockSize, Bytes, Mutant};
use block::Queue;
use fscore::FsResult;
use ondisk::f2fs::BlockAddr;
use ondisk::f2fs::journal::{
    Assembly, BlockHeader, BlockKind, Commit, Fault, FaultKind, HeaderFault, JournalSuper, Part,
    RingArea, Transaction,
};
use std::ops::Range;

/// Blocks read at once.
const WINDOW: u32 = 256;
/// Where no size of transactions is said: blocks behind the chain that are searched for a later
/// epoch, at least, and as a part of the ring (S6).
const BEYOND_MIN: u32 = 1024;
const BEYOND_PART: u32 = 4;

/// What is known before the ring is read.
pub(super) struct Known {
    pub ring: RingArea,
    pub supers: Supers,
    /// The one that counts.
    pub sb: Option<JournalSuper>,
    /// The applied epoch that the pack names; `None`: other software wrote the pack.
    pub applied: Option<Epoch>,
    pub barrier: bool,
}

/// The transactions to redo.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Ring index of the first one, and its epoch.
    pub at: u32,
    pub first: Epoch,
    /// Blocks of all.
    pub blocks: u32,
    /// What the last one says of the volume.
    pub commit: Commit,
}

/// The result.
pub(super) struct Scanned {
    pub case: &'static Case,
    pub facts: Facts,
    /// The pack has this one.
    pub applied: Epoch,
    /// The last one of the chain; the applied one if there is none.
    pub end: Epoch,
    pub run: Option<Run>,
    /// Ring index of what follows.
    pub head: u32,
    /// The highest epoch that was seen of this life.
    pub seen: Epoch,
    /// A block whose data did not survive.
    pub torn: Option<BlockAddr>,
    /// The chain did not begin where the superblock said.
    pub searched: bool,
    /// Blocks of the ring that were read.
    pub blocks_read: u64,
    /// Where, and what it looks like.
    pub place: String,
}

/// Reads the ring, a window at a time.
pub(super) struct Reader<'a> {
    queue: &'a Queue,
    ring: RingArea,
    window: Vec<Bytes>,
    from: u32,
    pub blocks_read: u64,
}

impl<'a> Reader<'a> {
    pub fn new(queue: &'a Queue, ring: RingArea) -> Reader<'a> {
        Reader {
            queue,
            ring,
            window: Vec::new(),
            from: 0,
            blocks_read: 0,
        }
    }

    /// The block of this ring index.
    pub fn block(&mut self, at: u32) -> FsResult<Bytes> {
        let inside = |from: u32, len: usize| (from..from + len as u32).contains(&at);
        if !inside(self.from, self.window.len()) {
            let count = WINDOW.min(self.ring.blocks - at);
            let lba = BlockNo(self.ring.block(at)).lba();
            let read = self
                .queue
                .read_blocks(lba, u64::from(count), BlockSize::KIB4);
            self.window = read.map_err(fault::device("reading the journal"))?;
            self.from = at;
            self.blocks_read += u64::from(count);
        }
        Ok(self.window[(at - self.from) as usize].clone())
    }

    /// The transaction of this epoch that begins at `at`, with its number of blocks.
    pub fn transaction(
        &mut self,
        at: u32,
        incarnation: u64,
        epoch: Epoch,
    ) -> FsResult<Result<(Transaction, u32), Fault>> {
        let head = self.block(at)?;
        let incarnation = match rt::mutant(Mutant::F2fsjStaleIncarnation) {
            // hazards-F55.
            true => BlockHeader::parse(&head).map_or(incarnation, |h| h.incarnation),
            false => incarnation,
        };
        let mut assembly = match Assembly::begin(&head, incarnation, epoch.0) {
            Ok(assembly) => assembly,
            Err(fault) => return Ok(Err(fault)),
        };
        let need = assembly.blocks();
        if need > u64::from(self.ring.blocks) {
            let (part, index) = (Part::Descriptor, 0);
            let kind = FaultKind::Field {
                field: "payload_blocks",
                value: need,
                reason: "is more than the ring has",
            };
            return Ok(Err(Fault { part, index, kind }));
        }
        // S1: memory for what is there, not for what is promised.
        for n in 1..need {
            let block = self.block(self.ring.step(at, n))?;
            if let Err(fault) = assembly.push(&block) {
                return Ok(Err(fault));
            }
        }
        Ok(assembly.finish().map(|t| (t, need as u32)))
    }
}

/// Scans the ring. `check` is given the records of every transaction of the chain.
///
/// # Errors
/// I/O. Whatever the ring holds is a case, not an error.
pub(super) fn scan(queue: &Queue, known: &Known, check: &mut Check<'_>) -> FsResult<Scanned> {
    let mut scan = Scan {
        known,
        reader: Reader::new(queue, known.ring),
        check,
        chain: Chain::Empty,
        front: Front::Unwritten,
        beyond: false,
        proved: false,
        content: Content::Whole,
        torn: None,
        before: None,
        run: None,
        head: 0,
        end: known.applied.unwrap_or_default(),
        seen: Epoch(0),
        searched: false,
        place: String::new(),
    };
    let sb = known.sb.filter(|_| known.supers == Supers::Fit);
    if let Some(sb) = sb {
        scan.head = sb.tail;
        match known.applied {
            Some(applied) => scan.follow(&sb, applied)?,
            None => scan.count(&sb)?,
        }
    }
    Ok(scan.finish(sb))
}

struct Scan<'a, 'b> {
    known: &'a Known,
    reader: Reader<'a>,
    check: &'a mut Check<'b>,
    chain: Chain,
    front: Front,
    beyond: bool,
    /// Something of an epoch behind the chain is there (S4).
    proved: bool,
    content: Content,
    torn: Option<BlockAddr>,
    /// The chain without its last transaction.
    before: Option<Run>,
    run: Option<Run>,
    head: u32,
    end: Epoch,
    seen: Epoch,
    searched: bool,
    place: String,
}

impl Scan<'_, '_> {
    fn finish(self, sb: Option<JournalSuper>) -> Scanned {
        let known = self.known;
        let facts = Facts {
            supers: known.supers,
            stamped: known.applied.is_some(),
            idle: sb.is_some_and(|sb| sb.clean),
            chain: self.chain,
            front: self.front,
            beyond: self.beyond,
            content: self.content,
            barrier: known.barrier,
        };
        let applied = known.applied.unwrap_or_default();
        let last = sb.map_or(0, |sb| (sb.tail_epoch - 1).max(sb.head_epoch));
        let seen = self.seen.max(self.end).max(Epoch(last));
        let ring = known.ring;
        let around = match known.applied {
            Some(_) => format!("epochs {} to {} are whole", applied.0 + 1, self.end.0),
            None => format!("epochs up to {} were in it", seen.0),
        };
        let around = match self.end == applied && known.applied.is_some() {
            true => format!("the pack has epoch {}", applied.0),
            false => around,
        };
        let detail = match self.place.is_empty() {
            true => String::new(),
            false => format!("; {}", self.place),
        };
        Scanned {
            case: classify(&facts),
            facts,
            applied,
            end: self.end,
            run: self.run,
            head: self.head,
            seen,
            torn: self.torn,
            searched: self.searched,
            blocks_read: self.reader.blocks_read,
            place: format!(
                "ring of {} blocks from block {} on; {around}{detail}",
                ring.blocks, ring.first
            ),
        }
    }

    /// From the epoch behind the applied one on.
    fn follow(&mut self, sb: &JournalSuper, applied: Epoch) -> FsResult<()> {
        let next = Epoch(applied.0 + 1);
        let hint = self.walk(sb, next)?;
        let mut start = match hint {
            Some(at) => self.begins(at, sb, next)?.then_some(at),
            None => None,
        };
        let known = hint.is_some() && sb.transaction_max > 0;
        if start.is_none() && !sb.clean && !known {
            self.searched = true;
            start = self.search(sb, next)?;
        }
        if let Some(at) = start.or(hint) {
            self.head = at;
            self.collect(sb, at, next)?;
        }
        // What refuses the ring anyway needs no more evidence.
        let judged = self.front == Front::Impossible
            || matches!(self.chain, Chain::Damaged | Chain::Unsupported);
        if judged {
            return Ok(());
        }
        if !sb.clean {
            self.look_beyond(sb)?;
        }
        self.compare_data()
    }

    /// S4.
    fn compare_data(&mut self) -> FsResult<()> {
        let Some(block) = sums::differs(self.reader.queue, &self.check.sums)? else {
            return Ok(());
        };
        if rt::mutant(Mutant::F2fsjSumUnread) {
            // hazards-F57.
            return Ok(());
        }
        let found = format!(
            "epoch {} maps block {block}, whose data is not what was written",
            self.end.0
        );
        self.place = match self.place.is_empty() {
            true => found,
            false => format!("{found}; {}", self.place),
        };
        self.content = match self.proved {
            true => Content::Altered,
            false => Content::Torn,
        };
        if self.content == Content::Torn {
            self.torn = Some(block);
            self.leave_out_last();
        }
        Ok(())
    }

    fn leave_out_last(&mut self) {
        if rt::mutant(Mutant::F2fsjFileLeftOut) {
            // hazards-F59: the redo leaves out a file.
            self.content = Content::Whole;
            return;
        }
        let ring = self.known.ring;
        let blocks = |run: &Option<Run>| run.as_ref().map_or(0, |run| run.blocks);
        let last = blocks(&self.run) - blocks(&self.before);
        self.head = ring.step(self.head, u64::from(ring.blocks - last));
        self.end.0 -= 1;
        self.run = self.before.take();
        if self.run.is_none() {
            self.chain = Chain::Empty;
        }
    }

    /// Where the superblock says that this epoch begins, over transactions that are applied
    /// already.
    fn walk(&mut self, sb: &JournalSuper, to: Epoch) -> FsResult<Option<u32>> {
        let ring = self.known.ring;
        let (mut at, mut epoch, mut passed) = (sb.tail, Epoch(sb.tail_epoch), 0);
        if epoch > to {
            return Ok(None);
        }
        while epoch < to {
            let block = self.reader.block(at)?;
            // S1.
            let Ok(blocks) = Transaction::peek(&block, sb.incarnation, epoch.0) else {
                return Ok(None);
            };
            passed += blocks;
            if passed > u64::from(ring.blocks) {
                return Ok(None);
            }
            at = ring.step(at, blocks);
            epoch.0 += 1;
        }
        Ok(Some(at))
    }

    fn begins(&mut self, at: u32, sb: &JournalSuper, epoch: Epoch) -> FsResult<bool> {
        let block = self.reader.block(at)?;
        let begins = Transaction::peek(&block, sb.incarnation, epoch.0).is_ok();
        Ok(begins || rt::mutant(Mutant::F2fsjStaleIncarnation))
    }

    /// The block of the ring with which this epoch begins (S3). Notes what else there is.
    fn search(&mut self, sb: &JournalSuper, epoch: Epoch) -> FsResult<Option<u32>> {
        let mut found = None;
        for at in 0..self.known.ring.blocks {
            let Some(head) = self.ours(at, sb)? else {
                continue;
            };
            let first = matches!(head.kind, BlockKind::Descriptor | BlockKind::Compact);
            if head.epoch == epoch.0 && head.index == 0 && first {
                found = found.or(Some(at));
            }
        }
        Ok(found)
    }

    /// The header of a sound block of this life.
    fn ours(&mut self, at: u32, sb: &JournalSuper) -> FsResult<Option<BlockHeader>> {
        let block = self.reader.block(at)?;
        let head = BlockHeader::parse(&block).ok();
        let head = head.filter(|head| head.incarnation == sb.incarnation);
        if let Some(head) = &head {
            self.seen = self.seen.max(Epoch(head.epoch));
        }
        Ok(head)
    }

    /// The chain from `at` on, and what ends it.
    fn collect(&mut self, sb: &JournalSuper, first: u32, from: Epoch) -> FsResult<()> {
        let ring = self.known.ring;
        let mut epoch = from;
        loop {
            let used = self.run.as_ref().map_or(0, |run| run.blocks);
            if used == ring.blocks {
                // S1: it fills the ring.
                return Ok(());
            }
            // S2.
            let read = self.reader.transaction(self.head, sb.incarnation, epoch)?;
            let (transaction, blocks) = match read {
                Ok((_, blocks)) if used + blocks > ring.blocks => {
                    self.place = format!("epoch {} lies over the first one", epoch.0);
                    self.front = Front::Impossible;
                    return Ok(());
                }
                Ok(read) => read,
                Err(fault) => {
                    self.ended(epoch, &fault);
                    return Ok(());
                }
            };
            if let Err(misfit) = self.check.transaction(&transaction.payload)? {
                self.misfits(epoch, misfit);
                return Ok(());
            }
            let again = rt::mutant(Mutant::F2fsjSumOfAll);
            if again && sums::differs(self.reader.queue, &self.check.sums)?.is_some() {
                // hazards-F60.
                return Ok(());
            }
            self.chain = Chain::Sound;
            self.before = self.run.clone();
            let run = self.run.get_or_insert(Run {
                at: first,
                first: from,
                blocks: 0,
                commit: transaction.commit,
            });
            run.blocks += blocks;
            run.commit = transaction.commit;
            self.end = epoch;
            self.head = ring.step(self.head, blocks.into());
            epoch.0 += 1;
        }
    }

    fn misfits(&mut self, epoch: Epoch, misfit: Misfit) {
        self.chain = match misfit.unsupported {
            true => Chain::Unsupported,
            false => Chain::Damaged,
        };
        let at = self.known.ring.block(self.head);
        self.place = format!("epoch {} at block {at}, {}", epoch.0, misfit.what);
    }

    /// What ends the chain.
    fn ended(&mut self, epoch: Epoch, fault: &Fault) {
        let at = self.known.ring.block(self.head);
        self.front = front_of(fault);
        if !matches!(self.front, Front::Unwritten) {
            self.place = format!("epoch {} at block {at}: {fault}", epoch.0);
        }
    }

    /// Whether something later is in the ring.
    fn look_beyond(&mut self, sb: &JournalSuper) -> FsResult<()> {
        let ring = self.known.ring;
        let used = self.run.as_ref().map_or(0, |run| run.blocks);
        // S6.
        let near = match sb.transaction_max {
            0 => (ring.blocks / BEYOND_PART).max(BEYOND_MIN),
            most => most.saturating_mul(2),
        };
        // What was searched in vain was searched everywhere.
        let range: Range<u32> = match self.searched {
            true => 0..ring.blocks - used,
            false => 0..near.min(ring.blocks - used),
        };
        let next = self.end.0 + 1;
        for n in range {
            let at = ring.step(self.head, n.into());
            let Some(head) = self.ours(at, sb)? else {
                continue;
            };
            let block = ring.block(at);
            self.proved |= head.epoch >= next;
            if head.epoch > next {
                self.beyond = true;
                let found = format!("block {block} is of epoch {}", head.epoch);
                self.place = match self.place.is_empty() {
                    true => found,
                    false => format!("{}; {found}", self.place),
                };
                return Ok(());
            }
            if head.epoch == next && matches!(self.front, Front::Unwritten | Front::Stale) {
                self.front = Front::TornDescriptor;
                self.place =
                    format!("block {block} is of epoch {next}, whose first block is not there");
            }
        }
        Ok(())
    }

    /// Other software wrote the pack: counts which epochs are lost.
    fn count(&mut self, sb: &JournalSuper) -> FsResult<()> {
        if !sb.clean {
            for at in 0..self.known.ring.blocks {
                self.ours(at, sb)?;
            }
        }
        Ok(())
    }
}

/// What a fault says of the place where a transaction should begin.
fn front_of(fault: &Fault) -> Front {
    match (fault.part, &fault.kind) {
        (Part::Descriptor, FaultKind::Header(HeaderFault::Magic(_))) => Front::Unwritten,
        (Part::Descriptor, FaultKind::Epoch(_)) => Front::Unwritten,
        (Part::Descriptor, FaultKind::Incarnation(_)) => Front::Stale,
        _ if fault.is_impossible() => Front::Impossible,
        (Part::Descriptor, _) => Front::TornDescriptor,
        (Part::Records, _) => Front::TornRecords,
        (Part::Commit, _) => Front::TornCommit,
    }
}
