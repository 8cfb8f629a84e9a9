//! What a workload of the explorer does in the guest: its operations, by system calls, with a mark
//! in the log behind each sync.
//!
//! - I1: a mark says how many operations have ended, of all tasks; it is set before the next one
//!   begins. Between two marks nothing is promised that was not at the first one, so other
//!   operations need none, and each would cost the start of a program.
//! - I2: the tasks work by turns, one operation each: the order is known without a clock.

use crate::model::{DIR_PERM, FILE_PERM, State};
use crate::ops::Op;
use crate::subject::FileScript;
use base::Nanos;
use rustix::fs as rfs;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The word of a call in the guest.
pub(super) const WORK: &str = "work";
/// The word that asks for another file's sync before that of each file.
pub(super) const DECOY: &str = "decoy";
/// The file of the inode numbers that operations made: lines of step and number.
pub(super) const MADE: &str = "made";

/// Answers the words of the explorer's calls in a guest; `None`: they are not its own.
pub fn in_guest(words: &[&str]) -> Option<io::Result<()>> {
    match words {
        [word, script, root, made, decoy] if *word == WORK => {
            let paths = [script, root, made].map(|word| Path::new(*word));
            Some(work(paths, *decoy == DECOY))
        }
        _ => None,
    }
}

/// The operations of all tasks in the order in which they are done (I2), each with its task. A
/// task first makes its directory.
pub(super) fn steps(script: &FileScript) -> Vec<(usize, Op)> {
    let longest = script.tasks().iter().map(Vec::len).max().unwrap_or(0);
    let tasks = 0..script.tasks().len();
    let begin = tasks.map(|task| (task, Op::Mkdir(String::new())));
    let turns = (0..longest).flat_map(|turn| {
        let tasks = script.tasks().iter().enumerate();
        tasks.filter_map(move |(task, ops)| Some((task, ops.get(turn)?.clone())))
    });
    begin.chain(turns).collect()
}

/// Whether an operation asks for durability.
pub(super) fn is_sync(op: &Op) -> bool {
    matches!(
        op,
        Op::Fsync(_) | Op::Fdatasync(_) | Op::SyncDir(_) | Op::Sync
    )
}

fn work([script, root, made]: [&Path; 3], decoy: bool) -> io::Result<()> {
    let text = fs::read_to_string(script)?;
    let script = FileScript::parse(&text).map_err(|e| io::Error::other(e.to_string()))?;
    let mut made = File::create(made)?;
    let mut tasks: Vec<Task> = (0..script.tasks().len())
        .map(|number| Task {
            root: root.join(format!("t{number}")),
            state: State::new(number),
            held: None,
        })
        .collect();
    for (nr, (task, op)) in steps(&script).into_iter().enumerate() {
        if decoy && matches!(op, Op::Fsync(_) | Op::Fdatasync(_)) {
            sync_another(root)?;
        }
        let done = tasks[task].step(&op);
        let told = |e: io::Error| io::Error::new(e.kind(), format!("task {task}: `{op}`: {e}"));
        if let Some(ino) = done.map_err(told)? {
            writeln!(made, "{nr} {ino}")?;
        }
        if is_sync(&op) {
            mark(nr + 1)?;
        }
    }
    Ok(())
}

/// Writes and syncs a file that no task knows.
fn sync_another(root: &Path) -> io::Result<()> {
    let mut file = File::create(root.join("decoy"))?;
    file.write_all(b"x")?;
    file.sync_all()
}

/// Sets the mark that so many operations have ended (I1).
fn mark(ended: usize) -> io::Result<()> {
    let mut command = Command::new("dmsetup");
    let done = command
        .args(["message", "log", "0", "mark", &ended.to_string()])
        .output()?;
    match done.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            Err(io::Error::other(format!("dmsetup: {said}")))
        }
    }
}

/// A task under way.
struct Task {
    root: PathBuf,
    state: State,
    held: Option<File>,
}

impl Task {
    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn open(&self, path: &str) -> io::Result<File> {
        OpenOptions::new().write(true).open(self.at(path))
    }

    /// Does one operation; answers the number of the inode that it makes.
    fn step(&mut self, op: &Op) -> io::Result<Option<u64>> {
        self.state.apply(op);
        match op {
            Op::Create(path) => return self.create(path).map(Some),
            Op::Mkdir(path) => {
                fs::DirBuilder::new()
                    .mode(DIR_PERM.into())
                    .create(self.at(path))?;
                return self.ino(path).map(Some);
            }
            Op::Symlink { target, to } => {
                std::os::unix::fs::symlink(target, self.at(to))?;
                return self.ino(to).map(Some);
            }
            Op::Rename { from, to } => fs::rename(self.at(from), self.at(to))?,
            Op::Link { from, to } => fs::hard_link(self.at(from), self.at(to))?,
            Op::Unlink(path) => fs::remove_file(self.at(path))?,
            Op::Rmdir(path) => fs::remove_dir(self.at(path))?,
            Op::Chmod { path, perm } => {
                let bits = fs::Permissions::from_mode((*perm).into());
                fs::set_permissions(self.at(path), bits)?;
            }
            Op::SetXattr { path, name, value } => {
                let name = format!("user.{name}");
                rfs::lsetxattr(self.at(path), name, value, rfs::XattrFlags::empty())?;
            }
            Op::RemoveXattr { path, name } => {
                rfs::lremovexattr(self.at(path), format!("user.{name}"))?;
            }
            Op::Hold(path) => self.held = Some(File::open(self.at(path))?),
            Op::Pause(ns) => rt::sleep(Nanos(*ns)),
            _ => self.of_content(op)?,
        }
        Ok(None)
    }

    fn of_content(&self, op: &Op) -> io::Result<()> {
        match op {
            Op::Write { path, offset, len } => {
                let content = self.state.content(path).expect("a file of the model");
                let range = *offset as usize..(offset + len) as usize;
                self.open(path)?
                    .write_all_at(&content.bytes()[range], *offset)
            }
            Op::Truncate { path, size } => self.open(path)?.set_len(*size),
            Op::Fallocate {
                path,
                offset,
                len,
                keep_size,
            } => {
                let flags = match keep_size {
                    true => rfs::FallocateFlags::KEEP_SIZE,
                    false => rfs::FallocateFlags::empty(),
                };
                Ok(rfs::fallocate(self.open(path)?, flags, *offset, *len)?)
            }
            Op::Fsync(path) | Op::SyncDir(path) => File::open(self.at(path))?.sync_all(),
            Op::Fdatasync(path) => File::open(self.at(path))?.sync_data(),
            Op::Sync => Ok(rfs::syncfs(File::open(&self.root)?)?),
            _ => unreachable!("an operation on names: {op}"),
        }
    }

    fn create(&self, path: &str) -> io::Result<u64> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(FILE_PERM.into());
        Ok(options.open(self.at(path))?.metadata()?.ino())
    }

    fn ino(&self, path: &str) -> io::Result<u64> {
        Ok(fs::symlink_metadata(self.at(path))?.ino())
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use crate::found::Finder;
    use crate::program::kernel::finder::SeenFinder;

    #[test]
    fn tasks_take_turns_behind_their_directories() {
        let script = FileScript::parse("create /a; fsync /a | create /b").unwrap();
        let told: Vec<String> = steps(&script)
            .iter()
            .map(|(t, op)| format!("{t} {op}"))
            .collect();
        let turns = [
            "0 mkdir ",
            "1 mkdir ",
            "0 create /a",
            "1 create /b",
            "0 fsync /a",
        ];
        assert_eq!(told, turns);
    }

    /// What the system calls leave on this machine is what the model says.
    #[test]
    fn each_operation_does_what_the_model_says() {
        let folder = tempfile::tempdir().unwrap();
        let text = "mkdir /d; create /d/f; write /d/f 100+9000; truncate /d/f 5000; link /d/f /g; \
                    symlink there /l; chmod /g 600; falloc /d/f 0+9000; falloc /g 0+90000 keep; \
                    create /x; hold /x; rename /x /y; unlink /y; mkdir /e; rmdir /e; pause 5";
        let script = FileScript::parse(text).unwrap();
        let mut task = Task {
            root: folder.path().join("t0"),
            state: State::new(0),
            held: None,
        };
        for (_, op) in steps(&script) {
            let ino = task.step(&op).unwrap_or_else(|e| panic!("{op}: {e}"));
            let makes = matches!(op, Op::Create(_) | Op::Mkdir(_) | Op::Symlink { .. });
            assert_eq!(ino.is_some(), makes, "{op}");
        }
        let seen = guest::Seen::of(folder.path()).unwrap();
        let found = SeenFinder {
            seen: &seen,
            links_dirs: true,
        };
        let names = found.names("/t0", false).unwrap();
        let view = &task.state.view;
        assert!(names.keys().eq(view.keys()), "{names:?}");
        assert_eq!((names["/g"].nlink, names["/g"].perm), (2, 0o600));
        assert_eq!(names["/l"].target, "there");
        let bytes = found.bytes("/t0/g").unwrap();
        assert!(bytes == task.state.content("/d/f").unwrap().bytes() && bytes.len() == 9000);
    }
    /// One link is what Btrfs says of a directory, and damage elsewhere.
    #[test]
    fn directories_are_counted_only_where_the_file_system_does_not() {
        let folder = tempfile::tempdir().unwrap();
        for dir in ["t0/d/a", "t0/d/b/c", "t0/de"] {
            fs::create_dir_all(folder.path().join(dir)).unwrap();
        }
        let mut seen = guest::Seen::of(folder.path()).unwrap();
        for node in seen.tree.0.values_mut() {
            node.nlink = 1;
        }
        let links = |links_dirs| {
            let found = SeenFinder {
                seen: &seen,
                links_dirs,
            };
            let names = found.names("/t0", false).unwrap();
            ["", "/d", "/d/a", "/d/b"].map(|path| names[path].nlink)
        };
        assert_eq!(links(false), [4, 4, 2, 3]);
        assert_eq!(links(true), [1; 4]);
    }
}
