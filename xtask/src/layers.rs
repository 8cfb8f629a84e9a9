//! The layer test: the dependencies of the crates have to be those of the table "Crates" in
//! `ARCHITECTURE.md`, so that a new edge is a change of the table that someone reviews.
//!
//! - L1: a crate names only crates that its row lists.
//! - L2: every row lists only crates on lower levels.
//! - L3: what the row lists is really named, so that the table never promises more than there is.
//! - L4: `nand`, `ftl` and `ctrl` never name `rt`, not even for tests.
//! - L5: every crate below `crates/` has a row and every row has a crate.
//!
//! Inside a crate, [`circles`] looks for files that name each other.
//!
//! Every crate may name `base`, so it is not listed. An edge of `[dev-dependencies]` alone stands
//! in the row with `(dev)` behind it and may also lead to a crate on the same or a higher level.

use crate::{Result, circles, workspace};
use std::collections::{BTreeMap, BTreeSet};

const PREFIX: &str = "varve-";
/// The package without that prefix: the library for others.
const FACADE: &str = "varve";
/// Device state machines, which are called with the time and never ask for it.
const TIMELESS: [&str; 3] = ["nand", "ftl", "ctrl"];

/// One row of the table.
#[derive(Debug, Default, PartialEq, Eq)]
struct Row {
    level: u32,
    /// The crates that it may name, and whether for tests alone.
    may_name: BTreeMap<String, bool>,
}

type Table = BTreeMap<String, Row>;
/// The crates that each crate names, and whether for tests alone.
type Edges = BTreeMap<String, BTreeMap<String, bool>>;

/// Options of `cargo xtask layers`.
#[derive(clap::Args)]
pub struct Args {
    /// Print the circles of files of this crate (directory below crates/, or `all`) instead
    #[arg(long, value_name = "CRATE")]
    circles: Option<String>,
}

/// Runs `cargo xtask layers`.
pub fn run(args: &Args) -> Result {
    match args.circles.as_deref() {
        Some("all") => circles::print(None),
        Some(name) => circles::print(Some(name)),
        None => check(),
    }
}

fn check() -> Result {
    let table = parse_table(&workspace::read("ARCHITECTURE.md")?)?;
    let edges = edges_of(&workspace::metadata()?);
    let mut findings = compare(&table, &edges);
    findings.extend(circles::check()?);
    if findings.is_empty() {
        println!("layers: {} crates as in ARCHITECTURE.md", table.len());
        return Ok(());
    }
    Err(format!(
        "{} findings\n  {}",
        findings.len(),
        findings.join("\n  ")
    ))
}

/// Reads the Markdown table whose head is `| level | crate | may name | ...`.
fn parse_table(text: &str) -> Result<Table> {
    let mut table = Table::new();
    let rows = text
        .lines()
        .skip_while(|line| cells(line).get(..3) != Some(&["level", "crate", "may name"]))
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    for line in rows {
        let cells = cells(line);
        let [level, name, may_name, ..] = cells[..] else {
            return Err(format!(
                "ARCHITECTURE.md: row with fewer than 3 cells: {line}"
            ));
        };
        let level = level
            .parse()
            .map_err(|_| format!("ARCHITECTURE.md: no level in: {line}"))?;
        let row = Row {
            level,
            may_name: parse_names(may_name),
        };
        let name = name.trim_matches('`').to_string();
        if table.insert(name.clone(), row).is_some() {
            return Err(format!("ARCHITECTURE.md: two rows for crate {name}"));
        }
    }
    if table.is_empty() {
        return Err(
            "ARCHITECTURE.md: no table with the head `| level | crate | may name |`".into(),
        );
    }
    Ok(table)
}

fn cells(line: &str) -> Vec<&str> {
    line.trim()
        .trim_matches('|')
        .split('|')
        .map(str::trim)
        .collect()
}

fn parse_names(cell: &str) -> BTreeMap<String, bool> {
    let mut names = BTreeMap::new();
    let mut last: Option<String> = None;
    for word in cell.split_whitespace() {
        let word = word.trim_matches(['`', ',']);
        match (word, &last) {
            ("-" | "", _) => {}
            ("(dev)", Some(name)) => {
                names.insert(name.clone(), true);
            }
            _ => {
                names.insert(word.to_string(), false);
                last = Some(word.to_string());
            }
        }
    }
    names
}

/// The name of the table for a package of ours.
fn crate_name(package: &str) -> Option<&str> {
    match package {
        FACADE => Some(FACADE),
        other => other.strip_prefix(PREFIX),
    }
}

fn edges_of(metadata: &workspace::Metadata) -> Edges {
    let ours: BTreeSet<&str> = metadata
        .packages
        .iter()
        .filter_map(|p| crate_name(&p.name))
        .collect();
    let mut edges = Edges::new();
    for package in &metadata.packages {
        let Some(name) = crate_name(&package.name) else {
            continue;
        };
        let named = edges.entry(name.to_string()).or_default();
        for dependency in &package.dependencies {
            let Some(other) = crate_name(&dependency.name) else {
                continue;
            };
            if ours.contains(other) {
                let dev = dependency.kind.as_deref() == Some("dev");
                let entry = named.entry(other.to_string()).or_insert(dev);
                *entry &= dev;
            }
        }
    }
    edges
}

fn compare(table: &Table, edges: &Edges) -> Vec<String> {
    let mut findings = Vec::new();
    for name in edges.keys().filter(|name| !table.contains_key(*name)) {
        findings.push(format!("L5: crates/{name} has no row in ARCHITECTURE.md"));
    }
    for (name, row) in table {
        match edges.get(name) {
            None => findings.push(format!(
                "L5: ARCHITECTURE.md has a row for {name}, no such crate"
            )),
            Some(named) => compare_row(table, name, row, named, &mut findings),
        }
    }
    findings
}

fn compare_row(
    table: &Table,
    name: &str,
    row: &Row,
    named: &BTreeMap<String, bool>,
    findings: &mut Vec<String>,
) {
    for (other, &only_dev) in &row.may_name {
        let level = table.get(other).map(|r| r.level);
        if !only_dev && level.is_none_or(|level| level >= row.level) {
            findings.push(format!(
                "L2: {name} (level {}) lists {other}, not lower",
                row.level
            ));
        }
        if !named.contains_key(other) {
            findings.push(format!(
                "L3: {name} lists {other} but does not name it; strike it out"
            ));
        }
    }
    for (other, &dev) in named.iter().filter(|(other, _)| *other != "base") {
        if TIMELESS.contains(&name) && other == "rt" {
            findings.push(format!(
                "L4: {name} names rt; a device model is told the time"
            ));
        }
        match row.may_name.get(other) {
            None if dev => findings.push(format!(
                "L1: {name} names {other} for tests; list it as `{other} (dev)`"
            )),
            None => findings.push(format!(
                "L1: {name} names {other}, which its row does not list"
            )),
            Some(true) if !dev => {
                findings.push(format!("L1: {name} names {other}, listed for tests only"))
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
text before
| level | crate | may name | what |
|---|---|---|---|
| 2 | `nand` | - | medium |
| 1 | `rt` | - | runtime |
| 0 | `base` | - | units |
| 3 | `top` | `nand` `rt` (dev) | above |

after
";

    fn edges(list: &[(&str, &[(&str, bool)])]) -> Edges {
        let row = |named: &[(&str, bool)]| named.iter().map(|(n, d)| (n.to_string(), *d)).collect();
        list.iter()
            .map(|(name, named)| (name.to_string(), row(named)))
            .collect()
    }

    fn findings(nand: &[(&str, bool)], top: &[(&str, bool)]) -> Vec<String> {
        let all = edges(&[
            ("base", &[]),
            ("rt", &[("base", false)]),
            ("nand", nand),
            ("top", top),
        ]);
        compare(&parse_table(TEXT).unwrap(), &all)
    }

    #[test]
    fn the_workspace_is_as_drawn() {
        check().unwrap();
    }

    #[test]
    fn an_edge_that_is_listed_passes() {
        assert_eq!(
            findings(&[("base", false)], &[("nand", false), ("rt", true)]),
            [""; 0]
        );
    }

    #[test]
    fn an_edge_that_is_not_listed_is_found() {
        let found = findings(&[("top", false)], &[("nand", false), ("rt", true)]);
        assert_eq!(found, ["L1: nand names top, which its row does not list"]);
        let found = findings(&[], &[("nand", false), ("rt", false)]);
        assert_eq!(found, ["L1: top names rt, listed for tests only"]);
    }

    #[test]
    fn a_device_model_may_not_name_rt_even_for_tests() {
        let found = findings(&[("rt", true)], &[("nand", false), ("rt", true)]);
        assert_eq!(
            found[0],
            "L4: nand names rt; a device model is told the time"
        );
    }

    #[test]
    fn an_edge_that_is_listed_but_unused_is_found() {
        let found = findings(&[], &[("rt", true)]);
        assert_eq!(
            found,
            ["L3: top lists nand but does not name it; strike it out"]
        );
    }

    #[test]
    fn an_upward_row_is_found() {
        let table = parse_table(&TEXT.replace("| 3 |", "| 2 |")).unwrap();
        let all = edges(&[
            ("base", &[]),
            ("rt", &[]),
            ("nand", &[]),
            ("top", &[("nand", false), ("rt", true)]),
        ]);
        assert_eq!(
            compare(&table, &all),
            ["L2: top (level 2) lists nand, not lower"]
        );
    }

    #[test]
    fn rows_and_crates_must_match_one_to_one() {
        let all = edges(&[("base", &[]), ("rt", &[]), ("nand", &[]), ("new", &[])]);
        let found = compare(&parse_table(TEXT).unwrap(), &all);
        assert_eq!(found[0], "L5: crates/new has no row in ARCHITECTURE.md");
        assert_eq!(
            found[1],
            "L5: ARCHITECTURE.md has a row for top, no such crate"
        );
        assert!(parse_table("no table").is_err());
    }
}
