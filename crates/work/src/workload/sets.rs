//! Published benchmarks by name: `SET:TEST,KEY=VALUE,...` is one of the workloads of this crate
//! with the parameters of that benchmark.
//!
//! The first word behind the colon names the test; the parameters behind it are those of the
//! workload and change it. Results carry the text of the workload, which says all that ran.
//!
//! | set | source |
//! |---|---|
//! | `mobibench` | ESOS-Lab/Mobibench: 100 transactions a test as its app has, the options `-j 1 -s 2` (TRUNCATE, FULL) and `-f 1024 -r 4` of its shell; file tests with `-y 2` (fsync after each record) |
//! | `androbench` | Kim and Kim, AndroBench, AISC 133 (2012): 256 KiB sequential, 4 KiB random, SQLite; files of 32 MiB and 300 transactions are ours: what its defaults were is not sure |
//! | `pcmark` | UL, "PCMark for Android Storage 1.0/2.0 benchmark workloads": 16 MB files, fsync after each write, 2000 records |
//! | `postmark` | the eMMC paper's Table 5; sizes are bytes, its heading "MB" would make 55 TB |

use super::values::SpecError;
use super::{FilesSpec, FsyncSpec, SqliteSpec, Workload};
use crate::workload::fsync::Op;

/// Names of the sets.
pub const NAMES: [&str; 4] = ["mobibench", "androbench", "pcmark", "postmark"];

const SQLITE: &str = "insert, update, delete";

/// The workload of a test of a set, before parameters change it; `None`: there is no such set.
///
/// # Errors
/// The set has no such test, or needs one and none is named.
pub(super) fn base(set: &str, test: &str) -> Option<Result<Workload, SpecError>> {
    let (found, tests) = match set {
        "mobibench" => (mobibench(test), format!("{SQLITE}, write, random, append")),
        "androbench" => (androbench(test), format!("{SQLITE}, sequential, random")),
        "pcmark" => (pcmark(test), format!("{SQLITE}, sequential, random")),
        "postmark" => (postmark(test), "none".into()),
        _ => return None,
    };
    Some(found.ok_or_else(|| SpecError::Test {
        set: set.into(),
        given: test.into(),
        valid: tests,
    }))
}

fn mobibench(test: &str) -> Option<Workload> {
    let records = |op| fsync(op, 4 << 10, 1 << 20);
    match test {
        // The file does not exist yet and is written from its beginning, so each record allocates.
        "write" | "append" => records(Op::Append),
        "random" => records(Op::Random),
        _ => sqlite(test, 100),
    }
}

fn androbench(test: &str) -> Option<Workload> {
    match test {
        "sequential" => fsync(Op::Append, 256 << 10, 32 << 20),
        "random" => fsync(Op::Random, 4 << 10, 32 << 20),
        _ => sqlite(test, 300),
    }
}

fn pcmark(test: &str) -> Option<Workload> {
    match test {
        "sequential" => fsync(Op::Append, 2 << 20, 16 << 20),
        "random" => fsync(Op::Random, 4 << 10, 16 << 20),
        _ => sqlite(test, 2000),
    }
}

fn postmark(test: &str) -> Option<Workload> {
    let spec = FilesSpec {
        files: 10_000,
        transactions: 20_000,
        sizes: (1000, 10_240),
        ..FilesSpec::default()
    };
    test.is_empty().then_some(Workload::Files(spec))
}

/// A workload with one kind of transaction. Updates and deletes find as many rows as there are
/// transactions.
fn sqlite(test: &str, count: u32) -> Option<Workload> {
    let mut spec = SqliteSpec {
        inserts: 0,
        updates: 0,
        deletes: 0,
        ..SqliteSpec::default()
    };
    match test {
        "insert" => spec.inserts = count,
        "update" => (spec.prefill, spec.updates) = (count, count),
        "delete" => (spec.prefill, spec.deletes) = (count, count),
        _ => return None,
    }
    Some(Workload::Sqlite(spec))
}

/// A workload that writes a whole file, record by record, with an fsync after each.
fn fsync(op: Op, bytes: u64, file_bytes: u64) -> Option<Workload> {
    Some(Workload::Fsync(FsyncSpec {
        op,
        bytes,
        count: (file_bytes / bytes) as u32,
        file_bytes,
        ..FsyncSpec::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(set: &str, workload: &str) {
        let parse = |text: &str| text.parse::<Workload>().unwrap();
        assert_eq!(parse(set), parse(workload), "{set}");
    }

    #[test]
    fn a_set_is_a_workload_with_its_parameters() {
        same("mobibench:insert", "sqlite:insert=100,update=0,delete=0");
        same(
            "mobibench:update,journal=wal,synchronous=normal",
            "sqlite:prefill=100,insert=0,update=100,delete=0,journal=wal,synchronous=normal",
        );
        same(
            "mobibench:random,beside=fdtree",
            "fsync:op=random,size=4k,file=1m,count=256,beside=fdtree",
        );
        same(
            "mobibench:write",
            "fsync:op=append,size=4k,file=1m,count=256",
        );
        same(
            "androbench:sequential",
            "fsync:op=append,size=256k,file=32m,count=128",
        );
        same(
            "pcmark:random",
            "fsync:op=random,size=4k,file=16m,count=4096",
        );
        same(
            "pcmark:delete",
            "sqlite:prefill=2000,insert=0,update=0,delete=2000",
        );
        let table5 = "files:count=10000,transactions=20000,min=1000,max=10240";
        same("postmark", table5);
        same("postmark:", table5);
        same(
            "postmark:count=10,sync=on",
            "files:count=10,transactions=20000,min=1000,max=10240,sync=on",
        );
    }

    #[test]
    fn a_test_that_a_set_does_not_have_is_refused_with_those_it_has() {
        for (text, wrong, right) in [
            ("mobibench", "``", "insert, update, delete, write"),
            ("mobibench:n=10", "``", "insert"),
            ("pcmark:read", "`read`", "sequential, random"),
            ("postmark:insert", "`insert`", "none"),
            ("mobibench:insert,rows=3", "rows", "prefill"),
            ("mobibench:insert,update", "``", "whole number"),
        ] {
            let e = text.parse::<Workload>().unwrap_err().to_string();
            assert!(e.contains(wrong) && e.contains(right), "{text}: {e}");
        }
    }
}
