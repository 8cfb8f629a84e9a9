//! Pass 1, SCAN: finds the complete transactions, and what they log and revoke. Writes nothing.
//!
//! - N1: every step moves forward, and no more blocks are visited than the ring has. So a hostile
//!   log ends.
//! - N2: a transaction counts only when it is complete: with its commit block, or with the checksum
//!   of the whole coalition transaction. Blocks after the first incomplete one are read only to
//!   tell damage from a cut, and are never replayed.

use super::cases::{Control, Decision, Facts, classify};
use super::content::Content;
pub(crate) use super::content::Logged;
use super::parts::{Found, Parts};
use super::reader::LogReader;
use crate::log_super::LogSuper;
use crate::{JournalError, LogBlock};
use base::{BlockNo, Bytes, Mutant, Tid};
use block::Queue;
use ondisk::Corrupt;
use ondisk::jbd2::{
    BlockKind, ChecksumMode, Commit, DescriptorReader, Format, Header, JournalIncompat, Revoke,
    Tag, crc32_be,
};
use std::sync::Arc;

/// The complete transactions of a log, and why it ends where it does.
pub(crate) struct Scanned {
    pub transactions: Vec<Logged>,
    /// The first transaction that is not complete.
    pub end: Tid,
    /// Where it begins, and how many blocks of the ring lie before that block.
    pub end_at: LogBlock,
    pub blocks_used: u32,
    /// Commit time of the last complete one: seconds, nanoseconds.
    pub last_commit: (u64, u32),
    /// Its commit block, or what stands for one, is damaged.
    pub failed_commit: Option<Tid>,
    /// Where the number of the first incomplete transaction is found on blocks of an older life.
    pub stale: bool,
    /// Letters of the cases met, in order of their first appearance.
    pub cases: Vec<char>,
    /// Coalition transactions and their parts among the complete ones.
    pub coalitions: u64,
    pub parts: u64,
}

pub(super) struct Scan<'a> {
    pub queue: &'a Arc<Queue>,
    pub log: &'a LogSuper,
    pub reader: LogReader,
    pub format: Format,
    pub at: u32,
    pub visited: u32,
    pub out: Scanned,
    /// The transaction that is being collected.
    pub now: Logged,
    /// Its coalition parts, if it has any.
    pub parts: Option<Parts>,
    /// A stock block of the transaction was met.
    pub stock: bool,
    doubted: Option<Corrupt>,
    /// Register of v1 checksums.
    crc: u32,
}

/// A control block that claims to belong to the expected transaction, parsed.
pub(super) enum Parsed {
    Descriptor(Vec<Tag>),
    Revoke(Vec<BlockNo>),
    Commit { secs: u64 },
    Coalition(Box<Found>),
    Misplaced(BlockKind),
    Other,
}

/// Runs the pass over a log that is not empty; `sparse`: reading nothing but what it looks at. Also
/// answers the reader, which has what was read.
pub(crate) fn scan(
    queue: &Arc<Queue>,
    log: &LogSuper,
    sparse: bool,
) -> Result<(Scanned, LogReader), JournalError> {
    let tid = log.sb.sequence();
    let mut scan = Scan {
        queue,
        log,
        reader: LogReader::new(queue, log, sparse),
        format: log.sb.format(),
        at: log.sb.start(),
        visited: 0,
        out: Scanned {
            transactions: Vec::new(),
            end: tid,
            end_at: LogBlock(log.sb.start()),
            blocks_used: 0,
            last_commit: (0, 0),
            failed_commit: None,
            stale: false,
            cases: Vec::new(),
            coalitions: 0,
            parts: 0,
        },
        now: Logged::new(tid),
        parts: None,
        stock: false,
        doubted: None,
        crc: !0,
    };
    while scan.step()? {}
    scan.out.end = scan.now.tid;
    Ok((scan.out, scan.reader))
}

impl Scan<'_> {
    /// Reads, classifies and acts on one control block; false at the end of the log.
    fn step(&mut self) -> Result<bool, JournalError> {
        let Some((at, block)) = self.next()? else {
            return Ok(false);
        };
        let (parsed, fault) = self.parse(at, &block)?;
        let evidence = match self.troubled(&parsed) {
            true => self.look_further()?,
            false => None,
        };
        let facts = self.facts(&parsed, fault.is_none(), evidence.is_some());
        let case = classify(&facts);
        if !self.out.cases.contains(&case.letter) {
            self.out.cases.push(case.letter);
        }
        if case.decision == Decision::Refuse && case.letter != 'H' {
            return Err(self.refusal(at, parsed, fault, evidence));
        }
        self.act(case.decision, parsed, &block, fault)
    }

    /// The block at the cursor, and moves on; `None` once the whole ring was visited (N1).
    pub(super) fn next(&mut self) -> Result<Option<(LogBlock, Bytes)>, JournalError> {
        let Some(at) = self.advance() else {
            return Ok(None);
        };
        Ok(Some((at, self.reader.read(at)?)))
    }

    fn advance(&mut self) -> Option<LogBlock> {
        let end = self.log.sb.log_end();
        if self.visited >= end - self.log.sb.first() {
            return None;
        }
        self.visited += 1;
        let at = LogBlock(self.at);
        self.at = self.after(at).0;
        Some(at)
    }

    /// The next block of the ring: behind its end comes its first one (hazards-H15).
    pub(super) fn after(&self, at: LogBlock) -> LogBlock {
        let wraps = at.0 + 1 == self.log.sb.log_end();
        if wraps && !rt::mutant(Mutant::NoWrap) {
            return LogBlock(self.log.sb.first());
        }
        LogBlock(at.0 + 1)
    }

    /// Blocks of the ring that were not visited.
    pub(super) fn unvisited(&self) -> u32 {
        self.log.sb.log_end() - self.log.sb.first() - self.visited
    }

    /// Parses a control block that claims to belong to the expected transaction; `None`: it does
    /// not claim so. The error says what is wrong with it.
    fn parse(
        &mut self,
        at: LogBlock,
        block: &Bytes,
    ) -> Result<(Option<Parsed>, Option<Corrupt>), JournalError> {
        let header = match Header::parse(block) {
            Ok(header) if header.tid == self.now.tid => header,
            _ => return Ok((None, None)),
        };
        let f = &self.format;
        if header.kind != BlockKind::Coalition
            && let Some(parts) = &self.parts
            && !(header.kind == BlockKind::Commit && parts.awaits_commit())
        {
            return Ok((Some(Parsed::Misplaced(header.kind)), None));
        }
        Ok(match header.kind {
            BlockKind::Descriptor => {
                let reader = DescriptorReader::parse(*f, block)?;
                let fault = reader.verify().err();
                (Some(Parsed::Descriptor(reader.collect())), fault)
            }
            BlockKind::Revoke => match Revoke::parse(f, block) {
                Ok(revoke) => (
                    Some(Parsed::Revoke(revoke.blocks)),
                    Revoke::verify(f, block).err(),
                ),
                Err(e) => (Some(Parsed::Revoke(Vec::new())), Some(e)),
            },
            BlockKind::Commit => self.parse_commit(block),
            BlockKind::Coalition => {
                let (found, fault) = self.parse_part(at, block)?;
                (Some(Parsed::Coalition(Box::new(found))), fault)
            }
            BlockKind::SuperblockV1 | BlockKind::SuperblockV2 => (Some(Parsed::Other), None),
        })
    }

    fn parse_commit(&self, block: &Bytes) -> (Option<Parsed>, Option<Corrupt>) {
        let secs = base::bytes::get_be64(block, 0x30);
        let fault = match Commit::parse(&self.format, block) {
            Ok(commit) => match commit.transaction_crc {
                Some(stored) if stored != self.crc => Some(Corrupt {
                    structure: "journal transaction",
                    kind: ondisk::CorruptKind::BadChecksum {
                        stored,
                        computed: self.crc,
                    },
                    block: None,
                    ino: None,
                    group: None,
                    tid: Some(commit.tid),
                }),
                _ => Commit::verify(&self.format, block).err(),
            },
            Err(e) => Some(e),
        };
        (Some(Parsed::Commit { secs }), fault)
    }

    /// A part of a coalition transaction is missing or damaged: only the blocks after it tell a cut
    /// from damage.
    fn troubled(&self, parsed: &Option<Parsed>) -> bool {
        match parsed {
            None => self.parts.is_some(),
            Some(Parsed::Coalition(found)) => found.is_troubled(),
            _ => false,
        }
    }

    fn facts(&self, parsed: &Option<Parsed>, sound: bool, followed: bool) -> Facts {
        let incompat = self.log.sb.incompat();
        let mut facts = Facts {
            ours: parsed.is_some(),
            control: Control::Other,
            sound,
            doubted: self.doubted.is_some(),
            older: false,
            async_commit: incompat.has(JournalIncompat::ASYNC_COMMIT),
            feature: incompat.has(JournalIncompat::COALITION),
            begun: self.parts.is_some(),
            possible: false,
            last: false,
            self_commit: false,
            whole: false,
            followed,
        };
        match parsed {
            Some(Parsed::Descriptor(_)) => facts.control = Control::Descriptor,
            Some(Parsed::Revoke(_)) => facts.control = Control::Revoke,
            Some(Parsed::Commit { secs }) => {
                facts.older = *secs < self.out.last_commit.0;
                facts.control = Control::Commit;
            }
            Some(Parsed::Coalition(found)) => {
                facts.control = Control::Coalition;
                found.add_facts(&mut facts, self.out.last_commit);
            }
            Some(Parsed::Misplaced(_)) => facts.control = Control::Misplaced,
            Some(Parsed::Other) | None => {}
        }
        facts
    }

    fn act(
        &mut self,
        decision: Decision,
        parsed: Option<Parsed>,
        block: &Bytes,
        fault: Option<Corrupt>,
    ) -> Result<bool, JournalError> {
        match decision {
            Decision::End => return Ok(false),
            Decision::EndStale => {
                self.out.stale = true;
                return Ok(false);
            }
            Decision::EndFailedCommit => {
                self.out.failed_commit = Some(self.now.tid);
                return Ok(false);
            }
            Decision::Refuse => {
                let doubted = self
                    .doubted
                    .take()
                    .expect("case H is about a doubted transaction");
                return Err(JournalError::Corrupt(format!(
                    "transaction {} is committed, but {doubted}",
                    self.now.tid
                )));
            }
            Decision::Doubt => {
                let fault = fault.expect("only what is not sound is doubted");
                self.doubted.get_or_insert(fault);
                return self.collect(parsed, block);
            }
            Decision::TakeDescriptor | Decision::TakeRevoke | Decision::TakePart => {
                return self.collect(parsed, block);
            }
            Decision::Complete => self.complete(parsed)?,
        }
        Ok(true)
    }

    /// Notes images, records and revoked blocks; false if the ring ends before the images do (N1).
    fn collect(&mut self, parsed: Option<Parsed>, block: &Bytes) -> Result<bool, JournalError> {
        match parsed {
            Some(Parsed::Descriptor(tags)) => {
                self.stock = true;
                let v1 = self.format.checksum == ChecksumMode::V1;
                if v1 {
                    self.crc = crc32_be(self.crc, block);
                }
                for tag in tags {
                    let Some(at) = self.advance() else {
                        return Ok(false);
                    };
                    if v1 {
                        self.crc = crc32_be(self.crc, &self.reader.read(at)?);
                    }
                    let content = Content::Tagged { at, tag };
                    self.now.writes.push((tag.block, content));
                }
            }
            Some(Parsed::Revoke(blocks)) => {
                self.stock = true;
                self.now.revokes.extend(blocks);
            }
            Some(Parsed::Coalition(found)) => self.take_part(*found),
            _ => {}
        }
        Ok(true)
    }

    /// The expected transaction is complete: its tags must be possible.
    fn complete(&mut self, parsed: Option<Parsed>) -> Result<(), JournalError> {
        for (home, content) in &self.now.writes {
            if let (Content::Tagged { at, .. }, Some(wrong)) = (content, self.bad_home(*home)) {
                let (LogBlock(at), tid) = (at, self.now.tid);
                return Err(JournalError::Corrupt(format!(
                    "transaction {tid} logs block {home} at log block {at}, but {wrong}"
                )));
            }
        }
        match parsed {
            Some(Parsed::Commit { secs }) => self.out.last_commit = (secs, 0),
            Some(Parsed::Coalition(found)) => {
                self.out.last_commit = found.time();
                self.take_part(*found);
            }
            _ => {}
        }
        if let Some(parts) = self.parts.take() {
            self.out.coalitions += 1;
            self.out.parts += u64::from(parts.count());
        }
        let next = Logged::new(self.now.tid.next());
        let done = std::mem::replace(&mut self.now, next);
        self.out.transactions.push(done);
        self.stock = false;
        self.crc = !0;
        self.out.end_at = LogBlock(self.at);
        self.out.blocks_used = self.visited;
        Ok(())
    }

    /// Why no transaction can log this block; `None` if it can.
    pub(super) fn bad_home(&self, home: BlockNo) -> Option<String> {
        let place = &self.log.place;
        if home.0 >= place.fs_blocks() {
            Some(format!(
                "the file system ends at block {}",
                place.fs_blocks()
            ))
        } else if place.contains(home) {
            Some("which belongs to the journal itself".into())
        } else {
            None
        }
    }
}
