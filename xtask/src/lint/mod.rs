//! Clippy with warnings denied. A misspelt path in `clippy.toml` bans nothing and is a mere warning
//! that `-D warnings` does not reach, so its text is looked for.

use crate::{Result, workspace};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

const MISSPELT: &str = "does not refer to a reachable";

/// `cargo xtask lint`.
pub fn run() -> Result {
    let mut child = workspace::cargo()
        .args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "-D",
            "warnings",
        ])
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start cargo clippy: {e}"))?;
    let stderr = child.stderr.take().expect("stderr was asked for as a pipe");
    let mut text = String::new();
    for line in BufReader::new(stderr).lines() {
        let line = line.map_err(|e| format!("cannot read the output of clippy: {e}"))?;
        let _ = writeln!(std::io::stderr(), "{line}");
        text.push_str(&line);
        text.push('\n');
    }
    let status = child
        .wait()
        .map_err(|e| format!("cannot wait for clippy: {e}"))?;
    let misspelt = misspelt(&text);
    if !misspelt.is_empty() {
        return Err(format!(
            "clippy.toml names what does not exist:\n  {}",
            misspelt.join("\n  ")
        ));
    }
    if !status.success() {
        return Err(format!("clippy: {status}"));
    }
    println!("lint: clean");
    Ok(())
}

/// The lines of clippy's output that complain about an entry of `clippy.toml`.
fn misspelt(output: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = output
        .lines()
        .filter(|line| line.contains(MISSPELT))
        .collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

#[cfg(test)]
mod tests;
