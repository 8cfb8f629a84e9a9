//! The superblock on the device: two copies in blocks 0 and 1, either of which is enough to mount.
//!
//! Invariants:
//! - U1 copies are written one at a time, each durable before the next one begins: a cut leaves one
//!   of them whole;
//! - U2 a mount for writing rewrites a damaged copy, from the good one, before anything else is
//!   written.

use crate::F2fs;
use crate::fault;
use crate::journal::ring::guard;
use crate::options::MountOptions;
use base::{BLOCK_BYTES, BlockNo, SECTORS_PER_BLOCK};
use block::{Class, Queue};
use fscore::{FsError, FsResult};
use ondisk::Folding;
use ondisk::f2fs::{Features, Geometry, Superblock};
use std::sync::Arc;

/// A superblock that is sound, and what became of the other copy.
pub(crate) struct Found {
    pub sb: Superblock,
    pub geo: Geometry,
    /// The damaged copy (0 or 1), and what is wrong with it.
    pub bad: Option<(u64, String)>,
    /// Both copies are sound, and their contents differ.
    pub differ: bool,
}

/// Reads both copies; the first sound one counts.
///
/// # Errors
/// Neither is sound: what is wrong with the first; I/O if none could be read.
pub(crate) fn read(queue: &Queue) -> FsResult<Found> {
    match (read_copy(queue, 0), read_copy(queue, 1)) {
        (Ok((sb, geo)), second) => {
            let differ = second.as_ref().is_ok_and(|(other, _)| *other != sb);
            let bad = second.err().map(|e| (1, e.to_string()));
            Ok(Found {
                sb,
                geo,
                bad,
                differ,
            })
        }
        (Err(e), Ok((sb, geo))) => {
            let bad = Some((0, e.to_string()));
            Ok(Found {
                sb,
                geo,
                bad,
                differ: false,
            })
        }
        (Err(e), Err(_)) => Err(e),
    }
}

fn read_copy(queue: &Queue, copy: u64) -> FsResult<(Superblock, Geometry)> {
    let device = queue.caps().sectors / SECTORS_PER_BLOCK;
    if copy >= device {
        return Err(FsError::corrupt(format!(
            "the device has {device} blocks of 4096 bytes: no F2FS fits"
        )));
    }
    let at = BlockNo(copy);
    let block = queue.read(at.lba(), SECTORS_PER_BLOCK);
    let block = block.map_err(fault::device("reading the superblock"))?;
    let sb = Superblock::in_block(&block).map_err(|e| fault::corrupt(e.at_block(at)))?;
    let geo = Geometry::new(&sb, device).map_err(|e| fault::corrupt(e.at_block(at)))?;
    Ok((sb, geo))
}

/// Features that a mount may not meet at all.
const REFUSED: Features = Features(Features::BLKZONED.0 | Features::DEVICE_ALIAS.0);
/// Features that a mount may read, not write: it would leave wrong quota files, or contradict the
/// maker's wish.
const READ_ONLY: Features = Features(Features::QUOTA_INO.0 | Features::RO.0);

/// How the volume compares names in directories without regard to case; `None` without feature
/// `casefold`.
///
/// # Errors
/// `Incompatible`: an encoding that is not known, as in Linux.
pub(crate) fn folding(sb: &Superblock) -> FsResult<Option<Arc<Folding>>> {
    if !sb.features().has(Features::CASEFOLD) {
        return Ok(None);
    }
    let [low, high] = sb.encoding().to_le_bytes();
    let [flags_low, flags_high] = sb.encoding_flags().to_le_bytes();
    match Folding::new([low, high, flags_low, flags_high]) {
        Some(folding) => Ok(Some(Arc::new(folding))),
        None => Err(FsError::incompatible(format!(
            "feature casefold with encoding {}: only 1 (utf8-12.1) is known",
            sb.encoding()
        ))),
    }
}

/// Refuses by name what cannot be mounted. Files that are compressed, encrypted or verified are
/// refused one by one where they are met.
///
/// # Errors
/// `Incompatible`.
pub(crate) fn check_features(sb: &Superblock, options: &MountOptions) -> FsResult<()> {
    let features = sb.features();
    let unknown = features.without(Features::KNOWN) | Features(features.0 & REFUSED.0);
    if !unknown.is_empty() {
        return Err(FsError::incompatible(format!("feature {unknown}")));
    }
    if let Some(path) = (0..8)
        .map(|n| sb.device_path(n))
        .find(|path| !path.is_empty())
    {
        return Err(FsError::incompatible(format!(
            "the volume lies on several devices (one is `{}`)",
            String::from_utf8_lossy(path)
        )));
    }
    let quota = sb.quota_inos().iter().any(|nid| nid.0 != 0);
    let mut unwritable = Features(features.0 & READ_ONLY.0);
    if !quota {
        unwritable = unwritable.without(Features::QUOTA_INO);
    }
    let sealed = sb.segment_count_ssa() == 0;
    if guard::is_up(sb) && !sealed {
        unwritable = unwritable.without(Features::RO);
    }
    if !unwritable.is_empty() && !options.read_only {
        return Err(FsError::incompatible(format!(
            "feature {unwritable} cannot be written; mount read-only (option `ro`)"
        )));
    }
    Ok(())
}

/// Writes one copy, and waits until it is durable.
fn write_copy(queue: &Arc<Queue>, sb: &mut Superblock, copy: u64) -> FsResult<()> {
    let at = BlockNo(copy).lba();
    let old = queue.read(at, SECTORS_PER_BLOCK);
    let mut block = match old {
        Ok(bytes) => bytes.to_vec(),
        Err(_) => vec![0; BLOCK_BYTES],
    };
    sb.encode(&mut block);
    queue
        .write_fua(at, Class::Home, block.into())
        .map_err(fault::device("writing the superblock"))
}

impl F2fs {
    /// U2: brings a damaged copy back.
    pub(crate) fn mend_superblock(&self, copy: u64) -> FsResult<()> {
        write_copy(&self.queue, &mut self.sb.lock(), copy)
    }

    /// Changes the superblock, in memory and both copies: the backup first, as Linux does.
    pub(crate) fn change_superblock(&self, change: impl FnOnce(&mut Superblock)) -> FsResult<()> {
        let mut sb = self.sb.lock();
        change(&mut sb);
        // U1.
        write_copy(&self.queue, &mut sb, 1)?;
        write_copy(&self.queue, &mut sb, 0)
    }
}

/// Number of the reason "a write failed" for which checkpoints stop (`s_stop_reason`).
const STOP_WRITE_FAIL: usize = 3;

impl F2fs {
    /// Notes in the superblock that a failed write stopped checkpoints. A device that fails this
    /// too says no more than it did.
    pub(crate) fn record_stop(&self) {
        let _ = self.change_superblock(|sb| sb.record_stop(STOP_WRITE_FAIL));
    }
}
