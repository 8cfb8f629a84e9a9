//! Programs that change files at random for a long time on one mount: it may not grow, and the
//! volume and every file have to be whole at the end.

use super::super::loads::drop_caches;
use super::super::sides::{Ground, Side};
use super::client::Running;
use super::memory::resident;
use super::{Bench, at};
use crate::Result;
use std::fs;
use std::time::Duration;

const IMAGE_BYTES: u64 = 4 << 30;
const CLIENTS: u64 = 4;
/// How often memory is looked at.
const LOOKS: u64 = 10;
/// What the memory of the last look may exceed that of the middle one by, KiB: until then the
/// caches fill.
const GROWTH_KIB: u64 = 32 << 10;
/// The kernel forgets what it knows at each of so many looks.
const FORGET_EVERY: u64 = 3;

/// Uses one mount after the other for so many seconds each.
pub fn run(bench: &Bench, seconds: u64) -> Result {
    let folder = bench.folder()?;
    let (varve, options) = (bench.varve.clone(), bench.options.clone());
    let ground = Ground::sparse(varve, options, folder.path(), IMAGE_BYTES)?;
    println!("| soak | operations | MB at each tenth |");
    println!("|---|---|---|");
    for side in [Side::Emmc, Side::F2fsj] {
        one(&ground, side, seconds).map_err(|e| format!("{}: {e}", side.name()))?;
    }
    println!();
    Ok(())
}

fn one(ground: &Ground, side: Side, seconds: u64) -> Result {
    ground.format(side)?;
    let mut mount = ground.mount(side)?;
    let pid = mount.pid().ok_or("a mount of Varve has a process")?;
    let start = |number: u64| {
        let dir = mount.dir().join(number.to_string());
        fs::create_dir(&dir).map_err(at(&dir))?;
        Running::start(&dir, number, ("--seconds", seconds))
    };
    let mut clients: Vec<Running> = (0..CLIENTS).map(start).collect::<Result<_>>()?;
    clients.iter_mut().try_for_each(Running::go)?;
    let mut sizes = Vec::new();
    for look in 1..=LOOKS {
        std::thread::sleep(Duration::from_millis(seconds * 1000 / LOOKS));
        sizes.push(resident(pid, false)?);
        if look % FORGET_EVERY == 0 {
            drop_caches()?;
        }
    }
    let mut done = 0;
    for client in &mut clients {
        done += client.done()?;
    }
    mount.end()?;
    mount = ground.mount(side)?;
    clients.iter_mut().try_for_each(Running::go)?;
    clients.iter_mut().try_for_each(Running::same)?;
    drop(clients);
    mount.end()?;
    let shown: Vec<_> = sizes.iter().map(|kib| (kib >> 10).to_string()).collect();
    println!(
        "| {}, {seconds} s | {done} | {} |",
        side.name(),
        shown.join(", ")
    );
    // The volume counts also if memory has grown.
    ground.check(side)?;
    let (middle, last) = (sizes[sizes.len() / 2], sizes[sizes.len() - 1]);
    if last > middle + GROWTH_KIB {
        return Err(format!("memory grows from {middle} to {last} KiB"));
    }
    Ok(())
}
