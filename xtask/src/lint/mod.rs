//! Clippy with warnings denied. A misspelt path in `clippy.toml` bans nothing, and clippy only
//! warns of it ("does not refer to a reachable ..."), which `-D warnings` does not turn into an
//! error. So that warning is looked for.

use crate::{Result, workspace};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

const PLACE: &str = "clippy.toml:";

/// Runs `cargo xtask lint`.
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

/// What clippy says about entries of `clippy.toml`: the line before each place in that file.
fn misspelt(output: &str) -> Vec<&str> {
    let lines: Vec<&str> = output.lines().collect();
    let mut found: Vec<&str> = lines
        .windows(2)
        .filter(|pair| pair[1].trim_start().starts_with("-->") && pair[1].contains(PLACE))
        .map(|pair| pair[0])
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests;
