//! What SQLite computes takes virtual time where it is asked for, and none elsewhere.

use base::Nanos;
use base::cost::{host, sqlite as cost};
use rt::{Sim, SimConfig};
use rusqlite::Connection;
use testkit::model::ModelFs;
use varve_sqlite::{Options, register, rusqlite};
use vfs::Vfs;

/// What `work` is charged on a connection with a table of two rows, which are cached.
fn charged(mode: &'static str, charge_cpu: bool, work: fn(&Connection)) -> Nanos {
    let life = move || {
        let options = Options {
            charge_cpu,
            ..Options::default()
        };
        let sqlite = register(&Vfs::new(ModelFs::new()), options).expect("SQLite is set up");
        let db = sqlite.open("/t.db").expect("opens");
        let make = format!(
            "PRAGMA page_size=4096; PRAGMA journal_mode={mode}; PRAGMA synchronous=full;
             CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t VALUES(1, 'a'), (2, 'b');"
        );
        db.execute_batch(&make).expect("made");
        select(&db);
        let before = rt::charged();
        work(&db);
        let spent = Nanos(rt::charged().0 - before.0);
        db.close().expect("closed");
        sqlite.unregister().expect("nothing is open");
        spent
    };
    Sim::new(SimConfig::seeded(1)).run(life).unwrap()
}

/// What SQLite itself is charged for `work`.
fn own(mode: &'static str, work: fn(&Connection)) -> u64 {
    charged(mode, true, work).0 - charged(mode, false, work).0
}

fn select(db: &Connection) {
    db.query_row("SELECT v FROM t WHERE id = 1", [], |_| Ok(()))
        .expect("a row");
}

fn update(db: &Connection) {
    db.execute("UPDATE t SET v = 'c' WHERE id = 1", [])
        .expect("changed");
}

#[test]
fn a_statement_on_cached_pages_is_a_statement_and_its_locks() {
    // Shared and none again: four calls.
    let wanted = cost::STATEMENT.0 + 4 * host::CALL.0;
    assert_eq!(own("truncate", select), wanted);
}

#[test]
fn a_transaction_is_charged_for_its_commit_pages_and_locks() {
    // Shared, reserved, exclusive, shared, none.
    let locks = (3 + 1 + 2 + 2 + 1) * host::CALL.0;
    // The row's page and the first, with its counter; the journal has both, and 512 bytes of head.
    let pages = 2 * cost::PAGE.0 + 2 * cost::JOURNAL_PAGE.0 + cost::JOURNAL_PAGE.0 / 8;
    let wanted = cost::STATEMENT.0 + cost::COMMIT.0 + pages + locks;
    assert_eq!(own("truncate", update), wanted);
}

#[test]
fn a_frame_of_a_write_ahead_log_has_its_own_price() {
    let wanted = cost::STATEMENT.0 + cost::COMMIT.0 + cost::WAL_PAGE.0;
    let found = own("wal", update);
    assert!(
        (wanted..wanted + 10 * host::CALL.0).contains(&found),
        "{found}, at least {wanted}"
    );
}

#[test]
fn a_page_that_is_read_is_charged() {
    let fresh = |db: &Connection| {
        db.execute_batch("PRAGMA shrink_memory").expect("dropped");
        select(db);
    };
    let warm = |db: &Connection| {
        db.execute_batch("PRAGMA application_id").expect("nothing");
        select(db);
    };
    let (cold, cached) = (own("truncate", fresh), own("truncate", warm));
    assert!(
        cold >= cached + cost::READ_PAGE.0,
        "{cold}, {cached} cached"
    );
}
