//! The operations of a task of a crash test, and how a seeded mix of them is drawn.
//!
//! They are the operations of ACE (CrashMonkey, OSDI 2018, table 4) and a few more. Writes through
//! a memory map are left out: the library has none, and to the page cache they are writes like
//! others.

use base::Rng;
use std::fmt;

/// One operation on files. Paths begin at the directory of the task, and `""` is that directory;
/// offsets, lengths and sizes are in bytes and need not be whole sectors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Makes an empty file.
    Create(String),
    /// Writes: overwrites, extends, or leaves a hole.
    Write {
        /// File.
        path: String,
        /// First byte.
        offset: u64,
        /// Number of bytes, not 0.
        len: u64,
    },
    /// Cuts or extends a file.
    Truncate {
        /// File.
        path: String,
        /// New size.
        size: u64,
    },
    /// Allocates a range, which reads as before, with zeros where there was nothing.
    Fallocate {
        /// File.
        path: String,
        /// First byte.
        offset: u64,
        /// Number of bytes, not 0.
        len: u64,
        /// Leaves the size (`FALLOC_FL_KEEP_SIZE`); otherwise it grows to the end of the range.
        keep_size: bool,
    },
    /// Moves a name, over an existing one if there is one.
    Rename {
        /// Old name.
        from: String,
        /// New name.
        to: String,
    },
    /// Gives a file one more name.
    Link {
        /// File.
        from: String,
        /// New name.
        to: String,
    },
    /// Makes a symbolic link; its target is a text that leads nowhere.
    Symlink {
        /// The target.
        target: String,
        /// Name of the link.
        to: String,
    },
    /// Removes a name.
    Unlink(String),
    /// Makes a directory.
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
    /// Sets an extended attribute of the name space `user`.
    SetXattr {
        /// File or directory.
        path: String,
        /// Its name without `user.`.
        name: String,
        /// Its value.
        value: Vec<u8>,
    },
    /// Removes an extended attribute of the name space `user`.
    RemoveXattr {
        /// File or directory.
        path: String,
        /// Its name without `user.`.
        name: String,
    },
    /// fsync of a file.
    Fsync(String),
    /// fdatasync of a file.
    Fdatasync(String),
    /// fsync of a directory.
    SyncDir(String),
    /// sync of the whole file system.
    Sync,
    /// Keeps the file open, so that the removal of its last name makes it an orphan, and closes the
    /// one that was kept open before.
    Hold(String),
    /// Waits so many ns.
    Pause(u64),
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Create(path) => write!(f, "create {path}"),
            Op::Write { path, offset, len } => write!(f, "write {path} {offset}+{len}"),
            Op::Truncate { path, size } => write!(f, "truncate {path} {size}"),
            Op::Fallocate {
                path,
                offset,
                len,
                keep_size,
            } => {
                let keep = if *keep_size { " keep" } else { "" };
                write!(f, "falloc {path} {offset}+{len}{keep}")
            }
            Op::SetXattr { path, name, value } => {
                write!(
                    f,
                    "setxattr {path} {name} {}",
                    String::from_utf8_lossy(value)
                )
            }
            Op::RemoveXattr { path, name } => write!(f, "removexattr {path} {name}"),
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

/// Number of kinds of operations that a mix weighs.
const KINDS: usize = 19;

/// A seeded mix: how often each kind of operation comes, and over which names.
#[derive(Clone, Debug)]
pub struct Mix {
    weights: [u64; KINDS],
    /// Paths that files may have, and paths that directories may have.
    files: Vec<String>,
    dirs: Vec<String>,
    /// Size of the largest file, bytes.
    bytes_max: u64,
}

/// What a mix stresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stress {
    /// Everything a little, with weights that are drawn anew for each seed (swarm testing).
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
    /// All values, in the order of their declaration.
    pub const ALL: [Stress; 5] = [
        Stress::Swarm,
        Stress::Names,
        Stress::Extents,
        Stress::Overwrite,
        Stress::Reuse,
    ];
}

impl Mix {
    /// A mix for `stress`; its details are drawn from `rng`.
    pub fn new(stress: Stress, rng: &mut Rng) -> Mix {
        let plain = |n: u32, dir: &str| (0..n).map(|i| format!("{dir}/f{i}")).collect::<Vec<_>>();
        let dirs = ["", "/d0", "/d1", "/d0/e"].map(String::from).to_vec();
        let mut files: Vec<String> = dirs.iter().flat_map(|d| plain(3, d)).collect();
        // create write trunc rename link sym unlink mkdir rmdir chmod fsync fdata sdir sync hold
        // pause setx remx falloc
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
                [20, 2, 0, 4, 4, 3, 9, 3, 1, 1, 1, 0, 2, 1, 1, 1, 1, 1, 0]
            }
            Stress::Extents => {
                files.truncate(3);
                [4, 30, 5, 1, 0, 0, 2, 0, 0, 0, 5, 2, 0, 1, 1, 1, 0, 0, 4]
            }
            Stress::Overwrite => {
                files.truncate(3);
                [4, 20, 1, 0, 0, 0, 0, 0, 0, 1, 6, 8, 0, 1, 0, 2, 0, 0, 0]
            }
            Stress::Reuse => {
                files.truncate(4);
                [8, 16, 4, 2, 0, 0, 9, 0, 0, 0, 4, 1, 1, 1, 2, 1, 0, 0, 1]
            }
        };
        let bytes_max = match stress {
            Stress::Extents => 256 << 10,
            Stress::Names => 4096,
            _ => 48 << 10,
        };
        Mix {
            weights,
            files,
            dirs,
            bytes_max,
        }
    }

    /// Draws one operation. The state of the names may forbid it: callers test that.
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
                size: self.place(rng),
            },
            3 => self.rename(path, rng),
            4 => Op::Link {
                from: path,
                to: one(&self.files, rng),
            },
            5 => Op::Symlink {
                // Short targets live in the inode, long ones in a block.
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
            16 => Op::SetXattr {
                path,
                name: format!("x{}", rng.below(3)),
                // Short values lie in the inode, long ones in a block.
                value: vec![b'a' + rng.below(26) as u8; rng.below(300) as usize],
            },
            17 => Op::RemoveXattr {
                path,
                name: format!("x{}", rng.below(3)),
            },
            18 => Op::Fallocate {
                path,
                offset: self.place(rng),
                len: 1 + rng.below(16 << 10),
                keep_size: rng.one_in(2),
            },
            _ => Op::Pause(rng.below(3_000_000)),
        }
    }

    /// Draws an offset or a size, in pages, sectors or bytes.
    fn place(&self, rng: &mut Rng) -> u64 {
        let grain = [1, 512, 4096][rng.below(3) as usize];
        rng.below(self.bytes_max / grain + 1) * grain
    }

    fn write(&self, path: String, rng: &mut Rng) -> Op {
        let max = self.bytes_max;
        let (offset, len) = match rng.below(4) {
            // A few sectors at any sector.
            0 => (rng.below(max / 512) * 512, 512 * (1 + rng.below(4))),
            // Whole pages.
            1 => (rng.below(max / 4096) * 4096, 4096 * (1 + rng.below(5))),
            // From the start.
            2 => (0, 512 * (1 + rng.below((max / 512).min(32)))),
            // Any bytes.
            _ => (rng.below(max), 1 + rng.below(6000)),
        };
        let len = len.min(max - offset).max(1);
        Op::Write { path, offset, len }
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
