//! Several connections in several tasks.

use crate::common;
use base::Nanos;
use common::{connect, files, integrity, on, rows, simulated};
use rt::SimConfig;
use rusqlite::Connection;
use std::sync::Arc;
use std::time::Duration;
use testkit::model::ModelFs;
use varve_sqlite::{Registration, rusqlite};

const WRITES: i64 = 25;

fn patient(sqlite: &Registration, mode: &str) -> Connection {
    let db = sqlite.open("/t.db").unwrap();
    db.busy_timeout(Duration::from_secs(60)).unwrap();
    db.execute_batch(&format!(
        "PRAGMA journal_mode={mode}; PRAGMA synchronous=full"
    ))
    .unwrap();
    db
}

/// Two writers and a reader; nothing is lost, and the reader sees whole transactions only.
fn writers_and_reader(sqlite: &Arc<Registration>, mode: &'static str) {
    let db = connect(sqlite, mode, "full");
    db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); CREATE TABLE n(k, v)")
        .unwrap();
    db.execute_batch("INSERT INTO n VALUES('sum', 0)").unwrap();
    db.close().unwrap();
    let writer = |offset: i64| {
        let sqlite = Arc::clone(sqlite);
        rt::spawn("writer", move || {
            let mut db = patient(&sqlite, mode);
            for i in 0..WRITES {
                let immediate = rusqlite::TransactionBehavior::Immediate;
                let tx = db.transaction_with_behavior(immediate).unwrap();
                tx.execute(
                    "INSERT INTO t VALUES(?1, ?2)",
                    (offset + i, "v".repeat(300)),
                )
                .unwrap();
                tx.execute("UPDATE n SET v = v + 1", []).unwrap();
                rt::sleep(Nanos::from_micros(20));
                tx.commit().unwrap();
            }
            db.close().unwrap();
        })
    };
    let reader = {
        let sqlite = Arc::clone(sqlite);
        rt::spawn("reader", move || {
            let db = patient(&sqlite, mode);
            let mut last = 0;
            while last < 2 * WRITES {
                let (sum, count): (i64, i64) = db
                    .query_row(
                        "SELECT (SELECT v FROM n), (SELECT count(*) FROM t)",
                        [],
                        |r| Ok((r.get(0)?, r.get(1)?)),
                    )
                    .unwrap();
                assert_eq!(sum, count, "a transaction was seen in part");
                assert!(sum >= last, "time went backwards");
                last = sum;
                rt::sleep(Nanos::from_micros(100));
            }
            db.close().unwrap();
        })
    };
    let tasks = [writer(0), writer(1000), reader];
    tasks.into_iter().for_each(|task| task.join().unwrap());
    let db = connect(sqlite, mode, "full");
    assert_eq!(rows(&db).len() as i64, 2 * WRITES);
    integrity(&db);
    db.close().unwrap();
}

#[test]
fn connections_exclude_each_other_in_simulations() {
    for mode in ["delete", "truncate", "persist", "wal"] {
        for seed in 0..6 {
            let outcome = simulated(SimConfig::random(seed), |s| writers_and_reader(s, mode));
            outcome.unwrap();
        }
    }
}

#[test]
fn connections_exclude_each_other_on_threads() {
    for mode in ["delete", "persist", "wal"] {
        on(ModelFs::new(), |sqlite| writers_and_reader(sqlite, mode));
    }
}

/// A checkpointer works beside a writer and a reader that holds an old snapshot.
#[test]
fn wal_with_a_checkpointer() {
    let run = |seed| {
        simulated(SimConfig::random(seed), |sqlite| {
            let db = connect(sqlite, "wal", "normal");
            db.execute_batch(
                "PRAGMA wal_autocheckpoint=0; CREATE TABLE t(id INTEGER PRIMARY KEY, v)",
            )
            .unwrap();
            let checkpointer = {
                let sqlite = Arc::clone(sqlite);
                rt::spawn("checkpointer", move || {
                    let db = patient(&sqlite, "wal");
                    for kind in ["PASSIVE", "FULL", "RESTART", "TRUNCATE"].repeat(3) {
                        let pragma = format!("PRAGMA wal_checkpoint({kind})");
                        let busy: i64 = db.query_row(&pragma, [], |r| r.get(0)).unwrap();
                        assert!((0..=1).contains(&busy));
                        rt::sleep(Nanos::from_micros(500));
                    }
                    db.close().unwrap();
                })
            };
            let snapshot = patient(sqlite, "wal");
            db.busy_timeout(Duration::from_secs(60)).unwrap();
            for id in 0..200 {
                db.execute("INSERT INTO t VALUES(?1, hex(zeroblob(300)))", [id])
                    .unwrap();
                if id == 50 {
                    snapshot.execute_batch("BEGIN").unwrap();
                    assert_eq!(rows(&snapshot).len(), 51);
                }
                if id == 120 {
                    assert_eq!(rows(&snapshot).len(), 51, "the snapshot stands still");
                    snapshot.execute_batch("COMMIT").unwrap();
                }
                rt::sleep(Nanos::from_micros(50));
            }
            checkpointer.join().unwrap();
            assert_eq!(rows(&snapshot).len(), 200);
            snapshot.close().unwrap();
            integrity(&db);
            db.close().unwrap();
            files(sqlite.vfs())
        })
    };
    for seed in 0..4 {
        run(seed).unwrap();
    }
}

/// Without the locks two writers would corrupt the file; with them the second is told to wait.
#[test]
fn an_impatient_writer_is_busy() {
    simulated(SimConfig::default(), |sqlite| {
        for mode in ["delete", "wal"] {
            let (a, b) = (connect(sqlite, mode, "full"), sqlite.open("/t.db").unwrap());
            a.execute_batch(
                "CREATE TABLE IF NOT EXISTS t(id); BEGIN IMMEDIATE; INSERT INTO t VALUES(1)",
            )
            .unwrap();
            b.busy_timeout(Duration::from_millis(250)).unwrap();
            let before = rt::now();
            let refused = b.execute_batch("BEGIN IMMEDIATE").unwrap_err();
            assert_eq!(
                refused.sqlite_error_code(),
                Some(rusqlite::ErrorCode::DatabaseBusy)
            );
            let waited = rt::now() - before;
            assert!(
                waited >= Nanos::from_millis(200),
                "in virtual time: {waited}"
            );
            a.execute_batch("COMMIT").unwrap();
            b.execute_batch("BEGIN IMMEDIATE; COMMIT").unwrap();
            a.close().unwrap();
            b.close().unwrap();
        }
    })
    .unwrap();
}

/// Rule of the runtime: after a cut nothing waits for time. SQLite's busy handler counts its
/// sleeps, so it ends, too.
#[test]
fn a_power_cut_ends_busy_waits() {
    // The end is compared exactly, so that no call may take time.
    let config = SimConfig {
        cpu_percent: 0,
        ..SimConfig::default()
    };
    let outcome = simulated(config, |sqlite| {
        let a = connect(sqlite, "delete", "full");
        a.execute_batch("CREATE TABLE t(id); BEGIN IMMEDIATE")
            .unwrap();
        let waiter = {
            let sqlite = Arc::clone(sqlite);
            rt::spawn("waiter", move || {
                let b = sqlite.open("/t.db").unwrap();
                b.busy_timeout(Duration::from_secs(600)).unwrap();
                let refused = b.execute_batch("BEGIN IMMEDIATE").unwrap_err();
                b.close().unwrap();
                refused.sqlite_error_code()
            })
        };
        rt::sleep(Nanos::from_secs(1));
        rt::power_cut();
        let refused = waiter.join().unwrap();
        assert_eq!(refused, Some(rusqlite::ErrorCode::DatabaseBusy));
        a.close().unwrap();
    });
    assert_eq!(outcome.end, base::Time(1_000_000_000));
    outcome.unwrap();
}
