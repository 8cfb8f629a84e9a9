//! How fast Varve is beside other programs: all on this machine, in one run, by turns.

mod aims;
mod library;
mod loads;
mod mount;
mod sides;

use crate::Result;
use clap::Subcommand;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// A mount of Varve beside fuse2fs and beside the kernel's ext4 on a loop device (root, FUSE,
    /// fio)
    Mount(mount::Args),
    /// The library beside the crate rust-fs-ext4, each on a volume of its own
    Library(library::Args),
}

/// Runs one of them.
pub fn run(args: &Args) -> Result {
    match &args.what {
        What::Mount(args) => mount::run(args),
        What::Library(args) => library::run(args),
    }
}
