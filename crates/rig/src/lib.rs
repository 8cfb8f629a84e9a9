//! Builds a whole stack from one configuration value: device model, block queue, file system,
//! `vfs`.
//!
//! ```text
//! Config --format--> AnyModel --Stack::mount--> Stack { device, queue, fs, vfs } --unmount--> AnyModel --write_image--> file
//! ```

mod bare;
mod config;
mod error;
mod fs;
pub mod fsck;
mod image;
pub mod inspect;
pub mod mkfs;
mod options;
mod overlay;
mod room;
mod saved;
mod scheme;
mod stack;
mod volume;
mod writeback;

pub use bare::{FreshVolume, Mounted};
pub use base::{Ino, Time};
pub use block::Scheduler;
pub use blockdev::{
    BlockDevice, Caps, Class, Clock, DevError, DeviceStats, FlashStats, HostError, HostFile,
    HostIo, HostOptions, Model, Modelled, Op, Piece, Remap, RemapPair, Reply, Request, Tap, Ticket,
    spec::Bound,
};
pub use config::{Config, Data, Fs, identity};
pub use ctrl::counting;
pub use ctrl::{
    AnyModel, Cause, CellArea, CellAreas, Description, DieTimes, EnergyProfile, Media, Operation,
    Profile, ProfileError, Recovering, SavedDevice, Span, StateError,
};
pub use error::RigError;
pub use ext4::DataMode;
pub use f2fs::{
    CheckpointStats, FsyncMode, Ideas, JournalStats as F2fsJournalStats, Preset as F2fsPreset,
    Scheme as F2fsScheme, WaitCause as F2fsWaitCause,
};
pub use fs::AnyFs;
pub use image::{load_image, write_image};
pub use journal::{
    FullFirst, Preset, RecoveryReport, RecoverySpans, Scheme as JournalScheme,
    Stats as JournalStats,
};
pub use options::MountOptions;
pub use room::Room;
pub use rt::{WallTime, signals};
pub use saved::{
    check_absent, check_writable, load_image_onto, read_device, write_device, write_image_whole,
    write_whole,
};
pub use scheme::Scheme;
pub use stack::Stack;
pub use vfs::{
    Attr, Errno, File as OpenFile, FileKind, FileSystem, FsError, FsResult, OpenFlags, SeekMode,
    SetAttr, TimeSet, Vfs, XattrMode,
};
pub use volume::{Volume, VolumeError, kind_of, kind_of_head};
pub use writeback::Writeback;
