//! The device interfaces.
//!
//! 1. [`BlockDevice`]: blocking, used by `block`. Devices in memory, files of the host and the
//!    stackable wrappers implement it.
//! 2. [`Model`]: sans-IO, called with the current time, answers with a completion time. `ctrl`
//!    implements it.
//! 3. [`Modelled`]: the only adapter from 2 to 1.
//!
//! A device states its promises in one value, [`Caps`]; the block layer, the journal and the crash
//! explorer all read that same value.

mod caps;
mod card;
mod check;
mod count;
mod device;
mod error;
mod fault;
mod host;
mod image;
mod model;
mod modelled;
mod overlay;
mod parts;
mod ram;
mod remap;
mod request;
mod scheduler;
pub mod spec;
mod spec_disk;
pub mod tap;
mod tickets;
pub mod trace;

pub use caps::{Caps, PackOrder, Packed};
pub use card::{Card, CardCommand, CardPort, Transfer};
pub use check::check_request;
pub use count::{Count, Counts};
pub use device::{BlockDevice, Ticket};
pub use error::{DevError, DevErrorKind};
pub use fault::{Fault, FaultOn, FaultRule};
pub use host::{HostError, HostFile, HostIo, HostOptions};
pub use image::Image;
pub use model::{
    BlocksUsed, Completion, DeviceStats, FlashStats, Model, ProgramsByCause, TransparentStats,
};
pub use modelled::{Clock, Modelled};
pub use overlay::OverlayDisk;
pub use ram::{Ram, write_block};
pub use remap::{Remap, RemapCaps, RemapMode, RemapPair, Remapped, expectation};
pub use request::{Class, Op, PackedWrite, Piece, Reply, Request};
pub use scheduler::Scheduler;
pub use spec::Adversary;
pub use spec_disk::SpecDisk;
pub use tap::Tap;
pub use trace::{Step, Trace};
