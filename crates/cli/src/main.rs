//! The `varve` command.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

mod args;
mod compare;
mod crash;
mod device;
mod failure;
mod host_sqlite;
mod out;
mod table;
mod worker;

use args::{Args, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Compare(options) => compare::compare(&options),
        Command::Crash(options) => crash::crash(&options),
        Command::CrashWorker => crash::worker::serve(),
        Command::Device(options) => device::device(&options),
        Command::HostSqlite(options) => host_sqlite::run(&options),
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
