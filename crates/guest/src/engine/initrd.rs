//! The first root of a guest in QEMU: loads the modules that its real root needs, mounts that, and
//! hands over to the boot script.
//!
//! It is an archive of the format that the kernel knows as `newc`
//! (Documentation/driver-api/early-userspace/buffer-format.rst): for each file a header of
//! hexadecimal numbers, the name, the content, each padded to 4 bytes.

use super::qemu::SHARE;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A file that may be executed, a directory.
const FILE: u32 = 0o100_755;
const DIR: u32 = 0o040_755;

/// The archive: `busybox` has to be linked statically, `modules` are loaded in this order, `init`
/// is the boot script's path on the host.
///
/// # Errors
/// A file cannot be read.
pub(super) fn make(busybox: &Path, modules: &[PathBuf], init: &Path) -> io::Result<Vec<u8>> {
    let mut archive = Archive(Vec::new());
    for dir in ["bin", "modules", "root", "proc", "dev"] {
        archive.add(dir, DIR, &[]);
    }
    archive.add("bin/busybox", FILE, &fs::read(busybox)?);
    let mut names: Vec<String> = Vec::new();
    for module in modules {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("modules/{name}");
        if !names.contains(&name) {
            archive.add(&name, FILE, &fs::read(module)?);
            names.push(name);
        }
    }
    let load: String = names
        .iter()
        .map(|name| format!("/bin/busybox insmod /{name}\n"))
        .collect();
    let script = format!(
        "#!/bin/busybox sh\n\
         /bin/busybox mount -t devtmpfs dev /dev\n\
         {load}\
         /bin/busybox mount -t 9p -o ro,{SHARE},cache=loose host /root\n\
         /bin/busybox mount -o move /dev /root/dev\n\
         exec /bin/busybox switch_root /root {}\n",
        init.display()
    );
    archive.add("init", FILE, script.as_bytes());
    archive.add("TRAILER!!!", 0, &[]);
    Ok(archive.0)
}

struct Archive(Vec<u8>);

impl Archive {
    fn add(&mut self, name: &str, mode: u32, content: &[u8]) {
        let number = self.0.len() as u32 / 4 + 1;
        let fields = [
            number,
            mode,
            0, // owner
            0, // group
            1, // links
            0, // time
            content.len() as u32,
            0, // device of the file: major, minor
            0,
            0, // what it is a device file of: major, minor
            0,
            name.len() as u32 + 1,
            0, // checksum, which this format does not have
        ];
        self.0.extend_from_slice(b"070701");
        for field in fields {
            self.0.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(0);
        self.pad();
        self.0.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_as_the_kernel_reads_it() {
        let mut archive = Archive(Vec::new());
        archive.add("ab", FILE, b"content");
        archive.add("TRAILER!!!", 0, &[]);
        let bytes = archive.0;
        assert_eq!(&bytes[..6], b"070701");
        assert_eq!(&bytes[14..22], b"000081ED", "mode");
        assert_eq!(&bytes[54..62], b"00000007", "bytes of content");
        assert_eq!(&bytes[94..102], b"00000003", "bytes of the name");
        // The header has 110 bytes; with the name 113, padded to 116.
        assert_eq!(&bytes[110..116], b"ab\0\0\0\0");
        assert_eq!(&bytes[116..124], b"content\0");
        assert_eq!(&bytes[124..130], b"070701");
        assert!(bytes.len().is_multiple_of(4));
    }
}
