//! Files beside the database, file controls, paths.

use crate::common;
use common::{connect, files, integrity, on, rows, simulated, workload};
use rt::SimConfig;
use rusqlite::{Connection, ffi};
use std::ffi::{CStr, c_char, c_int, c_void};
use testkit::model::ModelFs;
use varve_sqlite::{Options, register, rusqlite};
use vfs::OpenFlags;

fn control<T>(db: &rusqlite::Connection, op: c_int, arg: &mut T) -> c_int {
    let arg: *mut T = arg;
    // SAFETY: an open connection, its main database, and the argument that belongs to `op`.
    unsafe { ffi::sqlite3_file_control(db.handle(), c"main".as_ptr(), op, arg.cast::<c_void>()) }
}

#[test]
fn temporary_files_leave_nothing_behind() {
    simulated(SimConfig::default(), |sqlite| {
        let db = connect(sqlite, "delete", "full");
        db.execute_batch(
            "PRAGMA temp_store=file; PRAGMA temp.cache_size=10;
             CREATE TEMP TABLE big(v); BEGIN;",
        )
        .unwrap();
        for _ in 0..200 {
            db.execute("INSERT INTO big VALUES(randomblob(3000))", [])
                .unwrap();
        }
        db.execute_batch("COMMIT; CREATE INDEX temp.i ON big(v)")
            .unwrap();
        assert!(sqlite.open_files() >= 2, "the temporary database is a file");
        let sorted: i64 = db
            .query_row(
                "SELECT count(*) FROM (SELECT v FROM big ORDER BY substr(v, 2))",
                [],
                |r| r.get(0),
            )
            .unwrap();
        assert_eq!(sorted, 200);
        db.close().unwrap();
        let left: Vec<_> = files(sqlite.vfs()).into_iter().map(|f| f.0).collect();
        assert!(left.iter().all(|name| name == "t.db"), "{left:?}");
    })
    .unwrap();
}

/// Registrations on one volume count alike, and a crash may leave the name of a temporary file.
#[test]
fn a_temporary_file_takes_no_name_that_something_has() {
    const TAKEN: [u32; 3] = [0, 1, 3];
    let name = |n| format!("/.varve-sqlite-temp-{n}");
    let spill = |db: &Connection| {
        db.execute_batch(
            "PRAGMA temp_store=file; PRAGMA temp.cache_size=10; CREATE TEMP TABLE big(v);
             WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
             INSERT INTO big SELECT randomblob(3000) FROM n",
        )
    };
    on(ModelFs::new(), |sqlite| {
        let vfs = sqlite.vfs();
        for n in TAKEN {
            let flags = OpenFlags::READ_WRITE | OpenFlags::CREATE;
            let left = vfs.open(name(n), flags, 0o600).expect("made");
            assert_eq!(left.write_at(0, b"left").expect("room"), 4);
            left.close().expect("closed");
        }
        let second = register(vfs, Options::default()).expect("another one");
        for registration in [sqlite, &second] {
            let db = connect(registration, "delete", "full");
            let mut offered: *mut c_char = std::ptr::null_mut();
            control(&db, ffi::SQLITE_FCNTL_TEMPFILENAME, &mut offered);
            // SAFETY: a string that SQLite has allocated, and that is given back once.
            let first = unsafe {
                let first = CStr::from_ptr(offered).to_bytes().to_vec();
                ffi::sqlite3_free(offered.cast());
                first
            };
            assert_eq!(first, name(2).into_bytes());
            assert_eq!(spill(&db), Ok(()), "{:?}", registration.first_error());
            assert!(registration.open_files() >= 2, "it is a file");
            db.close().expect("closed");
        }
        second.unregister().expect("closed");
        for n in TAKEN {
            let left = vfs.open(name(n), OpenFlags::READ, 0).expect("there");
            let mut content = [0; 8];
            assert_eq!(left.read_at(0, &mut content).expect("there"), 4);
            assert_eq!(&content[..4], b"left");
            left.close().expect("closed");
        }
        assert_eq!(files(vfs).len(), TAKEN.len() + 1);
    });
}

#[test]
fn attached_databases_commit_together() {
    on(ModelFs::new(), |sqlite| {
        let mut db = connect(sqlite, "delete", "full");
        workload(&mut db);
        db.execute_batch("ATTACH '/second.db' AS s; CREATE TABLE s.t2(v); BEGIN; INSERT INTO s.t2 SELECT v FROM t; DELETE FROM t; COMMIT")
            .unwrap();
        let moved: i64 = db
            .query_row("SELECT count(*) FROM s.t2", [], |r| r.get(0))
            .unwrap();
        assert_eq!((moved, rows(&db).len()), (21, 0));
        integrity(&db);
        db.close().unwrap();
        let left: Vec<_> = files(sqlite.vfs()).into_iter().map(|f| f.0).collect();
        assert_eq!(left, ["second.db", "t.db"], "the super-journal is gone");
    });
}

#[test]
fn journals_take_the_permissions_of_the_database() {
    on(ModelFs::new(), |sqlite| {
        let db = connect(sqlite, "persist", "full");
        sqlite.vfs().chmod("/t.db", 0o660).unwrap();
        sqlite.vfs().chown("/t.db", Some(10), Some(20)).unwrap();
        db.execute_batch("CREATE TABLE t(id)").unwrap();
        db.close().unwrap();
        let attr = sqlite.vfs().stat("/t.db-journal").unwrap();
        assert_eq!((attr.perm, attr.uid, attr.gid), (0o660, 10, 20));
    });
}

#[test]
fn symlinks_lead_to_one_database() {
    on(ModelFs::new(), |sqlite| {
        sqlite.vfs().mkdir("/dir", 0o755).unwrap();
        sqlite.vfs().symlink("/dir/real.db", "/link.db").unwrap();
        let a = sqlite.open("/link.db").unwrap();
        a.execute_batch("CREATE TABLE t(id); BEGIN IMMEDIATE; INSERT INTO t VALUES(1)")
            .unwrap();
        sqlite.vfs().stat("/dir/real.db-journal").unwrap();
        let b = sqlite.open("dir/../dir/real.db").unwrap();
        b.busy_timeout(std::time::Duration::ZERO).unwrap();
        b.execute_batch("BEGIN IMMEDIATE").unwrap_err();
        a.execute_batch("COMMIT").unwrap();
        b.execute_batch("BEGIN IMMEDIATE; COMMIT").unwrap();
        a.close().unwrap();
        b.close().unwrap();
    });
}

#[test]
fn file_controls() {
    on(ModelFs::new(), |sqlite| {
        let db = connect(sqlite, "wal", "full");
        db.execute_batch("CREATE TABLE t(id)").unwrap();
        let mut name: *mut std::ffi::c_char = std::ptr::null_mut();
        assert_eq!(control(&db, ffi::SQLITE_FCNTL_VFSNAME, &mut name), 0);
        // SAFETY: SQLite's own string, to be freed by us.
        unsafe {
            assert_eq!(CStr::from_ptr(name), sqlite.name());
            ffi::sqlite3_free(name.cast());
        }
        let mut moved = 1;
        assert_eq!(control(&db, ffi::SQLITE_FCNTL_HAS_MOVED, &mut moved), 0);
        assert_eq!(moved, 0);
        let mut powersafe = -1;
        assert_eq!(
            control(&db, ffi::SQLITE_FCNTL_POWERSAFE_OVERWRITE, &mut powersafe),
            0
        );
        assert_eq!(powersafe, 1);
        let mut unknown = 0;
        assert_eq!(control(&db, 9999, &mut unknown), ffi::SQLITE_NOTFOUND);
        let mut persist = 1;
        assert_eq!(control(&db, ffi::SQLITE_FCNTL_PERSIST_WAL, &mut persist), 0);
        db.close().unwrap();
        sqlite.vfs().stat("/t.db-wal").expect("the WAL persists");
    });
}

#[test]
fn chunks_are_allocated_ahead() {
    on(ModelFs::new(), |sqlite| {
        let db = connect(sqlite, "delete", "full");
        let mut chunk: c_int = 100_000;
        assert_eq!(control(&db, ffi::SQLITE_FCNTL_CHUNK_SIZE, &mut chunk), 0);
        db.execute_batch("CREATE TABLE t(id, v); INSERT INTO t VALUES(1, zeroblob(20000))")
            .unwrap();
        let attr = sqlite.vfs().stat("/t.db").unwrap();
        assert_eq!(attr.size, 100_000);
        assert!(attr.sectors >= 100_000 / 512, "no holes");
        integrity(&db);
        db.close().unwrap();
    });
}

#[test]
fn the_uri_decides_about_powersafe_overwrite() {
    on(ModelFs::new(), |sqlite| {
        let db = sqlite.open("file:/t.db?psow=0").unwrap();
        let mut powersafe = -1;
        let op = ffi::SQLITE_FCNTL_POWERSAFE_OVERWRITE;
        assert_eq!(control(&db, op, &mut powersafe), 0);
        assert_eq!(powersafe, 0);
        db.close().unwrap();
    });
}

#[test]
fn mapping_is_asked_for_and_pages_are_read_all_the_same() {
    on(ModelFs::new(), |sqlite| {
        let mut db = connect(sqlite, "delete", "full");
        db.execute_batch("PRAGMA mmap_size=1000000").unwrap();
        let expected = workload(&mut db);
        assert_eq!(rows(&db), expected);
        integrity(&db);
        db.close().unwrap();
    });
}
