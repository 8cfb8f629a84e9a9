//! One image, replayed by Varve, by e2fsck and by the running kernel.

use crate::common::mounted::Mounted;
use crate::common::{Image as File, check_ram, said, tool};
use base::Ino;
use block::Queue;
use blockdev::{Count, Image};
use fscore::{FileKind, FileSystem};
use rt::{Sim, SimConfig};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use testkit::Brief;
use varve_ext4::{Ext4, MountOptions};

/// An image, its size, and what the kernel showed of it before the power went.
pub struct Volume {
    pub image: Image,
    pub bytes: u64,
    pub live: Live,
}

/// Paths with inode number, permissions, links, owner, group, size, and the content of files and
/// links.
pub type Live = BTreeMap<String, (u64, [u32; 4], u64, Vec<u8>)>;

/// What a mounted volume shows, read below `root`.
pub fn live(root: &Path) -> std::io::Result<Live> {
    let mut live = Live::new();
    let mut todo = vec![(root.to_path_buf(), String::new())];
    while let Some((dir, path)) = todo.pop() {
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            let name = format!("{path}/{}", entry.file_name().as_bytes().escape_ascii());
            let meta = fs::symlink_metadata(entry.path())?;
            let content = if meta.is_dir() {
                todo.push((entry.path(), name.clone()));
                Vec::new()
            } else if meta.is_symlink() {
                fs::read_link(entry.path())?.into_os_string().into_vec()
            } else if meta.is_file() {
                fs::read(entry.path())?
            } else {
                Vec::new()
            };
            let numbers = [
                meta.mode() & 0o7777,
                meta.nlink() as u32,
                meta.uid(),
                meta.gid(),
            ];
            live.insert(name, (meta.ino(), numbers, meta.size(), content));
        }
    }
    Ok(live)
}

/// The properties of an inode that are compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    kind: FileKind,
    ino: Ino,
    /// Permissions, links, owner, group, device.
    numbers: [u32; 5],
    size: u64,
    sectors: u64,
    times: [i64; 2],
    content: Vec<u8>,
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

pub type Tree = BTreeMap<String, Entry>;

/// The result of a replay.
pub struct Replayed {
    pub tree: Tree,
    pub fast_commits: u64,
    /// The image after the unmount.
    pub image: Image,
    pub bytes: u64,
}

impl Replayed {
    /// Checks the rest of fast_commits-V1 and fast_commits-V2: e2fsck and Varve's own checker find
    /// no fault.
    ///
    /// # Errors
    /// Their output.
    pub fn check(&self) -> Result<(), String> {
        let file = stored(&self.image, self.bytes);
        let out = tool("e2fsck").arg("-fn").arg(&file.path).output();
        let out = out.map_err(|e| e.to_string())?;
        if out.status.code() != Some(0) {
            let text = String::from_utf8_lossy(&out.stdout);
            return Err(format!("e2fsck -fn:\n{text}"));
        }
        let report = check_ram(&self.image.to_ram(self.bytes));
        match report.is_clean() {
            true => Ok(()),
            false => Err(said(&report)),
        }
    }
}

/// Mounts, which replays, reads the whole tree, and unmounts.
///
/// # Errors
/// The reason of a refusal, or of a panic.
pub fn by_us(image: &Image, bytes: u64) -> Result<Replayed, String> {
    let image = image.clone();
    let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
        let ram = Arc::new(image.to_ram(bytes));
        let disk = Arc::new(Count::new(ram.clone()));
        let fs = Ext4::mount(Queue::new(disk.clone()), MountOptions::default());
        let fs = fs.map_err(|e| match disk.counts().commands.writes {
            0 => e.to_string(),
            n => format!("refused after {n} writes"),
        })?;
        let fast_commits = fs.recovery().map_or(0, |report| report.fast_commits);
        let tree = tree_of(&fs).map_err(|e| format!("walk: {e}"));
        fs.unmount().map_err(|e| format!("unmount: {e}"))?;
        Ok::<_, String>(Replayed {
            tree: tree?,
            fast_commits,
            image: ram.blocks().into_iter().collect(),
            bytes,
        })
    });
    if let Some(failure) = outcome.first_failure {
        return Err(format!("panic: {failure}"));
    }
    outcome.value.expect("an answer")
}

pub fn tree_of(fs: &Ext4) -> Result<Tree, fscore::FsError> {
    let mut tree = Tree::new();
    let mut todo = vec![(fs.root(), String::new())];
    tree.insert("/".into(), entry_of(fs, fs.root())?);
    while let Some((dir, path)) = todo.pop() {
        for found in fs.readdir(dir, 0, 10_000)? {
            if matches!(&found.name[..], b"." | b"..") {
                continue;
            }
            let name = format!("{path}/{}", found.name.escape_ascii());
            let entry = entry_of(fs, found.ino)?;
            if entry.kind == FileKind::Dir {
                todo.push((found.ino, name.clone()));
            }
            tree.insert(name, entry);
        }
    }
    Ok(tree)
}

fn entry_of(fs: &Ext4, ino: Ino) -> Result<Entry, fscore::FsError> {
    let attr = fs.getattr(ino)?;
    let content = match attr.kind {
        FileKind::File if attr.size < 1 << 24 => fs.content(ino),
        FileKind::Symlink => fs.readlink(ino)?,
        _ => Vec::new(),
    };
    let mut attributes = Vec::new();
    for name in fs.listxattr(ino)? {
        // A damaged name may be one that cannot be looked up.
        let value = fs
            .getxattr(ino, &name)
            .unwrap_or_else(|e| e.to_string().into());
        attributes.push((name, value));
    }
    let perm = attr.perm.into();
    Ok(Entry {
        kind: attr.kind,
        ino,
        numbers: [perm, attr.nlink, attr.uid, attr.gid, attr.rdev],
        size: attr.size,
        sectors: attr.sectors,
        times: [attr.mtime.secs, attr.ctime.secs],
        content,
        attributes,
    })
}

fn stored(image: &Image, bytes: u64) -> File {
    File::of(&image.to_ram(bytes))
}

/// The result of e2fsck.
pub struct Repaired {
    pub tree: Tree,
}

/// Runs `e2fsck -fy` on a copy; twice if it says that errors are left: where fast commits follow a
/// full commit with the superblock in it, e2fsck 1.47 replays all of it, and then finds the
/// checksum of the superblock wrong when it opens the volume again.
pub fn by_e2fsck(image: &Image, bytes: u64) -> Repaired {
    let file = stored(image, bytes);
    let (mut code, mut text) = file.fsck_repair();
    if code.is_some_and(|code| code >= 4) {
        (code, text) = file.fsck_repair();
    }
    assert!(code.is_some_and(|code| code < 4), "e2fsck -fy:\n{text}");
    let left: Image = file.load().blocks().into_iter().collect();
    let tree = by_us(&left, bytes).expect("e2fsck has been there").tree;
    Repaired { tree }
}

/// The kernel's own replay, in a mount of a copy. `None` as well if the kernel refuses the image,
/// as it does with some areas that are cut (ECANCELED).
pub fn by_kernel(image: &Image, bytes: u64) -> Option<Tree> {
    let file = stored(image, bytes);
    Mounted::unless_refused(&file).ok().flatten()?.unmount();
    let left: Image = file.load().blocks().into_iter().collect();
    Some(by_us(&left, bytes).expect("the kernel has been there").tree)
}

/// The image behind a recovery of the log without a mount.
///
/// # Errors
/// The reason of a refusal.
pub fn recovered(image: &Image, bytes: u64) -> Result<Image, String> {
    let image = image.clone();
    let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
        let ram = Arc::new(image.to_ram(bytes));
        let queue = Queue::new(ram.clone());
        let done = Ext4::recover_log(queue, None, MountOptions::default());
        done.map_err(|e| e.to_string())?;
        Ok(ram.blocks().into_iter().collect())
    });
    outcome.unwrap()
}

/// Checks fast_commits-V1: the tree is the one that the kernel showed.
///
/// # Panics
/// If it is not.
pub fn is_live(ours: &Tree, live: &Live, context: &str) {
    let inner = ours.iter().filter(|(path, _)| *path != "/");
    let names: Vec<_> = inner.clone().map(|(path, _)| path).collect();
    assert_eq!(names, live.keys().collect::<Vec<_>>(), "{context}");
    for (path, entry) in inner {
        let (ino, numbers, size, content) = &live[path];
        let same = u64::from(entry.ino.0) == *ino
            && entry.numbers[..4] == numbers[..]
            && (entry.size == *size || entry.kind == FileKind::Dir)
            && entry.content == *content;
        let there = format!("inode {ino}, {numbers:?}, {size} bytes");
        assert!(
            same,
            "{context}: {path}\nhere {}\nlive {there}",
            short(Some(entry))
        );
    }
}

/// Checks that a tree is what was shown when it was synced; times of directories, which no fast
/// commit holds, and sectors apart, which delayed blocks count in.
///
/// # Panics
/// If it is not.
pub fn is_synced(found: &Tree, live: &Tree, context: &str) {
    let plain = |tree: &Tree| -> Tree {
        let all = tree.iter().map(|(path, entry)| {
            let mut entry = entry.clone();
            entry.sectors = 0;
            if entry.kind == FileKind::Dir {
                (entry.times, entry.size) = ([0; 2], 0);
            }
            (path.clone(), entry)
        });
        all.collect()
    };
    let (found, live) = (plain(found), plain(live));
    let paths: BTreeSet<&String> = found.keys().chain(live.keys()).collect();
    let differ = paths
        .into_iter()
        .filter(|path| found.get(*path) != live.get(*path));
    let lines = differ.map(|path| {
        let (here, there) = (short(found.get(path)), short(live.get(path)));
        format!("{path}\n  found  {here}\n  synced {there}\n")
    });
    let text: String = lines.collect();
    assert!(text.is_empty(), "{context}:\n{text}");
}

/// Checks fast_commits-V1 on paths that differ between e2fsck and the kernel's own replay: both
/// lose content that lay in an inode, and names that found no room there.
///
/// # Panics
/// If a path differs from both results, except where content in inodes (`inline`) may differ or the
/// kernel refused.
pub fn disputed(
    ours: &Tree,
    (e2fsck, kernel): (&Tree, Option<&Tree>),
    inline: bool,
    context: &str,
) -> u64 {
    let mut disputed = 0;
    let paths: BTreeSet<&String> = ours.keys().chain(e2fsck.keys()).collect();
    for path in paths {
        let (here, there) = (ours.get(path), e2fsck.get(path));
        let third = kernel.map(|tree| tree.get(path));
        if here == there {
            continue;
        }
        disputed += 1;
        assert!(
            inline || third.is_none_or(|third| is_as_in(here, third)),
            "{context}: {path}\nhere   {}\ne2fsck {}\nkernel {}",
            short(here),
            short(there),
            short(third.flatten())
        );
    }
    disputed
}

/// The kernel's replay does not count the block of attributes among the sectors; e2fsck does
/// afterwards. It sets the times of directories to its own.
fn is_as_in(here: Option<&Entry>, kernel: Option<&Entry>) -> bool {
    match (here, kernel) {
        (Some(here), Some(kernel)) => {
            let mut kernel = kernel.clone();
            kernel.sectors = here.sectors;
            if here.kind == FileKind::Dir {
                kernel.times = here.times;
            }
            *here == kernel
        }
        (here, kernel) => here == kernel,
    }
}

fn short(entry: Option<&Entry>) -> String {
    let Some(entry) = entry else {
        return "nothing".into();
    };
    let print = base::checksum::crc32c(0, &entry.content);
    let entry = Entry {
        content: Vec::new(),
        attributes: Vec::new(),
        ..entry.clone()
    };
    format!("{entry:?}, content {print:#x}")
}

/// Loads an image file into memory.
pub fn load(file: &File, live: Live) -> Volume {
    Volume {
        image: file.load().blocks().into_iter().collect(),
        bytes: fs::metadata(&file.path).expect("the image").len(),
        live,
    }
}
