//! Test suites that others wrote. They run on a mount of Varve beside one of the running kernel;
//! recovery and checking run beside those of e2fsck. So the verdict is not our own.

mod e2fsprogs;
mod fsx;
mod images;
mod journals;
pub mod ltp;
mod mounts;
mod pjdfstest;
mod stress;
mod tools;
pub mod xfstests;

use crate::{Result, workspace};
use clap::Subcommand;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
    /// The program to test [default: built now]
    #[arg(long, value_name = "FILE", global = true)]
    varve: Option<PathBuf>,
}

#[derive(Subcommand)]
enum What {
    /// Every case of pjdfstest: the kernel's file system on a loop device and Varve's, case by case
    /// (root)
    Pjdfstest(pjdfstest::Args),
    /// Random operations on one file, each read compared with what was written (root)
    Fsx(fsx::Args),
    /// Recovery beside that of e2fsck, on the journal tests of e2fsprogs (j_*)
    Journals(journals::Args),
    /// Tests of LTP about files, the kernel's ext4 beside, whose built source tree is named (root)
    Ltp(ltp::Args),
    /// The generic group of xfstests, whose built source tree is named (root)
    Xfstests(xfstests::Args),
    /// Verdicts on volumes beside those of e2fsck, on the other tests of e2fsprogs (f_*, m_*, r_*)
    Images(images::Args),
    /// stress-ng's file-system class beside the kernel's ext4, then dbench and bonnie++ (root)
    Stress(stress::Args),
}

pub fn run(args: &Args) -> Result {
    let varve = match &args.varve {
        Some(file) => file.clone(),
        None => workspace::build_varve(&[])?,
    };
    match &args.what {
        What::Pjdfstest(args) => pjdfstest::run(args, &varve),
        What::Fsx(args) => fsx::run(args, &varve),
        What::Journals(args) => journals::run(args, &varve),
        What::Ltp(args) => ltp::run(args, &varve),
        What::Xfstests(args) => xfstests::run(args, &varve),
        What::Images(args) => images::run(args, &varve),
        What::Stress(args) => stress::run(args, &varve),
    }
}
