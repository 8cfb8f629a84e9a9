//! Options of `varve paper`.

use clap::ValueEnum;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// A publication.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PaperName {
    /// Characterisation of journaling on phones, journal coalition, flush-ahead commit.
    Emmc,
    /// Journal remapping inside the flash translation layer.
    Jftl,
    /// F2FS journaling: epochs, change records, per-inode lists, recovery.
    F2fsj,
}

#[derive(clap::Args)]
pub struct PaperArgs {
    /// The publication.
    pub paper: PaperName,
    /// Fewer and shorter runs: in a minute or two.
    #[arg(long)]
    pub quick: bool,
    /// Only these figures, tables and sections, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "PART")]
    pub only: Vec<String>,
    /// Of `f2fsj`: number of objects of an operation on names, at most the paper's 4 million
    /// [default: 200000, 20000 with --quick].
    #[arg(long, value_name = "N")]
    pub objects: Option<u32>,
    /// Seed of every random stream.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Of `emmc`: folder of recordings (mobibench-facebook.txt.gz, mobibench-twitter.txt.gz)
    /// [default: VARVE_TRACES, else none].
    #[arg(long, value_name = "DIR")]
    pub traces: Option<PathBuf>,
    /// Keeps each result in this folder as it is made, and takes those that are there: a command
    /// that was stopped goes on where it was.
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Folder for paper.json and index.html.
    #[arg(long, default_value = "varve-paper", value_name = "DIR")]
    pub out: PathBuf,
    /// Prints paper.json instead of the tables.
    #[arg(long)]
    pub json: bool,
    /// Simulations at once, each in a process of its own [default: one a core]; has no influence on
    /// the results.
    #[arg(long, value_name = "N", value_parser = super::workers)]
    pub jobs: Option<NonZeroUsize>,
}
