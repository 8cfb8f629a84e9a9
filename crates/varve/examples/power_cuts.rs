//! Cuts the power of a modelled eMMC at ten moments and counts broken promises.

#![allow(clippy::disallowed_macros)] // A program in the real world, which prints.

use varve::simulated::{Experiment, crash};

fn main() -> varve::Result<()> {
    let asked = Experiment::new("emmc-odroid-xu4", "mix:tasks=2,ops=40").seed(7);
    let found = crash(&asked, "emmc", 10)?;
    println!("{} cuts, {} violations", found.cuts, found.violations.len());
    assert!(found.violations.is_empty(), "{:?}", found.violations);
    Ok(())
}
