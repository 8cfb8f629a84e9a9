//! A process that used SQLite before it was set up. This test has a binary of its own, because the
//! set-up is per process.

use std::sync::Arc;
use testkit::model::ModelFs;
use varve_sqlite::rusqlite::Connection;
use varve_sqlite::{Options, SetupError, register};
use vfs::Vfs;

#[test]
fn a_late_set_up_is_refused_and_harms_nobody() {
    let early = Connection::open_in_memory().unwrap();
    let vfs: Arc<Vfs> = Vfs::new(ModelFs::new());
    let refused = register(&vfs, Options::default()).map(drop).unwrap_err();
    assert_eq!(refused, SetupError::InUse);
    assert!(refused.to_string().contains("set_up"), "{refused}");
    let again = register(&vfs, Options::default()).map(drop).unwrap_err();
    assert_eq!(again, SetupError::InUse);
    early.execute_batch("CREATE TABLE t(v)").unwrap();
}
