//! Programs of the crate registry: from the search path, or installed below `target/tools`.

use super::sh;
use crate::Result;
use std::path::{Path, PathBuf};

const ROOT: &str = "target/tools";

/// The program that package `name` in this version installs.
pub fn find(name: &str, version: &str) -> Result<PathBuf> {
    let own = Path::new(ROOT).join("bin").join(name);
    let is_it = |path: &Path| {
        let said = sh(&path.to_string_lossy(), &["--version"]);
        said.is_ok_and(|text| text.split_whitespace().any(|word| word == version))
    };
    if let Some(found) = [own.as_path(), Path::new(name)]
        .into_iter()
        .find(|path| is_it(path))
    {
        return Ok(found.to_path_buf());
    }
    eprintln!("installing {name} {version} into {ROOT}");
    let root = ["install", "--locked", "--quiet", "--root", ROOT];
    sh(
        "cargo",
        &[&root[..], &["--version", version, name]].concat(),
    )?;
    Ok(own)
}
