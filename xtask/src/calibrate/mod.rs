//! `cargo xtask calibrate-cpu`: what the code costs on this machine, beside the committed table of
//! CPU costs.
//!
//! The table (`crates/base/src/cost.rs`) has a module for each crate and in it a constant for each
//! cost. The documentation of a constant names its measurement in brackets: "Making a directory
//! (`f2fs/mkdir`)". The benches print a line with that name and the nanoseconds for it. Each bench
//! runs several times and the least result counts, because other programs can only make it slower.
//! With `--kernel` the module of the host is measured instead, on the running kernel ([`kernel`]).
//! Nothing is judged: machines differ, and a changed table is a commit of its own with the reason.

mod kernel;
mod putc;

use crate::{Result, workspace};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

const TABLE: &str = "crates/base/src/cost.rs";
/// Package, name and file of each bench.
const BENCHES: &[(&str, &str, &str)] = &[
    ("varve-f2fs", "cost", "crates/f2fs/benches/cost.rs"),
    ("varve-ext4", "cost", "crates/ext4/benches/cost.rs"),
    ("varve-journal", "cost", "crates/journal/benches/cost.rs"),
    ("varve-rt", "handover", "crates/rt/benches/handover.rs"),
    ("varve-rig", "recovery", "crates/rig/benches/recovery.rs"),
    ("varve-sqlite", "cost", "crates/sqlite/benches/cost.rs"),
];
/// Runs of each bench.
const RUNS: usize = 3;
/// The module of the table that [`kernel`] measures.
const HOST: &str = "host";

#[derive(clap::Args)]
pub struct Args {
    /// Measure what system calls of the running kernel cost, on tmpfs
    #[arg(long)]
    kernel: bool,
}

/// A constant of the table.
#[derive(PartialEq, Debug)]
struct Entry {
    /// Its module.
    module: String,
    constant: String,
    /// The measurement that its documentation names.
    measurement: Option<String>,
    nanos: u64,
}

/// Runs `cargo xtask calibrate-cpu`.
pub fn run(args: &Args) -> Result {
    let measured = match args.kernel {
        true => kernel::measure()?,
        false => benches()?,
    };
    let table = parse(&workspace::read(TABLE)?);
    let asked = table.iter().filter(|e| (e.module == HOST) == args.kernel);
    compare(asked, &measured)
}

/// What the benches measure: nanoseconds by the name of the measurement.
fn benches() -> Result<BTreeMap<String, f64>> {
    let mut measured = BTreeMap::new();
    for (package, bench, _) in BENCHES {
        for _ in 0..RUNS {
            for (name, nanos) in lines(&output(package, bench)?) {
                let least = measured.entry(name).or_insert(nanos);
                *least = least.min(nanos);
            }
        }
    }
    Ok(measured)
}

/// Prints constants beside what was measured.
fn compare<'a>(table: impl Iterator<Item = &'a Entry>, measured: &BTreeMap<String, f64>) -> Result {
    println!(
        "{TABLE}\n{:<26} {:<24} {:>9} {:>9} {:>6}",
        "constant", "measurement", "table ns", "here ns", "ratio"
    );
    let mut missing = Vec::new();
    for e in table {
        let name = e.measurement.as_deref().unwrap_or("-");
        let here = measured.get(name).copied();
        if here.is_none() {
            missing.push(name);
        }
        let ratio = here.map_or("-".into(), |n| format!("{:.2}", n / e.nanos.max(1) as f64));
        let here = here.map_or("-".into(), |n| format!("{n:.0}"));
        let constant = format!("{}::{}", e.module, e.constant);
        println!(
            "{constant:<26} {name:<24} {:>9} {here:>9} {ratio:>6}",
            e.nanos
        );
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!("{TABLE}: nothing measures {}", missing.join(", "))),
    }
}

fn output(package: &str, bench: &str) -> Result<String> {
    let output = Command::new("cargo")
        .args(["bench", "--quiet", "--package", package, "--bench", bench])
        .args(["--", "--costs"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cargo bench: {e}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("cargo bench: {}", output.status)),
    }
}

/// The constants of the table.
fn parse(source: &str) -> Vec<Entry> {
    let (mut module, mut name) = (String::new(), None);
    let mut table = Vec::new();
    for line in source.lines().map(str::trim_start) {
        if line.starts_with("///") {
            let inside = line
                .split_once("(`")
                .and_then(|(_, rest)| rest.split_once("`)"));
            name = inside.map(|(name, _)| name.to_string()).or(name);
        } else if let Some(rest) = line.strip_prefix("pub mod ") {
            module = rest.trim_end_matches(" {").into();
            name = None;
        } else if let Some(rest) = line.strip_prefix("pub const ") {
            let digits: String = (rest.split("Nanos(").nth(1).unwrap_or_default().chars())
                .take_while(|c| *c != ')')
                .filter(char::is_ascii_digit)
                .collect();
            table.push(Entry {
                module: module.clone(),
                constant: rest.split(':').next().unwrap_or_default().into(),
                measurement: name.take(),
                nanos: digits.parse().unwrap_or(0),
            });
        } else {
            name = None;
        }
    }
    table
}

/// Name and nanoseconds of each line; the rest of a line is for people.
fn lines(text: &str) -> Vec<(String, f64)> {
    let pairs = text.lines().filter_map(|line| line.split_once('\t'));
    let nanos = |rest: &str| rest.split('\t').next()?.trim().parse().ok();
    pairs
        .filter_map(|(name, rest)| Some((name.to_string(), nanos(rest)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_table_names_its_measurements() {
        let source = "pub mod f2fs {\n    /// Making\n    /// it (`f2fs/mkdir`).\n    pub const MKDIR: Nanos = Nanos(4_000);\n    /// No name.\n    pub const X: Nanos = Nanos(1);\n";
        let entry = |constant: &str, measurement: Option<&str>, nanos| Entry {
            module: "f2fs".into(),
            constant: constant.into(),
            measurement: measurement.map(Into::into),
            nanos,
        };
        let wanted = [
            entry("MKDIR", Some("f2fs/mkdir"), 4000),
            entry("X", None, 1),
        ];
        assert_eq!(parse(source), wanted);
        let found = lines("a\t12\nno pair\nb\t7\t9 with all below\n");
        assert_eq!(found, [("a".into(), 12.0), ("b".into(), 7.0)]);
    }

    /// Collects the sources of the crates, without benches and the table itself.
    fn sources(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs")
                && !path.ends_with("base/src/cost.rs")
            {
                found.push(std::fs::read_to_string(&path).expect("text"));
            }
        }
    }

    /// Constants that are charged nowhere, or measured by no bench.
    fn faults(table: &[Entry], sources: &[String], benches: &str) -> Vec<String> {
        let mut faults = Vec::new();
        for e in table {
            let name = format!("{}::{}", e.module, e.constant);
            let import = format!("use base::cost::{} as cost;", e.module);
            let module = format!("use base::cost::{};", e.module);
            let (full, short) = (
                format!("base::cost::{name}"),
                format!("cost::{}", e.constant),
            );
            let charges = |source: &String| {
                source.contains(&full)
                    || source.contains(&import) && source.contains(&short)
                    || source.contains(&module) && source.contains(&name)
                    || charged_by_name(source, &e.module, &e.constant)
            };
            if !sources.iter().any(charges) {
                faults.push(format!("{name} is charged nowhere"));
            }
            let bench = e.measurement.as_deref().and_then(|m| m.split_once('/'));
            // The name of a difference is printed in two parts: what is left, and the rest.
            let printed = bench.is_some_and(|(of, m)| {
                let whole = [
                    format!("\"{m}\""),
                    format!("\"{m}="),
                    format!("\"{of}/{m}\\t"),
                    format!("\"{of}/{m}\""),
                ];
                whole.iter().any(|text| benches.contains(text))
            });
            if !printed {
                faults.push(format!("{name} is measured by no bench"));
            }
            if e.nanos == 0 {
                faults.push(format!("{name} costs nothing"));
            }
        }
        faults
    }

    /// Whether `constant` is imported, alone or in a list of names of its module, and used.
    fn charged_by_name(source: &str, module: &str, constant: &str) -> bool {
        let names = |text: &str| {
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            words.filter(|word| *word == constant).count()
        };
        let import = format!("use base::cost::{module}::");
        let imports = source.split(&import);
        let imported = |rest: &str| rest.split(';').next().is_some_and(|list| names(list) > 0);
        imports.skip(1).any(imported) && names(source) > 1
    }

    #[test]
    fn every_constant_is_charged_and_measured() {
        let table = parse(&workspace::read(TABLE).expect("committed"));
        assert!(table.len() >= 30, "{table:?}");
        let (mut all, mut benches) = (Vec::new(), String::new());
        let crates = workspace::root().join("crates");
        for entry in std::fs::read_dir(crates).expect("the crates").flatten() {
            sources(&entry.path().join("src"), &mut all);
        }
        let paths = BENCHES.iter().map(|(_, _, path)| *path);
        for path in paths.chain(["xtask/src/calibrate/kernel.rs"]) {
            benches.push_str(&workspace::read(path).expect("a bench"));
        }
        assert_eq!(faults(&table, &all, &benches), Vec::<String>::new());
        let odd =
            parse("pub mod f2fs {\n/// (`f2fs/nowhere`)\npub const NOWHERE: Nanos = Nanos(0);\n");
        assert_eq!(faults(&odd, &all, &benches).len(), 3);
    }
}
