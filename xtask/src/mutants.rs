//! `cargo xtask mutants`: every guard is removed once, and a crash test has to notice.
//!
//! The catalogues of mutants are test targets that exist only with the feature `mutants` of their
//! package (`required-features`), which turns on `varve-rt/mutants`. They are built into a target
//! directory of their own, so that no other build ever holds a switch. Each mutant is one test. A
//! test that passes prints one line (see [`Line`]), which ends up in the table.
//!
//! Those of the crates below the file systems are called `mutants`, those for which a file system
//! is compiled `mutants_of_volumes`: to compile these takes several times as long as all of them
//! run, so `--quick` leaves them out.

use crate::test::build::{self, Program};
use crate::{Result, workspace};
use base::Mutant;
use clap::Args as ClapArgs;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The test target that holds the catalogues of a package below the file systems.
const BELOW: &str = "mutants";
/// The test target that holds those of a package with file systems.
const VOLUMES: &str = "mutants_of_volumes";
/// The feature that must be on here and off in every other build.
const FEATURE: &str = "mutants";

/// What the explorer is linked with and the catalogues do not spend their time in: to optimise it
/// takes longer than they run.
const IDLE: [&str; 5] = [
    "varve-guest",
    "varve-serve",
    "varve-sqlite",
    "varve-sqlite-vfs",
    "varve-work",
];

#[derive(ClapArgs)]
pub struct Args {
    /// Print the mutants and the hazards whose guards they remove, and run nothing
    #[arg(long)]
    list: bool,
    /// Only the catalogues of the crates below the file systems
    #[arg(long)]
    quick: bool,
    /// Only these, by name
    names: Vec<String>,
}

/// Runs the catalogues of mutants.
pub fn run(args: &Args) -> Result {
    let wanted: Vec<Mutant> = args
        .names
        .iter()
        .map(|name| name.parse::<Mutant>().map_err(|e| e.to_string()))
        .collect::<Result<_>>()?;
    if args.list {
        for mutant in Mutant::ALL {
            println!("{:<4} {mutant}", mutant.hazard());
        }
        return Ok(());
    }
    let on = switched_on()?;
    if !on.is_empty() {
        let who = on.join(", ");
        return Err(format!("a normal build would hold switches: {who}"));
    }
    let (mut caught, mut failed) = (Vec::new(), Vec::new());
    let started = Instant::now();
    let targets: &[&str] = match args.quick {
        true => &[BELOW],
        false => &[BELOW, VOLUMES],
    };
    let programs = compile(targets)?;
    println!("built in {} s", started.elapsed().as_secs());
    // The others are in catalogues that were not built.
    let demanded = match args.quick && wanted.is_empty() {
        true => known(&programs)?,
        false => wanted.clone(),
    };
    for program in programs {
        let name = format!("{} ({})", program.package, program.target);
        let started = Instant::now();
        let (lines, ok) = catalogue(&program, &wanted)?;
        let seconds = started.elapsed().as_secs();
        println!("{name}: {} in {seconds} s", lines.len());
        if !ok {
            failed.push(name);
        }
        caught.extend(lines);
    }
    print(&caught);
    if !failed.is_empty() {
        return Err(format!("mutants survive in {}", failed.join(", ")));
    }
    let missing = missing(&demanded, &caught);
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!("no catalogue catches {}", missing.join(", "))),
    }
}

/// What turns the feature on unasked. A normal build must hold no switch, so a package may turn it
/// on, for itself or another, only by a feature with the same name.
fn switched_on() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for package in workspace::metadata()?.packages {
        for (name, turns_on) in &package.features {
            if name != FEATURE && turns_on.iter().any(|f| f.contains(FEATURE)) {
                found.push(format!("feature {name} of {}", package.name));
            }
        }
        for dependency in &package.dependencies {
            if dependency.features.iter().any(|f| f == FEATURE) {
                found.push(format!("{} for {}", package.name, dependency.name));
            }
        }
    }
    Ok(found)
}

/// Builds the catalogues into a directory of their own. Packages of others hold no switch, so their
/// build is taken from that of the tests if there is one.
fn compile(targets: &[&str]) -> Result<Vec<Program>> {
    let directory = workspace::target().join("mutants");
    if !directory.exists() {
        seed(&directory)?;
    }
    let directory = directory.to_str().ok_or("the path is no text")?;
    let arguments = ["--features", FEATURE, "--target-dir", directory];
    let plain = IDLE.map(|package| format!("profile.dev.package.{package}.opt-level=0"));
    let plain: Vec<&str> = plain.iter().flat_map(|key| ["--config", key]).collect();
    let chosen: Vec<&str> = targets.iter().flat_map(|t| ["--test", *t]).collect();
    let programs = build::compiled(&[&arguments[..], &plain, &chosen].concat())?;
    let programs = programs.into_iter();
    let programs: Vec<Program> = programs
        .filter(|p| targets.contains(&p.target.as_str()))
        .collect();
    match programs.is_empty() {
        false => Ok(programs),
        true => Err("the workspace has no catalogue of mutants".into()),
    }
}

/// Copies what was compiled of other people's packages.
fn seed(directory: &Path) -> Result {
    let built = workspace::target().join("debug");
    if !built.join("deps").exists() {
        return Ok(());
    }
    let (from, to) = (built.join("deps"), directory.join("debug").join("deps"));
    let failed =
        |e: std::io::Error| format!("cannot copy {} to {}: {e}", from.display(), to.display());
    std::fs::create_dir_all(&to).map_err(failed)?;
    let _unchanged = held(&built)?;
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&from).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let compiled = [".rlib", ".rmeta", ".so", ".d"]
            .iter()
            .any(|end| name.ends_with(end));
        if compiled && !name.contains("varve") {
            files.push(path);
        }
    }
    let copy = |files: &[PathBuf], to: &Path| {
        let mut command = Command::new("cp");
        let done = command
            .args(["-a", "--reflink=auto"])
            .args(files)
            .arg(to)
            .status();
        match done.map_err(failed)?.success() {
            true => Ok(()),
            false => Err(format!("cp into {} failed", to.display())),
        }
    };
    copy(&files, &to)?;
    copy(
        &[built.join("build"), built.join(".fingerprint")],
        &directory.join("debug"),
    )
}

/// Cargo's own lock of a folder, so that no file comes or goes while it is copied: a suite that
/// runs beside, such as that of clippy, may be compiling. Waits for it.
fn held(folder: &Path) -> Result<File> {
    let path = folder.join(".cargo-lock");
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    let open = File::options().create(true).append(true).open(&path);
    let file = open.map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(file)
}

/// The mutants that these catalogues know.
fn known(programs: &[Program]) -> Result<Vec<Mutant>> {
    let mut tests = BTreeSet::new();
    for program in programs {
        let shown = program.path.display();
        let list = Command::new(&program.path)
            .args(["--list", "--format", "terse"])
            .output()
            .map_err(|e| format!("cannot start {shown}: {e}"))?;
        let text = String::from_utf8_lossy(&list.stdout).into_owned();
        let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
        tests.extend(names.map(String::from));
    }
    let all = Mutant::ALL.iter().copied();
    let known: Vec<Mutant> = all.filter(|m| tests.contains(&test_name(*m))).collect();
    match known.is_empty() {
        true => Err("the catalogues know no mutant".into()),
        false => Ok(known),
    }
}

/// Runs one catalogue; answers its lines, and whether all its tests passed.
fn catalogue(program: &Program, wanted: &[Mutant]) -> Result<(Vec<Line>, bool)> {
    let output = Command::new(&program.path)
        .arg("--nocapture")
        .args(wanted.iter().map(|m| test_name(*m)))
        .current_dir(&program.directory)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cannot start {}: {e}", program.path.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter_map(Line::parse).collect();
    if !output.status.success() {
        print!("{text}");
    }
    Ok((lines, output.status.success()))
}

/// The name of the test of a mutant, made from its word.
fn test_name(mutant: Mutant) -> String {
    mutant.word().replace('-', "_")
}

/// What a catalogue says about one mutant: `mutant|word|workload|reached|property|after|clean`.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    mutant: Mutant,
    /// Scheme, device and history by which the guard is reached.
    workload: String,
    /// How often the guard was asked in the run that was caught.
    reached: u64,
    /// The property that was violated.
    property: String,
    /// States judged until the violation was found, at most 200.
    after: u64,
    /// States of the code without the mutant under the same cuts, all without a violation.
    clean: u64,
}

impl Line {
    fn parse(text: &str) -> Option<Line> {
        // The test runner prints "test name ... " before it on the same line.
        let text = &text[text.find("mutant|")?..];
        let mut fields = text.split('|').skip(1);
        let mut next = || fields.next().map(str::to_string);
        Some(Line {
            mutant: next()?.parse().ok()?,
            workload: next()?,
            reached: next()?.parse().ok()?,
            property: next()?,
            after: next()?.parse().ok()?,
            clean: next()?.parse().ok()?,
        })
    }
}

fn print(lines: &[Line]) {
    let mut rows: Vec<&Line> = lines.iter().collect();
    rows.sort_by_key(|l| (l.mutant.hazard(), l.mutant));
    let row = |cells: [&str; 7]| {
        let [a, b, c, d, e, f, g] = cells;
        println!("{a:<4} {b:<22} {c:<44} {d:>8} {e:<28} {f:>6} {g:>6}");
    };
    row([
        "no",
        "mutant",
        "workload",
        "reached",
        "caught by",
        "after",
        "clean",
    ]);
    for l in rows {
        let hazard = l.mutant.hazard().to_string();
        let numbers = [l.reached, l.after, l.clean].map(|n| n.to_string());
        let [reached, after, clean] = &numbers;
        let word = l.mutant.word();
        row([
            &hazard,
            word,
            &l.workload,
            reached,
            &l.property,
            after,
            clean,
        ]);
    }
}

/// The wanted mutants that no line is about; if none is named, all are wanted.
fn missing(wanted: &[Mutant], caught: &[Line]) -> Vec<&'static str> {
    let seen: BTreeSet<Mutant> = caught.iter().map(|l| l.mutant).collect();
    let wanted = if wanted.is_empty() {
        Mutant::ALL
    } else {
        wanted
    };
    let missing = wanted.iter().filter(|m| !seen.contains(m));
    missing.map(|m| m.word()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_back_and_others_are_skipped() {
        let text = "test no_escape ... mutant|no-escape|jbd2, plain|12|harness-Q1 metadata is not one state|7|200";
        let line = Line::parse(text).expect("a line");
        assert_eq!((line.mutant, line.reached), (Mutant::NoEscape, 12));
        assert_eq!((line.after, line.clean), (7, 200));
        assert_eq!(Line::parse("mutant|no-such|x|1|y|2|3"), None);
        assert_eq!(Line::parse("test no_escape ... ok"), None);
        let missing = missing(&[Mutant::NoEscape, Mutant::NoWrap], &[line]);
        assert_eq!(missing, ["no-wrap"]);
    }

    #[test]
    fn nothing_turns_the_switches_on_by_default() {
        assert_eq!(switched_on(), Ok(Vec::new()));
    }
}
