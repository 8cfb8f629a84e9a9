//! Names of databases: `IMAGE:/PATH` (sqlite-ext-E3). The last `:/` parts the image, a file or
//! block device of the host, from the path in it, as in `varve ls IMAGE:/PATH`.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A name, taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name {
    /// The image.
    pub image: PathBuf,
    /// The path in it, from its root.
    pub path: Vec<u8>,
}

impl Name {
    /// Takes a full name apart, or one as a user writes it.
    ///
    /// # Errors
    /// The name has no image, or no path; a text for the user.
    pub fn parse(name: &[u8]) -> Result<Name, String> {
        let shown = String::from_utf8_lossy(name);
        let at = name.windows(2).rposition(|pair| pair == b":/");
        let Some(at) = at.filter(|&at| at > 0) else {
            return Err(format!(
                "{shown}: say an image and a path in it, as in `file:app.img:/app.db?vfs=varve`"
            ));
        };
        Ok(Name {
            image: PathBuf::from(OsStr::from_bytes(&name[..at])),
            path: name[at + 1..].to_vec(),
        })
    }

    /// The same with an absolute image without symbolic links, and a path without dots. Symbolic
    /// links in the path stay: the volume may not be there yet, and opening refuses a link as the
    /// database itself.
    ///
    /// # Errors
    /// The folder of the image is not there; the path is that of the root.
    pub fn full(&self) -> Result<Name, String> {
        let image = absolute(&self.image).map_err(|e| format!("{}: {e}", self.image.display()))?;
        let path = without_dots(&self.path);
        if path == b"/" {
            return Err(format!("{}:/: is a directory", self.image.display()));
        }
        Ok(Name { image, path })
    }

    /// The name as SQLite keeps it.
    pub fn bytes(&self) -> Vec<u8> {
        [self.image.as_os_str().as_bytes(), b":", &self.path].concat()
    }
}

/// The image may be missing; its folder may not.
fn absolute(image: &Path) -> io::Result<PathBuf> {
    match image.canonicalize() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    let folder = match image.parent() {
        None => Path::new("/"),
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
    };
    let folder = folder.canonicalize();
    let folder = folder.map_err(|e| io::Error::new(e.kind(), format!("its folder: {e}")))?;
    let name = image.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    Ok(folder.join(name))
}

fn without_dots(path: &[u8]) -> Vec<u8> {
    let mut out: Vec<&[u8]> = Vec::new();
    for part in path.split(|&b| b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(out.pop()),
            name => out.push(name),
        }
    }
    [b"/", &out.join(&b'/')[..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_mark_parts_image_and_path() {
        let name = Name::parse(b"a:/b.img:/d/x.db-journal").unwrap();
        assert_eq!(name.image, Path::new("a:/b.img"));
        assert_eq!(name.path, b"/d/x.db-journal");
        for wrong in [&b"app.db"[..], b":/app.db", b"", b"a.img:app.db"] {
            let e = Name::parse(wrong).unwrap_err();
            assert!(e.contains("file:app.img:/app.db?vfs=varve"), "{e}");
        }
    }

    #[test]
    fn a_full_name_is_absolute_and_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::os::unix::fs::symlink(&root, root.join("link")).unwrap();
        let written = [
            root.join("link/a.img").as_os_str().as_bytes(),
            b":/x/../d/./y.db",
        ]
        .concat();
        let full = Name::parse(&written).unwrap().full().unwrap();
        assert_eq!(full.image, root.join("a.img"));
        assert_eq!(full.path, b"/d/y.db");
        assert_eq!(Name::parse(&full.bytes()).unwrap().full().unwrap(), full);
        let e = Name::parse(b"/nowhere/a.img:/x")
            .unwrap()
            .full()
            .unwrap_err();
        assert!(e.contains("/nowhere/a.img: its folder"), "{e}");
        let e = Name::parse(b"/a.img:/x/..").unwrap().full().unwrap_err();
        assert!(e.contains("is a directory"), "{e}");
    }
}
