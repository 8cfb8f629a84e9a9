//! Fast commits: changes that Linux appended to the log after the last full commit. Recovery
//! replays the full commits, and the file system turns the fast commits into images of blocks.
//!
//! - Z1: these images are logged as one more transaction after those that were replayed, with the
//!   number that the area of fast commits names. Its commit block is written last, when all before
//!   it is non-volatile; until then its place, and that of its first block, are cleared, so that
//!   nothing of a torn transaction of the same number counts. From then on the area no longer
//!   counts, because the log has that transaction itself: a cut leaves a log that asks for the fast
//!   commits, or one that holds their result. A cut in the middle of a block is a cut before it: of
//!   a descriptor because no commit block follows, and of the commit block as in any commit.
//! - Z2: only then do these images go home, and after a flush the log is marked clean
//!   (journal-replay-P3).
//! - Z3: where the ring has no room for them behind the full commits, these are brought home first,
//!   durably, and the log begins behind them from then on, which still makes the area count. One
//!   changed range of a file may lead to as many images as its whole mapping has nodes, so that the
//!   transaction that ran may have needed far less room.

use super::insure::InRing;
use super::replay::Images;
use super::scan::Scanned;
use crate::commit::full_transaction;
use crate::log_super::AREA_BYTES_MAX;
use crate::log_super::LogSuper;
use crate::space::Limits;
use crate::track::Logged;
use crate::transaction::{Image, Kind};
use crate::words::WordMap;
use crate::{JournalError, LogBlock, Record};
use base::bytes::{get_le16, get_le32};
use base::{BlockSize, Bytes, Tid};
use block::{Class, Queue};
use std::sync::Arc;

/// Home writes under one plug.
const BATCH: usize = 64;

/// An area of fast commits.
#[derive(Clone, Copy)]
pub struct FastArea<'a> {
    /// Its bytes, whole blocks.
    pub bytes: &'a [u8],
    /// Bytes of a block.
    pub block_bytes: usize,
    /// The transaction behind the last full commit, which the fast commits stand for.
    pub tid: Tid,
}

/// The area of fast commits, if it begins with a head that names transaction `end`.
pub(super) fn area_of(
    queue: &Queue,
    log: &LogSuper,
    end: Tid,
) -> Result<Option<Vec<u8>>, JournalError> {
    const TAG_HEAD: u16 = 9;
    let sb = &log.sb;
    if sb.fast_commit_blocks() < 2 {
        return Ok(None);
    }
    let size = log.place.block_size();
    let read = |n: u32| queue.read(log.place.lba(LogBlock(n)), size.sectors());
    let head = read(sb.fast_commit_first())?;
    // TLV {le16 tag, le16 length}, then for a head {le32 features, le32 tid}.
    if get_le16(&head, 0) != TAG_HEAD || Tid(get_le32(&head, 8)) != end {
        return Ok(None);
    }
    let bytes = u64::from(sb.fast_commit_blocks()) * size.bytes() as u64;
    if bytes > AREA_BYTES_MAX {
        return Err(JournalError::Incompatible(format!(
            "the area of fast commits has {bytes} bytes; at most {AREA_BYTES_MAX} are read; run e2fsck -f"
        )));
    }
    let mut area = head.to_vec();
    for n in sb.fast_commit_first() + 1..sb.blocks_count() {
        area.extend_from_slice(&read(n)?);
    }
    Ok(Some(area))
}

/// Refuses if the ring has no room for so many images behind `used` blocks of full commits.
pub(super) fn check_room(log: &LogSuper, used: u32, images: usize) -> Result<(), JournalError> {
    let ring = log.sb.log_end() - log.sb.first();
    let count = u32::try_from(images).unwrap_or(u32::MAX);
    let room = ring - used;
    let need = match count <= room {
        true => Limits::new(&log.sb.format(), ring, Record::Full).log_blocks(count, 0),
        false => count,
    };
    if need <= room {
        return Ok(());
    }
    Err(JournalError::Incompatible(format!(
        "the fast commits of the log change {images} blocks, and it has room for {room} log blocks, not {need}; run e2fsck -f"
    )))
}

/// Z3. All full commits are home, durably: the log begins behind them.
pub(super) fn begin_behind(
    queue: &Arc<Queue>,
    log: &mut LogSuper,
    scanned: &Scanned,
) -> Result<(), JournalError> {
    log.write(queue, scanned.end, Some(scanned.end_at))
}

/// Makes these blocks durable: in the log (Z1), then at home (Z2).
pub(super) fn write(
    (queue, log_queue): (&Arc<Queue>, &Arc<Queue>),
    log: &LogSuper,
    scanned: &Scanned,
    images: &Images,
) -> Result<(), JournalError> {
    if images.is_empty() {
        return Ok(());
    }
    log_images(log_queue, log, scanned, images)?;
    write_home(queue, log.place.block_size(), images)
}

/// Z1.
fn log_images(
    queue: &Arc<Queue>,
    log: &LogSuper,
    scanned: &Scanned,
    images: &Images,
) -> Result<(), JournalError> {
    let image = |(block, bytes): &(base::BlockNo, Bytes)| Image {
        block: *block,
        kind: Kind::Metadata,
        bytes: bytes.clone(),
        basis: None,
        logged: Logged::Full,
        changed: WordMap::ALL,
    };
    let images: Vec<Image> = images.iter().map(image).collect();
    let now = rt::wall();
    let time = (u64::try_from(now.secs).unwrap_or(0), now.nanos).max(scanned.last_commit);
    let blocks = full_transaction(&log.sb.format(), (scanned.end, time), &images);
    let writer = InRing {
        queue,
        log,
        start: scanned.end_at,
    };
    let last = blocks.len() - 1;
    writer.clear(&[0, last])?;
    writer.put(&blocks, 1..last)?;
    writer.put(&blocks, 0..1)?;
    writer.put(&blocks, last..last + 1)
}

/// Z2.
fn write_home(queue: &Arc<Queue>, size: BlockSize, images: &Images) -> Result<(), JournalError> {
    for chunk in images.chunks(BATCH) {
        let mut plug = queue.plug();
        for (home, image) in chunk {
            plug.write(size.lba(*home), Class::Home, image.clone());
        }
        plug.submit().wait()?;
    }
    Ok(queue.flush()?)
}
