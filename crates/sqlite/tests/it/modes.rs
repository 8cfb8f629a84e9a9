//! Every journal mode with every level of `synchronous`, in both worlds.

use crate::common;
use common::{JOURNAL_MODES, LEVELS, connect, files, integrity, on, rows, simulated, workload};
use rt::SimConfig;
use testkit::model::ModelFs;
use varve_sqlite::Registration;

/// Runs the workload, closes, opens again, looks, vacuums, looks again.
fn life(sqlite: &Registration, mode: &str, level: &str) {
    let mut db = connect(sqlite, mode, level);
    let off = mode == "off";
    let expected = if off {
        // Without a journal there is no rollback; the rest is the same.
        db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)")
            .unwrap();
        for id in 0..30i64 {
            db.execute("INSERT INTO t VALUES(?1, ?2)", (id, "x".repeat(6000)))
                .unwrap();
        }
        (0..30).map(|id| (id, 6000)).collect()
    } else {
        workload(&mut db)
    };
    assert_eq!(rows(&db), expected);
    integrity(&db);
    db.close().unwrap();
    let left: Vec<_> = files(sqlite.vfs()).into_iter().map(|f| f.0).collect();
    match mode {
        "truncate" | "persist" => assert_eq!(left, ["t.db", "t.db-journal"]),
        _ => assert_eq!(left, ["t.db"], "{mode}"),
    }

    let db = connect(sqlite, mode, level);
    assert_eq!(rows(&db), expected);
    db.execute_batch("VACUUM").unwrap();
    assert_eq!(rows(&db), expected);
    integrity(&db);
    db.close().unwrap();
    assert_eq!(sqlite.open_files(), 0);
    assert_eq!(sqlite.first_error(), None);
}

fn all_modes(run: impl Fn(&str, &str)) {
    for mode in JOURNAL_MODES {
        for level in LEVELS {
            run(mode, level);
        }
    }
}

#[test]
fn all_modes_in_a_simulation() {
    all_modes(|mode, level| {
        let run = || simulated(SimConfig::seeded(3), |sqlite| life(sqlite, mode, level));
        let outcome = run();
        assert!(outcome.stack_high_water <= 256 * 1024);
        outcome.unwrap();
    });
}

#[test]
fn all_modes_in_the_real_world() {
    all_modes(|mode, level| on(ModelFs::new(), |sqlite| life(sqlite, mode, level)));
}
