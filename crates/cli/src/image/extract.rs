//! `varve extract`: copies a whole tree out of an image, with modes, times, links and what else the
//! host allows to set. A file that fails is reported by name, and the rest is extracted.

use super::copy::CHUNK_BYTES;
use super::dress::{Lost, Rules, Target, dress};
use super::host::{DirNo, Tree};
use super::ls::{major, minor};
use super::put::pieces;
use super::tree::{self, Met, Next, Node};
use super::{Place, at, look};
use crate::args::ExtractArgs;
use crate::failure::{Failure, failed, tell};
use crate::out::{self, say, say_json};
use base::plain::shown;
use rig::{Attr, Errno, FileKind, FileSystem, FsError, SeekMode, Volume};
use rustix::fs as unix;
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The outcome of an extraction.
#[derive(Default)]
pub struct Report {
    files: u64,
    directories: u64,
    others: u64,
    bytes: u64,
    /// Devices that were not to be made.
    left_out: u64,
    /// Files that lost set-user-ID, set-group-ID or capabilities.
    without_rights: u64,
    /// What the host refused to set, and how often.
    refused: BTreeMap<&'static str, u64>,
    /// Number of failures; each was reported when it happened.
    failures: u64,
}

impl Report {
    /// Reports what the host refused, and fails if something is missing.
    pub fn end(&self) -> Result<(), Failure> {
        for (what, times) in &self.refused {
            tell(format!(
                "the host refused {what} {times} times (owners, devices and some attributes need root)"
            ));
        }
        if self.without_rights > 0 {
            tell(format!(
                "set-user-ID, set-group-ID or capabilities were left off {} files, which do not belong to the owners that the image names",
                self.without_rights
            ));
        }
        match self.failures {
            0 => Ok(()),
            _ => Err(Failure::Told),
        }
    }

    fn note(&mut self, lost: Lost) {
        for what in lost.refused {
            *self.refused.entry(what).or_default() += 1;
        }
        self.without_rights += u64::from(lost.rights);
    }
}

/// Runs `varve extract`.
pub fn extract(args: &ExtractArgs) -> Result<(), Failure> {
    let place = Place::or_root(&args.place);
    let volume = look(&place.image)?;
    let mut report = Report::default();
    let rules = Rules::of(&args.keep);
    let attr = volume.vfs.lstat(&place.path).map_err(at(&place))?;
    if attr.kind == FileKind::Dir {
        let made = fs::create_dir_all(&args.target);
        made.map_err(|e| failed(format!("{}: {e}", args.target.display())))?;
    }
    write_tree(&volume, &place, &args.target, rules, &mut report)?;
    let Report {
        files,
        directories,
        others,
        bytes,
        left_out,
        failures,
        ..
    } = report;
    if args.json {
        say_json(&json!({
            "target": out::path(&args.target), "files": files, "directories": directories,
            "others": others, "bytes": bytes, "devices_left_out": left_out, "failures": failures,
        }))?;
        return report.end();
    }
    let mut more = String::new();
    if left_out > 0 {
        more += &format!(", {left_out} devices left out");
    }
    if failures > 0 {
        more += &format!("; {failures} failures");
    }
    say(&format!(
        "{}: {files} files, {directories} directories, {others} others, {bytes} bytes{more}\n",
        shown(args.target.as_os_str().as_bytes())
    ))?;
    report.end()
}

/// Writes the file at `place` to `target`, and if it is a directory everything in it. The folder
/// that `target` lies in must exist, and `target` itself may exist.
///
/// # Errors
/// Nothing can be written at all; other failures are in the report.
pub fn write_tree(
    volume: &Volume,
    place: &Place,
    target: &Path,
    rules: Rules,
    report: &mut Report,
) -> Result<(), Failure> {
    let host = |e: io::Error| failed(format!("{}: {e}", target.display()));
    let attr = volume.vfs.lstat(&place.path).map_err(at(place))?;
    let root = Node {
        path: place.path.clone(),
        attr,
        depth: 0,
        repeated: false,
    };
    let is_dir = root.attr.kind == FileKind::Dir;
    let begin = match is_dir {
        true => {
            if !target.is_dir() {
                fs::create_dir(target).map_err(host)?;
            }
            target
        }
        false => match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        },
    };
    let mut writer = Writer {
        fs: &**volume.vfs.fs(),
        place,
        tree: Tree::begin(begin).map_err(host)?,
        rules,
        report,
        links: BTreeMap::new(),
        dirs: Vec::new(),
        way: vec![0],
    };
    if !is_dir {
        let name = target
            .file_name()
            .ok_or_else(|| failed(format!("{}: this is a directory", target.display())))?;
        return writer.write(&root, 0, name.as_bytes()).map(drop);
    }
    writer.dirs.push((0, root.attr.clone()));
    let fs = writer.fs;
    tree::walk(fs, &root, &mut |met| writer.meet(met))?;
    writer.dress_dirs();
    Ok(())
}

/// Why a file is not there, or not whole.
enum Stop {
    /// The image caused the failure.
    Image(FsError),
    /// The host caused the failure.
    Host(io::Error),
}

impl From<FsError> for Stop {
    fn from(e: FsError) -> Stop {
        Stop::Image(e)
    }
}

impl From<io::Error> for Stop {
    fn from(e: io::Error) -> Stop {
        Stop::Host(e)
    }
}

impl From<rustix::io::Errno> for Stop {
    fn from(e: rustix::io::Errno) -> Stop {
        Stop::Host(e.into())
    }
}

struct Writer<'a> {
    fs: &'a dyn FileSystem,
    place: &'a Place,
    tree: Tree,
    rules: Rules,
    report: &'a mut Report,
    /// Where the first name of an inode with several links went.
    links: BTreeMap<u32, (DirNo, Vec<u8>)>,
    /// Directories, each before those in it. They get what the image says of them at the end: until
    /// then we must be able to write in them, and that changes their times.
    dirs: Vec<(DirNo, Attr)>,
    /// The directories from the root to where the walk is.
    way: Vec<DirNo>,
}

impl Writer<'_> {
    fn meet(&mut self, met: Met<'_>) -> Result<Next, Failure> {
        let node = match met {
            Met::File(node) => node,
            Met::Trouble(path, e) => {
                self.failed(path, &e.to_string());
                return Ok(Next::Past);
            }
        };
        self.way.truncate(node.depth);
        let parent = *self.way.last().expect("invariant: the root is above all");
        let mut name = node.name().to_vec();
        if node.repeated {
            name = other_name(&name, node.attr.ino.0);
            let why = format!(
                "the directory has this name more than once; inode {} is written as `{}`",
                node.attr.ino,
                shown(&name)
            );
            self.failed(&node.path, &why);
        }
        self.write(node, parent, &name)
    }

    /// Tells of a failure in the image.
    fn failed(&mut self, path: &[u8], why: &str) {
        self.report.failures += 1;
        let image = self.place.image.display();
        tell(format!("{image}:{}: {why}", shown(path)));
    }

    /// Writes one file of any kind. Answers whether what is in it can follow.
    fn write(&mut self, node: &Node, parent: DirNo, name: &[u8]) -> Result<Next, Failure> {
        match self.try_write(node, parent, name) {
            Ok(()) => return Ok(Next::Into),
            Err(Stop::Image(e)) => self.failed(&node.path, &e.to_string()),
            Err(Stop::Host(e)) => {
                let path = self.tree.path(parent, name);
                let path = shown(path.as_os_str().as_bytes());
                // Nothing that follows would fit either.
                if matches!(
                    e.kind(),
                    io::ErrorKind::StorageFull
                        | io::ErrorKind::QuotaExceeded
                        | io::ErrorKind::ReadOnlyFilesystem
                ) {
                    return Err(failed(format!("{path}: {e}")));
                }
                self.report.failures += 1;
                let below = match node.attr.kind {
                    FileKind::Dir => "; nothing in it was written",
                    _ => "",
                };
                tell(format!("{path}: {e}{below}"));
            }
        }
        Ok(Next::Past)
    }

    fn try_write(&mut self, node: &Node, parent: DirNo, name: &[u8]) -> Result<(), Stop> {
        let attr = &node.attr;
        if attr.kind == FileKind::Dir {
            let dir = self.tree.make_dir(parent, name)?;
            self.report.directories += 1;
            self.dirs.push((dir, attr.clone()));
            self.way.push(dir);
            return Ok(());
        }
        if !self.rules.devices && matches!(attr.kind, FileKind::Char | FileKind::Block) {
            self.report.left_out += 1;
            return Ok(());
        }
        // What is in the way goes, as with `cp -f`; a link of the host must not lead elsewhere.
        self.tree.clear(parent, name)?;
        if let Some((dir, first)) = self.links.get(&attr.ino.0) {
            return Ok(self.tree.link((*dir, first), (parent, name))?);
        }
        let lost = match attr.kind {
            FileKind::File => self.write_file(attr, parent, name)?,
            FileKind::Symlink => {
                let to = self.fs.readlink(attr.ino)?;
                let (fd, name) = (self.tree.fd(parent)?, OsStr::from_bytes(name));
                unix::symlinkat(OsStr::from_bytes(&to), fd, name)?;
                self.report.others += 1;
                dress(self.fs, attr, &Target::Named(fd, name), self.rules)
            }
            kind => {
                self.report.others += 1;
                let (fd, name) = (self.tree.fd(parent)?, OsStr::from_bytes(name));
                let mode = unix::Mode::RUSR | unix::Mode::WUSR;
                let device = unix::makedev(major(attr.rdev), minor(attr.rdev));
                if unix::mknodat(fd, name, host_kind(kind), mode, device).is_err() {
                    let what = "device files, pipes or sockets";
                    *self.report.refused.entry(what).or_default() += 1;
                    return Ok(());
                }
                dress(self.fs, attr, &Target::Named(fd, name), self.rules)
            }
        };
        self.report.note(lost);
        if attr.nlink > 1 {
            self.links.insert(attr.ino.0, (parent, name.to_vec()));
        }
        Ok(())
    }

    fn write_file(&mut self, attr: &Attr, parent: DirNo, name: &[u8]) -> Result<Lost, Stop> {
        let fd = self.tree.fd(parent)?;
        let flags = unix::OFlags::WRONLY
            | unix::OFlags::CREATE
            | unix::OFlags::EXCL
            | unix::OFlags::NOFOLLOW
            | unix::OFlags::CLOEXEC;
        // dress-R1.
        let mode = unix::Mode::RUSR | unix::Mode::WUSR;
        let file = File::from(unix::openat(fd, OsStr::from_bytes(name), flags, mode)?);
        file.set_len(attr.size)?;
        fill(self.fs, attr, &file)?;
        self.report.files += 1;
        self.report.bytes += attr.size;
        Ok(dress(
            self.fs,
            attr,
            &Target::Open(file.as_fd()),
            self.rules,
        ))
    }

    /// Times of a directory change with what is put into it: last, the deepest first.
    fn dress_dirs(&mut self) {
        for (dir, attr) in std::mem::take(&mut self.dirs).into_iter().rev() {
            match self.tree.fd(dir) {
                Ok(fd) => {
                    let lost = dress(self.fs, &attr, &Target::Open(fd), self.rules);
                    self.report.note(lost);
                }
                Err(e) => {
                    self.report.failures += 1;
                    let path = self.tree.path(dir, b"");
                    tell(format!("{}: {e}", shown(path.as_os_str().as_bytes())));
                }
            }
        }
    }
}

/// Copies what is no hole. The file has its size.
fn fill(fs: &dyn FileSystem, attr: &Attr, file: &File) -> Result<(), Stop> {
    let mut buf = vec![0; CHUNK_BYTES.min(usize::try_from(attr.size).unwrap_or(CHUNK_BYTES))];
    let mut offset = 0;
    while offset < attr.size {
        let data = match fs.seek(attr.ino, offset, SeekMode::Data) {
            Ok(data) => data,
            Err(e) if e.errno() == Errno::NxIo => break,
            Err(e) => return Err(e.into()),
        };
        let end = fs.seek(attr.ino, data, SeekMode::Hole)?;
        offset = data;
        while offset < end {
            let want = buf
                .len()
                .min(usize::try_from(end - offset).unwrap_or(buf.len()));
            let n = fs.read(attr.ino, offset, &mut buf[..want])?;
            if n == 0 {
                return Ok(());
            }
            // Blocks of zeros become holes, too.
            for (at, piece) in pieces(&buf[..n]) {
                file.write_all_at(piece, offset + at as u64)?;
            }
            offset += n as u64;
        }
    }
    Ok(())
}

/// For what has a name that another file of the directory has.
fn other_name(name: &[u8], ino: u32) -> Vec<u8> {
    let behind = format!(".inode-{ino}");
    let kept = name.len().min(255 - behind.len());
    [&name[..kept], behind.as_bytes()].concat()
}

/// Kinds without content.
fn host_kind(kind: FileKind) -> unix::FileType {
    match kind {
        FileKind::Fifo => unix::FileType::Fifo,
        FileKind::Socket => unix::FileType::Socket,
        FileKind::Char => unix::FileType::CharacterDevice,
        FileKind::Block => unix::FileType::BlockDevice,
        FileKind::File => unix::FileType::RegularFile,
        FileKind::Dir => unix::FileType::Directory,
        FileKind::Symlink => unix::FileType::Symlink,
    }
}
