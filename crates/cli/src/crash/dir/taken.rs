//! Whether results may be written into a folder: what is not a result of an earlier run is not
//! written over.

use crate::failure::{Failure, failed};
use ::program::record::load;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Names of results; folders of findings, and recordings of several runs, have a number behind
/// theirs.
const NAMES: [&str; 5] = [
    "results.json",
    "junit.xml",
    "index.html",
    "recording",
    "state",
];
const NUMBERED: [&str; 2] = ["finding-", "recording-"];

/// # Errors
/// Names of results are taken, and nothing beside them shows that they are of an earlier run.
pub fn check(folder: &Path) -> Result<(), Failure> {
    let name = folder.display();
    let entries = fs::read_dir(folder).map_err(|e| failed(format!("{name}: {e}")))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_result = |name: &String| {
        NAMES.contains(&name.as_str()) || NUMBERED.iter().any(|begin| name.starts_with(begin))
    };
    let mut taken: Vec<String> = names.filter(is_result).collect();
    taken.sort();
    if taken.is_empty() || is_earlier(folder) {
        return Ok(());
    }
    Err(failed(format!(
        "{name}: {} would be written over, and nothing there shows that an earlier run has made it; choose another folder with --out",
        taken.join(", ")
    )))
}

/// The same of a file that a recording is to be written to.
///
/// # Errors
/// Something else is there.
pub fn check_kept(file: &Path) -> Result<(), Failure> {
    let name = file.display();
    if file.is_dir() {
        return Err(failed(format!(
            "--keep {name}: is a directory; name a file in it"
        )));
    }
    match fs::read(file) {
        Ok(bytes) if load(&bytes).is_err() => Err(failed(format!(
            "--keep {name}: is there and is no recording, and would be written over; choose another name"
        ))),
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(failed(format!("--keep {name}: {e}")))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Whether a report, a recording or a state of ours is there.
fn is_earlier(folder: &Path) -> bool {
    let report = || {
        let text = fs::read(folder.join("results.json")).ok()?;
        let report: Value = serde_json::from_slice(&text).ok()?;
        Some(report["command"].as_str()?.starts_with("crash"))
    };
    let recording = |name: &str| {
        let bytes = fs::read(folder.join(name));
        bytes.is_ok_and(|bytes| load(&bytes).is_ok())
    };
    report() == Some(true)
        || recording("recording")
        || recording("recording-1")
        || folder.join("state/after").is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::program::call::Recording;
    use ::program::record::save;

    #[test]
    fn a_recording_is_kept_over_a_recording_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kept");
        check_kept(&file).unwrap();
        fs::write(&file, "mine").unwrap();
        let why = check_kept(&file).unwrap_err().to_string();
        assert!(why.contains("kept: is there"), "{why}");
        let recording = Recording {
            start: ::program::tree::Tree::default(),
            calls: Vec::new(),
        };
        fs::write(&file, save(&recording).unwrap()).unwrap();
        check_kept(&file).unwrap();
        let why = check_kept(folder.path()).unwrap_err().to_string();
        assert!(why.contains("is a directory"), "{why}");
    }

    #[test]
    fn files_of_others_are_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("notes.txt", "mine");
        check(folder.path()).unwrap();
        write("results.json", "{\"precious\": 1}");
        let why = check(folder.path()).unwrap_err().to_string();
        assert!(
            why.contains("results.json") && why.contains("--out"),
            "{why}"
        );
        write("results.json", "{\"command\": \"crash --dir\"}");
        fs::create_dir(folder.path().join("finding-1")).unwrap();
        check(folder.path()).unwrap();
        fs::remove_file(folder.path().join("results.json")).unwrap();
        let why = check(folder.path()).unwrap_err().to_string();
        assert!(why.contains("finding-1"), "{why}");
    }
}
