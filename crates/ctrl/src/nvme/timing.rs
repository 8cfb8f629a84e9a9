//! Costs of host, link and firmware of an NVMe device. The times of the chips themselves are in the
//! geometry.

use crate::firmware::PathTiming;
use serde::{Deserialize, Serialize};

/// Costs of the path to the chips, microseconds unless said otherwise.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NvmeTiming {
    /// Host driver, doorbell, fetch of the command, completion and interrupt: each command,
    /// whatever else is under way.
    pub request_us: f64,
    /// Each KiB over the link, each direction by itself.
    pub link_us_per_kib: f64,
    /// A core, each read command.
    pub read_us: f64,
    /// A core, each write command.
    pub write_us: f64,
    /// From core and link until the data of a write is in the buffer; several writes at a time.
    pub accept_us: f64,
    /// Path to the chips (map update, error correction), each KiB programmed; one KiB at a time.
    pub program_us_per_kib: f64,
    /// Firmware, each FUA write, on top of a normal one.
    pub fua_us: f64,
    /// Firmware, each flush that has something to write.
    pub flush_us: f64,
    /// Firmware, each flush that has nothing to write.
    pub flush_idle_us: f64,
    /// Firmware, each range that is deallocated or zeroed.
    pub deallocate_us: f64,
    /// Speed of the chips, if this set has its own; else that of the profile applies.
    pub nand: Option<ftl::nand::Timing>,
}

impl NvmeTiming {
    /// Checks these numbers.
    ///
    /// # Errors
    /// The first field that is no sensible time, in words.
    pub fn check(&self) -> Result<(), String> {
        let fields = [
            ("request_us", self.request_us),
            ("link_us_per_kib", self.link_us_per_kib),
            ("read_us", self.read_us),
            ("write_us", self.write_us),
            ("accept_us", self.accept_us),
            ("program_us_per_kib", self.program_us_per_kib),
            ("fua_us", self.fua_us),
            ("flush_us", self.flush_us),
            ("flush_idle_us", self.flush_idle_us),
            ("deallocate_us", self.deallocate_us),
        ];
        match fields.iter().find(|(_, v)| !(0.0..1e7).contains(v)) {
            Some((name, value)) => Err(format!("{name} = {value}; it may be 0 to ten seconds")),
            None => match &self.nand {
                Some(nand) => nand.check().map_err(|e| format!("nand.{e}")),
                None => Ok(()),
            },
        }
    }
    /// The costs below the link, in the form that the shared firmware uses.
    pub(super) fn path(&self) -> PathTiming {
        PathTiming {
            write_us: self.accept_us,
            random_us: 0.0,
            program_us_per_kib: self.program_us_per_kib,
            reliable_us: self.fua_us,
            pipelined: true,
            flush_us: self.flush_us,
            flush_idle_us: self.flush_idle_us,
            erase_us: self.deallocate_us,
            ..PathTiming::default()
        }
    }
}
