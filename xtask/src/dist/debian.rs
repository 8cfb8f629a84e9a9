//! The Debian package: what stands in it beside the files, and `dpkg-deb`, which packs it.

use super::{ARCHITECTURE, EPOCH, make_folder, write};
use crate::Result;
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

License: MIT
 The text stands in /usr/share/doc/varve/LICENSE-MIT.

License: Apache-2.0
 The text stands in /usr/share/doc/varve/LICENSE-APACHE, and on Debian systems in
 /usr/share/common-licenses/Apache-2.0.
";

/// Packs the tree.
pub fn package(tree: &Path, file: &Path, version: &str) -> Result<PathBuf> {
    let control = tree.join("DEBIAN/control");
    make_folder(&control)?;
    let text = format!(
        "Package: varve\nVersion: {version}\nArchitecture: {ARCHITECTURE}\nMaintainer: The Varve authors <varve@example.org>\nSection: admin\nPriority: optional\n\
         Suggests: fuse3, e2fsprogs, f2fs-tools\nDescription: journaling on flash storage: compare schemes, trust them, use them\n \
         Models of eMMC, NVMe, UFS and raw flash, a journal compatible with JBD2, ext4\n and F2FS in user space, and an explorer of power cuts.\n"
    );
    write(&control, text.as_bytes())?;
    let made = Command::new("dpkg-deb")
        .env("SOURCE_DATE_EPOCH", &EPOCH[1..])
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
