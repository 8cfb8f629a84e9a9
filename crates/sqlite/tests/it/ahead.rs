//! Write-ahead logs whose files are longer than the logs (`ahead` of `sqlite-vfs`).

use crate::common::{connect, integrity};
use std::sync::Arc;
use testkit::model::ModelFs;
use testkit::spy::SpyFs;
use varve_sqlite::{Options, Registration, register, rusqlite};
use vfs::{FileSystem, OpenFlags, Vfs};

const TRANSACTIONS: i64 = 60;
/// A sync of a log whose file has grown makes the file system commit.
const GROWTHS_MAX: usize = 8;

fn place() -> (Arc<Vfs>, Registration) {
    place_on(ModelFs::new())
}

fn place_on(fs: Arc<dyn FileSystem>) -> (Arc<Vfs>, Registration) {
    let vfs = Vfs::new(fs);
    let options = Options {
        extend_logs: true,
        ..Options::default()
    };
    let sqlite = register(&vfs, options).unwrap();
    (vfs, sqlite)
}

fn size(vfs: &Arc<Vfs>, path: &[u8]) -> u64 {
    vfs.stat(path).unwrap().size
}

fn bytes(vfs: &Arc<Vfs>, path: &[u8]) -> Vec<u8> {
    let file = vfs.open(path, OpenFlags::READ, 0).unwrap();
    let mut bytes = vec![0; size(vfs, path) as usize];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
    file.close().unwrap();
    bytes
}

fn put(vfs: &Arc<Vfs>, path: &[u8], bytes: &[u8]) {
    let flags = OpenFlags::WRITE | OpenFlags::CREATE;
    let file = vfs.open(path, flags, 0o644).unwrap();
    assert_eq!(file.write_at(0, bytes).unwrap(), bytes.len());
    file.close().unwrap();
}

fn count(db: &rusqlite::Connection) -> i64 {
    db.query_row("SELECT count(*) FROM t", [], |r| r.get(0))
        .unwrap()
}

fn insert(db: &rusqlite::Connection) {
    db.execute_batch("INSERT INTO t VALUES(hex(randomblob(50)))")
        .unwrap();
}

#[test]
fn a_log_that_grows_with_each_transaction_has_a_file_that_seldom_does() {
    let (vfs, sqlite) = place();
    let db = connect(&sqlite, "wal", "full");
    db.execute_batch("CREATE TABLE t(v)").unwrap();
    let mut sizes = Vec::new();
    for _ in 0..TRANSACTIONS {
        insert(&db);
        sizes.push(size(&vfs, b"/t.db-wal"));
    }
    sizes.dedup();
    assert!(sizes.len() <= GROWTHS_MAX, "{sizes:?}");
    integrity(&db);
    db.close().unwrap();
    assert!(vfs.stat(b"/t.db-wal").is_err());
    sqlite.unregister().unwrap();
    vfs.unmount().unwrap();
}

/// sqlite-vfs-ahead-A1: what a cut leaves, files as they are, is recovered to its last transaction,
/// and the log goes on behind it.
#[test]
fn a_log_is_recovered_from_a_file_that_is_longer() {
    let (vfs, sqlite) = place();
    let db = connect(&sqlite, "wal", "full");
    db.execute_batch("CREATE TABLE t(v)").unwrap();
    for n in 1..=9 {
        insert(&db);
        let log = bytes(&vfs, b"/t.db-wal");
        assert!(log.ends_with(&[0; 24]), "nothing is ahead of the log");
        put(&vfs, b"/cut.db", &bytes(&vfs, b"/t.db"));
        put(&vfs, b"/cut.db-wal", &log);
        let cut = sqlite.open("/cut.db").unwrap();
        assert_eq!(count(&cut), n);
        insert(&cut);
        assert_eq!(count(&cut), n + 1);
        integrity(&cut);
        cut.close().unwrap();
        vfs.unlink(b"/cut.db").unwrap();
    }
    db.close().unwrap();
    sqlite.unregister().unwrap();
    vfs.unmount().unwrap();
}

/// sqlite-vfs-ahead-A2: SQLite cuts a log to a limit if it is longer than that, and it is not.
#[test]
fn connections_see_the_log_as_long_as_it_is() {
    let (vfs, sqlite) = place();
    let (a, b) = (
        connect(&sqlite, "wal", "full"),
        connect(&sqlite, "wal", "full"),
    );
    a.execute_batch("CREATE TABLE t(v)").unwrap();
    for n in 0..20 {
        insert(if n % 2 == 0 { &a } else { &b });
        assert_eq!((count(&a), count(&b)), (n + 1, n + 1));
    }
    let cut = "PRAGMA wal_checkpoint(truncate)";
    a.query_row(cut, [], |_| Ok(())).unwrap();
    assert_eq!(size(&vfs, b"/t.db-wal"), 0);
    insert(&b);
    assert_eq!((count(&a), count(&b)), (21, 21));
    integrity(&a);
    a.close().unwrap();
    b.close().unwrap();
    sqlite.unregister().unwrap();
    vfs.unmount().unwrap();
}

/// sqlite-vfs-ahead-A3: where there is no room for zeros there is room for transactions, until they
/// have none themselves.
#[test]
fn zeros_take_no_room_from_transactions() {
    const PAGES: u64 = 40;
    // A page of the table with its header.
    const FRAME: u64 = 24 + 4096;
    let spy = SpyFs::new(ModelFs::new());
    let (vfs, sqlite) = place_on(spy.clone());
    let db = connect(&sqlite, "wal", "full");
    db.execute_batch("CREATE TABLE t(v)").unwrap();
    spy.set_without_room(PAGES..1 << 40);
    let (mut done, mut without) = (0, 0);
    let mut before = size(&vfs, b"/t.db-wal");
    while db
        .execute_batch("INSERT INTO t VALUES(hex(randomblob(50)))")
        .is_ok()
    {
        done += 1;
        let log = bytes(&vfs, b"/t.db-wal");
        let now = log.len() as u64;
        if now > before && now + FRAME > (PAGES - 2) * 4096 {
            // Zeros as long as the log have no room here.
            assert!(!log.ends_with(&[0; 24]), "zeros keep the room that is left");
            without += 1;
        }
        before = now;
    }
    assert!(
        without > 0 && before + 2 * FRAME > PAGES * 4096,
        "{done}, {before}"
    );
    assert_eq!(count(&db), done);
    spy.set_without_room(0..0);
    insert(&db);
    assert_eq!(count(&db), done + 1);
    integrity(&db);
    db.close().unwrap();
    sqlite.unregister().unwrap();
    vfs.unmount().unwrap();
}
