//! Counts what commands use of a device, from which its energy is computed.

use base::{Nanos, Time};
use blockdev::DeviceStats;

/// Sectors read, and the time with a command under way.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    sectors_read: u64,
    /// Time with a command under way, and when the last one ends.
    busy: Nanos,
    until: Time,
}

impl Usage {
    /// Counts a read.
    pub fn read(&mut self, sectors: u64) {
        self.sectors_read += sectors;
    }
    /// Counts a command from `now` to `end`; commands queue.
    pub fn add(&mut self, now: Time, end: Time) {
        let start = now.max(self.until);
        if end > start {
            self.busy += end - start;
            self.until = end;
        }
    }
    /// `commands` with the counters of this usage filled in.
    pub fn over(&self, commands: DeviceStats) -> DeviceStats {
        DeviceStats {
            sectors_read: self.sectors_read,
            busy_us: self.busy.0 / 1000,
            ..commands
        }
    }
}
