//! `cargo xtask test`: every suite of `tests.toml`, measured against its budget.
//!
//! 1. `packages` says which Debian packages the suites want, and installs what is missing if it
//!    may.
//! 2. `run` runs suites that are commands as they are. For suites of cargo tests the workspace is
//!    compiled once and the test programs are started directly, because `cargo test -p` would
//!    compile a second time with other features.
//! 3. `tally` says what passed, failed and was skipped, and why; the last line is
//!    `N passed, N failed, N skipped`.

pub mod build;
pub mod need;
mod packages;
mod plan;
mod rows;
mod run;
mod spent;
mod tally;

use crate::{Result, workspace};
use need::Machine;
use plan::Plan;
use tally::Tally;

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub struct Args {
    /// Do not install Debian packages; suites that lack one are skipped
    #[arg(long)]
    no_install: bool,
    /// Run the long suites (tier 2) too
    #[arg(long)]
    long: bool,
    /// Run only this suite, whatever its tier; may be given more than once
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// List the suites and do nothing
    #[arg(long)]
    list: bool,
}

/// Runs what the options ask for.
pub fn run(args: &Args) -> Result {
    let plan = Plan::parse(&workspace::read("tests.toml")?)?;
    if args.list {
        println!("{}", plan.list());
        return Ok(());
    }
    let suites = plan.choose(args.long, &args.only)?;
    packages::provide(&plan, &suites, !args.no_install);
    let machine = Machine::probe(&suites);
    let mut tally = Tally::default();
    run::all(&plan, &suites, &machine, &mut tally);
    if args.only.is_empty() {
        plan.name_left_out(args.long, &mut tally);
    }
    print!("{}", tally.closing_lines());
    if tally.failed > 0 {
        Err(String::new())
    } else {
        Ok(())
    }
}
