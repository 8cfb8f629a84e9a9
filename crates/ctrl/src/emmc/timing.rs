//! Bus, driver and firmware costs of an eMMC. The times of the chips themselves are in the
//! geometry.

use crate::firmware::{PathTiming, nanos};
use base::Nanos;
use serde::{Deserialize, Serialize};

/// What the path to the chips costs, microseconds unless said otherwise.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EmmcTiming {
    /// Host driver and interrupt, each request.
    pub request_us: f64,
    /// Each command with its response.
    pub command_us: f64,
    /// Each KiB over the host bus.
    pub bus_us_per_kib: f64,
    /// Firmware, each read command.
    pub read_us: f64,
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
    /// Speed of the chips, if this set has its own; else that of the profile applies.
    pub nand: Option<ftl::nand::Timing>,
}

impl EmmcTiming {
    /// Checks these numbers.
    ///
    /// # Errors
    /// The first field that is no sensible time, in words.
    pub fn check(&self) -> Result<(), String> {
        let fields = [
            ("request_us", self.request_us),
            ("command_us", self.command_us),
            ("bus_us_per_kib", self.bus_us_per_kib),
            ("read_us", self.read_us),
            ("write_us", self.write_us),
            ("random_us", self.random_us),
            ("program_us_per_kib", self.program_us_per_kib),
            ("reliable_us", self.reliable_us),
            ("reliable_us_per_kib", self.reliable_us_per_kib),
            ("packed_us", self.packed_us),
            ("flush_us", self.flush_us),
            ("flush_idle_us", self.flush_idle_us),
            ("barrier_us", self.barrier_us),
            ("erase_us", self.erase_us),
        ];
        match fields.iter().find(|(_, v)| !(0.0..1e7).contains(v)) {
            Some((name, value)) => Err(format!("{name} = {value}; it may be 0 to ten seconds")),
            None => self.check_chips(),
        }
    }
    fn check_chips(&self) -> Result<(), String> {
        match &self.nand {
            Some(nand) => nand.check().map_err(|e| format!("nand.{e}")),
            None => Ok(()),
        }
    }
    pub(crate) fn request(&self) -> Nanos {
        nanos(self.request_us)
    }
    pub(crate) fn command(&self) -> Nanos {
        nanos(self.command_us)
    }
    pub(crate) fn bus(&self, bytes: u64) -> Nanos {
        nanos(self.bus_us_per_kib * bytes as f64 / 1024.0)
    }
    pub(crate) fn read(&self) -> Nanos {
        nanos(self.read_us)
    }
    /// The part of these costs that the firmware pays.
    pub(crate) fn path(&self) -> PathTiming {
        PathTiming {
            bus_us_per_kib: self.bus_us_per_kib,
            write_us: self.write_us,
            random_us: self.random_us,
            program_us_per_kib: self.program_us_per_kib,
            reliable_us: self.reliable_us,
            reliable_us_per_kib: self.reliable_us_per_kib,
            packed_us: self.packed_us,
            pipelined: self.pipelined,
            flush_us: self.flush_us,
            flush_idle_us: self.flush_idle_us,
            barrier_us: self.barrier_us,
            erase_us: self.erase_us,
            pair_us: 0.0,
        }
    }
}
