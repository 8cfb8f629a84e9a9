//! The loads of a benchmark, equal for all sides that mount.

use crate::Result;
use crate::host_sqlite::HostSqlite;
use crate::sh::sh;
use std::fs::{self, File};
use std::path::Path;
use std::time::Instant;

/// A figure that is measured; larger is better for all of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Figure {
    /// fio: one file is written from front to end in pieces of 1 MiB, and its fsync counts.
    Write,
    /// fio: that file is read after the caches were dropped.
    Read,
    /// fio: blocks of 4 KiB within 64 MiB of it are written in random order, each with its fsync.
    Random,
    /// SQLite: rows are inserted one by one with journal_mode=DELETE, synchronous=FULL.
    SqliteDelete,
    /// SQLite: rows are inserted one by one with journal_mode=WAL, synchronous=FULL.
    SqliteWal,
    /// Empty files are made in one directory, with one fsync of it.
    Create,
    /// Their attributes are read after the caches of names were dropped.
    Stat,
    /// Their names are removed, with one fsync of the directory.
    Unlink,
    /// Making, reading attributes and removing together.
    Names,
}

impl Figure {
    /// All figures, in the order of the table.
    pub const ALL: [Figure; 9] = [
        Figure::Write,
        Figure::Read,
        Figure::Random,
        Figure::SqliteDelete,
        Figure::SqliteWal,
        Figure::Create,
        Figure::Stat,
        Figure::Unlink,
        Figure::Names,
    ];

    /// The name of its row, with the unit.
    pub const fn name(self) -> &'static str {
        match self {
            Figure::Write => "sequential write, MB/s",
            Figure::Read => "sequential read, MB/s",
            Figure::Random => "4 KiB write and fsync, /s",
            Figure::SqliteDelete => "SQLite DELETE, transactions/s",
            Figure::SqliteWal => "SQLite WAL, transactions/s",
            Figure::Create => "create, files/s",
            Figure::Stat => "stat, files/s",
            Figure::Unlink => "unlink, files/s",
            Figure::Names => "create, stat, unlink, files/s",
        }
    }
}

/// How much of each load is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Amount {
    /// Bytes of the large file: a multiple of 1 MiB, and 64 MiB at least.
    pub file_bytes: u64,
    /// Number of random writes.
    pub random: u32,
    /// Number of transactions in each mode of SQLite.
    pub transactions: u32,
    /// Number of small files.
    pub files: u32,
}

impl Amount {
    /// The amounts of a whole run.
    pub const FULL: Amount = Amount {
        file_bytes: 1 << 30,
        random: 1000,
        transactions: 1000,
        files: 20_000,
    };
    /// The amounts of a short run.
    pub const QUICK: Amount = Amount {
        file_bytes: 256 << 20,
        random: 200,
        transactions: 200,
        files: 4000,
    };
}

const RANDOM_BYTES: u64 = 64 << 20;

fn fio(file: &Path, kind: &str, args: &[String]) -> Result<serde_json::Value> {
    let file = format!("--filename={}", file.display());
    let rw = format!("--rw={kind}");
    let fixed = [
        "--name=bench",
        "--ioengine=psync",
        "--fallocate=none",
        "--randseed=1",
        "--output-format=json",
        &file,
        &rw,
    ];
    let all: Vec<&str> = (fixed.into_iter())
        .chain(args.iter().map(String::as_str))
        .collect();
    let text = sh("fio", &all)?;
    let parsed: serde_json::Value =
        serde_json::from_str(&text).map_err(|e| format!("what fio says: {e}"))?;
    let side = if kind == "read" { "read" } else { "write" };
    Ok(parsed["jobs"][0][side].clone())
}

/// Bytes or operations per second over the time of the whole job, its last fsync included.
fn rate(job: &serde_json::Value, what: &str) -> Result<f64> {
    let number = |key: &str| {
        (job[key].as_f64()).ok_or_else(|| format!("what fio says has no `{key}` of the job"))
    };
    let ms = number("runtime")?;
    match ms > 0.0 {
        true => Ok(number(what)? / ms * 1e3),
        false => Err("the job took no time: make it larger".into()),
    }
}

/// Writes the large file, MB/s.
pub fn write(dir: &Path, amount: &Amount) -> Result<f64> {
    let size = format!("--size={}", amount.file_bytes);
    let args = ["--bs=1M".into(), "--end_fsync=1".into(), size];
    let job = fio(&dir.join("large"), "write", &args)?;
    Ok(rate(&job, "io_bytes")? / 1e6)
}

/// Reads the large file, MB/s.
pub fn read(dir: &Path, amount: &Amount) -> Result<f64> {
    let size = format!("--size={}", amount.file_bytes);
    let job = fio(&dir.join("large"), "read", &["--bs=1M".into(), size])?;
    Ok(rate(&job, "io_bytes")? / 1e6)
}

/// Writes single blocks of the large file and syncs each, per second.
pub fn random(dir: &Path, amount: &Amount) -> Result<f64> {
    let args = [
        "--bs=4k".into(),
        "--fsync=1".into(),
        format!("--size={RANDOM_BYTES}"),
        format!("--io_size={}", u64::from(amount.random) * 4096),
    ];
    let job = fio(&dir.join("large"), "randwrite", &args)?;
    rate(&job, "total_ios")
}

/// Four programs write blocks of one file with direct I/O at once: how many, and the seconds.
pub fn direct(file: &Path, amount: &Amount) -> Result<(f64, f64)> {
    const JOBS: u32 = 4;
    let args = [
        "--bs=4k".into(),
        "--direct=1".into(),
        format!("--numjobs={JOBS}"),
        "--group_reporting".into(),
        format!("--size={RANDOM_BYTES}"),
        format!("--io_size={}", u64::from(amount.random) * 4096),
    ];
    let job = fio(file, "randwrite", &args)?;
    let units = f64::from(amount.random * JOBS);
    Ok((units, units / rate(&job, "total_ios")?))
}

/// Transactions per second in one journal mode.
pub fn sqlite(varve: &Path, dir: &Path, mode: &str, amount: &Amount) -> Result<f64> {
    let count = amount.transactions;
    let spec = format!("sqlite:insert={count},update=0,delete=0,journal={mode},synchronous=full");
    let database = dir.join(format!("{mode}.db"));
    let mut host = HostSqlite::start(varve, &database, &spec)?;
    let start = Instant::now();
    host.go()?;
    let seconds = start.elapsed().as_secs_f64();
    host.end()?;
    Ok(f64::from(count) / seconds)
}

/// Seconds for making, looking at and removing small files.
pub fn names(dir: &Path, amount: &Amount) -> Result<[f64; 3]> {
    let dir = dir.join("names");
    let host = |e: std::io::Error| format!("{}: {e}", dir.display());
    fs::create_dir(&dir).map_err(host)?;
    let at = |n: u32| dir.join(format!("file-{n:06}"));
    let sync = || File::open(&dir).and_then(|d| d.sync_all()).map_err(host);
    let start = Instant::now();
    for n in 0..amount.files {
        File::create_new(at(n)).map_err(host)?;
    }
    sync()?;
    let created = start.elapsed().as_secs_f64();
    drop_caches()?;
    let start = Instant::now();
    for n in 0..amount.files {
        fs::metadata(at(n)).map_err(host)?;
    }
    let looked = start.elapsed().as_secs_f64();
    let start = Instant::now();
    for n in 0..amount.files {
        fs::remove_file(at(n)).map_err(host)?;
    }
    sync()?;
    Ok([created, looked, start.elapsed().as_secs_f64()])
}

/// Everything that the kernel need not keep goes.
pub fn drop_caches() -> Result {
    let file = "/proc/sys/vm/drop_caches";
    sh("sync", &[])?;
    fs::write(file, "3").map_err(|e| format!("{file}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_counts_the_whole_time_of_the_job() {
        let job = serde_json::json!({"runtime": 500, "io_bytes": 4_000_000, "total_ios": 100});
        assert_eq!(rate(&job, "io_bytes"), Ok(8e6));
        assert_eq!(rate(&job, "total_ios"), Ok(200.0));
        assert!(rate(&job, "other").is_err_and(|e| e.contains("other")));
        let none = serde_json::json!({"runtime": 0, "io_bytes": 4});
        assert!(rate(&none, "io_bytes").is_err());
    }
}
