//! Processes with their descriptors and working directories, as far as a recording shows them.
//!
//! An open file is what the manual calls an open file description: duplicates and children share
//! it, with its position.

use std::collections::BTreeMap;

/// Most descriptors of all processes together: each process copies those of its parent, so a
/// recording could otherwise ask for the square of its length.
const DESCRIPTORS_MAX: usize = 4_000_000;

/// Number of an open file.
pub(super) type OpenFile = usize;

#[derive(Clone, Copy)]
struct Entry {
    file: OpenFile,
    close_on_exec: bool,
}

#[derive(Clone, Copy)]
struct Process {
    table: usize,
    folder: usize,
}

/// All processes of a recording. Threads of one process share a table of descriptors.
#[derive(Default)]
pub(super) struct World {
    processes: BTreeMap<u32, Process>,
    tables: Vec<BTreeMap<u32, Entry>>,
    /// How many processes and threads use each table.
    users: Vec<u32>,
    folders: Vec<Option<String>>,
    /// Descriptors in all tables.
    descriptors: usize,
    /// How many descriptors each open file has.
    references: BTreeMap<OpenFile, u32>,
}

impl World {
    fn process(&mut self, pid: u32) -> Process {
        if let Some(process) = self.processes.get(&pid) {
            return *process;
        }
        let process = Process {
            table: self.tables.len(),
            folder: self.folders.len(),
        };
        self.tables.push(BTreeMap::new());
        self.users.push(1);
        self.folders.push(None);
        self.processes.insert(pid, process);
        process
    }

    /// A process or thread is made. False: all processes together have more descriptors than can be
    /// held, so that this one begins with none.
    pub(super) fn clone(
        &mut self,
        parent: u32,
        child: u32,
        share_table: bool,
        share_folder: bool,
    ) -> bool {
        if self.processes.contains_key(&child) {
            return true;
        }
        let mut process = self.process(parent);
        let held = self.tables[process.table].len();
        let fits = share_table || self.descriptors + held <= DESCRIPTORS_MAX;
        if share_table {
            self.users[process.table] += 1;
        } else {
            let copy = match fits {
                true => self.tables[process.table].clone(),
                false => BTreeMap::new(),
            };
            self.descriptors += copy.len();
            for entry in copy.values() {
                *self.references.entry(entry.file).or_default() += 1;
            }
            process.table = self.tables.len();
            self.tables.push(copy);
            self.users.push(1);
        }
        if !share_folder {
            self.folders.push(self.folders[process.folder].clone());
            process.folder = self.folders.len() - 1;
        }
        self.processes.insert(child, process);
        fits
    }

    /// Ends a process or thread; returns the open files that nobody has any more.
    pub(super) fn exit(&mut self, pid: u32) -> Vec<OpenFile> {
        let Some(Process { table, .. }) = self.processes.remove(&pid) else {
            return Vec::new();
        };
        self.users[table] -= 1;
        match self.users[table] {
            0 => {
                let entries = std::mem::take(&mut self.tables[table]);
                self.descriptors -= entries.len();
                let entries = entries.into_values();
                let files: Vec<OpenFile> = entries.map(|entry| entry.file).collect();
                self.dropped(files)
            }
            _ => Vec::new(),
        }
    }

    /// Another program begins; returns the open files that nobody has any more.
    pub(super) fn exec(&mut self, pid: u32) -> Vec<OpenFile> {
        let table = self.process(pid).table;
        let closed: Vec<OpenFile> = self.tables[table]
            .extract_if(.., |_, entry| entry.close_on_exec)
            .map(|(_, entry)| entry.file)
            .collect();
        self.descriptors -= closed.len();
        self.dropped(closed)
    }

    fn dropped(&mut self, files: Vec<OpenFile>) -> Vec<OpenFile> {
        files
            .into_iter()
            .filter_map(|file| self.drop(file))
            .collect()
    }

    fn drop(&mut self, file: OpenFile) -> Option<OpenFile> {
        let references = self.references.get_mut(&file)?;
        *references -= 1;
        if *references > 0 {
            return None;
        }
        self.references.remove(&file);
        Some(file)
    }

    /// Puts an open file at a descriptor; returns the one that it replaces if nobody has that any
    /// more.
    pub(super) fn put(
        &mut self,
        pid: u32,
        fd: u32,
        file: OpenFile,
        close_on_exec: bool,
    ) -> Option<OpenFile> {
        let table = self.process(pid).table;
        *self.references.entry(file).or_default() += 1;
        let entry = Entry {
            file,
            close_on_exec,
        };
        let before = self.tables[table].insert(fd, entry);
        self.descriptors += usize::from(before.is_none());
        before.and_then(|entry| self.drop(entry.file))
    }

    /// Takes a descriptor away; returns its open file if nobody has that any more.
    pub(super) fn close(&mut self, pid: u32, fd: u32) -> Option<OpenFile> {
        let table = self.process(pid).table;
        let entry = self.tables[table].remove(&fd)?;
        self.descriptors -= 1;
        self.drop(entry.file)
    }

    /// The descriptors of a process from `first` to `last`.
    pub(super) fn range(&mut self, pid: u32, first: u32, last: u32) -> Vec<u32> {
        let table = self.process(pid).table;
        match first <= last {
            true => self.tables[table]
                .range(first..=last)
                .map(|(fd, _)| *fd)
                .collect(),
            false => Vec::new(),
        }
    }

    /// The open file of a descriptor.
    pub(super) fn get(&mut self, pid: u32, fd: u32) -> Option<OpenFile> {
        let table = self.process(pid).table;
        self.tables[table].get(&fd).map(|entry| entry.file)
    }

    /// Sets whether a descriptor is closed by exec.
    pub(super) fn close_on_exec(&mut self, pid: u32, fd: u32, on: bool) {
        let table = self.process(pid).table;
        if let Some(entry) = self.tables[table].get_mut(&fd) {
            entry.close_on_exec = on;
        }
    }

    /// The working directory, if known.
    pub(super) fn folder(&mut self, pid: u32) -> Option<String> {
        let folder = self.process(pid).folder;
        self.folders[folder].clone()
    }

    /// Sets the working directory.
    pub(super) fn enter(&mut self, pid: u32, path: String) {
        let folder = self.process(pid).folder;
        self.folders[folder] = Some(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_descriptors_are_bounded() {
        let mut world = World::default();
        for fd in 0..1000 {
            world.put(1, fd, 7, false);
        }
        let made = (2..5000).filter(|child| world.clone(1, *child, false, false));
        assert_eq!(made.count(), DESCRIPTORS_MAX / 1000 - 1);
        assert_eq!(world.descriptors, DESCRIPTORS_MAX);
        assert_eq!(world.get(4999, 3), None);
        assert_eq!(world.get(2, 3), Some(7));
        world.exit(2);
        assert!(world.clone(1, 9999, false, false), "there is room again");
    }

    #[test]
    fn an_open_file_ends_with_its_last_descriptor() {
        let mut world = World::default();
        assert_eq!(world.put(1, 3, 7, false), None);
        world.clone(1, 2, false, false);
        assert_eq!(world.close(1, 3), None, "the child has it");
        assert_eq!(world.exit(2), [7]);
        assert_eq!(world.put(1, 3, 8, true), None);
        world.clone(1, 4, true, true);
        assert!(world.exit(1).is_empty(), "a thread shares the table");
        assert_eq!(world.get(4, 3), Some(8));
        assert_eq!(world.put(4, 3, 9, false), Some(8), "dup2 closes");
        world.close_on_exec(4, 3, true);
        assert_eq!(world.exec(4), [9]);
        world.enter(4, "/a".into());
        world.clone(4, 5, false, false);
        world.enter(5, "/b".into());
        assert_eq!(world.folder(4).as_deref(), Some("/a"));
    }
}
