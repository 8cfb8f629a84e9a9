//! Cross-checks of Varve against a kernel, side by side in one run.

mod ext4_traffic;
mod f2fs_checkpoints;
pub mod f2fs_traffic;
mod loop_mount;
mod uml_jftl;

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
    /// Blocks, commands and flushes of one-row SQLite transactions: F2FS of a guest's kernel
    F2fsTraffic(f2fs_traffic::Args),
    /// Checkpoints of stock F2FS and the blocks that they write while names come and go: a guest's
    /// kernel against Varve
    F2fsCheckpoints(f2fs_checkpoints::Args),
    /// Home writes of a guest's ext4 that a device turns into remaps by itself, and what that saves
    UmlJftl(uml_jftl::Args),
}

pub fn run(args: &Args) -> Result {
    match &args.what {
        What::Ext4Traffic(args) => ext4_traffic::run(args),
        What::F2fsTraffic(args) => f2fs_traffic::run(args),
        What::F2fsCheckpoints(args) => f2fs_checkpoints::run(args),
        What::UmlJftl(args) => uml_jftl::run(args),
    }
}
