//! Costs of the path between the host's bus and the chips.

use base::Nanos;

/// Costs of a controller's firmware and of its host bus, microseconds unless said otherwise. Each
/// kind of device derives them from a timing table of its own.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct PathTiming {
    /// Each KiB over the host bus.
    pub bus_us_per_kib: f64,
    /// Firmware, each write command, until the cache has accepted it.
    pub write_us: f64,
    /// Firmware, each write through the cache that goes on where no recent one ended, on top.
    pub random_us: f64,
    /// Firmware path to the chips (map update, error correction), each KiB programmed; one KiB at a
    /// time.
    pub program_us_per_kib: f64,
    /// Firmware, each reliable write, on top of a normal one.
    pub reliable_us: f64,
    /// Firmware, each KiB of a reliable write, on top of a normal one.
    pub reliable_us_per_kib: f64,
    /// Firmware, each packed write, on top of a write of its length.
    pub packed_us: f64,
    /// True if data of writes past the cache is programmed while the rest of it still crosses the
    /// host bus; else it is programmed afterwards.
    pub pipelined: bool,
    /// Firmware, each flush that has something to write.
    pub flush_us: f64,
    /// Firmware, each flush that has nothing to write.
    pub flush_idle_us: f64,
    /// Firmware, each cache barrier.
    pub barrier_us: f64,
    /// Firmware, each erase, TRIM or DISCARD command.
    pub erase_us: f64,
    /// Firmware, each pair of a REMAP.
    pub pair_us: f64,
}

pub(crate) fn nanos(us: f64) -> Nanos {
    Nanos((us * 1000.0) as u64)
}

impl PathTiming {
    pub fn bus(&self, bytes: u64) -> Nanos {
        nanos(self.bus_us_per_kib * bytes as f64 / 1024.0)
    }
    pub fn write(&self) -> Nanos {
        nanos(self.write_us)
    }
    /// One 4 KiB unit through the firmware to the chips.
    pub fn program_unit(&self, reliable: bool) -> Nanos {
        let extra = match reliable {
            true => self.reliable_us_per_kib,
            false => 0.0,
        };
        nanos((self.program_us_per_kib + extra) * 4.0)
    }
    pub fn reliable(&self) -> Nanos {
        nanos(self.reliable_us)
    }
    pub fn packed(&self) -> Nanos {
        nanos(self.packed_us)
    }
    pub fn flush(&self, idle: bool) -> Nanos {
        nanos(match idle {
            true => self.flush_idle_us,
            false => self.flush_us,
        })
    }
    pub fn barrier(&self) -> Nanos {
        nanos(self.barrier_us)
    }
    pub fn erase(&self) -> Nanos {
        nanos(self.erase_us)
    }
    /// So many pairs of a REMAP.
    pub fn pairs(&self, pairs: usize) -> Nanos {
        nanos(self.pair_us * pairs as f64)
    }
}
