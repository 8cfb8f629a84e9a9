//! Options of `varve record` and `varve replay`.

use super::RunArgs;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct RecordArgs {
    /// The recording. It holds calls, paths and sizes, and no content.
    #[arg(short, long, default_value = "recording.strace", value_name = "FILE")]
    pub output: PathBuf,
    /// Replaces the file if it is there already.
    #[arg(long)]
    pub force: bool,
    /// The command with its arguments; the exit code is its own.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}

#[derive(clap::Args)]
pub struct ReplayArgs {
    /// Recording of system calls or of block requests, a workload model of Filebench (`.f`), or a
    /// job file of fio; its format is found out by its content, .gz and .zst are read as they are.
    pub file: PathBuf,
    /// Prints what the recording is like, and runs nothing.
    #[arg(long)]
    pub stats: bool,
    /// Refuses a recording with lines at fault instead of skipping them.
    #[arg(long)]
    pub strict: bool,
    /// When calls start: `recorded` not before their recorded time, `busy` after the application's
    /// own time, `none` at once [default: busy]. Block requests: `recorded`, or `none:N` with N
    /// under way at any time [default: recorded].
    #[arg(long, value_name = "PACE")]
    pub pace: Option<String>,
    /// Factor on the application's own time, with `--pace busy`.
    #[arg(
        long,
        default_value = "1",
        value_name = "FACTOR",
        allow_hyphen_values = true
    )]
    pub think: String,
    /// Milliseconds; longer pauses are waiting for a user or the network, and are left out with
    /// `--pace busy`.
    #[arg(long, default_value = "20", value_name = "MS")]
    pub idle: String,
    /// Tells which files, calls or processes (threads) of a recording cause the bytes written and
    /// the erases, for each scheme: `file`, `call`, `process`.
    #[arg(long, value_name = "WHAT")]
    pub by: Option<report::causes::By>,
    /// Percent of the device that files take before, on a volume that was written over once.
    #[arg(long, value_name = "PERCENT")]
    pub aged: Option<String>,
    /// The format, for a file whose content does not show it: `mobibench`, `strace`, `filebench`,
    /// `fiojobs`, or of block requests `msr`, `fio`, `blkparse`, `mqsim`, `disksim`, `pixel`.
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,
    #[command(flatten)]
    pub blocks: BlockArgs,
    #[command(flatten)]
    pub on: RunArgs,
}

/// What is for recordings of block requests only. They run on a translation layer that counts, or
/// with `--device` on a profile.
#[derive(clap::Args)]
#[command(next_help_heading = "Block requests")]
pub struct BlockArgs {
    /// How addresses come onto the device: `compact` (what is touched lies together) or `modulo`
    /// [default: compact].
    #[arg(long, value_name = "WAY")]
    pub fold: Option<String>,
    /// What is written before: `none`, `footprint` (what the recording touches), `all`
    /// [default: footprint].
    #[arg(long, value_name = "WHAT")]
    pub fill: Option<String>,
    /// How often the recording runs [default: 1].
    #[arg(long, value_name = "N")]
    pub passes: Option<u32>,
    /// Policies of garbage collection, separated by commas
    /// [default: greedy,cost-benefit,d-choices,fifo].
    #[arg(long, value_delimiter = ',', value_name = "POLICY")]
    pub policies: Vec<String>,
    /// Chips and layer: `page=16384,pages=256,dies=2,lanes=2,spare=0.07,wear=0,endurance=3000`.
    #[arg(long, value_name = "KEY=VALUE,..")]
    pub ftl: Option<String>,
}
