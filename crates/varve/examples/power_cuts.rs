//! Cuts the power of a modelled eMMC at ten moments and counts broken promises.

#![allow(clippy::disallowed_macros)] // A program in the real world, which prints.

fn main() -> varve::Result<()> {
    let found = varve::simulated::crash("emmc-odroid-xu4", "emmc", 7, 10)?;
    println!("{} cuts, {} violations", found.cuts, found.violations.len());
    assert!(found.violations.is_empty(), "{:?}", found.violations);
    Ok(())
}
