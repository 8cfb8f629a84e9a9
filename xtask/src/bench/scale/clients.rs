//! Many programs that use one mount at once, each in a directory of its own and all in one.

use super::super::aims;
use super::super::loads::drop_caches;
use super::super::sides::{Ground, Side};
use super::client::Running;
use super::{Bench, at};
use crate::Result;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

const IMAGE_BYTES: u64 = 1 << 30;
const SIDES: [Side; 4] = [Side::Kernel, Side::Emmc, Side::Fast, Side::F2fsj];
/// Numbers of clients.
const CLIENTS: [u64; 5] = [1, 8, 16, 32, 64];
/// Of a short run.
const CLIENTS_QUICK: [u64; 2] = [1, 16];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Where {
    Own,
    One,
}

impl Where {
    const fn name(self) -> &'static str {
        match self {
            Where::Own => "own",
            Where::One => "one",
        }
    }
}

/// Files per second of each round.
type Rates = BTreeMap<(Where, u64, Side), Vec<f64>>;

pub fn run(bench: &Bench, rounds: u32) -> Result {
    let folder = bench.folder()?;
    let (varve, options) = (bench.varve.clone(), bench.options.clone());
    let ground = Ground::new(varve, options, folder.path(), IMAGE_BYTES)?;
    let mut rates = Rates::new();
    for round in 1..=rounds {
        for side in SIDES {
            eprintln!("clients, round {round} of {rounds}: {}", side.name());
            one(bench, &ground, side, &mut rates).map_err(|e| format!("{}: {e}", side.name()))?;
        }
    }
    print(&rates);
    Ok(())
}

/// All numbers of clients on one volume; each client looks at its files at the end, and once more
/// after a remount.
fn one(bench: &Bench, ground: &Ground, side: Side, rates: &mut Rates) -> Result {
    ground.format(side)?;
    let mut mount = ground.mount(side)?;
    let files = bench.amount(6400, 640);
    let numbers = bench.amount(&CLIENTS[..], &CLIENTS_QUICK[..]);
    let mut all = Vec::new();
    for place in [Where::Own, Where::One] {
        for &count in numbers {
            let dir = mount.dir().join(format!("{count} in {}", place.name()));
            let mut clients = start(&dir, place, count, files / count)?;
            let begun = Instant::now();
            clients.iter_mut().try_for_each(Running::go)?;
            let mut done = 0;
            for client in &mut clients {
                done += client.done()?;
            }
            let rate = done as f64 / begun.elapsed().as_secs_f64();
            rates.entry((place, count, side)).or_default().push(rate);
            look(&mut clients)?;
            all.extend(clients);
        }
    }
    mount.end()?;
    drop_caches()?;
    mount = ground.mount(side)?;
    look(&mut all)?;
    drop(all);
    mount.end()?;
    ground.check(side)
}

fn start(dir: &Path, place: Where, count: u64, files: u64) -> Result<Vec<Running>> {
    fs::create_dir(dir).map_err(at(dir))?;
    let start = |number: u64| {
        let own = match place {
            Where::Own => dir.join(number.to_string()),
            Where::One => dir.to_path_buf(),
        };
        fs::create_dir_all(&own).map_err(at(&own))?;
        Running::start(&own, number, ("--count", files))
    };
    (0..count).map(start).collect()
}

fn look(clients: &mut [Running]) -> Result {
    clients.iter_mut().try_for_each(Running::go)?;
    clients.iter_mut().try_for_each(Running::same)
}

/// Medians, and beside them the median of the ratios to the kernel in the same round.
fn print(rates: &Rates) {
    let names: Vec<_> = SIDES.iter().map(|side| side.name()).collect();
    println!("| directories | clients | {} |", names.join(" | "));
    println!("|---|---|{}", "---|".repeat(SIDES.len()));
    for place in [Where::Own, Where::One] {
        for count in CLIENTS {
            let Some(kernel) = rates.get(&(place, count, Side::Kernel)) else {
                continue;
            };
            let cell = |side: Side| {
                let ours = &rates[&(place, count, side)];
                let ratios = ours.iter().zip(kernel).map(|(a, b)| a / b).collect();
                let median = |of: Vec<f64>| aims::median(of).unwrap_or(f64::NAN);
                format!("{:.0} ({:.2})", median(ours.clone()), median(ratios))
            };
            let cells: Vec<_> = SIDES.into_iter().map(cell).collect();
            println!("| {} | {count} | {} |", place.name(), cells.join(" | "));
        }
    }
    println!();
}
