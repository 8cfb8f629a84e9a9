//! Measures what SQLite itself computes: the figures behind `base::cost::sqlite`. `cargo xtask
//! calibrate-cpu` runs it and prints table and measurement side by side.
//!
//! SQLite works on files of the host in memory (`/dev/shm`), through a VFS that passes every call
//! on to SQLite's own and takes its time. What is left of the whole time is SQLite's. The least of
//! the rounds counts, as in the other benches of costs.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types
)] // No simulation runs here.

#[path = "cost/shim.rs"]
mod shim;

use rusqlite::{Connection, OpenFlags, params};
use std::path::Path;

/// Rounds; the least of them counts.
const ROUNDS: usize = 12;
/// Rows of the table, each on a page of its own: with two of them a page would be full.
const ROWS: i64 = 400;
/// Statements of a round that touches one page only.
const STATEMENTS: u32 = 20_000;
/// Characters of a value that has a page of its own.
const WIDE: usize = 2500;
/// Characters of a value of Mobibench.
const SHORT: usize = 100;

fn main() {
    if std::env::args().any(|a| a == "--test") {
        // `cargo test --benches` asks whether it builds, no more.
        return;
    }
    shim::register().expect("SQLite takes a VFS");
    let memory = Path::new("/dev/shm");
    let folder = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    let folder = folder.expect("a folder for databases");
    let best = |round: &dyn Fn() -> f64| {
        let rounds = (0..ROUNDS).map(|_| round());
        rounds.fold(f64::INFINITY, f64::min)
    };
    let at = |name: &str| folder.path().join(name);
    let one = best(&|| statement(&at("statement"), SHORT));
    let wide = best(&|| statement(&at("statement"), WIDE));
    let page = best(&|| pages(&at("off"), "off")) - wide;
    let rollback = best(&|| pages(&at("truncate"), "truncate")) - wide;
    let frame = best(&|| pages(&at("wal"), "wal")) - wide;
    // Two pages: the row's, and the first, which has the counter of changes.
    let alone = best(&|| transactions(&at("alone"))) - wide;
    let commit = alone - 2.0 * rollback;
    let read = best(&|| reads(&at("reads")));
    for (name, nanos) in [
        ("sqlite/statement", one),
        ("sqlite/commit", commit),
        ("sqlite/page", page),
        ("sqlite/journal-page", rollback - page),
        ("sqlite/wal-page", frame),
        ("sqlite/read-page", read),
    ] {
        println!("{name}\t{:.0}", nanos.max(0.0));
    }
}

/// A fresh database with [`ROWS`] rows of so many characters.
fn database(path: &Path, mode: &str, chars: usize) -> Connection {
    for end in ["", "-journal", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        let _ = std::fs::remove_file(name);
    }
    let db = open(path);
    let settings = format!(
        "PRAGMA page_size=4096; PRAGMA journal_mode={mode}; PRAGMA synchronous=full; \
         CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT, d TEXT); BEGIN"
    );
    db.execute_batch(&settings).expect("settings are taken");
    let row = "x".repeat(chars);
    for id in 1..=ROWS {
        db.execute("INSERT INTO t VALUES(?1, ?2, 'd')", params![id, row])
            .expect("a row");
    }
    db.execute_batch("COMMIT").expect("committed");
    // Pages come into the cache.
    db.query_row("SELECT sum(length(v)) FROM t", [], |_| Ok(()))
        .expect("a sum");
    db
}

fn open(path: &Path) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags_and_vfs(path, flags, shim::NAME).expect("the database opens")
}

const UPDATE: &str = "UPDATE t SET v = ?2, d = ?3 WHERE id = ?1";
const DATE: &str = "2026-01-01 00:00:00";

/// One statement that changes a row by its key, inside of a transaction.
fn statement(path: &Path, chars: usize) -> f64 {
    let db = database(path, "truncate", chars);
    // SQLite leaves a row alone that has the value already.
    let values = ["y".repeat(chars), "z".repeat(chars)];
    let mut update = db.prepare(UPDATE).expect("the statement is right");
    db.execute_batch("BEGIN IMMEDIATE").expect("begun");
    update
        .execute(params![1, values[1], DATE])
        .expect("changed");
    let own = shim::own_nanos(|| {
        for n in 0..STATEMENTS {
            let value = &values[n as usize % 2];
            assert_eq!(update.execute(params![1, value, DATE]), Ok(1));
        }
    });
    own / f64::from(STATEMENTS)
}

/// A row changed on a page of its own, the commit of all included: what one of them takes.
fn pages(path: &Path, mode: &str) -> f64 {
    let db = database(path, mode, WIDE);
    let value = "y".repeat(WIDE);
    let mut update = db.prepare(UPDATE).expect("the statement is right");
    let own = shim::own_nanos(|| {
        db.execute_batch("BEGIN IMMEDIATE").expect("begun");
        for id in 1..=ROWS {
            update.execute(params![id, value, DATE]).expect("changed");
        }
        db.execute_batch("COMMIT").expect("committed");
    });
    own / ROWS as f64
}

/// A transaction of one statement.
fn transactions(path: &Path) -> f64 {
    let db = database(path, "truncate", WIDE);
    let value = "y".repeat(WIDE);
    let mut update = db.prepare(UPDATE).expect("the statement is right");
    let own = shim::own_nanos(|| {
        for id in 1..=ROWS {
            update.execute(params![id, value, DATE]).expect("changed");
        }
    });
    own / ROWS as f64
}

/// Reading a page into SQLite's cache: a scan by keys with a cold cache less one with a warm cache.
fn reads(path: &Path) -> f64 {
    drop(database(path, "truncate", WIDE));
    let db = open(path);
    let mut select = db
        .prepare("SELECT length(d) FROM t WHERE id = ?1")
        .expect("right");
    db.execute_batch("BEGIN").expect("begun");
    let mut scan = || {
        let calls = shim::reads();
        let own = shim::own_nanos(|| {
            for id in 1..=ROWS {
                select.query_row([id], |_| Ok(())).expect("a row");
            }
        });
        (own, shim::reads() - calls)
    };
    let (cold, first) = scan();
    let (warm, second) = scan();
    assert!(first > second, "the second scan reads nothing");
    (cold - warm) / (first - second) as f64
}
