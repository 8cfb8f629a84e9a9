//! Fast commits that Varve wrote (`record=fast`): after an fsync the image is as a power cut would
//! leave it, and Varve, e2fsck and the running kernel have to find there what was synced.

use crate::common::{Image, pattern};
use crate::replay::{Tree, tree_of};
use base::{Ino, Rng};
use block::Queue;
use blockdev::Image as Blocks;
use fscore::{Creds, FallocateMode, FileKind, FileSystem, FsError, FsResult, RenameMode, SetAttr};
use rt::{Sim, SimConfig};
use std::sync::Arc;
use varve_ext4::{Ext4, MountOptions};

const MIB: u64 = 24;
/// Files and directories of a history.
const FILES: u64 = 6;
const DIRS: u64 = 3;

/// What an fsync left: the image, what the volume showed then, and the fast commits so far.
pub struct Left {
    pub image: Blocks,
    pub bytes: u64,
    pub live: Tree,
    pub fast: u64,
    /// What was done last.
    pub what: String,
}

struct History {
    fs: Arc<Ext4>,
    ram: Arc<blockdev::Ram>,
    rng: Rng,
    bytes: u64,
    left: Vec<Left>,
    done: Vec<String>,
    /// Also what most systems do seldom.
    wide: bool,
    /// Open files without a name.
    open: Vec<Ino>,
}

/// Runs `changes` random changes with the options `mount`, on a volume made with the options
/// `mkfs`, and answers what each fsync left.
pub fn history(mkfs: &[&str], mount: &str, (seed, wide): (u64, bool), changes: u64) -> Vec<Left> {
    let mut all = vec!["-J", "size=4", "-N", "256"];
    all.extend(mkfs);
    let image = Image::new(MIB, &all);
    let blocks: Blocks = image.load().blocks().into_iter().collect();
    let bytes = MIB << 20;
    let mount = mount.to_string();
    let outcome = Sim::new(SimConfig::seeded(seed)).run(move || {
        let ram = Arc::new(blocks.to_ram(bytes));
        let options = MountOptions::parse(&mount).expect("options");
        let fs = Ext4::mount(Queue::new(ram.clone()), options).expect("mounts");
        let mut history = History {
            fs,
            ram,
            rng: Rng::named(seed, "fast commits"),
            bytes,
            left: Vec::new(),
            done: Vec::new(),
            wide,
            open: Vec::new(),
        };
        history.fill().expect("room");
        for n in 0..changes {
            history.step(n);
        }
        history.fs.unmount().expect("unmounts");
        history.left
    });
    outcome.unwrap()
}

/// A file in many groups grows by fast commits, and full commits in between fill a small log to
/// every level.
pub fn tight_log(rounds: u64) -> Vec<Left> {
    let image = Image::new(
        MIB,
        &[
            "-b",
            "1024",
            "-g",
            "256",
            "-J",
            "size=1",
            "-N",
            "256",
            "-O",
            "fast_commit",
        ],
    );
    let blocks: Blocks = image.load().blocks().into_iter().collect();
    let bytes = MIB << 20;
    let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
        let ram = Arc::new(blocks.to_ram(bytes));
        let options = MountOptions::parse("scheme=fast-commit").expect("options");
        let fs = Ext4::mount(Queue::new(ram.clone()), options).expect("mounts");
        let creds = Creds::default();
        let file = |name: &str| {
            (fs.create(fs.root(), name.as_bytes(), FileKind::File, 0o600, 0, creds))
                .expect("room")
                .ino
        };
        let (large, other) = (file("large"), file("other"));
        fs.write(large, 0, &vec![1; 18 << 20]).expect("room");
        fs.sync().expect("syncs");
        let mut left = Vec::new();
        for n in 0..rounds {
            let value = n.to_le_bytes();
            fs.setxattr(other, b"user.n", &value, fscore::XattrMode::Any)
                .expect("room");
            fs.fsync(other, false).expect("syncs");
            let size = fs.getattr(large).expect("there").size;
            fs.write(large, size.next_multiple_of(1024), b"more")
                .expect("room");
            fs.fsync(large, false).expect("syncs");
            let stats = fs.journal().stats();
            left.push(Left {
                image: ram.blocks().into_iter().collect(),
                bytes,
                live: tree_of(&fs).expect("a walk"),
                fast: stats.fast_commits,
                what: format!("round {n}, {} refused", stats.fast_refused - n),
            });
        }
        fs.unmount().expect("unmounts");
        left
    });
    outcome.unwrap()
}

/// The last name of an open file goes, `replaced` by another file or not, and another file is
/// synced. The large one lies in more groups than the log has blocks.
pub fn giant_goes(mount: &str, replaced: bool) -> Left {
    const LARGE: u64 = 400;
    let mut mkfs = vec!["-b", "1024", "-g", "256", "-J", "size=1", "-N", "16384"];
    mkfs.extend(["-O", "fast_commit,^resize_inode"]);
    let blocks: Blocks = (Image::new(LARGE, &mkfs).load().blocks().into_iter()).collect();
    let (bytes, mount) = (LARGE << 20, mount.to_string());
    let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
        let ram = Arc::new(blocks.to_ram(bytes));
        let mounted = || {
            let options = MountOptions::parse(&mount).expect("options");
            Ext4::mount(Queue::new(ram.clone()), options).expect("mounts")
        };
        let make = |fs: &Ext4, name: &[u8]| {
            let made = fs.create(fs.root(), name, FileKind::File, 0o600, 0, Creds::default());
            made.expect("room").ino
        };
        let fs = mounted();
        let giant = make(&fs, b"giant");
        fs.fallocate(giant, FallocateMode::Allocate, 0, 300 << 20)
            .expect("room");
        let other = make(&fs, b"other");
        fs.unmount().expect("unmounts");
        let fs = mounted();
        fs.open(giant).expect("there");
        match replaced {
            true => fs.rename(
                fs.root(),
                b"other",
                fs.root(),
                b"giant",
                RenameMode::Replace,
            ),
            false => fs.unlink(fs.root(), b"giant"),
        }
        .expect("there");
        fs.write(other, 0, b"content").expect("room");
        fs.writeback(base::Time(u64::MAX)).expect("room");
        fs.fsync(other, false).expect("syncs");
        let left = Left {
            image: ram.blocks().into_iter().collect(),
            bytes,
            live: tree_of(&fs).expect("a walk"),
            fast: fs.journal().stats().fast_commits,
            what: "a large file goes".into(),
        };
        fs.release(giant).expect("open");
        fs.unmount().expect("unmounts");
        left
    });
    outcome.unwrap()
}

fn is_file(fs: &Ext4, ino: Ino) -> bool {
    (fs.getattr(ino)).is_ok_and(|attr| attr.kind == FileKind::File)
}

impl History {
    /// Files that are durable by a full commit.
    fn fill(&mut self) -> FsResult<()> {
        let creds = Creds::default();
        for d in 0..DIRS {
            let dir = (self.fs).mkdir(self.fs.root(), format!("d{d}").as_bytes(), 0o755, creds)?;
            for n in 0..FILES {
                let name = format!("f{n}");
                let made =
                    (self.fs).create(dir.ino, name.as_bytes(), FileKind::File, 0o644, 0, creds)?;
                self.fs
                    .write(made.ino, 0, &pattern(n, (n * n * 700) as usize + 50))?;
            }
        }
        self.fs.sync()
    }

    fn dir(&mut self) -> FsResult<Ino> {
        let name = format!("d{}", self.rng.below(DIRS));
        self.fs.lookup(self.fs.root(), name.as_bytes())
    }

    fn change_mode(&self, ino: Ino) -> FsResult<()> {
        let perm = Some(self.fs.getattr(ino)?.perm ^ 0o020);
        let set = SetAttr {
            perm,
            ..SetAttr::default()
        };
        self.fs.setattr(ino, &set).map(drop)
    }

    fn step(&mut self, n: u64) {
        // A change of a missing file may fail.
        let (what, synced) = match self.change(n) {
            Ok(done) => done,
            Err(FsError::Posix(_)) => return,
            Err(e) => panic!("change {n} after {:?}: {e}", self.done),
        };
        self.done.push(what.clone());
        let Some(ino) = synced.filter(|_| self.rng.below(3) > 0) else {
            return;
        };
        // An fsync of an inode that has not changed commits nothing, and within one tick of the
        // clock a write in place changes none.
        if let Err(e) = self.change_mode(ino) {
            panic!("{what}: {e}");
        }
        // So the data of all files is in the transaction, and durable with it.
        (self.fs.writeback(base::Time(u64::MAX))).expect("room");
        match self.fs.fsync(ino, false) {
            Ok(()) => {}
            Err(FsError::Posix(_)) => return,
            Err(e) => panic!("fsync after {what}: {e}"),
        }
        self.left.push(Left {
            image: self.ram.blocks().into_iter().collect(),
            bytes: self.bytes,
            live: tree_of(&self.fs).expect("a walk"),
            fast: self.fs.journal().stats().fast_commits,
            what: self.done.join("\n  "),
        });
    }

    /// One random change; answers what it was, and an inode to sync.
    fn change(&mut self, n: u64) -> FsResult<(String, Option<Ino>)> {
        let creds = Creds::default();
        let (dir, to) = (self.dir()?, self.dir()?);
        let name = format!("f{}", self.rng.below(FILES + 2));
        let other = format!("f{}", self.rng.below(FILES + 2));
        let (a, b) = (name.as_bytes(), other.as_bytes());
        let fs = self.fs.clone();
        let there = || fs.lookup(dir, a);
        let kind = self.rng.below(if self.wide { 38 } else { 26 });
        if kind >= 26 {
            let synced = self.change_seldom(kind, n, (dir, a), (to, b))?;
            let synced = synced.filter(|&ino| is_file(&fs, ino));
            return Ok((format!("{kind}: {name} in {dir}, {other} in {to}"), synced));
        }
        let synced = match kind {
            0..=3 => {
                let made = fs.create(dir, a, FileKind::File, 0o640, 0, creds)?;
                let len = self.rng.below(30_000) as usize;
                fs.write(made.ino, 0, &pattern(n, len))?;
                made.ino
            }
            4..=8 => {
                let ino = there()?;
                let (at, len) = (self.rng.below(90_000), 1 + self.rng.below(20_000));
                fs.write(ino, at, &pattern(n, len as usize))?;
                ino
            }
            9 | 10 => {
                fs.rename(dir, a, to, b, RenameMode::Replace)?;
                fs.lookup(to, b)?
            }
            11 | 12 => {
                let ino = there()?;
                fs.link(ino, to, b)?;
                ino
            }
            13..=15 => {
                let ino = there()?;
                fs.unlink(dir, a)?;
                // Also the file that has just gone, if it has other names.
                match fs.getattr(ino) {
                    Ok(attr) if attr.nlink > 0 => ino,
                    _ => self.fs.lookup(to, b)?,
                }
            }
            16 | 17 => {
                let ino = there()?;
                let size = Some(self.rng.below(60_000));
                fs.setattr(
                    ino,
                    &SetAttr {
                        size,
                        ..SetAttr::default()
                    },
                )?;
                ino
            }
            18 => {
                let ino = there()?;
                let (at, len) = (self.rng.below(50_000), 1 + self.rng.below(60_000));
                let mode = match self.rng.below(2) {
                    0 => FallocateMode::Allocate,
                    _ => FallocateMode::KeepSize,
                };
                fs.fallocate(ino, mode, at, len)?;
                ino
            }
            19 => {
                let made = fs.mkdir(dir, a, 0o700, creds)?;
                let inside = fs.create(made.ino, b, FileKind::File, 0o600, 0, creds)?;
                fs.write(inside.ino, 0, b"inside")?;
                inside.ino
            }
            20 => {
                fs.rmdir(dir, a)?;
                self.fs.lookup(to, b)?
            }
            21 => {
                let ino = there()?;
                let perm = Some(0o600 + n as u16 % 64);
                fs.setattr(
                    ino,
                    &SetAttr {
                        perm,
                        ..SetAttr::default()
                    },
                )?;
                ino
            }
            22 => fs.symlink(dir, a, b"somewhere", creds)?.ino,
            23 => {
                let ino = there()?;
                fs.setxattr(ino, b"user.name", b"value", fscore::XattrMode::Any)?;
                ino
            }
            24 => {
                fs.rename(dir, a, to, b, RenameMode::Exchange)?;
                there()?
            }
            _ => fs.create(dir, a, FileKind::Fifo, 0o600, 0, creds)?.ino,
        };
        let what = format!("{kind}: {name} in {dir}, {other} in {to}");
        Ok((what, is_file(&fs, synced).then_some(synced)))
    }

    fn change_seldom(
        &mut self,
        kind: u64,
        n: u64,
        (dir, a): (Ino, &[u8]),
        (to, b): (Ino, &[u8]),
    ) -> FsResult<Option<Ino>> {
        let (fs, creds) = (self.fs.clone(), Creds::default());
        let there = || fs.lookup(dir, a);
        let block = 4096;
        Ok(match kind {
            // A file without a name stays open, is written, cut and synced.
            26 | 27 => {
                let ino = there()?;
                fs.open(ino)?;
                fs.unlink(dir, a)?;
                self.open.push(ino);
                fs.write(ino, self.rng.below(50_000), &pattern(n, 7000))?;
                fs.lookup(to, b).ok()
            }
            28 | 29 => {
                let ino = *self.open.last().ok_or(fscore::Errno::NoEnt)?;
                fs.write(ino, self.rng.below(50_000), &pattern(n, 7000))?;
                self.resize(ino)?;
                fs.fsync(ino, false)?;
                fs.lookup(to, b).ok()
            }
            30 | 31 => {
                let at = self.rng.below(self.open.len().max(1) as u64) as usize;
                if at < self.open.len() {
                    fs.release(self.open.remove(at))?;
                }
                let made = fs.create(dir, a, FileKind::File, 0o600, 0, creds)?;
                Some(made.ino)
            }
            32 => {
                let made = fs.tmpfile(dir, 0o600, creds)?;
                fs.write(made.ino, 0, &pattern(n, 9000))?;
                let linked = fs.link(made.ino, to, b);
                fs.release(made.ino)?;
                linked.map(|_| Some(made.ino))?
            }
            33 => {
                let ino = there()?;
                let mode = match self.rng.below(3) {
                    0 => FallocateMode::PunchHole,
                    1 => FallocateMode::ZeroRange,
                    _ => FallocateMode::ZeroRangeKeepSize,
                };
                fs.fallocate(
                    ino,
                    mode,
                    self.rng.below(50_000),
                    1 + self.rng.below(20_000),
                )?;
                Some(ino)
            }
            34 => {
                let ino = there()?;
                let mode = match self.rng.below(2) {
                    0 => FallocateMode::CollapseRange,
                    _ => FallocateMode::InsertRange,
                };
                fs.fallocate(ino, mode, self.rng.below(4) * block, block)?;
                Some(ino)
            }
            35 => {
                let ino = there()?;
                let flags = fs.file_flags(ino)?;
                fs.set_file_flags(ino, fscore::FileFlags(flags.0 ^ 0x40))?;
                Some(ino)
            }
            36 => {
                let ino = there()?;
                self.resize(ino)?;
                fs.write(ino, 0, &pattern(n, 30_000))?;
                self.resize(ino)?;
                Some(ino)
            }
            _ => {
                // So what follows begins a transaction.
                fs.sync()?;
                None
            }
        })
    }

    fn resize(&mut self, ino: Ino) -> FsResult<()> {
        let set = SetAttr {
            size: Some(self.rng.below(60_000)),
            ..SetAttr::default()
        };
        self.fs.setattr(ino, &set).map(drop)
    }
}
