//! Options of mkfs: what the caller chooses, and which choices are invalid.

pub use ondisk::f2fs::journal::RING_AT;
use ondisk::f2fs::{BLOCK_BYTES, EXTENSION_BYTES, EXTENSIONS_MAX, Features, LABEL_UNITS, crc};
use rt::WallTime;

/// Extensions of files whose data are cold, as mkfs.f2fs 1.15 lists them (a file matches a name of
/// two letters that its own extension begins with).
pub const COLD_EXTENSIONS: [&str; 36] = [
    "mp", "wm", "og", "jp", "avi", "m4v", "m4p", "mkv", "mov", "webm", "wav", "m4a", "3gp", "opus",
    "flac", "gif", "png", "svg", "webp", "jar", "deb", "iso", "gz", "xz", "zst", "pdf", "pyc",
    "ttc", "ttf", "exe", "apk", "cnt", "exo", "odex", "vdex", "so",
];
/// Extensions of files whose data are hot, likewise.
pub const HOT_EXTENSIONS: [&str; 4] = ["db", "vmdk", "vdi", "qcow2"];

/// Features that a new volume can have.
const POSSIBLE: Features = Features(
    Features::EXTRA_ATTR.0
        | Features::INODE_CHKSUM.0
        | Features::FLEXIBLE_INLINE_XATTR.0
        | Features::INODE_CRTIME.0
        | Features::LOST_FOUND.0
        | Features::SB_CHKSUM.0,
);
/// Features that are extra attributes of inodes.
const NEED_EXTRA: Features = Features(
    Features::INODE_CHKSUM.0 | Features::FLEXIBLE_INLINE_XATTR.0 | Features::INODE_CRTIME.0,
);

/// Options of a new volume.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Size of the volume in bytes; what lies beyond the last whole block stays unused.
    pub size_bytes: u64,
    /// Label, at most 512 UTF-16 units.
    pub label: String,
    /// UUID.
    pub uuid: [u8; 16],
    /// Time of creation of the root directory.
    pub time: WallTime,
    /// Owner and group of the root directory.
    pub root_owner: (u32, u32),
    /// Features; mkfs.f2fs has none by default.
    pub features: Features,
    /// Directories may compare names without regard to case (feature `casefold`, encoding
    /// `utf8-12.1`, not strict).
    pub casefold: bool,
    /// Part of the main area that users cannot fill, in percent; `None` takes what leaves users
    /// most.
    pub overprovision_percent: Option<f64>,
    /// Extensions of cold files beside [`COLD_EXTENSIONS`].
    pub cold_extensions: Vec<String>,
    /// Extensions of hot files beside [`HOT_EXTENSIONS`].
    pub hot_extensions: Vec<String>,
    /// Segments of a section: the unit of cleaning.
    pub segs_per_sec: u32,
    /// Sections of a zone: logs begin in different zones.
    pub secs_per_zone: u32,
    /// A NAT as large as the volume may ever need (mkfs.f2fs `-i`), instead of one whose version
    /// bitmap fits into the checkpoint block.
    pub large_nat_bitmap: bool,
    /// The free segments are known to be discarded.
    pub trimmed: bool,
    /// Version of the first checkpoint. It is odd, and no older volume on the device had it, so
    /// that nodes of an older volume are not taken for nodes of this one.
    pub checkpoint_version: u32,
    /// Size of the journal behind the F2FS, which becomes smaller by that (F2FSJ); `None`: no
    /// journal, as mkfs.f2fs does.
    pub journal: Option<JournalSize>,
}

/// Fewest blocks of a ring: the largest operation (32 KiB of records), its descriptor and commit
/// block, and as much again for what was committed before and is not applied yet, less what headers
/// leave.
pub const RING_MIN_BLOCKS: u32 = 16;
/// Rings below this size are useful in tests only: 16 MiB, in bytes.
pub const RING_ADVISED_BYTES: u64 = 16 << 20;

/// Room for a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalSize {
    /// A thousandth of the capacity, at least 64 MiB and at most 1 GiB; less on a volume that would
    /// lose a quarter to it.
    Default,
    /// A size in bytes, which includes both superblocks of the journal.
    Bytes(u64),
    /// A ring with this number of blocks.
    Ring(u32),
}

impl JournalSize {
    /// Blocks of the region on a device of `blocks` blocks.
    ///
    /// # Errors
    /// Too small for the largest operation, or more than a ring can have.
    pub(super) fn region(self, blocks: u64) -> Result<u32, MkfsError> {
        const MIB_BLOCKS: u64 = (1 << 20) / BLOCK_BYTES as u64;
        let region = match self {
            JournalSize::Default => {
                let wanted = (blocks / 1024).clamp(64 * MIB_BLOCKS, 1024 * MIB_BLOCKS);
                wanted.min((blocks / 4).max(u64::from(RING_AT + RING_MIN_BLOCKS)))
            }
            JournalSize::Bytes(bytes) => bytes / BLOCK_BYTES as u64,
            JournalSize::Ring(ring) => u64::from(ring) + u64::from(RING_AT),
        };
        let least = u64::from(RING_AT + RING_MIN_BLOCKS);
        if region < least || region > u64::from(u32::MAX) {
            return Err(MkfsError::Journal {
                bytes: region * BLOCK_BYTES as u64,
                least: least * BLOCK_BYTES as u64,
            });
        }
        Ok(region as u32)
    }
}

impl Options {
    /// The defaults of mkfs.f2fs for this size. The version of the first checkpoint follows from
    /// UUID and time.
    pub fn new(size_bytes: u64, uuid: [u8; 16], time: WallTime) -> Options {
        Options {
            size_bytes,
            label: String::new(),
            uuid,
            time,
            root_owner: (0, 0),
            features: Features::NONE,
            casefold: false,
            overprovision_percent: None,
            cold_extensions: Vec::new(),
            hot_extensions: Vec::new(),
            segs_per_sec: 1,
            secs_per_zone: 1,
            large_nat_bitmap: false,
            trimmed: true,
            // 31 bits, as the random number of mkfs.f2fs.
            checkpoint_version: crc(crc(!0, &uuid), &time.secs.to_le_bytes()) >> 1 | 1,
            journal: None,
        }
    }

    /// Whether the choices that do not depend on the size are possible.
    pub(super) fn check(&self) -> Result<(), MkfsError> {
        if self.label.encode_utf16().count() > LABEL_UNITS {
            return Err(MkfsError::Label);
        }
        let other = self.features.without(POSSIBLE);
        if !other.is_empty() {
            return Err(MkfsError::Features { features: other });
        }
        let extra = Features(self.features.0 & NEED_EXTRA.0);
        if !extra.is_empty() && !self.features.has(Features::EXTRA_ATTR) {
            return Err(MkfsError::NeedExtraAttr { features: extra });
        }
        if self.journal.is_some() && self.large_nat_bitmap {
            return Err(MkfsError::JournalRoom);
        }
        if let Some(percent) = self.overprovision_percent
            && !(percent > 0.0 && percent < 100.0)
        {
            return Err(MkfsError::Overprovision { percent });
        }
        for (field, n) in [
            ("segments of a section", self.segs_per_sec),
            ("sections of a zone", self.secs_per_zone),
        ] {
            if n == 0 {
                return Err(MkfsError::Zero { field });
            }
        }
        if self.checkpoint_version == 0 {
            return Err(MkfsError::Zero {
                field: "version of the first checkpoint",
            });
        }
        self.check_extensions()
    }

    fn check_extensions(&self) -> Result<(), MkfsError> {
        let (cold, hot) = (self.cold(), self.hot());
        if cold.len() + hot.len() > EXTENSIONS_MAX {
            return Err(MkfsError::Extensions {
                count: cold.len() + hot.len(),
            });
        }
        let bad =
            |name: &&&str| name.is_empty() || name.len() >= EXTENSION_BYTES || name.contains('\0');
        match cold.iter().chain(&hot).find(bad) {
            Some(name) => Err(MkfsError::Extension {
                name: (*name).to_string(),
            }),
            None => Ok(()),
        }
    }

    /// All extensions of cold files.
    pub(super) fn cold(&self) -> Vec<&str> {
        let more = self.cold_extensions.iter().map(String::as_str);
        COLD_EXTENSIONS.into_iter().chain(more).collect()
    }
    /// All extensions of hot files.
    pub(super) fn hot(&self) -> Vec<&str> {
        let more = self.hot_extensions.iter().map(String::as_str);
        HOT_EXTENSIONS.into_iter().chain(more).collect()
    }
}

/// Why a volume cannot be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MkfsError {
    /// Size.
    #[error("{size_bytes} bytes are too small for an F2FS with these options: {need}")]
    TooSmall {
        /// Size asked for.
        size_bytes: u64,
        /// What would do.
        need: String,
    },
    /// Size.
    #[error("{size_bytes} bytes are too large: an F2FS ends below 16 TiB")]
    TooLarge {
        /// Size asked for.
        size_bytes: u64,
    },
    /// Size of the journal.
    #[error(
        "a journal of {bytes} bytes: choose from {least} bytes (what one operation needs; 16 MiB and more are advised) to 16 TiB"
    )]
    Journal {
        /// Asked for.
        bytes: u64,
        /// The least.
        least: u64,
    },
    /// Journal and large NAT bitmap.
    #[error(
        "a large NAT bitmap takes the room in the checkpoint where the journal says what is applied: choose one of the two"
    )]
    JournalRoom,
    /// Label.
    #[error("the label is longer than {LABEL_UNITS} UTF-16 units")]
    Label,
    /// Features.
    #[error("Varve makes no F2FS with {features}: choose of {POSSIBLE}")]
    Features {
        /// Those that are not possible.
        features: Features,
    },
    /// Features.
    #[error("{features} is kept in extra attributes: add extra_attr")]
    NeedExtraAttr {
        /// Features that need it.
        features: Features,
    },
    /// Overprovision.
    #[error("{percent} percent cannot be kept back: choose more than 0 and less than 100")]
    Overprovision {
        /// Percent asked for.
        percent: f64,
    },
    /// Overprovision.
    #[error(
        "with {percent} percent kept back, cleaning needs {reserved} of {segments} segments: choose more percent or a larger volume"
    )]
    Reserved {
        /// Percent asked for.
        percent: f64,
        /// Segments that cleaning needs.
        reserved: u64,
        /// Segments of the main area.
        segments: u32,
    },
    /// A number that must not be 0.
    #[error("{field}: 0 is not possible")]
    Zero {
        /// What it is.
        field: &'static str,
    },
    /// Extension lists.
    #[error("{count} extensions: at most {EXTENSIONS_MAX} fit, {} of them are there by default", COLD_EXTENSIONS.len() + HOT_EXTENSIONS.len())]
    Extensions {
        /// All of them.
        count: usize,
    },
    /// An extension.
    #[error("the extension {name:?} is not possible: choose 1 to 7 bytes")]
    Extension {
        /// The name.
        name: String,
    },
}
