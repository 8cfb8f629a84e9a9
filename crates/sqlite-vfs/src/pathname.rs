//! xFullPathname: makes a path absolute, without dots and symlinks.

use vfs::{Errno, FileKind, FsResult, SYMLINKS_MAX, Vfs};

/// A full path and whether symlinks were on the way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FullPath {
    /// The path, from the root of the volume.
    pub path: Vec<u8>,
    /// Whether symlinks were on the way.
    pub symlinks: bool,
}

/// Follows `path` as far as it exists; what does not exist is taken as it stands.
///
/// # Errors
/// Those of the file system; a circle of symlinks; the root.
pub fn full(vfs: &Vfs, path: &[u8]) -> FsResult<FullPath> {
    let mut out: Vec<u8> = Vec::new();
    let mut links = 0;
    let mut todo: Vec<Vec<u8>> = reversed(path);
    while let Some(name) = todo.pop() {
        if name == b".." {
            out.truncate(out.iter().rposition(|&b| b == b'/').unwrap_or(0));
            continue;
        }
        let parent = out.len();
        out.push(b'/');
        out.extend_from_slice(&name);
        let kind = match vfs.lstat(&out) {
            Ok(attr) => attr.kind,
            Err(error) if error.errno() == Errno::NoEnt => continue,
            Err(error) => return Err(error),
        };
        if kind == FileKind::Symlink {
            links += 1;
            if links > SYMLINKS_MAX {
                return Err(Errno::Loop.into());
            }
            let target = vfs.readlink(&out)?;
            out.truncate(if target.starts_with(b"/") { 0 } else { parent });
            todo.extend(reversed(&target));
        }
    }
    if out.is_empty() {
        return Err(Errno::IsDir.into());
    }
    Ok(FullPath {
        path: out,
        symlinks: links > 0,
    })
}

fn reversed(path: &[u8]) -> Vec<Vec<u8>> {
    path.rsplit(|&b| b == b'/')
        .filter(|part| !part.is_empty() && *part != b".")
        .map(<[u8]>::to_vec)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::model::ModelFs;

    #[test]
    fn dots_and_symlinks_are_gone() {
        let vfs = Vfs::new(ModelFs::new());
        vfs.mkdir("/d", 0o755).unwrap();
        vfs.symlink("d", "/to_d").unwrap();
        vfs.symlink("/to_d/db", "/d/link").unwrap();
        vfs.symlink("loop", "/loop").unwrap();
        let plain = [("x", "/x"), ("/./d//x", "/d/x"), ("/../d/../x.db", "/x.db")];
        for (path, expected) in plain {
            let full = full(&vfs, path.as_bytes()).unwrap();
            assert_eq!(
                (&full.path[..], full.symlinks),
                (expected.as_bytes(), false)
            );
        }
        for (path, expected) in [("to_d/x", "/d/x"), ("/d/link", "/d/db")] {
            let full = full(&vfs, path.as_bytes()).unwrap();
            assert_eq!((&full.path[..], full.symlinks), (expected.as_bytes(), true));
        }
        for (path, errno) in [
            ("/loop", Errno::Loop),
            ("/", Errno::IsDir),
            ("/d/..", Errno::IsDir),
        ] {
            assert_eq!(full(&vfs, path.as_bytes()).unwrap_err().errno(), errno);
        }
    }
}
