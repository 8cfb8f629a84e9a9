//! Making a file system on a disk.

use crate::{Disk, Error, Result};
use rig::mkfs::{F2fsJournal, F2fsOptions, JournalSize, MakeError, MkfsOptions};
use rig::mkfs::{make_f2fs_on, make_on};
use std::fs::File;
use std::io::Read;

/// Time of creation of a volume with a seed, seconds: the start of 2024.
const SEEDED_SECS: i64 = 1_704_067_200;

/// A kind of file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// ext4, with the features of `mke2fs -t ext4`.
    Ext4,
    /// ext3, with the features of `mke2fs -t ext3`.
    Ext3,
    /// F2FS, with the features of `mkfs.f2fs`.
    F2fs,
}

/// What file system to make, and how. The defaults are those of `mke2fs` and `mkfs.f2fs`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Format {
    kind: Kind,
    label: String,
    block_bytes: u32,
    cluster_bytes: Option<u32>,
    journal: Option<u64>,
    seed: Option<u64>,
    overwrite: bool,
}

impl Format {
    /// A file system of this kind.
    pub fn new(kind: Kind) -> Format {
        Format {
            kind,
            label: String::new(),
            block_bytes: 4096,
            cluster_bytes: None,
            journal: None,
            seed: None,
            overwrite: false,
        }
    }

    /// ext4.
    pub fn ext4() -> Format {
        Format::new(Kind::Ext4)
    }

    /// F2FS.
    pub fn f2fs() -> Format {
        Format::new(Kind::F2fs)
    }

    /// The label.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Format {
        self.label = label.into();
        self
    }

    /// Bytes of a block of ext4 and ext3: a power of two from 1024 to 65536.
    #[must_use]
    pub fn block_bytes(mut self, bytes: u32) -> Format {
        self.block_bytes = bytes;
        self
    }

    /// Bytes of a cluster, the unit of allocation of an ext4 (feature `bigalloc`): a power of two
    /// above a block, up to 1 MiB. Blocks are allocated one by one by default.
    #[must_use]
    pub fn cluster_bytes(mut self, bytes: u32) -> Format {
        self.cluster_bytes = Some(bytes);
        self
    }

    /// Bytes of the journal. 0: an ext4 without a journal, whose metadata a cut of power may
    /// damage. Of F2FS the room for one behind the volume, which it has not by default.
    #[must_use]
    pub fn journal_bytes(mut self, bytes: u64) -> Format {
        self.journal = Some(bytes);
        self
    }

    /// Draws UUID and time of creation from a seed, so that equal calls make equal bytes. Without
    /// it they come from the host.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Format {
        self.seed = Some(seed);
        self
    }

    /// Formats a disk that holds data, which is lost then.
    #[must_use]
    pub fn overwrite(mut self, yes: bool) -> Format {
        self.overwrite = yes;
        self
    }
}

impl Disk {
    /// Makes a file system on the disk.
    ///
    /// # Errors
    /// [`Error::Options`], with nothing written; [`Error::HoldsData`], [`Error::Mounted`],
    /// [`Error::ReadOnlyDisk`]; [`Error::Device`], [`Error::Host`]: a write fails.
    pub fn format(&self, format: &Format) -> Result<()> {
        self.check_free(true)?;
        if !format.overwrite && self.holds_data()? {
            return Err(Error::HoldsData);
        }
        match format.kind {
            Kind::Ext4 => self.make_ext(format, rig::mkfs::Kind::Ext4),
            Kind::Ext3 => self.make_ext(format, rig::mkfs::Kind::Ext3),
            Kind::F2fs => self.make_f2fs(format),
        }
    }

    fn make_ext(&self, format: &Format, kind: rig::mkfs::Kind) -> Result<()> {
        let sector = self.below().caps().sector_bytes;
        if format.block_bytes < sector {
            let block = format.block_bytes;
            let what = format!("blocks of {block} bytes on a device with sectors of {sector}");
            return Err(Error::Options(what));
        }
        let (uuid, hash_seed, time) = identity(format.seed)?;
        let mut options = MkfsOptions::new(self.bytes(), uuid, hash_seed, time);
        options.kind = kind;
        options.label.clone_from(&format.label);
        options.block_bytes = format.block_bytes;
        options.cluster_bytes = format.cluster_bytes;
        options.journal = match format.journal {
            None => JournalSize::Default,
            Some(0) => JournalSize::None,
            Some(bytes) => {
                let blocks = bytes / u64::from(format.block_bytes.max(1));
                JournalSize::Blocks(u32::try_from(blocks).unwrap_or(u32::MAX))
            }
        };
        rig::mkfs::Geometry::new(&options).map_err(impossible)?;
        let made = make_on(self.below().clone(), &options, self.take_zeros());
        made.map(drop).map_err(refused)
    }

    fn make_f2fs(&self, format: &Format) -> Result<()> {
        if format.block_bytes != 4096 {
            let what = format!("blocks of {} bytes: F2FS has 4096", format.block_bytes);
            return Err(Error::Options(what));
        }
        if format.cluster_bytes.is_some() {
            return Err(Error::Options("clusters are for ext4".into()));
        }
        let (uuid, _, time) = identity(format.seed)?;
        let mut options = F2fsOptions::new(self.bytes(), uuid, time);
        options.label.clone_from(&format.label);
        options.journal = format.journal.filter(|&b| b > 0).map(F2fsJournal::Bytes);
        rig::mkfs::f2fs_plan(&options).map_err(impossible)?;
        let made = make_f2fs_on(self.below().clone(), &options, self.take_zeros());
        made.map(drop).map_err(refused)
    }
}

fn impossible(e: impl std::fmt::Display) -> Error {
    Error::Options(e.to_string())
}

fn refused(e: MakeError) -> Error {
    match e {
        MakeError::Options(_) | MakeError::F2fs(_) => Error::Options(e.to_string()),
        MakeError::Host(e) => Error::host_file(&e),
        MakeError::Device(_) => Error::Device(e.to_string()),
    }
}

/// UUID, hash seed and time of creation.
fn identity(seed: Option<u64>) -> Result<([u8; 16], [u8; 16], rig::WallTime)> {
    if let Some(seed) = seed {
        let (uuid, hash_seed) = rig::identity(seed);
        let (secs, nanos) = (SEEDED_SECS, 0);
        return Ok((uuid, hash_seed, rig::WallTime { secs, nanos }));
    }
    let mut bytes = [0; 32];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|e| Error::host(format!("/dev/urandom: {e}; say a seed")))?;
    let (mut uuid, mut hash_seed) = ([0; 16], [0; 16]);
    uuid.copy_from_slice(&bytes[..16]);
    hash_seed.copy_from_slice(&bytes[16..]);
    for id in [&mut uuid, &mut hash_seed] {
        // RFC 9562, version 4.
        id[6] = id[6] & 0x0F | 0x40;
        id[8] = id[8] & 0x3F | 0x80;
    }
    let (secs, nanos) = (rt::wall().secs, 0);
    Ok((uuid, hash_seed, rig::WallTime { secs, nanos }))
}
