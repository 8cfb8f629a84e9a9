//! Where the workspace is, how cargo is called, and the fields of `cargo metadata` that are read.

use crate::Result;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory that holds the root `Cargo.toml`.
pub fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest
        .parent()
        .map_or_else(|| manifest.clone(), Path::to_path_buf)
}

/// A cargo command in the root of the workspace, with the cargo that started this program. It keeps
/// no state for incremental builds unless it is told to: most of what is built here is built from
/// nothing, which takes a fifth longer with it.
pub fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root());
    if std::env::var_os("CARGO_INCREMENTAL").is_none() {
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// Builds the program `varve` alone, with more arguments for cargo (`--release`); answers its path.
pub fn build_varve(arguments: &[&str]) -> Result<PathBuf> {
    let status = cargo()
        .args(["build", "--quiet", "--locked"])
        .args(["-p", "varve-cli", "--bin", "varve"])
        .args(arguments)
        .status()
        .map_err(|e| format!("cannot start cargo build: {e}"))?;
    if !status.success() {
        return Err("varve does not compile".into());
    }
    let profile = match arguments.contains(&"--release") {
        true => "release",
        false => "debug",
    };
    Ok(target().join(profile).join("varve"))
}

/// The directory in which cargo builds.
pub fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root().join(target)
}

/// Reads a file of the workspace, given relative to its root.
pub fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(root().join(path)).map_err(|e| format!("cannot read {path}: {e}"))
}

/// The part of `cargo metadata` that is read.
#[derive(Deserialize)]
pub struct Metadata {
    /// Packages of the workspace (dependencies are left out with `--no-deps`).
    pub packages: Vec<Package>,
}

/// One package of the workspace.
#[derive(Deserialize)]
pub struct Package {
    /// Its name, as `varve-base`.
    pub name: String,
    /// The packages that it names in its manifest.
    pub dependencies: Vec<Dependency>,
    /// Path of its `Cargo.toml`.
    pub manifest_path: PathBuf,
    /// Registries to which it may be published: none of them if empty, all if absent.
    pub publish: Option<Vec<String>>,
    /// Its features, each with what it turns on.
    pub features: BTreeMap<String, Vec<String>>,
}

/// One entry of a dependency table.
#[derive(Deserialize)]
pub struct Dependency {
    /// The package that it names.
    pub name: String,
    /// `None` for `[dependencies]`, otherwise `dev` or `build`.
    pub kind: Option<String>,
    /// Features asked of it by name.
    pub features: Vec<String>,
}

/// Asks cargo for the packages of the workspace.
pub fn metadata() -> Result<Metadata> {
    let output = cargo()
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .output()
        .map_err(|e| format!("cannot start cargo metadata: {e}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo metadata failed:\n{text}"));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|e| format!("cargo metadata answered something unexpected: {e}"))
}
