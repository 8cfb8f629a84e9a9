//! The content of a tree of files. It is passed from the guest to the host as text, one line per
//! entry.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::str::FromStr;

/// Entries by path (`/a/b`; the root is `/`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tree(pub BTreeMap<String, Node>);

/// One entry.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Node {
    /// `st_mode`: kind and permissions.
    pub mode: u32,
    /// Inode number.
    pub ino: u64,
    /// Hard links.
    pub nlink: u64,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Device number of a device file.
    pub rdev: u32,
    /// Bytes.
    pub size: u64,
    /// Allocated space in 512-byte sectors.
    pub sectors: u64,
    /// Last change of the content: seconds, nanoseconds.
    pub mtime: (i64, u32),
    /// Last change of the inode.
    pub ctime: (i64, u32),
    /// Digest of the content of a file or of the target of a link.
    pub content: u64,
    /// Extended attributes.
    pub xattrs: BTreeMap<String, Vec<u8>>,
}

/// Files up to this size are read whole, of larger ones only [`windows`].
const WHOLE: u64 = 64 << 20;
const WINDOW: u64 = 128 << 10;

/// The ranges (offset, length) of a file that are read for its digest: all of it up to 64 MiB; in a
/// larger file the start, the end, and both sides of every power of two and of every place where
/// the path to a block of an F2FS file changes (from the inode to direct, indirect and double
/// indirect nodes, with and without space taken for extra attributes and inline xattrs).
pub fn windows(size: u64) -> Vec<(u64, u64)> {
    if size <= WHOLE {
        return vec![(0, size)];
    }
    let per_node = 1018u64;
    let mut edges = vec![0, size];
    for steps in [
        0,
        2 * per_node,
        2 * per_node * (1 + per_node),
        per_node * (3 + 2 * per_node),
    ] {
        edges.push((873 + steps) * 4096);
        edges.push((923 + steps) * 4096);
    }
    edges.extend((20..63).map(|n| 1u64 << n));
    edges.retain(|&e| e <= size);
    edges.sort_unstable();
    let mut found: Vec<(u64, u64)> = Vec::new();
    for edge in edges {
        let from = edge
            .saturating_sub(WINDOW)
            .max(found.last().map_or(0, |&(_, to)| to));
        let to = (edge + WINDOW).min(size);
        if to > from {
            found.push((from, to));
        }
    }
    found.iter().map(|&(from, to)| (from, to - from)).collect()
}

/// A digest over ranges, in order.
pub fn digest(sum: u64, range: &[u8]) -> u64 {
    // In pieces, so that the ranges may come in any multiple of one.
    range.chunks(4096).fold(sum, |sum, piece| {
        (sum.rotate_left(17) ^ base::fill::fingerprint(piece)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    })
}

impl Tree {
    /// The differences between this tree and another one that was read from the same image, at most
    /// 20 lines; none if all is well.
    pub fn differences(&self, other: &Tree) -> Vec<String> {
        self.differ(other, Clone::clone)
    }

    /// Like [`differences`](Self::differences), if either side first recovered the image:
    /// roll-forward puts names back into directories, which changes the times of these.
    pub fn differences_after_recovery(&self, other: &Tree) -> Vec<String> {
        self.differ(other, |node| {
            let mut node = node.clone();
            if node.mode & 0o170_000 == 0o040_000 {
                (node.mtime, node.ctime) = ((0, 0), (0, 0));
            }
            node
        })
    }

    /// Like [`differences`](Self::differences), for a tree made elsewhere by the same operations:
    /// inode numbers, times, allocated space and the sizes of directories may differ.
    pub fn differences_in_content(&self, other: &Tree) -> Vec<String> {
        self.differ(other, |node| Node {
            ino: 0,
            sectors: 0,
            mtime: (0, 0),
            ctime: (0, 0),
            size: if node.mode & 0o170_000 == 0o040_000 {
                0
            } else {
                node.size
            },
            ..node.clone()
        })
    }

    fn differ(&self, other: &Tree, reduce: impl Fn(&Node) -> Node) -> Vec<String> {
        let mut found = Vec::new();
        for (path, node) in &self.0 {
            match other.0.get(path) {
                None => found.push(format!("{path}: only in the first")),
                Some(theirs) if reduce(node) != reduce(theirs) => {
                    found.push(format!(
                        "{path}:\n  {}\n  {}",
                        reduce(node).line(),
                        reduce(theirs).line()
                    ));
                }
                Some(_) => {}
            }
        }
        let extra = other.0.keys().filter(|path| !self.0.contains_key(*path));
        found.extend(extra.map(|path| format!("{path}: only in the second")));
        if found.len() > 20 {
            let more = found.len() - 20;
            found.truncate(20);
            found.push(format!("and {more} more"));
        }
        found
    }

    /// The tree as text, which [`FromStr`] parses.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (path, node) in &self.0 {
            let _ = writeln!(text, "{}\t{}", escape(path.as_bytes()), node.line());
        }
        text
    }
}

impl Node {
    fn line(&self) -> String {
        let mut line = format!(
            "{:o}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{:x}",
            self.mode,
            self.ino,
            self.nlink,
            self.owner.0,
            self.owner.1,
            self.rdev,
            self.size,
            self.sectors,
            self.mtime.0,
            self.mtime.1,
            self.ctime.0,
            self.ctime.1,
            self.content
        );
        for (name, value) in &self.xattrs {
            let _ = write!(line, "\t{}={}", escape(name.as_bytes()), escape(value));
        }
        line
    }

    fn parse(line: &str) -> Option<Node> {
        let mut fields = line.split('\t');
        let mut next = || fields.next();
        let mut node = Node {
            mode: u32::from_str_radix(next()?, 8).ok()?,
            ino: next()?.parse().ok()?,
            nlink: next()?.parse().ok()?,
            owner: (next()?.parse().ok()?, next()?.parse().ok()?),
            rdev: next()?.parse().ok()?,
            size: next()?.parse().ok()?,
            sectors: next()?.parse().ok()?,
            mtime: (next()?.parse().ok()?, next()?.parse().ok()?),
            ctime: (next()?.parse().ok()?, next()?.parse().ok()?),
            content: u64::from_str_radix(next()?, 16).ok()?,
            xattrs: BTreeMap::new(),
        };
        for field in fields {
            let (name, value) = field.split_once('=')?;
            let name = String::from_utf8(unescape(name)?).ok()?;
            node.xattrs.insert(name, unescape(value)?);
        }
        Some(node)
    }
}

impl FromStr for Tree {
    type Err = String;

    fn from_str(text: &str) -> Result<Tree, String> {
        let mut tree = Tree::default();
        for line in text.lines() {
            let entry = || {
                let (path, rest) = line.split_once('\t')?;
                let path = String::from_utf8(unescape(path)?).ok()?;
                Some((path, Node::parse(rest)?))
            };
            let (path, node) = entry().ok_or_else(|| format!("not a line of a tree: {line}"))?;
            tree.0.insert(path, node);
        }
        Ok(tree)
    }
}

fn escape(bytes: &[u8]) -> String {
    let mut text = String::new();
    for &b in bytes {
        match b {
            b'%' | b'=' | 0..=0x20 | 0x7F.. => {
                let _ = write!(text, "%{b:02x}");
            }
            _ => text.push(char::from(b)),
        }
    }
    text
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes().iter();
    while let Some(&b) = rest.next() {
        let mut digit = || char::from(*rest.next()?).to_digit(16);
        bytes.push(match b {
            b'%' => (digit()? * 16 + digit()?) as u8,
            _ => b,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Tree {
        let mut node = Node {
            mode: 0o100_644,
            nlink: 2,
            owner: (70_000, 1),
            size: 77,
            mtime: (-5, 999),
            content: u64::MAX,
            ..Node::default()
        };
        node.xattrs
            .insert("user.a b".into(), vec![0, b'%', b'=', 255, b'x']);
        Tree(
            [
                ("/a\tb".to_string(), node),
                ("/".to_string(), Node::default()),
            ]
            .into(),
        )
    }

    #[test]
    fn text_brings_all_of_a_tree_across() {
        assert_eq!(sample().to_text().parse::<Tree>().unwrap(), sample());
        assert!("x".parse::<Tree>().is_err());
        assert!("/x\t1\t2".parse::<Tree>().is_err());
    }

    #[test]
    fn every_difference_is_named() {
        let (a, mut b) = (sample(), sample());
        assert_eq!(a.differences(&b), [""; 0]);
        b.0.get_mut("/a\tb").unwrap().mtime.1 = 1;
        assert_eq!(a.differences(&b).len(), 1);
        assert_eq!(a.differences_in_content(&b), [""; 0]);
        b.0.get_mut("/a\tb").unwrap().xattrs.clear();
        assert_eq!(a.differences_in_content(&b).len(), 1);
        b.0.remove("/");
        b.0.insert("/new".into(), Node::default());
        assert_eq!(a.differences_in_content(&b).len(), 3);
    }

    #[test]
    fn windows_lie_in_the_file_and_do_not_overlap() {
        assert_eq!(windows(5000), [(0, 5000)]);
        let size = (9 << 30) + 5;
        let found = windows(size);
        assert!(found.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0));
        assert_eq!(found.last().map(|&(at, len)| at + len), Some(size));
        // The first block behind the double indirect node of an inode with all its addresses.
        let double = (923 + 2 * 1018 + 2 * 1018 * 1018) * 4096;
        assert!(
            found
                .iter()
                .any(|&(at, len)| at < double && double < at + len)
        );
        assert!(found.iter().map(|&(_, len)| len).sum::<u64>() < 20 << 20);
    }
}
