//! Two runs with one seed are identical (sqlite-S1, sqlite-S2).

use crate::common;
use common::{connect, files, rows, simulated, workload};
use rt::SimConfig;
use std::sync::Arc;
use varve_sqlite::Registration;

/// Everything that could differ: file bytes, SQLite's random numbers, its clock.
type Trace = (Vec<(String, u64)>, Vec<i64>, String, u64);

fn life(seed: u64, mode: &'static str) -> Trace {
    let body = |sqlite: &Arc<Registration>| {
        let mut db = connect(sqlite, mode, "full");
        workload(&mut db);
        let second = {
            let sqlite = Arc::clone(sqlite);
            rt::spawn("second", move || {
                let db = sqlite.open("/second.db").unwrap();
                db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
                    .unwrap();
                for _ in 0..10 {
                    db.execute("INSERT INTO t(v) VALUES(randomblob(500))", [])
                        .unwrap();
                    rt::sleep(base::Nanos::from_millis(1));
                }
                db.close().unwrap();
            })
        };
        let mut numbers = Vec::new();
        for _ in 0..10 {
            numbers.push(db.query_row("SELECT random()", [], |r| r.get(0)).unwrap());
            rt::sleep(base::Nanos::from_millis(1));
        }
        second.join().unwrap();
        rt::sleep(base::Nanos::from_secs(86_400));
        let clock = "SELECT datetime('now') || ' ' || datetime('now', 'localtime')";
        let clock: String = db.query_row(clock, [], |r| r.get(0)).unwrap();
        assert_eq!(rows(&db).len(), 21);
        // A journal that stays holds a random nonce.
        db.execute_batch("PRAGMA journal_mode=persist; DELETE FROM t")
            .unwrap();
        db.close().unwrap();
        (files(sqlite.vfs()), numbers, clock)
    };
    let outcome = simulated(SimConfig::random(seed), body);
    let hash = outcome.trace_hash;
    let (files, numbers, clock) = outcome.unwrap();
    (files, numbers, clock, hash)
}

#[test]
fn same_seed_same_bytes_and_another_seed_others() {
    for mode in ["delete", "persist", "wal"] {
        let (one, two, other) = (life(1, mode), life(1, mode), life(2, mode));
        assert_eq!(one, two);
        assert_ne!(one.0, other.0, "the random numbers depend on the seed");
        assert_ne!(one.1, other.1);
        let (mut unique, all) = (one.1.clone(), one.1.len());
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), all, "random numbers do not repeat");
    }
}

#[test]
fn the_clock_is_virtual_and_utc() {
    let (_, _, clock, _) = life(1, "delete");
    assert_eq!(clock, "2024-01-02 00:00:00 2024-01-02 00:00:00");
}

/// SQLite has one random generator per process; without the reseeding mutex parallel simulations
/// change each other.
#[test]
#[allow(clippy::disallowed_methods)] // Real threads, each with a simulation of its own.
fn simulations_on_parallel_threads_do_not_disturb_each_other() {
    let alone: Vec<Trace> = (0..4).map(|seed| life(seed, "persist")).collect();
    for _ in 0..3 {
        let together: Vec<Trace> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|seed| scope.spawn(move || life(seed, "persist")))
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert_eq!(together, alone);
    }
}
