//! One type for every device model that a profile can build, and one for what such a device leaves
//! at a power cut.

use crate::emmc::{Emmc, EmmcMedia, FieldText};
use crate::nvme::{Nvme, NvmeMedia};
use crate::plain::{Plain, PlainMedia};
use crate::raw::{Raw, RawMedia};
use base::{Bytes, Lba, Time};
use blockdev::{Adversary, Caps, Completion, DevError, DeviceStats, FlashStats, Model, Request};
use ftl::nand::{self, Operation};

/// A device model of any kind. Cloning forks it: content is shared until written.
#[derive(Clone)]
pub enum AnyModel {
    /// A cached medium without flash.
    Plain(Box<Plain>),
    /// An eMMC.
    Emmc(Box<Emmc>),
    /// Raw flash under its FTL.
    Raw(Box<Raw>),
    /// An NVMe or UFS device.
    Nvme(Box<Nvme>),
}

/// What survives a power cut, of any kind.
#[derive(Clone)]
pub enum Media {
    /// Of a cached medium without flash.
    Plain(PlainMedia),
    /// Of an eMMC.
    Emmc(EmmcMedia),
    /// Of raw flash.
    Raw(RawMedia),
    /// Of an NVMe or UFS device.
    Nvme(NvmeMedia),
}

impl Media {
    /// A digest of everything that a device built from this medium can see; equal media have equal
    /// digests.
    pub fn content_hash(&self) -> u64 {
        match self {
            Media::Plain(m) => m.content_hash(),
            Media::Emmc(m) | Media::Raw(m) | Media::Nvme(m) => m.content_hash(),
        }
    }
    /// The chips, if the device has any.
    pub fn chips(&self) -> Option<&nand::Media> {
        match self {
            Media::Plain(_) => None,
            Media::Emmc(m) | Media::Raw(m) | Media::Nvme(m) => Some(&m.nand),
        }
    }
    /// Capacity in bytes, as the host sees it.
    pub fn capacity_bytes(&self) -> u64 {
        match self {
            Media::Plain(m) => m.capacity_bytes(),
            Media::Emmc(m) | Media::Raw(m) | Media::Nvme(m) => m.capacity_bytes(),
        }
    }
    /// The kind of device that the medium belongs to, as profiles name it.
    pub fn kind(&self) -> &'static str {
        match self {
            Media::Plain(_) => "plain",
            Media::Emmc(_) => "emmc",
            Media::Raw(_) => "raw",
            Media::Nvme(_) => "nvme",
        }
    }
}

macro_rules! each {
    ($self:expr, $model:ident => $body:expr) => {
        match $self {
            AnyModel::Plain($model) => $body,
            AnyModel::Emmc($model) => $body,
            AnyModel::Raw($model) => $body,
            AnyModel::Nvme($model) => $body,
        }
    };
}

impl AnyModel {
    /// Chooses the adversary, which decides what a power cut leaves; [`Adversary::Spec`] unless
    /// set.
    pub fn set_adversary(&mut self, adversary: Adversary) {
        each!(self, m => m.set_adversary(adversary));
    }
    /// Number of records kept so that a cut can undo or redraw what is open: operations on the
    /// chips, rows on their way, places in the cache, open writes. Bounded in a run of any length;
    /// for tests.
    pub fn backlog(&self) -> usize {
        each!(self, m => m.backlog())
    }
    /// With `on`, keeps every program and erase of the chips from now on for
    /// [`AnyModel::take_operations`]; else stops keeping them.
    pub fn keep_operations(&mut self, on: bool) {
        match self {
            AnyModel::Emmc(m) => m.card_mut().firmware_mut().keep_operations(on),
            AnyModel::Raw(m) => m.firmware_mut().keep_operations(on),
            AnyModel::Nvme(m) => m.controller_mut().firmware_mut().keep_operations(on),
            AnyModel::Plain(_) => {}
        }
    }
    /// The programs and erases since the last call, in the order of issue; none for a device
    /// without flash.
    pub fn take_operations(&mut self) -> Vec<Operation> {
        match self {
            AnyModel::Emmc(m) => m.card_mut().firmware_mut().take_operations(),
            AnyModel::Raw(m) => m.firmware_mut().take_operations(),
            AnyModel::Nvme(m) => m.controller_mut().firmware_mut().take_operations(),
            AnyModel::Plain(_) => Vec::new(),
        }
    }
    /// With `on`, a device that shares content keeps which blocks it did not have to program from
    /// now on, for [`AnyModel::take_shared`]; else stops keeping them.
    pub fn keep_shared(&mut self, on: bool) {
        if let AnyModel::Raw(m) = self {
            m.keep_shared(on);
        }
    }
    /// The blocks of 4 KiB that were written since the last call and not programmed, because the
    /// device found or held their content; in the order of the writes. None for other devices.
    pub fn take_shared(&mut self) -> Vec<u64> {
        match self {
            AnyModel::Raw(m) => m.take_shared().into_iter().map(u64::from).collect(),
            _ => Vec::new(),
        }
    }
    /// The die that an operation of these chips works on; 0 for a device without flash.
    pub fn die_of(&self, operation: &Operation) -> u32 {
        match self {
            AnyModel::Emmc(m) => m.card().firmware().die_of(operation),
            AnyModel::Raw(m) => m.firmware().die_of(operation),
            AnyModel::Nvme(m) => m.controller().firmware().die_of(operation),
            AnyModel::Plain(_) => 0,
        }
    }
    /// Erases of each block that carries data, since the chips were new; empty for a device without
    /// flash.
    pub fn block_erases(&self) -> Vec<u32> {
        match self {
            AnyModel::Emmc(m) => m.card().firmware().block_erases(),
            AnyModel::Raw(m) => m.firmware().block_erases(),
            AnyModel::Nvme(m) => m.controller().firmware().block_erases(),
            AnyModel::Plain(_) => Vec::new(),
        }
    }
    /// Units of 4 KiB that hold something, ascending; empty for a device without flash.
    pub fn mapped(&self) -> Vec<u32> {
        match self {
            AnyModel::Emmc(m) => m.card().firmware().mapped(),
            AnyModel::Raw(m) => m.firmware().mapped(),
            AnyModel::Nvme(m) => m.controller().firmware().mapped(),
            AnyModel::Plain(_) => Vec::new(),
        }
    }
    /// The fields of the card's EXT_CSD register in words; empty for a device that is no eMMC.
    pub fn ext_csd(&self) -> Vec<FieldText> {
        match self {
            AnyModel::Emmc(m) => m.card().ext_csd().describe(),
            AnyModel::Plain(_) | AnyModel::Raw(_) | AnyModel::Nvme(_) => Vec::new(),
        }
    }
    /// What an NVMe device reports in Identify, or a UFS device in its descriptors; empty for other
    /// devices.
    pub fn identify(&self) -> Vec<FieldText> {
        match self {
            AnyModel::Nvme(m) => m.controller().describe(),
            _ => Vec::new(),
        }
    }
    /// A 4 KiB block as a host would read it now; an unreadable block shows as zeros. Costs no
    /// virtual time.
    pub fn visible(&self, block: u64) -> Bytes {
        match self {
            AnyModel::Plain(m) => m.visible(block),
            AnyModel::Emmc(m) => m.card().visible(block),
            AnyModel::Raw(m) => m.firmware().visible(block),
            AnyModel::Nvme(m) => m.controller().firmware().visible(block),
        }
    }
    /// Whether the device remaps by itself what repeats content that it holds.
    pub fn shares_content(&self) -> bool {
        matches!(self, AnyModel::Raw(m) if m.shares_content())
    }
    /// Calls `f` with every 4 KiB block that is not all zero, ascending by address, as a host would
    /// read it now. Costs no virtual time.
    pub fn dump_logical(&self, f: impl FnMut(Lba, &[u8])) {
        each!(self, m => m.dump_logical(f));
    }
    /// Stores `bytes` (whole sectors) at `lba`, durable at once. Costs no virtual time and changes
    /// no counter.
    ///
    /// # Errors
    /// Out of range, or not whole sectors, or the device is worn out.
    pub fn load_logical(&mut self, lba: Lba, bytes: Bytes) -> Result<(), DevError> {
        each!(self, m => m.load_logical(lba, bytes))
    }
}

impl Model for AnyModel {
    type Media = Media;

    fn caps(&self) -> &Caps {
        each!(self, m => m.caps())
    }
    fn execute(&mut self, now: Time, request: Request) -> Completion {
        each!(self, m => m.execute(now, request))
    }
    fn advance(&mut self, now: Time) {
        each!(self, m => m.advance(now));
    }
    fn power_off(self, at: Time, seed: u64) -> Media {
        match self {
            AnyModel::Plain(m) => Media::Plain(m.power_off(at, seed)),
            AnyModel::Emmc(m) => Media::Emmc(m.power_off(at, seed)),
            AnyModel::Raw(m) => Media::Raw(m.power_off(at, seed)),
            AnyModel::Nvme(m) => Media::Nvme(m.power_off(at, seed)),
        }
    }
    fn device_stats(&self) -> DeviceStats {
        each!(self, m => m.device_stats())
    }
    fn flash_stats(&self) -> Option<FlashStats> {
        each!(self, m => m.flash_stats())
    }
}
