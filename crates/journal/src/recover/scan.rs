//! Pass 1, SCAN: finds the complete transactions, and what they log and revoke. Writes nothing.
//!
//! - N1: every step moves forward, and no more blocks are visited than the ring has. So a hostile log ends.
//! - N2: a transaction counts only with its commit block; what precedes a missing commit block is never looked at.

use super::cases::{Control, Decision, Facts, classify};
use super::reader::LogReader;
use crate::log_super::LogSuper;
use crate::{JournalError, LogBlock};
use base::{BlockNo, Bytes, Tid};
use block::Queue;
use ondisk::Corrupt;
use ondisk::jbd2::{
    BlockKind, ChecksumMode, Commit, DescriptorReader, Format, Header, JournalIncompat, Revoke,
    Tag, crc32_be,
};

/// One complete transaction.
pub(crate) struct Logged {
    pub tid: Tid,
    /// Images, in log order.
    pub images: Vec<(LogBlock, Tag)>,
    pub revokes: Vec<BlockNo>,
}

/// The result.
pub(crate) struct Scanned {
    pub transactions: Vec<Logged>,
    /// The first transaction that is not complete.
    pub end: Tid,
    /// Its commit block is damaged.
    pub failed_commit: Option<Tid>,
    /// Where its number is found on blocks of an older life.
    pub stale: bool,
    /// Letters of the cases met, in order of their first appearance.
    pub cases: Vec<char>,
}

struct Scan<'a> {
    log: &'a LogSuper,
    reader: LogReader<'a>,
    format: Format,
    at: u32,
    visited: u32,
    last_commit_secs: u64,
    out: Scanned,
    /// The transaction that is being collected.
    now: Logged,
    doubted: Option<Corrupt>,
    /// Register of v1 checksums.
    crc: u32,
}

/// A control block that claims to belong to the expected transaction, parsed.
enum Parsed {
    Descriptor(Vec<Tag>),
    Revoke(Vec<BlockNo>),
    Commit { secs: u64 },
    Other,
}

/// Runs the pass over a log that is not empty.
pub(crate) fn scan(queue: &Queue, log: &LogSuper) -> Result<Scanned, JournalError> {
    let tid = log.sb.sequence();
    let mut scan = Scan {
        log,
        reader: LogReader::new(queue, log),
        format: log.sb.format(),
        at: log.sb.start(),
        visited: 0,
        last_commit_secs: 0,
        out: Scanned {
            transactions: Vec::new(),
            end: tid,
            failed_commit: None,
            stale: false,
            cases: Vec::new(),
        },
        now: Logged {
            tid,
            images: Vec::new(),
            revokes: Vec::new(),
        },
        doubted: None,
        crc: !0,
    };
    while scan.step()? {}
    scan.out.end = scan.now.tid;
    Ok(scan.out)
}

impl Scan<'_> {
    /// Reads, classifies and acts on one control block; false at the end of the log.
    fn step(&mut self) -> Result<bool, JournalError> {
        let Some((_, block)) = self.next()? else {
            return Ok(false);
        };
        let (parsed, fault) = self.parse(&block)?;
        let facts = self.facts(&parsed, fault.is_none());
        let case = classify(&facts);
        if !self.out.cases.contains(&case.letter) {
            self.out.cases.push(case.letter);
        }
        self.act(case.decision, parsed, &block, fault)
    }

    /// The block at the cursor, and moves on; `None` once the whole ring was visited (N1).
    fn next(&mut self) -> Result<Option<(LogBlock, Bytes)>, JournalError> {
        let Some(at) = self.advance() else {
            return Ok(None);
        };
        Ok(Some((at, self.reader.read(at)?)))
    }

    fn advance(&mut self) -> Option<LogBlock> {
        let (first, end) = (self.log.sb.first(), self.log.sb.log_end());
        if self.visited >= end - first {
            return None;
        }
        self.visited += 1;
        let at = LogBlock(self.at);
        self.at = if self.at + 1 == end {
            first
        } else {
            self.at + 1
        };
        Some(at)
    }

    /// Parses what claims to be ours; `None`: it does not. The error says what is wrong with it.
    fn parse(&self, block: &Bytes) -> Result<(Option<Parsed>, Option<Corrupt>), JournalError> {
        let header = match Header::parse(block) {
            Ok(header) if header.tid == self.now.tid => header,
            _ => return Ok((None, None)),
        };
        let f = &self.format;
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
            BlockKind::SuperblockV1 | BlockKind::SuperblockV2 | BlockKind::Coalition => {
                (Some(Parsed::Other), None)
            }
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

    fn facts(&self, parsed: &Option<Parsed>, sound: bool) -> Facts {
        let mut older = false;
        let control = match parsed {
            Some(Parsed::Descriptor(_)) => Control::Descriptor,
            Some(Parsed::Revoke(_)) => Control::Revoke,
            Some(Parsed::Commit { secs }) => {
                older = *secs < self.last_commit_secs;
                Control::Commit
            }
            Some(Parsed::Other) | None => Control::Other,
        };
        Facts {
            ours: parsed.is_some(),
            control,
            sound,
            doubted: self.doubted.is_some(),
            older,
            async_commit: self.log.sb.incompat().has(JournalIncompat::ASYNC_COMMIT),
        }
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
            Decision::TakeDescriptor | Decision::TakeRevoke => return self.collect(parsed, block),
            Decision::Complete => self.complete(parsed)?,
        }
        Ok(true)
    }

    /// Notes images and revoked blocks; false if the ring ends before the images do (N1).
    fn collect(&mut self, parsed: Option<Parsed>, block: &Bytes) -> Result<bool, JournalError> {
        match parsed {
            Some(Parsed::Descriptor(tags)) => {
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
                    self.now.images.push((at, tag));
                }
            }
            Some(Parsed::Revoke(blocks)) => self.now.revokes.extend(blocks),
            _ => {}
        }
        Ok(true)
    }

    /// The expected transaction is complete: its tags must be possible.
    fn complete(&mut self, parsed: Option<Parsed>) -> Result<(), JournalError> {
        for (at, tag) in &self.now.images {
            self.check_home(*at, tag.block)?;
        }
        if let Some(Parsed::Commit { secs }) = parsed {
            self.last_commit_secs = secs;
        }
        let next = Logged {
            tid: self.now.tid.next(),
            images: Vec::new(),
            revokes: Vec::new(),
        };
        self.out
            .transactions
            .push(std::mem::replace(&mut self.now, next));
        self.crc = !0;
        Ok(())
    }

    fn check_home(&self, at: LogBlock, home: BlockNo) -> Result<(), JournalError> {
        let (place, tid) = (&self.log.place, self.now.tid);
        let wrong = if home.0 >= place.fs_blocks() {
            format!("the file system ends at block {}", place.fs_blocks())
        } else if place.contains(home) {
            "which belongs to the journal itself".into()
        } else {
            return Ok(());
        };
        let LogBlock(at) = at;
        Err(JournalError::Corrupt(format!(
            "transaction {tid} logs block {home} at log block {at}, but {wrong}"
        )))
    }
}
