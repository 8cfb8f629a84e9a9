//! Each ban of `clippy.toml` is reported on a sample, and a misspelt one is found.

use super::misspelt;
use crate::workspace;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

/// The sample is no module, because it must not be compiled into any program.
const SAMPLE: &str = include_str!("sample.rs.txt");

#[test]
fn a_misspelt_entry_is_found_once() {
    let one = "warning: `std::sync::Mutexx` does not refer to a reachable type\n  --> /w/clippy.toml:5:5\n";
    let other = "warning: expected a function, found a module\n  --> /w/clippy.toml:6:5\n";
    let output = format!("    Checking varve-base\n{one}   |\n{other}   |\n{one}");
    let found = misspelt(&output);
    assert_eq!(found.len(), 2);
    assert!(found.contains(&"warning: expected a function, found a module"));
    let elsewhere = "warning: unused variable\n  --> crates/base/src/lib.rs:1:1\n";
    assert!(misspelt(elsewhere).is_empty());
}

#[test]
fn every_ban_is_reported() {
    let output = clippy_driver();
    let reported: BTreeSet<usize> = output.lines().filter_map(reported_line).collect();
    let banned: BTreeSet<usize> = (1..)
        .zip(SAMPLE.lines())
        .filter(|(_, line)| line.ends_with("// banned"))
        .map(|(number, _)| number)
        .collect();
    assert_eq!(reported, banned, "clippy said:\n{output}");
    assert!(banned.len() > 40);
}

/// Runs clippy's compiler on the sample with our `clippy.toml`.
fn clippy_driver() -> String {
    let sysroot = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()
        .unwrap()
        .stdout;
    let sysroot = PathBuf::from(String::from_utf8(sysroot).unwrap().trim());
    let place = std::env::current_exe()
        .unwrap()
        .with_file_name("bans_sample.rs");
    std::fs::write(&place, SAMPLE).unwrap();
    let output = Command::new(sysroot.join("bin/clippy-driver"))
        .args([
            "--edition",
            "2024",
            "--crate-type",
            "lib",
            "--emit",
            "metadata",
        ])
        .args(["--error-format", "short", "-A", "unused", "--sysroot"])
        .arg(&sysroot)
        .arg("-o")
        .arg(place.with_extension("rmeta"))
        .arg(&place)
        .env("CLIPPY_CONF_DIR", workspace::root())
        .output()
        .unwrap();
    String::from_utf8(output.stderr).unwrap()
}

/// The line of the sample that a line of short diagnostics is about.
fn reported_line(diagnostic: &str) -> Option<usize> {
    let (_, rest) = diagnostic.split_once("sample.rs:")?;
    let (number, rest) = rest.split_once(':')?;
    rest.contains("use of a disallowed")
        .then(|| number.parse().ok())?
}
