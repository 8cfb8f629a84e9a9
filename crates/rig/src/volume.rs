//! Opens the file system in an image file in the real world, to read it or to change it.

use crate::overlay::Overlay;
use crate::{AnyFs, Fs, MountOptions};
use base::BLOCK_BYTES;
use base::bytes::{get_le16, get_le32};
use block::Queue;
use blockdev::{BlockDevice, HostError, HostFile};
use ondisk::ext4::{Compat, Superblock as Ext4Superblock};
use ondisk::f2fs::{SUPERBLOCK_HIDDEN as F2FS_HIDDEN, SUPERBLOCK_MAGIC as F2FS_MAGIC};
use std::io;
use std::sync::Arc;
use thiserror::Error;
use vfs::{FsError, Vfs, WritebackPolicy};

/// Where superblocks lie: byte 1024 of a block.
const SUPERBLOCK_AT: usize = 1024;
const EXT_MAGIC_AT: usize = SUPERBLOCK_AT + 0x38;
const EXT_MAGIC: u16 = 0xEF53;

/// Why a volume cannot be opened.
#[derive(Debug, Error)]
pub enum VolumeError {
    /// The host refuses the file.
    #[error("{0}")]
    Host(#[from] io::Error),
    /// The host refuses a queue for the file.
    #[error("{0}")]
    Open(#[from] HostError),
    /// The image has no superblock of a known file system.
    #[error("holds no ext4, ext3 or F2FS: no superblock has their magic number")]
    Unknown,
    /// A number that no inode of the volume has.
    #[error("there is no inode {0}")]
    NoInode(String),
    /// The file system refuses.
    #[error("{0}")]
    Fs(#[from] FsError),
}

/// The kind of file system in an image, by the magic number of its superblock (for F2FS also of the
/// second copy).
///
/// # Errors
/// The host refuses to read.
pub fn kind_of(file: &HostFile) -> io::Result<Option<Fs>> {
    let len = file.bytes();
    let mut head = vec![0; (len.min(2 * BLOCK_BYTES as u64)) as usize];
    file.read_exact_at(&mut head, 0)?;
    Ok(kind_of_head(&head))
}

/// The kind of file system, by the first 8192 bytes of an image; missing bytes count as zeros.
pub fn kind_of_head(head: &[u8]) -> Option<Fs> {
    let mut head = head.to_vec();
    head.resize(2 * BLOCK_BYTES, 0);
    // A volume whose journal may not be empty may be hidden from other implementations.
    let is_f2fs = |at: usize| {
        let magic = get_le32(&head, at + SUPERBLOCK_AT);
        magic == F2FS_MAGIC || magic == F2FS_HIDDEN
    };
    if is_f2fs(0) || is_f2fs(BLOCK_BYTES) {
        return Some(Fs::F2fs);
    }
    if get_le16(&head, EXT_MAGIC_AT) != EXT_MAGIC {
        return None;
    }
    Some(kind_of_ext(&head[SUPERBLOCK_AT..]))
}

/// ext3 is what has a log and none of the features of ext4.
fn kind_of_ext(superblock: &[u8]) -> Fs {
    use ondisk::ext4::{Incompat, RoCompat};
    let of_ext4 = |sb: Ext4Superblock| {
        let incompat = [Incompat::EXTENTS, Incompat::WIDE_BLOCKS, Incompat::FLEX_BG];
        let ro = [
            RoCompat::METADATA_CSUM,
            RoCompat::GDT_CSUM,
            RoCompat::HUGE_FILE,
        ];
        !sb.compat().has(Compat::HAS_JOURNAL)
            || incompat.into_iter().any(|f| sb.incompat().has(f))
            || ro.into_iter().any(|f| sb.ro_compat().has(f))
    };
    match Ext4Superblock::parse(superblock).map(of_ext4) {
        Ok(false) => Fs::Ext3,
        Ok(true) | Err(_) => Fs::Ext4,
    }
}

/// When a mount writes back, by the size of its cache.
fn policy_of(options: &MountOptions) -> WritebackPolicy {
    let pages = options.cache_pages();
    WritebackPolicy {
        background_pages: Some(pages / 4),
        // Both file systems by themselves hold a heavy writer at half of the cache, where it writes
        // as fast as the device takes the data. The pauses begin behind that.
        limit_pages: Some(pages * 7 / 8),
        ..WritebackPolicy::default()
    }
}

/// A file system in an image file, or on another device.
pub struct Volume {
    /// Its kind.
    pub kind: Fs,
    /// The file system.
    pub fs: AnyFs,
    /// Paths and open files.
    pub vfs: Arc<Vfs>,
}

impl Volume {
    /// Opens the volume for reading, as a mount with the option `ro` does. Recovery happens in
    /// memory; the file is only read.
    ///
    /// # Errors
    /// No such file system, or it refuses.
    pub fn look(file: &HostFile) -> Result<Volume, VolumeError> {
        let below = file.another()?;
        Volume::on(file, Arc::new(Overlay::new(below)), true)
    }

    /// Opens the volume to change it. Changes are durable after [`Volume::close`].
    ///
    /// # Errors
    /// No such file system, or it refuses.
    pub fn change(file: &HostFile) -> Result<Volume, VolumeError> {
        let device = file.another()?;
        Volume::on(file, Arc::new(device), false)
    }

    /// Mounts the volume for use, with the tasks that `options` ask for and a task that writes back
    /// by age and amount. If mounted read-only, the file is only read, and recovery happens in
    /// memory. `journal`: the device of an external journal of ext4.
    ///
    /// # Errors
    /// No such file system, or it refuses.
    pub fn mount(
        file: &HostFile,
        journal: Option<&HostFile>,
        options: MountOptions,
        read_only: bool,
    ) -> Result<Volume, VolumeError> {
        let kind = kind_of(file)?.ok_or(VolumeError::Unknown)?;
        let queue_of = |file: &HostFile| -> Result<Arc<Queue>, VolumeError> {
            let host = file.another()?;
            let device: Arc<dyn BlockDevice> = match read_only {
                true => Arc::new(Overlay::new(host)),
                false => Arc::new(host),
            };
            Ok(Queue::new(device))
        };
        let policy = policy_of(&options);
        let fs = match (journal, options) {
            (Some(journal), MountOptions::Ext4(options)) => {
                let journal = Some(queue_of(journal)?);
                let fs = ext4::Ext4::mount_with_journal(queue_of(file)?, journal, options)?;
                AnyFs::Ext4(fs)
            }
            (Some(_), MountOptions::F2fs(_)) => {
                let what = "F2FS has its journal, if any, on its own device: leave journal= out";
                return Err(FsError::options(what).into());
            }
            (None, options) => AnyFs::mount(queue_of(file)?, options)?,
        };
        let vfs = Vfs::with_policy(fs.seam(), policy)?;
        Ok(Volume { kind, fs, vfs })
    }

    /// Mounts a volume of this kind on any device, as [`Volume::mount`] does from a file. If
    /// mounted read-only, the device is only read, and recovery happens in memory.
    ///
    /// # Errors
    /// The device or the file system refuses.
    pub fn mount_device(
        device: Arc<dyn BlockDevice>,
        kind: Fs,
        options: MountOptions,
        read_only: bool,
    ) -> Result<Volume, VolumeError> {
        let device: Arc<dyn BlockDevice> = match read_only {
            true => Arc::new(Overlay::new(device)),
            false => device,
        };
        let policy = policy_of(&options);
        let fs = AnyFs::mount(Queue::new(device), options.read_only(read_only))?;
        let vfs = Vfs::with_policy(fs.seam(), policy)?;
        Ok(Volume { kind, fs, vfs })
    }

    fn on(
        file: &HostFile,
        device: Arc<dyn BlockDevice>,
        read_only: bool,
    ) -> Result<Volume, VolumeError> {
        let kind = kind_of(file)?.ok_or(VolumeError::Unknown)?;
        let of_ext = ext4::MountOptions {
            read_only,
            ..ext4::MountOptions::default()
        };
        let of_f2fs = f2fs::MountOptions {
            read_only,
            ..f2fs::MountOptions::default()
        };
        let options = match kind {
            Fs::Ext4 | Fs::Ext3 => MountOptions::Ext4(of_ext),
            Fs::F2fs => MountOptions::F2fs(of_f2fs),
        };
        let options = options.timers(None, None).discard(false);
        let fs = AnyFs::mount(Queue::new(device), options)?;
        let vfs = Vfs::new(fs.seam());
        Ok(Volume { kind, fs, vfs })
    }

    /// Unmounts.
    ///
    /// # Errors
    /// Something could not be written.
    pub fn close(self) -> Result<(), VolumeError> {
        Ok(self.vfs.unmount()?)
    }
}
