//! The sans-IO seam: a device as a state machine that knows nothing of tasks.

use crate::{Caps, DevError, Reply, Request};
use base::Time;
use serde::{Deserialize, Serialize};

/// The outcome of a command, known when it is given.
#[derive(Clone, Debug)]
pub struct Completion {
    /// When the host learns of it. Never before the time of the call.
    pub at: Time,
    /// What it learns.
    pub result: Result<Reply, DevError>,
}

/// Host commands since the device was made: `device` in `results.json`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DeviceStats {
    /// Read commands.
    pub reads: u64,
    /// Write commands, of every kind.
    pub writes: u64,
    /// Flush commands.
    pub flushes: u64,
    /// Writes with the FUA flag of the host.
    pub fua_writes: u64,
    /// Writes sent with the reliable-write bit.
    pub reliable_writes: u64,
    /// Packed commands.
    pub packed_commands: u64,
    /// Remap commands.
    pub remaps: u64,
    /// Discard commands.
    pub discards: u64,
    /// Sectors of 512 bytes read.
    #[serde(default)]
    pub sectors_read: u64,
    /// Time during which a command was under way, microseconds; work behind completed commands is not in it.
    #[serde(default)]
    pub busy_us: u64,
}

impl DeviceStats {
    /// The commands since `earlier`, a reading of the same device.
    pub fn since(&self, earlier: &DeviceStats) -> DeviceStats {
        DeviceStats {
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
            flushes: self.flushes - earlier.flushes,
            fua_writes: self.fua_writes - earlier.fua_writes,
            reliable_writes: self.reliable_writes - earlier.reliable_writes,
            packed_commands: self.packed_commands - earlier.packed_commands,
            remaps: self.remaps - earlier.remaps,
            discards: self.discards - earlier.discards,
            sectors_read: self.sectors_read - earlier.sectors_read,
            busy_us: self.busy_us - earlier.busy_us,
        }
    }
}

/// What happened on the flash: `flash` in `results.json`. Pages are mapping units of 4 KiB unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct FlashStats {
    /// 4 KiB units the host wrote to the flash.
    pub host_pages: u64,
    /// NAND page reads.
    pub reads: u64,
    /// NAND page programs.
    pub programs: u64,
    /// NAND block erases.
    pub erases: u64,
    /// 4 KiB units copied by garbage collection.
    pub gc_copies: u64,
    /// 4 KiB units copied out of the pseudo-SLC write area.
    pub slc_folds: u64,
    /// NAND page programs that hold the map.
    pub map_programs: u64,
    /// Bytes of data in a NAND page: bytes programmed are `programs` times this, whatever part of a page was padding.
    pub page_bytes: u32,
}

/// A device model. Calls come with non-decreasing times.
///
/// State runs ahead of `now`: for every medium operation that ends after the last `now` the model keeps start, end and the
/// previous content, so that [`Model::power_off`] can undo or tear it. A completion at exactly the time of the cut
/// counts as delivered.
pub trait Model: Send {
    /// What survives a power cut.
    type Media: Send;

    /// The promises of the device.
    fn caps(&self) -> &Caps;
    /// Accepts a request at `now`.
    fn execute(&mut self, now: Time, request: Request) -> Completion;
    /// Lets idle background work happen up to `now`. `execute` and `power_off` do so by themselves.
    fn advance(&mut self, now: Time);
    /// Cuts the power at `at`: what starts at or after it never happened, what is in flight is torn as the fault table of the
    /// medium says, with choices drawn from `seed`.
    fn power_off(self, at: Time, seed: u64) -> Self::Media;
    /// Host commands so far.
    fn device_stats(&self) -> DeviceStats;
    /// Flash operations so far; `None` for a device without flash below.
    fn flash_stats(&self) -> Option<FlashStats>;
}
