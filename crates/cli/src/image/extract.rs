//! `varve extract`: a whole tree out of an image, with modes, times, links and what else the host lets us set.

use super::copy::pour;
use super::ls::{major, minor};
use super::put::pieces;
use super::{Place, at, look, tree};
use crate::args::ExtractArgs;
use crate::failure::{Failure, failed};
use crate::out::say;
use rig::{Attr, FileKind, Volume};
use rustix::fs as unix;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tree::Node;

/// What came of it.
#[derive(Default)]
pub struct Report {
    files: u64,
    directories: u64,
    others: u64,
    bytes: u64,
    /// What the host refused to set, and how often.
    refused: BTreeMap<&'static str, u64>,
}

impl Report {
    /// Says what the host refused.
    pub fn tell(&self) {
        for (what, times) in &self.refused {
            eprintln!(
                "varve: the host refused {what} {times} times (owners, devices and some attributes need root)"
            );
        }
    }
}

/// Runs it.
pub fn extract(args: &ExtractArgs) -> Result<(), Failure> {
    let place = Place::or_root(&args.place);
    let volume = look(&place.image)?;
    let mut report = Report::default();
    write_tree(&volume, &place, &args.target, &mut report)?;
    report.tell();
    say(&format!(
        "{}: {} files, {} directories, {} others, {} bytes\n",
        args.target.display(),
        report.files,
        report.directories,
        report.others,
        report.bytes
    ))
}

/// Writes what is at `place` to `target`, and with a directory all that is in it.
pub fn write_tree(
    volume: &Volume,
    place: &Place,
    target: &Path,
    report: &mut Report,
) -> Result<(), Failure> {
    let attr = volume.vfs.lstat(&place.path).map_err(at(place))?;
    let root = Node {
        path: place.path.clone(),
        attr,
    };
    let mut writer = Writer {
        volume,
        place,
        report,
        links: BTreeMap::new(),
    };
    if root.attr.kind != FileKind::Dir {
        return writer.write(&root, target);
    }
    fs::create_dir_all(target).map_err(|e| failed(format!("{}: {e}", target.display())))?;
    let mut nodes = Vec::new();
    tree::below(volume, &place.path, &mut |node| {
        nodes.push(Node {
            path: node.path.clone(),
            attr: node.attr.clone(),
        });
        Ok(())
    })
    .map_err(at(place))?;
    let base = place.path.len() + usize::from(place.path.last() != Some(&b'/'));
    let to = |node: &Node| target.join(OsStr::from_bytes(&node.path[base..]));
    for node in &nodes {
        writer.write(node, &to(node))?;
    }
    // Times of a directory change with what is put into it: last, the deepest first.
    for node in nodes.iter().rev().filter(|n| n.attr.kind == FileKind::Dir) {
        writer.dress(&node.path, &node.attr, &to(node));
    }
    writer.dress(&root.path, &root.attr, target);
    Ok(())
}

struct Writer<'a> {
    volume: &'a Volume,
    place: &'a Place,
    report: &'a mut Report,
    /// Where the first name of an inode with several links went.
    links: BTreeMap<u32, PathBuf>,
}

impl Writer<'_> {
    fn write(&mut self, node: &Node, target: &Path) -> Result<(), Failure> {
        let host = |e: std::io::Error| failed(format!("{}: {e}", target.display()));
        let attr = &node.attr;
        if attr.kind != FileKind::Dir {
            // What is in the way goes, as with `cp -f`; a link of the host must not lead elsewhere.
            match fs::remove_file(target) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(host(e)),
                _ => {}
            }
            if let Some(first) = self.links.get(&attr.ino.0) {
                return fs::hard_link(first, target).map_err(host);
            }
        }
        match attr.kind {
            FileKind::Dir => {
                self.report.directories += 1;
                return make_dir(target).map_err(host);
            }
            FileKind::File => self.write_file(node, target)?,
            FileKind::Symlink => {
                let to = self
                    .volume
                    .vfs
                    .readlink(&node.path)
                    .map_err(at(self.place))?;
                std::os::unix::fs::symlink(OsStr::from_bytes(&to), target).map_err(host)?;
                self.report.others += 1;
            }
            kind => {
                self.report.others += 1;
                if !make_special(kind, attr, target) {
                    *self
                        .report
                        .refused
                        .entry("device files, pipes or sockets")
                        .or_default() += 1;
                    return Ok(());
                }
            }
        }
        if attr.nlink > 1 {
            self.links.insert(attr.ino.0, target.into());
        }
        self.dress(&node.path, attr, target);
        Ok(())
    }

    fn write_file(&mut self, node: &Node, target: &Path) -> Result<(), Failure> {
        let host = |e: std::io::Error| failed(format!("{}: {e}", target.display()));
        let file = File::create_new(target).map_err(host)?;
        let place = Place {
            image: self.place.image.clone(),
            path: node.path.clone(),
        };
        file.set_len(node.attr.size).map_err(host)?;
        pour(self.volume, &place, &mut |offset, bytes| {
            // Holes stay holes.
            for (at, piece) in pieces(bytes) {
                file.write_all_at(piece, offset + at as u64).map_err(host)?;
            }
            Ok(true)
        })?;
        self.report.files += 1;
        self.report.bytes += node.attr.size;
        Ok(())
    }

    /// Owner, permissions, extended attributes and times, as far as the host lets us.
    fn dress(&mut self, path: &[u8], attr: &Attr, target: &Path) {
        let mut refused = |what: &'static str, ok: bool| {
            if !ok {
                *self.report.refused.entry(what).or_default() += 1;
            }
        };
        refused(
            "owners",
            std::os::unix::fs::lchown(target, Some(attr.uid), Some(attr.gid)).is_ok(),
        );
        if attr.kind != FileKind::Symlink {
            let mode = unix::Mode::from_raw_mode(attr.perm.into());
            refused("permissions", unix::chmod(target, mode).is_ok());
        }
        for name in self.volume.vfs.llistxattr(path).unwrap_or_default() {
            let set = self.volume.vfs.lgetxattr(path, &name).is_ok_and(|value| {
                let name = OsStr::from_bytes(&name);
                unix::lsetxattr(target, name, &value, unix::XattrFlags::empty()).is_ok()
            });
            refused("extended attributes", set);
        }
        let time = |t: rig::WallTime| unix::Timespec {
            tv_sec: t.secs,
            tv_nsec: i64::from(t.nanos),
        };
        let times = unix::Timestamps {
            last_access: time(attr.atime),
            last_modification: time(attr.mtime),
        };
        let flags = unix::AtFlags::SYMLINK_NOFOLLOW;
        refused(
            "times",
            unix::utimensat(unix::CWD, target, &times, flags).is_ok(),
        );
    }
}

/// A directory; one that is there already will do, a link to one will not: it leads elsewhere.
fn make_dir(target: &Path) -> std::io::Result<()> {
    match fs::create_dir(target) {
        Err(e) if fs::symlink_metadata(target).is_ok_and(|meta| !meta.is_dir()) => Err(e),
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => Err(e),
        _ => Ok(()),
    }
}

fn make_special(kind: FileKind, attr: &Attr, target: &Path) -> bool {
    let kind = match kind {
        FileKind::Fifo => unix::FileType::Fifo,
        FileKind::Socket => unix::FileType::Socket,
        FileKind::Char => unix::FileType::CharacterDevice,
        FileKind::Block => unix::FileType::BlockDevice,
        FileKind::File | FileKind::Dir | FileKind::Symlink => return false,
    };
    let mode = unix::Mode::from_raw_mode(attr.perm.into());
    let device = unix::makedev(major(attr.rdev), minor(attr.rdev));
    unix::mknodat(unix::CWD, target, kind, mode, device).is_ok()
}
