//! Our verdicts on an image: that of the checker, called as `varve fsck -n` calls it, and those of
//! mounts that read everything.
// The hook for panics belongs to the process; no simulation runs here.
#![allow(clippy::disallowed_types)]

use crate::common::fork;
use base::{BlockNo, Bytes};
use block::{BlockDevice, Queue};
use blockdev::Ram;
use fscore::{Errno, FileKind, FileSystem, FsError, FsResult, SeekMode};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Once};
use varve_f2fs::check::{Kind, Options, Report, check};
use varve_f2fs::{F2fs, MountOptions};

/// What `varve fsck -n` says.
#[derive(Debug)]
pub struct Judged {
    /// Of the volume as it is, and of what recovery made of it in memory, if it needs that.
    pub reports: Vec<Report>,
    /// Why recovery refused, if it did.
    pub refused: Option<String>,
}

impl Judged {
    pub fn is_clean(&self) -> bool {
        let torn = |r: &Report| r.findings.iter().any(|f| f.kind == Kind::SuperblockCopy);
        self.refused.is_none()
            && self.reports.last().is_some_and(Report::is_clean)
            && !torn(&self.reports[0])
    }

    /// True if all findings, of which there are some, are of these kinds.
    pub fn only(&self, kinds: &[Kind]) -> bool {
        let mut all = self.reports.iter().flat_map(|r| &r.findings).peekable();
        let some = all.peek().is_some();
        some && self.refused.is_none() && all.all(|f| kinds.contains(&f.kind))
    }

    pub fn said(&self) -> String {
        let all = self.reports.iter().flat_map(|r| &r.findings);
        let mut lines: Vec<String> = all.map(ToString::to_string).collect();
        lines.extend(self.refused.clone());
        lines.join("\n    ")
    }
}

/// The blocks of a device by number, so that one need not ask for each.
pub fn check_ram(ram: &Ram) -> Report {
    let blocks: BTreeMap<u64, Bytes> = ram.blocks().into_iter().collect();
    let zeros = Bytes::from(vec![0; 4096]);
    let read = |n: BlockNo| Ok::<_, String>(blocks.get(&n.0).unwrap_or(&zeros).clone());
    check(&read, &Options::new(ram.caps().sectors / 8))
}

pub fn judge(ram: &Arc<Ram>) -> Judged {
    let first = check_ram(ram);
    let mut judged = Judged {
        refused: None,
        reports: vec![first],
    };
    if judged.reports[0].needs_recovery {
        let copy = fork(ram);
        match recover(&copy) {
            Ok(()) | Err(FsError::Incompatible { .. }) => judged.reports.push(check_ram(&copy)),
            Err(e) => judged.refused = Some(e.to_string()),
        }
    }
    judged
}

thread_local! {
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// Does it, and panics if something in it did: a mount catches a panic of an operation, and goes on
/// with an error.
fn without_panics<R>(work: impl FnOnce() -> R) -> R {
    static COUNTED: Once = Once::new();
    COUNTED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.with(|count| count.set(count.get() + 1));
            before(info);
        }));
    });
    let before = PANICS.get();
    let done = work();
    assert_eq!(PANICS.get(), before, "fsck-I1: something panicked");
    done
}

fn mount(ram: &Arc<Ram>, read_only: bool) -> FsResult<Arc<F2fs>> {
    let options = MountOptions {
        timers: false,
        read_only,
        ..MountOptions::default()
    };
    F2fs::mount(Queue::new(ram.clone()), options)
}

/// Mounts for writing, and unmounts.
pub fn recover(ram: &Arc<Ram>) -> FsResult<()> {
    without_panics(|| mount(ram, false)?.unmount())
}

/// Mounts for reading and reads all of it. Content that cannot be read by its kind (encrypted,
/// compressed) is passed over.
pub fn read_all(ram: &Arc<Ram>) -> FsResult<()> {
    without_panics(|| {
        let fs = mount(ram, true)?;
        let walked = walk(&fs);
        fs.unmount()?;
        walked
    })
}

/// Most inodes that are looked at: damage can lead round in circles.
const MOST: usize = 2000;

fn walk(fs: &F2fs) -> FsResult<()> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![fs.root()]);
    while let Some(dir) = open.pop() {
        let mut from = 0;
        loop {
            let entries = fs.readdir(dir, from, 100)?;
            let Some(last) = entries.last() else { break };
            from = last.next;
            for entry in &entries {
                let of = |e| named(e, &String::from_utf8_lossy(&entry.name));
                if fs.lookup(dir, &entry.name).map_err(of)? != entry.ino {
                    let what = format!("`{:?}` leads to two inodes", entry.name);
                    return Err(FsError::corrupt(what));
                }
                if seen.len() < MOST && seen.insert(entry.ino) {
                    look(fs, entry.ino).map_err(of)?;
                    if entry.kind == FileKind::Dir {
                        open.push(entry.ino);
                    }
                }
            }
        }
    }
    Ok(())
}

fn named(e: FsError, name: &str) -> FsError {
    match e {
        FsError::Corrupt { what } => FsError::corrupt(format!("{name}: {what}")),
        FsError::Posix(errno) => FsError::corrupt(format!("{name}: {errno:?}")),
        other => other,
    }
}

fn look(fs: &F2fs, ino: base::Ino) -> FsResult<()> {
    let attr = fs.getattr(ino)?;
    for name in fs.listxattr(ino)? {
        fs.getxattr(ino, &name)?;
    }
    let read = match attr.kind {
        FileKind::Symlink => fs.readlink(ino).map(drop),
        FileKind::File => read_data(fs, ino),
        _ => Ok(()),
    };
    match read {
        Err(FsError::Incompatible { .. }) => Ok(()),
        other => other,
    }
}

/// Reads what is no hole.
fn read_data(fs: &F2fs, ino: base::Ino) -> FsResult<()> {
    let (mut at, mut buf) = (0, vec![0; 1 << 20]);
    loop {
        let data = match fs.seek(ino, at, SeekMode::Data) {
            Err(FsError::Posix(Errno::NxIo)) => return Ok(()),
            other => other?,
        };
        let hole = fs.seek(ino, data, SeekMode::Hole)?;
        for from in (data..hole).step_by(buf.len()) {
            fs.read(ino, from, &mut buf)?;
        }
        at = hole;
    }
}
