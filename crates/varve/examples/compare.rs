//! Measures a workload of SQLite with two journaling schemes on a modelled eMMC.

#![allow(clippy::disallowed_macros)] // A program in the real world, which prints.

use varve::simulated::{Experiment, compare};

fn main() -> varve::Result<()> {
    let asked = Experiment::new("emmc-odroid-xu4", "sqlite:insert=100").bytes(256 << 20);
    for run in compare(&asked, &["jbd2", "emmc"])? {
        println!("{}: {:.0} transactions/s", run.scheme, run.ops_per_s);
    }
    Ok(())
}
