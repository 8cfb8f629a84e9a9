//! Turns calls on descriptors into events on files, by the rules of [`super`]. An event names a
//! file by number while its path is not known, because a later call may tell the path.

use super::lines::{Flags, Path, Range, Raw, Said};
use super::names::{Asked, Looks};
use super::sessions::{Session, Sessions};
use crate::recording::events::{Event, FileSeen, Name, Rebuilt, Target, What, is_device};
use crate::recording::paths::parent;
use crate::recording::reading::Reading;
use std::collections::{BTreeMap, BTreeSet};

/// What is known of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
struct FileTrack {
    /// Its path, if known.
    path: Option<String>,
    /// Its directory, if its path is not known.
    dir: String,
    /// It was there before the recording.
    there: bool,
    /// Its size before the recording, as far as calls show.
    bytes: u64,
    /// End of the content that was added to it.
    grown: u64,
    made_by: (u32, usize),
    open: u32,
    emptied: bool,
}

impl FileTrack {
    fn seen(self) -> FileSeen {
        let FileTrack {
            path,
            dir,
            there,
            bytes,
            ..
        } = self;
        FileSeen {
            path,
            dir,
            there,
            bytes,
        }
    }
}

/// What is known of a session while its calls are read.
#[derive(Clone, Default)]
struct Track {
    target: Option<Target>,
    file: Option<usize>,
    started: bool,
    append: bool,
    position: u64,
    end: u64,
    /// Number of its calls without an offset.
    streamed: u64,
    journal_of: Option<String>,
    wrote: bool,
}

/// Pages of a database that are written under one rollback journal.
#[derive(Default)]
struct Transaction {
    /// Length of the write at each offset.
    pages: BTreeMap<u64, u32>,
    /// Sizes of the writes to the journal.
    saved: Vec<u32>,
}

struct Rebuilder<'a> {
    calls: &'a [Raw],
    sessions: &'a Sessions,
    reading: &'a mut Reading,
    looks: Looks,
    next_of_thread: Vec<Option<usize>>,
    dirs: BTreeSet<String>,
    asked: BTreeMap<u32, Asked>,
    tracks: Vec<Track>,
    files: Vec<FileTrack>,
    names: BTreeMap<String, usize>,
    /// Every name that there has been, with the last call that removed it.
    ever: BTreeMap<String, Option<usize>>,
    transactions: BTreeMap<String, Transaction>,
    events: Vec<Event>,
}

/// Turns the calls into events.
pub(super) fn rebuild(calls: &[Raw], sessions: &Sessions, reading: &mut Reading) -> Rebuilt {
    let mut rebuilder = Rebuilder {
        calls,
        sessions,
        reading,
        looks: Looks::of(calls),
        next_of_thread: next_of_thread(calls),
        dirs: known_dirs(calls),
        asked: BTreeMap::new(),
        tracks: vec![Track::default(); sessions.all.len()],
        files: Vec::new(),
        names: BTreeMap::new(),
        ever: BTreeMap::new(),
        transactions: BTreeMap::new(),
        events: Vec::new(),
    };
    for n in 0..calls.len() {
        rebuilder.step(n);
    }
    rebuilder.finish()
}

fn next_of_thread(calls: &[Raw]) -> Vec<Option<usize>> {
    let mut later = BTreeMap::new();
    let mut next = vec![None; calls.len()];
    for (n, raw) in calls.iter().enumerate().rev() {
        next[n] = later.insert(raw.thread, n);
    }
    next
}

fn known_dirs(calls: &[Raw]) -> BTreeSet<String> {
    let paths = calls.iter().filter_map(|raw| match &raw.call {
        Said::Open { path, .. } | Said::Probe { path, .. } | Said::Unlink(path) => Some(path),
        _ => None,
    });
    let known = paths.filter_map(|path| match path {
        Path::Known(path) => Some(parent(path).to_string()),
        _ => None,
    });
    known.collect()
}

impl Rebuilder<'_> {
    fn step(&mut self, n: usize) {
        let thread = self.calls[n].thread;
        let session = self.sessions.of_call[n];
        match &self.calls[n].call {
            Said::Probe { path, found } => {
                if let Path::Known(path) | Path::Bare(path) = path {
                    self.asked.entry(thread).or_default().probe(path, *found);
                }
                self.reading.leave_out("looks (access, stat)");
            }
            Said::Open {
                path,
                flags,
                fd: Some(_),
            } => {
                if let Some(session) = session {
                    self.open(n, session, path, *flags);
                    self.asked.entry(thread).or_default().fresh = false;
                }
            }
            Said::Open { fd: None, .. } | Said::Nothing(_) => {
                self.reading.leave_out("failed or empty");
            }
            Said::Unlink(path) => match path {
                Path::Known(path) | Path::Bare(path) => self.unlink(n, path),
                Path::Lost(_) => self.reading.leave_out("unlinks of lost paths"),
            },
            Said::Rename(Path::Known(a) | Path::Bare(a), Path::Known(b) | Path::Bare(b)) => {
                self.rename(n, a, b);
            }
            Said::Mkdir(Path::Known(path) | Path::Bare(path)) => {
                self.event(n, What::Mkdir(path.clone()));
            }
            Said::Rmdir(Path::Known(path) | Path::Bare(path)) => {
                self.event(n, What::Rmdir(path.clone()));
            }
            Said::Rename(..) | Said::Mkdir(_) | Said::Rmdir(_) => {
                self.reading.leave_out("changes of lost paths");
            }
            _ => {
                let session = session.expect("calls on descriptors have sessions");
                self.on_descriptor(n, session);
                self.asked.entry(thread).or_default().fresh = false;
            }
        }
    }

    fn event(&mut self, n: usize, what: What) {
        let Raw { us, thread, .. } = self.calls[n];
        self.events.push(Event { us, thread, what });
    }

    fn on_descriptor(&mut self, n: usize, session: usize) {
        let examines = match &self.calls[n].call {
            Said::Fstat(_) => true,
            Said::Read(_, range) => (range.offset, range.bytes) == (Some(24), 16),
            _ => false,
        };
        if examines {
            self.examined(n, session);
        }
        let call = &self.calls[n].call;
        match call {
            Said::Fstat(_) => return self.reading.leave_out("looks (access, stat)"),
            Said::Close(_) => return self.close(n, session),
            _ => {}
        }
        if !std::mem::replace(&mut self.tracks[session].started, true) {
            self.event(n, What::Open(session));
        }
        match *call {
            Said::Read(_, range) => self.read(n, session, range),
            Said::Write(_, range) => self.write(n, session, range),
            Said::Sync { data_only, .. } => self.event(n, What::Sync(session, data_only)),
            Said::Truncate { size, .. } => self.event(n, What::Truncate(session, size)),
            _ => {}
        }
    }

    /// Applies mobibench-M5 to a call that examines a file.
    fn examined(&mut self, n: usize, session: usize) {
        let asked = self.asked.entry(self.calls[n].thread).or_default();
        let track = &self.tracks[session];
        let unknown = match &track.target {
            None => true,
            Some(Target::File {
                name: Name::File(file),
                ..
            }) => self.files[*file].path.is_none() && self.files[*file].there,
            _ => false,
        };
        let (true, true, Some(database)) = (unknown, asked.fresh, asked.database.clone()) else {
            return;
        };
        self.reading.decided("M5 database by its lock");
        let file = self.there(&database);
        self.tracks[session].target = Some(Target::File {
            name: Name::Path(database),
            create: false,
            truncate: false,
        });
        self.attach(session, file);
    }

    fn attach(&mut self, session: usize, file: usize) {
        if let Some(before) = self.tracks[session].file.replace(file) {
            self.files[before].open -= 1;
        }
        self.files[file].open += 1;
    }

    /// The file of this name, which is there now or was before the recording.
    fn there(&mut self, path: &str) -> usize {
        if let Some(file) = self.names.get(path) {
            return *file;
        }
        let there = !self.ever.contains_key(path);
        self.fresh(Some(path), parent(path).to_string(), there, (0, 0))
    }

    fn fresh(
        &mut self,
        path: Option<&str>,
        dir: String,
        there: bool,
        made_by: (u32, usize),
    ) -> usize {
        let file = self.files.len();
        self.files.push(FileTrack {
            path: path.map(Into::into),
            dir,
            there,
            bytes: 0,
            grown: 0,
            made_by,
            open: 0,
            emptied: false,
        });
        if let Some(path) = path {
            self.names.insert(path.into(), file);
            self.ever.insert(path.into(), None);
        }
        file
    }

    fn open(&mut self, n: usize, session: usize, path: &Path, flags: Flags) {
        let seen = self.sessions.all[session].seen;
        let thread = self.calls[n].thread;
        let target = match path {
            Path::Known(path) | Path::Bare(path) | Path::Lost(path) if is_device(path) => {
                Target::None("devices and kernel files")
            }
            Path::Known(path) | Path::Bare(path) => {
                self.asked.entry(thread).or_default().named(path);
                let listed = self.dirs.contains(path) && seen.content == 0;
                let synced = flags.read_only && seen.syncs > 0 && seen.content == 0;
                match flags.directory || listed || synced {
                    true if seen.syncs == 0 => Target::None("directory listings"),
                    true => Target::Dir(path.clone()),
                    false => self.named(session, path, flags),
                }
            }
            Path::Lost(beginning) => self.lost(n, session, beginning, flags),
        };
        let track = &mut self.tracks[session];
        (track.target, track.started, track.append) = (Some(target), true, flags.append);
        self.event(n, What::Open(session));
    }

    fn named(&mut self, session: usize, path: &str, flags: Flags) -> Target {
        let look = self.looks.last(path, session_start(self, session));
        let makes = match look {
            Some(found) => !found || flags.exclusive,
            None => flags.exclusive || flags.truncate,
        };
        let file = match makes && flags.create && !self.names.contains_key(path) {
            true => self.fresh(Some(path), parent(path).to_string(), false, (0, 0)),
            false => self.there(path),
        };
        self.attach(session, file);
        Target::File {
            name: Name::Path(path.into()),
            create: flags.create,
            truncate: flags.truncate,
        }
    }

    /// Opens a path of which only the beginning is left: mobibench-M4,
    /// mobibench-M7 to mobibench-M10.
    fn lost(&mut self, n: usize, session: usize, beginning: &str, flags: Flags) -> Target {
        let thread = self.calls[n].thread;
        let plain = flags.create && !flags.exclusive && !flags.truncate && !flags.append;
        let asked = self.asked.entry(thread).or_default();
        let backed_up = asked.backed_up.take();
        let missing = match flags.exclusive {
            true => asked.take_missing(beginning),
            false => None,
        };
        let dir = asked.dir(beginning);
        let made = asked.made;
        if let Some(database) = asked.database.clone().filter(|_| plain)
            && self.opens_dir_next(n, parent(&database))
        {
            self.reading.decided("M4 rollback journal");
            return self.journal(session, &database);
        }
        if let Some(path) = backed_up.filter(|_| flags.create && flags.truncate) {
            self.reading.decided("M8 preferences with backup");
            let backup = format!("{path}.bak");
            self.there(&path);
            self.rename(n, &path, &backup);
            return self.named(session, &path, flags);
        }
        if let Some(path) = missing {
            self.reading.decided("M7 name that was missing");
            let target = self.named(session, &path, flags);
            self.asked.entry(thread).or_default().made = self.tracks[session].file;
            return target;
        }
        let (file, create) = match made.filter(|file| self.files[*file].open == 0) {
            Some(file) if !flags.create || flags.truncate && !self.files[file].emptied => {
                self.reading.decided("M9 the file that was made last");
                self.files[file].emptied |= flags.truncate;
                (file, false)
            }
            _ => {
                let new = flags.create && (flags.exclusive || flags.truncate);
                self.reading.decided(match new {
                    true => "M10 new file of unknown name",
                    false => "M10 file of unknown name that was there",
                });
                let file = self.fresh(None, dir, !new, (thread, n));
                self.files[file].emptied = flags.truncate;
                let asked = self.asked.entry(thread).or_default();
                asked.made = new.then_some(file);
                (file, new)
            }
        };
        self.attach(session, file);
        let name = match &self.files[file].path {
            Some(path) => Name::Path(path.clone()),
            None => Name::File(file),
        };
        Target::File {
            name,
            create,
            truncate: flags.truncate,
        }
    }

    fn opens_dir_next(&self, n: usize, dir: &str) -> bool {
        let next = self.next_of_thread[n].map(|next| &self.calls[next].call);
        matches!(next, Some(Said::Open { path: Path::Known(path), .. }) if path == dir)
    }

    fn journal(&mut self, session: usize, database: &str) -> Target {
        let path = format!("{database}-journal");
        // A look has found the name or not; if not, the open makes the file.
        let file = match (self.names.get(&path), self.ever.contains_key(&path)) {
            (Some(file), _) => *file,
            (None, seen) => {
                let dir = parent(&path).to_string();
                let look = self.looks.last(&path, session_start(self, session));
                self.fresh(Some(&path), dir, !seen && look == Some(true), (0, 0))
            }
        };
        self.files[file].emptied = true;
        self.attach(session, file);
        self.tracks[session].journal_of = Some(database.into());
        self.transactions
            .insert(database.into(), Transaction::default());
        Target::File {
            name: Name::Path(path),
            create: true,
            truncate: false,
        }
    }

    fn place(&mut self, session: usize, range: Range, writes: bool) -> u64 {
        let track = &mut self.tracks[session];
        let offset = match range.offset {
            Some(offset) => offset,
            None if track.append && writes => {
                let file = track.file.map(|file| &self.files[file]);
                file.map_or(track.end, |f| f.bytes.max(f.grown))
            }
            None => track.position,
        };
        let end = offset.saturating_add(range.bytes.into());
        // mobibench-M12: a call without an offset moves the position.
        if range.offset.is_none() {
            track.position = end;
            track.streamed += 1;
        }
        track.end = track.end.max(end);
        offset
    }

    fn read(&mut self, n: usize, session: usize, range: Range) {
        let offset = self.place(session, range, false);
        self.shows(session, offset + u64::from(range.bytes));
        self.event(n, What::Read(session, offset, range.bytes));
    }

    fn write(&mut self, n: usize, session: usize, range: Range) {
        let offset = self.place(session, range, true);
        let end = offset + u64::from(range.bytes);
        self.tracks[session].wrote = true;
        if let Some(database) = self.tracks[session].journal_of.clone() {
            let transaction = self.transactions.entry(database).or_default();
            transaction.saved.push(range.bytes);
        } else if let Some(file) = self.tracks[session].file {
            let path = self.files[file].path.clone();
            let transaction = path.and_then(|path| self.transactions.get_mut(&path));
            match transaction {
                Some(transaction) => drop(transaction.pages.insert(offset, range.bytes)),
                None if self.tracks[session].append || !self.files[file].there => {
                    self.files[file].grown = self.files[file].grown.max(end);
                }
                None => self.shows(session, end),
            }
        }
        self.event(n, What::Write(session, offset, range.bytes));
    }

    /// A call shows that the file reaches to `end` (mobibench-M13).
    fn shows(&mut self, session: usize, end: u64) {
        if let Some(file) = self.tracks[session].file {
            let file = &mut self.files[file];
            if end > file.grown {
                file.bytes = file.bytes.max(end);
            }
        }
    }

    fn close(&mut self, n: usize, session: usize) {
        let track = self.tracks[session].clone();
        if let Some(file) = track.file {
            self.files[file].open -= 1;
            self.tracks[session].file = None;
        }
        let Some(database) = track.journal_of else {
            return self.event(n, What::Close(session));
        };
        let path = format!("{database}-journal");
        if let Some(transaction) = self.transactions.remove(&database) {
            self.ends(&database, &transaction);
        }
        // mobibench-M6: the next look tells whether it was emptied or removed.
        match self.looks.next(&path, n) {
            Some(false) => {
                self.reading.decided("M6 journal removed at its close");
                self.event(n, What::Close(session));
                self.removed(n, &path);
                self.event(n, What::Unlink(Name::Path(path)));
            }
            _ => {
                if track.wrote {
                    self.reading.decided("M6 journal emptied before its close");
                    self.event(n, What::Truncate(session, 0));
                }
                self.event(n, What::Close(session));
            }
        }
    }

    /// A transaction ended (mobibench-M13): pages that the rollback journal saved had been there;
    /// of the others, those above them are new.
    fn ends(&mut self, database: &str, transaction: &Transaction) {
        let Some(&file) = self.names.get(database) else {
            return;
        };
        let Some(page) = transaction.pages.values().copied().max() else {
            return;
        };
        let saved: u32 = transaction.saved.iter().map(|bytes| bytes / page).sum();
        let kept = transaction.pages.len().min(saved as usize);
        for (nth, (offset, bytes)) in transaction.pages.iter().enumerate() {
            let end = offset.saturating_add(u64::from(*bytes));
            let file = &mut self.files[file];
            if nth < kept {
                if end > file.grown {
                    file.bytes = file.bytes.max(end);
                }
            } else if end > file.bytes {
                self.reading.decided("M13 new page of a database");
                file.grown = file.grown.max(end);
            }
        }
    }

    fn removed(&mut self, n: usize, path: &str) {
        self.names.remove(path);
        self.ever.insert(path.into(), Some(n));
    }

    /// Removes a name; where it is not known, by mobibench-M11, else mobibench-M14.
    fn unlink(&mut self, n: usize, path: &str) {
        let thread = self.calls[n].thread;
        self.asked.entry(thread).or_default().named(path);
        if self.names.contains_key(path) {
            self.removed(n, path);
            return self.event(n, What::Unlink(Name::Path(path.into())));
        }
        let freed = self.ever.get(path).copied().flatten();
        let made = self.files.iter().position(|file| {
            let (by, at) = file.made_by;
            let mine = by == thread && file.path.is_none() && !file.there && file.open == 0;
            mine && freed.is_none_or(|freed| freed < at)
        });
        match made {
            Some(file) => {
                self.reading.decided("M11 name of a file that was made");
                self.files[file].path = Some(path.into());
            }
            None => {
                self.reading.decided("M14 file of one block");
                self.there(path);
            }
        }
        self.removed(n, path);
        self.event(n, What::Unlink(Name::Path(path.into())));
    }

    fn rename(&mut self, n: usize, from: &str, to: &str) {
        let file = self.there(from);
        self.removed(n, from);
        self.names.insert(to.into(), file);
        self.ever.insert(to.into(), None);
        self.event(n, What::Rename(from.into(), to.into()));
    }

    /// Decides by mobibench-M3 and mobibench-M10 on descriptors that were open before the
    /// recording.
    fn finish(mut self) -> Rebuilt {
        let mut targets = Vec::new();
        for (n, Session { seen, .. }) in self.sessions.all.iter().enumerate() {
            let target = match self.tracks[n].target.take() {
                Some(target) => target,
                None if seen.file_only > 0 => {
                    self.reading
                        .decided("M10 file of unknown name that was there");
                    let file = self.fresh(None, "/unknown".into(), true, (0, 0));
                    self.files[file].bytes = self.tracks[n].end;
                    Target::File {
                        name: Name::File(file),
                        create: false,
                        truncate: false,
                    }
                }
                None if seen.streamed > 0 => Target::None("pipes, sockets and events"),
                None if seen.placed_reads > 0 => Target::None("files of unknown name, only read"),
                None => Target::None("descriptors without a use"),
            };
            if matches!(target, Target::File { .. }) && self.tracks[n].streamed > 0 {
                *self
                    .reading
                    .rules
                    .entry("M12 place by the last call")
                    .or_default() += self.tracks[n].streamed;
            }
            targets.push(target);
        }
        Rebuilt {
            start: self.calls.first().map_or(0, |raw| raw.us),
            events: self.events,
            targets,
            files: self.files.into_iter().map(FileTrack::seen).collect(),
            bent: "M15 contradiction, dropped or made true",
        }
    }
}

fn session_start(rebuilder: &Rebuilder<'_>, session: usize) -> usize {
    rebuilder.sessions.all[session].opened.unwrap_or_default()
}
