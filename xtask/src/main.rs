//! Tests, lints and cross-checks of Varve as one command: `cargo xtask <subcommand>`.
//!
//! Every subcommand is one module with a `run` that prints what it found and returns an error text
//! when something is wrong. Nothing here is linked into the product.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

mod bench;
mod book;
mod calibrate;
mod campaign_overhead;
mod circles;
mod conformance;
mod crosscheck;
mod deny;
mod dist;
mod host_sqlite;
mod layers;
mod lint;
mod msrv;
mod mutants;
mod publish;
mod python;
mod sh;
mod sqlite_race;
mod test;
mod tidy;
mod tools;
mod uring;
mod workspace;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// What a subcommand answers: nothing, or a text that says what is wrong and what to do. The text
/// is empty if that was printed already.
type Result<T = ()> = std::result::Result<T, String>;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tests, lints and cross-checks of Varve")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run the suites of tests.toml (what CI runs)
    Test(test::Args),
    /// Compare Varve with the running kernel, side by side
    Crosscheck(crosscheck::Args),
    /// Run test suites that others wrote, beside the running kernel or e2fsck
    Conformance(conformance::Args),
    /// Measure Varve beside others on this machine
    Bench(bench::Args),
    /// Check the links of the pages below docs/ and make a book of them
    Book(book::Args),
    /// Check sizes, wording, links and leftovers of the source tree
    Tidy,
    /// Compare the dependencies of the crates with the table in ARCHITECTURE.md, and look for
    /// circles of files inside each crate
    Layers(layers::Args),
    /// Run clippy with warnings denied, and reject misspelt entries of clippy.toml
    Lint,
    /// Check that the running toolchain is at least `rust-version`, and that none is pinned
    Msrv,
    /// Remove every guard once and demand that a crash test notices
    Mutants(mutants::Args),
    /// Measure the tables of CPU costs again, and print both
    CalibrateCpu(calibrate::Args),
    /// Stop a campaign, go on with it elsewhere, compare it with one process, and measure its cost
    CampaignOverhead(campaign_overhead::Args),
    /// Make what people install: archive, Debian package, list of parts, checksums
    Dist(dist::Args),
    /// Licences, sources and known vulnerabilities of what Varve is built of
    Deny(deny::Args),
    /// Pack and document every crate that may be published, without a warning
    PublishCheck(publish::Args),
    /// Build the wheel of the Python package, and test it
    Python(python::Args),
    /// Look for races of SQLite's write-ahead log, with the sources of another SQLite
    SqliteRace(sqlite_race::Args),
    /// What a script calls in a guest
    #[command(hide = true)]
    InTheGuest,
}

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Test(args) => test::run(&args),
        Task::Crosscheck(args) => crosscheck::run(&args),
        Task::Conformance(args) => conformance::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Book(args) => book::run(&args),
        Task::Tidy => tidy::run(),
        Task::Layers(args) => layers::run(&args),
        Task::Lint => lint::run(),
        Task::Msrv => msrv::run(),
        Task::Mutants(args) => mutants::run(&args),
        Task::CalibrateCpu(args) => calibrate::run(&args),
        Task::CampaignOverhead(args) => campaign_overhead::run(&args),
        Task::Dist(args) => dist::run(&args),
        Task::Deny(args) => deny::run(&args),
        Task::PublishCheck(args) => publish::run(&args),
        Task::Python(args) => python::run(&args),
        Task::SqliteRace(args) => sqlite_race::run(&args),
        Task::InTheGuest => crosscheck::f2fs_traffic::guest(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            if !text.is_empty() {
                eprintln!("xtask: {text}");
            }
            ExitCode::FAILURE
        }
    }
}
