//! Remarks beside the figures of a comparison, each told once with the runs that have it.

use crate::results::Run;

/// The remarks of all runs ([`Run::notes`]) in the order in which they come first. A remark that
/// not all runs have begins with those that do: `ext4/fast-commit: ...`.
pub fn told(runs: &[Run]) -> Vec<String> {
    let mut seen: Vec<&String> = Vec::new();
    for note in runs.iter().flat_map(|run| &run.notes) {
        if !seen.contains(&note) {
            seen.push(note);
        }
    }
    let told = seen.into_iter().map(|note| {
        let having = runs.iter().filter(|run| run.notes.contains(note));
        let names: Vec<String> = having.map(|r| format!("{}/{}", r.fs, r.scheme)).collect();
        match names.len() == runs.len() {
            true => note.clone(),
            false => format!("{}: {note}", names.join(", ")),
        }
    });
    told.collect()
}
