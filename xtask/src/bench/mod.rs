//! How fast Varve is beside others: both on this machine, in one run, by turns.

mod aims;
mod loads;
mod mount;
mod sides;

use crate::Result;
use clap::Subcommand;
use std::process::Command;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// A mount of Varve beside fuse2fs and beside the kernel's ext4 on a loop device (root, FUSE, fio)
    Mount(mount::Args),
}

/// Runs one of them.
pub fn run(args: &Args) -> Result {
    match &args.what {
        What::Mount(args) => mount::run(args),
    }
}

/// Runs a program; its standard output, or what it said when it failed.
fn sh(program: &str, args: &[&str]) -> Result<String> {
    let shown = || format!("{program} {}", args.join(" "));
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|e| format!("{}: {e}", shown()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!(
            "{} failed ({}): {} {}",
            shown(),
            output.status,
            text(&output.stdout),
            text(&output.stderr)
        )),
    }
}
