//! `cargo xtask publish-check`: every crate that may be published can be packed and documented
//! without a warning. Nothing is sent anywhere.

use crate::{Result, workspace};
use std::process::Stdio;

#[derive(clap::Args)]
pub struct Args {
    /// Compile each packed crate by itself, too: what it needs stands in its package
    #[arg(long)]
    verify: bool,
    /// Pack a tree with changes that are not committed
    #[arg(long)]
    allow_dirty: bool,
    /// Pack only: to document the crates, all that they use is compiled once more
    #[arg(long)]
    no_docs: bool,
}

/// Runs `cargo xtask publish-check`.
pub fn run(args: &Args) -> Result {
    let crates = published()?;
    let mut words = vec!["package".to_string(), "--locked".into()];
    if !args.verify {
        words.push("--no-verify".into());
    }
    if args.allow_dirty {
        words.push("--allow-dirty".into());
    }
    words.extend(packages(&crates));
    quiet(&words, &[])?;
    if !args.no_docs {
        let mut words = vec!["doc".to_string(), "--no-deps".into(), "--locked".into()];
        words.extend(packages(&crates));
        quiet(&words, &[("RUSTDOCFLAGS", "-D warnings")])?;
    }
    println!("publish-check: {} crates", crates.len());
    Ok(())
}

/// Names of the crates that may be published.
fn published() -> Result<Vec<String>> {
    let all = workspace::metadata()?;
    let open = all
        .packages
        .into_iter()
        .filter(|package| package.publish.is_none());
    Ok(open.map(|package| package.name).collect())
}

fn packages(crates: &[String]) -> impl Iterator<Item = String> {
    crates
        .iter()
        .flat_map(|name| ["-p".to_string(), name.clone()])
}

/// Runs cargo; a warning is an error.
fn quiet(words: &[String], variables: &[(&str, &str)]) -> Result {
    let out = workspace::cargo()
        .args(words)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    let said = String::from_utf8_lossy(&out.stderr);
    match complaint(&said, out.status.success()) {
        None => Ok(()),
        Some(why) => Err(format!("cargo {}: {why}\n{said}", words[0])),
    }
}

/// What is wrong with a run of cargo that said this.
fn complaint(said: &str, success: bool) -> Option<&'static str> {
    let warned = said.lines().any(|line| line.starts_with("warning"));
    match (success, warned) {
        (false, _) => Some("it failed"),
        (true, true) => Some("it warned"),
        (true, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_a_complaint() {
        let packed = "   Packaging a v0.1.0\n    Packaged 3 files\n";
        assert_eq!(complaint(packed, true), None);
        assert_eq!(complaint(packed, false), Some("it failed"));
        let warned = format!("warning: manifest has no documentation\n{packed}");
        assert_eq!(complaint(&warned, true), Some("it warned"));
    }

    #[test]
    fn what_is_for_us_alone_is_not_published() {
        let names = published().unwrap();
        assert!(names.contains(&"varve".to_string()), "{names:?}");
        assert!(names.contains(&"varve-rt".to_string()), "{names:?}");
        assert!(!names.contains(&"xtask".to_string()), "{names:?}");
        assert!(!names.contains(&"varve-testkit".to_string()), "{names:?}");
    }
}
