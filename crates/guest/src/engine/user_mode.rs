//! User Mode Linux: a kernel that is an ordinary program of the host (Debian package
//! `user-mode-linux`).
//!
//! Its disk `ubd` (seen with 6.1.176) has a volatile write cache and no FUA, so the kernel turns a
//! FUA write into write and flush. A flush is an fsync of the image file.

use crate::modules;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Names of the program: Debian's package has the first, a kernel of one's own build the second.
const PROGRAMS: [&str; 2] = ["linux.uml", "linux"];

/// The kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Program(PathBuf);

impl Program {
    /// The kernel of this machine, if its modules have F2FS.
    pub fn find() -> Result<Program, String> {
        let program = super::program(&PROGRAMS)
            .ok_or_else(|| format!("no User Mode Linux (program `{}`)", PROGRAMS[0]))?;
        modules::of_user_mode()
            .and_then(|place| place.files_of("f2fs"))
            .map_err(|e| format!("User Mode Linux without F2FS: {e}"))?;
        Ok(Program(program))
    }

    pub fn start(&self, dir: &Path, memory: u32, disks: &[PathBuf]) -> io::Result<Child> {
        let mut command = Command::new(&self.0);
        command
            .args([
                &format!("mem={memory}M"),
                "rootfstype=hostfs",
                "root=/dev/root",
                "hostfs=/",
                "ro",
            ])
            .args(["con=null", "con0=null,fd:1", "panic=-1"])
            .arg(format!("init={}/init", dir.display()))
            .arg(format!("uml_dir={}/", dir.display()))
            .env("TMPDIR", dir)
            .stdin(Stdio::null())
            .stdout(File::create(dir.join("console"))?)
            .stderr(Stdio::null())
            .process_group(0);
        for (n, image) in disks.iter().enumerate() {
            // Relative paths would be looked up in the guest's view of its current directory.
            let image = fs::canonicalize(image)?;
            command.arg(format!("ubd{}={}", super::letter(n + 1), image.display()));
        }
        command.spawn()
    }
}
