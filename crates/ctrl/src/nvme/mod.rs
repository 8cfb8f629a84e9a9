//! NVMe at command level over the FTL: queues, write cache, FUA, Flush, Deallocate, Write Zeroes.
//!
//! [`Nvme`] is a host driver and a [`Controller`]. Commands of many queues are under way together:
//! each passes the host, a core of the controller, the link and the chips, all of which are shared,
//! and completes by itself.
//!
//! # What survives a power cut (NVMe 1.4: Flush 6.8, FUA 6.15, atomic writes 6.4)
//!
//! | command | at completion | cut while it is under way |
//! |---|---|---|
//! | Write, cache on | volatile until a Flush that is submitted afterwards completes | pieces of `tear_bytes` old or new; of at most AWUPF all old or all new |
//! | Write, cache off | non-volatile | as with the cache on |
//! | Write with FUA | non-volatile, over every cached copy | as with the cache on |
//! | Flush | all that had completed before its submission is non-volatile | any subset is flushed |
//! | Dataset Management (Deallocate), Write Zeroes with DEAC, cache on | volatile until a Flush; reads as zeros | old content or zeros |
//! | Dataset Management (Deallocate), cache off | non-volatile; reads as zeros | old content or zeros |
//! | Write Zeroes without DEAC, with FUA, or with the cache off | as a Write of zeros | as a Write |
//! | not yet fetched | never happened | never happened |
//!
//! Commands under way together have no order among them. AWUN concerns the reads of other commands,
//! not power: every command here is seen whole or not at all.
//!
//! With [`Adversary::Own`] a cut leaves what this model's device leaves: the cache is lost, chips
//! tear what is in flight, the FTL recovers. With [`Adversary::Spec`] everything that the table
//! leaves open is drawn by [`blockdev::spec`].
//!
//! # Invariants
//!
//! - V1: a read sees, per sector, the cached copy if there is one, else the FTL's; commands change
//!   this state in the order of their fetch.
//! - V2: a FUA write leaves no cached copy of its sectors, so that no older content can overtake
//!   it.
//! - V3: data enters the buffer, and is programmed, no earlier than it has crossed the link.
//! - V4: what is deallocated reads as zeros, parts of a unit included (DLFEAT 1).
//! - V5: switching the cache off writes it back first.
//! - V6: with the cache off, what was deallocated stays zeros over a cut: the value that a read of
//!   it returns is the same until a write (NVM Command Set 1.0, 3.2.3.2.1); hosts send no Flush.
//!
//! Arbitration is round robin with a burst. Through [`Model::execute`] commands come one at a time
//! and are fetched at once, so that the order is that of submission; [`Controller::submit`] and
//! [`Controller::ring`] take many.

mod command;
mod config;
mod controller;
mod cores;
mod describe;
mod host;
mod queue;
mod timing;

pub use command::{Command, Completed, Op as NvmeOp, Range, Status, opcode};
pub use config::{NvmeConfig, Protocol};
pub use controller::{Controller, RANGES_MAX, ZEROES_MAX, feature};
pub use queue::QueueFull;
pub use timing::NvmeTiming;

use crate::FlashMedia;
use crate::usage::Usage;
use base::{Bytes, Lba, SECTORS_PER_BLOCK, Time};
use blockdev::{
    Adversary, Caps, Completion, DevError, DeviceStats, FlashStats, Model, Op, Request,
};
use ftl::Ftl;
use host::Host;

/// What survives a power cut of an [`Nvme`].
pub type NvmeMedia = FlashMedia;

/// An NVMe device with its host driver.
#[derive(Clone)]
pub struct Nvme {
    host: Host,
    device: Controller,
    caps: Caps,
    usage: Usage,
}

impl Nvme {
    /// Puts a controller over a settled FTL of 4 KiB units.
    pub fn new(config: &NvmeConfig, timing: NvmeTiming, ftl: Ftl) -> Nvme {
        let sectors = u64::from(ftl.layout().units) * SECTORS_PER_BLOCK;
        let mut device = Controller::new(config, timing, ftl);
        device.settle();
        let host = Host::new(config);
        Nvme {
            caps: host.caps(config, sectors),
            host,
            device,
            usage: Usage::default(),
        }
    }
    /// Chooses the adversary, which decides what a power cut leaves.
    pub fn set_adversary(&mut self, adversary: Adversary) {
        self.device.set_adversary(adversary);
    }
    /// The controller.
    pub fn controller(&self) -> &Controller {
        &self.device
    }
    /// The controller, for a caller that sends commands to it directly.
    pub fn controller_mut(&mut self) -> &mut Controller {
        &mut self.device
    }
    /// Number of records kept for a cut, and of places in the buffer.
    pub fn backlog(&self) -> usize {
        self.device.firmware().backlog()
    }
    /// Calls `f` with every 4 KiB block that is not all zero, ascending, as reads see them.
    pub fn dump_logical(&self, f: impl FnMut(Lba, &[u8])) {
        self.device.firmware().dump(f);
    }
    /// Stores `bytes` at `lba`, durable at once, at no cost.
    ///
    /// # Errors
    /// Out of range, not whole logical blocks, or the device is read-only.
    pub fn load_logical(&mut self, lba: Lba, bytes: Bytes) -> Result<(), DevError> {
        let request = Request::write(lba, blockdev::Class::Data, bytes.clone());
        blockdev::check_request(&self.caps, &request)?;
        let loaded = self.device.firmware_mut().load(lba, bytes);
        loaded.map_err(|e| DevError::io(lba, e.to_string()))
    }
}

impl Model for Nvme {
    type Media = NvmeMedia;

    fn caps(&self) -> &Caps {
        &self.caps
    }
    fn execute(&mut self, now: Time, request: Request) -> Completion {
        self.device.advance(now);
        if let Err(e) = blockdev::check_request(&self.caps, &request) {
            return Completion {
                at: now,
                result: Err(e),
            };
        }
        if let Op::Read { sectors, .. } = &request.op {
            self.usage.read(*sectors);
        }
        let done = self.host.execute(&mut self.device, now, request.op);
        self.usage.add(now, done.at);
        done
    }
    fn advance(&mut self, now: Time) {
        self.device.advance(now);
    }
    fn power_off(self, at: Time, seed: u64) -> NvmeMedia {
        self.device.power_off(at, seed, &self.caps)
    }
    fn device_stats(&self) -> DeviceStats {
        self.usage.over(self.host.stats)
    }
    fn flash_stats(&self) -> Option<FlashStats> {
        Some(self.device.firmware().flash_stats())
    }
}
