//! Turns events into a recording that does not contradict itself.
//!
//! The rules may conclude wrongly, but the recording made here runs in any case: each open finds
//! its file or makes it, and each directory is there. A change that this needs is counted under the
//! rule that the reader names for it.

use super::events::{Event, FileSeen, Name, Rebuilt, Target, What};
use super::paths::parent;
use super::reading::Reading;
use super::{Call, Handle, Op, Recording};
use base::{BLOCK_BYTES, Nanos};
use std::collections::{BTreeMap, BTreeSet};

/// Most names that renames of directories move in one recording: each moves all below it, so a
/// recording could otherwise ask for the square of its length.
pub(super) const MOVES_MAX: usize = 1_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Dir,
    File,
}

struct Repair<'a> {
    rebuilt: &'a Rebuilt,
    reading: &'a mut Reading,
    live: BTreeMap<String, Kind>,
    ever: BTreeSet<String>,
    /// Number of names in each directory.
    names: BTreeMap<String, u64>,
    /// Folders that were there before the recording.
    folders: BTreeSet<String>,
    /// Those folders that were never removed: a name whose first mention is in one of them may have
    /// been there before the recording.
    whole: BTreeSet<String>,
    files: Vec<(String, u64)>,
    /// Known sizes of files that were there before the recording.
    known: BTreeMap<String, u64>,
    open: BTreeMap<usize, Handle>,
    handles: u32,
    calls: Vec<Call>,
    /// Names that renames of directories have moved.
    moved: usize,
}

/// Makes the recording of the events.
pub(super) fn recording(name: &str, rebuilt: Rebuilt, reading: &mut Reading) -> Recording {
    let mut known = BTreeMap::new();
    for (n, file) in rebuilt.files.iter().enumerate().filter(|(_, f)| f.there) {
        let bytes: &mut u64 = known.entry(path_of(n, file)).or_default();
        *bytes = file.bytes.max(*bytes);
    }
    let mut repair = Repair {
        rebuilt: &rebuilt,
        reading,
        live: BTreeMap::new(),
        ever: BTreeSet::new(),
        names: BTreeMap::new(),
        folders: BTreeSet::new(),
        whole: BTreeSet::new(),
        files: Vec::new(),
        known,
        open: BTreeMap::new(),
        handles: 0,
        calls: Vec::new(),
        moved: 0,
    };
    for event in &rebuilt.events {
        repair.take(event);
    }
    Recording {
        name: name.into(),
        folders: repair.folders.into_iter().collect(),
        files: repair.files,
        calls: repair.calls,
    }
}

fn path_of(n: usize, file: &FileSeen) -> String {
    match (&file.path, file.dir.as_str()) {
        (Some(path), _) => path.clone(),
        (None, "/") => format!("/unknown-{n}"),
        (None, dir) => format!("{dir}/unknown-{n}"),
    }
}

impl Repair<'_> {
    fn take(&mut self, event: &Event) {
        match &event.what {
            What::Open(session) => self.open(event, *session),
            What::Read(session, offset, bytes) => {
                let (offset, bytes) = (*offset, *bytes);
                self.on(event, *session, |handle| Op::Read {
                    handle,
                    offset,
                    bytes,
                });
            }
            What::Write(session, offset, bytes) => {
                let (offset, bytes) = (*offset, *bytes);
                self.on(event, *session, |handle| Op::Write {
                    handle,
                    offset,
                    bytes,
                });
            }
            What::Sync(session, data_only) => {
                let data_only = *data_only;
                self.on(event, *session, |handle| Op::Sync { handle, data_only });
            }
            What::SyncAll => self.call(event, Op::SyncAll),
            What::Truncate(session, size) => {
                let size = *size;
                self.on(event, *session, |handle| Op::Truncate { handle, size });
            }
            What::Close(session) => {
                self.on(event, *session, |handle| Op::Close { handle });
                self.open.remove(session);
            }
            What::Unlink(name) => self.unlink(event, name),
            What::Rename(from, to) => self.rename(event, from, to),
            What::Mkdir(path) => self.mkdir(event, path),
            What::Rmdir(path) => self.rmdir(event, path),
        }
    }

    fn call(&mut self, event: &Event, op: Op) {
        let at = Nanos::from_micros(event.us.saturating_sub(self.rebuilt.start));
        let thread = event.thread;
        self.calls.push(Call { at, thread, op });
    }

    /// Adds a call on an open file; it is left out if its session is.
    fn on(&mut self, event: &Event, session: usize, op: impl FnOnce(Handle) -> Op) {
        match self.open.get(&session) {
            Some(handle) => {
                let op = op(*handle);
                let is_dir = matches!(self.rebuilt.targets[session], Target::Dir(_));
                if is_dir && !matches!(op, Op::Sync { .. } | Op::Close { .. }) {
                    return self.reading.decided(self.rebuilt.bent);
                }
                self.call(event, op);
            }
            None => self
                .reading
                .leave_out(match &self.rebuilt.targets[session] {
                    Target::None(why) => why,
                    _ => "files that cannot be",
                }),
        }
    }

    fn open(&mut self, event: &Event, session: usize) {
        let rebuilt = self.rebuilt;
        let (path, create, truncate, directory) = match &rebuilt.targets[session] {
            Target::None(why) => return self.reading.leave_out(why),
            Target::Dir(path) => (path.clone(), false, false, true),
            Target::File {
                name,
                create,
                truncate,
            } => (self.path(name), *create, *truncate, false),
        };
        let create = match directory {
            true => self.ensure_dir(event, &path).map(|()| false),
            false => self.ensure_file(event, &path, create),
        };
        let Some(create) = create else {
            return self.reading.decided(self.rebuilt.bent);
        };
        let handle = Handle(self.handles);
        self.handles += 1;
        self.open.insert(session, handle);
        self.call(
            event,
            Op::Open {
                handle,
                path,
                create,
                truncate,
                directory,
            },
        );
    }

    fn path(&self, name: &Name) -> String {
        match name {
            Name::Path(path) => path.clone(),
            Name::File(n) => path_of(*n, &self.rebuilt.files[*n]),
        }
    }

    /// Makes sure that a file is there, or that an open makes it; returns whether that open does.
    /// `None`: it cannot be there.
    fn ensure_file(&mut self, event: &Event, path: &str, create: bool) -> Option<bool> {
        match self.live.get(path) {
            Some(Kind::File) => return Some(create),
            Some(Kind::Dir) => return None,
            None => {}
        }
        self.ensure_dir(event, parent(path))?;
        if self.was_there(path) {
            return Some(create);
        }
        if !create {
            self.reading.decided(self.rebuilt.bent);
        }
        self.add(path, Kind::File);
        Some(true)
    }

    /// Puts a file in place that was there before the recording, if this is its first mention.
    fn was_there(&mut self, path: &str) -> bool {
        let first = !self.ever.contains(path);
        let in_folder = self.whole.contains(parent(path)) || parent(path) == "/";
        let Some(bytes) = self.known.get(path).copied().filter(|_| first && in_folder) else {
            return false;
        };
        let journal = path.ends_with("-journal");
        let bytes = match bytes {
            0 if !journal => BLOCK_BYTES as u64,
            bytes => bytes,
        };
        self.files.push((path.into(), bytes));
        self.add(path, Kind::File);
        true
    }

    fn add(&mut self, path: &str, kind: Kind) {
        self.live.insert(path.into(), kind);
        self.ever.insert(path.into());
        *self.names.entry(parent(path).into()).or_default() += 1;
    }

    fn remove(&mut self, path: &str) {
        self.live.remove(path);
        if let Some(names) = self.names.get_mut(parent(path)) {
            *names -= 1;
        }
    }

    /// Makes sure that a directory was there before, or makes it. `None`: a file is in the way.
    fn ensure_dir(&mut self, event: &Event, path: &str) -> Option<()> {
        if path == "/" {
            return Some(());
        }
        match self.live.get(path) {
            Some(Kind::Dir) => return Some(()),
            Some(Kind::File) => return None,
            None => {}
        }
        let above = parent(path);
        self.ensure_dir(event, above)?;
        let above_was_there = above == "/" || self.whole.contains(above);
        if above_was_there && !self.ever.contains(path) {
            self.folders.insert(path.into());
            self.whole.insert(path.into());
        } else {
            self.reading.decided(self.rebuilt.bent);
            let path = path.to_string();
            self.call(event, Op::Mkdir { path });
        }
        self.add(path, Kind::Dir);
        Some(())
    }

    fn unlink(&mut self, event: &Event, name: &Name) {
        let path = self.path(name);
        let there = match self.live.get(&path) {
            Some(Kind::File) => true,
            Some(Kind::Dir) => false,
            None => self.ensure_dir(event, parent(&path)).is_some() && self.was_there(&path),
        };
        if !there {
            return self.reading.decided(self.rebuilt.bent);
        }
        self.remove(&path);
        self.call(event, Op::Unlink { path });
    }

    fn rename(&mut self, event: &Event, from: &str, to: &str) {
        if self.live.get(from) == Some(&Kind::Dir) {
            return self.rename_dir(event, from, to);
        }
        let there = match self.live.get(from) {
            Some(Kind::File) => true,
            Some(Kind::Dir) => false,
            None => self.ensure_dir(event, parent(from)).is_some() && self.was_there(from),
        };
        let room = self.live.get(to) != Some(&Kind::Dir)
            && self.ensure_dir(event, parent(to)).is_some()
            && self.live.get(from) == Some(&Kind::File);
        if !there || !room || from == to {
            return self.reading.decided(self.rebuilt.bent);
        }
        self.remove(from);
        if self.live.contains_key(to) {
            self.remove(to);
        }
        self.add(to, Kind::File);
        let (from, to) = (from.into(), to.into());
        self.call(event, Op::Rename { from, to });
    }

    /// Renames a directory with all that is below it.
    fn rename_dir(&mut self, event: &Event, from: &str, to: &str) {
        let inside = format!("{from}/");
        let empty = self.names.get(to).is_none_or(|names| *names == 0);
        let room = match self.live.get(to) {
            Some(Kind::File) => false,
            Some(Kind::Dir) => empty,
            None => self.ensure_dir(event, parent(to)).is_some(),
        };
        let below = self.live.range(inside.clone()..);
        let below = below.take_while(|(path, _)| path.starts_with(&inside));
        let below = below.take(MOVES_MAX.saturating_sub(self.moved) + 1);
        let below: Vec<(String, Kind)> = below.map(|(path, kind)| (path.clone(), *kind)).collect();
        // What is open may lie below as well, and is looked at.
        let cost = below.len() + self.open.len();
        let many = self.moved + cost > MOVES_MAX;
        if !room || many || from == to || to.starts_with(&inside) {
            return self.reading.decided(self.rebuilt.bent);
        }
        self.moved += cost;
        if self.live.contains_key(to) {
            self.remove(to);
        }
        self.remove(from);
        self.add(to, Kind::Dir);
        for (path, _) in &below {
            self.live.remove(path);
        }
        for path in below.iter().map(|(path, _)| &**path).chain([from]) {
            self.names.remove(path);
            self.whole.remove(path);
        }
        for (path, kind) in below {
            self.add(&format!("{to}{}", &path[from.len()..]), kind);
        }
        let (from, to) = (from.into(), to.into());
        self.call(event, Op::Rename { from, to });
    }

    fn mkdir(&mut self, event: &Event, path: &str) {
        let free = path != "/" && !self.live.contains_key(path);
        if !free || self.ensure_dir(event, parent(path)).is_none() {
            return self.reading.decided(self.rebuilt.bent);
        }
        self.add(path, Kind::Dir);
        let path = path.to_string();
        self.call(event, Op::Mkdir { path });
    }

    fn rmdir(&mut self, event: &Event, path: &str) {
        let dir = self.live.get(path) == Some(&Kind::Dir);
        let empty = self.names.get(path).is_none_or(|names| *names == 0);
        if !dir || !empty {
            return self.reading.decided(self.rebuilt.bent);
        }
        self.remove(path);
        self.whole.remove(path);
        let path = path.to_string();
        self.call(event, Op::Rmdir { path });
    }
}
