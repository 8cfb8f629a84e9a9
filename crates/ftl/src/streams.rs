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

use crate::core::{FOLD, Ftl, FtlError, GC, HOST, JOURNAL, STREAMS};
use crate::slc::ORDINARY;
use base::{Time, fill};
use nand::Cause;

/// How a JBD2 control block begins (`h_magic`, big-endian; kernel documentation, "Journal (jbd2)",
/// block header).
const JBD2_MAGIC: [u8; 4] = [0xC0, 0x3B, 0x39, 0x98];

/// The cause that the programs of each stream are counted for.
pub(crate) const CAUSES: [Cause; STREAMS] =
    [Cause::Host, Cause::Collection, Cause::Fold, Cause::Control];

impl Ftl {
    /// The stream of a unit that the host writes.
    pub(crate) fn stream_for(&mut self, data: &[u8]) -> usize {
        if self.config.housekeeping.journal_stream && data[..4] == JBD2_MAGIC {
            self.stats.journal_units += 1;
            JOURNAL
        } else {
            HOST
        }
    }
    /// True if a unit of this content is mapped as zeros instead of being programmed. In an ordered
    /// group it is programmed, because units behind it may be on flash before a record in the log
    /// is.
    pub(crate) fn needs_no_program(&self, data: &[u8]) -> bool {
        self.config.housekeeping.zero_units && !self.group.open && fill::uniform(data) == Some(0)
    }
    /// The cause that programming the current row of a stream is counted for.
    pub(crate) fn cause(&self, stream: usize) -> Cause {
        match stream {
            GC if self.is_levelling() => Cause::Wear,
            _ => CAUSES[stream],
        }
    }
    /// True if the current victim is moved for its wear.
    pub(crate) fn is_levelling(&self) -> bool {
        let pool = &self.pools[ORDINARY];
        pool.levelling && pool.victim.is_some()
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
