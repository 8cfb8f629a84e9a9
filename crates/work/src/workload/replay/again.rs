//! A recording that is run again where it ended: what is there after its last call takes the place
//! of what was there before its first one.
//!
//! In a folder that stays, a file that the recording leaves beyond those that it found stands for
//! one that it found and removed: the one that it made first for the one that it removed first, as
//! a cache goes on that makes files and removes the oldest. What finds no counterpart is removed,
//! or made anew.

use super::names::parent;
use super::{Calls, Content, Names, Plan, Replay, close};
use crate::RunError;
use crate::recording::Recording;
use crate::workload::Pacing;
use base::BLOCK_BYTES;
use rt::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use vfs::{OpenFlags, RenameMode, Vfs};

/// Files that stand for others: name at the end, name at the beginning.
type Pairs = BTreeMap<String, String>;

impl<'a> Replay<'a> {
    /// The recording on a volume on which it has run to its end.
    ///
    /// # Errors
    /// The recording contradicts itself.
    pub(crate) fn ended(
        recording: &'a Recording,
        pacing: Pacing,
        vfs: &Arc<Vfs>,
    ) -> Result<Replay<'a>, RunError> {
        let plan = Plan::of(recording, &pacing)?;
        let names = Names::first(recording);
        for path in plan.sizes.keys() {
            names.made(path);
        }
        Ok(Replay {
            recording,
            pacing,
            plan,
            vfs: vfs.clone(),
            content: Content::new(),
            names,
            calls: Calls::new(),
            open: Mutex::named("replay handles", BTreeMap::new()),
        })
    }

    /// Writes out what the calls have left dirty, and closes what they left open.
    ///
    /// # Errors
    /// The file system fails.
    pub(crate) fn settle(&mut self) -> Result<(), RunError> {
        let open = std::mem::take(&mut *self.open.lock());
        open.into_values().try_for_each(close)?;
        self.calls = Calls::new();
        Ok(self.vfs.sync()?)
    }

    /// Makes names and sizes those before the first call, and syncs. Files that are there stay
    /// where they lie.
    ///
    /// # Errors
    /// The file system fails.
    pub(crate) fn begin_again(&mut self) -> Result<(), RunError> {
        let first: BTreeMap<&str, u64> = (self.recording.files.iter())
            .map(|(path, bytes)| (&path[..], *bytes))
            .collect();
        let pairs = self.pairs(&first);
        self.remove_others(&first, &pairs)?;
        self.make_folders()?;
        let (plan, stays) = (&self.plan, |path: &str| {
            first.contains_key(path) || begins_itself(&self.plan, path)
        });
        let moved: Vec<(String, String)> = (pairs.iter())
            .filter(|(end, begin)| parent(end) != parent(begin))
            .map(|(end, begin)| (self.names.of(end), begin.clone()))
            .collect();
        self.names.turn(|path| match pairs.get(path) {
            Some(begin) => (parent(path) == parent(begin)).then(|| begin.clone()),
            None => (stays(path) && plan.sizes.contains_key(path)).then(|| path.into()),
        });
        for (from, to) in moved {
            let to = self.names.made(&to);
            self.vfs.rename(&from, &to, RenameMode::Replace)?;
        }
        for (n, (path, bytes)) in self.recording.files.iter().enumerate() {
            self.resize(n, path, *bytes)?;
        }
        Ok(self.vfs.sync()?)
    }

    /// Which file of the end stands for which of the beginning.
    fn pairs(&self, first: &BTreeMap<&str, u64>) -> Pairs {
        let plan = &self.plan;
        let by_time = |mut names: Vec<String>| {
            names.sort_by_key(|path| (plan.named.get(path).copied(), path.clone()));
            names
        };
        let more = plan.sizes.keys().filter(|path| {
            !first.contains_key(&path[..]) && self.names.keeps(path) && !begins_itself(plan, path)
        });
        let more = by_time(more.cloned().collect());
        let less = first
            .keys()
            .filter(|path| !plan.sizes.contains_key(**path) && self.names.keeps(path));
        let less = by_time(less.map(|path| path.to_string()).collect());
        let mut in_folder: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
        for path in more.iter().rev() {
            in_folder.entry(parent(path)).or_default().push(path);
        }
        let mut pairs = Pairs::new();
        let mut alone = Vec::new();
        for path in &less {
            match in_folder.get_mut(parent(path)).and_then(Vec::pop) {
                Some(end) => drop(pairs.insert(end.clone(), path.clone())),
                None => alone.push(path),
            }
        }
        // Folders that share the files of one cache do not turn them over evenly.
        let left: Vec<&String> = more
            .iter()
            .filter(|path| !pairs.contains_key(*path))
            .collect();
        for (end, begin) in left.into_iter().zip(alone) {
            pairs.insert(end.clone(), begin.clone());
        }
        pairs
    }

    /// Removes files and folders of the end that stand for none of the beginning.
    fn remove_others(&self, first: &BTreeMap<&str, u64>, pairs: &Pairs) -> Result<(), RunError> {
        for path in self.plan.sizes.keys() {
            let stands = first.contains_key(&path[..]) || pairs.contains_key(path);
            let begins = self.names.keeps(path) && begins_itself(&self.plan, path);
            if !stands && !begins {
                self.vfs.unlink(self.names.of(path))?;
            }
        }
        let folders: BTreeSet<&str> = self.recording.folders.iter().map(|f| &f[..]).collect();
        // Those inside of others come later in the order, so they go first.
        for folder in self.plan.entries.keys().rev() {
            if !folders.contains(&folder[..]) {
                self.vfs.rmdir(folder)?;
            }
        }
        Ok(())
    }

    fn make_folders(&self) -> Result<(), RunError> {
        for folder in self.recording.folders.iter().filter(|f| *f != "/") {
            if !self.plan.entries.contains_key(folder) {
                self.vfs.mkdir(folder, 0o755)?;
            }
        }
        Ok(())
    }

    /// Gives a file as many blocks as it is to have, and makes it if it is not there. Within a
    /// block its size stays, because a write there would be one that no use makes.
    fn resize(&self, n: usize, path: &str, bytes: u64) -> Result<(), RunError> {
        let path = self.names.made(path);
        let has = self.vfs.stat(&path).map_or(None, |stat| Some(stat.size));
        let blocks = |bytes: u64| bytes.div_ceil(BLOCK_BYTES as u64);
        if has.is_some_and(|has| blocks(has) == blocks(bytes)) {
            return Ok(());
        }
        let flags = OpenFlags::READ_WRITE | OpenFlags::CREATE;
        let file = self.vfs.open(&path, flags, 0o644)?;
        let has = has.unwrap_or(0);
        let done = match has > bytes {
            true => file.truncate(bytes).map_err(Into::into),
            false => self.content.write(&file, n, has, bytes - has),
        };
        file.close()?;
        done
    }
}

/// True for a file that is empty at the end and that the recording opens, or makes, as its first
/// call on it: where it is there already, all goes on as where it is not.
fn begins_itself(plan: &Plan, path: &str) -> bool {
    plan.begun.contains(path) && plan.sizes.get(path) == Some(&0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Call, Handle, Op};
    use crate::workload::replay_spec::Pace;
    use base::{Ino, Nanos};
    use rt::{Sim, SimConfig};

    /// A cache makes a file and removes the oldest; a log is opened and left empty; a folder is
    /// renamed, and left behind with a file.
    fn recording() -> Recording {
        let open = |handle, path: &str| Op::Open {
            handle: Handle(handle),
            path: path.into(),
            create: true,
            truncate: false,
            directory: false,
        };
        let write = |handle| Op::Write {
            handle: Handle(handle),
            offset: 0,
            bytes: 5000,
        };
        let ops = [
            open(1, "/d/new"),
            write(1),
            Op::Unlink {
                path: "/d/old".into(),
            },
            open(2, "/d/log"),
            Op::Mkdir {
                path: "/d/sub".into(),
            },
            Op::Rename {
                from: "/d/sub".into(),
                to: "/d/dir".into(),
            },
            open(3, "/d/dir/x"),
            write(3),
            Op::SyncAll,
        ];
        let call = |op| Call {
            at: Nanos(0),
            thread: 1,
            op,
        };
        Recording {
            name: "test".into(),
            folders: vec!["/d".into()],
            files: vec![("/d/old".into(), 6000), ("/d/stays".into(), 100)],
            calls: ops.map(call).into(),
        }
    }

    fn names(vfs: &Vfs) -> Vec<String> {
        let mut names: Vec<String> = (vfs.readdir("/d").unwrap().into_iter())
            .map(|entry| String::from_utf8_lossy(&entry.name).into_owned())
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn a_use_goes_on_with_the_files_that_it_made() {
        let sim = Sim::new(SimConfig::seeded(1));
        let done = sim.run(|| {
            let vfs = Vfs::new(testkit::model::ModelFs::new());
            let recording = recording();
            let pacing = Pacing {
                pace: Pace::None,
                ..Pacing::default()
            };
            let mut replay = Replay::prepare(&recording, pacing, &vfs).unwrap();
            replay.run(&mut |_| {}).unwrap();
            replay.settle().unwrap();
            assert_eq!(names(&vfs), ["dir", "log", "new", "stays"]);
            let ino = |path: &str| -> Ino { vfs.stat(path).unwrap().ino };
            let made = ino("/d/new");
            let mut replay = Replay::ended(&recording, pacing, &vfs).unwrap();
            for (turn, before) in [(1, "new"), (2, "new~1"), (3, "new~2")] {
                replay.begin_again().unwrap();
                // It stands for the old one, has as many blocks, and was not made anew.
                assert_eq!(names(&vfs), ["log", before, "stays"]);
                assert!(turn > 1 || ino("/d/new") == made);
                assert_eq!(vfs.stat(format!("/d/{before}")).unwrap().size, 5000);
                replay.run(&mut |_| {}).unwrap();
                replay.settle().unwrap();
                let new = format!("new~{turn}");
                assert_eq!(names(&vfs), ["dir", "log", &new, "stays"]);
            }
        });
        done.unwrap();
    }
}
