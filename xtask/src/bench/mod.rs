//! How fast Varve is beside other programs: all on this machine, in one run, by turns.

mod aims;
mod library;
mod loads;
mod mount;
mod requests;
mod scale;
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
    /// What the kernel asks a mount for, by mount options (root, FUSE, tracefs)
    Requests(requests::Args),
    /// One mount with many clients, inodes and files, on a large volume, for a long time (root,
    /// FUSE)
    Scale(scale::Args),
    /// A program that uses a mount, for `scale`
    #[command(hide = true)]
    ScaleClient(scale::client::Args),
    /// The library beside the crate rust-fs-ext4, each on a volume of its own
    Library(library::Args),
}

/// Runs one of them.
pub fn run(args: &Args) -> Result {
    match &args.what {
        What::Mount(args) => mount::run(args),
        What::Requests(args) => requests::run(args),
        What::Scale(args) => scale::run(args),
        What::ScaleClient(args) => scale::client::run(args),
        What::Library(args) => library::run(args),
    }
}
