//! Connections of one database that write, read and checkpoint as tasks of a simulation, and what
//! has to be true afterwards: every acknowledged row is there, and the database is whole.

use base::{Nanos, Rng};
use rt::{Sim, SimConfig};
use std::sync::Arc;
use std::time::Duration;
use testkit::model::ModelFs;
use varve_sqlite::rusqlite::{self, Connection, ffi};
use varve_sqlite::{Options, Points, Registration, register, with_points};
use vfs::Vfs;

const PATH: &str = "/t.db";

/// The shape of a run.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Connections, each a task of its own.
    pub connections: u64,
    /// Steps of each.
    pub steps: u64,
    /// Where inside of SQLite another one may run.
    pub points: Points,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            connections: 3,
            steps: 12,
            points: Points::Vfs,
        }
    }
}

/// One schedule; answers what is wrong afterwards, and the scheduling points of the run.
pub fn search(config: SimConfig, shape: Shape) -> (Option<String>, u64) {
    let run = config.seed;
    let life = || {
        let vfs = Vfs::new(ModelFs::new());
        let sqlite = Arc::new(register(&vfs, Options::default()).expect("SQLite is set up"));
        make(&sqlite);
        let tasks: Vec<_> = (0..shape.connections)
            .map(|nr| {
                let sqlite = Arc::clone(&sqlite);
                rt::spawn(&format!("connection {nr}"), move || {
                    work(&sqlite, nr, run, shape)
                })
            })
            .collect();
        let mut acknowledged = Vec::new();
        let mut told = None;
        for task in tasks {
            match task.join().expect("a task ends") {
                Ok(rows) => acknowledged.extend(rows),
                Err(why) => told = Some(why.to_string()),
            }
        }
        told.or_else(|| judge(&sqlite, &acknowledged))
    };
    let outcome = with_points(shape.points, || Sim::new(config).run(life));
    let points = outcome.points;
    match (outcome.value, outcome.first_failure) {
        (Some(why), None) => (why, points),
        (_, failure) => (Some(format!("the simulation: {failure:?}")), points),
    }
}

fn make(sqlite: &Registration) {
    let db = sqlite.open(PATH).expect("it opens");
    db.execute_batch(
        "PRAGMA page_size=512; PRAGMA journal_mode=wal; CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)",
    )
    .expect("the table is made");
    db.close().expect("it closes");
}

fn connect(sqlite: &Registration) -> rusqlite::Result<Connection> {
    let db = sqlite.open(PATH)?;
    db.busy_timeout(Duration::from_secs(60))?;
    db.execute_batch("PRAGMA synchronous=normal; PRAGMA wal_autocheckpoint=0")?;
    Ok(db)
}

/// The life of one connection; answers the rows that it was told are committed.
fn work(sqlite: &Registration, nr: u64, run: u64, shape: Shape) -> rusqlite::Result<Vec<i64>> {
    let mut rng = Rng::named(run, &format!("connection {nr}"));
    let db = connect(sqlite)?;
    let mut rows = Vec::new();
    for step in 0..shape.steps {
        match rng.below(5) {
            0 | 1 => {
                let id = (nr * 1000 + step) as i64;
                let bytes = if rng.one_in(3) { 20_000 } else { 500 };
                let text = "v".repeat(1 + rng.below(bytes) as usize);
                db.execute("INSERT INTO t VALUES(?1, ?2)", (id, text))?;
                rows.push(id);
            }
            2 | 3 => {
                checkpoint(&db);
            }
            _ => {
                db.query_row("SELECT count(v) FROM t", [], |_| Ok(()))?;
            }
        }
        // As long as SQLite waits for a lock, as nothing else here takes time: without it the
        // others would be through with all their steps when a wait ends.
        rt::sleep(Nanos::from_micros(rng.below(3) * 1000));
    }
    db.close().map_err(|(_, why)| why)?;
    Ok(rows)
}

/// A passive checkpoint, as SQLite does one itself behind a commit. What stands in its way, the
/// next one takes home.
fn checkpoint(db: &Connection) {
    // SAFETY: the connection is open and used by this task alone; null stands for all databases and
    // for counts that nobody asks for.
    unsafe {
        ffi::sqlite3_wal_checkpoint_v2(
            db.handle(),
            std::ptr::null(),
            ffi::SQLITE_CHECKPOINT_PASSIVE,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    };
}

/// Reads the database as it is after everything.
fn judge(sqlite: &Registration, acknowledged: &[i64]) -> Option<String> {
    let read = || -> rusqlite::Result<Option<String>> {
        let db = connect(sqlite)?;
        let whole: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        let mut query = db.prepare("SELECT id FROM t")?;
        let ids = query.query_map([], |row| row.get(0))?;
        let ids = ids.collect::<rusqlite::Result<Vec<i64>>>()?;
        let lost: Vec<_> = acknowledged.iter().filter(|id| !ids.contains(id)).collect();
        Ok(match (whole.as_str(), lost.is_empty()) {
            ("ok", true) => None,
            ("ok", false) => Some(format!("acknowledged rows are gone: {lost:?}")),
            _ => Some(whole),
        })
    };
    read().unwrap_or_else(|why| Some(why.to_string()))
}
