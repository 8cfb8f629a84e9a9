//! `cargo xtask deny`: licences, sources and known vulnerabilities of everything that Varve is
//! built of, by the rules of deny.toml, judged by cargo-deny.
//!
//! The list of vulnerabilities comes from a repository of its own. Where that cannot be reached,
//! the rest is judged and the missing part is named.

use crate::tools::Tool;
use crate::{Result, workspace};
use std::process::{Command, Output};

/// The program that judges.
pub const CARGO_DENY: Tool = Tool {
    name: "cargo-deny",
    version: "0.20.2",
};

/// What is said if there is no cargo-deny.
pub const LACK: &str = "there is no program cargo-deny (cargo xtask deny --install)";

#[derive(clap::Args)]
pub struct Args {
    /// Install cargo-deny below target/tools if it is not there
    #[arg(long)]
    install: bool,
}

/// Runs `cargo xtask deny`.
pub fn run(args: &Args) -> Result {
    let program = match (CARGO_DENY.program(), args.install) {
        (Some(program), _) => program,
        (None, true) => CARGO_DENY.install()?,
        (None, false) => return Err(LACK.into()),
    };
    judge(&program, &["check", "bans", "licenses", "sources"])?;
    println!("deny: licences, sources and bans are sound");
    let fetched = call(&program, &["fetch", "db"])?;
    if !fetched.status.success() {
        println!("deny: vulnerabilities were not looked for: the list cannot be fetched");
        return Ok(());
    }
    judge(&program, &["--offline", "check", "advisories"])?;
    println!("deny: no known vulnerability");
    Ok(())
}

fn judge(program: &str, words: &[&str]) -> Result {
    let out = call(program, words)?;
    match out.status.success() {
        true => Ok(()),
        false => Err(format!(
            "cargo deny {}:\n{}",
            words.join(" "),
            String::from_utf8_lossy(&out.stderr)
        )),
    }
}

fn call(program: &str, words: &[&str]) -> Result<Output> {
    Command::new(program)
        .current_dir(workspace::root())
        .args(["--all-features", "--locked"])
        .args(words)
        .output()
        .map_err(|e| format!("cannot start {program}: {e}"))
}
