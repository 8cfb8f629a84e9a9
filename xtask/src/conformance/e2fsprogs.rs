//! What the suites on e2fsprogs share: its source package, and running its tools.

use crate::Result;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The last part of a path.
pub fn name_of(test: &Path) -> String {
    test.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Makes a folder if it does not exist.
pub fn fresh(dir: &Path) -> Result<PathBuf> {
    fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    Ok(dir.to_path_buf())
}

/// Fetches and unpacks the source package of the running Debian, from the mirrors that apt knows.
pub fn fetch(work: &Path) -> Result<PathBuf> {
    if let Some(dir) = unpacked(work) {
        return Ok(dir);
    }
    let parts = fresh(&work.join("sources"))?;
    fresh(&work.join("lists/partial"))?;
    let mut found = false;
    for file in apt_sources() {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let text = as_sources(&text);
        found |= !text.is_empty();
        fs::write(parts.join(name_of(&file)), text).map_err(|e| e.to_string())?;
    }
    if !found {
        return Err(
            "apt has no mirror; unpack the source package e2fsprogs and say --source DIR".into(),
        );
    }
    let options = [
        "-o".into(),
        "Dir::Etc::sourcelist=/dev/null".into(),
        "-o".into(),
        format!("Dir::Etc::sourceparts={}", parts.display()),
        "-o".into(),
        format!("Dir::State::lists={}", work.join("lists").display()),
        "-o".into(),
        format!("Dir::Cache={}", work.display()),
    ];
    let apt = |more: &[&str]| {
        let mut args: Vec<&str> = options.iter().map(String::as_str).collect();
        args.extend(more);
        run_in(work, "apt-get", &args)
    };
    apt(&["-q", "update"])?;
    apt(&["-q", "source", "--download-only", "e2fsprogs"])?;
    let files = fs::read_dir(work).map_err(|e| e.to_string())?;
    let archive = files.flatten().map(|e| e.path());
    let archive = archive
        .filter(|p| name_of(p).contains(".orig.tar"))
        .find(|p| !name_of(p).ends_with(".asc"));
    let archive = archive.ok_or("apt brought no source archive")?;
    run_in(work, "tar", &["xf", &archive.to_string_lossy()])?;
    unpacked(work).ok_or_else(|| "the source archive holds no tests".into())
}

fn unpacked(work: &Path) -> Option<PathBuf> {
    let mut dirs = fs::read_dir(work).ok()?.flatten().map(|e| e.path());
    dirs.find(|p| p.join("tests/j_long_trans").is_dir())
}

fn apt_sources() -> Vec<PathBuf> {
    let parts = fs::read_dir("/etc/apt/sources.list.d")
        .into_iter()
        .flatten()
        .flatten();
    let mut all: Vec<PathBuf> = parts.map(|e| e.path()).collect();
    all.push("/etc/apt/sources.list".into());
    all.sort();
    all
}

/// The sources that apt has for binary packages, as sources for source packages.
fn as_sources(text: &str) -> String {
    let line = |line: &str| match line.trim() {
        "Types: deb" => "Types: deb-src".to_string(),
        other => other
            .strip_prefix("deb ")
            .map_or_else(|| line.to_string(), |rest| format!("deb-src {rest}")),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

/// Runs a program in a folder; the error of a failure has what it printed.
pub fn run_in(dir: &Path, program: &str, args: &[&str]) -> Result {
    let out = output(Command::new(program).current_dir(dir).args(args))?;
    match out.status.success() {
        true => Ok(()),
        false => Err(format!("{program} {}: {}", args.join(" "), said(&out))),
    }
}

/// Runs a program and waits for it, with the superuser's tools in the search path and messages in
/// English.
pub fn output(command: &mut Command) -> Result<Output> {
    let path = std::env::var("PATH").unwrap_or_default();
    command
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .env("LC_ALL", "C");
    command.output().map_err(|e| format!("{command:?}: {e}"))
}

/// What a program printed, on both channels.
pub fn said(out: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
    format!("{} {}", text(&out.stdout), text(&out.stderr))
}
