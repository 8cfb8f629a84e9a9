//! What system calls and the VFS of the running kernel cost: the figures behind `base::cost::host`.
//!
//! The files lie on tmpfs, which adds to the kernel's own work little but an inode in memory and a
//! page for content. Calls are timed in batches of [`BATCH`], on one CPU, many rounds of all of
//! them; the least of a batch counts, because other programs and the hypervisor can only make it
//! slower. Calls by name walk one component of a path, which is measured by itself and taken off.
//!
//! tmpfs makes an inode in memory in each call that makes a file, and a file system's own figure
//! holds its inode in memory, too. How much is counted twice by that shows a link, which makes a
//! name and no inode.

use crate::Result;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, AtFlags, CWD, Mode, OFlags};
use rustix::io::{self, Errno};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::time::{Duration, Instant};

/// Calls of a batch.
const BATCH: usize = 200;
/// Rounds of all batches.
const ROUNDS: usize = 400;
/// A pause between rounds, so that the least is taken over a longer time than one busy moment.
const PAUSE: Duration = Duration::from_millis(10);
/// The tmpfs.
const FOLDER: &str = "/dev/shm";
/// The magic number of tmpfs in `statfs`.
const TMPFS: i64 = 0x0102_1994;
/// Directories between the top and the file of the long walk.
const DEPTH: usize = 8;
const PERM: Mode = Mode::from_raw_mode(0o755);

/// What the calls of a batch cost, by their names.
type Least = BTreeMap<&'static str, f64>;

/// Measures each call; nanoseconds by the name of the measurement.
pub fn measure() -> Result<BTreeMap<String, f64>> {
    let found = rounds().map_err(|e| format!("{FOLDER}: {e}"))?;
    let kernel = rustix::system::uname();
    println!(
        "kernel {}, CPU {}, tmpfs at {FOLDER}\nbatches of {BATCH} calls, the least of {ROUNDS}; the machine may be shared, so the least is told",
        kernel.release().to_string_lossy(),
        cpu_model()
    );
    let mut all = beyond_the_walk(&found);
    all.insert("host/putc-4k".into(), super::putc::measure()?);
    Ok(all)
}

fn cpu_model() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = named.and_then(|rest| rest.split_once(':'));
    model.map_or("unknown".into(), |(_, model)| model.trim().into())
}

fn rounds() -> io::Result<Least> {
    pin()?;
    let top = tempfile::Builder::new().tempdir_in(FOLDER);
    let top = top.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
    let dir = fs::openat(CWD, top.path(), OFlags::DIRECTORY, Mode::empty())?;
    if fs::fstatfs(&dir)?.f_type as i64 != TMPFS {
        return Err(Errno::NODEV);
    }
    let mut bench = Bench::new(dir)?;
    for _ in 0..ROUNDS {
        bench.directories()?;
        bench.open_files()?;
        bench.names()?;
        std::thread::sleep(PAUSE);
    }
    Ok(bench.least)
}

/// Keeps this thread on the CPU where it is.
fn pin() -> io::Result<()> {
    let mut only = CpuSet::new();
    only.set(sched_getcpu());
    sched_setaffinity(None, &only)
}

struct Bench {
    dir: OwnedFd,
    names: Vec<CString>,
    /// Further names for the same files.
    others: Vec<CString>,
    /// A file in the directory, and one below [`DEPTH`] directories in it.
    near: CString,
    deep: CString,
    least: Least,
}

impl Bench {
    fn new(dir: OwnedFd) -> io::Result<Bench> {
        let text = |text: String| CString::new(text).expect("names have no zero byte");
        let (mut path, near) = (String::new(), text("f".into()));
        for _ in 0..DEPTH {
            path += "d";
            fs::mkdirat(&dir, path.as_str(), PERM)?;
            path += "/";
        }
        path += "f";
        for file in [path.as_str(), "f"] {
            fs::openat(&dir, file, OFlags::CREATE, PERM)?;
        }
        Ok(Bench {
            names: (0..BATCH).map(|i| text(format!("e{i}"))).collect(),
            others: (0..BATCH).map(|i| text(format!("o{i}"))).collect(),
            near,
            deep: text(path),
            least: Least::new(),
            dir,
        })
    }

    /// Times a batch of calls; each has to answer `Ok`.
    fn time(
        &mut self,
        what: &'static str,
        mut call: impl FnMut(&Bench, usize) -> io::Result<()>,
    ) -> io::Result<()> {
        let begun = Instant::now();
        for i in 0..BATCH {
            call(self, i)?;
        }
        let each = begun.elapsed().as_nanos() as f64 / BATCH as f64;
        let least = self.least.entry(what).or_insert(each);
        *least = least.min(each);
        Ok(())
    }

    fn at(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    fn directories(&mut self) -> io::Result<()> {
        let none = AtFlags::empty();
        self.time("mkdir", |b, i| fs::mkdirat(b.at(), &b.names[i], PERM))?;
        self.time("refused", |b, i| {
            match fs::mkdirat(b.at(), &b.names[i], PERM) {
                Err(Errno::EXIST) => Ok(()),
                other => other.and(Err(Errno::IO)),
            }
        })?;
        self.time("rmdir", |b, i| {
            fs::unlinkat(b.at(), &b.names[i], AtFlags::REMOVEDIR)
        })?;
        self.time("deep", |b, _| fs::statat(b.at(), &b.deep, none).map(drop))?;
        self.time("near", |b, _| fs::statat(b.at(), &b.near, none).map(drop))
    }

    /// Leaves a file with a page of content for each name.
    fn open_files(&mut self) -> io::Result<()> {
        let (mut files, mut again) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
        self.time("create", |b, i| {
            files.push(fs::openat(b.at(), &b.names[i], flags, PERM)?);
            Ok(())
        })?;
        let mut byte = [0; 1];
        self.time("write", |_, i| io::pwrite(&files[i], &[], 0).map(drop))?;
        self.time("read", |_, i| io::pread(&files[i], &mut byte, 0).map(drop))?;
        self.time("fsync", |_, i| fs::fsync(&files[i]))?;
        self.time("call", |_, i| fs::fcntl_getfl(&files[i]).map(drop))?;
        let page = [7; 4096];
        self.time("write-4k", |_, i| io::pwrite(&files[i], &page, 0).map(drop))?;
        self.time("open", |b, i| {
            again.push(fs::openat(b.at(), &b.names[i], OFlags::RDWR, PERM)?);
            Ok(())
        })?;
        self.time("close", |_, _| {
            drop(again.pop());
            Ok(())
        })
    }

    /// Removes the files again, and makes and removes empty ones.
    fn names(&mut self) -> io::Result<()> {
        let none = AtFlags::empty();
        self.time("setattr", |b, i| {
            fs::chmodat(b.at(), &b.names[i], PERM, none)
        })?;
        self.time("link", |b, i| {
            fs::linkat(b.at(), &b.names[i], b.at(), &b.others[i], none)
        })?;
        for other in &self.others {
            fs::unlinkat(&self.dir, other, none)?;
        }
        self.time("rename", |b, i| {
            fs::renameat(b.at(), &b.names[i], b.at(), &b.others[i])
        })?;
        self.time("unlink-4k", |b, i| fs::unlinkat(b.at(), &b.others[i], none))?;
        for name in &self.names {
            fs::openat(&self.dir, name, OFlags::CREATE, PERM)?;
        }
        self.time("unlink", |b, i| fs::unlinkat(b.at(), &b.names[i], none))
    }
}

/// The table's measurements: what was measured, without the components of paths.
fn beyond_the_walk(least: &Least) -> BTreeMap<String, f64> {
    let component = (least["deep"] - least["near"]) / DEPTH as f64;
    // What the table charges, with the number of components that the call walked, and two figures
    // for people.
    let calls = [
        ("host/call", "call", 0.0),
        ("host/open", "open", 1.0),
        ("host/create", "create", 1.0),
        ("host/close", "close", 0.0),
        ("host/read", "read", 0.0),
        ("host/write", "write", 0.0),
        ("host/fsync", "fsync", 0.0),
        ("host/stat", "near", 1.0),
        ("host/setattr", "setattr", 1.0),
        ("host/mkdir", "mkdir", 1.0),
        ("host/rmdir", "rmdir", 1.0),
        ("host/unlink", "unlink", 1.0),
        ("host/link", "link", 2.0),
        ("host/rename", "rename", 2.0),
    ];
    println!(
        "for people, ns: a mkdir of a name that exists {:.0}; an inode (mkdir less link) {:.0}; writing 4 KiB {:.0}, so creating and writing {:.0}; unlink of 4 KiB {:.0}",
        least["refused"] - component,
        least["mkdir"] - least["link"] + component,
        least["write-4k"],
        least["create"] + least["write-4k"] - component,
        least["unlink-4k"] - component
    );
    let found = calls.map(|(name, call, walked)| (name, least[call] - walked * component));
    let all = found.into_iter().chain([("host/component", component)]);
    all.map(|(name, nanos)| (name.into(), nanos)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_taken_off() {
        let names = [
            "call",
            "open",
            "create",
            "close",
            "read",
            "write",
            "fsync",
            "setattr",
            "mkdir",
            "rmdir",
            "unlink",
            "link",
            "rename",
            "refused",
            "write-4k",
            "unlink-4k",
        ];
        let mut least: Least = names.into_iter().map(|name| (name, 1000.0)).collect();
        least.extend([("near", 500.0), ("deep", 500.0 + 40.0 * DEPTH as f64)]);
        let found = beyond_the_walk(&least);
        for (name, nanos) in [
            ("host/component", 40.0),
            ("host/stat", 460.0),
            ("host/read", 1000.0),
            ("host/mkdir", 960.0),
            ("host/rename", 920.0),
        ] {
            assert_eq!(found[name], nanos, "{name}");
        }
    }
}
