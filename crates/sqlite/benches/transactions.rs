//! SQLite transactions per second of wall time, in a simulation on the model file system: what a
//! crash test or a comparison pays per transaction before any device is simulated.

#![allow(clippy::disallowed_types)] // The attribute of divan expands to a LazyLock.

use rt::{Sim, SimConfig};
use testkit::model::ModelFs;
use varve_sqlite::{Options, register};
use vfs::Vfs;

const TRANSACTIONS: u32 = 1000;

fn main() {
    divan::main();
}

/// One life: mount, connect, insert `TRANSACTIONS` rows of 100 bytes one by one, close.
#[divan::bench(args = ["delete", "truncate", "persist", "wal", "off"], sample_count = 20)]
fn inserts(bencher: divan::Bencher<'_, '_>, mode: &str) {
    bencher
        .counter(divan::counter::ItemsCount::new(TRANSACTIONS))
        .bench_local(|| Sim::new(SimConfig::default()).run(|| life(mode)).unwrap());
}

fn life(mode: &str) {
    let vfs = Vfs::new(ModelFs::new());
    let sqlite = register(&vfs, Options::default()).expect("SQLite is set up");
    let db = sqlite.open("/t.db").expect("the database opens");
    let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)";
    let settings = format!("PRAGMA journal_mode={mode}; PRAGMA synchronous=full; {schema}");
    db.execute_batch(&settings).expect("settings are taken");
    let mut insert = db
        .prepare("INSERT INTO t(v) VALUES(?1)")
        .expect("the statement is right");
    let row = "x".repeat(100);
    for _ in 0..TRANSACTIONS {
        insert.execute([&row]).expect("the insert succeeds");
    }
    drop(insert);
    db.close().expect("all statements are gone");
    sqlite.unregister().expect("nothing is open");
}
