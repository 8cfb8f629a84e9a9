//! `cargo xtask calibrate-cpu`: what the code costs here and now, beside the committed tables of CPU costs.
//!
//! A table is a file of constants whose documentation names the measurement in brackets: "Making a directory (`mkdir`)". The bench prints
//! a line for each: name, nanoseconds. Nothing is judged: machines differ, and a changed table is a commit of its own with the reason.

use crate::{Result, workspace};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

/// Table, package and bench.
const TABLES: &[(&str, &str, &str)] = &[("crates/f2fs/src/cost.rs", "varve-f2fs", "cost")];

/// Runs it.
pub fn run() -> Result {
    for (path, package, bench) in TABLES {
        let table = parse(&workspace::read(path)?);
        if table.is_empty() {
            return Err(format!("{path}: no constant names its measurement"));
        }
        let output = Command::new("cargo")
            .args(["bench", "--quiet", "--package", package, "--bench", bench])
            .stderr(Stdio::inherit())
            .output()
            .map_err(|e| format!("cargo bench: {e}"))?;
        if !output.status.success() {
            return Err(format!("cargo bench: {}", output.status));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let measured = lines(&text);
        println!(
            "{path}\n{:<24} {:<20} {:>10} {:>10}",
            "constant", "measurement", "table ns", "here ns"
        );
        for (constant, name, nanos) in &table {
            let here = measured.get(name.as_str());
            let here = here.map_or("-".into(), |n| format!("{n:.0}"));
            println!("{constant:<24} {name:<20} {nanos:>10} {here:>10}");
        }
        let missing: Vec<&str> = (table.iter().map(|(_, name, _)| name.as_str()))
            .filter(|name| !measured.contains_key(*name))
            .collect();
        if !missing.is_empty() {
            return Err(format!(
                "{path}: the bench does not measure {}",
                missing.join(", ")
            ));
        }
    }
    Ok(())
}

/// Constants, the measurement that each names, nanoseconds.
fn parse(source: &str) -> Vec<(String, String, u64)> {
    let mut name = None;
    let mut table = Vec::new();
    for line in source.lines() {
        if line.starts_with("///") {
            let inside = line
                .split_once("(`")
                .and_then(|(_, rest)| rest.split_once("`)"));
            name = inside.map(|(name, _)| name.to_string()).or(name);
        } else if let Some(rest) = line.strip_prefix("pub(crate) const ") {
            let constant = rest.split(':').next().unwrap_or_default();
            let digits: String = (rest.split("Nanos(").nth(1).unwrap_or_default().chars())
                .take_while(|c| *c != ')')
                .filter(char::is_ascii_digit)
                .collect();
            if let (Some(name), Ok(nanos)) = (name.take(), digits.parse()) {
                table.push((constant.to_string(), name, nanos));
            }
        } else {
            name = None;
        }
    }
    table
}

fn lines(text: &str) -> BTreeMap<&str, f64> {
    let pairs = text.lines().filter_map(|line| line.split_once('\t'));
    pairs
        .filter_map(|(name, nanos)| Some((name, nanos.trim().parse().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_names_its_measurements() {
        let source = "/// Making (`mkdir`).\npub(crate) const MKDIR: Nanos = Nanos(4_000);\n/// No name.\npub(crate) const X: Nanos = Nanos(1);\n";
        assert_eq!(parse(source), [("MKDIR".into(), "mkdir".into(), 4000)]);
        assert_eq!(lines("a\t12\nno pair\n"), BTreeMap::from([("a", 12.0)]));
    }

    #[test]
    fn the_committed_tables_can_be_read() {
        for (path, ..) in TABLES {
            let table = parse(&workspace::read(path).expect("committed"));
            assert!(table.len() >= 8, "{path}: {table:?}");
        }
    }
}
