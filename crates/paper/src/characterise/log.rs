//! Reads transactions from the writes that went to the log.
//!
//! Blocks wait in `fresh` until all of the next transaction are there. A block that was read is
//! taken out, so that an older life of the ring is never taken for a newer one. While the log is
//! empty no place is known for the next transaction; the write of the log's superblock that makes
//! it non-empty tells where the log begins.

use super::transaction::Part;
use super::{Layout, Logged, ReadError, Span, Transaction};
use base::{BLOCK_BYTES, BlockNo, Bytes, SECTOR_BYTES, SECTORS_PER_BLOCK, Tid};
use ondisk::jbd2::{
    BlockKind, CoalitionPart, CoalitionRecord, Commit, DescriptorReader, Format, Header, Revoke,
    SUPERBLOCK_BYTES, Superblock, full_image_checksum, transaction_checksum, unescape,
};
use rig::Class;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Reads the log from the writes as they pass.
pub struct LogReader {
    layout: Arc<Layout>,
    /// The journal superblock after the writes so far.
    superblock: Vec<u8>,
    /// Where the log goes on, by that superblock; `None` while the log is empty.
    ring: Option<Ring>,
    /// Blocks that belong to no transaction yet, with the number of the command that wrote them.
    fresh: BTreeMap<u32, Fresh>,
}

/// A block that was written to the log.
#[derive(Clone, Debug)]
struct Fresh {
    bytes: Bytes,
    class: Class,
    command: usize,
}

/// Where the next transaction begins.
#[derive(Clone, Debug)]
struct Ring {
    format: Format,
    first: u32,
    end: u32,
    next: u32,
    tid: Tid,
}

impl Ring {
    fn after(&self, at: u32, blocks: u32) -> u32 {
        let size = self.end - self.first;
        self.first + ((at - self.first) + blocks % size) % size
    }
}

impl LogReader {
    /// A reader of a log whose superblock is `superblock` now. It skips what is in the log already.
    ///
    /// # Errors
    /// This is no journal superblock, or the log is not empty.
    pub fn new(layout: Arc<Layout>, superblock: &[u8]) -> Result<LogReader, ReadError> {
        let sb = Superblock::parse(superblock)?;
        if !sb.is_clean() {
            let what = "the log is not empty at the mount: recover the file system first";
            return Err(ReadError::Layout(what.into()));
        }
        Ok(LogReader {
            layout,
            superblock: superblock.to_vec(),
            ring: None,
            fresh: BTreeMap::new(),
        })
    }

    /// A reader of a log that holds transactions; it begins where the superblock says.
    ///
    /// # Errors
    /// This is no journal superblock, or the log is empty.
    pub fn within(layout: Arc<Layout>, superblock: &[u8]) -> Result<LogReader, ReadError> {
        let mut reader = LogReader {
            layout,
            superblock: superblock.to_vec(),
            ring: None,
            fresh: BTreeMap::new(),
        };
        reader.read_superblock()?;
        match reader.ring {
            Some(_) => Ok(reader),
            None => Err(ReadError::Layout("the log is empty".into())),
        }
    }

    /// The format of the log, once it has one.
    pub fn format(&self) -> Option<Format> {
        self.ring.as_ref().map(|ring| ring.format)
    }

    /// Takes a piece of command number `command`; a piece outside the log is ignored.
    ///
    /// # Errors
    /// A log block is not written whole, or the superblock is damaged.
    pub fn take(&mut self, span: &Span, command: usize) -> Result<(), ReadError> {
        let Some((at, sector)) = self.layout.log_sector(span.lba) else {
            return Ok(());
        };
        let Some(bytes) = &span.bytes else {
            let what = "a write to the log was kept without its bytes".into();
            return Err(ReadError::Log { at, what });
        };
        if at == 0 {
            return self.take_superblock(sector, bytes);
        }
        if sector != 0 || !bytes.len().is_multiple_of(BLOCK_BYTES) {
            let what = format!(
                "{} bytes at sector {sector} are no whole blocks",
                bytes.len()
            );
            return Err(ReadError::Log { at, what });
        }
        for n in 0..bytes.len() / BLOCK_BYTES {
            let home = BlockNo(span.lba.0 / SECTORS_PER_BLOCK + n as u64);
            let Some(at) = self.layout.log_block(home) else {
                let what = "a write runs out of the log".into();
                return Err(ReadError::Log { at, what });
            };
            let block = Fresh {
                bytes: bytes.slice(n * BLOCK_BYTES..(n + 1) * BLOCK_BYTES),
                class: span.class,
                command,
            };
            self.fresh.insert(at, block);
        }
        Ok(())
    }

    fn take_superblock(&mut self, sector: u64, bytes: &[u8]) -> Result<(), ReadError> {
        let from = sector as usize * SECTOR_BYTES;
        let end = (from + bytes.len()).min(self.superblock.len());
        self.superblock[from.min(end)..end].copy_from_slice(&bytes[..end - from.min(end)]);
        self.read_superblock()
    }

    fn read_superblock(&mut self) -> Result<(), ReadError> {
        let sb =
            Superblock::parse(&self.superblock[..SUPERBLOCK_BYTES.min(self.superblock.len())])?;
        if sb.is_clean() {
            self.ring = None;
            self.fresh.clear();
            return Ok(());
        }
        let format = Format::of(&sb);
        if format.block_bytes != BLOCK_BYTES || sb.blocks_count() > self.layout.log_blocks() {
            let what = format!(
                "a log of {} blocks of {} bytes in a file of {} blocks of {BLOCK_BYTES}",
                sb.blocks_count(),
                format.block_bytes,
                self.layout.log_blocks()
            );
            return Err(ReadError::Layout(what));
        }
        match &mut self.ring {
            Some(ring) => ring.format = format,
            None => {
                self.ring = Some(Ring {
                    format,
                    first: sb.first(),
                    end: sb.log_end(),
                    next: sb.start(),
                    tid: sb.sequence(),
                });
            }
        }
        Ok(())
    }

    /// The next transaction, if all its blocks have passed (characterise-X1).
    ///
    /// # Errors
    /// The blocks are no transaction, or a checksum in them is wrong (characterise-X2).
    pub fn next_transaction(&mut self) -> Result<Option<Transaction>, ReadError> {
        let Some(ring) = &self.ring else {
            return Ok(None);
        };
        let mut parse = Parse {
            ring,
            fresh: &self.fresh,
            used: 0,
            out: Transaction::new(ring.tid),
            parts: Vec::new(),
        };
        if !parse.run()? {
            return Ok(None);
        }
        let (used, transaction) = (parse.used, parse.out);
        let ring = self.ring.as_mut().expect("seen above");
        for n in 0..used {
            self.fresh.remove(&ring.after(ring.next, n));
        }
        ring.next = ring.after(ring.next, used);
        ring.tid = Tid(ring.tid.0.wrapping_add(1));
        Ok(Some(transaction))
    }

    /// Number of blocks that belong to no transaction yet.
    pub fn unread(&self) -> usize {
        self.fresh.len()
    }
}

/// A full image that follows a coalition part: its home, whether it is escaped, its checksum.
type FullImage = (BlockNo, bool, u32);

/// One attempt to read the next transaction.
struct Parse<'a> {
    ring: &'a Ring,
    fresh: &'a BTreeMap<u32, Fresh>,
    used: u32,
    out: Transaction,
    /// The coalition parts so far, each with the full images that it announces.
    parts: Vec<(Bytes, Vec<FullImage>)>,
}

impl Parse<'_> {
    fn at(&self) -> u32 {
        self.ring.after(self.ring.next, self.used)
    }

    fn bad<T>(&self, what: String) -> Result<T, ReadError> {
        Err(ReadError::Log {
            at: self.at(),
            what,
        })
    }

    /// Takes the next block, which is `part` of the transaction, once it has passed.
    fn block(&mut self, part: Part) -> Option<Bytes> {
        let fresh = self.fresh.get(&self.at())?;
        self.out.blocks.push((part, fresh.command));
        self.used += 1;
        Some(fresh.bytes.clone())
    }

    /// Takes the next block as a logged image.
    fn image(&mut self) -> Option<(Bytes, bool)> {
        let data = self.fresh.get(&self.at())?.class == Class::JournalData;
        Some((self.block(Part::Image)?, data))
    }

    fn peek(&self) -> Option<&Bytes> {
        self.fresh.get(&self.at()).map(|fresh| &fresh.bytes)
    }

    /// Reads the transaction; true if it is complete.
    fn run(&mut self) -> Result<bool, ReadError> {
        let format = self.ring.format;
        while let Some(next) = self.peek() {
            if self.used >= self.ring.end - self.ring.first {
                return self.bad("a transaction longer than the log".into());
            }
            let header = Header::parse(next)?;
            if header.tid != self.ring.tid {
                let (found, wanted) = (header.tid, self.ring.tid);
                return self.bad(format!("transaction {found} where {wanted} should be"));
            }
            let whole = match header.kind {
                BlockKind::Descriptor => self.descriptor(&format)?,
                BlockKind::Revoke => self.revoke(&format)?,
                BlockKind::Coalition => match self.coalition(&format)? {
                    End::Here => return Ok(true),
                    End::Later => true,
                    End::Missing => false,
                },
                BlockKind::Commit => return self.commit(&format).map(|()| true),
                BlockKind::SuperblockV1 | BlockKind::SuperblockV2 => {
                    return self.bad("a superblock inside the log".into());
                }
            };
            if !whole {
                return Ok(false);
            }
        }
        Ok(false)
    }

    fn descriptor(&mut self, format: &Format) -> Result<bool, ReadError> {
        let Some(block) = self.block(Part::Descriptor) else {
            return Ok(false);
        };
        let reader = DescriptorReader::parse(*format, &block)?;
        reader.verify()?;
        for tag in reader {
            let Some((logged, data)) = self.image() else {
                return Ok(false);
            };
            tag.verify(format, self.ring.tid, &logged)?;
            let bytes = home_image(logged, tag.escaped);
            self.out.logged.push(Logged::Image {
                home: tag.block,
                bytes,
                data,
            });
        }
        Ok(true)
    }

    fn revoke(&mut self, format: &Format) -> Result<bool, ReadError> {
        let Some(block) = self.block(Part::Revoke) else {
            return Ok(false);
        };
        Revoke::verify(format, &block)?;
        self.out
            .revoked
            .extend(Revoke::parse(format, &block)?.blocks);
        Ok(true)
    }

    fn commit(&mut self, format: &Format) -> Result<(), ReadError> {
        let block = self.block(Part::Commit).expect("its header was read");
        Commit::verify(format, &block)?;
        Commit::parse(format, &block)?;
        let last = block.iter().rposition(|b| *b != 0).map_or(0, |n| n + 1);
        self.out.commit_bytes = Some(last);
        Ok(())
    }

    fn coalition(&mut self, format: &Format) -> Result<End, ReadError> {
        let block = self.block(Part::Coalition).expect("its header was read");
        CoalitionPart::verify(format, &block)?;
        let part = CoalitionPart::parse(format, &block)?;
        if usize::from(part.part) != self.parts.len() {
            let (found, wanted) = (part.part, self.parts.len());
            return self.bad(format!("part {found} where part {wanted} should be"));
        }
        let used = base::bytes::get_be32(&block, 0x14) as u64;
        self.out.record_bytes += used - ondisk::jbd2::COALITION_HEADER_BYTES as u64;
        let mut fulls = Vec::new();
        for record in part.records {
            match record {
                CoalitionRecord::Delta {
                    block,
                    post_crc,
                    segments,
                    ..
                } => self.out.logged.push(Logged::Delta {
                    home: block,
                    post_crc,
                    segments,
                }),
                CoalitionRecord::Full {
                    block,
                    escaped,
                    crc,
                } => fulls.push((block, escaped, crc)),
                CoalitionRecord::Revoke { blocks } => self.out.revoked.extend(blocks),
            }
        }
        self.parts.push((block, fulls));
        match part.last {
            None => Ok(End::Later),
            Some(end) => self.images(format, end.self_commit, end.transaction_crc),
        }
    }

    /// Takes the full images behind the last part.
    fn images(
        &mut self,
        format: &Format,
        self_commit: bool,
        transaction_crc: u32,
    ) -> Result<End, ReadError> {
        let parts = std::mem::take(&mut self.parts);
        let tid = self.ring.tid;
        let mut images = Vec::new();
        for &(home, escaped, crc) in parts.iter().flat_map(|(_, fulls)| fulls) {
            let Some((logged, data)) = self.image() else {
                return Ok(End::Missing);
            };
            if full_image_checksum(format, tid, &logged) != crc {
                return self.bad(format!("the image of block {home} has another checksum"));
            }
            images.push(logged.clone());
            let bytes = home_image(logged, escaped);
            self.out.logged.push(Logged::Image { home, bytes, data });
        }
        let computed = transaction_checksum(
            format,
            tid,
            parts.iter().map(|(part, _)| &part[..]),
            images.iter().map(|image| &image[..]),
        );
        if computed != transaction_crc {
            return self.bad(format!("transaction {tid} has another checksum"));
        }
        Ok(if self_commit { End::Here } else { End::Later })
    }
}

/// What follows a coalition part.
enum End {
    /// Nothing follows: the transaction is complete.
    Here,
    /// More blocks of the transaction follow.
    Later,
    /// The next block has not passed yet.
    Missing,
}

fn home_image(logged: Bytes, escaped: bool) -> Bytes {
    if !escaped {
        return logged;
    }
    let mut image = logged.to_vec();
    unescape(&mut image);
    image.into()
}
