//! `varve ls`: lists directories of an image.

use super::tree::{self, Met, Next, Node};
use super::{Place, at, look};
use crate::args::LsArgs;
use crate::failure::{Failure, tell};
use crate::out::{self, say};
use base::plain::{self, shown};
use rig::{Attr, FileKind, FileSystem, FsError};
use serde_json::{Value, json};
use std::path::Path;

/// Text is printed in pieces of so many bytes: a tree may have millions of names.
const PIECE_BYTES: usize = 64 << 10;

/// Runs `varve ls`. What cannot be read is reported, and the rest is listed.
pub fn ls(args: &LsArgs) -> Result<(), Failure> {
    if !args.json {
        return list_all(args);
    }
    say("[")?;
    let listed = list_all(args);
    // The array ends, whatever could not be read.
    say("\n]\n")?;
    listed
}

fn list_all(args: &LsArgs) -> Result<(), Failure> {
    let mut troubles = 0;
    let mut objects = 0;
    for word in &args.places {
        let place = Place::or_root(word);
        let listed = look(&place.image).and_then(|volume| {
            let attr = volume.vfs.lstat(&place.path).map_err(at(&place))?;
            Ok((volume, attr))
        });
        let (volume, attr) = match listed {
            Ok(found) => found,
            Err(failure) if args.places.len() == 1 => return Err(failure),
            Err(failure) => {
                tell(failure);
                troubles += 1;
                continue;
            }
        };
        let head = match args.places.len() {
            _ if args.json => String::new(),
            1 => String::new(),
            _ => format!("{}:\n", place.text()),
        };
        let mut list = List {
            fs: &**volume.vfs.fs(),
            place: &place,
            args,
            text: head,
            objects,
            troubles: 0,
        };
        list.begin(attr)?;
        troubles += list.troubles;
        objects = list.objects;
        // Nothing was changed: there is nothing to write.
        drop(volume);
    }
    match troubles {
        0 => Ok(()),
        _ => Err(Failure::Told),
    }
}

/// The lines of one place.
struct List<'a> {
    fs: &'a dyn FileSystem,
    place: &'a Place,
    args: &'a LsArgs,
    /// Not yet printed.
    text: String,
    /// Objects of the array so far.
    objects: u64,
    troubles: u64,
}

impl List<'_> {
    fn begin(&mut self, attr: Attr) -> Result<(), Failure> {
        let root = Node {
            path: self.place.path.clone(),
            attr,
            depth: 0,
            repeated: false,
        };
        if root.attr.kind == FileKind::Dir {
            let fs = self.fs;
            tree::walk(fs, &root, &mut |met| self.meet(met))?;
        } else {
            self.line(&root, &root.path)?;
        }
        say(&std::mem::take(&mut self.text))
    }

    fn meet(&mut self, met: Met<'_>) -> Result<Next, Failure> {
        match met {
            Met::Trouble(path, e) => self.trouble(path, &e)?,
            Met::File(node) if self.args.recursive => {
                self.line(node, &node.path)?;
                return Ok(Next::Into);
            }
            Met::File(node) => self.line(node, node.name())?,
        }
        Ok(Next::Past)
    }

    fn trouble(&mut self, path: &[u8], e: &FsError) -> Result<(), Failure> {
        self.troubles += 1;
        // In its place among the lines, where both go to a terminal.
        say(&std::mem::take(&mut self.text))?;
        let image = self.place.image.display();
        tell(format!("{image}:{}: {e}", shown(path)));
        Ok(())
    }

    fn line(&mut self, node: &Node, name: &[u8]) -> Result<(), Failure> {
        let mut target = Vec::new();
        if (self.args.long || self.args.json) && node.attr.kind == FileKind::Symlink {
            match self.fs.readlink(node.attr.ino) {
                Ok(to) => target = to,
                Err(e) => self.trouble(&node.path, &e)?,
            }
        }
        self.text += &match (self.args.json, self.args.long) {
            (true, _) => {
                self.objects += 1;
                let head = if self.objects == 1 { "\n" } else { ",\n" };
                let object = object(&self.place.image, node, &target);
                plain::json(&format!("{head}{object}"))
            }
            (false, true) => describe(&node.attr, name, &target),
            (false, false) => format!("{}\n", shown(name)),
        };
        if self.text.len() >= PIECE_BYTES {
            say(&std::mem::take(&mut self.text))?;
        }
        Ok(())
    }
}

/// A file as an object of the array.
fn object(image: &Path, node: &Node, target: &[u8]) -> Value {
    let a = &node.attr;
    let mut object = json!({
        "image": out::path(image),
        "path": out::name(&node.path),
        "inode": a.ino.0,
        "type": kind(a.kind),
        "mode": format!("{:04o}", a.perm),
        "links": a.nlink,
        "uid": a.uid,
        "gid": a.gid,
        "size_bytes": a.size,
        "mtime": rig::inspect::date(a.mtime.secs, a.mtime.nanos),
        "mtime_s": a.mtime.secs,
        "mtime_ns": a.mtime.nanos,
    });
    match a.kind {
        FileKind::Symlink => object["target"] = out::name(target).into(),
        FileKind::Char | FileKind::Block => {
            object["device"] = json!([major(a.rdev), minor(a.rdev)]);
        }
        _ => {}
    }
    object
}

const fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Dir => "directory",
        FileKind::Symlink => "symlink",
        FileKind::Char => "character device",
        FileKind::Block => "block device",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
    }
}

fn describe(a: &Attr, name: &[u8], target: &[u8]) -> String {
    let target = match target {
        [] => String::new(),
        to => format!(" -> {}", shown(to)),
    };
    let size = match a.kind {
        FileKind::Char | FileKind::Block => format!("{}, {}", major(a.rdev), minor(a.rdev)),
        _ => a.size.to_string(),
    };
    format!(
        "{:>7} {}{} {:>3} {:>5} {:>5} {:>12} {} {}{target}\n",
        a.ino.0,
        letter(a.kind),
        permissions(a.perm),
        a.nlink,
        a.uid,
        a.gid,
        size,
        rig::inspect::date(a.mtime.secs, a.mtime.nanos),
        shown(name)
    )
}

/// Major number of a `dev_t` as Linux encodes it.
pub const fn major(rdev: u32) -> u32 {
    (rdev >> 8) & 0xFFF
}

/// Minor number.
pub const fn minor(rdev: u32) -> u32 {
    (rdev & 0xFF) | ((rdev >> 12) & 0xF_FF00)
}

const fn letter(kind: FileKind) -> char {
    match kind {
        FileKind::File => '-',
        FileKind::Dir => 'd',
        FileKind::Symlink => 'l',
        FileKind::Char => 'c',
        FileKind::Block => 'b',
        FileKind::Fifo => 'p',
        FileKind::Socket => 's',
    }
}

fn permissions(perm: u16) -> String {
    let special = [(0o4000, 's', 'S'), (0o2000, 's', 'S'), (0o1000, 't', 'T')];
    let mut text = String::new();
    for (class, (bit, with, without)) in special.into_iter().enumerate() {
        let bits = perm >> (6 - 3 * class);
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (perm & bit != 0, bits & 1 != 0) {
            (true, true) => with,
            (true, false) => without,
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_read_as_those_of_ls() {
        assert_eq!(permissions(0o644), "rw-r--r--");
        assert_eq!(permissions(0o4755), "rwsr-xr-x");
        assert_eq!(permissions(0o2640), "rw-r-S---");
        assert_eq!(permissions(0o1777), "rwxrwxrwt");
    }

    #[test]
    fn device_numbers_are_those_of_linux() {
        // /dev/nvme0n1p300 of a machine with many: major 259, minor 300.
        let rdev = 300 & 0xFF | 259 << 8 | (300 & !0xFF) << 12;
        assert_eq!((major(rdev), minor(rdev)), (259, 300));
    }
}
