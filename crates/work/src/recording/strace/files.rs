//! The files that paths name, and what calls show of them: whether they were there before the
//! recording, how long they were, and whether anything changes them.

use crate::recording::events::FileSeen;
use crate::recording::paths::parent;
use crate::recording::repair::MOVES_MAX;
use std::collections::{BTreeMap, BTreeSet};

/// Number of a file.
pub(super) type FileId = usize;

#[derive(Default)]
struct Track {
    /// Its first path.
    path: String,
    there: bool,
    /// Size before the recording.
    bytes: u64,
    /// End of what the recording wrote, or the size that it set.
    grown: u64,
    /// Its size was set, so later sizes tell nothing of the beginning.
    sized: bool,
    changed: bool,
}

/// All files of a recording.
#[derive(Default)]
pub(super) struct Files {
    tracks: Vec<Track>,
    names: BTreeMap<String, FileId>,
    /// Every name that there has been.
    ever: BTreeSet<String>,
    missing: BTreeSet<String>,
    found: BTreeSet<String>,
    folders: BTreeSet<String>,
    /// Names that renames of directories have moved.
    moved: usize,
}

impl Files {
    /// A look at a name tells whether it is there.
    pub(super) fn looked(&mut self, path: &str, found: bool) {
        match found {
            true => self.found.insert(path.into()),
            false => self.missing.insert(path.into()),
        };
        if found {
            self.folders.insert(parent(path).into());
        }
    }

    /// The file of this name. With `made` the call makes it unless it is there.
    pub(super) fn named(&mut self, path: &str, made: bool) -> FileId {
        self.folders.insert(parent(path).into());
        if let Some(file) = self.names.get(path) {
            return *file;
        }
        let known = self.found.contains(path) && !self.missing.contains(path);
        let there = !self.ever.contains(path) && (!made || known);
        self.tracks.push(Track {
            path: path.into(),
            there,
            changed: made && !there,
            ..Track::default()
        });
        let file = self.tracks.len() - 1;
        self.names.insert(path.into(), file);
        self.ever.insert(path.into());
        file
    }

    /// A name goes away. Its file is changed by that.
    pub(super) fn removed(&mut self, path: &str) {
        let file = self.named(path, false);
        self.tracks[file].changed = true;
        self.names.remove(path);
    }

    /// A file or a directory with all below it gets another name. False: such renames have moved so
    /// many names that this one is left out.
    pub(super) fn renamed(&mut self, from: &str, to: &str) -> bool {
        let inside = format!("{from}/");
        let below: Vec<String> = self
            .names
            .range(inside.clone()..)
            .take_while(|(path, _)| path.starts_with(&inside))
            .take(MOVES_MAX.saturating_sub(self.moved) + 1)
            .map(|(path, _)| path.clone())
            .collect();
        if self.moved + below.len() > MOVES_MAX {
            return false;
        }
        self.moved += below.len();
        if below.is_empty() && !self.is_folder(from) {
            let file = self.named(from, false);
            self.tracks[file].changed = true;
        }
        for path in below.into_iter().chain([from.to_string()]) {
            if let Some(file) = self.names.remove(&path) {
                let path = format!("{to}{}", &path[from.len()..]);
                self.ever.insert(path.clone());
                self.names.insert(path, file);
            }
        }
        if self.folders.contains(from) {
            self.folders.insert(to.into());
        }
        self.folders.insert(parent(to).into());
        true
    }

    /// A directory is known by this name.
    pub(super) fn folder(&mut self, path: &str) {
        self.folders.insert(path.into());
        self.folders.insert(parent(path).into());
    }

    /// True for a name that was used as a directory.
    pub(super) fn is_folder(&self, path: &str) -> bool {
        path == "/" || self.folders.contains(path)
    }

    /// Content was written up to `end`.
    pub(super) fn written(&mut self, file: FileId, end: u64) {
        let track = &mut self.tracks[file];
        track.changed = true;
        track.grown = track.grown.max(end);
    }

    /// The size was set.
    pub(super) fn sized(&mut self, file: FileId, bytes: u64) {
        let track = &mut self.tracks[file];
        (track.changed, track.sized, track.grown) = (true, true, bytes);
    }

    /// The file was synced, which counts as a change: somebody waits for it.
    pub(super) fn synced(&mut self, file: FileId) {
        self.tracks[file].changed = true;
    }

    /// A call showed content up to `end`: more than the recording wrote was there before.
    pub(super) fn shown(&mut self, file: FileId, end: u64) {
        let track = &mut self.tracks[file];
        if !track.sized && end > track.grown {
            track.there = true;
            track.bytes = track.bytes.max(end);
        }
    }

    /// The size, bytes, as far as it is known.
    pub(super) fn size(&self, file: FileId) -> u64 {
        let track = &self.tracks[file];
        match track.sized {
            true => track.grown,
            false => track.grown.max(track.bytes),
        }
    }

    /// True if a call changed or synced the file.
    pub(super) fn changed(&self, file: FileId) -> bool {
        self.tracks[file].changed
    }

    /// Number of files that were there and whose size no call shows.
    pub(super) fn unknown_sizes(&self) -> u64 {
        let unknown = |t: &&Track| t.there && t.changed && t.bytes == 0;
        self.tracks.iter().filter(unknown).count() as u64
    }

    /// What is known of each file.
    pub(super) fn seen(self) -> Vec<FileSeen> {
        let seen = self.tracks.into_iter().map(|track| FileSeen {
            dir: parent(&track.path).into(),
            path: Some(track.path),
            there: track.there,
            bytes: track.bytes,
        });
        seen.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_before_the_recording_come_from_what_calls_show() {
        let mut files = Files::default();
        let log = files.named("/d/log", true);
        files.written(log, 10);
        files.shown(log, 10);
        assert!(!files.tracks[log].there, "its own content shows nothing");
        files.shown(log, 30);
        assert!(files.tracks[log].there && files.size(log) == 30);
        files.sized(log, 5);
        files.shown(log, 99);
        assert_eq!((files.size(log), files.tracks[log].bytes), (5, 30));
        files.looked("/d/seen", true);
        let seen = files.named("/d/seen", true);
        assert!(files.tracks[seen].there && !files.changed(seen));
        files.looked("/d/new", true);
        files.looked("/d/new", false);
        let new = files.named("/d/new", true);
        assert!(!files.tracks[new].there, "it was gone when it was made");
    }

    #[test]
    fn names_move_with_their_directory() {
        let mut files = Files::default();
        let a = files.named("/d/a", true);
        assert!(files.renamed("/d", "/e"));
        assert_eq!(files.named("/e/a", false), a);
        assert_ne!(files.named("/d/a", true), a);
        assert!(files.is_folder("/e"));
        files.removed("/e/a");
        let again = files.named("/e/a", true);
        assert!(again != a && !files.tracks[again].there);
    }
}
