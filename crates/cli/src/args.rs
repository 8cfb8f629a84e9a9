//! The command line.

use clap::{Parser, Subcommand, ValueEnum};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Journaling on flash storage: compare schemes, trust them, use them.
#[derive(Parser)]
#[command(name = "varve", version, propagate_version = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Runs one workload on several schemes over a modelled device and shows what each costs.
    Compare(CompareArgs),
    /// Shows the device profiles and what they promise.
    #[command(subcommand)]
    Device(DeviceCommand),
    /// Runs the SQLite workload on a real file, step by step as its input says: for cross-checks with the kernel.
    #[command(hide = true)]
    HostSqlite(HostSqliteArgs),
    /// Runs one simulation for another `varve`: configuration on standard input, result lines on standard output.
    #[command(hide = true)]
    Worker,
}

#[derive(Subcommand)]
pub enum DeviceCommand {
    /// Lists the built-in profiles.
    List {
        /// Prints JSON instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Shows capacity, promises, timing sets and registers of a profile.
    Show {
        /// Name of a profile, with changes: `emmc-odroid-xu4,card.cache_on=false`.
        profile: String,
        /// Prints JSON instead of tables.
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
pub struct CompareArgs {
    /// File systems, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "ext4")]
    pub fs: Vec<String>,
    /// Device profile.
    #[arg(long, default_value = "emmc-odroid-xu4", value_name = "PROFILE")]
    pub device: String,
    /// Journaling schemes, separated by commas. Each is a preset, or single choices, or both, with `+` between: `emmc`,
    /// `emmc+full-first=on`, `record=coalition+order=flush-end+home=copy`.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "jbd2,coalition,flush-ahead,emmc,adaptive,none"
    )]
    pub schemes: Vec<String>,
    /// Workload, e.g. `sqlite:insert=1000,update=1000,delete=1000,journal=truncate,synchronous=full`.
    #[arg(long, default_value = "sqlite", value_name = "SPEC")]
    pub workload: String,
    /// Seed of every random stream.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Timing set of the device profile [default: the profile's own].
    #[arg(long, value_name = "NAME")]
    pub timing: Option<String>,
    /// Size of device and file system, MiB.
    #[arg(long, default_value_t = 1024, value_name = "MIB")]
    pub size: u64,
    /// Commit and write-back timers, as in Linux; off: only syncs and lack of space write.
    #[arg(long, value_enum, default_value_t = Timers::On)]
    pub timers: Timers,
    /// Folder for results.json and index.html.
    #[arg(long, default_value = "varve-report", value_name = "DIR")]
    pub out: PathBuf,
    /// Prints results.json instead of the table.
    #[arg(long)]
    pub json: bool,
    /// Simulations at once, each in a process of its own [default: one a core].
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Timers {
    On,
    Off,
}

#[derive(clap::Args)]
pub struct HostSqliteArgs {
    /// Workload, as for `compare`.
    #[arg(long, default_value = "sqlite")]
    pub workload: String,
    /// The database file to make.
    #[arg(long)]
    pub database: PathBuf,
    /// Seed of the workload.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}
