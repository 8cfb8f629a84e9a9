//! Commands on a source tree: `cp -r`, `git clone` and `make`, as generated operation lists on a
//! synthetic tree ([`shape`]).
//!
//! The F2FSJ paper (section 5.3) measures them with 4.7 GB cloned, 3.9 GB copied, and a kernel
//! compiled. The lists have what the programs ask of the file system ([`commands`]). Their own CPU
//! time is the parameter `cpu`, by default 0, as it is not published which part of the times was
//! waiting for files.

mod commands;
mod list;
mod shape;
#[cfg(test)]
mod tests;

use super::super::Done;
use super::super::values::{SpecError, number, switch};
use super::room::Needs;
use super::{Bench, Sync};
use crate::RunError;
use base::Nanos;
use commands::Parts;
use list::{Stage, Wanted};
use shape::Shape;
use std::fmt;
use std::sync::Arc;
use vfs::Vfs;

base::words! {
    /// The command that runs.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Command: "command" {
        /// `cp -r`.
        Copy => "cp",
        /// `git clone`.
        Clone => "clone",
        /// `make`.
        Make => "make",
    }
}

/// Parameters of the program `tree`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeSpec {
    /// The command that runs.
    pub op: Command,
    /// Number of files of the tree.
    pub files: u32,
    /// Size of the repository's pack, percent of the content of the tree.
    pub pack: u32,
    /// For `cp`: times and modes are kept (`cp -a`).
    pub preserve: bool,
    /// For `make`: percent of the sources that are compiled.
    pub build: u32,
    /// For `make`: number of headers that a source includes.
    pub headers: u32,
    /// For `make`: number of compilations at a time (`-j`).
    pub processes: u32,
    /// CPU time of the program for each file, microseconds.
    pub cpu: u64,
}

const FILES_MAX: u64 = 1_000_000;
const PACK_MAX: u64 = 1000;
const HEADERS_MAX: u64 = 5000;
const PROCESSES_MAX: u64 = 64;
const CPU_US_MAX: u64 = 60_000_000;

impl Default for TreeSpec {
    fn default() -> Self {
        TreeSpec {
            op: Command::Copy,
            files: 2000,
            pack: 260,
            preserve: false,
            build: 10,
            headers: 300,
            processes: 1,
            cpu: 0,
        }
    }
}

impl TreeSpec {
    pub(super) const KEYS: &'static str = "op, files, pack, preserve, build, headers, procs, cpu";

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<bool, SpecError> {
        match name {
            "op" => self.op = value.parse()?,
            "files" => self.files = number(value, 1..=FILES_MAX)? as u32,
            "pack" => self.pack = number(value, 0..=PACK_MAX)? as u32,
            "preserve" => self.preserve = switch(value)?,
            "build" => self.build = number(value, 1..=100)? as u32,
            "headers" => self.headers = number(value, 0..=HEADERS_MAX)? as u32,
            "procs" => self.processes = number(value, 1..=PROCESSES_MAX)? as u32,
            "cpu" => self.cpu = number(value, 0..=CPU_US_MAX)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn check(&self) -> Result<(), SpecError> {
        if self.processes > 1 && self.op != Command::Make {
            let (op, procs) = (self.op.word(), self.processes);
            let what = format!("op={op} is one process, procs={procs} is for make");
            return Err(SpecError::Together(what));
        }
        Ok(())
    }

    /// Bytes of all files of the tree.
    fn content(&self) -> u64 {
        shape::sizes(self.files as usize).iter().sum()
    }

    /// Bytes of the pack; the tree that `make` works on has none.
    fn pack_bytes(&self) -> u64 {
        match self.op {
            Command::Make => 0,
            Command::Copy | Command::Clone => self.content() * u64::from(self.pack) / 100,
        }
    }

    /// The list that makes the tree for a seed, and the list of the command on it.
    fn lists(&self, seed: u64) -> (Vec<Stage>, Vec<Stage>) {
        let parts = Parts {
            shape: &Shape::new(self.files, seed),
            pack: self.pack_bytes(),
            preserve: self.preserve,
            build: self.build,
            headers: self.headers,
            cpu: Nanos::from_micros(self.cpu),
            seed,
        };
        match self.op {
            Command::Copy => (commands::tree(&parts), commands::copy(&parts)),
            Command::Clone => (Vec::new(), commands::clone(&parts)),
            Command::Make => (commands::tree(&parts), commands::make(&parts)),
        }
    }

    /// Number of operations and bytes written; neither depends on the seed.
    fn totals(&self) -> (u64, u64) {
        let (_, run) = self.lists(0);
        let tasks = run.iter().map(|stage| stage.len() as u64).sum();
        let steps = run.iter().flatten().flat_map(|task| &task.steps);
        let written = steps.map(|step| match step {
            list::Step::Write { bytes, .. } => *bytes,
            _ => 0,
        });
        let copied = match self.op {
            Command::Copy => self.content() + self.pack_bytes(),
            Command::Clone | Command::Make => 0,
        };
        (tasks, written.sum::<u64>() + copied)
    }

    pub(super) fn operations(&self) -> u64 {
        self.totals().0
    }

    pub(super) fn bytes(&self) -> u64 {
        self.totals().1
    }

    /// What the command takes in the end, which is also the most, as temporaries are small.
    pub(super) fn needs(&self, mut needs: Needs) -> Needs {
        let files: Vec<u64> = shape::sizes(self.files as usize);
        let trees = if self.op == Command::Copy { 2 } else { 1 };
        for bytes in files {
            needs = needs.files(trees, bytes);
        }
        needs = needs.files(trees, self.pack_bytes()).files(40, 8 << 10);
        let dirs = shape::directories(self.files) as u64;
        if self.op == Command::Clone {
            needs = needs.files(1, self.pack_bytes() / 10 + 128 * u64::from(self.files));
        }
        if self.op == Command::Make {
            let objects = commands::object_sizes(commands::compiled(self.files, self.build));
            let all: u64 = objects.iter().sum();
            for bytes in &objects {
                needs = needs
                    .files(1, *bytes)
                    .files(1, 4096 + 44 * u64::from(self.headers));
            }
            // These are the archives, and what is linked of all objects.
            needs = needs.files(2 * dirs, 4096).files(3, all).files(50, 4096);
        }
        needs.dirs(trees * dirs + 20, 2 * u64::from(self.files) / dirs)
    }

    /// What has to be there at the end.
    pub(super) fn wanted(&self, seed: u64) -> Wanted {
        let (tree, run) = self.lists(seed);
        let mut wanted = Wanted::default();
        wanted.apply_all(&tree);
        wanted.apply_all(&run);
        wanted
    }
}

impl fmt::Display for TreeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (op, files, pack) = (self.op.word(), self.files, self.pack);
        write!(f, "tree:op={op},files={files},pack={pack},")?;
        let preserve = if self.preserve { "on" } else { "off" };
        let (build, headers, procs) = (self.build, self.headers, self.processes);
        write!(f, "preserve={preserve},build={build},headers={headers},")?;
        write!(f, "procs={procs},cpu={}", self.cpu)
    }
}

pub(super) struct Tree {
    spec: TreeSpec,
    vfs: Arc<Vfs>,
    tree: Vec<Stage>,
    run: Vec<Stage>,
    wanted: Wanted,
}

impl Tree {
    pub(super) fn new(spec: &TreeSpec, vfs: Arc<Vfs>, seed: u64) -> Tree {
        let (tree, run) = spec.lists(seed);
        Tree {
            wanted: spec.wanted(seed),
            spec: spec.clone(),
            vfs,
            tree,
            run,
        }
    }
}

impl Bench for Tree {
    fn prepare(&mut self, sync: &Sync<'_>) -> Result<(), RunError> {
        for stage in std::mem::take(&mut self.tree) {
            list::run_stage(&self.vfs, stage, 1, &mut |_| {})?;
        }
        sync()?;
        self.vfs.drop_caches();
        Ok(())
    }

    fn run(&mut self, _: &Sync<'_>, done: &mut Done<'_>) -> Result<(), RunError> {
        for stage in std::mem::take(&mut self.run) {
            list::run_stage(&self.vfs, stage, self.spec.processes, done)?;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), RunError> {
        self.wanted.check(&self.vfs)
    }
}
