//! Programs of the crate registry for suites: in the search path, or below `target/tools`.

use crate::Result;
use crate::sh::sh;
use crate::workspace;

/// The program that package `name` in this version installs, if it exists: a path, or a name for
/// the search path.
fn installed(name: &str, version: &str) -> Option<String> {
    let own = format!("{}/bin/{name}", root());
    let is_it = |program: &String| {
        let said = sh(program, &["--version"]);
        said.is_ok_and(|text| text.split_whitespace().any(|word| word == version))
    };
    [own, name.to_string()].into_iter().find(is_it)
}

/// The program as [`installed`] finds it; it is installed now if it does not exist.
pub fn find(name: &str, version: &str) -> Result<String> {
    if let Some(program) = installed(name, version) {
        return Ok(program);
    }
    let root = root();
    eprintln!("installing {name} {version} into {root}");
    // A debug build: the programs wait for the mount, and compiling a release lasts longer.
    let install = ["install", "--locked", "--quiet", "--debug", "--root", &root];
    sh(
        "cargo",
        &[&install[..], &["--version", version, name]].concat(),
    )?;
    Ok(format!("{root}/bin/{name}"))
}

fn root() -> String {
    let root = workspace::root().join("target/tools");
    root.to_string_lossy().into_owned()
}
