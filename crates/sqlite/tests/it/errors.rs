//! Which errors SQLite and the user get when a layer below fails.

use crate::common;
use base::{Ino, Time};
use common::{connect, integrity, on, rows, simulated};
use rt::{OnPanic, Sim, SimConfig};
use rusqlite::{Connection, ErrorCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use testkit::model::ModelFs;
use varve_sqlite::{Options, SetupError, register, rusqlite};
use vfs::{
    Attr, Creds, DirEntry, Errno, FallocateMode, FileKind, FileSystem, FsError, FsResult, FsStat,
    RenameMode, SetAttr, Vfs, XattrMode,
};

/// The model, with one fault that can be switched on.
struct Faulty {
    below: Arc<dyn FileSystem>,
    fault: AtomicU8,
    /// Bytes that may still be written.
    room: AtomicI64,
}

const NONE: u8 = 0;
const PANIC_IN_SYNC: u8 = 1;
const EIO_IN_SYNC: u8 = 2;
const READ_ONLY: u8 = 3;
const CORRUPT_IN_READ: u8 = 4;

impl Faulty {
    fn new() -> Arc<Faulty> {
        Arc::new(Faulty {
            below: ModelFs::new(),
            fault: AtomicU8::new(NONE),
            room: AtomicI64::new(i64::MAX),
        })
    }
    fn set(&self, fault: u8) {
        self.fault.store(fault, Ordering::Relaxed);
    }
    fn is(&self, fault: u8) -> bool {
        self.fault.load(Ordering::Relaxed) == fault
    }
    fn writable(&self) -> FsResult<()> {
        if self.is(READ_ONLY) {
            return Err(Errno::RoFs.into());
        }
        Ok(())
    }
}

impl FileSystem for Faulty {
    fn root(&self) -> Ino {
        self.below.root()
    }
    fn lookup(&self, dir: Ino, name: &[u8]) -> FsResult<Ino> {
        self.below.lookup(dir, name)
    }
    fn getattr(&self, ino: Ino) -> FsResult<Attr> {
        self.below.getattr(ino)
    }
    fn setattr(&self, ino: Ino, set: &SetAttr) -> FsResult<Attr> {
        self.writable()?;
        self.below.setattr(ino, set)
    }
    fn create(
        &self,
        dir: Ino,
        name: &[u8],
        kind: FileKind,
        perm: u16,
        rdev: u32,
        creds: Creds,
    ) -> FsResult<Attr> {
        self.writable()?;
        self.below.create(dir, name, kind, perm, rdev, creds)
    }
    fn mkdir(&self, dir: Ino, name: &[u8], perm: u16, creds: Creds) -> FsResult<Attr> {
        self.below.mkdir(dir, name, perm, creds)
    }
    fn symlink(&self, dir: Ino, name: &[u8], target: &[u8], creds: Creds) -> FsResult<Attr> {
        self.below.symlink(dir, name, target, creds)
    }
    fn readlink(&self, ino: Ino) -> FsResult<Vec<u8>> {
        self.below.readlink(ino)
    }
    fn link(&self, ino: Ino, dir: Ino, name: &[u8]) -> FsResult<Attr> {
        self.below.link(ino, dir, name)
    }
    fn unlink(&self, dir: Ino, name: &[u8]) -> FsResult<()> {
        self.writable()?;
        self.below.unlink(dir, name)
    }
    fn rmdir(&self, dir: Ino, name: &[u8]) -> FsResult<()> {
        self.below.rmdir(dir, name)
    }
    fn rename(
        &self,
        from_dir: Ino,
        from: &[u8],
        to_dir: Ino,
        to: &[u8],
        mode: RenameMode,
    ) -> FsResult<()> {
        self.below.rename(from_dir, from, to_dir, to, mode)
    }
    fn readdir(&self, dir: Ino, from: u64, max: usize) -> FsResult<Vec<DirEntry>> {
        self.below.readdir(dir, from, max)
    }
    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> FsResult<usize> {
        if self.is(CORRUPT_IN_READ) {
            return Err(FsError::corrupt("inode 12: extent beyond the device"));
        }
        self.below.read(ino, offset, buf)
    }
    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> FsResult<()> {
        self.writable()?;
        self.below.setxattr(ino, name, value, mode)
    }
    fn getxattr(&self, ino: Ino, name: &[u8]) -> FsResult<Vec<u8>> {
        self.below.getxattr(ino, name)
    }
    fn listxattr(&self, ino: Ino) -> FsResult<Vec<Vec<u8>>> {
        self.below.listxattr(ino)
    }
    fn removexattr(&self, ino: Ino, name: &[u8]) -> FsResult<()> {
        self.writable()?;
        self.below.removexattr(ino, name)
    }
    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64) -> FsResult<()> {
        self.writable()?;
        self.below.fallocate(ino, mode, offset, len)
    }
    /// The system call fails for want of the right to write, as `open` does on a read-only mount.
    fn open(&self, ino: Ino) -> FsResult<()> {
        self.below.open(ino)
    }
    fn release(&self, ino: Ino) -> FsResult<()> {
        self.below.release(ino)
    }
    fn write(&self, ino: Ino, offset: u64, data: &[u8]) -> FsResult<usize> {
        self.writable()?;
        let room = self.room.load(Ordering::Relaxed);
        let fits = data.len().min(usize::try_from(room).unwrap_or(0));
        if fits == 0 {
            return Err(Errno::NoSpc.into());
        }
        let n = self.below.write(ino, offset, &data[..fits])?;
        self.room.fetch_sub(n as i64, Ordering::Relaxed);
        Ok(n)
    }
    fn fsync(&self, ino: Ino, data_only: bool) -> FsResult<()> {
        assert!(!self.is(PANIC_IN_SYNC), "the planted panic");
        if self.is(EIO_IN_SYNC) {
            return Err(FsError::Io {
                what: "write of block 4711: medium error".into(),
                power_lost: false,
            });
        }
        self.below.fsync(ino, data_only)
    }
    fn sync(&self) -> FsResult<()> {
        self.below.sync()
    }
    fn writeback(&self, older_than: Time) -> FsResult<()> {
        self.below.writeback(older_than)
    }
    fn dirty_pages(&self) -> u64 {
        0
    }
    fn statfs(&self) -> FsResult<FsStat> {
        self.below.statfs()
    }
    fn unmount(&self) -> FsResult<()> {
        self.below.unmount()
    }
}

const TABLE: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, v)";

fn code_of(error: &rusqlite::Error) -> i32 {
    error
        .sqlite_error()
        .map(|e| e.extended_code)
        .expect("an error of SQLite")
}

/// sqlite-S3: without the catch the process would abort.
#[test]
fn a_panic_in_a_callback_is_an_error_and_its_payload_is_kept() {
    let fs = Faulty::new();
    let vfs = Vfs::new(fs.clone());
    let sqlite = register(&vfs, Options::default()).unwrap();
    let db = connect(&sqlite, "delete", "full");
    db.execute_batch(TABLE).unwrap();
    fs.set(PANIC_IN_SYNC);
    db.execute("INSERT INTO t VALUES(1, 1)", []).unwrap_err();
    fs.set(NONE);
    let payload = sqlite.take_panic().expect("the payload is kept");
    let text = payload.downcast_ref::<&str>().copied();
    assert_eq!(text, Some("the planted panic"));
    db.execute("INSERT INTO t VALUES(2, 2)", []).unwrap();
    assert_eq!(rows(&db).len(), 1, "the failed one was rolled back");
    db.close().unwrap();
    sqlite.unregister().unwrap();
}

#[test]
fn a_panic_in_a_callback_fails_the_simulation() {
    let config = SimConfig {
        on_panic: OnPanic::Join,
        quiet: true,
        ..SimConfig::default()
    };
    let outcome = Sim::new(config).run(|| {
        let fs = Faulty::new();
        let vfs = Vfs::new(fs.clone());
        let sqlite = register(&vfs, Options::default()).unwrap();
        let db = connect(&sqlite, "delete", "full");
        db.execute_batch(TABLE).unwrap();
        fs.set(PANIC_IN_SYNC);
        db.execute("INSERT INTO t VALUES(1, 1)", []).unwrap_err();
        fs.set(NONE);
        db.close().unwrap();
        sqlite.unregister().unwrap();
    });
    let report = outcome.first_failure.expect("the panic counts").to_string();
    assert!(report.contains("the planted panic"), "{report}");
}

#[test]
fn an_io_error_rolls_back_and_tells_why() {
    let fs = Faulty::new();
    let sqlite = register(&Vfs::new(fs.clone()), Options::default()).unwrap();
    let db = connect(&sqlite, "persist", "full");
    db.execute_batch(TABLE).unwrap();
    fs.set(EIO_IN_SYNC);
    let error = db.execute("INSERT INTO t VALUES(1, 1)", []).unwrap_err();
    assert_eq!(code_of(&error), rusqlite::ffi::SQLITE_IOERR_FSYNC);
    let text = sqlite.first_error().unwrap();
    assert!(
        text.contains("block 4711") && text.contains("t.db"),
        "{text}"
    );
    fs.set(NONE);
    assert_eq!(rows(&db), []);
    db.close().unwrap();
    sqlite.unregister().unwrap();
}

#[test]
fn a_full_device_is_sqlite_full() {
    let fs = Faulty::new();
    let sqlite = register(&Vfs::new(fs.clone()), Options::default()).unwrap();
    let db = connect(&sqlite, "delete", "full");
    db.execute_batch(TABLE).unwrap();
    fs.room.store(50_001, Ordering::Relaxed);
    let error = db
        .execute("INSERT INTO t VALUES(1, zeroblob(100000))", [])
        .unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DiskFull));
    fs.room.store(i64::MAX, Ordering::Relaxed);
    integrity(&db);
    assert_eq!(rows(&db), []);
    db.close().unwrap();
    sqlite.unregister().unwrap();
}

#[test]
fn a_corrupt_file_system_is_sqlite_corrupt() {
    let fs = Faulty::new();
    let sqlite = register(&Vfs::new(fs.clone()), Options::default()).unwrap();
    let db = connect(&sqlite, "delete", "full");
    db.execute_batch(TABLE).unwrap();
    assert_eq!(rows(&db), []);
    db.execute_batch("PRAGMA shrink_memory").unwrap();
    fs.set(CORRUPT_IN_READ);
    let error = db.query_row("SELECT * FROM t", [], |_| Ok(())).unwrap_err();
    let code = error.sqlite_error_code();
    assert_eq!(code, Some(ErrorCode::DatabaseCorrupt));
    fs.set(NONE);
    db.close().unwrap();
    sqlite.unregister().unwrap();
}

#[test]
fn a_read_only_file_system_can_be_read() {
    let fs = Faulty::new();
    let sqlite = register(&Vfs::new(fs.clone()), Options::default()).unwrap();
    let db = connect(&sqlite, "delete", "full");
    db.execute_batch(TABLE).unwrap();
    db.execute("INSERT INTO t VALUES(1, 'x')", []).unwrap();
    db.close().unwrap();
    fs.set(READ_ONLY);
    let db = sqlite.open("/t.db").unwrap();
    assert_eq!(rows(&db).len(), 1);
    db.execute("INSERT INTO t VALUES(2, 'x')", []).unwrap_err();
    db.close().unwrap();
    fs.set(NONE);
    sqlite.unregister().unwrap();
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
