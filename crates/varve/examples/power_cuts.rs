//! Cuts the power of a modelled eMMC at ten moments and counts broken promises.

fn main() -> varve::Result<()> {
    let found = varve::simulated::crash("emmc-odroid-xu4", "emmc", 7, 10)?;
    println!("{} cuts, {} violations", found.cuts, found.violations.len());
    assert!(found.violations.is_empty(), "{:?}", found.violations);
    Ok(())
}
