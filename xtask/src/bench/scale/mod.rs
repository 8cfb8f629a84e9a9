//! `cargo xtask bench scale`: one mount with many clients, many inodes, many files, a large volume,
//! and for a long time.
//!
//! Each part compares every byte and name with what its programs wrote, before and after a remount,
//! and has the volume checked at its end; a difference fails the run. Rates and memory are printed,
//! and of them only a memory that grows with the time of a soak fails the run, because rates belong
//! to the machine.

pub mod client;
mod clients;
mod files;
mod inodes;
mod memory;
mod soak;
mod sparse;

use super::mount::check_machine;
use crate::{Result, workspace};
use std::path::{Path, PathBuf};

const PARTS: [&str; 5] = ["clients", "inodes", "files", "sparse", "soak"];

#[derive(clap::Args)]
pub struct Args {
    /// A short run: fewer clients, inodes, files and writes, and a soak of 10 s
    #[arg(long)]
    quick: bool,
    /// Parts: clients, inodes, files, sparse, soak
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Rounds of the clients; medians count [default: 3, with --quick 1]
    #[arg(long)]
    repeats: Option<u32>,
    /// Files on one volume [default: 10000000, with --quick 100000]
    #[arg(long)]
    files: Option<u64>,
    /// Seconds of the soak of each mount, of which there are two [default: 3600, with --quick 10]
    #[arg(long)]
    seconds: Option<u64>,
    /// Where the images lie, on the disk to measure on
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// The program, instead of one built for release
    #[arg(long)]
    varve: Option<PathBuf>,
    /// More mount options for Varve
    #[arg(long)]
    options: Option<String>,
}

/// What all parts need.
struct Bench {
    varve: PathBuf,
    options: Option<String>,
    quick: bool,
    dir: PathBuf,
}

impl Bench {
    /// One of two amounts.
    fn amount<T>(&self, whole: T, quick: T) -> T {
        if self.quick { quick } else { whole }
    }

    /// A folder on the disk to measure on.
    fn folder(&self) -> Result<tempfile::TempDir> {
        tempfile::tempdir_in(&self.dir).map_err(|e| format!("a folder: {e}"))
    }
}

/// Runs `cargo xtask bench scale`.
pub fn run(args: &Args) -> Result {
    check_machine()?;
    let unknown = args
        .only
        .iter()
        .find(|word| !PARTS.contains(&word.as_str()));
    if let Some(word) = unknown {
        return Err(format!(
            "there is no `{word}`; there are: {}",
            PARTS.join(", ")
        ));
    }
    let varve = match &args.varve {
        Some(path) => path.clone(),
        None => workspace::build_varve(&["--release"])?,
    };
    let host = |e: std::io::Error| format!("{}: {e}", args.dir.display());
    std::fs::create_dir_all(&args.dir).map_err(host)?;
    let bench = Bench {
        varve,
        options: args.options.clone(),
        quick: args.quick,
        dir: args.dir.canonicalize().map_err(host)?,
    };
    let asked = |part: &str| args.only.is_empty() || args.only.iter().any(|word| word == part);
    if asked("clients") {
        clients::run(&bench, args.repeats.unwrap_or(bench.amount(3, 1)).max(1))?;
    }
    if asked("inodes") {
        inodes::run(&bench)?;
    }
    if asked("files") {
        let count = args.files.unwrap_or(bench.amount(10_000_000, 100_000));
        files::run(&bench, count)?;
    }
    if asked("sparse") {
        sparse::run(&bench)?;
    }
    if asked("soak") {
        soak::run(&bench, args.seconds.unwrap_or(bench.amount(3600, 10)))?;
    }
    Ok(())
}

/// An error of the host, with the file that it is about.
fn at(path: &Path) -> impl Fn(std::io::Error) -> String {
    let path = path.to_path_buf();
    move |e| format!("{}: {e}", path.display())
}
