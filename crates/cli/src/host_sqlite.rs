//! `varve host-sqlite`: runs the SQLite workload on a real file, through SQLite's own file layer,
//! for cross-checks against the running kernel. It prints `ready` before the measured part and
//! `done` after it, and keeps the connection open until its input ends.

use crate::args::HostSqliteArgs;
use crate::failure::{Failure, failed, usage};
use std::io::Write;
use work::workload::{Workload, sqlite};

/// Prepares the database, waits for a line of input, runs the workload, and waits for the end of
/// the input.
pub fn run(args: &HostSqliteArgs) -> Result<(), Failure> {
    let workload: Workload = args.workload.parse().map_err(usage)?;
    let spec = &workload.into_sqlite().map_err(usage)?;
    let transactions = sqlite::transactions(spec, args.seed);
    if args.no_atomic_writes {
        sqlite::without_atomic_writes().map_err(failed)?;
    }
    let db = sqlite::open_on_host(&args.database).map_err(failed)?;
    sqlite::prepare(&db, spec).map_err(failed)?;
    let mut input = std::io::stdin().lines();
    say("ready")?;
    if input.next().is_none() {
        return Ok(());
    }
    sqlite::run(&db, &transactions, spec.own_time(), |_, _| {}).map_err(failed)?;
    say("done")?;
    input.by_ref().for_each(drop);
    Ok(())
}

fn say(word: &str) -> Result<(), Failure> {
    writeln!(std::io::stdout(), "{word}").map_err(failed)
}
