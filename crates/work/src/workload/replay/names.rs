//! Under which names the files of a recording lie on the volume.
//!
//! In the first run each has its own. When the recording is run again where it ended, a use of the
//! application goes on: files that it made stay, and it makes others beside them. So a file that is
//! there at the end takes the place of one that was there at the beginning, under the name that it
//! has, and what a repetition makes gets a name that no other repetition gives. Else each
//! repetition would begin by removing and writing what no use removes and writes, and would leave
//! the device in pieces that no use makes.

use crate::recording::{Op, Recording};
use rt::Mutex;
use std::collections::{BTreeMap, BTreeSet};

/// Longest last part of a path that another sign and a number still fit behind, bytes.
const LONGEST: usize = 240;

/// The folder that a name lies in.
pub(super) fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(at) => &path[..at],
    }
}

/// The names of one run.
pub(super) struct Names {
    /// Number of the repetition; 0 is the first run.
    turn: u32,
    /// Folders that are there from the first call to the last, under one name. Files in others keep
    /// the names of the recording.
    steady: BTreeSet<String>,
    /// Names that are ever those of folders, which keep them.
    folders: BTreeSet<String>,
    /// The files in those folders that are there now: name in the recording, name on the volume.
    there: Mutex<BTreeMap<String, String>>,
}

impl Names {
    /// Of the first run of a recording.
    pub fn first(recording: &Recording) -> Names {
        let steady = steady(recording);
        let named = |(path, _): &(String, u64)| (path.clone(), path.clone());
        let there = recording.files.iter().map(named);
        let there = there.filter(|(path, _)| is_in(&steady, path)).collect();
        let folders = folders(recording);
        Names {
            turn: 0,
            there: Mutex::named("replay names", there),
            steady,
            folders,
        }
    }

    /// True for a file that keeps its content when the recording is run again.
    pub fn keeps(&self, path: &str) -> bool {
        is_in(&self.steady, path) && !self.folders.contains(path)
    }

    /// The name of a file that is there.
    pub fn of(&self, path: &str) -> String {
        self.there.lock().get(path).cloned().unwrap_or(path.into())
    }

    /// The name of a file that is there, or that the call makes.
    pub fn made(&self, path: &str) -> String {
        if !self.keeps(path) {
            return path.into();
        }
        let fresh = || self.fresh(path);
        self.there
            .lock()
            .entry(path.into())
            .or_insert_with(fresh)
            .clone()
    }

    /// The name of a file that the call removes.
    pub fn gone(&self, path: &str) -> String {
        self.there.lock().remove(path).unwrap_or(path.into())
    }

    /// Another repetition begins. The files that are there keep their names on the volume, and get
    /// those of the recording by `renamed`; of `None` nothing is known any more.
    pub fn turn(&mut self, renamed: impl Fn(&str) -> Option<String>) {
        self.turn += 1;
        let there = std::mem::take(&mut *self.there.lock());
        let there = there
            .into_iter()
            .filter_map(|(path, real)| Some((renamed(&path)?, real)));
        *self.there.lock() = there.collect();
    }

    fn fresh(&self, path: &str) -> String {
        match self.turn {
            0 => path.into(),
            turn => format!("{path}~{turn}"),
        }
    }
}

fn is_in(steady: &BTreeSet<String>, path: &str) -> bool {
    let last = path.len() - path.rfind('/').map_or(0, |at| at + 1);
    last <= LONGEST && steady.contains(parent(path))
}

/// Every name that is one of a folder at some time.
fn folders(recording: &Recording) -> BTreeSet<String> {
    let mut folders: BTreeSet<String> = recording.folders.iter().cloned().collect();
    for call in &recording.calls {
        match &call.op {
            Op::Mkdir { path } => drop(folders.insert(path.clone())),
            Op::Rename { from, to } if folders.contains(from) => drop(folders.insert(to.clone())),
            _ => {}
        }
    }
    folders
}

/// The folders that no call makes, removes or renames, nor one above them.
fn steady(recording: &Recording) -> BTreeSet<String> {
    let mut moved: BTreeSet<&str> = BTreeSet::new();
    for call in &recording.calls {
        match &call.op {
            Op::Mkdir { path } | Op::Rmdir { path } => drop(moved.insert(path)),
            Op::Rename { from, to } => moved.extend([&**from, to]),
            _ => {}
        }
    }
    let stays = |folder: &str| {
        let mut above = Some(folder).filter(|f| *f != "/");
        while let Some(path) = above {
            if moved.contains(path) {
                return false;
            }
            above = Some(parent(path)).filter(|f| *f != "/");
        }
        true
    };
    let all = recording.folders.iter().map(|folder| &**folder);
    let all = all.chain(["/"]).filter(|folder| stays(folder));
    all.map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Call;
    use base::Nanos;

    fn recording() -> Recording {
        let rename = |from: &str, to: &str| Op::Rename {
            from: from.into(),
            to: to.into(),
        };
        let ops = [
            rename("/a/x", "/a/y"),
            rename("/b", "/c"),
            Op::Rmdir { path: "/d".into() },
        ];
        let call = |op| Call {
            at: Nanos(0),
            thread: 1,
            op,
        };
        Recording {
            name: "test".into(),
            folders: ["/a", "/a/in", "/b", "/b/in", "/d"].map(Into::into).into(),
            files: vec![("/a/x".into(), 1), ("/b/x".into(), 1)],
            calls: ops.map(call).into(),
        }
    }

    #[test]
    fn only_folders_that_stay_keep_their_files() {
        let steady: Vec<String> = steady(&recording()).into_iter().collect();
        assert_eq!(steady, ["/", "/a", "/a/in"]);
        let names = Names::first(&recording());
        assert!(names.keeps("/a/new") && !names.keeps("/b/x") && names.keeps("/top"));
        assert!(!names.keeps(&format!("/a/{}", "n".repeat(241))));
        assert!(!names.keeps("/c"), "a folder that got this name");
    }

    #[test]
    fn a_file_of_the_end_stands_for_one_of_the_beginning_and_new_ones_get_new_names() {
        let mut names = Names::first(&recording());
        assert_eq!(names.gone("/a/x"), "/a/x");
        assert_eq!(names.made("/a/y"), "/a/y");
        names.turn(|path| (path == "/a/y").then(|| "/a/x".into()));
        assert_eq!(names.of("/a/x"), "/a/y");
        assert_eq!(names.made("/a/y"), "/a/y~1", "the other one is there still");
        assert_eq!(names.made("/a/y"), "/a/y~1");
        assert_eq!(names.gone("/a/x"), "/a/y");
        assert_eq!(names.made("/b/new"), "/b/new");
        names.turn(|_| None);
        assert_eq!(names.made("/a/y"), "/a/y~2");
    }
}
