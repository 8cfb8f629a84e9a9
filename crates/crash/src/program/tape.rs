//! A recording of what a device gets, and of what the user of its programs was told.
//!
//! Commands are recorded one after the other, none of them while another is under way.
//!
//! - D2: the recording stays within its room. The first command that does not fit fails, and so do
//!   all behind it, so the recording has no gap.
//! - D3: an acknowledgement has the time at which the last command before it is complete, so each
//!   cut at or behind that moment owes it, and no earlier one.

use super::Room;
use crate::CrashError;
use base::{Bytes, Lba, SECTOR_BYTES, SECTORS_PER_BLOCK, Time};
use blockdev::spec::{Kind, Write};
use blockdev::trace::{Step, What};
use blockdev::{Caps, Class, Image, Trace};
use std::sync::Arc;

const BLOCK: u64 = base::BLOCK_BYTES as u64;
const SECTOR: u64 = SECTOR_BYTES as u64;
/// Upper bounds of memory in bytes: of a command without its content, of a block of the image, and
/// of one more reference to a block.
const COMMAND_KEPT: u64 = 512;
const BLOCK_KEPT: u64 = BLOCK + 256;
const ENTRY_KEPT: u64 = 64;
/// Time from the begin of a command to that of the next; the command is in flight meanwhile.
const SPAN: u64 = 10;

/// The promises of a disk with a volatile cache, without order, of which a cut leaves each sector
/// old or new.
pub(super) fn disk_caps(bytes: u64, fua: bool) -> Caps {
    Caps {
        sectors: bytes / SECTOR,
        sector_bytes: SECTOR_BYTES as u32,
        volatile_cache: true,
        fua,
        fua_flushes: false,
        reliable_granule: None,
        tear_granule: Some(SECTOR_BYTES as u32),
        atomic_write_bytes: 0,
        no_collateral: true,
        packed: None,
        cache_fifo: false,
        barrier: false,
        remap: None,
        discard: true,
        max_transfer_sectors: u64::MAX,
    }
}

/// A recorded run.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// What the device got.
    pub trace: Trace,
    /// What was acknowledged, in order.
    pub acks: Vec<Ack>,
}

impl Recorded {
    /// How much was acknowledged at a cut.
    pub(super) fn acked(&self, at: Time) -> usize {
        self.acks.partition_point(|ack| ack.at <= at)
    }
}

/// An acknowledgement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ack {
    /// From when on it is owed (D3).
    pub at: Time,
    /// What was acknowledged: one line.
    pub text: String,
}

/// There is no room for more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Full;

/// The recording while it is made.
pub(super) struct Tape {
    image: Image,
    recorded: Recorded,
    clock: u64,
    room: Room,
    /// A command did not fit into the room.
    over: bool,
}

impl Tape {
    /// An empty recording of a device with this content and these promises. It takes what is left
    /// of `room`.
    pub fn new(image: Image, caps: Caps, room: Room) -> Tape {
        let trace = Trace {
            start: image.clone(),
            caps,
            steps: Vec::new(),
        };
        let recorded = Recorded {
            trace,
            acks: Vec::new(),
        };
        Tape {
            image,
            recorded,
            clock: SPAN,
            room,
            over: false,
        }
    }

    /// What was recorded so far, of `what`.
    ///
    /// # Errors
    /// A command did not fit into the room (D2).
    pub fn recorded(&self, what: &str) -> Result<Recorded, CrashError> {
        if !self.over {
            return Ok(self.recorded.clone());
        }
        let steps = self.recorded.trace.steps.len();
        let what = format!("the recording of {what}, {steps} writes and syncs by now,");
        Err(self.room.error(what))
    }

    /// Begins the recording here: what was written so far is the content before it.
    pub fn begin(&mut self) {
        self.recorded.trace.start = self.image.clone();
        self.recorded.trace.steps.clear();
        self.recorded.acks.clear();
    }

    /// Records that the user knows this from now on: a cut behind all commands so far has to keep
    /// it.
    ///
    /// # Errors
    /// The room is used up (D2).
    pub fn ack(&mut self, text: String) -> Result<(), Full> {
        self.take(text.len() as u64, 0)?;
        let at = Time(self.clock - 1);
        self.recorded.acks.push(Ack { at, text });
        Ok(())
    }

    /// Reads the content as it is now.
    pub fn read(&self, offset: u64, buf: &mut [u8]) {
        let mut at = offset;
        let mut rest = buf;
        while !rest.is_empty() {
            let from = (at % BLOCK) as usize;
            let n = rest.len().min(base::BLOCK_BYTES - from);
            let (now, later) = rest.split_at_mut(n);
            now.copy_from_slice(&self.image.block(at / BLOCK)[from..from + n]);
            at += n as u64;
            rest = later;
        }
    }

    /// Takes room for a command with `content` bytes of its own that changes `blocks` blocks (D2).
    fn take(&mut self, content: u64, blocks: u64) -> Result<(), Full> {
        match (self.room).take(COMMAND_KEPT + content + blocks * BLOCK_KEPT) {
            true => Ok(()),
            false => {
                self.over = true;
                Err(Full)
            }
        }
    }

    /// Records a write of whole sectors; a discard has no content.
    ///
    /// # Errors
    /// The room is used up (D2).
    pub fn write(
        &mut self,
        lba: Lba,
        sectors: u64,
        kind: Kind,
        new: Option<Bytes>,
    ) -> Result<(), Full> {
        let end = lba.0 + sectors;
        let blocks = lba.0 / SECTORS_PER_BLOCK..end.div_ceil(SECTORS_PER_BLOCK);
        let prev: Vec<(u64, Bytes)> = match new {
            Some(_) => blocks.map(|n| (n, self.image.block(n))).collect(),
            // A discard changes only blocks that are not zeros already.
            None => self.image.blocks_in(blocks).collect(),
        };
        // The former content is kept, too; it was part of the image and has its room already.
        let changed = prev.len() as u64;
        match &new {
            Some(bytes) => self.take(bytes.len() as u64, changed)?,
            // A discard may cut a block at each of its ends, which then needs room of its own.
            None => self.take(changed * ENTRY_KEPT, 2)?,
        }
        for &(n, _) in &prev {
            let first = (n * SECTORS_PER_BLOCK).max(lba.0);
            let last = ((n + 1) * SECTORS_PER_BLOCK).min(end);
            let to = ((first % SECTORS_PER_BLOCK) * SECTOR) as usize;
            let from = ((first - lba.0) * SECTOR) as usize;
            let len = ((last - first) * SECTOR) as usize;
            self.image.edit_block(n, |block| match &new {
                Some(bytes) => block[to..to + len].copy_from_slice(&bytes[from..from + len]),
                None => block[to..to + len].fill(0),
            });
        }
        let (start, end) = self.span();
        let write = Write {
            start,
            end,
            kind,
            lba,
            sectors,
            new: new.into_iter().collect(),
            prev,
        };
        let classes = vec![Class::Data; write.new.len()];
        self.keep(What::Write(Arc::new(write)), classes, (start, end));
        Ok(())
    }

    fn span(&mut self) -> (Time, Time) {
        let start = self.clock;
        self.clock += SPAN;
        (Time(start), Time(start + SPAN - 1))
    }

    fn keep(&mut self, what: What, classes: Vec<Class>, (start, end): (Time, Time)) {
        self.recorded.trace.steps.push(Step {
            start,
            end,
            what,
            classes,
        });
    }

    /// Records that all that was written before is durable.
    ///
    /// # Errors
    /// The room is used up (D2).
    pub fn flush(&mut self) -> Result<(), Full> {
        self.take(0, 0)?;
        let span = self.span();
        self.keep(What::Flush, Vec::new(), span);
        Ok(())
    }
}
