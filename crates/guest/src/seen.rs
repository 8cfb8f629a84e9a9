//! What the kernel shows of a mounted file system, with the bytes of its files: a judge on the host
//! compares them sector by sector, for which a digest is not enough.
//!
//! It crosses from the guest in one file: the length of the text of a [`Tree`] (8 bytes, little
//! endian), the text, and for each file and symbolic link of it, in its order, a length and the
//! bytes (of a link, its target).

use crate::{Tree, posix};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// More bytes than a file of a judged file system may have.
const FILE_BYTES_MAX: u64 = 64 << 20;
const KIND: u32 = 0o170_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// A tree of files with their bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// All entries.
    pub tree: Tree,
    /// What files hold and where symbolic links lead, by path.
    pub bytes: BTreeMap<String, Vec<u8>>,
}

impl Seen {
    /// Reads the tree below `root`.
    ///
    /// # Errors
    /// Something cannot be read, or a file is larger than 64 MiB.
    pub fn of(root: &Path) -> io::Result<Seen> {
        let tree = posix::tree(root)?;
        let mut bytes = BTreeMap::new();
        for (name, node) in &tree.0 {
            let path = root.join(name.trim_start_matches('/'));
            let told = |e: io::Error| io::Error::new(e.kind(), format!("{name}: {e}"));
            let content = match node.mode & KIND {
                FILE if node.size > FILE_BYTES_MAX => {
                    return Err(io::Error::other(format!("{name}: {} bytes", node.size)));
                }
                FILE => fs::read(&path).map_err(told)?,
                LINK => {
                    let target = fs::read_link(&path).map_err(told)?;
                    target.as_os_str().as_bytes().to_vec()
                }
                _ => continue,
            };
            bytes.insert(name.clone(), content);
        }
        Ok(Seen { tree, bytes })
    }

    /// Writes it to a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        let text = self.tree.to_text();
        let all = std::iter::once(text.as_bytes()).chain(self.bytes.values().map(Vec::as_slice));
        for part in all {
            file.write_all(&(part.len() as u64).to_le_bytes())?;
            file.write_all(part)?;
        }
        file.flush()
    }

    /// Reads what [`save`](Seen::save) wrote.
    ///
    /// # Errors
    /// The file cannot be read, or is none of those.
    pub fn load(path: &Path) -> io::Result<Seen> {
        let raw = fs::read(path)?;
        let mut rest = raw.as_slice();
        let text = String::from_utf8(part(&mut rest)?).map_err(io::Error::other)?;
        let tree: Tree = text.parse().map_err(io::Error::other)?;
        let mut bytes = BTreeMap::new();
        for (name, node) in &tree.0 {
            if matches!(node.mode & KIND, FILE | LINK) {
                bytes.insert(name.clone(), part(&mut rest)?);
            }
        }
        match rest {
            [] => Ok(Seen { tree, bytes }),
            _ => Err(io::Error::other(format!("{} bytes behind it", rest.len()))),
        }
    }
}

/// The next part: a length and so many bytes.
fn part(rest: &mut &[u8]) -> io::Result<Vec<u8>> {
    let mut len = [0; 8];
    rest.read_exact(&mut len)?;
    let len = u64::from_le_bytes(len);
    if len > rest.len() as u64 {
        let left = rest.len();
        return Err(io::Error::other(format!(
            "{len} bytes, of which {left} are there"
        )));
    }
    let (part, behind) = rest.split_at(len as usize);
    *rest = behind;
    Ok(part.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_crosses_whole_and_a_cut_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("d")).unwrap();
        fs::write(root.join("d/f"), [7; 5000]).unwrap();
        fs::write(root.join("empty"), []).unwrap();
        std::os::unix::fs::symlink("d/f", root.join("l")).unwrap();
        let seen = Seen::of(&root).unwrap();
        assert_eq!(seen.bytes["/d/f"], [7; 5000]);
        assert_eq!(
            (&seen.bytes["/l"][..], seen.bytes["/empty"].len()),
            (&b"d/f"[..], 0)
        );
        let file = dir.path().join("seen");
        seen.save(&file).unwrap();
        assert_eq!(Seen::load(&file).unwrap(), seen);
        let raw = fs::read(&file).unwrap();
        for len in [0, 5, 100, raw.len() - 1] {
            fs::write(&file, &raw[..len]).unwrap();
            assert!(Seen::load(&file).is_err(), "{len}");
        }
        fs::write(&file, [&raw[..], b"x"].concat()).unwrap();
        assert!(Seen::load(&file).is_err());
    }
}
