//! Streams: units that are expected to be overwritten at about the same time go into the same open
//! blocks.
//!
//! | stream | what | becomes invalid |
//! |---|---|---|
//! | host | what the host writes | as the host pleases |
//! | cold | what collection and static levelling copy: it has outlived its neighbours | late |
//! | fold | what leaves the SLC area | as the host pleases |
//! | journal | control blocks of a JBD2 journal: descriptor, commit, revoke, superblock | when the journal wraps |
//!
//! The journal stream is optional ([`crate::Housekeeping::journal_stream`]). With REMAP the data
//! blocks of a journal become home blocks and live long, while its control blocks become invalid
//! when the journal wraps; mixed, they would leave holes in every block. A control block is
//! recognised by its first word. Other content may begin with that word, too, which does no harm:
//! the stream decides only where a unit is placed.

use super::{Ftl, FtlError};
use crate::Config;
use crate::blocks::{ORDINARY, SLC};
use crate::config::NONE;
use base::{Bytes, Mutant, Time, fill};
use nand::Cause;

/// Stream of host writes.
pub(crate) const HOST: usize = 0;
/// Stream of garbage collection: cold data.
pub(crate) const GC: usize = 1;
/// Stream of units that leave the SLC area.
pub(crate) const FOLD: usize = 2;
/// Stream of a journal's control blocks.
pub(crate) const JOURNAL: usize = 3;
/// Number of streams.
pub(crate) const STREAMS: usize = 4;

/// How a JBD2 control block begins (`h_magic`, big-endian; kernel documentation, "Journal (jbd2)",
/// block header).
const JBD2_MAGIC: [u8; 4] = [0xC0, 0x3B, 0x39, 0x98];

/// The cause that the programs of each stream are counted for.
pub(crate) const CAUSES: [Cause; STREAMS] =
    [Cause::Host, Cause::Collection, Cause::Fold, Cause::Control];

/// A unit in a row buffer.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Unit number; `NONE`: the unit was dropped meanwhile.
    pub lpn: u32,
    pub data: Bytes,
    pub lost: bool,
    /// Version of a copied unit; `None`: a host write, which takes its version when it is
    /// programmed.
    pub birth: Option<u64>,
    /// Number of the operation that brought the unit; 0: not given yet. A unit that is put again
    /// after a failed program keeps the number.
    pub accept: u64,
    /// True if the host wrote the unit: a flush waits for it, in whichever row it is.
    pub host: bool,
    /// Ordered group of the unit, and its place there.
    pub member: Option<(u32, u16)>,
}

impl Entry {
    /// A unit that the host writes.
    pub fn host(lpn: u32, data: Bytes) -> Entry {
        Entry {
            lpn,
            data,
            lost: false,
            birth: None,
            accept: 0,
            host: true,
            member: None,
        }
    }
}

/// A row being filled.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub block: u32,
    pub row: u32,
    pub entries: Vec<Entry>,
    /// When the last unit copied into the row has been read.
    pub ready: Time,
}

impl Row {
    /// An empty row with room for `slots` units.
    pub fn new(block: u32, row: u32, slots: u32) -> Row {
        Row {
            block,
            row,
            entries: Vec::with_capacity(slots as usize),
            ready: Time(0),
        }
    }
    /// True if the host wrote a unit of the row, so that a flush waits for it.
    pub fn is_host(&self) -> bool {
        self.entries.iter().any(|e| e.host)
    }
}

/// Where units of one kind are appended.
#[derive(Clone, Debug)]
struct Stream {
    lanes: Vec<Option<u32>>,
    turn: usize,
    row: Option<Row>,
}

/// The streams with their open blocks, and every row whose units are in memory only.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    all: [Stream; STREAMS],
    /// Rows whose program failed and whose units are not in another row yet.
    failed: Vec<Row>,
    /// True while a block is being opened for the cold stream: nothing can be put there now.
    opening_cold: bool,
}

/// Open blocks that each stream may have.
pub(crate) fn lanes(config: &Config) -> [usize; STREAMS] {
    let lanes = config.lanes as usize;
    let fold = config.slc.map_or(0, |_| lanes);
    let journal = usize::from(config.housekeeping.journal_stream);
    [lanes, 1, fold, journal]
}

/// The pool that a stream takes its blocks from (slc-I12).
pub(crate) fn pool_for(config: &Config, stream: usize) -> usize {
    match stream {
        HOST if config.slc.is_some() => SLC,
        _ => ORDINARY,
    }
}

impl Streams {
    /// Streams without open blocks.
    pub fn new(config: &Config) -> Streams {
        Streams {
            all: lanes(config).map(|lanes| Stream {
                lanes: vec![None; lanes],
                turn: 0,
                row: None,
            }),
            failed: Vec::new(),
            opening_cold: false,
        }
    }
    /// Open blocks that all streams together may have.
    pub fn lanes(&self) -> usize {
        self.all.iter().map(|s| s.lanes.len()).sum()
    }
    /// The open blocks, each with its stream.
    pub fn blocks(&self) -> impl Iterator<Item = (usize, u32)> {
        let all = self.all.iter().enumerate();
        all.flat_map(|(i, s)| s.lanes.iter().flatten().map(move |b| (i, *b)))
    }
    /// The stream that a block is open for.
    pub fn of_block(&self, block: u32) -> Option<usize> {
        self.blocks().find(|(_, b)| *b == block).map(|(i, _)| i)
    }
    /// The row that a stream is filling.
    pub fn row(&self, stream: usize) -> Option<&Row> {
        self.all[stream].row.as_ref()
    }
    /// True if the row that a stream is filling lies in this block and holds units.
    pub fn filling(&self, stream: usize, block: u32) -> bool {
        let row = self.row(stream);
        row.is_some_and(|r| r.block == block && !r.entries.is_empty())
    }
    /// Rows whose units are in memory only.
    pub fn pending(&self) -> impl Iterator<Item = &Row> {
        let open = self.all.iter().filter_map(|s| s.row.as_ref());
        open.chain(&self.failed)
    }
    /// The row at this place, if its units are in memory only.
    pub fn pending_row(&self, block: u32, row: u32) -> Option<&Row> {
        self.pending().find(|r| r.block == block && r.row == row)
    }
    /// As [`Streams::pending_row`], for changing its units.
    fn pending_row_mut(&mut self, block: u32, row: u32) -> Option<&mut Row> {
        let open = self.all.iter_mut().filter_map(|s| s.row.as_mut());
        open.chain(&mut self.failed)
            .find(|r| r.block == block && r.row == row)
    }
    /// The first row whose program failed.
    pub fn failed(&self) -> Option<&Row> {
        self.failed.first()
    }
    /// True while a block is being opened for the cold stream: nothing can be put there now.
    pub fn is_opening_cold(&self) -> bool {
        self.opening_cold
    }

    /// Takes the row that a stream has filled, in part at least.
    pub fn take_row(&mut self, stream: usize) -> Option<Row> {
        self.all[stream].row.take_if(|row| !row.entries.is_empty())
    }
    /// Drops the row that a stream is filling if it lies in this block and holds nothing; true if
    /// so.
    pub fn drop_empty_row(&mut self, stream: usize, block: u32) -> bool {
        let empty = |row: &mut Row| row.block == block && row.entries.is_empty();
        self.all[stream].row.take_if(empty).is_some()
    }
    /// Lets the row that a stream is filling be programmed not before `time`.
    pub fn delay(&mut self, stream: usize, time: Time) {
        if let Some(row) = &mut self.all[stream].row {
            row.ready = row.ready.max(time);
        }
    }
    /// Takes a block off its lane, so that nothing more is appended to it.
    pub fn leave_lane(&mut self, stream: usize, block: u32) {
        for lane in &mut self.all[stream].lanes {
            if *lane == Some(block) {
                *lane = None;
            }
        }
    }
    /// Keeps a row whose program failed.
    pub fn set_aside(&mut self, row: Row) {
        self.failed.push(row);
    }
    /// Drops the first row whose program failed, because its units are in other rows.
    pub fn rescued(&mut self) {
        self.failed.remove(0);
    }
    /// Notes that every read is over and the clock is at 0.
    pub fn settle(&mut self) {
        let rows = self.all.iter_mut().filter_map(|s| s.row.as_mut());
        rows.for_each(|row| row.ready = Time(0));
    }
}

impl Ftl {
    /// The stream of a unit that the host writes.
    pub(crate) fn stream_for(&mut self, data: &[u8]) -> usize {
        if self.config.housekeeping.journal_stream && data[..4] == JBD2_MAGIC {
            self.stats.journal_unit();
            JOURNAL
        } else {
            HOST
        }
    }
    /// True if a unit of this content is mapped as zeros instead of being programmed. In an ordered
    /// group it is programmed, because units behind it may be on flash before a record in the log
    /// is.
    pub(crate) fn needs_no_program(&self, data: &[u8]) -> bool {
        self.config.housekeeping.zero_units
            && !self.group.is_open()
            && fill::uniform(data) == Some(0)
    }
    /// The cause that programming the current row of a stream is counted for.
    pub(crate) fn cause(&self, stream: usize) -> Cause {
        match stream {
            GC if self.blocks.is_levelling() => Cause::Wear,
            _ => CAUSES[stream],
        }
    }
    /// Appends a unit to a stream. The map points to the new place at once.
    pub(crate) fn put(
        &mut self,
        now: Time,
        stream: usize,
        mut entry: Entry,
    ) -> Result<Option<Time>, FtlError> {
        if self.streams.row(stream).is_none() {
            self.open_row(now, stream)?;
        }
        let accept = self.numbers.accept();
        if entry.accept == 0 {
            entry.accept = accept;
        }
        let lpn = entry.lpn;
        let by_host = matches!(stream, HOST | JOURNAL);
        // A copy that a batch makes is in no group: the group before the batch has ended, and the
        // batch's record says when the copy counts.
        if by_host && lpn < self.layout.units {
            entry.member = self.group.join(lpn);
        }
        if entry.member.is_some() {
            self.streams
                .delay(stream, self.group.after_previous(Time(0)));
        }
        let row = self.streams.all[stream].row.as_mut().expect("opened above");
        let ppn = self
            .layout
            .ppn(row.block, row.row, row.entries.len() as u32);
        row.entries.push(entry);
        let full = row.entries.len() as u32 == self.layout.slots_per_row;
        self.blocks.gain(row.block);
        self.map.own(ppn, lpn);
        let others = match self.map.slot_of(lpn) {
            Some(old) if by_host => self.other_owners(old, lpn),
            _ => Vec::new(),
        };
        let waited = self.leave(lpn);
        if let Some(accept) = waited
            && let Some(entry) = self.buffered_mut(ppn)
        {
            entry.accept = entry.accept.min(accept);
        }
        self.map.point(lpn, ppn);
        // hazards-R20
        if !others.is_empty() && self.mutant(Mutant::WriteThroughAlias) {
            for owner in others {
                self.leave(owner.lpn);
                self.share(ppn, owner);
            }
        }
        if full {
            self.issue(now, stream)
        } else {
            Ok(None)
        }
    }
    fn open_row(&mut self, now: Time, stream: usize) -> Result<(), FtlError> {
        let lane = self.streams.all[stream].turn;
        let block = match self.streams.all[stream].lanes[lane] {
            Some(block) => block,
            None => {
                self.streams.opening_cold = stream == GC;
                let opened = self.open_block(now, stream, lane);
                self.streams.opening_cold = false;
                opened?
            }
        };
        let (row, slots) = (self.blocks.get(block).filled, self.layout.slots_per_row);
        let s = &mut self.streams.all[stream];
        s.lanes[lane] = Some(block);
        s.turn = (lane + 1) % s.lanes.len();
        s.row = Some(Row::new(block, row, slots));
        Ok(())
    }
    /// The row buffer's unit at a slot, if the slot has not been programmed yet.
    pub(crate) fn buffered(&self, ppn: u32) -> Option<&Entry> {
        let (block, row, slot) = self.layout.place(ppn);
        let row = self.streams.pending_row(block, row)?;
        row.entries.get(slot as usize)
    }
    /// As [`Ftl::buffered`], for changing the unit.
    pub(crate) fn buffered_mut(&mut self, ppn: u32) -> Option<&mut Entry> {
        let (block, row, slot) = self.layout.place(ppn);
        let row = self.streams.pending_row_mut(block, row)?;
        row.entries.get_mut(slot as usize)
    }
    /// Drops a unit that is still in a row buffer: its slot will be programmed as padding, so that
    /// the unit cannot take a version greater than that of a later TRIM. Answers the number of the
    /// operation that brought the unit. What this unit was to be the evidence for (ftl-I2) now
    /// waits for the operation that drops it.
    pub(crate) fn drop_buffered(&mut self, ppn: u32) -> Option<u64> {
        let copied = self.buffered(ppn)?.birth.is_some();
        // hazards-R6
        let stays = copied && self.mutant(Mutant::CopyIsNewer);
        let entry = self.buffered_mut(ppn)?;
        match stays {
            true => entry.birth = None,
            false => entry.lpn = NONE,
        }
        Some(entry.accept)
    }
    /// Programs the rows that the host's writes are filling.
    pub(crate) fn issue_host(&mut self, now: Time) -> Result<(), FtlError> {
        self.issue(now, JOURNAL)?;
        self.issue(now, HOST)?;
        Ok(())
    }
    /// Programs the rows of all streams.
    pub(crate) fn issue_all(&mut self, now: Time) -> Result<(), FtlError> {
        self.issue(now, GC)?;
        self.issue(now, FOLD)?;
        self.issue_host(now)
    }
}
