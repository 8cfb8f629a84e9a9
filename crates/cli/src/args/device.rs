//! Options of `varve device`.

use super::CalibrateArgs;
use crate::size;
use clap::Subcommand;
use std::path::PathBuf;

#[derive(Subcommand)]
pub enum DeviceCommand {
    /// Lists the built-in profiles.
    List {
        /// Prints JSON instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Shows capacity, promises, timing sets and registers of a profile; or what a file of
    /// `device new` holds.
    Show {
        /// Name of a profile, with changes: `emmc-odroid-xu4,card.cache_on=false`. Or a saved
        /// device.
        #[arg(value_name = "PROFILE|FILE")]
        profile: String,
        /// Prints JSON instead of tables.
        #[arg(long)]
        json: bool,
    },
    /// Prints a profile, commented, to begin one's own from; or makes a blank device and saves it
    /// in a file.
    New {
        /// Name of a profile, with changes.
        profile: String,
        /// File for a blank device; without it the profile is printed.
        file: Option<PathBuf>,
        /// Size of the device, MiB, or with k, M, G or T [default: that of the profile].
        #[arg(long, value_name = "SIZE", value_parser = size::mib, requires = "file")]
        size: Option<u64>,
        /// Replaces a file that exists.
        #[arg(long, requires = "file")]
        force: bool,
        /// Prints JSON instead of text.
        #[arg(long, requires = "file")]
        json: bool,
    },
    /// Measures a real card, drive or file, and writes a profile of it.
    Calibrate(CalibrateArgs),
    /// Writes what a host would read from a saved device to a raw image file.
    Save {
        /// A saved device.
        file: PathBuf,
        /// Raw image.
        image: PathBuf,
        /// Replaces a file that exists.
        #[arg(long)]
        force: bool,
        /// Prints JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Writes a raw image file to a saved device, through its controller.
    Load {
        /// Raw image, as large as the device.
        image: PathBuf,
        /// A saved device.
        file: PathBuf,
        /// Writes over a device that holds data.
        #[arg(long)]
        force: bool,
        /// Prints JSON instead of text.
        #[arg(long)]
        json: bool,
    },
}
