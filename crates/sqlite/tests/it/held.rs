//! Journals that are held in memory (`held` of `sqlite-vfs`), of several databases and several
//! connections: which calls reach the file system.

use crate::common::{connect, integrity};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::model::ModelFs;
use testkit::spy::{Call, SpyFs};
use varve_sqlite::{Options, Registration, register, rusqlite};
use vfs::Vfs;

/// Most bytes of an atomic write: some pages.
const ATOMIC_MAX: usize = 64 << 10;

/// A volume with atomic writes, whose calls are recorded.
struct Place {
    spy: Arc<SpyFs>,
    vfs: Arc<Vfs>,
    sqlite: Registration,
    names: BTreeMap<u32, String>,
}

impl Place {
    fn new() -> Place {
        let spy = SpyFs::new(ModelFs::new());
        spy.set_atomic_max(ATOMIC_MAX);
        let vfs = Vfs::new(spy.clone());
        let options = Options {
            hold_journals: true,
            ..Options::default()
        };
        let sqlite = register(&vfs, options).unwrap();
        let names = BTreeMap::from([(vfs.fs().root().0, "/".into())]);
        Place {
            spy,
            vfs,
            sqlite,
            names,
        }
    }

    fn connect(&self, mode: &str) -> Connection {
        connect(&self.sqlite, mode, "full")
    }

    /// The calls since the last time, repeated ones once.
    fn calls(&mut self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for call in self.spy.take() {
            let (verb, ino) = match &call {
                Call::Create { ino, name } => {
                    let name = String::from_utf8_lossy(name).into_owned();
                    // SQLite draws the digits of a super-journal.
                    let name = name.find("-mj").map_or(name.as_str(), |at| &name[..at + 3]);
                    self.names.insert(ino.0, name.into());
                    continue;
                }
                Call::Write { ino, .. } => ("write", ino),
                Call::WriteAtomic { ino, .. } => ("atomic", ino),
                Call::Fsync { ino, .. } => ("sync", ino),
                Call::Truncate { ino, .. } => ("truncate", ino),
                // A sync of the volume comes behind a journal whose end was not synced (batch-T1).
                Call::Unlink { .. } | Call::Sync => continue,
                other => panic!("unexpected call {other:?}"),
            };
            let word = format!("{verb} {}", self.names[&ino.0]);
            if words.last() != Some(&word) {
                words.push(word);
            }
        }
        words
    }

    fn end(self, connections: impl IntoIterator<Item = Connection>) {
        for db in connections {
            integrity(&db);
            db.close().unwrap();
        }
        assert!(self.sqlite.take_panic().is_none());
        self.sqlite.unregister().unwrap();
        self.vfs.unmount().unwrap();
    }
}

fn run(db: &Connection, sql: &str) {
    db.execute_batch(sql).unwrap();
}

fn count(db: &Connection) -> i64 {
    db.query_row("SELECT count(*) FROM t", [], |r| r.get(0))
        .unwrap()
}

/// A cut between the commits of two databases would leave one of them alone if their journals,
/// which name each other, were not on the medium before either is written.
#[test]
fn databases_that_commit_together_have_their_journals_on_the_medium_first() {
    let mut place = Place::new();
    let db = place.connect("delete");
    run(&db, "ATTACH '/second.db' AS s; CREATE TABLE t(v)");
    run(&db, "CREATE TABLE s.t2(v)");
    place.calls();
    run(&db, "INSERT INTO t VALUES(1)");
    assert_eq!(place.calls(), ["atomic t.db", "sync t.db"], "one alone");
    run(
        &db,
        "BEGIN; INSERT INTO t VALUES(2); INSERT INTO t2 VALUES(2)",
    );
    run(&db, "COMMIT");
    let calls = place.calls();
    for database in ["t.db", "second.db"] {
        let at = |word: String| calls.iter().position(|call| *call == word);
        let journal = at(format!("sync {database}-journal")).expect("the journal is synced");
        let write = at(format!("write {database}")).expect("the database is written");
        assert!(journal < write, "{calls:?}");
        assert!(at(format!("atomic {database}")).is_none(), "{calls:?}");
    }
    place.end([db]);
}

/// In the modes that keep the journal's file open, what one connection has left of its journal is
/// neither in the way of the next one's nor mixed with it.
#[test]
fn connections_that_keep_their_journals_open_write_by_turns() {
    for mode in ["persist", "truncate"] {
        let mut place = Place::new();
        let (a, b) = (place.connect(mode), place.connect(mode));
        run(&a, "CREATE TABLE t(v)");
        place.calls();
        for db in [&a, &b, &a, &a, &b] {
            run(db, "INSERT INTO t VALUES(1)");
            assert_eq!(place.calls(), ["atomic t.db", "sync t.db"], "{mode}");
        }
        assert_eq!((count(&a), count(&b)), (5, 5));
        place.end([a, b]);
    }
}

/// A connection that still reads keeps the file of the journal with which it wrote. Neither what is
/// left of that journal is in the way of the next writer, nor does closing it end the journal of
/// that one, whose database would then be written without any.
#[test]
fn a_reader_that_has_written_is_not_in_the_way_of_the_next_writer() {
    for mode in ["persist", "truncate"] {
        let mut place = Place::new();
        let (a, b) = (place.connect(mode), place.connect(mode));
        run(&a, "CREATE TABLE t(v); INSERT INTO t VALUES(1), (2)");
        let mut query = a.prepare("SELECT v FROM t").unwrap();
        let mut reading = query.query([]).unwrap();
        reading.next().unwrap().expect("a row");
        run(&a, "INSERT INTO t VALUES(3)");
        place.calls();
        run(&b, "BEGIN IMMEDIATE; INSERT INTO t VALUES(4)");
        drop(reading);
        run(&b, "INSERT INTO t VALUES(5); COMMIT");
        assert_eq!(place.calls(), ["atomic t.db", "sync t.db"], "{mode}");
        drop(query);
        assert_eq!((count(&a), count(&b)), (5, 5));
        place.end([a, b]);
    }
}

/// A table of 12 MiB, whose journal is larger than what is held, in a file that does not grow; the
/// pages of SQLite's cache go to the database long before the end of a transaction.
fn large(db: &Connection) {
    run(
        db,
        "PRAGMA cache_size = 100; CREATE TABLE t(k INTEGER PRIMARY KEY, a, b, v);
         WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < 3000)
         INSERT INTO t SELECT k, 1000000, 1000000, zeroblob(4000) FROM n",
    );
}

fn try_sums(db: &Connection) -> rusqlite::Result<(i64, i64)> {
    let sql = "SELECT sum(a), sum(b) FROM t";
    db.query_row(sql, [], |r| Ok((r.get(0)?, r.get(1)?)))
}

fn sums(db: &Connection) -> (i64, i64) {
    try_sums(db).unwrap()
}

const ROWS: i64 = 3000;
const OLD: i64 = 1_000_000 * ROWS;

/// held-H6: what was kept before the journal became too large is not written over what a rollback
/// or a later statement has written since.
#[test]
fn a_journal_that_becomes_too_large_mixes_no_old_writes_into_new_ones() {
    for mode in ["delete", "persist", "truncate"] {
        let place = Place::new();
        let (a, b) = (place.connect(mode), place.connect(mode));
        large(&a);
        let both = |expected: (i64, i64), what: &str| {
            for (name, db) in [("own", &a), ("other", &b)] {
                assert_eq!(sums(db), expected, "{mode}, {what}: {name}");
                integrity(db);
            }
        };
        both((OLD, OLD), "made");
        run(&a, "BEGIN; UPDATE t SET a = a + 1; ROLLBACK");
        both((OLD, OLD), "rolled back");
        run(&a, "BEGIN; SAVEPOINT s; UPDATE t SET a = a + 1");
        run(
            &a,
            "ROLLBACK TO s; UPDATE t SET b = b + 1 WHERE k = 1; COMMIT",
        );
        both((OLD, OLD + 1), "rolled back to a savepoint");
        run(
            &a,
            "BEGIN; UPDATE t SET a = a + 1; UPDATE t SET b = b + 2; COMMIT",
        );
        both((OLD + ROWS, OLD + 1 + 2 * ROWS), "committed");
        let failing =
            a.execute_batch("UPDATE t SET a = a + 1, k = CASE k WHEN 2999 THEN 1 ELSE k END");
        failing.expect_err("two rows have one key");
        both((OLD + ROWS, OLD + 1 + 2 * ROWS), "a statement that fails");
        place.end([a, b]);
    }
}

/// held-H5: where the journal has no room in its file, SQLite rolls back by what is held.
#[test]
fn a_journal_without_room_rolls_back_as_a_whole() {
    for mode in ["delete", "persist", "truncate"] {
        for exclusive in ["normal", "exclusive"] {
            let place = Place::new();
            let a = place.connect(mode);
            run(&a, &format!("PRAGMA locking_mode = {exclusive}"));
            large(&a);
            // The journal's file has room for 4 MiB, and the database for what it has.
            place.spy.set_without_room(1024..1 << 40);
            place.spy.keep_room();
            let failed = a.execute_batch("UPDATE t SET a = a + 1");
            failed.expect_err("no room for the journal");
            // Who keeps the lock may be refused as long as its rollback has no room, and is told
            // nothing that was never committed.
            if let Ok(found) = try_sums(&a) {
                assert_eq!(found, (OLD, OLD), "{mode}, {exclusive}");
            }
            place.spy.set_without_room(0..0);
            assert_eq!(sums(&a), (OLD, OLD), "{mode}, {exclusive}, with room");
            integrity(&a);
            run(&a, "UPDATE t SET b = b + 1 WHERE k < 3");
            assert_eq!(sums(&a), (OLD, OLD + 2), "{mode}, {exclusive}");
            place.end([a]);
        }
    }
}
