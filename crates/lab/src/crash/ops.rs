//! The operations of a crash-test task, and how a seeded mix of them is drawn.

use base::Rng;
use std::fmt;

/// One operation on files. Paths are below the task's own directory, `""` is that directory itself; offsets and lengths
/// are in sectors of 512 bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// A new empty file.
    Create(String),
    /// Overwrites, extends, or leaves a hole.
    Write {
        /// File.
        path: String,
        /// First sector.
        from: u64,
        /// Number of sectors.
        len: u64,
    },
    /// Cuts or extends to so many sectors.
    Truncate {
        /// File.
        path: String,
        /// New size in sectors.
        size: u64,
    },
    /// Moves a name, over an existing one if there is.
    Rename {
        /// Old name.
        from: String,
        /// New name.
        to: String,
    },
    /// A further name.
    Link {
        /// File.
        from: String,
        /// New name.
        to: String,
    },
    /// A symbolic link; its target is a text that leads nowhere.
    Symlink {
        /// What it says.
        target: String,
        /// Its name.
        to: String,
    },
    /// Removes a name.
    Unlink(String),
    /// A new directory.
    Mkdir(String),
    /// Removes an empty directory.
    Rmdir(String),
    /// Changes permission bits.
    Chmod {
        /// File or directory.
        path: String,
        /// New bits.
        perm: u16,
    },
    /// fsync of a file.
    Fsync(String),
    /// fdatasync of a file.
    Fdatasync(String),
    /// fsync of a directory.
    SyncDir(String),
    /// sync of everything.
    Sync,
    /// Keeps the file open; a later removal of its last name makes it an orphan. Lets go of the one before.
    Hold(String),
    /// Waits, ns.
    Pause(u64),
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Create(path) => write!(f, "create {path}"),
            Op::Write { path, from, len } => write!(f, "write {path} {from}+{len}"),
            Op::Truncate { path, size } => write!(f, "truncate {path} {size}"),
            Op::Rename { from, to } => write!(f, "rename {from} {to}"),
            Op::Link { from, to } => write!(f, "link {from} {to}"),
            Op::Symlink { target, to } => write!(f, "symlink {target} {to}"),
            Op::Unlink(path) => write!(f, "unlink {path}"),
            Op::Mkdir(path) => write!(f, "mkdir {path}"),
            Op::Rmdir(path) => write!(f, "rmdir {path}"),
            Op::Chmod { path, perm } => write!(f, "chmod {path} {perm:o}"),
            Op::Fsync(path) => write!(f, "fsync {path}"),
            Op::Fdatasync(path) => write!(f, "fdatasync {path}"),
            Op::SyncDir(path) => write!(f, "syncdir {path}"),
            Op::Sync => write!(f, "sync"),
            Op::Hold(path) => write!(f, "hold {path}"),
            Op::Pause(ns) => write!(f, "pause {ns}"),
        }
    }
}

/// Kinds of operations that a mix weighs.
const KINDS: usize = 16;

/// A seeded mix: how often each kind comes, and over which names.
#[derive(Clone, Debug)]
pub struct Mix {
    weights: [u64; KINDS],
    /// Paths of files that may be, and of directories.
    files: Vec<String>,
    dirs: Vec<String>,
    /// Largest file, sectors.
    sectors_max: u64,
}

/// What a mix stresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stress {
    /// Everything a little; weights drawn anew for each seed (swarm testing).
    Swarm,
    /// Names: directories that grow, split, shrink and go.
    Names,
    /// Mappings: files with many extents, whose tree blocks come and go.
    Extents,
    /// Overwriting in place, with fsync and fdatasync.
    Overwrite,
    /// Files made, synced, removed, and their blocks used again.
    Reuse,
}

impl Stress {
    /// All of them.
    pub const ALL: [Stress; 5] = [
        Stress::Swarm,
        Stress::Names,
        Stress::Extents,
        Stress::Overwrite,
        Stress::Reuse,
    ];
}

impl Mix {
    /// The mix for `stress`, with details drawn from `rng`.
    pub fn new(stress: Stress, rng: &mut Rng) -> Mix {
        let plain = |n: u32, dir: &str| (0..n).map(|i| format!("{dir}/f{i}")).collect::<Vec<_>>();
        let dirs = ["", "/d0", "/d1", "/d0/e"].map(String::from).to_vec();
        let mut files: Vec<String> = dirs.iter().flat_map(|d| plain(3, d)).collect();
        //           create write trunc rename link sym unlink mkdir rmdir chmod fsync fdata sdir sync hold pause
        let weights = match stress {
            Stress::Swarm => {
                let mut weights = [0; KINDS];
                for w in &mut weights {
                    *w = [0, 1, 3, 8][rng.below(4) as usize];
                }
                for must in [0, 1, 10] {
                    weights[must] = weights[must].max(2);
                }
                weights
            }
            Stress::Names => {
                let pad = "n".repeat(150);
                files = (0..70).map(|i| format!("/d0/{i}{pad}")).collect();
                [20, 2, 0, 4, 4, 3, 9, 3, 1, 1, 1, 0, 2, 1, 1, 1]
            }
            Stress::Extents => {
                files.truncate(3);
                [4, 30, 5, 1, 0, 0, 2, 0, 0, 0, 5, 2, 0, 1, 1, 1]
            }
            Stress::Overwrite => {
                files.truncate(3);
                [4, 20, 1, 0, 0, 0, 0, 0, 0, 1, 6, 8, 0, 1, 0, 2]
            }
            Stress::Reuse => {
                files.truncate(4);
                [8, 16, 4, 2, 0, 0, 9, 0, 0, 0, 4, 1, 1, 1, 2, 1]
            }
        };
        let sectors_max = match stress {
            Stress::Extents => 512,
            Stress::Names => 8,
            _ => 96,
        };
        Mix {
            weights,
            files,
            dirs,
            sectors_max,
        }
    }

    /// Draws one operation, which the state of the names may forbid.
    pub fn draw(&self, rng: &mut Rng) -> Op {
        let total: u64 = self.weights.iter().sum();
        let mut at = rng.below(total.max(1));
        let mut kind = 0;
        while kind + 1 < KINDS && at >= self.weights[kind] {
            at -= self.weights[kind];
            kind += 1;
        }
        self.of_kind(kind, rng)
    }

    fn of_kind(&self, kind: usize, rng: &mut Rng) -> Op {
        fn one(list: &[String], rng: &mut Rng) -> String {
            list[rng.below(list.len() as u64) as usize].clone()
        }
        let path = one(&self.files, rng);
        match kind {
            0 => Op::Create(path),
            1 => self.write(path, rng),
            2 => Op::Truncate {
                path,
                size: rng.below(self.sectors_max + 1),
            },
            3 => self.rename(path, rng),
            4 => Op::Link {
                from: path,
                to: one(&self.files, rng),
            },
            5 => Op::Symlink {
                // Short ones live in the inode, long ones in a block.
                target: "t".repeat(1 + rng.below(120) as usize),
                to: path,
            },
            6 => Op::Unlink(path),
            7 => Op::Mkdir(one(&self.dirs, rng)),
            8 => Op::Rmdir(one(&self.dirs, rng)),
            9 => Op::Chmod {
                path: if rng.one_in(4) {
                    one(&self.dirs, rng)
                } else {
                    path
                },
                perm: 0o600 | rng.below(0o100) as u16,
            },
            10 => Op::Fsync(path),
            11 => Op::Fdatasync(path),
            12 => Op::SyncDir(one(&self.dirs, rng)),
            13 => Op::Sync,
            14 => Op::Hold(path),
            _ => Op::Pause(rng.below(3_000_000)),
        }
    }

    fn write(&self, path: String, rng: &mut Rng) -> Op {
        let (from, len) = match rng.below(3) {
            // Somewhere, a few sectors.
            0 => (rng.below(self.sectors_max), 1 + rng.below(4)),
            // Whole pages.
            1 => (rng.below(self.sectors_max / 8) * 8, 8 * (1 + rng.below(5))),
            // From the start.
            _ => (0, 1 + rng.below(self.sectors_max.min(32))),
        };
        let len = len.min(self.sectors_max - from).max(1);
        Op::Write { path, from, len }
    }

    fn rename(&self, from: String, rng: &mut Rng) -> Op {
        let dirs = rng.one_in(4);
        let list = if dirs { &self.dirs } else { &self.files };
        let pick = |rng: &mut Rng| list[rng.below(list.len() as u64) as usize].clone();
        let from = if dirs { pick(rng) } else { from };
        Op::Rename {
            from,
            to: pick(rng),
        }
    }
}
