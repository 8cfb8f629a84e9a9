//! Cross-checks of Varve against a kernel, side by side in one run.

mod ext4_traffic;
mod loop_mount;
pub mod uml_f2fs;

use crate::Result;
use clap::Subcommand;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Blocks, commands and flushes of one-row SQLite transactions: kernel ext4 on a loop device
    /// against Varve (root)
    Ext4Traffic(ext4_traffic::Args),
    /// Blocks, commands and flushes of one-row SQLite transactions: F2FS of a kernel in user mode
    UmlF2fs(uml_f2fs::Args),
}

pub fn run(args: &Args) -> Result {
    match &args.what {
        What::Ext4Traffic(args) => ext4_traffic::run(args),
        What::UmlF2fs(args) => uml_f2fs::run(args),
    }
}
