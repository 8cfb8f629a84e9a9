//! `beside=fdtree`: a tree of directories and files is made and removed, again and again.
//!
//! As in fdtree.bash 1.0.2 of LLNL (Seager, Loewe 2004) all directories are made by recursion, then
//! all files; then the files are removed, then the directories; nothing is synced. The script
//! starts a process for each `mkdir` and for each file (`dd bs=4096`), one `rm` for the files of a
//! directory and one `rmdir` for the directories in one. The operations only change memory, so the
//! cost of those processes is the only brake on the script. No virtual CPU here is as slow as a
//! shell, so that cost is a parameter.

use super::{Stop, unknown};
use crate::RunError;
use crate::workload::SpecError;
use crate::workload::values::{number, size, size_text};
use base::{BLOCK_BYTES, Nanos};
use std::fmt;
use std::sync::Arc;
use vfs::{OpenFlags, Vfs};

/// Parameters of `beside=fdtree`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fdtree {
    /// Levels below the root of the tree (`-l`).
    pub levels: u32,
    /// Directories in each directory that is no leaf (`-d`).
    pub dirs: u32,
    /// Files in each directory (`-f`).
    pub files: u32,
    /// Bytes of a file (`-s`, there in blocks of 4 KiB).
    pub bytes: u64,
    /// Time to start and end one process, microseconds.
    pub process_us: u32,
}

impl Default for Fdtree {
    /// The call in the head of the script (`-f 3 -d 5`; 4 levels and 10 blocks are its defaults):
    /// 781 directories, 2343 files, 92 MiB. Its defaults for the other two are 10 each; that makes
    /// 11,111 directories and 4.2 GiB, more than the volume of the figures.
    fn default() -> Self {
        Fdtree {
            levels: 4,
            dirs: 5,
            files: 3,
            bytes: 40 << 10,
            process_us: 2000,
        }
    }
}

const BYTES_MAX: u64 = 64 << 20;
const ROOT: &str = "/fdtree";

impl Fdtree {
    const KEYS: &'static str = "levels, dirs, files, size, process";

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), SpecError> {
        match name {
            "levels" => self.levels = number(value, 0..=16)? as u32,
            "dirs" => self.dirs = number(value, 0..=1000)? as u32,
            "files" => self.files = number(value, 0..=100_000)? as u32,
            "size" => self.bytes = size(value, 0..=BYTES_MAX)?,
            // With 0 the loop would take no virtual time and never end.
            "process" => self.process_us = number(value, 1..=1_000_000)? as u32,
            _ => return Err(unknown("fdtree", name, Self::KEYS)),
        }
        Ok(())
    }

    /// Number of directories of the tree, its root among them.
    pub fn directories(&self) -> u64 {
        let level = |sum: u64, _| sum.saturating_mul(self.dirs.into()).saturating_add(1);
        (0..=self.levels).fold(0, level)
    }

    /// Refuses a volume that the tree would fill.
    pub(super) fn prepare(self, vfs: &Arc<Vfs>) -> Result<Tree, RunError> {
        let dirs = self.directories();
        let files = dirs.saturating_mul(self.files.into());
        let per_file = self.bytes.div_ceil(BLOCK_BYTES as u64);
        let blocks = files.saturating_mul(per_file).saturating_add(dirs);
        let (inodes, has) = (files.saturating_add(dirs), vfs.statfs()?);
        if blocks > has.blocks_available || inodes > has.inodes_free {
            let mib = |blocks: u64| blocks / 256;
            return Err(RunError::Spec(SpecError::Together(format!(
                "beside={self} makes {inodes} files and directories of {} MiB, the volume has room for {} of {} MiB; \
                 choose fewer levels, dirs or files, or a larger volume",
                mib(blocks),
                has.inodes_free,
                mib(has.blocks_available)
            ))));
        }
        Ok(Tree {
            spec: self,
            vfs: vfs.clone(),
            content: vec![0; self.bytes as usize],
        })
    }
}

impl fmt::Display for Fdtree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (levels, dirs, files) = (self.levels, self.dirs, self.files);
        write!(f, "fdtree+levels={levels}+dirs={dirs}+files={files}")?;
        let size = size_text(self.bytes);
        write!(f, "+size={size}+process={}", self.process_us)
    }
}

/// The tree on a volume, ready to run.
pub(super) struct Tree {
    spec: Fdtree,
    vfs: Arc<Vfs>,
    content: Vec<u8>,
}

/// The task was asked to stop: it leaves what it has begun as it is.
struct Stopped;

type Step = Result<Result<(), Stopped>, RunError>;

/// Leaves the function when asked to stop.
macro_rules! go {
    ($step:expr) => {
        if $step?.is_err() {
            return Ok(Err(Stopped));
        }
    };
}

impl Tree {
    pub(super) fn run(self, stop: &Stop) -> Result<(), RunError> {
        loop {
            if self.once(stop)?.is_err() {
                return Ok(());
            }
        }
    }

    fn once(&self, stop: &Stop) -> Step {
        let levels = self.spec.levels;
        go!(self.process(stop));
        self.vfs.mkdir(ROOT, 0o755)?;
        go!(self.make_dirs(stop, levels, ROOT));
        go!(self.make_files(stop, levels, ROOT));
        go!(self.remove_files(stop, levels, ROOT));
        go!(self.remove_dirs(stop, levels, ROOT));
        go!(self.process(stop));
        self.vfs.rmdir(ROOT)?;
        Ok(Ok(()))
    }

    /// Spends the time of one process of the script.
    fn process(&self, stop: &Stop) -> Step {
        rt::sleep(Nanos::from_micros(self.spec.process_us.into()));
        Ok(if stop.asked() { Err(Stopped) } else { Ok(()) })
    }

    /// The directories in one directory of this level, the last one first, as in the script.
    fn subdirs(&self, level: u32, dir: &str) -> Vec<String> {
        let count = if level == 0 { 0 } else { self.spec.dirs };
        let names = (1..=count).rev();
        names.map(|n| format!("{dir}/L{level}D{n}")).collect()
    }

    fn files(&self, level: u32, dir: &str) -> Vec<String> {
        let names = (1..=self.spec.files).rev();
        names.map(|n| format!("{dir}/L{level}F{n}")).collect()
    }

    fn make_dirs(&self, stop: &Stop, level: u32, dir: &str) -> Step {
        let subdirs = self.subdirs(level, dir);
        for path in &subdirs {
            go!(self.process(stop));
            self.vfs.mkdir(path, 0o755)?;
        }
        for path in &subdirs {
            go!(self.make_dirs(stop, level - 1, path));
        }
        Ok(Ok(()))
    }

    fn make_files(&self, stop: &Stop, level: u32, dir: &str) -> Step {
        for path in self.files(level, dir) {
            go!(self.process(stop));
            let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNC;
            let file = self.vfs.open(path, flags, 0o644)?;
            for (n, block) in self.content.chunks(BLOCK_BYTES).enumerate() {
                file.write_at((n * BLOCK_BYTES) as u64, block)?;
            }
            file.close()?;
        }
        for path in self.subdirs(level, dir) {
            go!(self.make_files(stop, level - 1, &path));
        }
        Ok(Ok(()))
    }

    fn remove_files(&self, stop: &Stop, level: u32, dir: &str) -> Step {
        go!(self.process(stop));
        for path in self.files(level, dir) {
            self.vfs.unlink(path)?;
        }
        for path in self.subdirs(level, dir) {
            go!(self.remove_files(stop, level - 1, &path));
        }
        Ok(Ok(()))
    }

    fn remove_dirs(&self, stop: &Stop, level: u32, dir: &str) -> Step {
        let subdirs = self.subdirs(level, dir);
        if subdirs.is_empty() {
            return Ok(Ok(()));
        }
        for path in &subdirs {
            go!(self.remove_dirs(stop, level - 1, path));
        }
        go!(self.process(stop));
        for path in &subdirs {
            self.vfs.rmdir(path)?;
        }
        Ok(Ok(()))
    }
}
