//! `cargo xtask python`: the wheel of the Python package `varve`, and its tests.
//!
//! The wheel carries the program, and a compiled module whose tables other libraries read. It is
//! installed into an environment of its own, as a user would, and tested there.

use crate::Result;
use crate::workspace;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package, below the root of the workspace.
const PACKAGE: &str = "crates/python";
/// What builds the wheel.
const BUILDERS: [&str; 1] = ["maturin>=1.9,<2"];
/// What its tests need.
const TESTERS: [&str; 10] = [
    "pytest",
    "pandas>=2.2",
    "polars>=1.3",
    "pyarrow>=14",
    "distributed",
    "duckdb>=1.1",
    "fio-plot",
    "hdrhistogram",
    "jsonschema",
    // A tool of fio imports it.
    "six",
];
/// What the notebooks need besides.
const NOTEBOOKS: [&str; 3] = ["nbmake", "ipykernel", "matplotlib"];

#[derive(clap::Args)]
pub struct Args {
    /// A wheel of release builds, as users get it; without, of what the tests have built
    #[arg(long)]
    release: bool,
    /// The program, instead of one built for this
    #[arg(long)]
    varve: Option<PathBuf>,
    /// Build the wheel alone
    #[arg(long)]
    wheel: bool,
    /// Run the notebooks, too: minutes
    #[arg(long)]
    notebooks: bool,
    /// Install the wheel into a fresh environment without any other library, and see that the least
    /// of each part works
    #[arg(long, conflicts_with_all = ["wheel", "notebooks"])]
    smoke: bool,
}

/// What is run of a wheel that was just installed.
const SMOKE: &str = "test_smoke.py";

/// Builds the wheel and tests it.
pub fn run(args: &Args) -> Result {
    let root = workspace::root();
    let venv = environment()?;
    install(&venv, &BUILDERS)?;
    let wheel = build(&root, &venv, args)?;
    println!("wheel: {}", wheel.display());
    if args.wheel {
        return Ok(());
    }
    if args.smoke {
        return smoke(&root, &wheel);
    }
    install(&venv, &TESTERS)?;
    install_wheel(&venv, &wheel)?;
    let tests = root.join(PACKAGE).join("tests");
    python(&venv, &["-m", "pytest", "-q", &tests.to_string_lossy()])?;
    if args.notebooks {
        install(&venv, &NOTEBOOKS)?;
        let notebooks = root.join(PACKAGE).join("notebooks");
        let notebooks = notebooks.to_string_lossy();
        python(
            &venv,
            &[
                "-m",
                "pytest",
                "-q",
                "--nbmake",
                "--nbmake-timeout=900",
                &notebooks,
            ],
        )?;
    }
    Ok(())
}

/// Tries the wheel where nothing else is installed but what runs tests.
fn smoke(root: &Path, wheel: &Path) -> Result {
    let folder = tempfile::tempdir().map_err(|e| format!("a folder: {e}"))?;
    let venv = made_in(folder.path().join("venv"))?;
    install(&venv, &["pytest"])?;
    install_wheel(&venv, wheel)?;
    let tests = root.join(PACKAGE).join("tests").join(SMOKE);
    python(
        &venv,
        &[
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            &tests.to_string_lossy(),
        ],
    )
}

/// Why there can be no environment with what builds the wheel; `None` if there is one.
pub fn lacks() -> Option<String> {
    let made = environment().and_then(|venv| install(&venv, &BUILDERS));
    made.err()
}

/// The environment of the wheel; made if there is none.
fn environment() -> Result<PathBuf> {
    let venv = workspace::root().join("target/python");
    match venv.join("bin/pip").is_file() {
        true => Ok(venv),
        false => made_in(venv),
    }
}

/// Makes an environment in this folder.
fn made_in(venv: PathBuf) -> Result<PathBuf> {
    let made = Command::new("python3")
        .args(["-m", "venv"])
        .arg(&venv)
        .output();
    let made = made.map_err(|e| format!("python3: {e}"))?;
    match made.status.success() {
        true => Ok(venv),
        false => {
            // What is there of it would pass for whole the next time.
            let _ = std::fs::remove_dir_all(&venv);
            Err("python3 makes no environment (Debian package python3-venv)".into())
        }
    }
}

fn install(venv: &Path, what: &[&str]) -> Result {
    pip(venv, what).map_err(|said| format!("pip cannot install {}: {said}", what.join(", ")))
}

fn install_wheel(venv: &Path, wheel: &Path) -> Result {
    let wheel = wheel.to_string_lossy();
    // The version is the same from build to build.
    pip(venv, &["--force-reinstall", "--no-deps", &wheel])
        .map_err(|said| format!("the wheel cannot be installed: {said}"))
}

/// The last line that pip said, if it failed.
fn pip(venv: &Path, what: &[&str]) -> Result {
    let out = Command::new(venv.join("bin/pip"))
        .args(["install", "--quiet", "--disable-pip-version-check"])
        .args(what)
        .output()
        .map_err(|e| format!("pip: {e}"))?;
    let said = String::from_utf8_lossy(&out.stderr);
    match out.status.success() {
        true => Ok(()),
        false => Err(said.trim_end().lines().last().unwrap_or("").to_string()),
    }
}

fn python(venv: &Path, args: &[&str]) -> Result {
    let status = Command::new(venv.join("bin/python")).args(args).status();
    match status.map_err(|e| format!("python: {e}"))?.success() {
        true => Ok(()),
        false => Err(format!("python {} failed", args.join(" "))),
    }
}

/// Builds program and wheel, and answers its path.
fn build(root: &Path, venv: &Path, args: &Args) -> Result<PathBuf> {
    let (profile, words): (&str, &[&str]) = match args.release {
        true => ("release", &["--release"]),
        false => ("dev", &[]),
    };
    let program = match &args.varve {
        Some(program) => program.clone(),
        None => workspace::build_varve(words)?,
    };
    let package = root.join(PACKAGE);
    let place = package.join("python/varve/bin");
    let host = |e: std::io::Error| format!("{}: {e}", place.display());
    std::fs::create_dir_all(&place).map_err(host)?;
    let inside = place.join("varve");
    std::fs::copy(&program, &inside).map_err(host)?;
    // Ten times as large with what a debugger needs.
    let stripped = Command::new("strip").arg(&inside).status();
    if !stripped.is_ok_and(|status| status.success()) {
        return Err("strip: Debian package binutils is not installed".into());
    }
    let wheels = root.join("target/wheels");
    let _ = std::fs::remove_dir_all(&wheels);
    let built = Command::new(venv.join("bin/maturin"))
        .current_dir(&package)
        .args([
            "build",
            "--quiet",
            "--profile",
            profile,
            "--interpreter",
            "python3",
            "--out",
        ])
        .arg(&wheels)
        .status();
    if !built.map_err(|e| format!("maturin: {e}"))?.success() {
        return Err("maturin cannot build the wheel".into());
    }
    let found = std::fs::read_dir(&wheels).map_err(|e| format!("{}: {e}", wheels.display()))?;
    let wheel = found.flatten().map(|entry| entry.path()).next();
    wheel.ok_or_else(|| format!("{}: no wheel", wheels.display()))
}
