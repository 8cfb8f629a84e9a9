//! SQLite's own file layer without ioctls. This test has a binary of its own, because it changes
//! the whole process.

use varve_sqlite::rusqlite::{Connection, ffi};

fn ioctl_of_sqlite() -> Option<usize> {
    // SAFETY: SQLite's own structure, and a name that it knows.
    unsafe {
        let unix = ffi::sqlite3_vfs_find(c"unix".as_ptr()).as_ref()?;
        let get = unix.xGetSystemCall?;
        let unix = std::ptr::from_ref(unix).cast_mut();
        get(unix, c"ioctl".as_ptr()).map(|f| f as usize)
    }
}

#[test]
fn the_ioctl_of_sqlite_is_replaced_and_files_still_work() {
    let before = ioctl_of_sqlite();
    varve_sqlite::without_atomic_writes().unwrap();
    assert!(before.is_some() && ioctl_of_sqlite() != before);
    let dir = tempfile::tempdir().unwrap();
    let db = Connection::open(dir.path().join("t.db")).unwrap();
    db.execute_batch("CREATE TABLE t(v); INSERT INTO t VALUES(1)")
        .unwrap();
}
