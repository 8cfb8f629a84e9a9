//! Copies a tree of the host into a volume, with modes, owners, times, links, holes and attributes.

use super::copy::CHUNK_BYTES;
use super::tree;
use crate::failure::{Failure, failed, tell, usage};
use base::plain::shown;
use rig::{Errno, FsError, OpenFile, OpenFlags, SetAttr, TimeSet, Vfs, WallTime, XattrMode};
use rustix::fs as unix;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// Zeros of this length, at a multiple of it, are left out: a hole.
const HOLE_BYTES: usize = 4096;
/// Longest value of an attribute, and longest list of names, in Linux.
const XATTR_BYTES_MAX: usize = 64 << 10;

/// Refuses sources that cannot be copied, before the image is changed.
pub fn examine(source: &Path, recursive: bool) -> Result<(), Failure> {
    let meta = fs::symlink_metadata(source).map_err(|e| of_host(source, &e))?;
    if meta.is_dir() && !recursive {
        let name = source.display();
        return Err(usage(format!("{name}: is a directory; say -r")));
    }
    Ok(())
}

fn of_host(source: &Path, e: &std::io::Error) -> Failure {
    failed(format!("{}: {e}", source.display()))
}

/// Copies into one volume.
pub struct Putter<'a> {
    vfs: &'a Arc<Vfs>,
    /// What messages call the volume.
    name: String,
    /// Where the first name of a file with several links went, by device and inode of the host.
    links: BTreeMap<(u64, u64), Vec<u8>>,
    /// Extended attributes that the volume refused, and why the first.
    refused: Option<(u64, String)>,
}

impl<'a> Putter<'a> {
    /// A copier into the volume, which messages call `name`.
    pub fn new(vfs: &'a Arc<Vfs>, name: String) -> Putter<'a> {
        Putter {
            vfs,
            name,
            links: BTreeMap::new(),
            refused: None,
        }
    }

    /// Reports what the volume refused.
    pub fn tell(&self) {
        if let Some((count, first)) = &self.refused {
            let name = &self.name;
            tell(format!(
                "{name} refused {count} extended attributes: {first}"
            ));
        }
    }

    fn inside(&self, path: &[u8]) -> impl Fn(FsError) -> Failure + use<> {
        let text = format!("{}:{}", self.name, shown(path));
        move |e| failed(format!("{text}: {e}"))
    }

    /// Copies the file at `source`, and if it is a directory everything in it.
    pub fn put(&mut self, source: &Path, path: &[u8]) -> Result<(), Failure> {
        let meta = fs::symlink_metadata(source).map_err(|e| of_host(source, &e))?;
        if meta.is_dir() {
            return self.put_dir(source, &meta, path);
        }
        let id = (meta.dev(), meta.ino());
        if let Some(first) = self.links.get(&id) {
            self.clear(path)?;
            let vfs = self.vfs;
            return vfs.link(first, path).map(drop).map_err(self.inside(path));
        }
        if meta.is_symlink() {
            let to = fs::read_link(source).map_err(|e| of_host(source, &e))?;
            self.clear(path)?;
            let vfs = self.vfs;
            vfs.symlink(to.as_os_str().as_bytes(), path)
                .map_err(self.inside(path))?;
        } else if meta.is_file() {
            self.put_file(source, &meta, path)?;
        } else {
            let name = source.display();
            return Err(failed(format!(
                "{name}: is neither file, directory nor symbolic link; leave it out"
            )));
        }
        if meta.nlink() > 1 {
            self.links.insert(id, path.to_vec());
        }
        Ok(())
    }

    /// Makes room for a link: a file of that name goes.
    fn clear(&self, path: &[u8]) -> Result<(), Failure> {
        match self.vfs.unlink(path) {
            Err(e) if e.errno() != Errno::NoEnt => Err(self.inside(path)(e)),
            _ => Ok(()),
        }
    }

    fn put_dir(&mut self, source: &Path, meta: &Metadata, path: &[u8]) -> Result<(), Failure> {
        match self.vfs.mkdir(path, permissions(meta)) {
            Ok(_) => {}
            Err(e) if e.errno() == Errno::Exist => {}
            Err(e) => return Err(self.inside(path)(e)),
        }
        let mut names: Vec<_> = (fs::read_dir(source).map_err(|e| of_host(source, &e))?)
            .map(|entry| entry.map(|e| e.file_name()))
            .collect::<Result<_, _>>()
            .map_err(|e| of_host(source, &e))?;
        names.sort();
        for name in &names {
            self.put(&source.join(name), &tree::join(path, name.as_bytes()))?;
        }
        // Last: what is put into a directory changes its times.
        self.dress(source, meta, path)
    }

    fn put_file(&mut self, source: &Path, meta: &Metadata, path: &[u8]) -> Result<(), Failure> {
        let inside = self.inside(path);
        let mut from = File::open(source).map_err(|e| of_host(source, &e))?;
        let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNC;
        let opened = self.vfs.open(path, flags, permissions(meta));
        let file = opened.map_err(&inside)?;
        let filled = fill(&file, &mut from, &inside, &|e| of_host(source, &e));
        file.close().map_err(&inside)?;
        filled?;
        self.dress(source, meta, path)
    }

    /// Extended attributes, owner, permissions and times.
    fn dress(&mut self, source: &Path, meta: &Metadata, path: &[u8]) -> Result<(), Failure> {
        let vfs = self.vfs;
        for (name, value) in attributes(source) {
            if let Err(e) = vfs.lsetxattr(path, &name, &value, XattrMode::Any) {
                let first = format!("{} of {}: {e}", shown(&name), shown(path));
                self.refused.get_or_insert((0, first)).0 += 1;
            }
        }
        let time = |secs, nanos: i64| {
            let nanos = u32::try_from(nanos).unwrap_or(0);
            Some(TimeSet::To(WallTime { secs, nanos }))
        };
        // The owner first: a change of it takes set-user-ID away.
        let owned = vfs.chown(path, Some(meta.uid()), Some(meta.gid()));
        owned.map_err(self.inside(path))?;
        let set = SetAttr {
            perm: Some(permissions(meta)),
            atime: time(meta.atime(), meta.atime_nsec()),
            mtime: time(meta.mtime(), meta.mtime_nsec()),
            ..SetAttr::default()
        };
        let done = vfs.set_attr(path, &set).map(drop);
        done.map_err(self.inside(path))
    }
}

fn permissions(meta: &Metadata) -> u16 {
    (meta.mode() & 0o7777) as u16
}

/// Names and values of the attributes that the host shows us.
fn attributes(source: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut names = vec![0; XATTR_BYTES_MAX];
    let len = unix::llistxattr(source, &mut names[..]).unwrap_or(0);
    let names = names[..len].split(|&b| b == 0).filter(|n| !n.is_empty());
    let value = |name: &[u8]| {
        let mut value = vec![0; XATTR_BYTES_MAX];
        let len = unix::lgetxattr(source, OsStr::from_bytes(name), &mut value[..]).ok()?;
        value.truncate(len);
        Some((name.to_vec(), value))
    };
    names.filter_map(value).collect()
}

fn fill(
    file: &OpenFile,
    from: &mut File,
    inside: &dyn Fn(FsError) -> Failure,
    host: &dyn Fn(std::io::Error) -> Failure,
) -> Result<(), Failure> {
    let mut buf = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    loop {
        let n = read_full(from, &mut buf).map_err(host)?;
        if n == 0 {
            return file.truncate(offset).map_err(inside);
        }
        for (at, bytes) in pieces(&buf[..n]) {
            let mut done = 0;
            while done < bytes.len() {
                let to = offset + (at + done) as u64;
                done += file.write_at(to, &bytes[done..]).map_err(inside)?;
            }
        }
        offset += n as u64;
    }
}

/// Reads until `buf` is full or the file ends.
fn read_full(from: &mut File, buf: &mut [u8]) -> std::io::Result<usize> {
    let mut len = 0;
    while len < buf.len() {
        match from.read(&mut buf[len..])? {
            0 => break,
            n => len += n,
        }
    }
    Ok(len)
}

/// The parts that are no holes: runs of blocks that are not all zeros, with their offset.
pub fn pieces(bytes: &[u8]) -> Vec<(usize, &[u8])> {
    let mut found = Vec::new();
    let mut start = None;
    for (i, block) in bytes.chunks(HOLE_BYTES).enumerate() {
        let at = i * HOLE_BYTES;
        match (start, block.iter().all(|&b| b == 0)) {
            (None, false) => start = Some(at),
            (Some(from), true) => {
                found.push((from, &bytes[from..at]));
                start = None;
            }
            _ => {}
        }
    }
    if let Some(from) = start {
        found.push((from, &bytes[from..]));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_zeros_are_left_out() {
        let mut bytes = vec![0; 5 * HOLE_BYTES + 10];
        bytes[HOLE_BYTES] = 1;
        bytes[3 * HOLE_BYTES - 1] = 1;
        bytes[5 * HOLE_BYTES + 9] = 1;
        let found: Vec<_> = (pieces(&bytes).into_iter())
            .map(|(at, bytes)| (at, bytes.len()))
            .collect();
        assert_eq!(found, [(HOLE_BYTES, 2 * HOLE_BYTES), (5 * HOLE_BYTES, 10)]);
        assert!(pieces(&[0; HOLE_BYTES]).is_empty());
    }
}
