//! Which writes and syncs a transaction makes (sqlite-S6), compared with those of SQLite's own unix
//! VFS.

use crate::common;
use common::connect;
use rt::{Sim, SimConfig};
use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::model::ModelFs;
use testkit::spy::{Call, SpyFs};
use varve_sqlite::{Options, SyncCall, register};
use vfs::Vfs;

/// One insert, one update, closing, separated by `|`. W write (repeated ones once), S fdatasync, T
/// truncate, U unlink; of d the database, j its journal, w its WAL, D the directory.
///
/// Recorded with `strace -f -y -e trace=fsync,fdatasync,unlink,ftruncate,pwrite64` from Python's
/// sqlite3 module on Linux (SQLite 3.40.1 as Debian builds it: fdatasync for files and
/// directories), less the `-shm` file (sqlite-S7).
const UNIX: [(&str, &str, &str); 20] = [
    ("delete", "off", "Wj Wd Uj | Wj Wd Uj |"),
    (
        "delete",
        "normal",
        "Wj Sj SD Wd Sd Uj | Wj Sj SD Wd Sd Uj |",
    ),
    (
        "delete",
        "full",
        "Wj Sj SD Wj Sj Wd Sd Uj | Wj Sj SD Wj Sj Wd Sd Uj |",
    ),
    (
        "delete",
        "extra",
        "Wj Sj SD Wj Sj Wd Sd Uj SD | Wj Sj SD Wj Sj Wd Sd Uj SD |",
    ),
    ("truncate", "off", "Wj Wd Tj | Wj Wd Tj |"),
    (
        "truncate",
        "normal",
        "Wj Sj SD Wd Sd Tj | Wj Sj SD Wd Sd Tj |",
    ),
    (
        "truncate",
        "full",
        "Wj Sj SD Wj Sj Wd Sd Tj Sj | Wj Sj SD Wj Sj Wd Sd Tj Sj |",
    ),
    (
        "truncate",
        "extra",
        "Wj Sj SD Wj Sj Wd Sd Tj Sj | Wj Sj SD Wj Sj Wd Sd Tj Sj |",
    ),
    ("persist", "off", "Wj Wd Wj | Wj Wd Wj |"),
    (
        "persist",
        "normal",
        "Wj Sj SD Wd Sd Wj Sj | Wj Sj SD Wd Sd Wj Sj |",
    ),
    (
        "persist",
        "full",
        "Wj Sj SD Wj Sj Wd Sd Wj Sj | Wj Sj SD Wj Sj Wd Sd Wj Sj |",
    ),
    (
        "persist",
        "extra",
        "Wj Sj SD Wj Sj Wd Sd Wj Sj | Wj Sj SD Wj Sj Wd Sd Wj Sj |",
    ),
    ("wal", "off", "Ww | Ww | Wd Td Uw"),
    ("wal", "normal", "Ww | Ww | Sw Wd Td Sd Uw"),
    ("wal", "full", "Ww Sw | Ww Sw | Sw Wd Td Sd Uw"),
    ("wal", "extra", "Ww Sw | Ww Sw | Sw Wd Td Sd Uw"),
    ("off", "off", "Wd | Wd |"),
    ("off", "normal", "Wd Sd | Wd Sd |"),
    ("off", "full", "Wd Sd | Wd Sd |"),
    ("off", "extra", "Wd Sd | Wd Sd |"),
];

struct Recorder {
    spy: Arc<SpyFs>,
    /// Letters of inodes.
    letters: BTreeMap<u32, char>,
    text: String,
    calls: Vec<Call>,
}

impl Recorder {
    fn new(spy: Arc<SpyFs>, root: u32) -> Recorder {
        Recorder {
            spy,
            letters: BTreeMap::from([(root, 'D')]),
            text: String::new(),
            calls: Vec::new(),
        }
    }
    fn letter(name: &[u8]) -> char {
        match name {
            b"t.db" => 'd',
            b"t.db-journal" => 'j',
            b"t.db-wal" => 'w',
            _ => panic!("unexpected file {}", String::from_utf8_lossy(name)),
        }
    }
    /// Takes the calls so far; puts them down if `keep`.
    fn drain(&mut self, keep: bool) {
        for call in self.spy.take() {
            let word = match &call {
                Call::Create { ino, name } => {
                    self.letters.insert(ino.0, Recorder::letter(name));
                    continue;
                }
                Call::Write { ino, .. } => ('W', self.letters[&ino.0]),
                Call::Fsync { ino, .. } => ('S', self.letters[&ino.0]),
                Call::Truncate { ino, .. } => ('T', self.letters[&ino.0]),
                Call::Unlink { name } => ('U', Recorder::letter(name)),
                other => panic!("unexpected call {other:?}"),
            };
            if keep {
                self.add(&format!("{}{}", word.0, word.1));
                self.calls.push(call);
            }
        }
    }
    fn add(&mut self, word: &str) {
        let again = word.starts_with('W') && self.text.ends_with(word);
        if !again {
            self.text.push(' ');
            self.text.push_str(word);
        }
    }
}

fn record(mode: &str, level: &str, options: Options) -> (String, Vec<Call>) {
    let body = || {
        let spy = SpyFs::new(ModelFs::new());
        let vfs = Vfs::new(spy.clone());
        let sqlite = register(&vfs, options).unwrap();
        let mut recorder = Recorder::new(spy, vfs.fs().root().0);
        let db = connect(&sqlite, mode, level);
        db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)")
            .unwrap();
        db.execute_batch("INSERT INTO t VALUES(1,'one')").unwrap();
        recorder.drain(false);
        db.execute_batch("INSERT INTO t VALUES(2,'two')").unwrap();
        recorder.drain(true);
        recorder.add("|");
        db.execute_batch("UPDATE t SET v='zwei' WHERE id=2")
            .unwrap();
        recorder.drain(true);
        recorder.add("|");
        db.close().unwrap();
        recorder.drain(true);
        sqlite.unregister().unwrap();
        (recorder.text.trim().to_string(), recorder.calls)
    };
    Sim::new(SimConfig::default()).run(body).unwrap()
}

#[test]
fn calls_are_those_of_the_unix_vfs() {
    for (mode, level, expected) in UNIX {
        let (text, calls) = record(mode, level, Options::default());
        assert_eq!(text, expected, "{mode} {level}");
        let full_syncs = calls.iter().filter(|c| {
            matches!(
                c,
                Call::Fsync {
                    data_only: false,
                    ..
                }
            )
        });
        assert_eq!(
            full_syncs.count(),
            0,
            "sqlite-S6: every sync is an fdatasync"
        );
    }
}

#[test]
fn fsync_instead_of_fdatasync_on_request() {
    let options = Options {
        sync_call: SyncCall::Fsync,
        ..Options::default()
    };
    let (text, calls) = record("delete", "full", options);
    assert_eq!(text, UNIX[2].2);
    let is_full = |c: &&Call| {
        matches!(
            c,
            Call::Fsync {
                data_only: false,
                ..
            }
        )
    };
    assert_eq!(calls.iter().filter(is_full).count(), 8);
}

/// In a cell of 4 KiB sectors without the powersafe promise SQLite pads each WAL commit to a
/// sector.
#[test]
fn device_characteristics_reach_sqlite() {
    let bytes = |calls: &[Call]| -> usize {
        let len = |c: &Call| match c {
            Call::Write { len, .. } => *len,
            _ => 0,
        };
        calls.iter().map(len).sum()
    };
    let options = Options {
        powersafe_overwrite: false,
        ..Options::default()
    };
    let (_, padded) = record("wal", "full", options);
    let (_, plain) = record("wal", "full", Options::default());
    assert!(bytes(&padded) > bytes(&plain));
}
