//! `varve ls`.

use super::{Place, at, look, shown, tree};
use crate::args::LsArgs;
use crate::failure::Failure;
use crate::out::say;
use rig::{FileKind, FsError, FsResult, Volume};
use tree::Node;

/// Text is printed in pieces of so many bytes: a tree may have millions of names.
const PIECE_BYTES: usize = 64 << 10;

/// Why a listing ends early.
enum Stop {
    Fs(FsError),
    Output(Failure),
}

impl From<FsError> for Stop {
    fn from(e: FsError) -> Stop {
        Stop::Fs(e)
    }
}

/// Runs it.
pub fn ls(args: &LsArgs) -> Result<(), Failure> {
    for word in &args.places {
        let place = Place::or_root(word);
        let volume = look(&place.image)?;
        let mut text = String::new();
        if args.places.len() > 1 {
            text = format!("{}:\n", place.text());
        }
        let ended = list(&volume, &place.path, args, &mut text);
        // What was found before an error is true.
        say(&text)?;
        ended.map_err(|stop| match stop {
            Stop::Fs(e) => at(&place)(e),
            Stop::Output(failure) => failure,
        })?;
        // Nothing was changed: there is nothing to write.
        drop(volume);
    }
    Ok(())
}

/// Prints the lines; the last ones are left in `text`.
fn list(volume: &Volume, path: &[u8], args: &LsArgs, text: &mut String) -> Result<(), Stop> {
    let attr = volume.vfs.lstat(path)?;
    let mut line = |node: &Node, name: &[u8]| -> Result<(), Stop> {
        *text += &describe(volume, node, name, args.long)?;
        if text.len() >= PIECE_BYTES {
            say(&std::mem::take(text)).map_err(Stop::Output)?;
        }
        Ok(())
    };
    if attr.kind != FileKind::Dir {
        let node = Node {
            path: path.to_vec(),
            attr,
        };
        line(&node, path)
    } else if args.recursive {
        tree::below(volume, path, &mut |node| line(node, &node.path))
    } else {
        tree::entries(volume, path)?.try_for_each(|node| {
            let node = node?;
            line(&node, tree::name_of(&node.path))
        })
    }
}

fn describe(volume: &Volume, node: &Node, name: &[u8], long: bool) -> FsResult<String> {
    if !long {
        return Ok(format!("{}\n", shown(name)));
    }
    let a = &node.attr;
    let size = match a.kind {
        FileKind::Char | FileKind::Block => format!("{}, {}", major(a.rdev), minor(a.rdev)),
        _ => a.size.to_string(),
    };
    let target = match a.kind {
        FileKind::Symlink => format!(" -> {}", shown(&volume.vfs.readlink(&node.path)?)),
        _ => String::new(),
    };
    Ok(format!(
        "{:>7} {}{} {:>3} {:>5} {:>5} {:>12} {}.{:09} {}{target}\n",
        a.ino.0,
        letter(a.kind),
        permissions(a.perm),
        a.nlink,
        a.uid,
        a.gid,
        size,
        a.mtime.secs,
        a.mtime.nanos,
        shown(name)
    ))
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
