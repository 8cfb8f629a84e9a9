//! Helpers of the tests: a mount on the model file system, a workload, hashes.

#![allow(dead_code)] // Each test binary uses a part.

use base::collections::fingerprint;
use rt::{Outcome, Sim, SimConfig};
use rusqlite::Connection;
use std::sync::Arc;
use testkit::model::ModelFs;
use varve_sqlite::rusqlite;
use varve_sqlite::{Options, Registration, register};
use vfs::{FileSystem, OpenFlags, Vfs};

pub const JOURNAL_MODES: [&str; 5] = ["delete", "truncate", "persist", "wal", "off"];
pub const LEVELS: [&str; 4] = ["off", "normal", "full", "extra"];

/// Registers `fs`, runs `body`, and checks that everything was closed.
pub fn on<T>(fs: Arc<dyn FileSystem>, body: impl FnOnce(&Arc<Registration>) -> T) -> T {
    let vfs = Vfs::new(fs);
    let sqlite = Arc::new(register(&vfs, Options::default()).unwrap());
    let value = body(&sqlite);
    let sqlite = Arc::into_inner(sqlite).expect("all tasks have ended");
    assert!(sqlite.take_panic().is_none());
    sqlite.unregister().unwrap();
    assert_eq!(vfs.leaked_files(), 0);
    vfs.unmount().unwrap();
    value
}

/// The same in a simulation.
pub fn simulated<T>(config: SimConfig, body: impl FnOnce(&Arc<Registration>) -> T) -> Outcome<T> {
    Sim::new(config).run(|| on(ModelFs::new(), body))
}

/// A connection with these settings.
pub fn connect(sqlite: &Registration, mode: &str, level: &str) -> Connection {
    let db = sqlite.open("/t.db").unwrap();
    let got: String = db
        .query_row(&format!("PRAGMA journal_mode={mode}"), [], |r| r.get(0))
        .unwrap();
    assert_eq!(got, mode);
    db.execute_batch(&format!("PRAGMA synchronous={level}"))
        .unwrap();
    db
}

pub fn integrity(db: &Connection) {
    let answer: String = db
        .query_row("PRAGMA integrity_check", [], |r| r.get(0))
        .unwrap();
    assert_eq!(answer, "ok");
}

/// Rows as (id, length of the text).
pub fn rows(db: &Connection) -> Vec<(i64, i64)> {
    let mut query = db
        .prepare("SELECT id, length(v) FROM t ORDER BY id")
        .unwrap();
    let rows = query.query_map([], |r| Ok((r.get(0)?, r.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Inserts, updates, deletes, a rollback, rows that overflow a page; answers what must be in the
/// table.
pub fn workload(db: &mut Connection) -> Vec<(i64, i64)> {
    db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); CREATE INDEX i ON t(v)")
        .unwrap();
    for id in 0..30i64 {
        let text = "x".repeat(100 + id as usize);
        db.execute("INSERT INTO t VALUES(?1, ?2)", (id, text))
            .unwrap();
    }
    db.execute("INSERT INTO t VALUES(100, ?1)", ["y".repeat(50_000)])
        .unwrap();
    db.execute("UPDATE t SET v = v || '!' WHERE id % 2 = 0", [])
        .unwrap();
    db.execute("DELETE FROM t WHERE id % 3 = 0", []).unwrap();
    let transaction = db.transaction().unwrap();
    transaction
        .execute("UPDATE t SET v = 'undone'", [])
        .unwrap();
    transaction.rollback().unwrap();
    let small = (0..30).filter(|id| id % 3 != 0);
    let length = |id| 100 + id + i64::from(id % 2 == 0);
    small
        .map(|id| (id, length(id)))
        .chain([(100, 50_001)])
        .collect()
}

/// Name and fingerprint of each file.
pub fn files(vfs: &Arc<Vfs>) -> Vec<(String, u64)> {
    let entries = vfs.readdir("/").unwrap();
    let mut all: Vec<_> = entries
        .into_iter()
        .filter(|e| e.kind == vfs::FileKind::File)
        .map(|e| {
            let file = vfs.open(&e.name, OpenFlags::READ, 0).unwrap();
            let mut bytes = vec![0; file.stat().unwrap().size as usize];
            assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
            file.close().unwrap();
            (String::from_utf8(e.name).unwrap(), fingerprint(&bytes))
        })
        .collect();
    all.sort();
    all
}
