//! `cargo xtask bench library`: the library beside the crate `rust-fs-ext4`, by the package
//! `examples/library-speed`, which stands outside of the workspace, so that nobody else compiles
//! what it is compared with.

use crate::{Result, workspace};
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    /// Rounds; the median of them counts
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Files that are made, removed and looked up, and writes of 4 KiB
    #[arg(long, default_value_t = 500)]
    files: u64,
    /// MiB of the large file
    #[arg(long, default_value_t = 64)]
    mib: u64,
    /// Volumes in files of this folder; without it they are in memory
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Builds the comparison and runs it.
pub fn run(args: &Args) -> Result {
    let root = workspace::root();
    let mut command = workspace::cargo();
    command
        .args(["run", "--quiet", "--release", "--manifest-path"])
        .arg(root.join("examples/library-speed/Cargo.toml"))
        .arg("--target-dir")
        .arg(root.join("target/library-speed"))
        .arg("--")
        .args(["--rounds", &args.rounds.to_string()])
        .args(["--files", &args.files.to_string()])
        .args(["--mib", &args.mib.to_string()])
        .args(&args.folder);
    let status = command.status().map_err(|e| format!("cargo: {e}"))?;
    match status.success() {
        true => Ok(()),
        // It has said why.
        false => Err(String::new()),
    }
}
