//! Compiles all tests of the workspace once, and lists the test programs for the suites.

use crate::{Result, workspace};
use serde::Deserialize;
use std::path::PathBuf;
use std::process::Stdio;

/// One compiled test program.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// The package that it belongs to.
    pub package: String,
    /// `lib`, `bin`, or the name of the file below `tests/`.
    pub target: String,
    /// The program.
    pub path: PathBuf,
    /// Directory of the package, in which cargo starts its tests.
    pub directory: PathBuf,
}

/// All that the tests start: their programs, what these start, the examples, and the libraries for
/// other languages, which no Rust program asks for. The same set each time, since cargo compiles
/// packages of others anew for another set.
const ALL: [&str; 3] = ["--lib", "--tests", "--examples"];

/// Tells tests that libraries and examples stand beside them, so that they need not run cargo.
pub const BUILT: &str = "VARVE_TEST_BUILT";

/// All that was compiled.
#[derive(Default)]
pub struct Built {
    /// The test programs.
    pub programs: Vec<Program>,
    messages: String,
}

impl Built {
    /// The program `name` of the workspace. Cargo is not asked again: it might be busy with a suite
    /// that runs beside.
    pub fn binary(&self, name: &str) -> Option<PathBuf> {
        find_binary(&self.messages, name)
    }
}

/// Compiles all of [`ALL`].
pub fn compile() -> Result<Built> {
    let messages = build(&ALL)?;
    Ok(Built {
        programs: programs(&messages, &names()?),
        messages,
    })
}

/// Compiles what the arguments for cargo choose, and lists the test programs among it. All packages
/// are named whatever that is, so that packages of others are compiled with the same features.
pub fn compiled(arguments: &[&str]) -> Result<Vec<Program>> {
    Ok(programs(&build(arguments)?, &names()?))
}

/// Packages of the workspace by their manifests.
fn names() -> Result<Vec<(PathBuf, String)>> {
    let packages = workspace::metadata()?.packages.into_iter();
    let names = packages.map(|package| (package.manifest_path, package.name));
    Ok(names.collect())
}

/// The program `name` of the workspace, as the tests start it. After [`compile`] nothing is left to
/// build, while `cargo build -p` would compile SQLite a second time, with other features.
pub fn binary(name: &str) -> Result<PathBuf> {
    find_binary(&build(&ALL)?, name)
        .ok_or_else(|| format!("no test of the workspace starts {name}"))
}

/// Runs `cargo build` over the workspace; answers its messages.
fn build(arguments: &[&str]) -> Result<String> {
    let output = workspace::cargo()
        .args(["build", "--workspace", "--locked"])
        .args(arguments)
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cannot start cargo build: {e}"))?;
    if !output.status.success() {
        return Err("the tests do not compile".into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    profile: Option<Profile>,
    target: Option<Target>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// Cargo's messages, one JSON value per line.
fn parse(messages: &str) -> impl Iterator<Item = Message> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
}

/// The program `name` in the messages that is no test program.
fn find_binary(messages: &str, name: &str) -> Option<PathBuf> {
    parse(messages).find_map(|message| {
        let target = message.target?;
        let plain = message.profile.is_some_and(|p| !p.test);
        (plain && target.name == name && target.kind == ["bin"]).then_some(message.executable?)
    })
}

/// The test programs in the messages.
fn programs(messages: &str, names: &[(PathBuf, String)]) -> Vec<Program> {
    parse(messages)
        .filter_map(|message| {
            let manifest = message.manifest_path?;
            let target = message.target?;
            let package = names.iter().find(|(path, _)| *path == manifest)?.1.clone();
            let kind = target.kind.first()?;
            Some(Program {
                package,
                target: if kind == "test" {
                    target.name
                } else {
                    kind.clone()
                },
                path: message
                    .executable
                    .filter(|_| message.profile.is_some_and(|p| p.test))?,
                directory: manifest.parent()?.to_path_buf(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str, name: &str, test: bool, executable: &str) -> String {
        format!(
            "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/w/a/Cargo.toml\",\
             \"target\":{{\"kind\":[\"{kind}\"],\"name\":\"{name}\"}},\
             \"profile\":{{\"test\":{test}}},\"executable\":{executable}}}\n"
        )
    }

    #[test]
    fn test_programs_are_picked_from_the_messages() {
        let text = message("lib", "a", false, "null")
            + "not json\n{\"reason\":\"build-finished\"}\n"
            + &message("bin", "tool", false, "\"/t/tool\"")
            + &message("lib", "a", true, "\"/t/a-1\"")
            + &message("test", "cuts", true, "\"/t/cuts-1\"");
        let found = programs(&text, &[("/w/a/Cargo.toml".into(), "varve-a".into())]);
        let targets: Vec<_> = found
            .iter()
            .map(|p| (p.target.as_str(), p.path.to_str()))
            .collect();
        assert_eq!(
            targets,
            [("lib", Some("/t/a-1")), ("cuts", Some("/t/cuts-1"))]
        );
        assert!(
            found
                .iter()
                .all(|p| p.package == "varve-a" && p.directory.ends_with("a"))
        );
        assert!(programs(&text, &[]).is_empty());
        assert_eq!(find_binary(&text, "tool"), Some("/t/tool".into()));
        assert_eq!(find_binary(&text, "cuts"), None, "a test program");
    }
}
