//! Carries the calls of a recording out in a simulation, and records the commands of the device.

use super::BlockModel;
use super::runs::{Habits, Run, Then};
use super::steps::Step;
use crate::call::{Attribute, Recording, What};
use crate::state::ModelError;
use crate::tree::{Kind, Node, NodeId, PAGE, ROOT, Tree};
use base::{Ino, Nanos, Time};
use blockdev::{Image, SpecDisk, Trace};
use crash::{Disk, Target, Volume};
use rig::{Data, Fs, Mounted};
use rt::{Sim, SimConfig};
use std::collections::BTreeMap;
use std::sync::Arc;
use vfs::{
    Creds, FallocateMode, FileKind, FileSystem, FsError, RenameMode, SetAttr, WritebackPolicy,
    XattrMode,
};

/// Interval of the timer of commits, and the pause in which it elapses (replay-B2). No call takes
/// so long.
const INTERVAL: Nanos = Nanos::from_secs(5);
const PAUSE: Nanos = Nanos::from_secs(6);
/// Time between two calls, so that each moment belongs to one (replay-B6).
const BETWEEN: Nanos = Nanos(1000);
/// Least size of a volume: of ext4 with its log, and of F2FS, which has no room for six logs,
/// cleaning and a journal below it.
pub(super) const EXT4_BYTES_MIN: u64 = 32 << 20;
const F2FS_BYTES_MIN: u64 = 136 << 20;
/// Largest volume: its free blocks are made one by one.
const BYTES_MAX: u64 = 4 << 30;
/// A node takes this for its inode, its names and the blocks that map it.
const NODE_BYTES: u64 = 16 << 10;
/// The volume is so many times as large as what the recording writes: F2FS writes elsewhere and
/// keeps room for cleaning.
const ROOM: u64 = 4;
/// Seeds the times of the device.
pub(super) const SEED: u64 = 29;

/// A volume that holds the tree of the begin, and nothing that is not durable.
pub struct Base {
    /// The model with the size that the recording needs.
    pub model: BlockModel,
    image: Image,
    inos: BTreeMap<NodeId, Ino>,
}

/// A recorded run.
pub struct Tape {
    /// The commands of the device.
    pub trace: Trace,
    /// When each call began and ended.
    pub calls: Vec<(Time, Time)>,
    /// When the first call began: until then the volume was being mounted.
    pub began: Time,
    /// When the last one had ended.
    pub ended: Time,
}

impl Base {
    /// Makes the volume for a recording.
    ///
    /// # Errors
    /// It would be too large, or holds something that the file system refuses.
    pub fn new(model: &BlockModel, recording: &Recording) -> Result<Base, ModelError> {
        let mut model = model.clone();
        let least = match model.stack.fs {
            Fs::Ext4 | Fs::Ext3 => EXT4_BYTES_MIN,
            Fs::F2fs => F2FS_BYTES_MIN,
        };
        model.stack.bytes = bytes(recording)?.max(least);
        model.caps.sectors = model.stack.bytes / 512;
        let failed = |e: &dyn std::fmt::Display| ModelError::Simulation(format!("{model}: {e}"));
        let target = Target::Spec(model.caps.clone());
        let volume = Volume::new(&model.stack, &target).map_err(|e| failed(&e))?;
        let disk = volume.fresh(SEED).map_err(|e| failed(&e))?;
        let Disk::Spec(disk) = disk else {
            unreachable!("a volume on promises is a disk in memory")
        };
        let filled = simulate(|| {
            let options = model.options.clone().timers(None, None);
            let mounted = Mounted::on(disk.clone(), options, WritebackPolicy::off());
            let mounted = mounted.map_err(|e| e.to_string())?;
            let mut inos = BTreeMap::new();
            fill(&*mounted.fs.seam(), &recording.start, &mut inos)?;
            mounted.unmount().map_err(|e| e.to_string())?;
            Ok(inos)
        });
        let inos = filled.and_then(|filled| filled).map_err(|e| failed(&e))?;
        Ok(Base {
            image: disk.visible(),
            inos,
            model,
        })
    }

    /// Runs the recording once.
    ///
    /// # Errors
    /// The file system refuses a call, or fails.
    pub fn carry(
        &self,
        recording: &Recording,
        steps: &[Step],
        run: &Run,
    ) -> Result<Tape, ModelError> {
        let disk =
            SpecDisk::from_image(self.model.caps.clone(), self.image.clone(), SEED + run.seed);
        let commits = run.then.iter().any(|then| then.commit);
        let carried = simulate(|| {
            disk.record();
            let options = &self.model.options;
            let options = options.clone().timers(commits.then_some(INTERVAL), None);
            let mounted = Mounted::on(disk.clone(), options, WritebackPolicy::off());
            let mounted = mounted.map_err(|e| ModelError::Simulation(e.to_string()))?;
            let began = rt::now();
            let mut carrier = Carrier {
                fs: mounted.fs.seam(),
                ended: &|| self.model.ended(),
                at_once: self.model.habits().races,
                recording,
                last_use: last_use(recording),
                inos: self.inos.clone(),
                pinned: BTreeMap::new(),
                spans: Vec::with_capacity(recording.calls.len()),
            };
            let carried = carrier.all(steps, run);
            let spans = std::mem::take(&mut carrier.spans);
            let ended = rt::now();
            disk.power_off(0);
            rt::power_cut();
            carried.map(|()| (spans, began, ended))
        });
        let carried = carried.map_err(|e| {
            ModelError::Simulation(format!("{}, run {}: {e}", self.model, run.name))
        })?;
        let (calls, began, ended) = carried?;
        let trace = disk.take_trace().expect("the disk was recording");
        Ok(Tape {
            trace,
            calls,
            began,
            ended,
        })
    }
}

/// Runs `body` in a simulation.
pub(super) fn simulate<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    let sim = SimConfig {
        quiet: true,
        ..SimConfig::seeded(SEED)
    };
    let outcome = Sim::new(sim).run(body);
    match (outcome.first_failure, outcome.value) {
        (None, Some(value)) => Ok(value),
        (Some(failure), _) => Err(format!("{failure}; replay: {}", outcome.replay)),
        (None, None) => Err("the simulation gave no value".into()),
    }
}

/// Bytes of the volume that a recording needs.
pub(super) fn bytes(recording: &Recording) -> Result<u64, ModelError> {
    let mut need = 0;
    recording.start.walk(&mut |_, _, node| {
        need += NODE_BYTES + node.pages.len() as u64 * PAGE;
    });
    for (call, made) in recording.calls.iter().enumerate() {
        need += match &made.what {
            What::Write { data, .. } => data.len() as u64 + 2 * PAGE,
            What::Allocate { len, zero, .. } if !zero => *len,
            What::Create { .. } | What::CreateUnnamed { .. } | What::Link { .. } => NODE_BYTES,
            _ => 0,
        };
        if need.saturating_mul(ROOM) > BYTES_MAX {
            let why = format!(
                "up to here {} MiB are written, and a volume of {} MiB, the largest of this model, holds \
                 at most {}: record less at once",
                need >> 20,
                BYTES_MAX >> 20,
                (BYTES_MAX / ROOM) >> 20
            );
            return Err(ModelError::Call { call, why });
        }
    }
    Ok((need * ROOM).next_multiple_of(8 << 20))
}

/// Makes a tree on an empty volume.
pub(super) fn fill(
    fs: &dyn FileSystem,
    tree: &Tree,
    inos: &mut BTreeMap<NodeId, Ino>,
) -> Result<(), String> {
    if tree.find(b"lost+found").is_none() && fs.lookup(fs.root(), b"lost+found").is_ok() {
        let removed = fs.rmdir(fs.root(), b"lost+found");
        removed.map_err(|e| format!("removing lost+found: {e}"))?;
    }
    inos.insert(ROOT, fs.root());
    let mut outcome = Ok(());
    tree.walk(&mut |path, id, node| {
        if outcome.is_ok() {
            let made = fill_one(fs, tree, inos, path, id, node);
            let name = base::plain::shown(path);
            outcome = made.map_err(|e| format!("making {name} of the tree of the begin: {e}"));
        }
    });
    // A default ACL, or a group that a directory hands on, would change what is made later.
    tree.walk(&mut |path, id, node| {
        if outcome.is_ok() {
            let name = base::plain::shown(path);
            let set = attributes(fs, inos[&id], node);
            outcome = set.map_err(|e| format!("attributes of {name}: {e}"));
        }
    });
    outcome
}

fn fill_one(
    fs: &dyn FileSystem,
    tree: &Tree,
    inos: &mut BTreeMap<NodeId, Ino>,
    path: &[u8],
    id: NodeId,
    node: &Node,
) -> Result<(), FsError> {
    if id == ROOT {
        return Ok(());
    }
    let cut = path.iter().rposition(|&c| c == b'/');
    let (above, name) = match cut {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&path[..0], path),
    };
    let dir = inos[&tree.find(above).expect("walked before what is in it")];
    if let Some(ino) = inos.get(&id) {
        return fs.link(*ino, dir, name).map(drop);
    }
    let ino = make(fs, (dir, name), &node.kind, node.mode, node.owner)?;
    inos.insert(id, ino);
    for (page, content) in &node.pages {
        let room = node.size.saturating_sub(page * PAGE).min(PAGE) as usize;
        whole(fs.write(ino, page * PAGE, &content[..room])?, room)?;
    }
    if node.kind == Kind::File && fs.getattr(ino)?.size != node.size {
        let size = Some(node.size);
        fs.setattr(
            ino,
            &SetAttr {
                size,
                ..SetAttr::default()
            },
        )?;
    }
    Ok(())
}

fn attributes(fs: &dyn FileSystem, ino: Ino, node: &Node) -> Result<(), FsError> {
    for (name, value) in &node.xattrs {
        fs.setxattr(ino, name, value, XattrMode::Any)?;
    }
    let set = SetAttr {
        perm: Some(node.mode & 0o7777).filter(|_| !matches!(node.kind, Kind::Symlink(_))),
        uid: Some(node.owner.0),
        gid: Some(node.owner.1),
        ..SetAttr::default()
    };
    fs.setattr(ino, &set).map(drop)
}

fn make(
    fs: &dyn FileSystem,
    (dir, name): (Ino, &[u8]),
    kind: &Kind,
    mode: u16,
    owner: (u32, u32),
) -> Result<Ino, FsError> {
    let creds = creds(owner);
    let perm = mode & 0o7777;
    let made = match kind {
        Kind::File => fs.create(dir, name, FileKind::File, perm, 0, creds),
        Kind::Dir => fs.mkdir(dir, name, perm, creds),
        Kind::Symlink(target) => fs.symlink(dir, name, target, creds),
        Kind::Special(mode, device) => {
            let kind = FileKind::from_mode(*mode).unwrap_or(FileKind::Fifo);
            fs.create(dir, name, kind, perm, *device, creds)
        }
    };
    Ok(made?.ino)
}

fn creds((uid, gid): (u32, u32)) -> Creds {
    Creds { uid, gid, umask: 0 }
}

/// A write that stops early has met the end of the room.
fn whole(done: usize, len: usize) -> Result<(), FsError> {
    match done == len {
        true => Ok(()),
        false => Err(vfs::Errno::NoSpc.into()),
    }
}

/// Index of the last call that uses each node.
pub(super) fn last_use(recording: &Recording) -> BTreeMap<NodeId, usize> {
    let mut last = BTreeMap::new();
    for (call, made) in recording.calls.iter().enumerate() {
        let mut uses = |node: &NodeId| {
            last.insert(*node, call);
        };
        match &made.what {
            What::Create { node, .. }
            | What::CreateUnnamed { node, .. }
            | What::Link { node, .. }
            | What::Unlink { node, .. }
            | What::Write { node, .. }
            | What::Truncate { node, .. }
            | What::Allocate { node, .. }
            | What::SetAttribute { node, .. }
            | What::Sync { node, .. } => uses(node),
            What::Rename { node, replaced, .. } => {
                uses(node);
                replaced.iter().for_each(uses);
            }
            What::SyncAll | What::Acknowledge(_) | What::Failed { .. } => {}
        }
    }
    last
}

/// Carries out one run.
pub(super) struct Carrier<'a> {
    pub fs: Arc<dyn FileSystem>,
    /// Whether it was asked to end; answers why.
    pub ended: &'a dyn Fn() -> Result<(), String>,
    /// A commit behind write-back does not wait for it (replay-B2).
    pub at_once: bool,
    pub recording: &'a Recording,
    pub last_use: BTreeMap<NodeId, usize>,
    pub inos: BTreeMap<NodeId, Ino>,
    /// Nodes that are held as by an open file: until the last call that uses them, they outlive
    /// their last name.
    pub pinned: BTreeMap<NodeId, Ino>,
    pub spans: Vec<(Time, Time)>,
}

impl Carrier<'_> {
    /// Carries out all steps (replay-B1).
    pub fn all(&mut self, steps: &[Step], run: &Run) -> Result<(), ModelError> {
        for (step, then) in steps.iter().zip(&run.then) {
            (self.ended)().map_err(ModelError::Simulation)?;
            if self.spans.len() == step.call {
                rt::sleep(BETWEEN);
                self.spans.push((rt::now(), Time(u64::MAX)));
                // replay-B6: the first cut that counts as behind the begin of a call lies behind
                // this moment.
                rt::sleep(Nanos(1));
            }
            let refused = |e: FsError| {
                let call = step.call;
                let why = match e.errno() {
                    vfs::Errno::NoSpc => format!("the volume of the model is full: {e}"),
                    _ => e.to_string(),
                };
                ModelError::Call { call, why }
            };
            self.step(step).map_err(refused)?;
            if step.last {
                self.spans[step.call].1 = rt::now();
                self.unpin(step.call).map_err(refused)?;
            }
            self.then(*then).map_err(refused)?;
        }
        // What has ended is told from what comes later.
        rt::sleep(BETWEEN);
        Ok(())
    }

    fn then(&self, then: Then) -> Result<(), FsError> {
        if then.write {
            // replay-B3.
            self.fs.writeback(rt::now() + Nanos(1))?;
        }
        match then.commit {
            true if then.write && self.at_once => self.fs.fsync(self.fs.root(), false),
            true => {
                rt::sleep(PAUSE);
                Ok(())
            }
            false => Ok(()),
        }
    }

    fn ino(&mut self, node: NodeId) -> Result<Ino, FsError> {
        let known = self.inos.get(&node).copied();
        let ino = known.ok_or(FsError::from(vfs::Errno::Stale))?;
        if !self.pinned.contains_key(&node) {
            self.fs.open(ino)?;
            self.pinned.insert(node, ino);
        }
        Ok(ino)
    }

    /// Lets the nodes go that no later call uses.
    fn unpin(&mut self, call: usize) -> Result<(), FsError> {
        let done = |node: &NodeId| self.last_use.get(node).is_none_or(|last| *last <= call);
        let gone: Vec<NodeId> = self.pinned.keys().copied().filter(done).collect();
        for node in gone {
            let ino = self.pinned.remove(&node).expect("just seen");
            self.fs.release(ino)?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), FsError> {
        let fs = self.fs.clone();
        match &self.recording.calls[step.call].what {
            What::Create {
                dir,
                name,
                node,
                kind,
                mode,
                owner,
            } => {
                let dir = self.ino(*dir)?;
                let ino = make(&*fs, (dir, name), kind, *mode, *owner)?;
                self.inos.insert(*node, ino);
                self.ino(*node).map(drop)
            }
            What::CreateUnnamed { node, mode, owner } => {
                let made = fs.tmpfile(fs.root(), *mode & 0o7777, creds(*owner))?;
                self.inos.insert(*node, made.ino);
                self.pinned.insert(*node, made.ino);
                Ok(())
            }
            What::Link { node, dir, name } => {
                let (ino, dir) = (self.ino(*node)?, self.ino(*dir)?);
                fs.link(ino, dir, name).map(drop)
            }
            What::Unlink { dir, name, node } => {
                let (ino, dir) = (self.ino(*node)?, self.ino(*dir)?);
                match fs.getattr(ino)?.kind {
                    FileKind::Dir => fs.rmdir(dir, name),
                    _ => fs.unlink(dir, name),
                }
            }
            What::Rename {
                from,
                to,
                node,
                replaced,
                exchange,
            } => {
                for node in [Some(*node), *replaced].into_iter().flatten() {
                    self.ino(node)?;
                }
                let (from_dir, to_dir) = (self.ino(from.0)?, self.ino(to.0)?);
                let mode = match exchange {
                    true => RenameMode::Exchange,
                    false => RenameMode::Replace,
                };
                fs.rename(from_dir, &from.1, to_dir, &to.1, mode)
            }
            What::Sync {
                node,
                data_only,
                failed: None,
            } => fs.fsync(self.ino(*node)?, *data_only),
            // replay-B8.
            What::Sync { .. } => Ok(()),
            What::SyncAll => fs.sync(),
            What::Acknowledge(_) | What::Failed { .. } => Ok(()),
            what => self.change(what, step),
        }
    }

    /// Carries out a change of one node.
    fn change(&mut self, what: &What, step: &Step) -> Result<(), FsError> {
        let fs = self.fs.clone();
        match what {
            What::Write {
                node, offset, data, ..
            } => {
                let ino = self.ino(*node)?;
                let at = offset + step.bytes.start as u64;
                let data = &data[step.bytes.clone()];
                whole(fs.write(ino, at, data)?, data.len())
            }
            What::Truncate { node, size, .. } => {
                let size = Some(*size);
                let set = SetAttr {
                    size,
                    ..SetAttr::default()
                };
                fs.setattr(self.ino(*node)?, &set).map(drop)
            }
            What::Allocate {
                node,
                offset,
                len,
                zero,
                size,
                size_before,
            } => {
                let mode = match (zero, size > size_before) {
                    (true, true) => FallocateMode::ZeroRange,
                    (true, false) => FallocateMode::PunchHole,
                    (false, true) => FallocateMode::Allocate,
                    (false, false) => FallocateMode::KeepSize,
                };
                fs.fallocate(self.ino(*node)?, mode, *offset, *len)
            }
            What::SetAttribute { node, attribute } => {
                let ino = self.ino(*node)?;
                let set = |set: SetAttr| fs.setattr(ino, &set).map(drop);
                match attribute {
                    Attribute::Mode(mode) => set(SetAttr {
                        perm: Some(mode & 0o7777),
                        ..SetAttr::default()
                    }),
                    Attribute::Owner(uid, gid) => set(SetAttr {
                        uid: Some(*uid),
                        gid: Some(*gid),
                        ..SetAttr::default()
                    }),
                    Attribute::Xattr(name, Some(value)) => {
                        fs.setxattr(ino, name, value, XattrMode::Any)
                    }
                    Attribute::Xattr(name, None) => fs.removexattr(ino, name),
                }
            }
            _ => unreachable!("the caller has carried out all others"),
        }
    }
}

impl BlockModel {
    /// What decides which runs a recording has.
    pub(super) fn habits(&self) -> Habits {
        Habits {
            commits_all: self.stack.fs != Fs::F2fs,
            commits_data: self.stack.data == Data::Journal,
            races: self.stack.data == Data::Writeback,
        }
    }
}

impl std::fmt::Display for BlockModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "model {}", self.name)
    }
}
