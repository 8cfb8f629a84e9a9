//! The recorder: one lock around the calls of a mount, and the notes that it makes of them.

use super::acks::Acks;
use super::fault::{Fault, Faults, Word};
use super::nodes::Nodes;
use super::refused::Refused;
use super::stack::{StackId, Stacks};
use super::who::Callers;
use crate::call::{Attribute, Call, Recording, What, Who};
use crate::tree::Tree;
use base::Ino;
use rt::{Mutex, MutexGuard};
use std::path::Path;
use std::sync::Arc;
use vfs::{Attr, Errno, FileSystem, FsError, FsResult};

/// Memory of a call beside its content, bytes: an upper bound for calls with short names.
const CALL_KEPT: usize = 512;

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The volume refuses.
    #[error("{0}")]
    Volume(#[from] FsError),
    /// The recording did not fit into its room (record-R4).
    #[error(
        "what the command writes needs more than {room_mib} MiB, {calls} calls by now; say --memory SIZE, or let it do less"
    )]
    Room {
        /// The room, MiB.
        room_mib: usize,
        /// Calls until then.
        calls: usize,
    },
}

/// What a program's standard output is handed on to.
pub type Echo = Box<dyn Fn(&[u8]) + Send + Sync>;

/// A file system that passes everything to another one, and between [`begin`](Recorder::begin) and
/// [`end`](Recorder::end) notes what changed, synced or acknowledged something.
pub struct Recorder {
    pub(super) below: Arc<dyn FileSystem>,
    pub(super) tape: Mutex<Tape>,
    pub(super) echo: Echo,
}

/// What has been noted, and what is needed to note more.
pub(super) struct Tape {
    rolling: bool,
    start: Tree,
    calls: Vec<Call>,
    /// Where programs are read for their stacks, if that is asked for.
    stacks: Option<Arc<Stacks>>,
    /// The stack of each call.
    stack_ids: Vec<Option<StackId>>,
    /// That of the call which is being carried out.
    stack: Option<StackId>,
    pub nodes: Nodes,
    pub acks: Acks,
    callers: Callers,
    faults: Faults,
    pub refused: Refused,
    room_bytes: usize,
    pub room_left: usize,
    /// A call did not fit (record-R4).
    pub over: bool,
}

impl Recorder {
    /// Records what reaches `below`, in `room_bytes` of memory. What is written to
    /// [`STDOUT`](super::STDOUT) goes to `echo`, too.
    pub fn new(
        below: Arc<dyn FileSystem>,
        room_bytes: usize,
        faults: &[Fault],
        echo: Echo,
    ) -> Arc<Recorder> {
        let tape = Tape {
            rolling: false,
            start: Tree::default(),
            calls: Vec::new(),
            stacks: None,
            stack_ids: Vec::new(),
            stack: None,
            nodes: Nodes::default(),
            acks: Acks::default(),
            callers: Callers::default(),
            faults: Faults::new(faults),
            refused: Refused::default(),
            room_bytes,
            room_left: room_bytes,
            over: false,
        };
        Arc::new(Recorder {
            below,
            tape: Mutex::named("recording", tape),
            echo,
        })
    }

    /// Notes the stack of each call from now on. `mount` is the device number of the mount.
    pub fn read_stacks(&self, mount: u64) {
        self.tape.lock().stacks = Some(Arc::new(Stacks::new(mount)));
    }

    /// Puts the stacks that were noted into the calls of the recording, in words, as far as the
    /// room goes (record-R4); the number of calls of programs that have none. Paths below `folder`
    /// are told from there.
    pub fn tell_stacks(&self, recording: &mut Recording, folder: &Path) -> usize {
        let (stacks, ids, mut room) = {
            let tape = self.tape.lock();
            (tape.stacks.clone(), tape.stack_ids.clone(), tape.room_left)
        };
        let Some(stacks) = stacks else {
            return 0;
        };
        let names = stacks.names(folder);
        let mut without = 0;
        for (call, id) in recording.calls.iter_mut().zip(ids) {
            let stack = id.and_then(|id| names.get(id.index()));
            let stack = stack.filter(|stack| !stack.is_empty());
            let bytes = |stack: &Vec<String>| stack.iter().map(|frame| frame.len() + 24).sum();
            let left = stack.and_then(|stack| room.checked_sub(bytes(stack)));
            match (stack, left) {
                (Some(stack), Some(left)) => {
                    room = left;
                    call.stack.clone_from(stack);
                }
                _ => without += usize::from(call.who.process != 0),
            }
        }
        without
    }

    /// Begins: what is there now is durable, and calls are noted from now on.
    ///
    /// # Errors
    /// The volume refuses; its content does not fit into the room.
    pub fn begin(&self) -> Result<(), RecordError> {
        let mut guard = self.tape.lock();
        let tape = &mut *guard;
        self.below.sync()?;
        let mut left = tape.room_bytes;
        let mut room = |bytes| match usize::checked_sub(left, bytes) {
            Some(rest) => {
                left = rest;
                Ok(())
            }
            None => Err(Errno::NoSpc.into()),
        };
        let start = tape.nodes.begin(&*self.below, &mut room);
        tape.start = start.map_err(|e| match e.errno() {
            Errno::NoSpc => tape.no_room(),
            _ => e.into(),
        })?;
        tape.room_left = left;
        tape.end_all_acks();
        tape.rolling = true;
        Ok(())
    }

    /// Calls that the volume refused because it has no such thing, in words: a recording has no
    /// word for what they do (record-R3), or the file system below does not know them.
    pub fn refused(&self) -> Option<String> {
        self.tape.lock().refused.words()
    }

    /// Counts a call that the kernel has refused, of which the volume was not told.
    pub(super) fn note_refused(&self, call: &str, path: &str) {
        self.tape.lock().refused.add(call, path);
    }

    /// How many calls found no room in the volume.
    pub fn full(&self) -> u64 {
        self.tape.lock().refused.full()
    }

    /// Succeeds if everything was noted.
    ///
    /// # Errors
    /// A call did not fit (record-R4).
    pub fn complete(&self) -> Result<(), RecordError> {
        let tape = self.tape.lock();
        match tape.over {
            true => Err(tape.no_room()),
            false => Ok(()),
        }
    }

    /// Ends: what was noted, and the faults that no call has met.
    ///
    /// # Errors
    /// Not everything was noted (record-R4).
    pub fn end(&self) -> Result<(Recording, Vec<String>), RecordError> {
        self.tape.lock().end_all_acks();
        self.complete()?;
        let mut tape = self.tape.lock();
        tape.rolling = false;
        let recording = Recording {
            start: std::mem::take(&mut tape.start),
            calls: std::mem::take(&mut tape.calls),
        };
        Ok((recording, tape.faults.unmet()))
    }

    /// Notes an acknowledgement that came on another way than the files of the mount.
    pub fn acknowledge(&self, text: &str) {
        let mut tape = self.tape.lock();
        // Who is at the other end of a socket may be anywhere by now.
        tape.without_stack();
        let who = tape.caller();
        tape.promise(who, text.as_bytes());
    }

    /// The tape for a call that may be noted, if it is rolling.
    pub(super) fn rolling(&self) -> Option<MutexGuard<'_, Tape>> {
        Some(self.tape_of_call()).filter(|tape| tape.rolling)
    }

    /// The tape for a call that is not noted, if it is rolling.
    pub(super) fn rolling_unnoted(&self) -> Option<MutexGuard<'_, Tape>> {
        Some(self.tape.lock()).filter(|tape| tape.rolling)
    }

    /// The tape with the stack of the caller.
    pub(super) fn tape_of_call(&self) -> MutexGuard<'_, Tape> {
        let stacks = {
            let tape = self.tape.lock();
            tape.stacks.clone().filter(|_| tape.rolling)
        };
        // stack-T2: not under the lock.
        let stack = stacks.and_then(|stacks| stacks.capture());
        let mut tape = self.tape.lock();
        tape.stack = stack;
        tape
    }

    /// The ACLs of an inode: a change of its mode changes them, and a new inode inherits them.
    pub(super) fn acls(&self, ino: Ino) -> FsResult<Vec<(Vec<u8>, Vec<u8>)>> {
        if !self.below.obeys_acls() {
            return Ok(Vec::new());
        }
        let mut names = self.below.listxattr(ino)?;
        names.retain(|name| name.starts_with(b"system.posix_acl_"));
        let value = |name: Vec<u8>| {
            let value = self.below.getxattr(ino, &name)?;
            Ok((name, value))
        };
        names.into_iter().map(value).collect()
    }
}

impl Tape {
    fn no_room(&self) -> RecordError {
        RecordError::Room {
            room_mib: self.room_bytes >> 20,
            calls: self.calls.len(),
        }
    }

    /// Lets a call begin that has `bytes` bytes of content: it fits, and is not made to fail.
    ///
    /// # Errors
    /// That of a fault; EIO of a call that does not fit, and of all behind it (record-R4).
    pub fn admit(&mut self, call: Word, path: &str, bytes: usize) -> FsResult<()> {
        self.admit_on(call, path, (None, 0, bytes))
    }

    /// The same of a call on a file, with the range that it is about.
    pub fn admit_on(
        &mut self,
        call: Word,
        path: &str,
        (ino, offset, bytes): (Option<Ino>, u64, usize),
    ) -> FsResult<()> {
        self.take(bytes)?;
        let Some(errno) = self.faults.meet(call, path) else {
            return Ok(());
        };
        // A sync that failed is noted as a sync.
        if !matches!(call, Word::Fsync | Word::Fdatasync) {
            self.note_failed(call, path, (ino, offset, bytes), errno);
        }
        Err(errno.into())
    }

    /// Notes a call that the device has refused (call-C3).
    fn note_failed(
        &mut self,
        call: Word,
        path: &str,
        (ino, offset, bytes): (Option<Ino>, u64, usize),
        errno: Errno,
    ) {
        let what = What::Failed {
            call,
            error: errno.code(),
            node: ino.and_then(|ino| self.nodes.of(ino).ok()),
            offset,
            len: bytes as u64,
        };
        self.note(path.to_string(), what);
    }

    /// Counts and notes a call that found no room.
    pub fn note_full<T>(
        &mut self,
        call: Word,
        path: &str,
        about: (Option<Ino>, u64, usize),
        done: &FsResult<T>,
    ) {
        self.refused.note_room(done);
        if done.as_ref().err().map(FsError::errno) == Some(Errno::NoSpc) {
            self.note_failed(call, path, about, Errno::NoSpc);
        }
    }

    fn take(&mut self, bytes: usize) -> FsResult<()> {
        match self.room_left.checked_sub(CALL_KEPT.saturating_add(bytes)) {
            Some(left) if !self.over => {
                self.room_left = left;
                Ok(())
            }
            _ => {
                self.over = true;
                Err(Errno::Io.into())
            }
        }
    }

    /// What is noted next was not done by the call whose stack was read last.
    pub fn without_stack(&mut self) {
        self.stack = None;
    }

    /// Notes what `who` has promised: a line, with or without its end.
    pub fn promise(&mut self, who: Who, line: &[u8]) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = String::from_utf8_lossy(line).into_owned();
        // Without room the recording is over, and its end says so.
        if self.take(text.len()).is_ok() {
            self.note_of(who, String::new(), What::Acknowledge(text));
        }
    }

    /// The error of a fault in a read.
    pub fn read_fails(&mut self, path: &str, ino: Ino) -> Option<Errno> {
        let errno = self.faults.meet(Word::Read, path)?;
        // No stack is read for calls that are mostly not noted.
        self.without_stack();
        self.note_failed(Word::Read, path, (Some(ino), 0, 0), errno);
        Some(errno)
    }

    /// Who made the request that the running task answers.
    pub fn caller(&mut self) -> Who {
        self.callers.current()
    }

    /// Notes what the running task's caller did.
    pub fn note(&mut self, path: String, what: What) {
        if self.rolling {
            let who = self.caller();
            self.note_of(who, path, what);
        }
    }

    fn note_of(&mut self, who: Who, path: String, what: What) {
        if !self.rolling || self.over || self.repeats(&who, &what) {
            return;
        }
        self.calls.push(Call {
            who,
            what,
            path,
            stack: Vec::new(),
        });
        self.stack_ids.push(self.stack);
    }

    /// Whether this is the second sync of one write (record-R6).
    fn repeats(&self, who: &Who, what: &What) -> bool {
        let [.., write, sync] = &self.calls[..] else {
            return false;
        };
        let same = sync.what == *what && sync.who == *who && write.who == *who;
        match (&write.what, what) {
            (What::Write { node: of, .. }, What::Sync { node, failed, .. }) => {
                same && of == node && failed.is_none()
            }
            _ => false,
        }
    }

    /// Notes how mode and owner of an inode differ.
    pub fn note_attributes(&mut self, path: &str, before: &Attr, after: &Attr) -> FsResult<()> {
        let node = self.nodes.of(after.ino)?;
        let mode = (before.perm != after.perm).then_some(Attribute::Mode(after.perm));
        let owner = (after.uid, after.gid);
        let owner =
            ((before.uid, before.gid) != owner).then_some(Attribute::Owner(owner.0, owner.1));
        for attribute in owner.into_iter().chain(mode) {
            self.note(path.to_string(), What::SetAttribute { node, attribute });
        }
        Ok(())
    }

    /// Notes how extended attributes of an inode differ.
    pub fn note_xattrs(
        &mut self,
        path: &str,
        ino: Ino,
        before: &[(Vec<u8>, Vec<u8>)],
        after: &[(Vec<u8>, Vec<u8>)],
    ) -> FsResult<()> {
        let node = self.nodes.of(ino)?;
        let gone = before
            .iter()
            .filter(|(name, _)| after.iter().all(|(n, _)| n != name));
        let gone = gone.map(|(name, _)| Attribute::Xattr(name.clone(), None));
        let new = after.iter().filter(|pair| !before.contains(pair));
        let new = new.map(|(name, value)| Attribute::Xattr(name.clone(), Some(value.clone())));
        for attribute in gone.chain(new) {
            self.note(path.to_string(), What::SetAttribute { node, attribute });
        }
        Ok(())
    }
}
