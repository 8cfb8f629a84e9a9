//! Pass 2, REVOKE: the newest revoking transaction of each block. Pass 3, REPLAY: the newest
//! content of each block goes home.
//!
//! The new content of a block is made from its last full image in the log and the deltas after it;
//! if the log has no full image, from the content of home and all deltas.
//!
//! - P1: a record is skipped if its block is revoked in the same or a later transaction.
//! - P2: everything is read, put together and checked before the first block is written: checksums
//!   of images, where the log has them, and of a block that ends with a delta the CRC32C which that
//!   delta foretold. So a damaged log, a home that cannot be read (hazards-H12), or a home that
//!   differs from the base of the deltas, changes nothing. (Images that a REMAP will bring home are
//!   not read where the log has no checksums, repoint-Y2.)
//! - P3: the log is marked clean after a flush of the home writes (hazards-H11). Until then
//!   recovery can be repeated with the same result. For a block with a full image in the log this
//!   is so whatever home holds. A block made from home and deltas is written so that a cut leaves
//!   each of its bytes old or new (FUA on a device with reliable writes); each byte that any delta
//!   names is set by the last one that does, all others are the same in the old and the new
//!   version.
//! - P4: where the device cannot do that, the log has a full image of every block that is written:
//!   by the rule full-first when the log was written there, otherwise (a device image that was
//!   moved) by `insure.rs` before the first home write. A block whose home already holds what its
//!   deltas lead to is not written, so it needs no full image. This happens under full-first: the
//!   tail passes a full image only when home is complete, and deltas of that block may stand in
//!   younger transactions which the log still has.
//! - P5: memory is bounded by the log, one chunk of images and one of log blocks: what does not fit
//!   is put together anew for each use, first to be checked, then to be written. Each home block is
//!   read before it is written, and only for itself.
//! - P6: so neither the order of home reads nor that of home writes matters, nor how many are in
//!   one command: reads are sorted and joined over small gaps; writes are sorted, joined and
//!   packed. Blocks that are read only because they lie in such a gap reach no image; if one of
//!   them cannot be read, the wanted blocks are read one by one, and recovery goes on
//!   (hazards-H12). A pack repeats no block (hazards-H8), because each block has one target.
//! - P7: the log blocks that were read may lie only in the cache of their device: the process died,
//!   not the power, and its last commit was never flushed. So the device that holds the log, its
//!   own or the one of the homes, is flushed once before the first write that brings something
//!   home: a copy, a REMAP, an image of a fast commit, and the insurance of P4. Otherwise a cut
//!   could keep home writes and lose the log blocks they came from: half of a transaction, which
//!   the log no longer has (hazards-H26). A recovery that brings nothing home does not need the
//!   flush: whatever is home already was sent by a checkpoint (home-M1) or by a recovery that had
//!   flushed.

use super::content::{Content, Logged, Patch};
use super::reader::{LogReader, held};
use crate::log_super::LogSuper;
use crate::{JournalError, LogBlock};
use base::fill::uniform;
use base::{BlockNo, BlockSize, Bytes, Mutant, Nanos, Tid};
use block::{Class, DevError, DevErrorKind, Queue, expectation};
use ondisk::jbd2::{
    Format, JournalIncompat, Tag, full_image_checksum, post_image_checksum, unescape,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Home writes through the cache under one plug, as in Linux: the card programs one batch while the
/// next crosses the bus.
const BATCH: usize = 64;
/// Reliable home writes under one plug: 1 MiB. Each command waits for the chips at its end, so
/// there should be few, and packs full.
const BATCH_RELIABLE: usize = 256;
/// Images fetched out of the log at once.
const FETCH: usize = 256;
/// Images held at once, 32 MiB at most.
const CHUNK: usize = 8192;
/// Longest run of home blocks read with one command: 512 KiB, or what the device takes.
const READ_RUN: u64 = 128;
/// Blocks between two homes that are read to save a command: on an eMMC a command costs what eight
/// blocks on the bus do.
const GAP: u64 = 4;

/// Pass 2: by block, the newest transaction that revokes it.
pub(crate) fn revoke_table(transactions: &[Logged]) -> BTreeMap<BlockNo, Tid> {
    let mut table = BTreeMap::new();
    for t in transactions {
        // Transactions come in order, so the last one wins.
        table.extend(t.revokes.iter().map(|&block| (block, t.tid)));
    }
    table
}

/// The parts that the content of a block is made from.
enum Base {
    Home,
    Tagged {
        at: LogBlock,
        tid: Tid,
        tag: Tag,
    },
    Full {
        at: LogBlock,
        tid: Tid,
        escaped: bool,
        crc: u32,
    },
}

impl Base {
    fn log_block(&self) -> Option<LogBlock> {
        match self {
            Base::Home => None,
            Base::Tagged { at, .. } | Base::Full { at, .. } => Some(*at),
        }
    }
}

/// A block that has to go home, and how its content comes about.
pub(crate) struct Target {
    pub home: BlockNo,
    base: Base,
    patches: Vec<Patch>,
    /// The checksum that the last delta foretold.
    post_crc: Option<u32>,
}

impl Target {
    /// Where the log holds exactly the bytes that home must hold, in a stock transaction.
    pub fn plain(&self) -> Option<LogBlock> {
        match &self.base {
            Base::Tagged { at, tag, .. } if self.patches.is_empty() => {
                let plain = !tag.zeros && (!tag.escaped || rt::mutant(Mutant::RemapEscaped));
                plain.then_some(*at)
            }
            _ => None,
        }
    }

    /// True if the log has no full image of the block.
    pub fn needs_home(&self) -> bool {
        matches!(self.base, Base::Home)
    }
}

/// The blocks that have to go home, by address, and how many records fell to a revoke (P1).
pub(crate) fn targets(
    transactions: &[Logged],
    revoked: &BTreeMap<BlockNo, Tid>,
) -> (Vec<Target>, u64) {
    let mut by_home: BTreeMap<BlockNo, Target> = BTreeMap::new();
    let mut skipped = 0;
    for t in transactions {
        let tid = t.tid;
        for (home, content) in &t.writes {
            if revoked.get(home).is_some_and(|r| r.geq(tid)) {
                skipped += 1;
                continue;
            }
            let target = by_home.entry(*home).or_insert_with(|| Target {
                home: *home,
                base: Base::Home,
                patches: Vec::new(),
                post_crc: None,
            });
            target.add(tid, content);
        }
    }
    (by_home.into_values().collect(), skipped)
}

impl Target {
    fn add(&mut self, tid: Tid, content: &Content) {
        self.base = match *content {
            Content::Delta {
                post_crc,
                ref patch,
            } => {
                self.patches.push(patch.clone());
                self.post_crc = Some(post_crc);
                return;
            }
            Content::Tagged { at, tag } => Base::Tagged { at, tid, tag },
            Content::Full { at, escaped, crc } => Base::Full {
                at,
                tid,
                escaped,
                crc,
            },
        };
        self.patches.clear();
        self.post_crc = None;
    }
}

/// Homes that were read.
#[derive(Clone, Copy, Default)]
pub(crate) struct Reads {
    pub blocks: u64,
    pub commands: u64,
    /// Time spent reading images out of the log, and homes.
    pub images_took: Nanos,
    pub homes_took: Nanos,
}

/// Pass 3.
pub(crate) struct Replay {
    queue: Arc<Queue>,
    format: Format,
    size: BlockSize,
    /// The reader of the scan, with what it has read.
    reader: LogReader,
    pub reads: Reads,
    unreadable: Vec<(BlockNo, DevError)>,
    foreign: Vec<BlockNo>,
    /// Blocks known by deltas only whose home already holds what the deltas lead to (P4), and
    /// blocks whose image was moved home (repoint-Y5).
    at_home: BTreeSet<BlockNo>,
    /// The log is one of `move`: how many of its images were found moved.
    moved: Option<u64>,
    /// What was read of the images that homes will be pointed at (repoint-Y2), if that is what will
    /// be done.
    expected: Option<BTreeMap<BlockNo, u64>>,
}

/// Blocks put together, in the order of their targets.
pub(crate) type Images = Vec<(BlockNo, Bytes)>;

impl Replay {
    pub fn new(queue: &Arc<Queue>, log: &LogSuper, reader: LogReader) -> Replay {
        Replay {
            queue: queue.clone(),
            format: log.sb.format(),
            size: log.place.block_size(),
            reader,
            reads: Reads::default(),
            unreadable: Vec::new(),
            foreign: Vec::new(),
            at_home: BTreeSet::new(),
            moved: log
                .sb
                .incompat()
                .has(JournalIncompat::REMAP_MOVE)
                .then_some(0),
            expected: None,
        }
    }

    /// Keeps in mind what is read, so that a REMAP can say it (repoint-Y2).
    pub fn expect(&mut self) {
        self.expected = Some(BTreeMap::new());
    }

    /// What the log holds of this block, if it was read.
    pub fn expected(&self, home: BlockNo) -> Option<u64> {
        let all = self.expected.as_ref()?;
        // hazards-R25.
        let expected = all.get(&home).copied();
        expected.filter(|_| !rt::mutant(Mutant::RemapUnexpected))
    }

    /// True if a cut during a home write leaves each byte old or new, and nothing else is damaged
    /// (P3).
    pub fn home_is_safe(&self) -> bool {
        let caps = self.queue.caps();
        caps.writes_old_or_new() && caps.no_collateral
    }

    /// Images that were moved home before.
    pub fn moved(&self) -> u64 {
        self.moved.unwrap_or(0)
    }

    /// Puts all blocks together and checks them (P2). Few enough are kept for
    /// [`write`](Self::write). Drops the targets whose home needs no write (P4).
    pub fn check(&mut self, targets: &mut Vec<Target>) -> Result<Option<Images>, JournalError> {
        let keep = targets.len() <= held(CHUNK, self.size);
        let mut kept = Vec::new();
        for chunk in targets.chunks(held(CHUNK, self.size)) {
            let images = self.images(chunk)?;
            if keep {
                kept = images;
            }
        }
        self.complain()?;
        targets.retain(|t| !self.at_home.contains(&t.home));
        kept.retain(|(home, _)| !self.at_home.contains(home));
        Ok(keep.then_some(kept))
    }

    /// Writes the blocks home and flushes.
    pub fn write(
        &mut self,
        targets: &[Target],
        images: Option<Images>,
    ) -> Result<(), JournalError> {
        match images {
            Some(images) => self.write_chunk(targets, &images)?,
            None => {
                for chunk in targets.chunks(held(CHUNK, self.size)) {
                    let images = self.images(chunk)?;
                    self.complain()?;
                    self.write_chunk(chunk, &images)?;
                }
            }
        }
        Ok(self.queue.flush()?)
    }

    /// The content of these blocks; faults of single blocks are noted.
    pub fn images(&mut self, targets: &[Target]) -> Result<Images, JournalError> {
        let mut images: Vec<Option<Vec<u8>>> = vec![None; targets.len()];
        let start = rt::now();
        self.fill_from_log(targets, &mut images)?;
        let between = rt::now();
        self.fill_from_home(targets, &mut images)?;
        self.reads.images_took += between - start;
        self.reads.homes_took += rt::now() - between;
        let mut out = Vec::with_capacity(targets.len());
        for (target, image) in targets.iter().zip(images) {
            let Some(mut image) = image else {
                continue;
            };
            let home = target.needs_home().then(|| image.clone());
            target.patches.iter().for_each(|p| p.apply(&mut image));
            if home.is_some_and(|home| home == image) {
                self.at_home.insert(target.home);
            }
            let foretold = |crc| post_image_checksum(&self.format, &image) == crc;
            let other = !target.post_crc.is_none_or(foretold);
            if other && !(target.needs_home() && rt::mutant(Mutant::UnreadableIsZero)) {
                self.foreign.push(target.home);
            }
            out.push((target.home, image.into()));
        }
        Ok(out)
    }

    /// The content of one block; `None` if home has it already.
    pub fn image(&mut self, target: &Target) -> Result<Option<Bytes>, JournalError> {
        let image = self.images(std::slice::from_ref(target))?.pop();
        self.complain()?;
        let written = !self.at_home.contains(&target.home);
        Ok(image.filter(|_| written).map(|(_, bytes)| bytes))
    }

    /// The content of the blocks that the log knows by deltas only.
    pub fn images_from_home(&mut self, targets: &[Target]) -> Result<Images, JournalError> {
        let mut out = Images::new();
        for chunk in targets.chunks(held(CHUNK, self.size)) {
            let images = self.images(chunk)?;
            self.complain()?;
            let pairs = chunk.iter().zip(images);
            out.extend(pairs.filter(|(t, _)| t.needs_home()).map(|(_, i)| i));
        }
        Ok(out)
    }

    fn fill_from_log(
        &mut self,
        targets: &[Target],
        images: &mut [Option<Vec<u8>>],
    ) -> Result<(), JournalError> {
        let mut order: Vec<(LogBlock, usize)> = targets
            .iter()
            .enumerate()
            .filter_map(|(n, t)| Some((t.base.log_block()?, n)))
            .collect();
        order.sort_unstable();
        for some in order.chunks(FETCH) {
            self.reader.prefetch(some.iter().map(|(at, _)| *at))?;
            for &(at, n) in some {
                let logged = self.reader.read(at)?;
                let target = &targets[n];
                images[n] = Some(match self.was_moved(target, &logged) {
                    true => logged.to_vec(),
                    false => self.unlogged(target, &logged)?,
                });
                if let Some(expected) = &mut self.expected {
                    expected.insert(target.home, expectation(&[logged]));
                }
            }
        }
        Ok(())
    }

    /// repoint-Y5: true, and noted, if the log block reads as zeros: its image was moved home.
    fn was_moved(&mut self, target: &Target, logged: &[u8]) -> bool {
        let Some(count) = &mut self.moved else {
            return false;
        };
        if target.plain().is_none() || uniform(logged) != Some(0) {
            return false;
        }
        *count += u64::from(self.at_home.insert(target.home));
        true
    }

    /// A home image from a checked log image (hazards-H10).
    fn unlogged(&self, target: &Target, logged: &[u8]) -> Result<Vec<u8>, JournalError> {
        let escaped = match &target.base {
            Base::Home => false,
            Base::Tagged { tid, tag, .. } => {
                tag.verify(&self.format, *tid, logged)?;
                tag.escaped
            }
            Base::Full {
                tid, escaped, crc, ..
            } => {
                // The scan has seen this image with its right checksum.
                if full_image_checksum(&self.format, *tid, logged) != *crc {
                    let home = target.home;
                    let why = format!("the image of block {home} in transaction {tid} has changed");
                    return Err(JournalError::Coalition(why));
                }
                *escaped
            }
        };
        let mut image = logged.to_vec();
        if escaped {
            unescape(&mut image);
        }
        Ok(image)
    }

    /// Reads homes in the order of their addresses, near neighbours with one command, many commands
    /// at once. A block between two homes may be read along with them, and is ignored.
    fn fill_from_home(
        &mut self,
        targets: &[Target],
        images: &mut [Option<Vec<u8>>],
    ) -> Result<(), JournalError> {
        let wanted: Vec<usize> = (0..targets.len())
            .filter(|&n| targets[n].needs_home())
            .collect();
        let homes: Vec<BlockNo> = wanted.iter().map(|&n| targets[n].home).collect();
        let size = self.size;
        let most = self.queue.caps().max_transfer_sectors / size.sectors();
        let runs = runs(&homes, READ_RUN.min(most.max(1)));
        let request = |run: &Range<usize>| {
            let blocks = span(&homes[run.clone()]);
            (size.lba(homes[run.start]), size.sectors_of(blocks))
        };
        let requests: Vec<_> = runs.iter().map(request).collect();
        self.reads.commands += requests.len() as u64;
        self.reads.blocks += wanted.len() as u64;
        let answers = self.queue.read_many(&requests);
        for (run, answer) in runs.into_iter().zip(answers) {
            let first = homes[run.start];
            match answer {
                Ok(bytes) => {
                    for (&n, home) in wanted[run.clone()].iter().zip(&homes[run]) {
                        let at = (home.0 - first.0) as usize * size.bytes();
                        images[n] = Some(bytes[at..at + size.bytes()].to_vec());
                    }
                }
                Err(e) if e.kind == DevErrorKind::PowerLost => return Err(e.into()),
                Err(_) => self.one_by_one(targets, &wanted[run], images)?,
            }
        }
        Ok(())
    }

    /// A run of homes that cannot be read as one: finds the blocks that cannot be read at all
    /// (hazards-H12).
    fn one_by_one(
        &mut self,
        targets: &[Target],
        run: &[usize],
        images: &mut [Option<Vec<u8>>],
    ) -> Result<(), JournalError> {
        for &n in run {
            let home = targets[n].home;
            self.reads.commands += 1;
            match self.queue.read(self.size.lba(home), self.size.sectors()) {
                Ok(bytes) => images[n] = Some(bytes.to_vec()),
                Err(e) if e.kind == DevErrorKind::PowerLost => return Err(e.into()),
                Err(_) if rt::mutant(Mutant::UnreadableIsZero) => {
                    images[n] = Some(vec![0; self.size.bytes()]);
                }
                Err(e) => self.unreadable.push((home, e)),
            }
        }
        Ok(())
    }

    /// Refuses if single blocks could not be put together: all of them are named, nothing is
    /// written.
    fn complain(&self) -> Result<(), JournalError> {
        if let Some((_, first)) = self.unreadable.first() {
            let list = block_list(self.unreadable.iter().map(|(b, _)| *b));
            return Err(JournalError::Coalition(format!(
                "the log has only changed bytes, no full image, of {list}, and there home cannot be read ({first})"
            )));
        }
        if !self.foreign.is_empty() {
            let list = block_list(self.foreign.iter().copied());
            return Err(JournalError::Coalition(format!(
                "the changes of the log do not lead to the content they foretell at {list}: home was changed or damaged \
                 behind the journal's back"
            )));
        }
        Ok(())
    }

    /// P3: blocks made from home go with FUA, which leaves each byte old or new; the others heal
    /// from the log. Where a cut damages what lies beside a cached write, all go with FUA: their
    /// neighbours may have left the log (hazards-H13).
    fn write_chunk(&self, targets: &[Target], images: &Images) -> Result<(), JournalError> {
        assert_eq!(
            targets.len(),
            images.len(),
            "P2: every block was put together before the first is written"
        );
        let caps = self.queue.caps();
        let (reliable, all) = (caps.writes_old_or_new(), !caps.no_collateral);
        let fua = |target: &Target| {
            reliable && (all || target.needs_home()) && !rt::mutant(Mutant::NormalHomeWrite)
        };
        let both = images.iter().zip(targets);
        let (urgent, cached): (Vec<_>, Vec<_>) = both.partition(|(_, target)| fua(target));
        for chunk in urgent.chunks(BATCH_RELIABLE) {
            let mut plug = self.queue.plug();
            for ((home, image), _) in chunk {
                plug.write_fua(self.size.lba(*home), Class::Home, image.clone());
            }
            plug.submit().wait()?;
        }
        for chunk in cached.chunks(BATCH) {
            let mut plug = self.queue.plug();
            for ((home, image), _) in chunk {
                plug.write(self.size.lba(*home), Class::Home, image.clone());
            }
            plug.submit().wait()?;
        }
        Ok(())
    }
}

/// Divides ascending homes into runs that one command reads (P6): at most `most` blocks, no more
/// than [`GAP`] unwanted ones in a row.
fn runs(homes: &[BlockNo], most: u64) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for n in 0..homes.len() {
        match runs.last_mut() {
            Some(run)
                if homes[n].0 - homes[n - 1].0 <= GAP + 1
                    && span(&homes[run.start..=n]) <= most =>
            {
                run.end = n + 1;
            }
            _ => runs.push(n..n + 1),
        }
    }
    runs
}

/// Blocks from the first to the last of ascending homes.
fn span(homes: &[BlockNo]) -> u64 {
    match homes {
        [first, .., last] => last.0 - first.0 + 1,
        few => few.len() as u64,
    }
}

/// "blocks 1, 2, 3 and 4 more".
fn block_list(blocks: impl ExactSizeIterator<Item = BlockNo>) -> String {
    const SHOWN: usize = 16;
    let total = blocks.len();
    let names: Vec<String> = blocks.take(SHOWN).map(|b| b.to_string()).collect();
    let rest = match total.saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let noun = if total == 1 { "block" } else { "blocks" };
    format!("{noun} {}{rest}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(homes: &[u64], most: u64) -> Vec<usize> {
        let homes: Vec<BlockNo> = homes.iter().map(|&n| BlockNo(n)).collect();
        runs(&homes, most).into_iter().map(|r| r.len()).collect()
    }

    #[test]
    fn runs_cross_small_gaps_and_end_at_the_largest_transfer() {
        assert!(lengths(&[], 128).is_empty());
        assert_eq!(lengths(&[7], 128), [1]);
        assert_eq!(lengths(&[7, 8, 13, 19, 20], 128), [3, 2]);
        assert_eq!(lengths(&[0, 1, 2, 3, 4, 5], 4), [4, 2]);
        assert_eq!(lengths(&[0, 4, 8], 8), [2, 1]);
    }
}
