//! The `varve` command.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

mod args;
mod blocks;
mod compare;
mod crash;
mod device;
mod failure;
mod fsck;
mod host_sqlite;
mod image;
mod mkfs;
mod mount;
mod out;
mod paper;
mod pool;
mod replay;
mod saved;
mod table;
mod worker;

use args::{Args, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let given: Vec<_> = std::env::args_os().collect();
    let given = mount::as_helper(&given).unwrap_or(given);
    let args = Args::try_parse_from(given).unwrap_or_else(|e| refuse(&e));
    let result = match args.command {
        Command::Fsck(options) => return fsck::fsck(&options),
        Command::Recover(options) => return fsck::recover::recover(&options),
        Command::Compare(options) => compare::compare(&options),
        Command::Crash(options) => crash::crash(&options),
        Command::CrashWorker => crash::worker::serve(),
        Command::Device(options) => device::device(&options),
        Command::Mkfs(options) => mkfs::mkfs(&options),
        Command::Info(options) => image::info(&options),
        Command::Ls(options) => image::ls(&options),
        Command::Cat(options) => image::cat(&options),
        Command::Cp(options) => image::copy(&options),
        Command::Extract(options) => image::extract(&options),
        Command::Dump(options) => image::dump(&options),
        Command::Mount(options) => mount::mount(&options),
        Command::Umount(options) => mount::umount(&options),
        Command::HostSqlite(options) => host_sqlite::run(&options),
        Command::Replay(options) => replay::replay(&options),
        Command::Paper(options) => paper::paper(&options),
        Command::PaperWorker => paper::worker::serve(),
        Command::Worker => worker::serve(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("varve: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Help and version go to standard output; a wrong command line ends with 2, or with what e2fsck says of it.
fn refuse(e: &clap::Error) -> ! {
    let is_fsck = std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == "fsck");
    if is_fsck && e.use_stderr() {
        let _ = e.print();
        std::process::exit(fsck::USAGE.into());
    }
    e.exit()
}
