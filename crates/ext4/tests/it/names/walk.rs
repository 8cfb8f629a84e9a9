//! The tree of a file system, found by reading it through debugfs and through the kernel.

use crate::common::mounted::Mounted;
use crate::common::{Image, tool};
use base::Ino;
use fscore::FileKind;
use testkit::image::done;
use testkit::shadow::{Entry, Tree};

/// Checks that `debugfs` lists the same names with the same inodes in the directories of the tree.
pub fn compare_with_debugfs(image: &Image, tree: &Tree) {
    for (path, entry) in tree.iter().filter(|(_, entry)| entry.kind == FileKind::Dir) {
        let mut expected: Vec<(Vec<u8>, u32)> = Vec::new();
        for (other, below) in tree.range(path.clone()..) {
            let Some(rest) = other.strip_prefix(&path[..]) else {
                break;
            };
            if let Some(name) = rest.strip_suffix(b"/").filter(|name| !name.contains(&b'/')) {
                expected.push((name.to_vec(), below.ino.0));
            }
        }
        expected.sort();
        let request = format!("ls -p <{}>", entry.ino);
        let out = tool("debugfs")
            .arg("-R")
            .arg(request)
            .arg(&image.path)
            .output()
            .expect("starts");
        // /ino/mode/uid/gid/name/size/
        let lines = out
            .stdout
            .split(|&b| b == b'\n')
            .filter(|line| line.starts_with(b"/"));
        let mut listed: Vec<(Vec<u8>, u32)> = Vec::new();
        for line in lines {
            let fields: Vec<&[u8]> = line.split(|&b| b == b'/').collect();
            let ino: u32 = String::from_utf8_lossy(fields[1])
                .parse()
                .expect("a number");
            if ino != 0 && !matches!(fields[5], b"." | b"..") {
                listed.push((fields[5].to_vec(), ino));
            }
        }
        listed.sort();
        assert_eq!(listed, expected, "{}", path.escape_ascii());
    }
}

/// The tree as the kernel reads it.
pub fn walk(mounted: &Mounted) -> Tree {
    let format = ["-printf", "%i %y %n %P\\0%l\\0"];
    let out = done(tool("find").arg(&mounted.point).args(format));
    let mut tree = Tree::new();
    let mut fields = out.stdout.split(|&b| b == 0);
    while let (Some(line), Some(target)) =
        (fields.next().filter(|line| !line.is_empty()), fields.next())
    {
        let parts: Vec<&[u8]> = line.splitn(4, |&b| b == b' ').collect();
        let number = |field: &[u8]| String::from_utf8_lossy(field).parse().expect("a number");
        let kind = match parts[1] {
            b"f" => FileKind::File,
            b"d" => FileKind::Dir,
            b"l" => FileKind::Symlink,
            b"p" => FileKind::Fifo,
            b"s" => FileKind::Socket,
            b"c" => FileKind::Char,
            other => panic!("find knows the kind {}", other.escape_ascii()),
        };
        let mut path = b"/".to_vec();
        if !parts[3].is_empty() {
            path.extend_from_slice(parts[3]);
            path.push(b'/');
        }
        let (ino, links) = (Ino(number(parts[0])), number(parts[2]));
        tree.insert(
            path,
            Entry {
                ino,
                kind,
                links,
                target: target.to_vec(),
            },
        );
    }
    tree
}
