//! eMMC 5.1 at command level over the FTL.
//!
//! [`Emmc`] is a [`Host`] (which acts as the block driver of a kernel) and a [`Card`] (commands,
//! states, cache, firmware). It takes requests, turns them into commands, and answers with the time
//! at which the card is ready again.
//!
//! # What survives a power cut (JESD84-B51; reliable write: 6.6.8.1)
//!
//! | write kind | at completion | cut while it executes |
//! |---|---|---|
//! | normal, cache on | volatile until a flush that starts afterwards completes | sectors old, new or garbage; cached lines survive in any subset, with FIFO in a prefix |
//! | normal, cache off; forced (CMD23 bit 24) | non-volatile, over every cached copy | its sectors old, new or garbage |
//! | reliable (CMD23 bit 31) | non-volatile, over every cached copy | each sector (512 bytes or 4 KiB) old or new |
//! | packed (CMD23 bit 30) | each entry as its own kind says | header order: entries before one, that one as if alone, none behind it; or any subset of them |
//! | flush (CMD6 byte 32) | all accepted before is non-volatile | any subset is flushed |
//! | barrier (CMD6 byte 32, bit 1) | volatile; nothing cached behind it survives without what was cached before it | as at completion |
//! | TRIM / DISCARD (CMD38) | volatile until a flush; with the cache off non-volatile | old content or zeros |
//!
//! Without WR_REL_SET a cut may also leave garbage in neighbours of the sectors of a normal write
//! ([`Caps::no_collateral`]).
//!
//! With [`Adversary::Own`] a cut leaves what this model's card leaves: the cache is lost, chips
//! tear what is in flight, the FTL recovers. With [`Adversary::Spec`] every sector whose fate the
//! table leaves open is drawn by [`blockdev::spec`].
//!
//! # Invariants
//!
//! - E1: one command at a time; completion times do not decrease.
//! - E2: a read sees, per sector, the cached copy if there is one, else the FTL's.
//! - E3: a write past the cache (reliable, forced, or with the cache off) leaves no cached copy of
//!   its sectors, so that no older content can overtake it.
//! - E4: a write into the cache waits until lines, staged units and units being programmed leave
//!   room for its lines. Writes past the cache take room while they are programmed, and wait for
//!   none.
//! - E5: when a flush completes there is no dirty line, and everything handed to the FTL is
//!   programmed.
//! - E6: what a pack of prefix order programs is an ordered group of the FTL. With a FIFO cache all
//!   that goes to the chips is in ordered groups, one after the other.
//! - E7: lines behind a barrier are programmed when those before it are; a replaced line keeps its
//!   turn (ctrl-cache-C1).

mod card;
mod config;
mod describe;
mod ext_csd;
mod host;
pub mod packed;
mod timing;

pub use card::{Card, Command, Data, Outcome, Response, status};
pub use config::{Bkops, CardConfig};
pub use describe::FieldText;
pub use ext_csd::{ExtCsd, event, field};
pub use host::Host;
pub use timing::EmmcTiming;

use crate::FlashMedia;
use crate::usage::Usage;
use base::{Bytes, Lba, Time};
use blockdev::{
    Adversary, Caps, Completion, DevError, DeviceStats, FlashStats, Model, Op, Request,
};
use ftl::Ftl;

/// What survives a power cut of an [`Emmc`].
pub type EmmcMedia = FlashMedia;

/// An eMMC with its host driver.
#[derive(Clone)]
pub struct Emmc {
    host: Host,
    card: Card,
    caps: Caps,
    usage: Usage,
}

impl Emmc {
    /// Puts a card over a settled FTL of 4 KiB units, identifies it and configures it. All of that
    /// is over at time 0.
    ///
    /// # Errors
    /// The card refused a command of the identification.
    pub fn new(config: &CardConfig, timing: EmmcTiming, ftl: Ftl) -> Result<Emmc, DevError> {
        let sectors = u64::from(ftl.layout().units) * base::SECTORS_PER_BLOCK;
        let mut card = Card::new(config, timing, ftl);
        let host = Host::identify(&mut card, config, timing.request())?;
        card.settle();
        let caps = host.caps(config, sectors);
        Ok(Emmc {
            host,
            card,
            caps,
            usage: Usage::default(),
        })
    }
    /// Chooses the adversary, which decides what a power cut leaves.
    pub fn set_adversary(&mut self, adversary: Adversary) {
        self.card.set_adversary(adversary);
    }
    /// The card.
    pub fn card(&self) -> &Card {
        &self.card
    }
    /// The card, for a caller that sends commands to it directly.
    pub fn card_mut(&mut self) -> &mut Card {
        &mut self.card
    }
    /// Number of records kept for a cut, and of places in the cache.
    pub fn backlog(&self) -> usize {
        self.card.backlog()
    }
    /// Calls `f` with every 4 KiB block that is not all zero, ascending, as reads see them.
    pub fn dump_logical(&self, f: impl FnMut(Lba, &[u8])) {
        self.card.dump(f);
    }
    /// Stores `bytes` at `lba`, durable at once, at no cost.
    ///
    /// # Errors
    /// Out of range, not whole sectors, or the device is read-only.
    pub fn load_logical(&mut self, lba: Lba, bytes: Bytes) -> Result<(), DevError> {
        let request = Request::write(lba, blockdev::Class::Data, bytes.clone());
        blockdev::check_request(&self.caps, &request)?;
        self.card.load(lba, bytes)
    }
    /// Stores, before the first command, the blocks whose content an adversary decided.
    pub(crate) fn apply(&mut self, patch: Vec<(u64, Bytes)>) -> Result<(), ftl::FtlError> {
        self.card.firmware_mut().apply(patch)
    }
}

impl Model for Emmc {
    type Media = EmmcMedia;

    fn caps(&self) -> &Caps {
        &self.caps
    }
    fn execute(&mut self, now: Time, request: Request) -> Completion {
        self.card.advance(now);
        match blockdev::check_request(&self.caps, &request) {
            Ok(()) => {
                if let Op::Read { sectors, .. } = &request.op {
                    self.usage.read(*sectors);
                }
                let done = self.host.execute(&mut self.card, now, request.op);
                self.usage.add(now, done.at);
                done
            }
            Err(e) => Completion {
                at: now,
                result: Err(e),
            },
        }
    }
    fn advance(&mut self, now: Time) {
        self.card.advance(now);
    }
    fn power_off(self, at: Time, seed: u64) -> EmmcMedia {
        self.card.power_off(at, seed, &self.caps)
    }
    fn device_stats(&self) -> DeviceStats {
        self.usage.over(self.host.stats())
    }
    fn flash_stats(&self) -> Option<FlashStats> {
        Some(self.card.flash_stats())
    }
}
