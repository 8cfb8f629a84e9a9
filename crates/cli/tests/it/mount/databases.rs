//! SQLite on volumes that become full while it writes: every row whose COMMIT succeeded is there
//! after a remount, and after a kill.

use super::foreground;
use super::full::volume;
use super::place::{Place, must, unmount};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Rows that a round tries to insert; the volume has room for fewer.
const ROWS: usize = 120;

/// Takes what is free, but for `leave` blocks of 4 KiB.
fn fill(place: &Place, leave: u64) {
    let filler = File::create(place.dir().join("filler")).expect("room for a name");
    let free = statvfs(place.dir()).expect("mounted").f_bfree;
    let mut take = free.saturating_sub(leave);
    let mut end = 0;
    while take > 0 {
        match fallocate(&filler, FallocateFlags::empty(), end * 4096, take * 4096) {
            Ok(()) => end += take,
            Err(_) => take /= 2,
        }
        let free = statvfs(place.dir()).expect("mounted").f_bfree;
        take = take.min(free.saturating_sub(leave));
    }
    filler.sync_all().expect("no data");
}

/// What SQLite printed for `script`, which may fail.
fn sqlite(place: &Place, script: &str) -> String {
    let mut child = Command::new("sqlite3")
        .arg(place.dir().join("db"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("sqlite3");
    let mut input = child.stdin.take().expect("piped");
    // It may have ended before the last line.
    let _ = input.write_all(script.as_bytes());
    drop(input);
    let output = child.wait_with_output().expect("started");
    String::from_utf8_lossy(&output.stdout).to_string()
}

/// Inserts rows until there is no room; answers the last one whose COMMIT succeeded.
fn insert(place: &Place, mode: &str, gathers: bool) -> usize {
    let mut script = format!(".bail on\nPRAGMA journal_mode={mode};\nPRAGMA synchronous=EXTRA;\n");
    if gathers {
        script += "PRAGMA mmap_size=1000000;\nPRAGMA wal_autocheckpoint=20;\n";
    }
    script += "CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB);\n";
    for row in 1..=ROWS {
        writeln!(script, "INSERT INTO t VALUES({row}, randomblob(3000));").expect("memory");
        writeln!(script, "SELECT 'row {row}';").expect("memory");
    }
    let said = sqlite(place, &script);
    let mut rows = said.lines().filter_map(|line| line.strip_prefix("row "));
    (rows.next_back()).map_or(0, |row| row.parse().expect("a number"))
}

/// Answers how many rows were acknowledged.
fn round(number: u64) -> usize {
    let fs = ["ext4", "f2fs"][number as usize % 2];
    let mode = ["WAL", "DELETE", "TRUNCATE", "PERSIST"][number as usize / 2 % 4];
    let gathers = number / 8 % 2 == 1;
    let kills = number / 16 % 2 == 1;
    let options = ["rw", "writeback"][usize::from(gathers)];
    let what = format!("round {number}: {fs} {mode} {options}, killed: {kills}");
    let place = volume(fs);
    let mut child = foreground(&place, options);
    fill(&place, 40 + number * 7 % 60);
    let acknowledged = insert(&place, mode, gathers);
    assert!(acknowledged < ROWS, "{what}: the volume was never full");
    if kills {
        child.kill().expect("alive");
        child.wait().expect("started");
        must("umount", &["-l", &place.at()]);
    } else {
        unmount("umount", &place.at());
        child.wait().expect("started");
    }
    place.mount(options);
    // A log to play back may need room.
    fs::remove_file(place.dir().join("filler")).expect("there");
    let said = sqlite(&place, "PRAGMA integrity_check; SELECT count(*) FROM t;");
    let mut lines = said.lines();
    if acknowledged > 0 {
        assert_eq!(lines.next(), Some("ok"), "{what}");
        let there: usize = lines.next().expect("a count").parse().expect("a number");
        assert!(
            there >= acknowledged,
            "{what}: {there} of {acknowledged} rows"
        );
    }
    place.umount();
    acknowledged
}

fn rounds(numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        assert!(round(number) > 0, "round {number}: nothing was written");
    }
}

#[test]
fn sqlite_on_a_full_volume_keeps_what_it_acknowledged() {
    rounds([0, 3, 8, 17, 26]);
}

#[test]
#[ignore = "a minute: suite mount-long"]
fn sqlite_on_a_full_volume_keeps_what_it_acknowledged_in_a_hundred_rounds() {
    rounds(0..100);
}
