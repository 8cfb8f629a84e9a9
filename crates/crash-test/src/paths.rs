//! Names: of the test in its harness, of the program, of the folder for what was found.

use crate::case::variable;
use std::path::{Path, PathBuf};

/// Name of the program.
const PROGRAM: &str = "varve";

/// The name of a test in the harness: its path without the crate.
pub fn harness_name(module: &str, name: &str) -> String {
    match module.split_once("::") {
        Some((_, inner)) => format!("{inner}::{name}"),
        None => name.into(),
    }
}

/// The program: `$VARVE`, or the first on the path.
///
/// # Errors
/// There is none, with what to do.
pub fn program() -> Result<PathBuf, String> {
    if let Some(named) = variable("VARVE") {
        let named = PathBuf::from(named);
        return match named.is_file() {
            true => Ok(named),
            false => Err(format!(
                "$VARVE is {}, which is no program",
                named.display()
            )),
        };
    }
    let path = variable("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(PROGRAM));
    places.find(|place| place.is_file()).ok_or_else(|| {
        "a crash test needs the program varve: put it on the path, or name it in $VARVE".into()
    })
}

/// The folder for what a test finds: in the target directory of the build, or among temporary
/// files where the test program lies elsewhere. Test programs of several packages may have one
/// name.
pub fn folder(exe: &Path, package: Option<&str>, test: &str) -> PathBuf {
    let stem = exe.file_stem().unwrap_or_default().to_string_lossy();
    // Cargo adds the hash of a build behind the name.
    let stem = match stem.rsplit_once('-') {
        Some((stem, hash)) if hash.len() == 16 => stem.to_string(),
        _ => stem.into_owned(),
    };
    let stem = match package {
        Some(package) => format!("{package}.{stem}"),
        None => stem,
    };
    let test = test.replace("::", ".");
    let deps = exe.parent().filter(|parent| parent.ends_with("deps"));
    match deps.and_then(|deps| deps.ancestors().nth(2)) {
        Some(target) => target.join("varve-crash").join(stem).join(test),
        None => std::env::temp_dir()
            .join(format!("varve-crash-{stem}"))
            .join(test),
    }
}

/// A word of a shell that stands for this text.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_harness_knows_a_test_without_its_crate() {
        assert_eq!(harness_name("it::saves::quick", "one"), "saves::quick::one");
        assert_eq!(harness_name("it", "one"), "one");
    }

    #[test]
    fn what_is_found_lies_in_the_target_directory() {
        let folder_of = |exe: &str, package| folder(Path::new(exe), package, "a::b");
        let exe = "/w/target/debug/deps/my-it-0123456789abcdef";
        let built = folder_of(exe, None);
        assert_eq!(built, Path::new("/w/target/varve-crash/my-it/a.b"));
        let one = folder_of(exe, Some("one"));
        assert_eq!(one, Path::new("/w/target/varve-crash/one.my-it/a.b"));
        assert_ne!(one, folder_of(exe, Some("two")), "packages share a folder");
        let elsewhere = folder_of("/opt/my-it", None);
        assert_eq!(
            elsewhere,
            std::env::temp_dir().join("varve-crash-my-it/a.b")
        );
    }

    #[test]
    fn a_quoted_text_is_one_word() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
