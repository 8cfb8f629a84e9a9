//! Follows the calls through the processes and their files, and makes events of them.

use super::calls::{At, Does, Fd, Flags, From, Synced, does};
use super::files::{FileId, Files};
use super::lines::{Raw, Step};
use super::world::{OpenFile, World};
use crate::recording::events::{Event, Name, Rebuilt, Target, What, is_device};
use crate::recording::paths::normal;
use crate::recording::reading::Reading;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const BENT: &str = "strace-S9 contradiction, dropped or made true";
const DEVICE: &str = "devices and kernel files";
const NO_FILE: &str = "pipes, sockets and files of unknown path (strace -y tells more)";
const ONLY_READ: &str = "files that nothing changes";
const LISTED: &str = "directories that nothing syncs";
const LOOKS: &str = "looks (access, stat)";
const LONG: &str = "paths that are too long";

/// An open file: from its open to the close of its last descriptor.
struct Session {
    file: FileId,
    path: String,
    flags: Flags,
    position: u64,
    content: bool,
    synced: bool,
    listed: bool,
}

struct Follower<'a> {
    reading: &'a mut Reading,
    world: World,
    files: Files,
    sessions: Vec<Session>,
    events: Vec<Event>,
    /// Old names of links that were taken as renames.
    linked: BTreeSet<String>,
    /// How often each path is removed by the rest of the recording.
    removals: BTreeMap<String, u32>,
    /// The number that each living process or thread has in the recording.
    numbers: BTreeMap<u32, u32>,
    free: BTreeSet<u32>,
}

/// Turns the steps into events.
pub(super) fn rebuild(steps: Vec<Step>, reading: &mut Reading) -> Rebuilt {
    let start = steps.iter().filter_map(|step| match step {
        Step::Call(raw) => Some(raw.us),
        Step::Exit(_) => None,
    });
    let start = start.min().unwrap_or(0);
    let mut follower = Follower {
        reading,
        world: World::default(),
        files: Files::default(),
        sessions: Vec::new(),
        events: Vec::new(),
        linked: BTreeSet::new(),
        removals: removals(&steps),
        numbers: BTreeMap::new(),
        free: BTreeSet::new(),
    };
    for step in &steps {
        match step {
            Step::Call(raw) => follower.call(raw),
            Step::Exit(pid) => follower.exit(*pid),
        }
    }
    follower.finish(start)
}

/// How often the last component of each removed path is removed: an upper bound for its path.
fn removals(steps: &[Step]) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for step in steps {
        if let Step::Call(raw) = step
            && raw.name.starts_with("unlink")
            && let Does::Unlink(at) = does(raw)
        {
            *counts.entry(last_name(&at.path).into()).or_default() += 1;
        }
    }
    counts
}

fn last_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl Follower<'_> {
    fn call(&mut self, raw: &Raw) {
        if let Err(why) = self.take(raw, does(raw)) {
            self.reading.leave_out(why);
        }
    }

    fn exit(&mut self, pid: u32) {
        // The time of a close by exit is that of the last event, since no line tells it.
        let us = self.events.last().map_or(0, |event| event.us);
        for file in self.world.exit(pid) {
            self.push(us, pid, What::Close(file));
        }
        if let Some(number) = self.numbers.remove(&pid) {
            self.free.insert(number);
        }
    }

    /// Adds an event, under the number of its process (strace-S10).
    fn push(&mut self, us: u64, pid: u32, what: What) {
        let fresh = self.numbers.len() as u32 + self.free.len() as u32;
        let thread = match self.numbers.get(&pid) {
            Some(number) => *number,
            None => {
                let number = self.free.pop_first();
                if number.is_some() {
                    self.reading
                        .decided("strace-S10 number of a process that has ended");
                }
                let number = number.unwrap_or(fresh);
                self.numbers.insert(pid, number);
                number
            }
        };
        self.events.push(Event { us, thread, what });
    }

    fn event(&mut self, raw: &Raw, what: What) {
        self.push(raw.us, raw.pid, what);
    }

    /// Takes a call; the error says why it is left out.
    fn take(&mut self, raw: &Raw, does: Does) -> Result<(), &'static str> {
        let pid = raw.pid;
        match does {
            Does::Open { at, fd, flags } => self.open(raw, &at, fd, flags)?,
            Does::Duplicate {
                from,
                to,
                close_on_exec,
            } => self.duplicate(raw, from, to, close_on_exec),
            Does::CloseOnExec(fd, on) => self.world.close_on_exec(pid, fd, on),
            Does::Close(fd) => self.close(raw, fd.number),
            Does::CloseRange(first, last) => {
                for fd in self.world.range(pid, first, last) {
                    self.close(raw, fd);
                }
            }
            Does::Read(fd, offset, bytes) => self.read(raw, &fd, offset, bytes)?,
            Does::Write(fd, offset, bytes, synced) => {
                self.write(raw, &fd, offset, bytes, synced)?;
            }
            Does::Seek(fd, place, end) => {
                let session = self.session(raw, &fd)?;
                self.sessions[session].position = place;
                if let Some(end) = end {
                    self.files.shown(self.sessions[session].file, end);
                }
            }
            Does::Sync(fd, data_only) => {
                let session = self.session(raw, &fd)?;
                self.sessions[session].synced = true;
                self.files.synced(self.sessions[session].file);
                self.event(raw, What::Sync(session, data_only));
            }
            Does::SyncAll => self.event(raw, What::SyncAll),
            Does::Copy { from, to, bytes } => self.copied(raw, from, to, bytes)?,
            Does::Share { from, to } => {
                let session = self.session(raw, &from)?;
                let bytes = self.files.size(self.sessions[session].file);
                self.copied(raw, (from, Some(0)), (to, Some(0)), bytes)?;
            }
            Does::Size(fd, bytes) => {
                let session = self.session(raw, &fd)?;
                self.size(raw, session, bytes);
            }
            Does::Extend(fd, end) => {
                let session = self.session(raw, &fd)?;
                if end > self.files.size(self.sessions[session].file) {
                    self.reading.decided("strace-S7 size set by fallocate");
                    self.size(raw, session, end);
                }
            }
            Does::Looked(fd, size) => {
                if let (Some(size), Ok(session)) = (size, self.session(raw, &fd)) {
                    self.files.shown(self.sessions[session].file, size);
                }
                return Err(LOOKS);
            }
            Does::Listed(fd) => {
                let session = self.session(raw, &fd)?;
                self.sessions[session].listed = true;
                return Err(LISTED);
            }
            other => self.on_names(raw, other)?,
        }
        Ok(())
    }

    fn on_names(&mut self, raw: &Raw, does: Does) -> Result<(), &'static str> {
        let pid = raw.pid;
        match does {
            Does::Probe(at, found, size) => {
                let path = self.path(raw, &at)?;
                self.files.looked(&path, found);
                if let (true, Some(size)) = (found && !is_device(&path), size) {
                    let file = self.files.named(&path, false);
                    self.files.shown(file, size);
                }
                return Err(LOOKS);
            }
            Does::SizeOf(at, bytes) => {
                let path = self.on_disk(raw, &at)?;
                let file = self.files.named(&path, false);
                let session = self.begin(raw, path, file, WRITE_ONLY);
                self.size(raw, session, bytes);
                self.event(raw, What::Close(session));
            }
            Does::Unlink(at) => {
                let path = self.on_disk(raw, &at)?;
                let left = self.removals.get_mut(last_name(&path));
                left.into_iter().for_each(|n| *n = n.saturating_sub(1));
                if !self.linked.remove(&path) {
                    self.files.removed(&path);
                    self.event(raw, What::Unlink(Name::Path(path)));
                }
            }
            Does::Rename(from, to) => {
                let (from, to) = (self.on_disk(raw, &from)?, self.on_disk(raw, &to)?);
                self.renamed(raw, from, to)?;
            }
            Does::Link(from, to) => {
                let (from, to) = (self.on_disk(raw, &from)?, self.on_disk(raw, &to)?);
                if self.removals.get(last_name(&from)).is_none_or(|n| *n == 0) {
                    return Err("links");
                }
                self.reading.decided("strace-S8 link taken as a rename");
                self.linked.insert(from.clone());
                self.renamed(raw, from, to)?;
            }
            Does::Mkdir(at) => {
                let path = self.on_disk(raw, &at)?;
                self.files.folder(&path);
                self.event(raw, What::Mkdir(path));
            }
            Does::Rmdir(at) => {
                let path = self.on_disk(raw, &at)?;
                self.event(raw, What::Rmdir(path));
            }
            Does::Enter(at) => {
                let path = self.path(raw, &at)?;
                self.world.enter(pid, path);
            }
            Does::EnterOpen(fd) => {
                let session = self.session(raw, &fd)?;
                let path = self.sessions[session].path.clone();
                self.world.enter(pid, path);
            }
            Does::Here(path) if self.world.folder(pid).is_none() => {
                let path = normal(&path).map_err(|_| LONG)?;
                self.world.enter(pid, path);
            }
            Does::Clone {
                child,
                table,
                folder,
            } => self.cloned(pid, child, table, folder)?,
            Does::Exec => {
                for file in self.world.exec(pid) {
                    self.event(raw, What::Close(file));
                }
            }
            Does::Nothing(why) => return Err(why),
            _ => {}
        }
        Ok(())
    }

    fn cloned(
        &mut self,
        parent: u32,
        child: u32,
        table: bool,
        folder: bool,
    ) -> Result<(), &'static str> {
        match self.world.clone(parent, child, table, folder) {
            true => Ok(()),
            false => Err("processes without their descriptors, of which there are too many"),
        }
    }

    /// The whole path of a call (strace-S1).
    fn path(&mut self, raw: &Raw, at: &At) -> Result<String, &'static str> {
        let path = match (&at.from, at.path.starts_with('/')) {
            (_, true) => at.path.clone(),
            (From::Here(Some(here)), _) => {
                if self.world.folder(raw.pid).is_none() {
                    self.world.enter(raw.pid, normal(here).map_err(|_| LONG)?);
                }
                format!("{here}/{}", at.path)
            }
            (From::Here(None), _) => {
                let here = self.world.folder(raw.pid);
                if here.is_none() {
                    self.reading
                        .decided("strace-S1 root taken as the working directory");
                }
                format!("{}/{}", here.unwrap_or_default(), at.path)
            }
            (From::Descriptor(fd), _) => {
                let folder = match &fd.path {
                    Some(path) => path.clone(),
                    None => {
                        let session = self.session(raw, fd)?;
                        self.sessions[session].path.clone()
                    }
                };
                format!("{folder}/{}", at.path)
            }
        };
        normal(&path).map_err(|_| LONG)
    }

    /// The whole path of a call on a disk.
    fn on_disk(&mut self, raw: &Raw, at: &At) -> Result<String, &'static str> {
        let path = self.path(raw, at)?;
        match is_device(&path) {
            true => Err(DEVICE),
            false => Ok(path),
        }
    }

    fn open(&mut self, raw: &Raw, at: &At, fd: u32, flags: Flags) -> Result<(), &'static str> {
        // The descriptor is a new one in any case, whatever it was.
        self.close(raw, fd);
        let path = self.on_disk(raw, at)?;
        let file = self.files.named(&path, flags.create);
        if flags.truncate || flags.exclusive && flags.create {
            self.files.sized(file, 0);
        }
        let session = self.begin(raw, path, file, flags);
        self.put(raw, fd, session, flags.close_on_exec);
        Ok(())
    }

    fn begin(&mut self, raw: &Raw, path: String, file: FileId, flags: Flags) -> OpenFile {
        self.sessions.push(Session {
            file,
            path,
            flags,
            position: 0,
            content: false,
            synced: false,
            listed: flags.directory,
        });
        let session = self.sessions.len() - 1;
        self.event(raw, What::Open(session));
        session
    }

    fn put(&mut self, raw: &Raw, fd: u32, file: OpenFile, close_on_exec: bool) {
        if let Some(closed) = self.world.put(raw.pid, fd, file, close_on_exec) {
            self.event(raw, What::Close(closed));
        }
    }

    fn close(&mut self, raw: &Raw, fd: u32) {
        if let Some(closed) = self.world.close(raw.pid, fd) {
            self.event(raw, What::Close(closed));
        }
    }

    fn duplicate(&mut self, raw: &Raw, from: u32, to: u32, close_on_exec: bool) {
        match self.world.get(raw.pid, from) {
            Some(file) if from != to => self.put(raw, to, file, close_on_exec),
            Some(_) => {}
            None => self.close(raw, to),
        }
    }

    /// The open file of a descriptor (strace-S2).
    fn session(&mut self, raw: &Raw, fd: &Fd) -> Result<OpenFile, &'static str> {
        if let Some(file) = self.world.get(raw.pid, fd.number) {
            return Ok(file);
        }
        let path = fd.path.as_deref().filter(|path| path.starts_with('/'));
        let path = path.ok_or(NO_FILE)?;
        let path = normal(path).map_err(|_| LONG)?;
        if is_device(&path) {
            return Err(DEVICE);
        }
        self.reading
            .decided("strace-S2 file of a descriptor by strace -y");
        let file = self.files.named(&path, false);
        let session = self.begin(raw, path, file, WRITE_ONLY);
        self.put(raw, fd.number, session, false);
        Ok(session)
    }

    fn read(
        &mut self,
        raw: &Raw,
        fd: &Fd,
        offset: Option<u64>,
        bytes: u64,
    ) -> Result<(), &'static str> {
        let session = self.session(raw, fd)?;
        let track = &mut self.sessions[session];
        track.content = true;
        let at = offset.unwrap_or(track.position);
        let end = end_of(at, bytes)?;
        if offset.is_none() {
            track.position = end;
        }
        self.files.shown(track.file, end);
        for (at, bytes) in parts(at, bytes) {
            self.event(raw, What::Read(session, at, bytes));
        }
        Ok(())
    }

    fn write(
        &mut self,
        raw: &Raw,
        fd: &Fd,
        offset: Option<u64>,
        bytes: u64,
        synced: Synced,
    ) -> Result<(), &'static str> {
        let session = self.session(raw, fd)?;
        let track = &mut self.sessions[session];
        track.content = true;
        let at = match track.flags.append {
            true => self.files.size(track.file),
            false => offset.unwrap_or(track.position),
        };
        let end = end_of(at, bytes)?;
        if offset.is_none() {
            track.position = end;
        }
        let (file, by_open) = (track.file, track.flags.synced);
        self.files.written(file, end);
        for (at, bytes) in parts(at, bytes) {
            self.event(raw, What::Write(session, at, bytes));
        }
        let data_only = match (synced, by_open) {
            (Synced::No, Synced::No) => return Ok(()),
            (Synced::All, _) | (_, Synced::All) => false,
            _ => true,
        };
        self.reading
            .decided("strace-S6 sync of a synchronous write");
        self.event(raw, What::Sync(session, data_only));
        Ok(())
    }

    /// A copy within the kernel is a read and a write (strace-S11). What it reads may be no file.
    fn copied(
        &mut self,
        raw: &Raw,
        (from, source): (Fd, Option<u64>),
        (to, place): (Fd, Option<u64>),
        bytes: u64,
    ) -> Result<(), &'static str> {
        if let Err(why) = self.read(raw, &from, source, bytes) {
            self.reading.leave_out(why);
        }
        self.write(raw, &to, place, bytes, Synced::No)?;
        self.reading
            .decided("strace-S11 copy within the kernel taken as read and write");
        Ok(())
    }

    fn size(&mut self, raw: &Raw, session: OpenFile, bytes: u64) {
        self.sessions[session].content = true;
        self.files.sized(self.sessions[session].file, bytes);
        self.event(raw, What::Truncate(session, bytes));
    }

    fn renamed(&mut self, raw: &Raw, from: String, to: String) -> Result<(), &'static str> {
        if !self.files.renamed(&from, &to) {
            return Err("renames of directories that move too many names");
        }
        self.event(raw, What::Rename(from, to));
        Ok(())
    }

    fn finish(self, start: u64) -> Rebuilt {
        let Follower {
            reading,
            files,
            sessions,
            events,
            ..
        } = self;
        let targets = sessions.iter().map(|session| target(session, &files));
        let targets = targets.collect();
        let unknown = files.unknown_sizes();
        if unknown > 0 {
            *reading
                .rules
                .entry("strace-S5 one block for a file of unknown size")
                .or_default() += unknown;
        }
        Rebuilt {
            events,
            targets,
            files: files.seen(),
            start,
            bent: BENT,
        }
    }
}

/// What an open file is, known at the end.
fn target(session: &Session, files: &Files) -> Target {
    let Session { flags, path, .. } = session;
    let read_only = flags.read_only && !flags.create && !session.content;
    let folder = session.listed || (read_only && files.is_folder(path));
    match (folder, session.synced) {
        (true, true) => Target::Dir(path.clone()),
        (true, false) => Target::None(LISTED),
        (false, _) if !files.changed(session.file) => Target::None(ONLY_READ),
        (false, _) => Target::File {
            name: Name::Path(path.clone()),
            create: flags.create,
            truncate: flags.truncate,
        },
    }
}

/// An open that only names a file.
const WRITE_ONLY: Flags = Flags {
    create: false,
    exclusive: false,
    truncate: false,
    append: false,
    read_only: false,
    directory: false,
    close_on_exec: false,
    synced: Synced::No,
};

fn end_of(at: u64, bytes: u64) -> Result<u64, &'static str> {
    let end = at
        .checked_add(bytes)
        .filter(|end| *end <= i64::MAX as u64 >> 1);
    end.ok_or("impossible offsets")
}

/// A span in parts that a call of a recording can hold.
fn parts(at: u64, bytes: u64) -> impl Iterator<Item = (u64, u32)> {
    const PART: u64 = 1 << 30;
    (0..bytes.div_ceil(PART)).map(move |n| {
        let done = n * PART;
        (at + done, (bytes - done).min(PART) as u32)
    })
}
