//! Checks the file system in an image file, after recovering it where it needs recovery.
//!
//! ```text
//!  open -> check --clean or beyond recovery--------------------------------> Checked
//!            +--needs recovery--> mount, unmount --------------------> check --^      (on the file, or on an overlay in memory)
//!                                   +--refused--> ext4: log home --> check --+
//! ```
//!
//! What may only be read is mounted read-only for that, and keeps its orphans. A clean F2FS is
//! mounted too, for reading and in memory: what no mount accepts is not clean.

mod device;
mod report;
mod watched;

use crate::overlay::Overlay;

use crate::{AnyFs, Fs, MountOptions, RecoveryReport, kind_of};
use base::{BLOCK_BYTES, BlockNo, Bytes, SECTORS_PER_BLOCK};
use block::Queue;
use blockdev::{BlockDevice, DevError, HostError, HostFile, Request};
pub use device::fsck_device;
pub use ext4::check as ext;
pub use f2fs::check as f2fs;
pub use report::{Finding, Report};
use rt::{Sim, SimConfig, WallTime};
use std::fmt::Display;
use std::sync::Arc;
use thiserror::Error;
use vfs::FsError;
use watched::Watched;

/// Why an image cannot be checked.
#[derive(Debug, Error)]
pub enum FsckError {
    /// The host refuses the file.
    #[error("{0}")]
    Host(#[from] std::io::Error),
    /// The host refuses a queue for the file.
    #[error("{0}")]
    Open(#[from] HostError),
    /// The host refused a write in the midst of recovery, which can be repeated from the beginning.
    #[error("recovery stopped: {0}")]
    Recovery(String),
}

/// The outcome of a check.
#[derive(Debug)]
pub struct Checked {
    /// The log was replayed and orphans were processed.
    pub recovered: bool,
    /// The recovery was written to the file (otherwise it happened in memory).
    pub written: bool,
    /// The kind of file system; ext4 if it cannot be told.
    pub kind: Fs,
    /// Recovery has replaced a damaged superblock by another copy.
    pub mended: bool,
    /// Why the volume could not be mounted, if it could not. If `recovered` is set nevertheless,
    /// only the log was replayed.
    pub refused: Option<String>,
    /// What recovery found and did, a line each.
    pub lines: Vec<String>,
    /// Why orphans were left, if the volume was recovered without processing them: it may not be
    /// written, or cannot be mounted.
    pub orphans_left: Option<String>,
    /// What is wrong with the volume, recovered or not.
    pub report: Report,
}

/// Checks the image in `file`. With `write` recovery changes the file, otherwise memory only. `now`
/// is the time that recovery records; `limit` is the number of findings to keep.
///
/// # Errors
/// The host refuses to read or write the file.
pub fn fsck(
    file: &HostFile,
    write: bool,
    now: WallTime,
    limit: usize,
) -> Result<Checked, FsckError> {
    fsck_beside((file, None), write, now, limit)
}

/// Like [`fsck`], for a volume of ext4 whose journal may lie on a device of its own.
///
/// # Errors
/// The host refuses to read or write a file.
pub fn fsck_beside(
    (file, journal): (&HostFile, Option<&HostFile>),
    write: bool,
    now: WallTime,
    limit: usize,
) -> Result<Checked, FsckError> {
    let head = journal.map(head_of_file);
    let size = Size::of(file.bytes());
    // A damaged magic number is for the checker to name.
    let kind = kind_of(file)?.unwrap_or(Fs::Ext4);
    let mut checked = Checked {
        kind,
        recovered: false,
        written: false,
        mended: false,
        refused: None,
        lines: Vec::new(),
        orphans_left: None,
        report: check_beside(kind, &|block| read(file, block), head, size, limit),
    };
    if !checked.report.needs_recovery {
        if kind == Fs::F2fs && checked.report.is_clean() {
            checked.report.findings.extend(mount_refusal(file, now)?);
        }
        return Ok(checked);
    }
    let device = device_of(file, write)?;
    let journal = journal.map(|file| device_of(file, write)).transpose()?;
    let outcome = recover_with(kind, (&device, journal.clone()), now, described);
    let outcome = outcome.map_err(FsckError::Recovery)?;
    if outcome.mounted.is_some() || outcome.log.is_some() {
        checked.recovered = true;
        checked.written = write;
        checked.mended = checked.report.torn_superblock;
    }
    checked.orphans_left = outcome.orphans_left.or(outcome.refused.clone());
    checked.refused = outcome.refused;
    checked.lines = outcome.mounted.unwrap_or_default();
    let before = std::mem::take(&mut checked.report);
    let read = |block| read_device(&*device, block);
    let head = journal.as_ref().map(|device| head_of(&**device));
    checked.report = check_beside(kind, &read, head, size, limit);
    if !write {
        checked.report.keep_from(before);
    }
    Ok(checked)
}

/// A volume of F2FS that is said to be clean is mounted, too, for reading: what no mount accepts is
/// not clean.
fn mount_refusal(file: &HostFile, now: WallTime) -> Result<Option<Finding>, FsckError> {
    let options = f2fs_options(true);
    let device = device_of(file, false)?;
    let outcome = in_simulation(now, move || {
        outcome_of(AnyFs::mount(Queue::new(device), options), |_| ())
    });
    let outcome = outcome.map_err(FsckError::Recovery)?;
    Ok(outcome.refused.map(Finding::refused))
}

fn f2fs_options(read_only: bool) -> MountOptions {
    MountOptions::F2fs(::f2fs::MountOptions {
        read_only,
        ..::f2fs::MountOptions::default()
    })
}

/// True if the superblock of an ext4 or ext3 says that it was unmounted and that no error was found
/// since: such a volume e2fsck does not check unless forced. Always false for F2FS, because its
/// checkpoint would have to be read for that.
///
/// # Errors
/// The host refuses to read.
pub fn says_clean(file: &HostFile) -> std::io::Result<bool> {
    use ondisk::ext4::{Incompat, State, Superblock};
    if !matches!(kind_of(file)?, Some(Fs::Ext4 | Fs::Ext3)) {
        return Ok(false);
    }
    let mut bytes = vec![0; 1024];
    file.read_exact_at(&mut bytes, 1024)?;
    Ok(Superblock::parse(&bytes).is_ok_and(|sb| {
        let state = sb.state();
        let recover = sb.incompat().has(Incompat::RECOVER);
        state.has(State::VALID) && !state.has(State::ERRORS) && !recover
    }))
}

/// The outcome of a recovery.
#[derive(Debug)]
pub struct Recovery {
    /// The kind of file system; ext4 if it cannot be told.
    pub kind: Fs,
    /// What was found and done, a line each; for F2FSJ the case of its table first.
    pub lines: Vec<String>,
    /// Why the file system refused, if it did.
    pub refused: Option<String>,
    /// Something was written, to the file or in memory.
    pub wrote: bool,
}

/// Recovers the volume in `file`: replays the log of ext4, redoes the ring of F2FSJ, rolls F2FS
/// forward. With `write` the file changes, else memory only. `journal`: the device of an external
/// journal.
///
/// # Errors
/// The host refuses to read or write a file.
pub fn recover_image(
    file: &HostFile,
    journal: Option<&HostFile>,
    write: bool,
    now: WallTime,
) -> Result<Recovery, FsckError> {
    let kind = kind_of(file)?.unwrap_or(Fs::Ext4);
    let journal = journal.map(|file| device_of(file, write)).transpose()?;
    let watched = Watched::new(device_of(file, write)?);
    let device: Arc<dyn BlockDevice> = watched.clone();
    let outcome = recover_with(kind, (&device, journal), now, described);
    let outcome = outcome.map_err(FsckError::Recovery)?;
    let of_log = || outcome.log.iter().map(log_line).collect();
    let mut lines: Vec<String> = outcome.mounted.unwrap_or_else(of_log);
    if let Some(why) = outcome.orphans_left.filter(|_| !lines.is_empty()) {
        lines.push(format!("orphans, if there are any, are left: {why}"));
    }
    Ok(Recovery {
        kind,
        lines,
        refused: outcome.refused,
        wrote: watched.is_written(),
    })
}

/// An image as a device; what is written to it stays in memory unless `write`.
fn device_of(file: &HostFile, write: bool) -> Result<Arc<dyn BlockDevice>, FsckError> {
    let below = file.another_sync()?;
    Ok(match write {
        true => Arc::new(below),
        false => Arc::new(Overlay::new(below)),
    })
}

/// What the mount has recovered.
fn described(fs: &AnyFs) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(fs.journal_recovery().map(log_line));
    if let AnyFs::Ext4(fs) = fs
        && fs.superblock_was_damaged()
    {
        lines.push("superblock: it was damaged; written anew from its backup and the log".into());
    }
    let Some(fs) = fs.f2fs() else {
        return lines;
    };
    if let Some(j) = fs.journal_recovery() {
        lines.push(j.message.clone());
        if j.epochs > 0 {
            lines.push(format!(
                "redone: {} epochs, {} groups, {} records; {} nodes made, {} freed, {} changes of nodes, {} of directory pages, {} blocks",
                j.epochs, j.groups, j.records, j.nodes_new, j.nodes_freed, j.node_changes, j.dir_changes, j.blocks
            ));
        }
        if j.truncations > 0 {
            lines.push(format!("{} truncations continued", j.truncations));
        }
    }
    if let Some(r) = fs.recovery().filter(|r| r.nodes_read > 0) {
        lines.push(format!(
            "rolled forward: {} nodes read, {} inodes ({} made), {} names, {} blocks",
            r.nodes_read, r.inodes, r.inodes_made, r.names, r.blocks
        ));
    }
    let orphans = fs.orphans_freed();
    if orphans > 0 {
        lines.push(format!("{orphans} inodes without a name freed"));
    }
    lines.extend(fs.mount_notes().iter().map(|note| format!("note: {note}")));
    lines
}

fn log_line(r: &RecoveryReport) -> String {
    let fast = match r.fast_commits {
        0 => String::new(),
        n => format!(", {n} fast commits"),
    };
    format!(
        "log: cases {}, {} transactions{fast}, {} blocks brought home",
        r.cases, r.transactions, r.blocks_replayed
    )
}

/// Checks a volume of this kind behind `read`, as it is. `limit`: findings to keep.
pub fn check<E: Display>(
    kind: Fs,
    read: &dyn Fn(BlockNo) -> Result<Bytes, E>,
    blocks: u64,
    limit: usize,
) -> Report {
    let size = Size { blocks, tail: 0 };
    check_beside(kind, read, None, size, limit)
}

/// How long a device is: whole blocks of 4 KiB, and the bytes behind them. Blocks of a volume may
/// be shorter.
#[derive(Clone, Copy)]
struct Size {
    blocks: u64,
    tail: usize,
}

impl Size {
    fn of(bytes: u64) -> Size {
        Size {
            blocks: bytes / BLOCK_BYTES as u64,
            tail: (bytes % BLOCK_BYTES as u64) as usize,
        }
    }
}

/// The same; `journal`: the first 8 KiB of the device of an external journal.
fn check_beside<E: Display>(
    kind: Fs,
    read: &dyn Fn(BlockNo) -> Result<Bytes, E>,
    journal: Option<Bytes>,
    size: Size,
    limit: usize,
) -> Report {
    match kind {
        Fs::Ext4 | Fs::Ext3 => {
            let mut options = ext::Options::new(size.blocks);
            options.tail = size.tail;
            options.limit = limit;
            options.external_journal = journal;
            ext::check(read, &options).into()
        }
        Fs::F2fs => {
            let mut options = f2fs::Options::new(size.blocks);
            options.limit = limit;
            f2fs::check(read, &options).into()
        }
    }
}

fn read(file: &HostFile, block: BlockNo) -> Result<Bytes, std::io::Error> {
    let mut bytes = vec![0; BLOCK_BYTES];
    let at = block.0 * BLOCK_BYTES as u64;
    // The last block may be incomplete.
    let there = file.bytes().saturating_sub(at).min(BLOCK_BYTES as u64);
    file.read_exact_at(&mut bytes[..there as usize], at)?;
    Ok(bytes.into())
}

/// The first 8 KiB of an image; of one that cannot be read, none: then the check says what it
/// misses.
fn head_of_file(file: &HostFile) -> Bytes {
    let mut bytes = vec![0; 2 * BLOCK_BYTES];
    match file.read_exact_at(&mut bytes, 0) {
        Ok(()) => bytes.into(),
        Err(_) => Bytes::new(),
    }
}

/// The same of a device.
fn head_of(device: &dyn BlockDevice) -> Bytes {
    let ticket = device.submit(Request::read(BlockNo(0).lba(), 2 * SECTORS_PER_BLOCK));
    device
        .wait(ticket)
        .map_or_else(|_| Bytes::new(), |reply| reply.into_bytes())
}

fn read_device(device: &dyn BlockDevice, block: BlockNo) -> Result<Bytes, DevError> {
    let left = device.caps().sectors.saturating_sub(block.lba().0);
    let sectors = left.min(SECTORS_PER_BLOCK);
    let ticket = device.submit(Request::read(block.lba(), sectors));
    let mut bytes = device.wait(ticket)?.into_bytes().to_vec();
    bytes.resize(BLOCK_BYTES, 0);
    Ok(bytes.into())
}

/// Recovers the volume on a device by mounting and unmounting it. Answers why the file system
/// refused, if it did; `now` is the time that recovery records.
///
/// # Errors
/// The device refuses a request.
pub fn recover_device(
    kind: Fs,
    device: &Arc<dyn BlockDevice>,
    now: WallTime,
) -> Result<Option<String>, String> {
    Ok(recover_with(kind, (device, None), now, |_| ())?.refused)
}

/// The device of a volume, and that of its external journal.
type Devices = (Arc<dyn BlockDevice>, Option<Arc<dyn BlockDevice>>);

/// What came of a recovery.
struct Outcome<R> {
    /// What was seen of the volume while it was mounted.
    mounted: Option<R>,
    /// Why it could not be mounted.
    refused: Option<String>,
    /// What was brought home all the same.
    log: Option<RecoveryReport>,
    /// Why it was mounted read-only, if it was.
    orphans_left: Option<String>,
}

/// Mounts, looks, unmounts; of an ext4 that cannot be mounted at least the log goes home.
fn recover_with<R: Send + 'static>(
    kind: Fs,
    (device, journal): (&Arc<dyn BlockDevice>, Option<Arc<dyn BlockDevice>>),
    now: WallTime,
    look: fn(&AnyFs) -> R,
) -> Result<Outcome<R>, String> {
    let devices = (device.clone(), journal);
    in_simulation(now, move || match kind {
        Fs::Ext4 | Fs::Ext3 => recover_ext(&devices, look),
        Fs::F2fs => recover_f2fs(&devices.0, look),
    })
}

/// Does it in a world of its own, whose clock begins at `now`.
fn in_simulation<R: Send + 'static>(
    now: WallTime,
    work: impl FnOnce() -> Result<Outcome<R>, FsError> + Send + 'static,
) -> Result<Outcome<R>, String> {
    let mut config = SimConfig::seeded(0);
    config.epoch = now;
    config.quiet = true;
    config.step_limit = u64::MAX;
    let outcome = Sim::new(config).run(work);
    match (outcome.first_failure, outcome.value) {
        (_, Some(Ok(outcome))) => Ok(outcome),
        (_, Some(Err(FsError::Io { what, .. }))) => Err(what),
        (_, Some(Err(e))) => Ok(refusal(e.to_string())),
        (Some(failure), None) => Ok(refusal(failure.to_string())),
        (None, None) => Ok(refusal("it did not end".into())),
    }
}

fn refusal<R>(why: String) -> Outcome<R> {
    Outcome {
        mounted: None,
        refused: Some(why),
        log: None,
        orphans_left: None,
    }
}

/// Looks and unmounts.
fn outcome_of<R>(
    mounted: Result<AnyFs, FsError>,
    look: fn(&AnyFs) -> R,
) -> Result<Outcome<R>, FsError> {
    let fs = mounted?;
    let seen = look(&fs);
    fs.seam().unmount()?;
    Ok(Outcome {
        mounted: Some(seen),
        refused: None,
        log: None,
        orphans_left: None,
    })
}

/// A volume that may only be read (quota files, feature `ro`) is looked at as its last checkpoint
/// has it: nothing can be made of what was synced behind it.
fn recover_f2fs<R>(
    device: &Arc<dyn BlockDevice>,
    look: fn(&AnyFs) -> R,
) -> Result<Outcome<R>, FsError> {
    let mount = |read_only| AnyFs::mount(Queue::new(device.clone()), f2fs_options(read_only));
    match outcome_of(mount(false), look) {
        Err(why @ FsError::Incompatible { .. }) => Ok(Outcome {
            orphans_left: Some(why.to_string()),
            ..outcome_of(mount(true), look)?
        }),
        other => other,
    }
}

/// What a mount refuses is as it was, and then so much is done as can be: what may only be read is
/// recovered without its orphans, and behind damage the log alone goes home.
fn recover_ext<R>(devices: &Devices, look: fn(&AnyFs) -> R) -> Result<Outcome<R>, FsError> {
    let queues = || {
        let (device, journal) = devices.clone();
        (Queue::new(device), journal.map(Queue::new))
    };
    let mount = |options| {
        let (queue, journal) = queues();
        ext4::Ext4::mount_with_journal(queue, journal, options).map(AnyFs::Ext4)
    };
    let mut options = ext4::MountOptions::default();
    let mut outcome = outcome_of(mount(options.clone()), look);
    if let Err(why @ FsError::Incompatible { .. }) = outcome {
        options.read_only = true;
        outcome = outcome_of(mount(options.clone()), look).map(|outcome| Outcome {
            orphans_left: Some(why.to_string()),
            ..outcome
        });
    }
    let why = match outcome {
        Err(why @ (FsError::Corrupt { .. } | FsError::Incompatible { .. })) => why.to_string(),
        other => return other,
    };
    let (queue, journal) = queues();
    let log = match ext4::Ext4::recover_log(queue, journal, options) {
        Err(e @ FsError::Io { .. }) => return Err(e),
        // The log is refused for the reason that the mount was.
        Err(_) => None,
        Ok(log) => log,
    };
    Ok(Outcome {
        log,
        ..refusal(why)
    })
}
