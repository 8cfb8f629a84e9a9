//! The scan of coalition transactions: their parts, the images that follow the parts, and what
//! follows a broken transaction.

use super::cases::Facts;
use super::content::{Content, Patch};
use super::reader::LogReader;
use super::scan::{Parsed, Scan};
use crate::{JournalError, LogBlock};
use base::{BlockNo, Bytes, Mutant};
use ondisk::Corrupt;
use ondisk::jbd2::{
    BlockKind, CoalitionPart, CoalitionRecord, Commit, DescriptorReader, Header, JournalIncompat,
    Revoke, TransactionCrc, full_image_checksum,
};

/// Blocks behind a broken transaction that are searched for its successor: 1 MiB.
const LOOK_FURTHER: u32 = 256;

/// Parts of the expected transaction that were taken.
pub(super) struct Parts {
    /// Number of the next one, and of all.
    next: u16,
    count: u16,
    crc: TransactionCrc,
    /// Full records that still have no image: home, escaped, checksum.
    full: Vec<(BlockNo, bool, u32)>,
}

impl Parts {
    /// All parts and their images are there.
    pub fn awaits_commit(&self) -> bool {
        self.next == self.count
    }
    pub fn count(&self) -> u16 {
        self.count
    }
}

/// A coalition block with the number of the expected transaction.
#[derive(Default)]
pub(super) struct Found {
    /// Parsed, unless that is impossible.
    part: Option<CoalitionPart>,
    sound: bool,
    /// The reason why neither a cut nor our own writer leaves this block here.
    impossible: Option<String>,
    /// Of a last part: what is wrong with the transaction.
    broken: Option<String>,
    /// Checksum register behind this part; its full records (of a last part: all of the
    /// transaction), where their images are.
    crc: Option<TransactionCrc>,
    full: Vec<(BlockNo, bool, u32)>,
    images: Vec<LogBlock>,
}

impl Found {
    fn is_last(&self) -> bool {
        self.part.as_ref().is_some_and(|p| p.last.is_some())
    }
    /// True if a cut or damage may have left the block as it is.
    pub fn is_troubled(&self) -> bool {
        !self.sound || (self.impossible.is_none() && self.broken.is_some())
    }
    /// Commit time.
    pub fn time(&self) -> (u64, u32) {
        let last = self.part.as_ref().and_then(|p| p.last);
        last.map_or((0, 0), |l| (l.secs, l.nanos))
    }
    pub fn add_facts(&self, facts: &mut Facts, last_commit: (u64, u32)) {
        let end = self.part.as_ref().and_then(|p| p.last);
        facts.possible = self.impossible.is_none();
        facts.last = end.is_some();
        facts.self_commit = end.is_some_and(|l| l.self_commit);
        facts.whole = self.broken.is_none();
        facts.older = end.is_some() && self.time() < last_commit;
    }
}

impl Scan<'_> {
    /// Parses a coalition block of the expected transaction, and reads the images if it is the last
    /// one.
    pub(super) fn parse_part(
        &mut self,
        at: LogBlock,
        block: &Bytes,
    ) -> Result<(Found, Option<Corrupt>), JournalError> {
        let mut found = Found {
            // hazards-H14: a torn part has another checksum.
            sound: true,
            ..Found::default()
        };
        if !self.log.sb.incompat().has(JournalIncompat::COALITION) {
            return Ok((found, None));
        }
        let checked = CoalitionPart::verify(&self.format, block);
        if let Err(e) = checked
            && !rt::mutant(Mutant::NoCoalitionChecksum)
        {
            found.sound = false;
            return Ok((found, Some(e.at_block(self.log.place.block(at)))));
        }
        match CoalitionPart::parse(&self.format, block) {
            Ok(part) => found.part = Some(part),
            Err(e) => {
                found.impossible = Some(e.at_block(self.log.place.block(at)).to_string());
                return Ok((found, None));
            }
        }
        found.impossible = self.impossible(&found);
        if found.impossible.is_some() {
            return Ok((found, None));
        }
        self.add_checksums(&mut found, block);
        if found.is_last() {
            self.check_images(&mut found)?;
        }
        Ok((found, None))
    }

    /// The reason why this part, whose checksum is right, cannot have been written to this place by
    /// a commit of ours.
    fn impossible(&self, found: &Found) -> Option<String> {
        let part = found.part.as_ref()?;
        let (number, count) = (part.part, part.parts);
        let (next, all) = self
            .parts
            .as_ref()
            .map_or((0, count), |p| (p.next, p.count));
        if self.stock {
            return Some(format!(
                "part {number} of {count} stands among stock blocks"
            ));
        }
        if number != next || count != all {
            let what = if next == all {
                "its commit block".into()
            } else {
                format!("part {next} of {all}")
            };
            return Some(format!(
                "part {number} of {count} stands where {what} belongs"
            ));
        }
        for record in &part.records {
            if let CoalitionRecord::Delta { block, .. } | CoalitionRecord::Full { block, .. } =
                record
                && let Some(wrong) = self.bad_home(*block)
            {
                return Some(format!("it logs block {block}, but {wrong}"));
            }
        }
        let left = self.unvisited();
        let missing = u32::from(count - number - 1);
        let images = part.last.map_or(0, |l| l.images);
        if missing.saturating_add(images) > left {
            let wanted = u64::from(missing) + u64::from(images);
            return Some(format!(
                "{wanted} more blocks are announced, the ring has {left}"
            ));
        }
        let full = self.parts.as_ref().map_or(0, |p| p.full.len()) + part.images();
        if let Some(end) = part.last
            && end.images as usize != full
        {
            return Some(format!(
                "{} images are announced, {full} are recorded",
                end.images
            ));
        }
        None
    }

    fn add_checksums(&self, found: &mut Found, block: &Bytes) {
        let begin = || TransactionCrc::new(&self.format, self.now.tid);
        let mut crc = self.parts.as_ref().map_or_else(begin, |p| p.crc);
        crc.part(block);
        found.crc = Some(crc);
        for record in found.part.iter().flat_map(|p| &p.records) {
            if let CoalitionRecord::Full {
                block,
                escaped,
                crc,
            } = record
            {
                found.full.push((*block, *escaped, *crc));
            }
        }
    }

    /// Reads the images behind the last part and checks them one by one and the transaction as a
    /// whole (hazards-H14).
    fn check_images(&mut self, found: &mut Found) -> Result<(), JournalError> {
        let end = found.part.as_ref().and_then(|p| p.last);
        let (Some(end), Some(mut crc)) = (end, found.crc) else {
            return Ok(());
        };
        let earlier = self.parts.as_mut().map(|p| std::mem::take(&mut p.full));
        found.full.splice(0..0, earlier.unwrap_or_default());
        for (home, _, expected) in &found.full {
            let (at, image) = self.next()?.expect("the ring has room for the images");
            crc.image(&image);
            if full_image_checksum(&self.format, self.now.tid, &image) != *expected {
                let LogBlock(at) = at;
                let why =
                    format!("the image of block {home} at log block {at} has a wrong checksum");
                found.broken.get_or_insert(why);
            }
            found.images.push(at);
        }
        if crc.value() != end.transaction_crc {
            found
                .broken
                .get_or_insert_with(|| "its checksum is wrong".into());
        }
        if found.broken.is_some() && rt::mutant(Mutant::NoCoalitionChecksum) {
            found.broken = None;
        }
        Ok(())
    }

    /// Notes the records of a part; those of full images when the last part has told where they
    /// stand.
    pub(super) fn take_part(&mut self, found: Found) {
        let part = found.part.expect("only what was parsed is taken");
        for record in &part.records {
            match record {
                CoalitionRecord::Delta {
                    block,
                    post_crc,
                    segments,
                    ..
                } => {
                    let content = Content::Delta {
                        post_crc: *post_crc,
                        patch: Patch::new(segments),
                    };
                    self.now.writes.push((*block, content));
                }
                CoalitionRecord::Full { .. } => {}
                CoalitionRecord::Revoke { blocks } => self.now.revokes.extend(blocks),
            }
        }
        for (&at, &(home, escaped, crc)) in found.images.iter().zip(&found.full) {
            let content = Content::Full { at, escaped, crc };
            self.now.writes.push((home, content));
        }
        let mut full = self.parts.take().map_or_else(Vec::new, |p| p.full);
        full.extend(found.full);
        self.parts = Some(Parts {
            next: part.part + 1,
            count: part.parts,
            crc: found.crc.expect("computed when it was parsed"),
            full,
        });
    }

    /// Looks behind a broken transaction: its own commit block, or a sound block of the next one,
    /// proves that it had been durable. Bounded; never replayed (scan-N2).
    pub(super) fn look_further(&mut self) -> Result<Option<LogBlock>, JournalError> {
        let mut reader = LogReader::new(self.queue, self.log, false);
        let mut at = LogBlock(self.at);
        for _ in 0..self.unvisited().min(LOOK_FURTHER) {
            if at.0 >= self.log.sb.blocks_count() {
                break;
            }
            if self.is_evidence(&reader.read(at)?) {
                return Ok(Some(at));
            }
            at = self.after(at);
        }
        Ok(None)
    }

    fn is_evidence(&self, block: &Bytes) -> bool {
        let Ok(header) = Header::parse(block) else {
            return false;
        };
        let (f, tid) = (&self.format, self.now.tid);
        let next = header.tid == tid.next();
        let not_older = |time: (u64, u32)| time.0 >= self.out.last_commit.0;
        match header.kind {
            BlockKind::Commit if next || header.tid == tid => {
                let commit = Commit::parse(f, block).ok();
                commit.is_some_and(|c| {
                    not_older((c.secs, c.nanos)) && Commit::verify(f, block).is_ok()
                })
            }
            BlockKind::Coalition if next && CoalitionPart::verify(f, block).is_ok() => {
                let part = CoalitionPart::parse(f, block).ok();
                part.is_some_and(|p| p.last.is_none_or(|l| not_older((l.secs, l.nanos))))
            }
            BlockKind::Descriptor if next => {
                DescriptorReader::parse(*f, block).is_ok_and(|r| r.verify().is_ok())
            }
            BlockKind::Revoke if next => {
                Revoke::parse(f, block).is_ok() && Revoke::verify(f, block).is_ok()
            }
            _ => false,
        }
    }

    /// The message of a refused coalition transaction: what, where, and why it is not what a cut
    /// leaves.
    pub(super) fn refusal(
        &self,
        at: LogBlock,
        parsed: Option<Parsed>,
        fault: Option<Corrupt>,
        evidence: Option<LogBlock>,
    ) -> JournalError {
        let (LogBlock(at), tid) = (at, self.now.tid);
        let missing = || match &self.parts {
            Some(p) if !p.awaits_commit() => format!("part {} of {}", p.next, p.count),
            _ => "its commit block".into(),
        };
        let what = match parsed {
            None => format!("{} is missing at log block {at}", missing()),
            Some(Parsed::Misplaced(kind)) => {
                format!(
                    "log block {at} holds a {} where {} belongs",
                    name(kind),
                    missing()
                )
            }
            Some(Parsed::Coalition(_))
                if !self.log.sb.incompat().has(JournalIncompat::COALITION) =>
            {
                format!(
                    "log block {at} holds a coalition block, but the superblock of the log lacks the feature {}",
                    JournalIncompat::COALITION
                )
            }
            Some(Parsed::Coalition(found)) => {
                let why = found.impossible.or(found.broken);
                let why = why.or(fault.map(|f| f.to_string()));
                format!(
                    "log block {at}: {}",
                    why.unwrap_or_else(|| "damaged".into())
                )
            }
            Some(_) => format!("log block {at} is damaged"),
        };
        let proof = evidence.map_or(String::new(), |LogBlock(e)| {
            format!("; log block {e} shows that it had been durable")
        });
        JournalError::Coalition(format!("transaction {tid}: {what}{proof}"))
    }
}

fn name(kind: BlockKind) -> &'static str {
    match kind {
        BlockKind::Descriptor => "descriptor",
        BlockKind::Commit => "commit block",
        BlockKind::Revoke => "revoke block",
        BlockKind::Coalition => "coalition block",
        BlockKind::SuperblockV1 | BlockKind::SuperblockV2 => "superblock",
    }
}
