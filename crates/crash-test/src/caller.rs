//! The test itself: it calls the program `varve`, which calls this test program again for each
//! part.
//!
//! - The answers of a check go to descriptor 3, because the harness prints to standard output.
//! - A file that the run removes shows that the harness has found the test by its name: a harness
//!   that finds none ends with success.

use crate::case::{BEGUN, Case, PART};
use crate::paths::{folder, program, quoted};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs the test.
///
/// # Panics
/// It fails.
#[track_caller]
pub fn test(case: &Case<'_>) {
    if let Err(why) = tested(case) {
        panic!("{why}");
    }
}

fn tested(case: &Case<'_>) -> Result<(), String> {
    let program = program()?;
    let exe = std::env::current_exe().map_err(|e| format!("the path of this test: {e}"))?;
    let name = case.harness_name();
    let out = folder(&exe, case.package, &name);
    let commands = Commands::new(&exe, &name)?;
    // What an earlier run has found.
    let _ = fs::remove_dir_all(&out);
    let begun = out.join("begun");
    let made = fs::create_dir_all(&out).and_then(|()| fs::write(&begun, ""));
    made.map_err(|e| format!("{}: {e}", out.display()))?;
    let mut varve = Command::new(&program);
    varve.args(["crash", "--dir", "--out"]).arg(&out);
    varve.args(arguments(case, &commands)).env(BEGUN, &begun);
    let output = varve
        .output()
        .map_err(|e| format!("{}: {e}", program.display()))?;
    if !output.status.success() {
        return Err(told(&name, &commands, &output, &out));
    }
    if begun.exists() {
        return Err(format!(
            "{} runs no test for `--exact {name}`: a crash test needs the harness of Rust, or one that takes the same options",
            exe.display()
        ));
    }
    // It is of use only where something was found.
    let _ = fs::remove_dir_all(&out);
    Ok(())
}

/// The commands that play the parts.
struct Commands {
    setup: String,
    run: String,
    check: String,
}

impl Commands {
    fn new(exe: &Path, name: &str) -> Result<Commands, String> {
        let text = exe.to_str();
        let text = text.ok_or_else(|| format!("{}: is no Unicode", exe.display()))?;
        let (exe, name) = (quoted(text), quoted(name));
        let command = |part: &str, outputs: &str| {
            format!(
                "exec env {PART}={part} {exe} --exact {name} --include-ignored --nocapture --test-threads=1 {outputs}"
            )
        };
        Ok(Commands {
            setup: command("setup", "1>&2"),
            run: command("run", "1>&2"),
            check: command("check", "3>&1 1>&2"),
        })
    }
}

/// How the program ends that has findings.
const FINDINGS: i32 = 1;

/// What the program is asked for.
fn arguments<'a>(case: &'a Case<'_>, commands: &'a Commands) -> Vec<String> {
    let setup = case.setup.as_ref().map(|_| ["--setup", &commands.setup]);
    let check = (case.check.as_ref()).map(|_| ["--check-server", &commands.check]);
    let parts = setup
        .into_iter()
        .chain(check)
        .chain([["--run", &commands.run]]);
    let mut words: Vec<String> = parts.flatten().map(String::from).collect();
    for (option, value) in case.options {
        words.push(format!("--{}", option.replace('_', "-")));
        words.extend(
            Some(value)
                .filter(|value| !value.is_empty())
                .map(ToString::to_string),
        );
    }
    words
}

/// What the test fails with. The harness of the run prints the name of the test once more.
fn told(name: &str, commands: &Commands, output: &Output, out: &Path) -> String {
    let found = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    let begin = [
        format!("test {name} ... "),
        format!("test {name} - should panic ... "),
    ];
    let without = |line| {
        let rest = begin
            .iter()
            .find_map(|begin| str::strip_prefix(line, begin.as_str()));
        rest.unwrap_or(line)
    };
    let words = said
        .lines()
        .filter(|line| !matches!(*line, "" | "running 1 test"));
    let words: Vec<&str> = words.map(without).collect();
    let words = words.join("\n");
    // What the program answers where it has no verdict.
    if output.status.code() != Some(FINDINGS) || found.trim().is_empty() {
        return format!("the crash test is broken: varve crash: {words}");
    }
    let check = format!("server `{}`", commands.check);
    let found = found.trim().replacen(&commands.run, name, 1);
    let found = found.replacen(&check, "the check of the test", 1);
    let page = out.join("index.html");
    format!(
        "a power cut may leave what is bad, see {}\n{found}\n{words}",
        page.display()
    )
}
