//! What each kind of flowop does to the file system, and what it counts. A read is compared with
//! what the file held before it began, so that lost data fails the run; a file that was written
//! beyond its end, and so has holes, is not compared.

use super::aio::Job;
use super::engine::Why;
use super::files::{Picked, Set, Want};
use super::model::{Flowop, Op};
use super::worker::{Did, Open, Worker};
use crate::RunError;
use base::Nanos;
use rt::atomic::Ordering;
use std::sync::Arc;
use vfs::OpenFlags;

/// Refuses a write that was not done whole.
pub fn whole(count: usize, wanted: usize) -> Result<(), RunError> {
    match count == wanted {
        true => Ok(()),
        false => {
            let what = format!("{count} of {wanted} bytes were written: the volume is full");
            Err(RunError::Filebench(what))
        }
    }
}

impl Worker {
    /// Runs the flowop once.
    pub(super) fn once(&mut self, op: &Flowop) -> Result<Did, RunError> {
        match op.op {
            Op::CreateFile => self.create(op),
            Op::OpenFile => self.open_existing(op, set_of(op), op.fd),
            Op::CloseFile => self.close(op.fd).map(|()| Did::Bytes(0)),
            Op::DeleteFile => self.delete(op),
            Op::StatFile => self.stat(op),
            Op::ReadWholeFile => self.read_whole(op),
            Op::WriteWholeFile => self.write_whole(op),
            Op::AppendFile | Op::AppendFileRand => self.append(op),
            Op::Read => self.read(op),
            Op::Write => self.write(op),
            Op::AioWrite => self.write_later(op),
            Op::AioWait => self.pending.wait().map(|()| Did::Bytes(0)),
            Op::Fsync => {
                self.slot(op.fd)?.file.fsync()?;
                Ok(Did::Bytes(0))
            }
            Op::FsyncSet => self.fsync_set(op),
            Op::MakeDir => self.make_dir(op),
            Op::RemoveDir => self.remove_dir(op),
            Op::ListDir => self.list_dir(op),
            _ => self.control(op),
        }
    }

    fn control(&mut self, op: &Flowop) -> Result<Did, RunError> {
        let deadline = self.shared.deadline();
        let value = op.value.draw(&mut self.rng);
        match op.op {
            Op::Hog => rt::charge(Nanos(value)),
            Op::Delay => {
                let until = rt::now() + Nanos::from_secs(value.min(super::parse::SECONDS_MAX));
                rt::sleep_until(until.min(deadline));
            }
            Op::SemBlock => {
                let sem = self.sems.get(&op.name).cloned();
                sem.expect("a thread has its semaphores")
                    .take(value, deadline);
            }
            Op::SemPost => {
                let target = op.target.as_deref().unwrap_or_default();
                for sem in &self.shared.clone().sems[target] {
                    sem.post(value, op.blocking, deadline);
                }
            }
            Op::EventLimit => self.events(1),
            Op::OpsLimit | Op::IopsLimit => self.since(op, |count, _| count),
            Op::BwLimit => self.since(op, |_, bytes| bytes >> 20),
            Op::FinishOnCount | Op::FinishOnBytes => {
                let (count, bytes) = self.counted(op);
                let reached = if op.op == Op::FinishOnCount {
                    count
                } else {
                    bytes
                };
                if reached >= value {
                    return Ok(Did::End(Why::Done(op.name.clone())));
                }
            }
            _ => unreachable!("`{}` is no control", op.op.word()),
        }
        Ok(Did::Bytes(0))
    }

    /// Number and bytes of the flowop's target so far, or of the whole process if it names none.
    fn counted(&self, op: &Flowop) -> (u64, u64) {
        let counters = match &op.target {
            Some(target) => &self.shared.totals[target],
            None => &*self.process,
        };
        let of = |n: &rt::atomic::AtomicU64| n.load(Ordering::Relaxed);
        (of(&counters.ops), of(&counters.bytes))
    }

    fn events(&self, count: u64) {
        if self.shared.events.limit() && count > 0 {
            let at = self.shared.events.take(count, self.shared.start());
            rt::sleep_until(at.min(self.shared.deadline()));
        }
    }

    /// Waits for as many events as there was work since this was called last.
    fn since(&mut self, op: &Flowop, work: impl Fn(u64, u64) -> u64) {
        let (count, bytes) = self.counted(op);
        let now = work(count, bytes);
        let before = self.marks.insert(op.line, now).unwrap_or(0);
        self.events(now.saturating_sub(before));
    }

    fn pick(&mut self, set: usize, want: Want) -> Picked {
        let files = &self.shared.sets[set].files;
        let deadline = self.shared.deadline();
        files.pick(want, &mut self.rotors[set], &mut self.rng, deadline)
    }

    /// Why a thread ends that picked no entry.
    fn out_of(&self, op: &Flowop, picked: Picked) -> Why {
        match picked {
            Picked::None => Why::NoFile(op.name.clone()),
            _ => self.shared.over().unwrap_or(Why::Time),
        }
    }

    fn create(&mut self, op: &Flowop) -> Result<Did, RunError> {
        let number = set_of(op);
        self.free_slot(op.fd)?;
        let entry = match self.pick(number, Want::Absent) {
            Picked::Entry(entry) => entry,
            other => return Ok(Did::End(self.out_of(op, other))),
        };
        let set = self.shared.sets[number].clone();
        let flags = OpenFlags::READ_WRITE | OpenFlags::CREATE | OpenFlags::EXCL | sync_of(op);
        let opened = self.shared.vfs.open(set.tree.file(entry), flags, 0o644);
        if opened.is_err() {
            set.files.give_back(entry, None, 0);
        }
        let made = set.files.made(entry);
        self.opened(op.fd, opened?, &set, (entry, made.generation));
        set.files.give_back(entry, Some(true), 1);
        Ok(Did::Bytes(0))
    }

    fn opened(
        &mut self,
        fd: u32,
        file: vfs::File,
        set: &Arc<Set>,
        (entry, generation): (u32, u32),
    ) {
        let open = Open {
            file: Arc::new(file),
            set: set.clone(),
            entry,
            generation,
            position: 0,
        };
        self.open.insert(fd, open);
    }

    fn free_slot(&self, fd: u32) -> Result<(), RunError> {
        match self.open.contains_key(&fd) {
            false => Ok(()),
            true => Err(RunError::Filebench(format!("fd={fd} is open already"))),
        }
    }

    pub(super) fn open_existing(
        &mut self,
        op: &Flowop,
        number: usize,
        fd: u32,
    ) -> Result<Did, RunError> {
        self.free_slot(fd)?;
        let once = op.opennext && op.op == Op::OpenFile;
        let want = if once { Want::Fresh } else { Want::Exists };
        let entry = match self.pick(number, want) {
            Picked::Entry(entry) => entry,
            other => return Ok(Did::End(self.out_of(op, other))),
        };
        let set = self.shared.sets[number].clone();
        let flags = match set.readonly {
            true => OpenFlags::READ,
            false => OpenFlags::READ_WRITE | sync_of(op),
        };
        let opened = self.shared.vfs.open(set.tree.file(entry), flags, 0);
        if opened.is_err() {
            set.files.give_back(entry, None, 0);
        }
        let generation = set.files.entry(entry).generation;
        self.opened(fd, opened?, &set, (entry, generation));
        set.files.give_back(entry, None, 1);
        Ok(Did::Bytes(0))
    }

    fn delete(&mut self, op: &Flowop) -> Result<Did, RunError> {
        let number = set_of(op);
        let entry = match self.pick(number, Want::Exists) {
            Picked::Entry(entry) => entry,
            other => return Ok(Did::End(self.out_of(op, other))),
        };
        let set = &self.shared.sets[number];
        if set.files.is_open(entry) {
            set.files.give_back(entry, None, 0);
            return Ok(Did::Nothing);
        }
        let removed = self.shared.vfs.unlink(set.tree.file(entry));
        set.files
            .give_back(entry, removed.is_ok().then_some(false), 0);
        removed?;
        Ok(Did::Bytes(0))
    }

    fn stat(&mut self, op: &Flowop) -> Result<Did, RunError> {
        let number = set_of(op);
        let entry = match self.pick(number, Want::Exists) {
            Picked::Entry(entry) => entry,
            other => return Ok(Did::End(self.out_of(op, other))),
        };
        let set = &self.shared.sets[number];
        let size = set.files.entry(entry).size;
        let path = set.tree.file(entry);
        let found = self.shared.vfs.stat(&path);
        set.files.give_back(entry, None, 0);
        match found?.size {
            found if found < size => {
                let what = format!("{path} has {found} bytes, {size} were written");
                Err(RunError::Check(what))
            }
            _ => Ok(Did::Bytes(0)),
        }
    }

    fn read_whole(&mut self, op: &Flowop) -> Result<Did, RunError> {
        let fd = self.slot_of(op)?;
        let size = self.iosize(op);
        let mut at = 0;
        loop {
            let count = self.read_at(fd, at, size)?;
            at += count;
            if count == 0 {
                return Ok(Did::Bytes(at));
            }
        }
    }

    /// Reads, and compares with what was in the file before the read began.
    fn read_at(&mut self, fd: u32, at: u64, length: u64) -> Result<u64, RunError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(length as usize, 0);
        let open = self.slot(fd)?;
        let known = open.set.files.entry(open.entry);
        let count = open.file.read_at(at, &mut buffer)?;
        let sure = known.size.saturating_sub(at).min(length);
        let stamp = open.set.stamp(open.entry, open.generation);
        let wrong = match known.holes {
            true => None,
            false => stamp.differs(at, &buffer[..count.min(sure as usize)]),
        };
        let path = || open.set.tree.file(open.entry);
        if (count as u64) < sure {
            let what = format!("{}: {count} of {sure} bytes at {at} were read", path());
            return Err(RunError::Check(what));
        }
        if let Some(wrong) = wrong {
            let what = format!("{}: byte {wrong} is not what was written", path());
            return Err(RunError::Check(what));
        }
        self.buffer = buffer;
        Ok(count as u64)
    }

    fn read(&mut self, op: &Flowop) -> Result<Did, RunError> {
        let fd = self.slot_of(op)?;
        let length = self.iosize(op);
        let at = self.place(op, fd, length)?;
        let count = self.read_at(fd, at, length)?;
        let open = self.slot(fd)?;
        // A sequential reader begins again at the end of the file.
        open.position = if count < length { 0 } else { at + count };
        Ok(Did::Bytes(count))
    }

    /// The offset at which the next transfer of a slot begins.
    fn place(&mut self, op: &Flowop, fd: u32, length: u64) -> Result<u64, RunError> {
        let open = self.slot(fd)?;
        let size = open.set.files.entry(open.entry).size;
        let (position, used) = match op.workingset {
            0 => (open.position, size),
            some => (open.position, some),
        };
        if op.random {
            return Ok(self.rng.below((used / length).max(1)) * length);
        }
        match op.workingset > 0 && position + length > used {
            true => Ok(0),
            false => Ok(position),
        }
    }

    fn write_at(&mut self, fd: u32, at: u64, length: u64) -> Result<(), RunError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(length as usize, 0);
        let open = self.slot(fd)?;
        open.set
            .stamp(open.entry, open.generation)
            .fill(at, &mut buffer);
        open.set.files.begins(open.entry, at);
        let count = open.file.write_at(at, &buffer)?;
        open.set.files.reaches(open.entry, at + count as u64);
        self.buffer = buffer;
        self.written += count as u64;
        whole(count, length as usize)
    }

    fn write(&mut self, op: &Flowop) -> Result<Did, RunError> {
        let fd = self.slot_of(op)?;
        let length = self.iosize(op);
        let at = self.place(op, fd, length)?;
        self.write_at(fd, at, length)?;
        self.slot(fd)?.position = at + length;
        Ok(Did::Bytes(length))
    }

    fn write_later(&mut self, op: &Flowop) -> Result<Did, RunError> {
        let fd = self.slot_of(op)?;
        let length = self.iosize(op);
        let at = self.place(op, fd, length)?;
        let owner = self.pending.clone();
        let queue = self
            .aio
            .clone()
            .expect("a process with aiowrite has a queue");
        let open = self.slot(fd)?;
        open.position = at + length;
        open.set.files.begins(open.entry, at);
        queue.put(Job {
            file: open.file.clone(),
            at,
            length: length as usize,
            stamp: open.set.stamp(open.entry, open.generation),
            set: open.set.clone(),
            entry: open.entry,
            owner,
        });
        self.written += length;
        Ok(Did::Bytes(length))
    }

    fn write_whole(&mut self, op: &Flowop) -> Result<Did, RunError> {
        let fd = self.slot_of(op)?;
        let io = self.iosize(op);
        let open = self.slot(fd)?;
        let all = match op.workingset {
            0 => open.set.tree.files[open.entry as usize].1,
            some => some,
        };
        let mut at = 0;
        while at < all {
            let length = io.min(all - at);
            self.write_at(fd, at, length)?;
            at += length;
        }
        Ok(Did::Bytes(all))
    }

    fn append(&mut self, op: &Flowop) -> Result<Did, RunError> {
        let fd = self.slot_of(op)?;
        let length = match (op.op, self.iosize(op)) {
            (Op::AppendFileRand, most) => 1 + self.rng.below(most),
            (_, all) => all,
        };
        let open = self.slot(fd)?;
        let (set, entry) = (open.set.clone(), open.entry);
        let at = set.files.append(entry);
        let result = self.write_at(fd, at, length);
        let end = set.files.entry(entry).size;
        set.files.appended(entry, end);
        result.map(|()| Did::Bytes(length))
    }

    fn fsync_set(&mut self, op: &Flowop) -> Result<Did, RunError> {
        let set = &self.shared.sets[set_of(op)];
        for open in self
            .open
            .values()
            .filter(|open| Arc::ptr_eq(&open.set, set))
        {
            open.file.fsync()?;
        }
        Ok(Did::Bytes(0))
    }

    fn pick_leaf(&mut self, set: usize, want: Want) -> Picked {
        let leaves = &self.shared.sets[set].leaves;
        let deadline = self.shared.deadline();
        leaves.pick(want, &mut self.leaf_rotors[set], &mut self.rng, deadline)
    }

    fn make_dir(&mut self, op: &Flowop) -> Result<Did, RunError> {
        let entry = match self.pick_leaf(set_of(op), Want::Absent) {
            Picked::Entry(entry) => entry,
            other => return Ok(Did::End(self.out_of(op, other))),
        };
        let set = &self.shared.sets[set_of(op)];
        let made = self.shared.vfs.mkdir(set.tree.leaf(entry), 0o755);
        set.leaves.give_back(entry, made.is_ok().then_some(true), 0);
        made?;
        Ok(Did::Bytes(0))
    }

    fn remove_dir(&mut self, op: &Flowop) -> Result<Did, RunError> {
        let entry = match self.pick_leaf(set_of(op), Want::Exists) {
            Picked::Entry(entry) => entry,
            other => return Ok(Did::End(self.out_of(op, other))),
        };
        let set = &self.shared.sets[set_of(op)];
        let removed = self.shared.vfs.rmdir(set.tree.leaf(entry));
        set.leaves
            .give_back(entry, removed.is_ok().then_some(false), 0);
        removed?;
        Ok(Did::Bytes(0))
    }

    fn list_dir(&mut self, op: &Flowop) -> Result<Did, RunError> {
        let set = &self.shared.sets[set_of(op)];
        let dir = &set.tree.dirs[self.dir_rotor % set.tree.dirs.len()];
        self.dir_rotor += 1;
        let entries = self.shared.vfs.readdir(dir)?;
        Ok(Did::Bytes(
            entries.iter().map(|e| e.name.len() as u64).sum(),
        ))
    }
}

fn set_of(op: &Flowop) -> usize {
    op.fileset
        .expect("the reader refuses a flowop that needs a set and has none")
}

fn sync_of(op: &Flowop) -> OpenFlags {
    if op.dsync {
        OpenFlags::DSYNC
    } else {
        OpenFlags::NONE
    }
}
