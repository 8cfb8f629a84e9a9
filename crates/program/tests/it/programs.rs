//! Small programs with a judge each: what is bad, the explanation, and what mends it.

use crate::script::{Script, content};
use varve_program::call::Recording;
use varve_program::state::Verdict;
use varve_program::tree::Tree;

/// A program and who judges it.
pub struct Program {
    pub recording: Recording,
    pub judge: fn(&Tree, &[&str]) -> Verdict,
}

fn verdict(good: bool, why: &str) -> Verdict {
    if good {
        Verdict::Good
    } else {
        Verdict::Bad(why.into())
    }
}

/// A file is replaced three times by renaming a new one over it, without a sync.
pub fn replace() -> Program {
    let mut script = Script::new().with_file("db", &[b'0'; 5000]);
    for turn in 1..4_u8 {
        let tmp = format!("db.{turn}");
        script.create(&tmp).write(&tmp, 0, &[b'0' + turn; 5000]);
        script.rename(&tmp, "db").ack(&turn.to_string());
    }
    Program {
        recording: script.recording(),
        judge: |tree, told| {
            let Some(found) = content(tree, "db") else {
                return Verdict::Bad("db is missing".into());
            };
            let first = found.first().copied().unwrap_or(0);
            let whole = first >= b'0' && found.len() == 5000 && found.iter().all(|&b| b == first);
            if !whole {
                return Verdict::Bad("db is half".into());
            }
            verdict(usize::from(first - b'0') >= told.len(), "db is too old")
        },
    }
}

/// A file is written anew in place.
pub fn rewrite() -> Program {
    let mut script = Script::new().with_file("conf", b"old");
    script
        .truncate("conf", 0)
        .write("conf", 0, b"new")
        .fsync("conf");
    Program {
        recording: script.recording(),
        judge: |tree, _| {
            let found = content(tree, "conf").unwrap_or_default();
            verdict(
                found == b"old" || found == b"new",
                "conf is neither old nor new",
            )
        },
    }
}

/// A file is written anew in place, and a record is acknowledged without a sync.
pub fn rewrite_and_log() -> Program {
    let mut script = Script::new()
        .with_file("conf", b"old")
        .with_file("log", b"");
    script.truncate("conf", 0).write("conf", 0, b"new");
    script.append("log", b"1").ack("1");
    Program {
        recording: script.recording(),
        judge: |tree, told| {
            let conf = content(tree, "conf").unwrap_or_default();
            if conf != b"old" && conf != b"new" {
                return Verdict::Bad("conf is neither old nor new".into());
            }
            let log = content(tree, "log").unwrap_or_default();
            verdict(told.is_empty() || log == b"1", "the record is lost")
        },
    }
}

/// Records are appended to a log and acknowledged.
pub fn log() -> Program {
    let mut script = Script::new().with_file("log", b"");
    for turn in 1..4_u8 {
        script
            .append("log", &[turn; 100])
            .ack(&format!("record {turn}"));
    }
    Program {
        recording: script.recording(),
        judge: |tree, told| {
            let found = content(tree, "log").unwrap_or_default();
            let kept = (1..=told.len()).all(|turn| {
                let record = found.get((turn - 1) * 100..turn * 100);
                record.is_some_and(|record| record.iter().all(|&byte| usize::from(byte) == turn))
            });
            verdict(kept, "an acknowledged record is lost")
        },
    }
}

/// A database of two pages with a rollback journal whose name is not synced, and which is removed
/// without a sync.
pub fn rollback() -> Program {
    let mut script = Script::new().with_file("db", &[b'a'; 8192]);
    script
        .create("db-journal")
        .write("db-journal", 0, &[b'a'; 8192])
        .fsync("db-journal");
    script
        .write("db", 0, &[b'b'; 8192])
        .fsync("db")
        .unlink("db-journal")
        .ack("commit");
    Program {
        recording: script.recording(),
        judge: |tree, told| {
            let journal = content(tree, "db-journal");
            let old = journal.filter(|j| j.len() == 8192 && j.iter().all(|&byte| byte == b'a'));
            let db = old.or_else(|| content(tree, "db")).unwrap_or_default();
            match db.iter().all(|&byte| byte == db[0]) {
                false => Verdict::Bad("db is mixed".into()),
                true => verdict(told.is_empty() || db[0] == b'b', "the commit is lost"),
            }
        },
    }
}

/// A write-ahead log with commits that are synced, and a checkpoint that is not.
pub fn wal() -> Program {
    let mut script = Script::new()
        .with_file("db", &[0; 4096])
        .with_file("wal", b"");
    script.append("wal", &[1; 4096]).fdatasync("wal").ack("1");
    script
        .write("db", 0, &[1; 4096])
        .truncate("wal", 0)
        .fsync("wal");
    script.append("wal", &[2; 4096]).fdatasync("wal").ack("2");
    Program {
        recording: script.recording(),
        judge: |tree, told| {
            let wal = content(tree, "wal").unwrap_or_default();
            let whole = wal.len() == 4096 && wal.iter().all(|&b| b == wal[0]) && wal[0] != 0;
            let db = content(tree, "db").unwrap_or_default();
            let value = if whole { wal[0] } else { db[0] };
            verdict(usize::from(value) >= told.len(), "a commit is lost")
        },
    }
}

/// Pages that are never written over and two root pages in turn, without syncs.
pub fn two_roots() -> Program {
    let mut start = vec![0; 4 * 4096];
    start[0] = 2;
    let mut script = Script::new().with_file("data", &start);
    for turn in 1..4_u8 {
        let (page, root) = (u64::from(turn) + 3, u64::from(turn) % 2);
        script.write("data", page * 4096, &[turn; 4096]);
        script
            .write("data", root * 4096, &[page as u8, turn])
            .ack(&turn.to_string());
    }
    Program {
        recording: script.recording(),
        judge: |tree, told| {
            let data = content(tree, "data").unwrap_or_default();
            let root = |at: usize| (data[at * 4096 + 1], usize::from(data[at * 4096]));
            let (turn, page) = root(0).max(root(1));
            let found = data.get(page * 4096..(page + 1) * 4096);
            let whole = found.is_some_and(|found| found.iter().all(|&byte| byte == turn));
            if !whole {
                return Verdict::Bad("the root leads to a page that is not there".into());
            }
            verdict(usize::from(turn) >= told.len(), "a commit is lost")
        },
    }
}
