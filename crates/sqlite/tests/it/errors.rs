//! Which errors SQLite and the user get when a layer below fails.

use crate::common;
use common::{connect, integrity, on, rows, simulated};
use rt::{OnPanic, Sim, SimConfig};
use rusqlite::{Connection, ErrorCode};
use testkit::model::ModelFs;
use testkit::spy::{Fault, SpyFs};
use varve_sqlite::{Options, Registration, SetupError, register, rusqlite};
use vfs::Vfs;

const TABLE: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, v)";

fn with_table(mode: &str, body: impl FnOnce(&SpyFs, &Registration, &Connection)) {
    let fs = SpyFs::new(ModelFs::new());
    on(fs.clone(), |sqlite| {
        let db = connect(sqlite, mode, "full");
        db.execute_batch(TABLE).unwrap();
        body(&fs, sqlite, &db);
        db.close().unwrap();
    });
}

fn code_of(error: &rusqlite::Error) -> i32 {
    error
        .sqlite_error()
        .map(|e| e.extended_code)
        .expect("an error of SQLite")
}

/// sqlite-S3: without the catch the process would abort.
#[test]
fn a_panic_in_a_callback_is_an_error_and_its_payload_is_kept() {
    with_table("delete", |fs, sqlite, db| {
        fs.plant(Some(Fault::PanicInSync));
        db.execute("INSERT INTO t VALUES(1, 1)", []).unwrap_err();
        fs.plant(None);
        let payload = sqlite.take_panic().expect("the payload is kept");
        let text = payload.downcast_ref::<&str>().copied();
        assert_eq!(text, Some("the planted panic"));
        db.execute("INSERT INTO t VALUES(2, 2)", []).unwrap();
        assert_eq!(rows(db).len(), 1, "the failed one was rolled back");
    });
}

#[test]
fn a_panic_in_a_callback_fails_the_simulation() {
    let config = SimConfig {
        on_panic: OnPanic::Join,
        quiet: true,
        ..SimConfig::default()
    };
    let outcome = Sim::new(config).run(|| {
        with_table("delete", |fs, sqlite, db| {
            fs.plant(Some(Fault::PanicInSync));
            db.execute("INSERT INTO t VALUES(1, 1)", []).unwrap_err();
            fs.plant(None);
            sqlite.take_panic().expect("the payload is kept");
        });
    });
    let report = outcome.first_failure.expect("the panic counts").to_string();
    assert!(report.contains("the planted panic"), "{report}");
}

#[test]
fn an_io_error_rolls_back_and_tells_why() {
    with_table("persist", |fs, sqlite, db| {
        fs.plant(Some(Fault::IoInSync));
        let error = db.execute("INSERT INTO t VALUES(1, 1)", []).unwrap_err();
        assert_eq!(code_of(&error), rusqlite::ffi::SQLITE_IOERR_FSYNC);
        let text = sqlite.first_error().unwrap();
        assert!(
            text.contains("block 4711") && text.contains("t.db"),
            "{text}"
        );
        fs.plant(None);
        assert_eq!(rows(db), []);
    });
}

#[test]
fn a_full_device_is_sqlite_full() {
    with_table("delete", |fs, _, db| {
        fs.plant(Some(Fault::Room(50_001)));
        let error = db
            .execute("INSERT INTO t VALUES(1, zeroblob(100000))", [])
            .unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DiskFull));
        fs.plant(None);
        integrity(db);
        assert_eq!(rows(db), []);
    });
}

#[test]
fn a_corrupt_file_system_is_sqlite_corrupt() {
    with_table("delete", |fs, _, db| {
        assert_eq!(rows(db), []);
        db.execute_batch("PRAGMA shrink_memory").unwrap();
        fs.plant(Some(Fault::CorruptInRead));
        let error = db.query_row("SELECT * FROM t", [], |_| Ok(())).unwrap_err();
        let code = error.sqlite_error_code();
        assert_eq!(code, Some(ErrorCode::DatabaseCorrupt));
        fs.plant(None);
    });
}

#[test]
fn a_read_only_file_system_can_be_read() {
    let fs = SpyFs::new(ModelFs::new());
    on(fs.clone(), |sqlite| {
        let db = connect(sqlite, "delete", "full");
        db.execute_batch(TABLE).unwrap();
        db.execute("INSERT INTO t VALUES(1, 'x')", []).unwrap();
        db.close().unwrap();
        fs.plant(Some(Fault::ReadOnly));
        let db = sqlite.open("/t.db").unwrap();
        assert_eq!(rows(&db).len(), 1);
        db.execute("INSERT INTO t VALUES(2, 'x')", []).unwrap_err();
        db.close().unwrap();
        fs.plant(None);
    });
}

#[test]
fn names_that_lead_nowhere() {
    on(ModelFs::new(), |sqlite| {
        for path in ["/none/x.db", "/"] {
            let error = sqlite.open(path).unwrap_err();
            assert_eq!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen));
        }
        let missing = sqlite.open_with_flags("/n.db", rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY);
        assert!(missing.is_err());
        assert!(sqlite.vfs().stat("/n.db").is_err(), "nothing was made");
    });
}

#[test]
fn a_connection_that_outlives_its_registration_can_only_be_closed() {
    let vfs = Vfs::new(ModelFs::new());
    let sqlite = register(&vfs, Options::default()).unwrap();
    let db = connect(&sqlite, "delete", "full");
    db.execute_batch(TABLE).unwrap();
    assert_eq!(sqlite.unregister(), Err(SetupError::FilesOpen { files: 1 }));
    let error = db.execute("INSERT INTO t VALUES(1, 1)", []).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen));
    db.close().unwrap();
    let again = register(&vfs, Options::default()).unwrap();
    let db = again.open("/t.db").unwrap();
    db.execute("INSERT INTO t VALUES(1, 1)", []).unwrap();
    db.close().unwrap();
    again.unregister().unwrap();
    vfs.unmount().unwrap();
}

/// sqlite-S1: a file of the host would make the run depend on it.
#[test]
fn the_default_vfs_opens_no_host_file_in_a_simulation() {
    simulated(SimConfig::default(), |_| {
        let error = Connection::open("host.db").unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen));
        let memory = Connection::open_in_memory().unwrap();
        let now: String = memory
            .query_row("SELECT date('now')", [], |r| r.get(0))
            .unwrap();
        assert_eq!(now, "2024-01-01");
    })
    .unwrap();
}
