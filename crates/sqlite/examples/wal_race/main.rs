//! Looks for races of SQLite's write-ahead log ([`search`]) under many schedules.
//!
//! `cargo xtask sqlite-race` builds it with the sources of another SQLite. SQLite is not patched:
//! a task gives way where SQLite calls its VFS, where it enters or leaves one of its mutexes, and
//! where it reads or writes shared memory atomically. For the last the compiler is told that such
//! an access calls [`varve_shared_memory`] first (`atomics.h`); built without that, as in this
//! workspace, those are no points.
#![allow(clippy::disallowed_macros)] // It prints.

mod schedules;
mod search;

use rt::SimConfig;
use schedules::{Limits, kinds, search_all};
use search::{Shape, search};
use std::process::ExitCode;
use varve_sqlite::{Points, rusqlite};

/// What `atomics.h` has SQLite call before each atomic access to memory.
#[unsafe(no_mangle)]
pub extern "C" fn varve_shared_memory() {
    varve_sqlite::shared_memory();
}

const USAGE: &str = "wal_race: POINTS KINDS WORKLOADS FIRST SCHEDULES, or POINTS and one replay line \
                     in quotes; POINTS is vfs, mutexes or memory, KINDS all or a list with commas";

/// `wal_race POINTS KINDS WORKLOADS FIRST SCHEDULES` searches, `wal_race POINTS REPLAY-LINE` runs
/// one schedule again.
fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((points, rest)) = args.split_first().and_then(|(p, r)| Some((named(p)?, r))) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let shape = Shape {
        points,
        ..Shape::default()
    };
    println!(
        "SQLite {}: {} connections, {} steps each, points: {}",
        rusqlite::version(),
        shape.connections,
        shape.steps,
        args[0],
    );
    if let [line] = rest {
        return replay(line, shape);
    }
    match limits(rest) {
        Ok(limits) => ExitCode::from(u8::from(search_all(&limits, shape) > 0)),
        Err(why) => {
            eprintln!("wal_race: {why}");
            ExitCode::from(2)
        }
    }
}

/// KINDS WORKLOADS FIRST SCHEDULES.
fn limits(args: &[String]) -> Result<Limits, String> {
    let (list, numbers) = args.split_first().ok_or(USAGE)?;
    let numbers: Result<Vec<u64>, _> = numbers.iter().map(|n| n.parse()).collect();
    let Ok(&[workloads, first, schedules]) = numbers.as_deref() else {
        return Err(USAGE.into());
    };
    Ok(Limits {
        workloads: first..first.saturating_add(workloads),
        schedules,
        kinds: kinds(list)?,
    })
}

fn named(word: &str) -> Option<Points> {
    match word {
        "vfs" => Some(Points::Vfs),
        "mutexes" => Some(Points::Mutexes),
        "memory" => Some(Points::SharedMemory),
        _ => None,
    }
}

fn replay(line: &str, shape: Shape) -> ExitCode {
    match line.parse::<SimConfig>() {
        Ok(config) => {
            let (why, _) = search(config, shape);
            println!("{}", why.as_deref().unwrap_or("whole"));
            ExitCode::from(u8::from(why.is_some()))
        }
        Err(why) => {
            eprintln!("wal_race: {why}");
            ExitCode::from(2)
        }
    }
}
