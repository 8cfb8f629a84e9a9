//! What each operation costs with each scheme, exactly: scheme x operation -> commands and blocks.
//! The expected table is `docs/results/cost-table.tsv`; `docs/results/cost-table.md` shows it.
//! After a change that is meant to change costs, `VARVE_BLESS=1` writes both anew.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::common::{DEVICES, measured};
use report::results::Run;
use rig::Preset;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Name in the table, workload: enough operations that what comes seldom is in the figure.
const OPERATIONS: [(&str, &str); 9] = [
    ("create + fsync", "fsync:op=create,count=40"),
    ("append + fsync", "fsync:op=append,count=40"),
    (
        "overwrite + fdatasync",
        "fsync:op=overwrite,file=160k,count=40,sync=fdatasync",
    ),
    (
        "rename + fsync of the directory",
        "fsync:op=rename,count=40",
    ),
    (
        "unlink + fsync of the directory",
        "fsync:op=unlink,count=40",
    ),
    (
        "SQLite transaction, DELETE",
        "sqlite:prefill=100,insert=20,update=20,delete=20,journal=delete",
    ),
    (
        "SQLite transaction, TRUNCATE",
        "sqlite:prefill=100,insert=20,update=20,delete=20,journal=truncate",
    ),
    (
        "SQLite transaction, PERSIST",
        "sqlite:prefill=100,insert=20,update=20,delete=20,journal=persist",
    ),
    (
        "SQLite transaction, WAL",
        "sqlite:prefill=100,insert=20,update=20,delete=20,journal=wal",
    ),
];

const COLUMNS: [&str; 9] = [
    "operations",
    "flushes",
    "write commands",
    "FUA",
    "packed",
    "data blocks",
    "journal blocks",
    "coalition blocks",
    "home blocks",
];

fn cells(run: &Run) -> [u64; 9] {
    let class = |name: &str| run.blocks.get(name).copied().unwrap_or(0);
    let journal = run
        .blocks
        .iter()
        .filter(|(name, _)| name.starts_with("journal"));
    let commands = &run.device.commands;
    [
        run.ops,
        commands.flushes,
        commands.writes,
        commands.fua_writes,
        commands.packed_commands,
        class("data"),
        journal.map(|(_, n)| n).sum(),
        class("coalition"),
        class("home"),
    ]
}

fn measure() -> String {
    let mut text = format!("pack order\toperation\tscheme\t{}\n", COLUMNS.join("\t"));
    for (order, device) in DEVICES {
        for (name, workload) in OPERATIONS {
            for preset in Preset::ALL.into_iter().filter(|p| !p.remaps()) {
                let run = measured(preset, device, "fig8", workload, 64);
                let row = cells(&run).map(|n| n.to_string()).join("\t");
                writeln!(text, "{order}\t{name}\t{preset}\t{row}").unwrap();
            }
        }
    }
    text
}

/// A row: pack order, operation, scheme, figures.
type Row<'a> = (&'a str, &'a str, &'a str, Vec<u64>);

fn rows(table: &str) -> Vec<Row<'_>> {
    table
        .lines()
        .skip(1)
        .map(|line| {
            let cells: Vec<&str> = line.split('\t').collect();
            let figures = cells[3..]
                .iter()
                .map(|n| n.parse().expect("a number"))
                .collect();
            (cells[0], cells[1], cells[2], figures)
        })
        .collect()
}

/// The page: figures per operation.
fn page(table: &str) -> String {
    let rows = rows(table);
    let prefix: BTreeMap<(&str, &str), &Vec<u64>> = rows
        .iter()
        .filter(|r| r.0 == "prefix")
        .map(|r| ((r.1, r.2), &r.3))
        .collect();
    let mut text = String::from(
        "# What operations cost\n\n\
         Commands at the device and 4 KiB blocks per operation, by scheme, on `emmc-odroid-xu4`; timers off, mean over 40 operations or\n\
         60 SQLite transactions (20 inserts, 20 updates, 20 deletes). The counts behind it stand in\n\
         [cost-table.tsv](cost-table.tsv). A test (`crates/work/tests/it/cost_table.rs`) measures them anew and fails at any difference, here or\n\
         there; `VARVE_BLESS=1` writes both.\n\n\
         FUA: writes with the reliable-write bit; each of a packed command counts. Journal blocks: descriptor, metadata, revoke, commit, fast commit and\n\
         superblock; coalition blocks hold modified bytes.\n",
    );
    for (name, workload) in OPERATIONS {
        write!(text, "\n## {name}\n\n`{workload}`\n\n").unwrap();
        let head = COLUMNS[1..].join(" | ");
        writeln!(
            text,
            "| scheme | {head} |\n|---|{}",
            "---|".repeat(COLUMNS.len() - 1)
        )
        .unwrap();
        for (order, operation, scheme, figures) in rows.iter().filter(|r| r.1 == name) {
            let other = match *order == "prefix" {
                true => "",
                false if prefix[&(*operation, *scheme)] == figures => continue,
                false => " (packs keep any subset)",
            };
            let ops = figures[0] as f64;
            let cells = figures[1..]
                .iter()
                .map(|n| format!("{:.2}", *n as f64 / ops));
            let cells = cells.collect::<Vec<_>>().join(" | ");
            writeln!(text, "| `{scheme}`{other} | {cells} |").unwrap();
        }
    }
    text
}

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/results")
        .join(name)
}

/// The files are being written: who reads them waits for the next run.
fn blessing() -> bool {
    std::env::var_os("VARVE_BLESS").is_some()
}

#[test]
fn each_operation_costs_what_the_table_says() {
    let measured = measure();
    if blessing() {
        std::fs::write(docs("cost-table.tsv"), &measured).unwrap();
        std::fs::write(docs("cost-table.md"), page(&measured)).unwrap();
    }
    let wanted = std::fs::read_to_string(docs("cost-table.tsv")).unwrap();
    let differ: Vec<String> = wanted
        .lines()
        .zip(measured.lines())
        .filter(|(wanted, measured)| wanted != measured)
        .map(|(wanted, measured)| format!("expected {wanted}\nmeasured {measured}"))
        .collect();
    assert!(
        differ.is_empty() && wanted.lines().count() == measured.lines().count(),
        "costs are not those of docs/results/cost-table.tsv (VARVE_BLESS=1 writes it anew):\n{}",
        differ.join("\n")
    );
}

#[test]
fn the_page_shows_the_table() {
    if blessing() {
        return;
    }
    let table = std::fs::read_to_string(docs("cost-table.tsv")).unwrap();
    let shown = std::fs::read_to_string(docs("cost-table.md")).unwrap();
    assert!(
        shown == page(&table),
        "docs/results/cost-table.md does not show docs/results/cost-table.tsv (VARVE_BLESS=1 writes it anew)"
    );
}

/// The plans of the schemes, in figures: what a commit that has data to vouch for costs
/// (architecture page, "Schemes").
#[test]
fn a_commit_costs_what_its_plan_says() {
    if blessing() {
        return;
    }
    let table = std::fs::read_to_string(docs("cost-table.tsv")).unwrap();
    let rows = rows(&table);
    let of = |order: &str, scheme: &str| {
        let row = rows
            .iter()
            .find(|r| r.0 == order && r.1 == "append + fsync" && r.2 == scheme);
        row.unwrap_or_else(|| panic!("no row for {order} {scheme}"))
            .3
            .clone()
    };
    let per_op = |figures: &[u64], column: usize| figures[column] as f64 / figures[0] as f64;
    const FLUSHES: usize = 1;
    const COMMANDS: usize = 2;
    const FUA: usize = 3;
    const PACKED: usize = 4;
    const JOURNAL: usize = 6;
    const COALITION: usize = 7;
    for order in ["prefix", "any-subset"] {
        // Of a full record the body and the commit block, once in one pack and once in two
        // commands; the data is one command.
        let packs = order == "prefix";
        for (scheme, commands, fua, packed, coalition) in [
            ("jbd2", 3.0, 1.0, 0.0, false),
            (
                "flush-ahead",
                if packs { 2.0 } else { 3.0 },
                2.0,
                if packs { 1.0 } else { 0.0 },
                false,
            ),
            ("coalition", 2.0, 1.0, 0.0, true),
            ("coalition-paper", 2.0, 1.0, 0.0, true),
            ("emmc", 2.0, 1.0, 0.0, true),
        ] {
            let row = of(order, scheme);
            for (column, wanted) in [
                (FLUSHES, 1.0),
                (COMMANDS, commands),
                (FUA, fua),
                (PACKED, packed),
            ] {
                let found = per_op(&row, column);
                // Now and then the log wraps or the superblock of the journal is written.
                assert!(
                    (found - wanted).abs() < 0.1,
                    "{order} {scheme}: {} {found}, not {wanted}",
                    COLUMNS[column]
                );
            }
            assert_eq!(row[COALITION] > 0, coalition, "{order} {scheme}: {row:?}");
            assert!(
                coalition != (per_op(&row, JOURNAL) > 2.0),
                "{order} {scheme}: journal blocks {row:?}"
            );
        }
        assert_eq!(of(order, "none")[JOURNAL..=COALITION], [0, 0]);
    }
}
