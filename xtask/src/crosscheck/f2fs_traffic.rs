//! `cargo xtask crosscheck f2fs-traffic`: the F2FS of a guest's kernel beside Varve's.
//!
//! Both sides have an F2FS of 1 GiB without timers and insert single rows with one bundled SQLite
//! and synchronous=FULL; the connection stays open while the figures are read. The disk of
//! that kernel has a volatile cache and no FUA, as profile `loop-like`. SQLite's own file layer
//! would use the atomic writes of F2FS in place of any rollback journal, so the modes are measured
//! without them, and once more with them.

use super::ext4_traffic;
use crate::Result;
use crate::test::build;
use guest::Guest;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(clap::Args)]
pub struct Args {
    /// Transactions per mode
    #[arg(long, default_value_t = 300)]
    transactions: u32,
    /// Kernel runs
    #[arg(long, default_value_t = 3)]
    repeats: u32,
    /// The program `varve`, if it is not to be built first
    #[arg(long)]
    varve: Option<PathBuf>,
}

/// The word by which the guest calls this program.
pub const GUEST: &str = "in-the-guest";

/// A row of the table.
struct Row {
    name: &'static str,
    mode: &'static str,
    /// Whether SQLite may use atomic writes.
    atomic: bool,
    /// Blocks and flushes that were measured with kernel 6.1.176 (docs/results/linux.md). Other
    /// figures show that something else is measured.
    seen: (f64, f64),
}

const fn row(name: &'static str, mode: &'static str, atomic: bool, seen: (f64, f64)) -> Row {
    Row {
        name,
        mode,
        atomic,
        seen,
    }
}

const ROWS: [Row; 5] = [
    row("delete", "delete", false, (13.22, 5.0)),
    row("truncate", "truncate", false, (11.16, 6.0)),
    row("persist", "persist", false, (11.07, 6.0)),
    row("wal", "wal", false, (3.07, 1.0)),
    row("atomic", "delete", true, (4.03, 3.0)),
];
/// How far the kernel may be off from these figures, as a fraction.
const DRIFT: f64 = 0.10;

/// Counts for one transaction by name: `commands`, `blocks`, `flushes`, and blocks by kind as F2FS
/// counts them.
pub type Figures = BTreeMap<String, f64>;

pub fn run(args: &Args) -> Result {
    let varve = args
        .varve
        .clone()
        .map_or_else(|| build::binary("varve"), Ok)?;
    let mut kernel: BTreeMap<&str, Figures> = BTreeMap::new();
    for _ in 0..args.repeats.max(1) {
        for (name, figures) in measure(&varve, args.transactions)? {
            let sum = kernel.entry(name).or_default();
            for (what, n) in figures {
                let share = n / f64::from(args.repeats.max(1) * args.transactions);
                *sum.entry(what).or_default() += share;
            }
        }
    }
    println!(
        "the kernel's F2FS, per transaction ({} transactions, mean of {} runs):",
        args.transactions, args.repeats
    );
    println!("{}", table(&kernel));
    let off = |row: &&Row| {
        let far = |what: &str, seen: f64| (kernel[row.name][what] - seen).abs() > DRIFT * seen;
        far("blocks", row.seen.0) || far("flushes", row.seen.1)
    };
    let mut off: Vec<&str> = ROWS.iter().filter(off).map(|row| row.name).collect();
    if !off.is_empty() {
        let off = off.join(", ");
        return Err(format!(
            "the kernel is not as in docs/results/linux.md in: {off}"
        ));
    }
    for row in ROWS.iter().filter(|row| !row.atomic) {
        let spec = format!(
            "sqlite:insert={},update=0,delete=0,journal={},synchronous=full",
            args.transactions, row.mode
        );
        let kind = ["--fs", "f2fs", "--schemes", "checkpoint-60"];
        let ours = ext4_traffic::ours(&varve, &kind, &spec)?;
        let near = |ours: f64, what: &str| {
            let kernel = kernel[row.name][what];
            let tolerance = if row.mode == "wal" { 0.15 } else { 0.10 };
            (ours - kernel).abs() <= tolerance * kernel
        };
        let within = near(ours.blocks, "blocks") && near(ours.flushes, "flushes");
        println!(
            "varve {:<10}{:>10.2} blocks {:>10.2} flushes  within: {within}",
            row.name, ours.blocks, ours.flushes
        );
        if !within {
            off.push(row.name);
        }
    }
    match off.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "traffic differs by more than the tolerance in: {}",
            off.join(", ")
        )),
    }
}

/// The kernel's figures for every row: one boot, with a fresh file system for each row.
fn measure(varve: &Path, transactions: u32) -> Result<Vec<(&'static str, Figures)>> {
    let folder = tempfile::tempdir().map_err(|e| format!("temporary folder: {e}"))?;
    let image = folder.path().join("image");
    fs::File::create(&image)
        .and_then(|file| file.set_len(1 << 30))
        .map_err(|e| format!("{}: {e}", image.display()))?;
    let guest = Guest::new(&[GUEST]).map_err(|e| e.to_string())?;
    let guest = guest.disk(&image).limit(Duration::from_secs(300));
    guest
        .check(&script(varve, transactions))
        .map_err(|e| e.to_string())?;
    ROWS.iter()
        .map(|Row { name, .. }| {
            let path = guest.scratch().join(name);
            let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            Ok((*name, parse(&text)?))
        })
        .collect()
}

fn script(varve: &Path, transactions: u32) -> String {
    let mut script = String::from(
        "guest load f2fs\n\
         echo 0 >/proc/sys/vm/dirty_writeback_centisecs\n",
    );
    for Row {
        name, mode, atomic, ..
    } in ROWS
    {
        let no_atomic = if atomic { "" } else { "--no-atomic-writes" };
        let varve = varve.display();
        script += &format!(
            "mkfs.f2fs -q -f $DISK0\n\
             mount -t f2fs -o fsync_mode=posix,background_gc=off $DISK0 $MNT\n\
             echo 3600 >/sys/fs/f2fs/$BLOCK0/cp_interval\n\
             echo 3600 >/sys/fs/f2fs/$BLOCK0/idle_interval\n\
             echo 1 >/sys/fs/f2fs/$BLOCK0/iostat_enable\n\
             guest figures $BLOCK0 $DIR/{name} {varve} host-sqlite {no_atomic} --database $MNT/test.db \
             --workload sqlite:insert={transactions},update=0,delete=0,journal={mode},synchronous=full\n\
             umount $MNT\n"
        );
    }
    script
}

/// Reads lines of a name and a number.
pub fn parse(text: &str) -> Result<Figures> {
    let line = |line: &str| {
        let (name, number) = line.split_once(' ')?;
        Some((name.to_string(), number.parse().ok()?))
    };
    let found: Option<Figures> = text.lines().map(line).collect();
    found.ok_or_else(|| format!("not figures: {text}"))
}

fn table(rows: &BTreeMap<&str, Figures>) -> String {
    const KINDS: [(&str, &[&str]); 3] = [
        ("data", &["data", "gc_data", "cp_data"]),
        ("node", &["node", "gc_node", "cp_node"]),
        ("meta", &["meta", "cp_meta"]),
    ];
    let mut text = format!(
        "{:<10}{:>10}{:>10}{:>10}",
        "mode", "blocks", "commands", "flushes"
    );
    for (kind, _) in KINDS {
        text += &format!("{kind:>10}");
    }
    for Row { name, .. } in ROWS {
        let figures = &rows[name];
        let of = |what: &str| figures.get(what).copied().unwrap_or(0.0);
        text += &format!(
            "\n{name:<10}{:>10.2}{:>10.2}{:>10.2}",
            of("blocks"),
            of("commands"),
            of("flushes")
        );
        for (_, parts) in KINDS {
            let sum: f64 = parts.iter().map(|part| of(part)).sum();
            text += &format!("{sum:>10.2}");
        }
    }
    text
}

/// Runs the guest's side: `xtask in-the-guest`.
pub fn guest() -> Result {
    guest::hook();
    Err("only for a script in a guest".into())
}
