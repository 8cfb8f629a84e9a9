//! The Debian package: what stands in it beside the files, and `dpkg-deb`, which packs it.

use super::{ARCHITECTURE, EPOCH, Effort, make_folder, write};
use crate::Result;
use crate::sh::sh;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Who may do what, in the form that Debian's policy asks for (copyright-format 1.0).
pub const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: varve

Files: *
Copyright: The Varve authors
License: MIT or Apache-2.0

Files: usr/bin/varve
Comment: Each page of results carries the programs Vega and Vega-Lite, which draw its plots. Other
 parts and their licences are listed in the bill of materials of the release (CycloneDX).
Copyright: The Varve authors, University of Washington Interactive Data Lab
License: (MIT or Apache-2.0) and BSD-3-Clause

License: BSD-3-Clause
 The texts stand in /usr/share/doc/varve/LICENSE-vega and LICENSE-vega-lite.

License: MIT
 The text stands in /usr/share/doc/varve/LICENSE-MIT.

License: Apache-2.0
 The text stands in /usr/share/doc/varve/LICENSE-APACHE, and on Debian systems in
 /usr/share/common-licenses/Apache-2.0.
";

/// Packs the tree.
pub fn package(tree: &Path, file: &Path, version: &str, effort: Effort) -> Result<PathBuf> {
    let files = regular_files(tree)?;
    let control = tree.join("DEBIAN/control");
    make_folder(&control)?;
    let (mut bytes, mut sums) = (0, String::new());
    for file in &files {
        bytes += super::size(&tree.join(file))?;
        sums.push_str(&format!("{}  {}\n", md5(&tree.join(file))?, file.display()));
    }
    let kib = bytes.div_ceil(1024);
    write(&tree.join("DEBIAN/md5sums"), sums.as_bytes())?;
    let text = format!(
        "Package: varve\nVersion: {version}\nArchitecture: {ARCHITECTURE}\nMaintainer: The Varve authors <varve@example.org>\nSection: admin\nPriority: optional\nInstalled-Size: {kib}\n\
         Suggests: fuse3, e2fsprogs, f2fs-tools\nDescription: journaling on flash storage: compare schemes, trust them, use them\n \
         Models of eMMC, NVMe, UFS and raw flash, a journal compatible with JBD2, ext4\n and F2FS in user space, and an explorer of power cuts.\n"
    );
    write(&control, text.as_bytes())?;
    let compression: &[&str] = match effort {
        Effort::Most => &[],
        Effort::Least => &["-Zgzip", "-z1"],
    };
    let made = Command::new("dpkg-deb")
        .env("SOURCE_DATE_EPOCH", &EPOCH[1..])
        .args(compression)
        .args(["--root-owner-group", "--build"])
        .arg(tree)
        .arg(file)
        .output();
    let made = made.map_err(|e| format!("dpkg-deb: {e}"))?;
    let _ = fs::remove_dir_all(tree.join("DEBIAN"));
    match made.status.success() {
        true => Ok(file.to_path_buf()),
        false => Err(format!(
            "dpkg-deb: {}",
            String::from_utf8_lossy(&made.stderr).trim()
        )),
    }
}

/// The files of a tree without its links, by their paths in it, in order.
fn regular_files(tree: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![tree.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for path in super::files_in(&folder)? {
            if path.is_symlink() {
                continue;
            }
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let inside = path.strip_prefix(tree).map_err(|e| e.to_string())?;
                    found.push(inside.to_path_buf());
                }
            }
        }
    }
    found.sort();
    Ok(found)
}

/// MD5 of a file, in hexadecimal: dpkg(1) compares with it what is installed.
fn md5(file: &Path) -> Result<String> {
    let line = sh("md5sum", &[&file.to_string_lossy()])?;
    Ok(line.split(' ').next().unwrap_or_default().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_listed_by_their_paths_and_links_are_not() {
        let tree = tempfile::tempdir().unwrap();
        for file in ["usr/bin/b", "usr/bin/a", "top"] {
            let file = tree.path().join(file);
            make_folder(&file).unwrap();
            write(&file, b"x").unwrap();
        }
        std::os::unix::fs::symlink("a", tree.path().join("usr/bin/link")).unwrap();
        let found = regular_files(tree.path()).unwrap();
        assert_eq!(found, ["top", "usr/bin/a", "usr/bin/b"].map(PathBuf::from));
    }
}
